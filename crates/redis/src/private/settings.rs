//! The private server's folder and configuration file.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::PrivateServerError;

/// Longest path of a unix socket that the system takes, bytes (108 with the closing zero).
const SOCKET_PATH_MAX: usize = 107;
/// Share of the machine's memory that the server may use when nothing is said.
const MEMORY_SHARE: u64 = 2;
/// Bytes of the append-only file below which it is not rewritten. Redis' own 64 MB are a minute of a busy chain: the copy of the process that
/// rewrites takes a core and makes the server copy every page that it touches. Half a gigabyte is read again in a few seconds.
const REWRITE_MIN: u64 = 512 << 20;
/// The least limit that is set, so that a small machine still works.
const MEMORY_MIN: u64 = 64 << 20;

/// How the private server is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateOptions {
    /// Its folder; made if it is missing.
    pub dir: PathBuf,
    /// Bytes of memory it may use; beyond, writes are refused and nothing is deleted. Default: half of the machine's.
    pub memory_bytes: Option<u64>,
}

impl PrivateOptions {
    /// The defaults in this folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            memory_bytes: None,
        }
    }
}

/// The server's folder, made and described.
#[derive(Debug)]
pub(super) struct Home {
    /// The folder, as an absolute path without links.
    pub(super) dir: PathBuf,
    /// A short way to the folder where its own path is too long for a socket: a temporary folder with a link to it.
    short: Option<tempfile::TempDir>,
}

impl Home {
    /// Makes the folder, readable for nobody else, and writes the configuration file.
    pub(super) fn prepare(options: &PrivateOptions) -> Result<Self, PrivateServerError> {
        let trouble = |path: &Path| {
            let path = path.to_owned();
            move |cause| PrivateServerError::Folder { path, cause }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&options.dir)
            .map_err(trouble(&options.dir))?;
        let dir = std::fs::canonicalize(&options.dir).map_err(trouble(&options.dir))?;
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700))
            .map_err(trouble(&dir))?;
        let home = Self::at(dir).map_err(trouble(&options.dir))?;
        let memory = options.memory_bytes.unwrap_or_else(default_memory);
        let path = home.config_file();
        // A new file each time: options that were left out are the server's defaults again.
        let written = path.with_extension("conf.new");
        write_private(&written, &config_text(memory))
            .and_then(|()| std::fs::rename(&written, &path))
            .map_err(trouble(&path))?;
        Ok(home)
    }

    /// A folder that is there, by its absolute path without links.
    pub(super) fn at(dir: PathBuf) -> std::io::Result<Self> {
        let short = if dir.join(SOCKET).as_os_str().len() > SOCKET_PATH_MAX {
            let short = tempfile::Builder::new().prefix("cairn-redis-").tempdir()?;
            std::os::unix::fs::symlink(&dir, short.path().join("r"))?;
            Some(short)
        } else {
            None
        };
        Ok(Self { dir, short })
    }

    /// The path by which a client reaches the socket.
    pub(super) fn socket(&self) -> PathBuf {
        match &self.short {
            Some(short) => short.path().join("r").join(SOCKET),
            None => self.dir.join(SOCKET),
        }
    }

    pub(super) fn config_file(&self) -> PathBuf {
        self.dir.join(CONFIG)
    }

    pub(super) fn pid_file(&self) -> PathBuf {
        self.dir.join(PID)
    }
}

const SOCKET: &str = "redis.sock";
const CONFIG: &str = "redis.conf";
const PID: &str = "redis.pid";

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Paths in it are relative: the server is started in its folder, whose name may hold anything.
fn config_text(memory_bytes: u64) -> String {
    format!(
        "# Written by Cairn at each start.\n\
         port 0\n\
         unixsocket {SOCKET}\n\
         unixsocketperm 700\n\
         daemonize no\n\
         pidfile {PID}\n\
         dir .\n\
         databases 1\n\
         appendonly yes\n\
         appendfsync everysec\n\
         save \"\"\n\
         rdbcompression no\n\
         auto-aof-rewrite-min-size {REWRITE_MIN}\n\
         maxmemory {memory_bytes}\n\
         maxmemory-policy noeviction\n\
         stream-node-max-bytes 16kb\n\
         stream-node-max-entries 100\n"
    )
}

fn default_memory() -> u64 {
    let total = memory_limit().map_or(1 << 30, |total| total / MEMORY_SHARE);
    total.max(MEMORY_MIN)
}

/// What the machine has, or what the process's group may use, whichever is less.
fn memory_limit() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| mem_total(&text));
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    match (machine, group) {
        (Some(machine), Some(group)) => Some(std::cmp::min(machine, group)),
        (one, other) => one.or(other),
    }
}

fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read() {
        assert_eq!(
            mem_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"),
            Some(16 << 20)
        );
        assert_eq!(mem_total("MemTotal: 18446744073709551615 kB"), None);
        assert_eq!(mem_total("nothing"), None);
        assert!(default_memory() >= MEMORY_MIN);
    }

    #[test]
    fn the_folder_is_ours_alone_and_a_long_one_gets_a_short_way() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let short = Home::prepare(&PrivateOptions::new(base.path().join("a"))).expect("writable");
        let mode = std::fs::metadata(&short.dir)
            .expect("made")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(short.socket(), short.dir.join(SOCKET));
        let long = base.path().join("x".repeat(120)).join("r");
        let home = Home::prepare(&PrivateOptions::new(&long)).expect("writable");
        let socket = home.socket();
        assert!(
            socket.as_os_str().len() <= SOCKET_PATH_MAX,
            "{}",
            socket.display()
        );
        std::fs::write(home.dir.join(SOCKET), "x").expect("writable");
        assert!(socket.exists(), "the short way leads into the folder");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let base = tempfile::tempdir().expect("a temporary folder");
        let file = base.path().join("file");
        std::fs::write(&file, "x").expect("writable");
        let error =
            Home::prepare(&PrivateOptions::new(file.join("redis"))).expect_err("below a file");
        assert!(error.to_string().contains("file/redis"), "{error}");
    }
}

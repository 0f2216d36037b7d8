//! One `redis-server` in a temporary folder.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Client, Connection};
use tempfile::TempDir;

/// The environment variable that names another program.
const EXE_VARIABLE: &str = "REDIS_SERVER_EXE";
/// How long a server may take until it answers.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const POLL: Duration = Duration::from_millis(20);
/// Attempts at finding a port that nobody else takes between our look and the server's.
const START_ATTEMPTS: u32 = 5;

/// How a server is started.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// Whether an append-only file is kept, written at each command (`appendfsync everysec`).
    pub append_only: bool,
    /// A password that clients need.
    pub password: Option<String>,
    /// Bytes of memory at which writes are refused.
    pub max_memory: Option<u64>,
    /// Further arguments, as on the command line.
    pub extra_args: Vec<String>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            append_only: true,
            password: None,
            max_memory: None,
            extra_args: Vec::new(),
        }
    }
}

/// A running server. Dropping it kills the process and deletes its folder.
#[derive(Debug)]
pub struct RedisServer {
    options: RedisOptions,
    // Held for its deletion.
    dir: TempDir,
    port: u16,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server with an append-only file; returns when it answers.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn start() -> Self {
        Self::start_with(RedisOptions::default())
    }

    /// Starts a server with these options.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn start_with(options: RedisOptions) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("cairn-redis-")
            .tempdir()
            .expect("a temporary folder");
        let mut server = Self {
            options,
            dir,
            port: free_port(),
            child: None,
        };
        let mut attempt = 1;
        while let Err(reason) = server.launch() {
            assert!(
                attempt < START_ATTEMPTS && reason.contains("bind"),
                "redis-server does not start: {reason}"
            );
            attempt += 1;
            server.port = free_port();
        }
        server
    }

    fn launch(&mut self) -> Result<(), String> {
        let mut command = Command::new(program());
        command
            .current_dir(self.dir.path())
            .args(["--bind", "127.0.0.1", "--daemonize", "no", "--save", ""])
            .args(["--port", &self.port.to_string()])
            .args(["--unixsocket", "redis.sock", "--unixsocketperm", "700"])
            .args(["--logfile", "redis.log"])
            .args([
                "--appendonly",
                if self.options.append_only {
                    "yes"
                } else {
                    "no"
                },
            ]);
        if let Some(password) = &self.options.password {
            command.args(["--requirepass", password, "--masterauth", password]);
        }
        if let Some(bytes) = self.options.max_memory {
            command.args([
                "--maxmemory",
                &bytes.to_string(),
                "--maxmemory-policy",
                "noeviction",
            ]);
        }
        let child = command
            .args(&self.options.extra_args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|cause| format!("{}: {cause}", program().display()))?;
        self.child = Some(child);
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(child) = self.child.as_mut()
                && let Ok(Some(status)) = child.try_wait()
            {
                self.child = None;
                return Err(format!("{status}; {}", self.log_tail()));
            }
            match self.try_connection() {
                Ok(mut connection) => {
                    let pong: redis::RedisResult<String> =
                        redis::cmd("PING").query(&mut connection);
                    if pong.is_ok() {
                        return Ok(());
                    }
                }
                Err(error) if Instant::now() > deadline => return Err(error.to_string()),
                Err(_) => {}
            }
            if Instant::now() > deadline {
                return Err(format!("no answer; {}", self.log_tail()));
            }
            std::thread::sleep(POLL);
        }
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(self.dir.path().join("redis.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join(" | ")
    }

    fn login(&self) -> String {
        match &self.options.password {
            Some(password) => format!(":{password}@"),
            None => String::new(),
        }
    }

    /// Its URL over TCP, with the password.
    pub fn url(&self) -> String {
        format!("redis://{}127.0.0.1:{}", self.login(), self.port)
    }

    /// Its URL over the unix socket, without the password.
    pub fn unix_url(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// Its unix socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process id; `None` while it is stopped.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn try_connection(&self) -> redis::RedisResult<Connection> {
        Client::open(self.url())?.get_connection_with_timeout(TIMEOUT)
    }

    /// A connection of the test's own.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn connection(&self) -> Connection {
        self.try_connection().expect("the server answers")
    }

    /// Runs one command, its words separated by spaces.
    ///
    /// # Panics
    ///
    /// When the server refuses it or the answer is of another type.
    pub fn run<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split_whitespace();
        let mut cmd = redis::cmd(words.next().expect("a command"));
        words.for_each(|word| {
            cmd.arg(word);
        });
        cmd.query(&mut self.connection())
            .unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    /// Changes a setting while it runs.
    ///
    /// # Panics
    ///
    /// When the server does not take it.
    pub fn config_set(&self, name: &str, value: &str) {
        redis::cmd("CONFIG")
            .arg("SET")
            .arg(name)
            .arg(value)
            .query::<()>(&mut self.connection())
            .unwrap_or_else(|error| panic!("CONFIG SET {name} {value}: {error}"));
    }

    /// Ends the process at once (SIGKILL).
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails only if it is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again on the same folder and port.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn restart(&mut self) {
        self.kill();
        if let Err(reason) = self.launch() {
            panic!("redis-server does not start again: {reason}");
        }
    }

    /// Stops the process in its tracks (SIGSTOP): it keeps its connections and answers nothing.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.pid().expect("it runs");
        let sent = Command::new("sh")
            .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name])
            .arg(pid.to_string())
            .status()
            .expect("a shell");
        assert!(sent.success(), "SIG{name} to {pid}");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that is free now.
pub(super) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}

fn program() -> PathBuf {
    std::env::var_os(EXE_VARIABLE).map_or_else(|| PathBuf::from("redis-server"), PathBuf::from)
}

/// Asks again until the answer is yes.
pub(super) fn wait_until(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !check() {
        assert!(
            Instant::now() < deadline,
            "{what}: not within {} s",
            TIMEOUT.as_secs()
        );
        std::thread::sleep(POLL);
    }
}

//! Running the program and asking it over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use cairn_testkit::{BlkOptions, TestChain, write_blocks};
use serde_json::Value;
use tempfile::TempDir;

/// Time for anything that should take a moment, on a slow and busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Time from SIGTERM to the end of the process.
pub(crate) const STOP_TIME: Duration = Duration::from_secs(5);

/// The program in a folder of its own, without the variables of whoever runs the tests.
pub(crate) fn cairn(dir: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("cairn"));
    command.current_dir(dir).env_clear();
    for kept in ["PATH", "HOME", "TMPDIR"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// Exit code, stdout and stderr.
pub(crate) fn outcome(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    (
        status.code().expect("it was not killed"),
        text(stdout),
        text(stderr),
    )
}

/// A folder with the block files of a generated chain and a configuration for them.
pub(crate) struct Installation {
    pub(crate) dir: TempDir,
}

impl Installation {
    pub(crate) fn of_chain(chain: &TestChain) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        let blocks = chain.blocks();
        let all = std::iter::once(&genesis).chain(blocks.iter().map(|block| &**block));
        write_blocks(dir.path().join("blocks"), BlkOptions::default(), all)
            .expect("blocks are written");
        let installation = Self { dir };
        installation.configure("blocks_dir = \"blocks\"");
        installation
    }

    /// Without a single block: the node's address leads nowhere.
    pub(crate) fn without_node() -> Self {
        let installation = Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
        };
        // Port 9 (discard) is closed on any machine that runs tests.
        installation.configure("rpc_url = \"http://127.0.0.1:9\"");
        installation
    }

    pub(crate) fn configure(&self, source: &str) {
        let text = format!(
            "data_dir = \"data\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[chain]]\nid = \"test\"\nkind = \"bitcoin\"\nnetwork = \"regtest\"\n{source}\n"
        );
        std::fs::write(self.dir.path().join("cairn.toml"), text).expect("the folder is writable");
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        outcome(cairn(self.dir.path()).args(arguments))
    }
}

/// A running process that is killed when the test ends before it.
pub(crate) struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Running {
    /// Starts the program with its log in a file.
    pub(crate) fn start(dir: &Path, arguments: &[&str]) -> Self {
        Self::start_with(dir, arguments, &[])
    }

    /// The same with variables of the environment.
    pub(crate) fn start_with(
        dir: &Path,
        arguments: &[&str],
        environment: &[(&str, &Path)],
    ) -> Self {
        let log = dir.join(format!(
            "log-{}",
            arguments.first().copied().unwrap_or_default()
        ));
        let file = std::fs::File::create(&log).expect("the folder is writable");
        let mut child = cairn(dir)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, stdout, log }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Reads stdout up to a line that contains a text, and returns what was read.
    pub(crate) fn read_until(&mut self, part: &str) -> String {
        let mut text = String::new();
        while !text.lines().last().is_some_and(|line| line.contains(part)) {
            let read = self.stdout.read_line(&mut text).expect("stdout is UTF-8");
            assert!(
                read > 0,
                "stdout ended before \"{part}\":\n{text}\n{}",
                self.log()
            );
        }
        text
    }

    /// The address of the first listener, from the log.
    pub(crate) fn address(&mut self) -> String {
        self.wait_for("a listener", |log| {
            let line = log.lines().find(|line| line.contains("listening"))?;
            let fields: Value = serde_json::from_str(line).ok()?;
            Some(fields["address"].as_str()?.to_owned())
        })
    }

    /// Looks at the log until it says something.
    pub(crate) fn wait_for<T>(&mut self, what: &str, look: impl Fn(&str) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            let log = self.log();
            if let Some(found) = look(&log) {
                return found;
            }
            let ended = self.child.try_wait().expect("it can be asked");
            assert!(
                ended.is_none(),
                "ended with {ended:?} before {what}:\n{log}"
            );
            assert!(Instant::now() < end, "no {what} in time:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(mut self) -> (ExitStatus, Duration, String) {
        let started = Instant::now();
        let kill = format!("kill -TERM {}", self.child.id());
        let sent = Command::new("sh")
            .args(["-c", &kill])
            .status()
            .expect("there is a shell");
        assert!(sent.success(), "{kill}: {}", self.log());
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return (status, started.elapsed(), self.log());
            }
            assert!(
                started.elapsed() < PATIENCE,
                "it does not stop:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The same, expecting a clean and quick end.
    pub(crate) fn stop(self) {
        let (status, time, log) = self.terminate();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(time < STOP_TIME, "stopping took {time:?}:\n{log}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails when it has ended already, which is the usual case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// One request on a connection of its own.
pub(crate) fn get(address: &str, path: &str) -> Answer {
    get_with(address, path, "")
}

/// The same with more header lines, each with its end.
pub(crate) fn get_with(address: &str, path: &str, headers: &str) -> Answer {
    let mut stream =
        TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n"
    )
    .expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("answered");
    let text = String::from_utf8(bytes).expect("answers of these paths are text");
    let (head, body) = text
        .split_once("\r\n\r\n")
        .expect("a head ends with an empty line");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status");
    Answer {
        status,
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

/// Asks until the chain is ready.
pub(crate) fn until_ready(address: &str) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let answer = get(address, "/health/ready");
        if answer.status == 200 {
            return answer.json();
        }
        assert!(Instant::now() < end, "not ready in time: {}", answer.body);
        std::thread::sleep(Duration::from_millis(50));
    }
}

//! Starting, watching, restarting and stopping the private server.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Client, ConnectionAddr, IntoConnectionInfo};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::settings::Home;
use super::{PrivateOptions, PrivateServerError, ServerProgram, leftover};
use crate::target::Target;

/// How long a server may take until it answers; reading a large append-only file takes its time.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// How long it may take to end when asked.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause before the first restart; doubled up to [`RESTART_PAUSE_MAX`].
const RESTART_PAUSE: Duration = Duration::from_millis(100);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);
/// A server that ran this long starts again without a pause.
const STEADY_AFTER: Duration = Duration::from_secs(60);
/// How long a server of another process may take to answer.
const FIND_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
/// Lines of its output that are kept for messages.
const LAST_WORDS: usize = 8;

/// The state of the private server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrivateState {
    /// It answers.
    Running {
        /// Its process id.
        pid: u32,
    },
    /// It died and is being started again.
    Restarting {
        /// What happened.
        reason: String,
    },
    /// It was asked to end.
    Stopped,
}

/// The private server, running and supervised until [`PrivateServer::stop`]. When this is dropped without it, the server is
/// asked to end by the runtime, and the next start finds what it left.
#[derive(Debug)]
pub struct PrivateServer {
    target: Target,
    dir: PathBuf,
    state: watch::Receiver<PrivateState>,
    ask_to_stop: Option<oneshot::Sender<()>>,
    supervisor: JoinHandle<Result<(), PrivateServerError>>,
}

impl PrivateServer {
    /// Starts a server in a folder, after ending one that an earlier run left there. Returns when it answers and has read
    /// its data. One process at a time may do this in a folder.
    pub async fn start(
        program: &ServerProgram,
        options: &PrivateOptions,
    ) -> Result<Self, PrivateServerError> {
        let home = Home::prepare(options)?;
        leftover::end(&home).await?;
        let target = Target::unix(home.socket());
        let dir = home.dir.clone();
        let mut running = Running::launch(program, &home)?;
        running.until_ready(&home).await?;
        tracing::info!(folder = %dir.display(), version = program.version(), "private redis-server started");
        let (told, state) = watch::channel(PrivateState::Running { pid: running.pid });
        let (ask_to_stop, asked) = oneshot::channel();
        let supervisor = Supervisor {
            program: program.clone(),
            home,
            told,
        };
        Ok(Self {
            target,
            dir,
            state,
            ask_to_stop: Some(ask_to_stop),
            supervisor: tokio::spawn(supervisor.run(running, asked)),
        })
    }

    /// A server that another process runs in this folder, if one answers.
    pub async fn find(dir: &Path) -> Option<FoundServer> {
        let dir = std::fs::canonicalize(dir).ok()?;
        let home = Home::at(dir).ok()?;
        ask(&home, redis::cmd("PING"), FIND_TIMEOUT).await.ok()?;
        Some(FoundServer { home })
    }

    /// Where it is.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its state, now and later.
    pub fn state(&self) -> watch::Receiver<PrivateState> {
        self.state.clone()
    }

    /// Ends the server with all its data on disk.
    pub async fn stop(mut self) -> Result<(), PrivateServerError> {
        if let Some(ask) = self.ask_to_stop.take() {
            // Nobody listens when the supervisor has ended: its result says why.
            let _ = ask.send(());
        }
        match self.supervisor.await {
            Ok(result) => result,
            Err(error) => Err(PrivateServerError::Stop {
                path: self.dir,
                cause: error.to_string(),
            }),
        }
    }
}

/// A private server that another process runs.
#[derive(Debug)]
pub struct FoundServer {
    // Holds the short way to a folder with a long name.
    home: Home,
}

impl FoundServer {
    /// Where it is, for as long as this is held.
    pub fn target(&self) -> Target {
        Target::unix(self.home.socket())
    }
}

struct Supervisor {
    program: ServerProgram,
    home: Home,
    told: watch::Sender<PrivateState>,
}

impl Supervisor {
    async fn run(
        self,
        mut running: Running,
        mut asked: oneshot::Receiver<()>,
    ) -> Result<(), PrivateServerError> {
        let mut pause = RESTART_PAUSE;
        loop {
            let started = Instant::now();
            let ended = tokio::select! {
                _ = &mut asked => {
                    let result = running.stop(&self.home).await;
                    self.told.send_replace(PrivateState::Stopped);
                    return result;
                }
                ended = running.child.wait() => ended,
            };
            if started.elapsed() >= STEADY_AFTER {
                pause = RESTART_PAUSE;
            }
            let mut reason = running.epitaph(ended.ok());
            // Until one stays up, or we are to stop.
            running = loop {
                tracing::error!(
                    reason,
                    "the private redis-server is gone; starting it again"
                );
                self.told.send_replace(PrivateState::Restarting {
                    reason: reason.clone(),
                });
                let attempt = async {
                    tokio::time::sleep(pause).await;
                    leftover::end(&self.home).await?;
                    let mut next = Running::launch(&self.program, &self.home)?;
                    next.until_ready(&self.home).await?;
                    Ok::<_, PrivateServerError>(next)
                };
                let attempt = tokio::select! {
                    // What was being started ends with the attempt.
                    _ = &mut asked => {
                        self.told.send_replace(PrivateState::Stopped);
                        return Ok(());
                    }
                    attempt = attempt => attempt,
                };
                pause = (pause * 2).min(RESTART_PAUSE_MAX);
                match attempt {
                    Ok(next) => break next,
                    Err(error) => reason = error.to_string(),
                }
            };
            tracing::info!("the private redis-server runs again");
            self.told
                .send_replace(PrivateState::Running { pid: running.pid });
        }
    }
}

/// One process.
struct Running {
    child: Child,
    pid: u32,
    said: Arc<Mutex<VecDeque<String>>>,
}

impl Running {
    fn launch(program: &ServerProgram, home: &Home) -> Result<Self, PrivateServerError> {
        let mut child = Command::new(program.path())
            .arg(home.config_file())
            .current_dir(&home.dir)
            // Ctrl-C at the terminal is for Cairn, which ends the server when all is written.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| {
                PrivateServerError::NoProgram(format!("{}: {cause}", program.path().display()))
            })?;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(output) = child.stdout.take() {
            let said = Arc::clone(&said);
            tokio::spawn(async move {
                let mut lines = BufReader::new(output).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    log_line(&line);
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    if said.len() == LAST_WORDS {
                        said.pop_front();
                    }
                    said.push_back(line);
                }
            });
        }
        let pid = child.id().unwrap_or_default();
        Ok(Self { child, pid, said })
    }

    async fn until_ready(&mut self, home: &Home) -> Result<(), PrivateServerError> {
        let failed = |cause| PrivateServerError::Start {
            path: home.dir.clone(),
            cause,
        };
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                // What it said last may still be on its way through the pipe.
                tokio::time::sleep(POLL).await;
                return Err(failed(self.epitaph(Some(status))));
            }
            match ask(home, redis::cmd("PING"), POLL * 50).await {
                Ok(()) => return Ok(()),
                Err(cause) if Instant::now() > deadline => {
                    return Err(failed(format!(
                        "no answer in {} s: {cause}",
                        START_TIMEOUT.as_secs()
                    )));
                }
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    async fn stop(&mut self, home: &Home) -> Result<(), PrivateServerError> {
        let trouble = |cause| PrivateServerError::Stop {
            path: home.dir.clone(),
            cause,
        };
        // The answer is the end of the connection, so only what happens next tells.
        let said = ask(home, redis::cmd("SHUTDOWN"), STOP_TIMEOUT).await;
        match tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => {
                tracing::info!("private redis-server stopped");
                Ok(())
            }
            Ok(Ok(status)) => Err(trouble(self.epitaph(Some(status)))),
            Ok(Err(cause)) => Err(trouble(cause.to_string())),
            Err(_) => {
                // Its append-only file holds everything that was answered, but for what the system has not written yet.
                let _ = self.child.kill().await;
                Err(trouble(format!(
                    "killed after {} s; it said: {}",
                    STOP_TIMEOUT.as_secs(),
                    said.err().unwrap_or_default()
                )))
            }
        }
    }

    /// How it ended, and what it said last.
    fn epitaph(&self, status: Option<ExitStatus>) -> String {
        let mut text = match status {
            Some(status) => status.to_string(),
            None => "unknown end".to_owned(),
        };
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if !said.is_empty() {
            let said: Vec<&str> = said.iter().map(String::as_str).collect();
            text.push_str("; it said last: ");
            text.push_str(&said.join(" | "));
        }
        text
    }
}

/// Asks on a connection of its own.
async fn ask(home: &Home, command: redis::Cmd, timeout: Duration) -> Result<(), String> {
    let work = async {
        let info = ConnectionAddr::Unix(home.socket()).into_connection_info()?;
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout));
        let mut connection = Client::open(info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        command.query_async::<redis::Value>(&mut connection).await
    };
    match tokio::time::timeout(timeout, work).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer in {} s", timeout.as_secs())),
    }
}

/// `1234:M 30 Nov 2026 10:00:00.000 # Warning: …`: the mark before the text is the level.
fn log_line(line: &str) {
    if line.trim().is_empty() {
        return;
    }
    if line.split_whitespace().nth(5) == Some("#") {
        tracing::warn!(target: "redis_server", "{line}");
    } else {
        tracing::debug!(target: "redis_server", "{line}");
    }
}

//! Ending a server that an earlier run left behind when it was killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use redis::{Client, ConnectionAddr, IntoConnectionInfo};
use tokio::time::Instant;

use super::PrivateServerError;
use super::settings::Home;

/// How long a left server may take to write its data and end.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to answer before it counts as stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(25);

/// Ends what still serves in this folder, if anything does, and clears a dead socket away.
pub(super) async fn end(home: &Home) -> Result<(), PrivateServerError> {
    let socket = home.socket();
    let is_alive = tokio::net::UnixStream::connect(&socket).await.is_ok();
    let pid = own_pid(home);
    if !is_alive && pid.is_none() {
        return clear(&socket);
    }
    tracing::warn!(
        folder = %home.dir.display(),
        "a redis-server of an earlier run is still there; ending it, its data is kept"
    );
    if is_alive && let Err(cause) = shut_down(home, &socket).await {
        match pid {
            // It does not answer. Its data is in the append-only file.
            Some(pid) => signal(pid, "KILL"),
            None => return Err(trouble(home, cause)),
        }
    } else if let (false, Some(pid)) = (is_alive, pid) {
        signal(pid, "TERM");
    }
    let deadline = Instant::now() + END_TIMEOUT;
    while own_pid(home).is_some() || tokio::net::UnixStream::connect(&socket).await.is_ok() {
        if Instant::now() > deadline {
            return Err(trouble(
                home,
                format!("it still runs after {} s", END_TIMEOUT.as_secs()),
            ));
        }
        tokio::time::sleep(POLL).await;
    }
    clear(&socket)
}

fn trouble(home: &Home, cause: String) -> PrivateServerError {
    PrivateServerError::Leftover {
        path: home.dir.clone(),
        cause,
    }
}

/// A socket file without a server would make the next one fail.
fn clear(socket: &Path) -> Result<(), PrivateServerError> {
    match std::fs::remove_file(socket) {
        Ok(()) => Ok(()),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(PrivateServerError::Folder {
            path: socket.to_owned(),
            cause,
        }),
    }
}

async fn shut_down(home: &Home, socket: &Path) -> Result<(), String> {
    let ask = async {
        let info = ConnectionAddr::Unix(socket.to_owned()).into_connection_info()?;
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER_TIMEOUT))
            .set_response_timeout(Some(END_TIMEOUT));
        let mut connection = Client::open(info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let info: String = redis::cmd("INFO")
            .arg("server")
            .query_async(&mut connection)
            .await?;
        if !is_ours(home, &info) {
            return Ok(Err(
                "the server on its socket was started with another configuration file".to_owned(),
            ));
        }
        // The answer to this is the end of the connection.
        let _: redis::RedisResult<()> = redis::cmd("SHUTDOWN").query_async(&mut connection).await;
        redis::RedisResult::Ok(Ok(()))
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, ask).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs())),
    }
}

/// Whether the answer of `INFO server` names our configuration file.
fn is_ours(home: &Home, info: &str) -> bool {
    info.lines()
        .filter_map(|line| line.trim_end().strip_prefix("config_file:"))
        .any(|file| std::fs::canonicalize(file).is_ok_and(|file| file == home.config_file()))
}

/// The process id in the pid file, if that process is a server of this folder: ids are used again by the system.
fn own_pid(home: &Home) -> Option<u32> {
    let pid: u32 = std::fs::read_to_string(home.pid_file())
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let process = Path::new("/proc").join(pid.to_string());
    let folder = std::fs::read_link(process.join("cwd")).ok()?;
    let name = std::fs::read_to_string(process.join("comm")).ok()?;
    let is_server = name.trim_end().ends_with("-server");
    (folder == home.dir && is_server).then_some(pid)
}

/// Sends a signal through the shell, whose `kill` is everywhere.
fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name])
        .arg(pid.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !sent.as_ref().is_ok_and(std::process::ExitStatus::success) {
        tracing::warn!(pid, name, "the signal could not be sent");
    }
}

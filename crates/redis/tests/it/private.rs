//! The private server: its life, and what a killed Cairn leaves behind.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cairn_redis::{
    PrivateOptions, PrivateServer, PrivateServerError, PrivateState, Redis, ServerProgram,
};

use crate::{PATIENCE, POLL, get, set, until_ok};

fn program() -> ServerProgram {
    ServerProgram::find().expect("redis-server is installed")
}

async fn start(dir: &Path) -> (PrivateServer, Redis) {
    let server = PrivateServer::start(&program(), &PrivateOptions::new(dir))
        .await
        .expect("it starts");
    let redis = Redis::connect(server.target()).await.expect("it answers");
    (server, redis)
}

async fn config(redis: &Redis, name: &str) -> String {
    let pair: Vec<String> = redis
        .query("CONFIG", redis::cmd("CONFIG").arg("GET").arg(name))
        .await
        .expect("told");
    pair[1].clone()
}

/// What a killed Cairn leaves: its server, running on.
fn leave_behind(dir: &Path) -> Child {
    let child = Command::new(program().path())
        .arg("redis.conf")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let deadline = std::time::Instant::now() + PATIENCE;
    while std::os::unix::net::UnixStream::connect(dir.join("redis.sock")).is_err() {
        assert!(
            std::time::Instant::now() < deadline,
            "the left server answers"
        );
        std::thread::sleep(POLL);
    }
    child
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name])
        .arg(child.id().to_string())
        .status()
        .expect("a shell");
    assert!(sent.success());
}

#[tokio::test]
async fn it_keeps_its_data_and_listens_nowhere_else() {
    let base = tempfile::tempdir().expect("a temporary folder");
    let dir = base.path().join("redis");
    let (server, redis) = start(&dir).await;
    assert_eq!(config(&redis, "port").await, "0");
    assert_eq!(config(&redis, "appendonly").await, "yes");
    assert_eq!(config(&redis, "maxmemory-policy").await, "noeviction");
    assert_ne!(config(&redis, "maxmemory").await, "0");
    let socket = std::fs::metadata(dir.join("redis.sock")).expect("a socket");
    assert!(socket.file_type().is_socket());
    set(&redis, "key", "value").await.expect("written");
    server.stop().await.expect("a clean end");
    assert!(redis.ping().await.is_err(), "it is gone");
    let (server, redis) = start(&dir).await;
    assert_eq!(
        get(&redis, "key").await.expect("read").as_deref(),
        Some("value")
    );
    server.stop().await.expect("a clean end");
}

#[tokio::test]
async fn it_is_started_again_when_it_dies() {
    let base = tempfile::tempdir().expect("a temporary folder");
    let (server, redis) = start(base.path()).await;
    set(&redis, "key", "value").await.expect("written");
    let mut state = server.state();
    let PrivateState::Running { pid } = state.borrow_and_update().clone() else {
        panic!("it runs");
    };
    let killed = Command::new("sh")
        .args(["-c", "kill -s KILL \"$1\"", "sh", &pid.to_string()])
        .status()
        .expect("a shell");
    assert!(killed.success());
    let again = tokio::time::timeout(
        PATIENCE,
        state.wait_for(|state| matches!(state, PrivateState::Running { pid: new } if *new != pid)),
    )
    .await
    .expect("in time")
    .expect("it is supervised")
    .clone();
    assert!(matches!(again, PrivateState::Running { .. }));
    let value = until_ok("after the restart", || get(&redis, "key")).await;
    assert_eq!(value.as_deref(), Some("value"));
    server.stop().await.expect("a clean end");
}

#[tokio::test]
async fn a_left_server_is_ended_with_its_data_kept() {
    let base = tempfile::tempdir().expect("a temporary folder");
    let dir = std::fs::canonicalize(base.path()).expect("it is there");
    let (server, _) = start(&dir).await;
    server.stop().await.expect("a clean end");

    // It runs on and answers.
    let mut left = leave_behind(&dir);
    let old = Redis::connect(&cairn_redis::Target::unix(dir.join("redis.sock")))
        .await
        .expect("it answers");
    set(&old, "key", "by the left server")
        .await
        .expect("written");
    let (server, redis) = start(&dir).await;
    assert!(
        left.wait().expect("a child").success(),
        "it ended by itself"
    );
    let value = get(&redis, "key").await.expect("read");
    assert_eq!(value.as_deref(), Some("by the left server"));
    server.stop().await.expect("a clean end");

    // It runs on and answers nothing.
    let mut left = leave_behind(&dir);
    signal(&left, "STOP");
    let (server, redis) = start(&dir).await;
    left.wait().expect("a child");
    assert!(get(&redis, "key").await.expect("read").is_some());
    server.stop().await.expect("a clean end");

    // It is gone, its socket and pid file are not.
    let mut left = leave_behind(&dir);
    signal(&left, "KILL");
    left.wait().expect("a child");
    assert!(dir.join("redis.sock").exists() && dir.join("redis.pid").exists());
    let (server, redis) = start(&dir).await;
    assert!(get(&redis, "key").await.expect("read").is_some());
    server.stop().await.expect("a clean end");
}

#[tokio::test]
async fn a_server_that_is_not_ours_is_left_alone() {
    let base = tempfile::tempdir().expect("a temporary folder");
    let dir = std::fs::canonicalize(base.path()).expect("it is there");
    let other = dir.join("other.conf");
    std::fs::write(&other, "port 0\nunixsocket redis.sock\nsave \"\"\n").expect("writable");
    let mut foreign = Command::new(program().path())
        .arg("other.conf")
        .current_dir(&dir)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let target = cairn_redis::Target::unix(dir.join("redis.sock"));
    let redis = until_ok("the other server answers", || Redis::connect(&target)).await;
    let error = PrivateServer::start(&program(), &PrivateOptions::new(&dir))
        .await
        .expect_err("the folder is taken");
    assert!(
        matches!(error, PrivateServerError::Leftover { .. }),
        "{error}"
    );
    redis.ping().await.expect("untouched");
    foreign.kill().expect("ours to kill");
    foreign.wait().expect("a child");
}

#[tokio::test]
async fn a_folder_with_a_long_name_works() {
    let base = tempfile::tempdir().expect("a temporary folder");
    let dir = base
        .path()
        .join("a rather long name ".repeat(8))
        .join("redis");
    let (server, redis) = start(&dir).await;
    set(&redis, "key", "value").await.expect("written");
    server.stop().await.expect("a clean end");
}

#[tokio::test]
async fn what_does_not_start_says_why() {
    let base = tempfile::tempdir().expect("a temporary folder");
    let dir = base.path().join("redis");
    let (server, _) = start(&dir).await;
    server.stop().await.expect("a clean end");
    // An append-only file that is none.
    let manifest = std::fs::read_dir(dir.join("appendonlydir"))
        .expect("it keeps one")
        .map(|file| file.expect("readable").path())
        .find(|path| path.extension().is_some_and(|ending| ending == "manifest"))
        .expect("a manifest");
    std::fs::write(&manifest, "nonsense\n").expect("writable");
    let error = PrivateServer::start(&program(), &PrivateOptions::new(&dir))
        .await
        .expect_err("damaged");
    let text = error.to_string();
    assert!(
        text.contains("does not start") && text.contains("it said last"),
        "{text}"
    );
}

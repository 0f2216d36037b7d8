//! The TypeScript client of the examples, checked by the compiler and run by Node: it tells everything, waits for nobody, and
//! survives a server that is away.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use cairn_http::{Listen, serve};
use serde_json::Value;
use tokio::process::Command;

use crate::support::{INGEST, World};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Output of a program that must succeed.
async fn output(what: &str, command: &mut Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap_or_else(|error| panic!("{what} does not start: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {text}{errors}");
    text
}

/// The client as JavaScript, with the program that drives it, in a folder of its own.
async fn build() -> tempfile::TempDir {
    let fetched = output(
        "scripts/typescript",
        &mut Command::new(root().join("scripts/typescript")),
    )
    .await;
    let tsc = fetched.lines().last().expect("a path").to_owned();
    let dir = tempfile::tempdir().expect("a folder");
    let mut compile = Command::new("node");
    compile
        .arg(tsc)
        .arg("--project")
        .arg(root().join("examples/scanner-client-ts"))
        .arg("--outDir")
        .arg(dir.path());
    output("the TypeScript compiler", &mut compile).await;
    let files = [
        ("drive.mjs", include_str!("client_ts.mjs")),
        ("package.json", r#"{"type": "module"}"#),
    ];
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).expect("written");
    }
    dir
}

fn drive(dir: &Path, url: &str, operations: u32, queue_max: u32, drain_ms: u32) -> Command {
    let mut command = Command::new("node");
    command
        .arg(dir.join("drive.mjs"))
        .env("SCANNER_URL", url)
        .env("SCANNER_TOKEN", INGEST)
        .env("OPERATIONS", operations.to_string())
        .env("QUEUE_MAX", queue_max.to_string())
        .env("DRAIN_MS", drain_ms.to_string());
    command
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_typescript_client_tells_everything_and_is_in_nobodys_way() {
    let dir = build().await;
    let world = World::start().await;

    let listen: Listen = "127.0.0.1:0".parse().expect("an address");
    let listener = listen.bind(16).await.expect("a free port");
    let url = format!("http://{}", listener.address().expect("bound"));
    tokio::spawn(serve(
        listener,
        world.surface.clone(),
        std::future::pending(),
    ));
    let told = output("node", &mut drive(dir.path(), &url, 300, 1_000, 60_000)).await;
    let told = read(&told);
    assert_eq!(told["left"], 0, "{told}");
    assert_eq!(
        (&told["dropped"], &told["refused"], &told["returned"]),
        (&0.into(), &1.into(), &0.into()),
        "{told}"
    );
    assert!(
        told["problems"][0]
            .as_str()
            .is_some_and(|text| text.contains("not_positive")),
        "{told}"
    );
    let head = world.get("/api/scanner/head").await.json();
    assert_eq!(head["head"]["txsLast24h"], 300);

    // A port on which nobody listens: the calls return all the same, and the process ends although much is left.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("bound")
        .port();
    let url = format!("http://127.0.0.1:{port}");
    let told = output("node", &mut drive(dir.path(), &url, 5_000, 50, 100)).await;
    let told = read(&told);
    assert_eq!(
        (&told["left"], &told["dropped"], &told["refused"]),
        (&50.into(), &4_951.into(), &0.into()),
        "{told}"
    );
    let text = told.to_string();
    assert!(!text.contains(INGEST), "the token is a secret: {text}");
}

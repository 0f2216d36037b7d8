//! The explorer in a real browser, over everything that the demo shows. The journeys are in `crates/explorer/browser`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Running;

/// Where the modules are that the journeys use: named by the environment, else where `scripts/browser` puts them.
fn modules() -> PathBuf {
    if let Some(named) = std::env::var_os("CAIRN_BROWSER_MODULES") {
        return named.into();
    }
    let cache = std::env::var_os("CAIRN_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| {
        let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        Some(base?.join("cairn"))
    });
    cache.unwrap_or_default().join("browser")
}

fn explorer(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../explorer")
        .join(part)
}

/// Runs a program to its end; what it printed is the failure's text.
fn expect_success(what: &str, command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{what} cannot be started: {error}"));
    assert!(
        output.status.success(),
        "{what}:\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The folder with the modules.
fn checked_modules() -> PathBuf {
    let modules = modules();
    assert!(
        modules.join("node_modules/playwright-core").is_dir(),
        "{} has no node_modules/playwright-core: run scripts/browser, or set CAIRN_BROWSER_MODULES",
        modules.display()
    );
    modules
}

#[test]
fn the_scripts_of_the_pages_have_the_types_they_say() {
    let compiler = checked_modules().join("node_modules/typescript/bin/tsc");
    expect_success(
        "tsc",
        Command::new("node")
            .arg(compiler)
            .arg("-p")
            .arg(explorer("browser/tsconfig.json")),
    );
}

#[test]
fn journeys_in_a_browser() {
    let modules = checked_modules();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut demo = Running::start(
        dir.path(),
        &["demo", "--data-dir", "data", "--listen", "127.0.0.1:0"],
    );
    let welcome = demo.read_until("Ctrl-C stops it");
    let url = welcome
        .split_whitespace()
        .find(|word| word.starts_with("http://"))
        .expect("the welcome names the explorer")
        .trim_end_matches('/')
        .to_owned();
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("explorer-screenshots");
    expect_success(
        "the journeys",
        Command::new("node")
            .arg("--test")
            .arg("--test-concurrency=1")
            .arg(explorer("browser/journeys.test.mjs"))
            .env("CAIRN_URL", url)
            .env(
                "CAIRN_REDIS_SOCKET",
                dir.path().join("data/redis/redis.sock"),
            )
            .env("CAIRN_BROWSER_MODULES", modules)
            .env("CAIRN_SCREENSHOTS", &pictures),
    );
    let written = std::fs::read_dir(&pictures).map(Iterator::count);
    assert!(
        written.is_ok_and(|count| count > 40),
        "too few pictures in {}",
        pictures.display()
    );
    demo.stop();
}

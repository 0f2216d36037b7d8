//! The sample ledger of `cairn demo`: a made-up town, two days of its past, and a little more every few seconds.

use std::time::Duration;

use anyhow::Context as _;
use cairn_scanner::sample::{SampleCall, SampleTown};
use cairn_scanner::{AtMs, Command, Scanner, Status};

use crate::stop::Stop;

/// The host of the sample ledger, which says what it is.
pub(crate) const HOST: &str = "sample";
/// The town is the same each time, up to the clock.
const SEED: u64 = 7;
/// How far back its past goes, milliseconds.
const PAST_MS: i64 = 48 * 3_600_000;
/// Moments of its past.
const PAST_MOMENTS: u32 = 600;
/// Operations told together.
const AT_ONCE: usize = 200;
/// How often something happens.
const INTERVAL: Duration = Duration::from_secs(3);

/// Tells the town's past.
pub(crate) async fn found(scanner: &Scanner) -> anyhow::Result<SampleTown> {
    let now = scanner.clock().now();
    let mut town = SampleTown::new(SEED);
    let past = town.history(AtMs::clamped(now.ms() - PAST_MS), now, PAST_MOMENTS);
    for calls in past.chunks(AT_ONCE) {
        tell(scanner, calls).await?;
    }
    Ok(town)
}

/// Tells what happens in the town until asked to stop.
pub(crate) async fn live(mut town: SampleTown, scanner: Scanner, stop: Stop) {
    loop {
        tokio::select! {
            () = stop.token().cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
        let calls = town.moment(scanner.clock().now());
        if let Err(error) = tell(&scanner, &calls).await {
            tracing::warn!("a moment of the sample ledger is lost: {error:#}");
        }
    }
}

async fn tell(scanner: &Scanner, calls: &[SampleCall]) -> anyhow::Result<()> {
    let mut commands: Vec<Command> = Vec::with_capacity(calls.len());
    for (hook, body) in calls {
        let command = scanner.read_request(*hook, body).map_err(|faults| {
            let first = faults.first().map_or_else(String::new, ToString::to_string);
            anyhow::anyhow!("a call of the sample town is refused: {first}")
        })?;
        commands.push(command);
    }
    for status in scanner.apply(&commands).await {
        if let Status::Failed(error) = status {
            return Err(error).context("a call of the sample town is not applied");
        }
    }
    Ok(())
}

/// Addresses to try, for the greeting.
pub(crate) fn urls(base: &str) -> String {
    let mut text = String::from(
        "\nA made-up town trades in the sample ledger (everything in it is sample data):\n",
    );
    for (name, path) in [
        ("head", "/api/scanner/head"),
        ("transactions", "/api/scanner/txs?limit=5"),
        ("account", "/api/scanner/nodes/sample-main-ada"),
        ("spaces", "/api/scanner/spaces"),
        ("behaviour", "/api/scanner/analytics/overview"),
        ("API document", "/api/scanner/openapi.json"),
    ] {
        text.push_str(&format!("  {name:<13} {base}{path}\n"));
    }
    text
}

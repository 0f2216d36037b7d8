//! Tells a running Scanner of one purchase: `CAIRN_INGEST_TOKEN=… cargo run --example scanner_client -- http://127.0.0.1:3000`

#[expect(
    unreachable_pub,
    reason = "the file is made to be copied, into a library too"
)]
mod scanner_client;

use std::time::Duration;

use scanner_client::{ScannerClient, Settings};
use serde_json::json;

#[tokio::main]
async fn main() {
    let url = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "http://127.0.0.1:3000".to_owned());
    let client = ScannerClient::start(Settings {
        url,
        token: std::env::var("CAIRN_INGEST_TOKEN").unwrap_or_default(),
        queue_max: 10_000,
        timeout: Duration::from_secs(1),
    });
    // The application's own write comes first; this returns at once, whatever the state of the index.
    client.tell(
        "executePurchase",
        json!({ "record": {
            "id": "example-1", "playerId": "nm-1", "spaceId": "space-9", "amenityKind": "shop",
            "itemRef": { "kind": "shop", "id": "item-3" }, "priceUsd": "3.50", "powerUpsEarned": 9,
            "at": "2026-03-10T14:05:17.123Z", "debitSource": "wallet:usd", "creditSource": "amenity:shop:space-9",
        } }),
    );
    let left = client.drain(Duration::from_secs(5)).await;
    let losses = client.losses();
    println!(
        "left {left}, dropped {}, refused {}",
        losses.dropped.load(std::sync::atomic::Ordering::SeqCst),
        losses.refused.load(std::sync::atomic::Ordering::SeqCst)
    );
}

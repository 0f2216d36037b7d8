//! `docs/metrics.md` is what the registry says. `BLESS=1` writes it anew.

use std::path::Path;

#[test]
fn the_manual_page_is_the_registry() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let expected = cairn_telemetry::reference::manual();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).expect("docs/ is writable");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        written, expected,
        "docs/metrics.md is stale: run the test with BLESS=1"
    );
}

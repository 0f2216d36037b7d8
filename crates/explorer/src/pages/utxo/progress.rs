//! How far the index is, in words.

use askama::Template;
use cairn_utxo_index::{Phase, Progress};

use crate::present::{bytes, count, duration, percent, throughput};

/// State of the index for the home page and the page that stands in for all others during the first load.
#[derive(Debug, Template, PartialEq, Eq)]
#[template(path = "utxo/progress.html")]
pub(super) struct ProgressView {
    /// What is being done, as a short sentence.
    pub(super) stage: String,
    /// Share done in percent, with one decimal; `None` when the whole is unknown.
    pub(super) percent: Option<String>,
    /// The same as a number of thousandths, for the bar.
    permille: u64,
    /// `12.00 MB of 440.00 MB`.
    amount: Option<String>,
    /// `35.20 MB/s`.
    rate: Option<String>,
    /// `2 min 10 s`.
    eta: Option<String>,
    /// Blocks and transactions so far in this load.
    counts: Option<String>,
    /// Whether there is work in hand.
    pub(super) busy: bool,
}

impl ProgressView {
    /// Puts a state into words.
    pub(super) fn new(progress: &Progress) -> Self {
        let behind = match (progress.tip, progress.source_tip) {
            (Some(tip), Some(source)) => u64::from(source.saturating_sub(tip)),
            _ => 0,
        };
        let stage = match progress.phase {
            Phase::Waiting => "Waiting for the node or the block files".to_owned(),
            Phase::Headers => "Reading the headers".to_owned(),
            Phase::Adding => "Step 1 of 2: reading the blocks".to_owned(),
            Phase::Indexing => "Step 2 of 2: building the history".to_owned(),
            Phase::Following => match behind {
                0 => "Up to date".to_owned(),
                1 => "Catching up: 1 block behind".to_owned(),
                n => format!("Catching up: {} blocks behind", count(n)),
            },
        };
        let loading = matches!(progress.phase, Phase::Adding | Phase::Indexing);
        let measured = loading && progress.total > 0;
        ProgressView {
            stage,
            percent: measured.then(|| percent(progress.done, progress.total)),
            permille: permille(progress.done, progress.total),
            amount: measured.then(|| {
                let done = bytes(progress.done.min(progress.total));
                format!("{done} of {}", bytes(progress.total))
            }),
            rate: if loading {
                throughput(progress.rate)
            } else {
                None
            },
            eta: progress.eta_seconds.filter(|_| loading).map(duration),
            counts: (loading && progress.blocks > 0).then(|| {
                format!(
                    "{} blocks, {} transactions",
                    count(progress.blocks),
                    count(progress.txs)
                )
            }),
            busy: progress.phase != Phase::Following || behind > 0,
        }
    }
}

/// Thousandths of `total` that `done` is, at most 1,000.
fn permille(done: u64, total: u64) -> u64 {
    if total == 0 {
        return 0;
    }
    let value = u128::from(done.min(total)) * 1_000 / u128::from(total);
    u64::try_from(value).unwrap_or(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(phase: Phase) -> Progress {
        Progress {
            phase,
            done: 110_000_000,
            total: 440_000_000,
            rate: 35_200_000.0,
            eta_seconds: Some(130),
            blocks: 1_200,
            txs: 345_678,
            tip: Some(100),
            source_tip: Some(100),
        }
    }

    #[test]
    fn a_load_shows_share_rate_and_eta() {
        let view = ProgressView::new(&progress(Phase::Adding));
        let html = view.render().expect("the template renders");
        for part in [
            "Step 1 of 2",
            "25.0",
            "110.00 MB of 440.00 MB",
            "35.20 MB/s",
            "2 min 10 s",
            "345,678",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(html.contains("value=\"250\""), "{html}");
        assert!(view.busy);
    }

    #[test]
    fn an_unknown_whole_shows_no_share() {
        let view = ProgressView::new(&Progress {
            total: 0,
            ..progress(Phase::Adding)
        });
        let html = view.render().expect("the template renders");
        assert!(!html.contains('%') && !html.contains("value="), "{html}");
    }

    #[test]
    fn following_says_how_far_behind() {
        for (source, stage, busy) in [
            (100, "Up to date", false),
            (101, "Catching up: 1 block behind", true),
            (2_100, "Catching up: 2,000 blocks behind", true),
            (99, "Up to date", false),
        ] {
            let progress = Progress {
                source_tip: Some(source),
                ..progress(Phase::Following)
            };
            let view = ProgressView::new(&progress);
            assert_eq!((view.stage.as_str(), view.busy), (stage, busy));
            assert_eq!(view.percent, None);
        }
    }

    #[test]
    fn senseless_numbers_do_no_harm() {
        let odd = Progress {
            done: u64::MAX,
            total: 1,
            rate: f64::NAN,
            ..progress(Phase::Indexing)
        };
        let html = ProgressView::new(&odd)
            .render()
            .expect("the template renders");
        assert!(html.contains("100.0") && !html.contains("NaN"), "{html}");
    }
}

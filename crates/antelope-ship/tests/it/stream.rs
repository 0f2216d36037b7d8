//! Order, forks, gaps, windows and refusals of a block stream.

use std::time::Duration;

use cairn_antelope_ship::{
    BlockPosition, BlockStream, Branch, ReceivedBlock, ReplaySource, ShipError, Start, StreamEvent,
    StreamSettings,
};
use cairn_testkit::antelope::{Packer, Recording};
use futures_util::FutureExt as _;

use super::recorded::hex;
use super::scripted::{CHAIN_ID, Script, Scripted, greeting};

const FORKS: &[u8] = include_bytes!("../../../testkit/fixtures/antelope/forks/frames.bin.gz");
const IRREVERSIBLE: &[u8] =
    include_bytes!("../../../testkit/fixtures/antelope/forks/frames-irreversible.bin.gz");
const DEADLINE: Duration = Duration::from_secs(60);

fn settings() -> StreamSettings {
    StreamSettings {
        stall: None,
        pause_min: Duration::from_millis(1),
        pause_max: Duration::from_millis(2),
        ..StreamSettings::default()
    }
}

async fn next(stream: &mut BlockStream) -> StreamEvent {
    tokio::time::timeout(DEADLINE, stream.next())
        .await
        .expect("something happens within a minute")
}

/// The next block, across whatever else happens.
async fn next_block(stream: &mut BlockStream) -> ReceivedBlock {
    loop {
        if let StreamEvent::Block(block) = next(stream).await {
            stream.credits().give_back(1);
            return block;
        }
    }
}

async fn next_error(stream: &mut BlockStream) -> ShipError {
    loop {
        match next(stream).await {
            StreamEvent::Waiting { error, .. } => return error,
            StreamEvent::Block(_) => stream.credits().give_back(1),
            StreamEvent::Connected(_) => {}
        }
    }
}

/// Block ids, and for each fork the common block and the number of blocks undone.
type Followed = (Vec<String>, Vec<(u32, usize)>);

async fn follow(stream: &mut BlockStream, count: usize) -> Followed {
    let (mut ids, mut forks) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let block = next_block(stream).await;
        ids.push(hex(&block.this.id));
        forks.extend(block.fork.map(|fork| (fork.common.num, fork.undone.len())));
    }
    (ids, forks)
}

fn expected() -> Vec<String> {
    let blocks = Recording::Forks.blocks();
    blocks
        .iter()
        .map(|b| b["block_id"].as_str().expect("an id").to_owned())
        .collect()
}

#[tokio::test]
async fn both_forks_in_their_places() {
    let source = ReplaySource::from_gzip(FORKS).expect("a recording");
    let count = source.len();
    let mut stream = BlockStream::new(Box::new(source), settings(), Branch::default());
    let (ids, forks) = follow(&mut stream, count).await;
    assert_eq!(ids, expected());
    assert_eq!(forks, [(92, 12), (140, 11)]);
}

#[tokio::test]
async fn cuts_anywhere_change_nothing() {
    for every in [1, 2, 3, 7, 50] {
        let source = ReplaySource::from_gzip(FORKS).expect("a recording");
        let (count, control) = (source.len(), source.control());
        let mut stream = BlockStream::new(Box::new(source), settings(), Branch::default());
        let (mut ids, mut forks) = (Vec::new(), Vec::new());
        while ids.len() < count {
            // ABI, status and `every` blocks.
            control.break_after(2 + every);
            let (more, forked) = follow(&mut stream, every.min(count - ids.len())).await;
            ids.extend(more);
            forks.extend(forked);
            if ids.len() < count {
                assert!(matches!(
                    next_error(&mut stream).await,
                    ShipError::Closed { .. }
                ));
            }
        }
        assert_eq!(ids, expected(), "cut after every {every} blocks");
        assert_eq!(forks, [(92, 12), (140, 11)]);
        assert!(control.connections() >= count / every);
    }
}

#[tokio::test]
async fn a_fork_while_nobody_listened() {
    let source = ReplaySource::from_gzip(FORKS).expect("a recording");
    let control = source.control();
    let mut stream = BlockStream::new(Box::new(source.clone()), settings(), Branch::default());
    let mut known = Branch::default();
    for _ in 0..104 {
        let block = next_block(&mut stream).await;
        known.push(block.this, block.last_irreversible.num);
    }
    drop(stream);
    assert_eq!(known.last().map(|last| last.num), Some(104));
    // The node goes on, to another branch; then we come back with what we know.
    control.happened(130);
    let mut stream = BlockStream::new(Box::new(source), settings(), known);
    let block = next_block(&mut stream).await;
    let fork = block
        .fork
        .expect("the branch was left while nobody listened");
    assert_eq!(
        (block.this.num, fork.common.num, fork.undone.len()),
        (93, 92, 12)
    );
    let (ids, _) = follow(&mut stream, 198 - 105).await;
    assert_eq!(ids, expected()[105..]);
}

#[tokio::test]
async fn irreversible_blocks_never_fork() {
    let source = ReplaySource::from_gzip(IRREVERSIBLE).expect("a recording");
    let count = source.len();
    let settings = StreamSettings {
        irreversible_only: true,
        ..settings()
    };
    let mut stream = BlockStream::new(Box::new(source), settings, Branch::default());
    let (ids, forks) = follow(&mut stream, count).await;
    assert!(forks.is_empty() && ids.len() > 100);
    // They are the blocks of the final chain.
    let all = expected();
    assert!(ids.iter().all(|id| all.contains(id)));
}

#[tokio::test]
async fn the_window_is_kept() {
    let source = ReplaySource::from_gzip(FORKS).expect("a recording");
    let settings = StreamSettings {
        window: 3,
        ..settings()
    };
    let mut stream = BlockStream::new(Box::new(source), settings, Branch::default());
    let credits = stream.credits();
    assert!(matches!(next(&mut stream).await, StreamEvent::Connected(_)));
    for _ in 0..3 {
        assert!(matches!(next(&mut stream).await, StreamEvent::Block(_)));
    }
    assert!(
        stream.next().now_or_never().is_none(),
        "three are under way and none is given back"
    );
    credits.give_back(2);
    for _ in 0..2 {
        assert!(matches!(next(&mut stream).await, StreamEvent::Block(_)));
    }
    assert!(stream.next().now_or_never().is_none());
}

fn at(num: u32, branch: u8) -> BlockPosition {
    let mut id = [branch; 32];
    id[..4].copy_from_slice(&num.to_be_bytes());
    BlockPosition { num, id }
}

/// A block with nothing in it.
fn block(this: BlockPosition, previous: BlockPosition) -> Vec<u8> {
    let position = |packer: Packer, p: BlockPosition| packer.u32(p.num).raw(&p.id);
    let packer = position(
        position(Packer::new().u8(1), this)
            .u32(1)
            .raw(&[0; 32])
            .u8(1),
        this,
    );
    position(packer.u8(1), previous).u8(0).u8(0).u8(0).done()
}

fn known() -> Branch {
    Branch::from_blocks((4..=6).map(|num| at(num, 1)))
}

fn blocks_asked(request: &[u8]) -> (u32, usize) {
    let start = u32::from_le_bytes(request[1..5].try_into().expect("four bytes"));
    (start, usize::from(request[13]))
}

#[tokio::test]
async fn a_gap_is_never_skipped() {
    let gap = greeting(9, [block(at(7, 1), at(6, 1)), block(at(9, 1), at(8, 1))]);
    let whole = greeting(9, [block(at(8, 1), at(7, 1)), block(at(9, 1), at(8, 1))]);
    let source = Scripted::new(vec![gap, whole]);
    let sent = source.sent.clone();
    let mut stream = BlockStream::new(Box::new(source), settings(), known());
    assert_eq!(next_block(&mut stream).await.this.num, 7);
    assert!(matches!(
        next_error(&mut stream).await,
        ShipError::Gap {
            wanted: 8,
            got: 9,
            ..
        }
    ));
    assert_eq!(next_block(&mut stream).await.this.num, 8);
    assert_eq!(next_block(&mut stream).await.this.num, 9);
    // All that may be undone is told, not only the last block.
    let sent = sent.lock().expect("nobody panicked");
    assert_eq!(
        (blocks_asked(&sent[0][1]), blocks_asked(&sent[1][1])),
        ((7, 3), (8, 4))
    );
}

#[tokio::test]
async fn blocks_that_do_not_fit() {
    // messages after the greeting, what is said about them
    type Verdict = fn(&ShipError) -> bool;
    let cases: Vec<(Vec<Vec<u8>>, Verdict)> = vec![
        (vec![block(at(7, 2), at(6, 2))], |e| {
            matches!(e, ShipError::LostBranch { .. })
        }),
        (vec![block(at(5, 2), at(4, 2))], |e| {
            matches!(e, ShipError::LostBranch { .. })
        }),
        (vec![block(at(4, 2), at(3, 2))], |e| {
            matches!(e, ShipError::IrreversibleDiffers { num: 4, .. })
        }),
        (vec![block(at(7, 1), at(6, 1))[..50].to_vec()], |e| {
            matches!(e, ShipError::Frame { .. })
        }),
        (vec![vec![9, 9, 9]], |e| {
            matches!(e, ShipError::Frame { .. })
        }),
        (vec![vec![]], |e| matches!(e, ShipError::Frame { .. })),
    ];
    for (messages, verdict) in cases {
        let shown = format!("{messages:?}");
        let source = Scripted::new(vec![
            greeting(9, messages),
            greeting(9, [block(at(7, 1), at(6, 1))]),
        ]);
        let mut stream = BlockStream::new(Box::new(source), settings(), known());
        let error = next_error(&mut stream).await;
        assert!(verdict(&error), "{error}: {shown}");
        // Nothing was passed over: the next connection is asked for the same block.
        assert_eq!(next_block(&mut stream).await.this, at(7, 1));
    }
}

#[tokio::test]
async fn a_known_block_is_passed_over() {
    let again = greeting(9, [block(at(6, 1), at(5, 1)), block(at(7, 1), at(6, 1))]);
    let mut stream = BlockStream::new(Box::new(Scripted::new(vec![again])), settings(), known());
    assert_eq!(next_block(&mut stream).await.this.num, 7);
}

#[tokio::test]
async fn nodes_that_cannot_serve() {
    let ask = |script: Script, settings: StreamSettings, branch: Branch| async {
        next_error(&mut BlockStream::new(
            Box::new(Scripted::new(vec![script])),
            settings,
            branch,
        ))
        .await
    };
    let other_chain = StreamSettings {
        chain_id: Some([0xdd; 32]),
        ..settings()
    };
    let error = ask(greeting(9, []), other_chain, known()).await;
    assert!(matches!(error, ShipError::ChainId { .. }) && !error.is_transient());
    assert!(
        error.to_string().contains("cccc") && error.to_string().contains("dddd"),
        "{error}"
    );

    let error = ask(greeting(3, []), settings(), known()).await;
    assert!(
        matches!(
            error,
            ShipError::Behind {
                head: 3,
                wanted: 7,
                ..
            }
        ) && error.is_transient(),
        "{error}"
    );

    // A node whose history of traces begins with block 50.
    let mut late = greeting(99, []);
    late.frames[1] = cairn_antelope_ship::Frame::Binary(
        Packer::new()
            .u8(0)
            .u32(99)
            .raw(&[1; 32])
            .u32(1)
            .raw(&[0; 32])
            .u32(50)
            .u32(100)
            .u32(1)
            .u32(100)
            .raw(&CHAIN_ID)
            .done()
            .into(),
    );
    let error = ask(late, settings(), known()).await;
    assert!(
        matches!(error, ShipError::History { wanted: 7, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("50 to 99"), "{error}");

    let mut greeting_is_binary = greeting(9, []);
    greeting_is_binary.frames.pop_front();
    let error = ask(greeting_is_binary, settings(), known()).await;
    assert!(error.to_string().contains("first message"), "{error}");

    let silent = StreamSettings {
        stall: Some(Duration::from_millis(1)),
        ..settings()
    };
    let error = ask(greeting(9, []), silent, known()).await;
    assert!(matches!(error, ShipError::Stalled { .. }), "{error}");
}

#[tokio::test]
async fn where_reading_begins() {
    for (start, wanted) in [
        (Start::First, 1),
        (Start::Block(5), 5),
        (Start::BehindHead(3), 6),
        (Start::BehindHead(100), 1),
    ] {
        let source = Scripted::new(vec![greeting(9, [block(at(wanted, 1), at(wanted - 1, 1))])]);
        let sent = source.sent.clone();
        let settings = StreamSettings {
            start,
            ..settings()
        };
        let mut stream = BlockStream::new(Box::new(source), settings, Branch::default());
        assert_eq!(next_block(&mut stream).await.this.num, wanted);
        assert_eq!(
            blocks_asked(&sent.lock().expect("nobody panicked")[0][1]),
            (wanted, 0)
        );
    }
    // A node that begins elsewhere than asked.
    let source = Scripted::new(vec![greeting(9, [block(at(8, 1), at(7, 1))])]);
    let settings = StreamSettings {
        start: Start::Block(5),
        ..settings()
    };
    let mut stream = BlockStream::new(Box::new(source), settings, Branch::default());
    assert!(matches!(
        next_error(&mut stream).await,
        ShipError::Gap {
            wanted: 5,
            got: 8,
            ..
        }
    ));
}

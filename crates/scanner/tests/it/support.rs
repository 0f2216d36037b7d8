//! A ledger over a real server, and its comparison with the model.

use cairn_redis::{Redis, Target};
use cairn_scanner::{
    Clock, Command, Hook, HostId, NodeSort, Options, Scanner, Space, Status, Token, TxFilter,
};
use cairn_stream::ChainLabel;
use cairn_testkit::{Call, LedgerModel, RedisServer};

/// The instant at which all tests happen: `2026-03-10T14:05:17.123Z`.
pub(crate) const NOW: i64 = 1_773_151_517_123;

pub(crate) fn options() -> Options {
    options_of("default")
}

pub(crate) fn options_of(host: &str) -> Options {
    let host = HostId::new(host).expect("a host");
    Options::new(host, ChainLabel::new("ledger-default").expect("a label"))
}

pub(crate) async fn redis(url: &str) -> Redis {
    let target = Target::parse(url).expect("a valid URL");
    Redis::connect(&target).await.expect("it answers")
}

pub(crate) async fn open_at(url: &str, options: Options) -> Scanner {
    Scanner::open(redis(url).await, options, Clock::fixed(NOW))
        .await
        .expect("it opens")
}

pub(crate) struct World {
    pub(crate) server: RedisServer,
    pub(crate) scanner: Scanner,
}

impl World {
    pub(crate) async fn start() -> Self {
        let server = RedisServer::start();
        let scanner = open_at(&server.url(), options()).await;
        Self { server, scanner }
    }
}

pub(crate) fn read(scanner: &Scanner, call: &Call) -> Command {
    let hook = Hook::parse(call.hook).expect("a known call");
    scanner
        .read_request(hook, &call.body.to_string())
        .unwrap_or_else(|faults| panic!("{call:?}: {faults:?}"))
}

/// The answer to one call.
pub(crate) async fn tell(scanner: &Scanner, call: &Call) -> Status {
    let command = read(scanner, call);
    let mut statuses = scanner.apply(std::slice::from_ref(&command)).await;
    statuses.pop().expect("one status for one command")
}

pub(crate) async fn tell_all(scanner: &Scanner, calls: &[Call]) -> Vec<Status> {
    let commands: Vec<Command> = calls.iter().map(|call| read(scanner, call)).collect();
    scanner.apply(&commands).await
}

/// All ids of a filtered list, page by page.
pub(crate) async fn all_txs(scanner: &Scanner, filter: &TxFilter, limit: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = scanner
            .txs(filter, cursor.as_deref(), limit)
            .await
            .expect("a page");
        assert!(page.txs.len() <= limit);
        if page.next.is_some() {
            assert_eq!(page.txs.len(), limit, "a page before the last is full");
        }
        ids.extend(page.txs.into_iter().map(|tx| tx.record.id));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return ids,
        }
    }
}

/// Compares everything the ledger answers with what the model says.
pub(crate) async fn compare(scanner: &Scanner, model: &LedgerModel, what: &str) {
    let now = scanner.clock().now().ms();
    let head = scanner.head().await.expect("a head");
    let (txs, minted, burned, last) = model.head(now);
    assert_eq!(
        (
            head.txs,
            head.minted as i64,
            head.burned as i64,
            head.last_tx.map(|at| at.ms())
        ),
        (txs, minted, burned, last),
        "{what}: the head"
    );
    let block = head.block.map(|block| (head.epoch, block.rev, block.root));
    assert_eq!(block, model.newest_block(), "{what}: the newest revision");

    assert_eq!(
        all_txs(scanner, &TxFilter::default(), 7).await,
        model.tx_ids(None, None, None),
        "{what}: all transactions"
    );
    for (token, word) in [(Token::Apu, "APU"), (Token::Usd, "USD")] {
        let filter = TxFilter {
            token: Some(token),
            ..TxFilter::default()
        };
        let expected = model.tx_ids(None, None, Some(word));
        assert_eq!(
            all_txs(scanner, &filter, 100).await,
            expected,
            "{what}: {word}"
        );
    }
    compare_nodes(scanner, model, what).await;
    compare_spaces(scanner, model, now, what).await;
    compare_events(scanner, model, now, what).await;

    let mut places = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = scanner
            .blocks(None, cursor.as_deref(), 5)
            .await
            .expect("a page");
        places.extend(page.blocks.iter().map(|row| (row.at.epoch, row.at.rev)));
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(places, model.block_places(), "{what}: revisions");
}

async fn compare_nodes(scanner: &Scanner, model: &LedgerModel, what: &str) {
    let mut ids = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = scanner
            .nodes(None, NodeSort::Id, cursor.as_deref(), 4)
            .await
            .expect("a page");
        for row in page.nodes {
            let wallet = row
                .wallet
                .map(|wallet| (wallet.balance_micros, wallet.power_ups));
            assert_eq!(
                wallet,
                model.wallet_of(&row.node_id),
                "{what}: wallet of {}",
                row.node_id
            );
            assert_eq!(
                row.kind.as_str(),
                model.node_kind(&row.node_id),
                "{what}: {}",
                row.node_id
            );
            ids.push(row.node_id);
        }
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    let expected: Vec<String> = model.node_ids().into_iter().collect();
    assert_eq!(ids, expected, "{what}: the directory");
    for id in model.players() {
        let profile = scanner
            .profile(&id)
            .await
            .expect("a profile")
            .expect("it exists");
        let node = model.node(&id);
        let ledger = profile.ledger;
        assert_eq!(
            (
                ledger.txs,
                ledger.spent_micros as i64,
                ledger.credited_micros as i64,
                ledger.all_micros as i64,
                ledger.minted as i64,
                ledger.burned as i64,
                ledger.last_tx.map(|at| at.ms())
            ),
            (
                node.txs, node.usd.0, node.usd.1, node.usd.2, node.apu.0, node.apu.1, node.last
            ),
            "{what}: totals of {id}"
        );
        let by_kind = profile
            .by_kind
            .iter()
            .map(|(kind, n)| (kind.to_string(), *n))
            .collect();
        assert_eq!(node.by_kind, by_kind, "{what}: kinds of {id}");
        assert_eq!(
            node.by_space,
            profile.by_space.into_iter().collect(),
            "{what}: spaces of {id}"
        );
        let first: Vec<String> = profile.txs.txs.into_iter().map(|tx| tx.record.id).collect();
        let mut expected = model.tx_ids(Some(&id), None, None);
        expected.truncate(25);
        assert_eq!(first, expected, "{what}: transactions of {id}");
        let events: Vec<String> = profile
            .events
            .events
            .into_iter()
            .map(|row| row.message_id)
            .collect();
        let mut expected = model.events_of(&id);
        expected.truncate(25);
        assert_eq!(events, expected, "{what}: events of {id}");
    }
}

async fn compare_spaces(scanner: &Scanner, model: &LedgerModel, now: i64, what: &str) {
    let mut spaces = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = scanner.spaces(cursor.as_deref(), 3).await.expect("a page");
        spaces.extend(
            page.spaces
                .iter()
                .map(|row| (row.space_id.clone(), row.volume_micros as i64)),
        );
        match page.next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(spaces, model.spaces(), "{what}: spaces");
    for (id, _) in spaces {
        let space = scanner
            .space(&id)
            .await
            .expect("a space")
            .expect("it exists");
        let expected = model.space(&id, now);
        let (all, inside) = (Space::sum(&space.all_time), Space::sum(&space.in_window));
        assert_eq!(
            (space.row.txs, space.row.volume_micros as i64),
            (expected.txs, expected.volume),
            "{what}: {id}"
        );
        assert_eq!(
            (all.purchases, all.usd_micros as i64),
            expected.goods,
            "{what}: {id}"
        );
        assert_eq!(
            (inside.purchases, inside.usd_micros as i64),
            expected.goods_in_window,
            "{what}: {id} within the window"
        );
    }
    for game in ["map-recall", "hidden-gems", "nothing"] {
        let found = scanner.game(game).await.expect("a game");
        let found = (
            found.rounds,
            found.net,
            found.minted as i64,
            found.burned as i64,
        );
        assert_eq!(found, model.game(game), "{what}: {game}");
    }
    let talk = scanner.talk().await.expect("totals");
    let expected = model.talk();
    assert_eq!(
        (
            talk.sessions,
            talk.ticks,
            talk.charged_micros as i64,
            talk.apu_earned as i64
        ),
        (
            expected.sessions,
            expected.ticks,
            expected.charged,
            expected.earned
        ),
        "{what}: talking"
    );
}

async fn compare_events(scanner: &Scanner, model: &LedgerModel, now: i64, what: &str) {
    let overview = scanner.overview(50).await.expect("an overview");
    assert_eq!(
        overview.events,
        model.events_in_window(now),
        "{what}: events in the window"
    );
    let counts = overview.top.into_iter().collect();
    assert_eq!(model.events_by_name(), counts, "{what}: events by name");
    let inside: u64 = overview.top_in_window.iter().map(|(_, count)| count).sum();
    assert_eq!(
        inside,
        model.events_in_window(now),
        "{what}: events by name in the window"
    );
}

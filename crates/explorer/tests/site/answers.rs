//! Statuses, headers, search, errors; and numbers on pages compared with the model.

use bitcoin::{Address, Network, Script};
use cairn_testkit::{ScriptHash, script_hash};

use crate::html::Document;
use crate::site::{
    CHAIN, Page, UTXOS_LIMIT, ask, empty_site, follow, get, model, site, site_of_two,
};

fn read(page: &Page) -> Document {
    Document::parse(&page.body).unwrap_or_else(|error| panic!("{error} in {}", page.body))
}

/// Satoshi as a page shows them, taken apart at the marked zeros and put together again.
fn btc(sats: u64) -> String {
    format!("{}.{:08}", sats / 100_000_000, sats % 100_000_000)
}

/// The text without spaces: amounts are cut into spans.
fn dense(document: &Document) -> String {
    document.text.replace(' ', "")
}

/// Scripts with a history, busiest first.
fn busy_scripts() -> Vec<(ScriptHash, &'static Script)> {
    let mut scripts: Vec<_> = model()
        .scripts()
        .filter(|(hash, _)| model().is_indexed(hash, false))
        .map(|(hash, script)| (*hash, script.as_script()))
        .collect();
    scripts.sort_by_key(|(hash, _)| (std::cmp::Reverse(model().history(hash).len()), *hash));
    scripts
}

fn hex(hash: &ScriptHash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn every_answer_has_the_headers_of_a_page() {
    let site = site();
    for path in [
        "/",
        &format!("/{CHAIN}/blocks"),
        "/no/such/page",
        &format!("/{CHAIN}/tx/x"),
        "/search?q=zzz",
    ] {
        let page = get(&site, path).await;
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{path}: {policy}"
        );
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(page.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(
            page.header("content-type"),
            "text/html; charset=utf-8",
            "{path}"
        );
        assert_eq!(
            page.header("cache-control") == "no-store",
            page.status != 200,
            "{path}"
        );
    }
}

#[tokio::test]
async fn an_unchanged_page_is_not_sent_again() {
    let site = site();
    for path in [
        "/",
        &format!("/{CHAIN}/blocks"),
        &format!("/{CHAIN}/blocks/7"),
    ] {
        let first = get(&site, path).await;
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with("W/\""), "{path}: {tag}");
        let mut second = ask(&site, "GET", path, &[("if-none-match", &tag)]).await;
        if second.status == 200 {
            // The minute of the ages has just turned.
            let tag = second.header("etag").to_owned();
            second = ask(&site, "GET", path, &[("if-none-match", &tag)]).await;
        }
        assert_eq!(second.status, 304, "{path}");
        assert!(second.body.is_empty(), "{path}");
        assert_eq!(get(&site, path).await.status, 200, "{path}");
    }
    let head = ask(&site, "HEAD", "/", &[]).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
}

#[tokio::test]
async fn assets_may_be_kept_for_ever() {
    let site = site();
    let home = read(&get(&site, "/").await);
    let links: Vec<_> = home
        .elements
        .iter()
        .filter(|e| e.name == "link")
        .filter_map(|e| e.get("href"))
        .collect();
    assert_eq!(links.len(), 2);
    for link in links {
        let asset = get(&site, link).await;
        assert_eq!(asset.status, 200, "{link}");
        assert!(
            asset.header("cache-control").contains("immutable"),
            "{link}"
        );
    }
    assert_eq!(
        get(&site, "/assets/cairn-0000000000000000.css")
            .await
            .status,
        404
    );
    assert_eq!(
        follow(&site, "/favicon.ico").await.header("content-type"),
        "image/svg+xml"
    );
}

#[tokio::test]
async fn errors_are_pages_that_show_hostile_text_as_text() {
    let site = site();
    let txid = "ab".repeat(32);
    for (path, status) in [
        ("/nothing/here".to_owned(), 404),
        ("/%3Cscript%3Ealert(1)%3C/script%3E".to_owned(), 404),
        (format!("/{CHAIN}/nothing"), 404),
        (format!("/{CHAIN}/blocks/99999"), 404),
        (format!("/{CHAIN}/blocks/x"), 400),
        (format!("/{CHAIN}/block/99999"), 404),
        (format!("/{CHAIN}/block/{txid}"), 404),
        (format!("/{CHAIN}/block/%3Cscript%3E"), 400),
        (format!("/{CHAIN}/block/%ff%fe"), 400),
        (format!("/{CHAIN}/block/{}?page=0", model().tip().hash), 400),
        (
            format!("/{CHAIN}/block/{}?page=4294967295", model().tip().hash),
            404,
        ),
        (format!("/{CHAIN}/tx/{txid}"), 404),
        (format!("/{CHAIN}/tx/{}", &txid[1..]), 400),
        (
            format!("/{CHAIN}/address/bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
            400,
        ),
        (format!("/{CHAIN}/address/%22%3E%3Cscript%3E"), 400),
        (
            format!("/{CHAIN}/address/bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080?after=zz"),
            400,
        ),
        (format!("/{CHAIN}/scripthash/abc"), 400),
        (format!("/{CHAIN}/search?q={}", "a".repeat(500)), 400),
    ] {
        let page = get(&site, &path).await;
        assert_eq!(page.status.as_u16(), status, "{path}");
        let document = read(&page);
        assert_eq!(document.count("script"), 2, "{path}: those of the frame");
        assert_eq!(document.count("h1"), 1, "{path}");
    }
    let refused = ask(&site, "POST", "/", &[]).await;
    assert_eq!(refused.status, 405);
    assert!(refused.header("allow").contains("GET"));
    assert!(read(&refused).text.contains("can only be read"));
}

#[tokio::test]
async fn search_finds_what_there_is() {
    let site = site();
    let block = model()
        .block_at(240)
        .expect("the sample chain has 320 blocks");
    let txid = block.txids[7];
    let (hash, script) = busy_scripts()
        .into_iter()
        .find(|(_, script)| Address::from_script(script, Network::Regtest).is_ok())
        .expect("the sample chain pays to addresses");
    let address = Address::from_script(script, Network::Regtest)
        .expect("just looked at")
        .to_string();
    for (query, target) in [
        ("240".to_owned(), format!("/{CHAIN}/block/{}", block.hash)),
        (
            " 2,40 ".to_owned(),
            format!("/{CHAIN}/block/{}", block.hash),
        ),
        (
            block.hash.to_string(),
            format!("/{CHAIN}/block/{}", block.hash),
        ),
        (
            txid.to_string().to_uppercase(),
            format!("/{CHAIN}/tx/{txid}"),
        ),
        (format!("{txid}:0"), format!("/{CHAIN}/tx/{txid}#out-0")),
        (address.clone(), format!("/{CHAIN}/address/{address}")),
        (hex(&hash), format!("/{CHAIN}/scripthash/{}", hex(&hash))),
    ] {
        let encoded = query
            .replace(' ', "+")
            .replace(',', "%2C")
            .replace(':', "%3A");
        for path in [
            format!("/search?q={encoded}"),
            format!("/{CHAIN}/search?q={encoded}"),
        ] {
            let page = get(&site, &path).await;
            assert_eq!(
                (page.status.as_u16(), page.header("location")),
                (307, target.as_str()),
                "{path}"
            );
            assert_eq!(follow(&site, &path).await.status, 200, "{path}");
        }
    }
    let beginning = get(
        &site,
        &format!("/{CHAIN}/search?q={}", &address[..address.len() - 4]),
    )
    .await;
    assert_eq!(beginning.status, 200);
    assert!(
        beginning
            .body
            .contains(&format!("/{CHAIN}/address/{address}\"")),
        "{}",
        beginning.body
    );
}

#[tokio::test]
async fn search_without_result_says_what_was_tried() {
    let site = site();
    for (query, lines) in [
        (
            "%3Cimg+src%3Dx+onerror%3Dalert(1)%3E",
            vec!["a block height: not a number", "an address:"],
        ),
        ("321", vec!["a block height: the newest block is 320"]),
        (
            &"cd".repeat(32),
            vec![
                "a block hash: no such block",
                "a transaction id: no such",
                "the SHA-256 of a script",
            ],
        ),
        (
            &format!("{}:3", "cd".repeat(32)),
            vec!["an output: no such transaction"],
        ),
        (
            "zzzz",
            vec!["the beginning of an address: none begins like this"],
        ),
    ] {
        let page = get(&site, &format!("/{CHAIN}/search?q={query}")).await;
        assert_eq!(page.status, 404, "{query}");
        let document = read(&page);
        assert_eq!(document.count("img"), 0, "{query}");
        for line in lines {
            assert!(document.text.contains(line), "{line} in {}", document.text);
        }
    }
}

#[tokio::test]
async fn with_one_chain_its_name_may_be_left_out() {
    let site = site();
    let tip = model().tip().hash;
    for path in [
        "/blocks".to_owned(),
        "/blocks/30".to_owned(),
        format!("/block/{tip}?page=1"),
        "/block/12".to_owned(),
    ] {
        let page = get(&site, &path).await;
        assert_eq!(
            (page.status.as_u16(), page.header("location")),
            (307, format!("/{CHAIN}{path}").as_str())
        );
        assert_eq!(follow(&site, &path).await.status, 200, "{path}");
    }
    for path in [format!("/{CHAIN}"), format!("/{CHAIN}/")] {
        assert_eq!(
            get(&site, &path).await.header("location"),
            format!("/{CHAIN}/blocks"),
            "{path}"
        );
    }
    assert_eq!(
        get(&site, &format!("/{CHAIN}/blocks/")).await.status,
        200,
        "one slash at the end is ignored"
    );
}

#[tokio::test]
async fn addresses_show_the_sums_of_the_model() {
    let site = site();
    let scripts = busy_scripts();
    let many = scripts.iter().take(6);
    let few = scripts.iter().rev().step_by(scripts.len() / 20);
    for (hash, script) in many.chain(few) {
        let stats = model().stats(hash);
        let path = match Address::from_script(script, Network::Regtest) {
            Ok(address) => format!("/{CHAIN}/address/{address}"),
            Err(_) => format!("/{CHAIN}/scripthash/{}", hex(hash)),
        };
        let page = get(&site, &path).await;
        assert_eq!(page.status, 200, "{path}");
        let text = dense(&read(&page));
        let balance = stats.funded_txo_sum - stats.spent_txo_sum;
        for part in [
            format!("Balance{}", btc(balance)),
            format!("Received{}", btc(stats.funded_txo_sum)),
            format!("Sent{}", btc(stats.spent_txo_sum)),
        ] {
            assert!(text.contains(&part), "{part} in {text}");
        }
        assert_eq!(script_hash(script), *hash);
    }
}

#[tokio::test]
async fn a_walk_through_a_history_shows_each_transaction_once_and_adds_up_to_the_balance() {
    let site = site();
    let (hash, _) = busy_scripts()[0];
    let expected: Vec<String> = model()
        .history_newest_first(&hash)
        .iter()
        .map(|(txid, _)| txid.to_string())
        .collect();
    assert!(
        expected.len() > 60,
        "the busiest script of the sample chain fills several pages"
    );
    let mut seen = Vec::new();
    let mut next = Some(format!("/{CHAIN}/scripthash/{}", hex(&hash)));
    let prefix = format!("/{CHAIN}/tx/");
    while let Some(path) = next {
        let document = read(&get(&site, &path).await);
        let links = document.elements.iter().filter(|e| e.name == "a");
        seen.extend(
            links
                .clone()
                .filter_map(|e| e.get("href")?.strip_prefix(&prefix))
                .map(str::to_owned),
        );
        next = links
            .filter(|e| e.get("rel") == Some("next"))
            .filter_map(|e| e.get("href"))
            .map(str::to_owned)
            .next();
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn unspent_outputs_are_those_of_the_model() {
    let site = site();
    let with_coins = busy_scripts()
        .into_iter()
        .filter(|(hash, _)| model().balance(hash) > 0);
    let (mut listed, mut refused) = (0, 0);
    for (hash, _) in with_coins.take(8) {
        let utxos = model().utxos(&hash);
        if utxos.len() > UTXOS_LIMIT {
            let page = get(&site, &format!("/{CHAIN}/scripthash/{}/utxo", hex(&hash))).await;
            assert_eq!(page.status, 200);
            let text = read(&page).text;
            assert!(text.contains("more unspent outputs"), "{text}");
            refused += 1;
            continue;
        }
        listed += 1;
        let mut shown = Vec::new();
        let mut next = Some(format!("/{CHAIN}/scripthash/{}/utxo", hex(&hash)));
        let prefix = format!("/{CHAIN}/tx/");
        while let Some(path) = next {
            let document = read(&get(&site, &path).await);
            let links = document.elements.iter().filter(|e| e.name == "a");
            shown.extend(
                links
                    .clone()
                    .filter_map(|e| e.get("href")?.strip_prefix(&prefix))
                    .map(str::to_owned),
            );
            next = links
                .filter(|e| e.get("rel") == Some("next"))
                .filter_map(|e| e.get("href"))
                .map(str::to_owned)
                .next();
        }
        assert_eq!(shown.len(), utxos.len(), "{}", hex(&hash));
        let newest = utxos.last().expect("a balance has coins").outpoint;
        assert!(
            shown[0].starts_with(&newest.txid.to_string()),
            "{} first",
            shown[0]
        );
    }
    assert!(
        listed > 0 && refused > 0,
        "{listed} listed, {refused} refused"
    );
}

#[tokio::test]
async fn blocks_show_the_model_block_by_block() {
    let site = site();
    for height in [0, 1, 101, 240, 260, 320] {
        let block = model()
            .block_at(height)
            .expect("the sample chain has 320 blocks");
        let pages = block.txids.len().div_ceil(25);
        let mut shown = Vec::new();
        for page in 1..=pages {
            let document =
                read(&get(&site, &format!("/{CHAIN}/block/{}?page={page}", block.hash)).await);
            let prefix = format!("/{CHAIN}/tx/");
            let links = document.elements.iter().filter(|e| e.name == "a");
            shown.extend(
                links
                    .filter_map(|e| e.get("href")?.strip_prefix(&prefix))
                    .map(str::to_owned),
            );
        }
        let expected: Vec<String> = block.txids.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected, "block {height}");
    }
}

#[tokio::test]
async fn fees_and_amounts_of_transactions_are_those_of_the_model() {
    let site = site();
    let block = model()
        .block_at(240)
        .expect("the sample chain has 320 blocks");
    for txid in block.txids.iter().skip(1).step_by(100) {
        let expected = model().tx(txid).expect("a transaction of the model");
        let text = dense(&read(&get(&site, &format!("/{CHAIN}/tx/{txid}")).await));
        let paid: u64 = expected
            .tx
            .output
            .iter()
            .map(|output| output.value.to_sat())
            .sum();
        assert!(
            text.contains(&format!("Fee{}", btc(expected.fee))),
            "{txid}: {text}"
        );
        assert!(
            text.contains(&format!("Paid{}", btc(paid))),
            "{txid}: {text}"
        );
        assert!(text.contains("81confirmations"), "{txid}: {text}");
    }
}

#[tokio::test]
async fn before_the_first_load_every_page_says_so() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let site = empty_site(&dir);
    for path in [
        format!("/{CHAIN}/blocks"),
        format!("/{CHAIN}/tx/{}", "ab".repeat(32)),
        "/search?q=1".to_owned(),
    ] {
        let page = get(&site, &path).await;
        assert_eq!(page.status, 503, "{path}");
        assert_eq!(page.header("retry-after"), "3", "{path}");
        let document = read(&page);
        assert!(
            document.text.contains("is being indexed"),
            "{path}: {}",
            document.text
        );
        assert!(
            document
                .elements
                .iter()
                .any(|e| e.get("http-equiv") == Some("refresh") && e.get("content") == Some("3")),
            "{path}"
        );
    }
    let home = get(&site, "/").await;
    assert_eq!(home.status, 200);
    assert!(
        read(&home)
            .elements
            .iter()
            .any(|e| e.get("http-equiv") == Some("refresh"))
    );
}

#[tokio::test]
async fn with_two_chains_each_has_its_pages_and_search_asks_both() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let site = site_of_two(&dir);
    let home = read(&get(&site, "/").await);
    assert!(
        home.text.contains(CHAIN) && home.text.contains("empty"),
        "{}",
        home.text
    );
    assert_eq!(get(&site, "/blocks").await.status, 404, "which chain's?");
    assert_eq!(get(&site, "/empty/blocks").await.status, 503);
    assert_eq!(
        get(&site, "/search?q=12").await.status,
        307,
        "the one chain that answers has it"
    );
    let nothing = get(&site, "/search?q=nothing").await;
    assert_eq!(nothing.status, 404);
    assert!(
        read(&nothing)
            .text
            .contains("empty: not searched: its first load is not complete"),
        "{}",
        nothing.body
    );
}

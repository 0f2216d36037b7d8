//! From the home page through every link, as far as [`PAGES_MAX`] pages.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::html::Document;
use crate::site::{CHAIN, follow, get, site};

/// Pages that are read.
const PAGES_MAX: usize = 900;
/// Bytes of one page, not compressed.
const PAGE_BYTES_MAX: usize = 400_000;

/// Paths that other parts of the server answer.
fn is_elsewhere(path: &str) -> bool {
    let api = format!("/{CHAIN}/api/");
    path.starts_with(&api) || matches!(path, "/openapi.json" | "/health/ready" | "/metrics")
}

/// Checks one page by itself; returns the links in it.
pub(crate) fn check(path: &str, html: &str) -> (Document, Vec<String>) {
    assert!(html.len() <= PAGE_BYTES_MAX, "{path}: {} bytes", html.len());
    let document = Document::parse(html).unwrap_or_else(|error| panic!("{path}: {error}"));
    for name in ["html", "head", "body", "main", "h1"] {
        assert_eq!(document.count(name), 1, "{path}: <{name}>");
    }
    // Parts of drawings have titles, too.
    let head = html.split("</head>").next().unwrap_or_default();
    assert_eq!(head.matches("<title>").count(), 1, "{path}: <title>");
    assert!(
        document
            .elements
            .iter()
            .any(|e| e.name == "html" && e.get("lang") == Some("en")),
        "{path}"
    );
    assert!(
        document.has_id("main"),
        "{path}: the skip link leads nowhere"
    );
    let mut links = Vec::new();
    for element in &document.elements {
        let name = element.name.as_str();
        assert!(
            !matches!(name, "style" | "iframe" | "object" | "embed"),
            "{path}: <{name}>"
        );
        if name == "script" {
            let source = element.get("src").unwrap_or_default();
            assert!(
                source.starts_with("/assets/"),
                "{path}: a script inside the page, or from elsewhere: {source:?}"
            );
        }
        for (key, value) in &element.attributes {
            assert!(
                !key.starts_with("on") && key != "style",
                "{path}: {key}={value}"
            );
            if matches!(key.as_str(), "href" | "src" | "action") {
                let local = value.starts_with('/') && !value.starts_with("//");
                assert!(
                    local || value.starts_with('#'),
                    "{path}: a way out of this server: {value}"
                );
                if local && name != "form" {
                    links.push(value.clone());
                }
            }
        }
        if name == "input" && element.get("type") != Some("hidden") {
            let id = element
                .get("id")
                .unwrap_or_else(|| panic!("{path}: an input without id"));
            let labelled = document
                .elements
                .iter()
                .any(|e| e.name == "label" && e.get("for") == Some(id));
            assert!(labelled, "{path}: no label for {id}");
        }
        if name == "svg" {
            let is_hidden = element.get("aria-hidden") == Some("true");
            let is_named = element.get("role") == Some("img")
                && element
                    .get("aria-label")
                    .is_some_and(|label| !label.is_empty());
            assert!(
                is_hidden || is_named,
                "{path}: a drawing that is read out and has no name"
            );
        }
    }
    (document, links)
}

#[tokio::test]
async fn every_link_leads_to_a_good_page() {
    let site = site();
    let mut queue = VecDeque::from(["/".to_owned()]);
    let mut queued: HashSet<String> = queue.iter().cloned().collect();
    let mut read: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut pages = 0;
    while let Some(path) = queue.pop_front() {
        if pages == PAGES_MAX {
            break;
        }
        pages += 1;
        let page = follow(&site, &path).await;
        assert_eq!(page.status, 200, "{path}");
        if path.starts_with("/assets/") {
            continue;
        }
        let kind = ["/blocks", "/block/", "/tx/", "/address/", "/scripthash/"]
            .into_iter()
            .find(|kind| path.starts_with(&format!("/{CHAIN}{kind}")))
            .unwrap_or("other");
        *read.entry(kind).or_default() += 1;
        let (_, links) = check(&path, &page.body);
        for link in links {
            let target = link.split('#').next().unwrap_or_default().to_owned();
            if is_elsewhere(&target) || !queued.insert(target.clone()) {
                continue;
            }
            // Few of a kind before many of another: the newest blocks would otherwise be all that is seen.
            if target.contains("/address/")
                || target.contains("/scripthash/")
                || target.contains("/blocks")
            {
                queue.push_front(target);
            } else {
                queue.push_back(target);
            }
        }
    }
    for kind in ["/blocks", "/block/", "/tx/", "/address/", "/scripthash/"] {
        assert!(read.get(kind).is_some_and(|&n| n >= 10), "{kind}: {read:?}");
    }
}

#[tokio::test]
async fn links_to_inputs_and_outputs_lead_to_them() {
    let site = site();
    // The consolidations, batches and long chains of the sample chain have spends in all directions.
    let mut checked = 0;
    for block in crate::site::model().chain().iter().skip(250).take(12) {
        for txid in block.txids.iter().skip(1).take(4) {
            let page = get(&site, &format!("/{CHAIN}/tx/{txid}")).await;
            let (_, links) = check("tx", &page.body);
            for link in links {
                let Some((target, anchor)) = link.split_once('#') else {
                    continue;
                };
                let page = get(&site, target).await;
                assert_eq!(page.status, 200, "{link}");
                let (document, _) = check(target, &page.body);
                assert!(document.has_id(anchor), "{link}: no such coin on the page");
                checked += 1;
            }
        }
    }
    assert!(checked >= 50, "only {checked} links looked at");
}

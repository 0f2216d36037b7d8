//! `/search` over all ledgers and `/{ledger}/search` over one: one exact hit leads straight to its page. `/search/suggest`
//! offers hits while the reader types.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use cairn_http::CacheClass;
use futures_util::future::join_all;
use serde_json::json;

use crate::error::PageError;
use crate::ledger::{Findings, Hit, Ledger};
use crate::respond;
use crate::site::{QUERY_CHARS_MAX, Shell, Site};

/// Suggestions at once.
const SUGGESTIONS_MAX: usize = 10;

/// The page with the results, or with the explanation of what can be searched.
#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    shell: Shell,
    hits: Vec<Hit>,
}

/// Answers a search in some ledgers. `within`: the one ledger whose page asked.
pub(crate) async fn answer(
    site: Arc<Site>,
    ledgers: Vec<Arc<dyn Ledger>>,
    within: Option<String>,
    query: Option<&str>,
) -> Response {
    let query = query.unwrap_or_default().trim().to_owned();
    let frame = |title: &str| match &within {
        Some(id) => site.ledger_shell(id, title),
        None => site.shell(title),
    };
    let fail = |error| respond::error(&site, within.as_deref(), &query, error);
    if query.is_empty() {
        return results(frame("Search"), Vec::new()).unwrap_or_else(fail);
    }
    if query.chars().count() > QUERY_CHARS_MAX {
        return fail(PageError::BadRequest(format!(
            "Nothing that can be found has a name of more than {QUERY_CHARS_MAX} characters."
        )));
    }
    let found = match collect(&ledgers, &query, false).await {
        Ok(found) => found,
        Err(error) => return fail(error),
    };
    match found.hits.as_slice() {
        [] => fail(PageError::NotFound {
            text: format!("Nothing found for \u{201c}{query}\u{201d}."),
            tried: found.tried,
        }),
        [only] if only.exact => respond::redirect(&only.href),
        _ => results(frame("Search").with_query(&query), found.hits).unwrap_or_else(fail),
    }
}

/// Suggestions for a text that is being typed: a JSON list, best first. What cannot be answered suggests nothing.
pub(crate) async fn suggest(ledgers: Vec<Arc<dyn Ledger>>, query: Option<&str>) -> Response {
    let query = query.unwrap_or_default().trim();
    let mut hits = Vec::new();
    if !query.is_empty() && query.chars().count() <= QUERY_CHARS_MAX {
        match collect(&ledgers, query, true).await {
            Ok(found) => hits = found.hits,
            Err(error) => tracing::debug!(%error, "no suggestions"),
        }
    }
    hits.truncate(SUGGESTIONS_MAX);
    let list: Vec<_> = hits
        .iter()
        .map(|hit| {
            json!({
                "href": hit.href, "label": hit.label, "what": hit.what, "exact": hit.exact,
                "ledger": ledger_of(&hit.href),
            })
        })
        .collect();
    let mut response = Response::new(Body::from(json!(list).to_string()));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, CacheClass::NoStore.header_value());
    response
}

/// The ledger whose page a path is.
fn ledger_of(href: &str) -> &str {
    href.trim_start_matches('/')
        .split(['/', '?'])
        .next()
        .unwrap_or_default()
}

fn results(shell: Shell, hits: Vec<Hit>) -> Result<Response, PageError> {
    Ok(respond::page(SearchPage { shell, hits }.render()?, None))
}

/// Asks each ledger at once; exact hits first. A ledger that cannot answer now (it is being indexed) says so among what was
/// tried, as long as there is another one; alone, its own page answers.
async fn collect(
    ledgers: &[Arc<dyn Ledger>],
    query: &str,
    quick: bool,
) -> Result<Findings, PageError> {
    let answers = join_all(ledgers.iter().map(|ledger| ledger.search(query, quick))).await;
    let mut all = Findings::default();
    for (ledger, answer) in ledgers.iter().zip(answers) {
        match answer {
            Ok(findings) => {
                all.hits.extend(findings.hits);
                let prefix = if ledgers.len() > 1 {
                    format!("{}: ", ledger.id())
                } else {
                    String::new()
                };
                all.tried.extend(
                    findings
                        .tried
                        .into_iter()
                        .map(|line| format!("{prefix}{line}")),
                );
            }
            Err(PageError::Internal(cause)) => return Err(PageError::Internal(cause)),
            Err(error) if ledgers.len() == 1 => return Err(error),
            Err(error) => all.tried.push(format!("{}: {error}", ledger.id())),
        }
    }
    all.hits.sort_by_key(|hit| !hit.exact);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;
    use crate::ledger::{Card, LedgerFuture};
    use crate::pulse::Reading;
    use crate::site::LedgerLink;

    /// A ledger that knows one word.
    struct Word(&'static str, &'static str);

    impl Ledger for Word {
        fn id(&self) -> &str {
            self.0
        }
        fn link(&self) -> LedgerLink {
            LedgerLink {
                id: self.0.to_owned(),
                href: format!("/{}/", self.0),
                sections: Vec::new(),
            }
        }
        fn card(&self, _now: u64) -> LedgerFuture<'_, Card> {
            Box::pin(async {
                Ok(Card {
                    html: String::new(),
                    busy: false,
                })
            })
        }
        fn search<'a>(&'a self, query: &'a str, _quick: bool) -> LedgerFuture<'a, Findings> {
            Box::pin(async move {
                if self.1.is_empty() {
                    return Err(PageError::Unavailable("is being indexed".into()));
                }
                if self.1 == query {
                    return Ok(Findings::exact(format!("/{}/word", self.0), query, "word"));
                }
                let tried = vec!["a word: unknown".to_owned()];
                let mut hits = Vec::new();
                if self.1.starts_with(query) {
                    hits.push(Hit::near(format!("/{}/prefix", self.0), self.1, "word"));
                }
                Ok(Findings { hits, tried })
            })
        }
        fn read_pulse(&self) -> Pin<Box<dyn Future<Output = Reading> + Send + '_>> {
            Box::pin(async { Reading::default() })
        }
    }

    fn ledgers(words: &[(&'static str, &'static str)]) -> Vec<Arc<dyn Ledger>> {
        words
            .iter()
            .map(|&(id, word)| Arc::new(Word(id, word)) as Arc<dyn Ledger>)
            .collect()
    }

    async fn search(words: &[(&'static str, &'static str)], query: &str) -> (u16, String, String) {
        let ledgers = ledgers(words);
        let response = answer(Site::of(&ledgers), ledgers, None, Some(query)).await;
        let status = response.status().as_u16();
        let location = response
            .headers()
            .get("location")
            .and_then(|l| l.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .expect("a whole body");
        (
            status,
            location,
            String::from_utf8(body.to_vec()).expect("UTF-8"),
        )
    }

    #[tokio::test]
    async fn one_exact_hit_redirects() {
        let (status, location, _) = search(&[("a", "stone"), ("b", "moss")], " stone ").await;
        assert_eq!((status, location.as_str()), (307, "/a/word"));
    }

    #[tokio::test]
    async fn several_hits_are_listed_with_exact_ones_first() {
        let (status, _, html) = search(&[("a", "stones"), ("b", "stone")], "stone").await;
        assert_eq!(status, 200);
        let place = |text: &str| {
            html.find(text)
                .unwrap_or_else(|| panic!("{text} in {html}"))
        };
        assert!(place("/b/word") < place("/a/prefix"));
    }

    #[tokio::test]
    async fn nothing_found_says_what_was_tried_and_escapes_the_text() {
        let (status, _, html) =
            search(&[("a", "stone"), ("b", "")], "<script>alert(1)</script>").await;
        assert_eq!(status, 404);
        assert!(html.contains("a: a word: unknown"), "{html}");
        assert!(html.contains("b: is being indexed"), "{html}");
        assert!(!html.contains("<script>alert"), "{html}");
        assert!(html.contains("alert(1)"), "{html}");
    }

    #[tokio::test]
    async fn suggestions_are_hits_with_their_ledgers() {
        let response = suggest(
            ledgers(&[("a", "stones"), ("b", "stone"), ("c", "")]),
            Some("stone"),
        )
        .await;
        let body = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .expect("a whole body");
        let list: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            list,
            json!([
                { "href": "/b/word", "label": "stone", "what": "word", "exact": true, "ledger": "b" },
                { "href": "/a/prefix", "label": "stones", "what": "word", "exact": false, "ledger": "a" },
            ])
        );
    }

    #[tokio::test]
    async fn bounds() {
        let (status, _, html) = search(&[("a", "stone")], "").await;
        assert_eq!(status, 200);
        assert!(html.contains("Type a "), "{html}");
        let (status, _, html) = search(&[("a", "stone")], &"x".repeat(QUERY_CHARS_MAX + 1)).await;
        assert_eq!(status, 400);
        assert!(
            !html.contains(&"x".repeat(QUERY_CHARS_MAX + 1)),
            "the field holds no more than the bound"
        );
    }

    #[tokio::test]
    async fn a_single_ledger_that_is_not_ready_answers_for_itself() {
        let (status, _, html) = search(&[("a", "")], "stone").await;
        assert_eq!(status, 503);
        assert!(html.contains("is being indexed"), "{html}");
    }
}

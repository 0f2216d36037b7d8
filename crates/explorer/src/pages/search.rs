//! `/search` over all ledgers and `/{ledger}/search` over one: one exact hit leads straight to its page.

use std::sync::Arc;

use askama::Template;
use axum::response::Response;
use cairn_http::BlockingPool;

use crate::error::PageError;
use crate::ledger::{Findings, Hit, Ledger};
use crate::respond;
use crate::site::{QUERY_CHARS_MAX, Shell, Site};

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
    pool: BlockingPool,
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
    let asked = query.clone();
    let found = match pool.run(move || collect(&ledgers, &asked)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return fail(error),
        Err(error) => return fail(error.into()),
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

fn results(shell: Shell, hits: Vec<Hit>) -> Result<Response, PageError> {
    Ok(respond::page(SearchPage { shell, hits }.render()?, None))
}

/// Asks each ledger; exact hits first. A ledger that cannot answer now (it is being indexed) says so among what was
/// tried, as long as there is another one; alone, its own page answers.
fn collect(ledgers: &[Arc<dyn Ledger>], query: &str) -> Result<Findings, PageError> {
    let mut all = Findings::default();
    for ledger in ledgers {
        match ledger.search(query) {
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
    use axum::Router;

    use super::*;
    use crate::ledger::Card;

    /// A ledger that knows one word.
    struct Word(&'static str, &'static str);

    impl Ledger for Word {
        fn id(&self) -> &str {
            self.0
        }
        fn card(&self, _now: u64) -> Result<Card, PageError> {
            Ok(Card {
                html: String::new(),
                busy: false,
            })
        }
        fn search(&self, query: &str) -> Result<Findings, PageError> {
            if self.1.is_empty() {
                return Err(PageError::Unavailable("is being indexed".into()));
            }
            if self.1 == query {
                return Ok(Findings::exact(format!("/{}/word", self.0), query, "word"));
            }
            let tried = vec!["a word: unknown".to_owned()];
            if self.1.starts_with(query) {
                let hit = Hit {
                    href: format!("/{}/prefix", self.0),
                    label: self.1.into(),
                    what: "word",
                    exact: false,
                };
                return Ok(Findings {
                    hits: vec![hit],
                    tried,
                });
            }
            Ok(Findings {
                hits: Vec::new(),
                tried,
            })
        }
        fn pages(self: Arc<Self>) -> Router {
            Router::new()
        }
    }

    fn ledgers(words: &[(&'static str, &'static str)]) -> Vec<Arc<dyn Ledger>> {
        words
            .iter()
            .map(|&(id, word)| Arc::new(Word(id, word)) as Arc<dyn Ledger>)
            .collect()
    }

    async fn search(words: &[(&'static str, &'static str)], query: &str) -> (u16, String, String) {
        let ids = words.iter().map(|word| word.0.to_owned()).collect();
        let pool = BlockingPool::new(1, std::time::Duration::from_secs(5));
        let response = answer(Site::new(ids), pool, ledgers(words), None, Some(query)).await;
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
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("alert(1)"), "{html}");
    }

    #[tokio::test]
    async fn bounds() {
        let (status, _, html) = search(&[("a", "stone")], "").await;
        assert_eq!(status, 200);
        assert!(html.contains("Type a block height"), "{html}");
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

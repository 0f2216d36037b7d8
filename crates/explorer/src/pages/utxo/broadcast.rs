//! `/{chain}/broadcast`: a form that hands a transaction to the node.

use askama::Template;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bitcoin::Transaction;
use bitcoin::consensus::encode::deserialize_hex;
use cairn_esplora::NodeCallError;
use cairn_http::read_body;

use super::UtxoPages;
use super::chain::Chain;
use crate::error::PageError;
use crate::pages::form::field;
use crate::respond;
use crate::site::Shell;

/// Longest body of the form: a transaction of 4 MWU as hexadecimal, its line breaks written as three characters each.
const BODY_BYTES_MAX: usize = 9_000_000;
/// Longest text that is shown again after a refusal.
const SHOWN_CHARS_MAX: usize = 200_000;

/// The page.
#[derive(Template)]
#[template(path = "utxo/broadcast.html")]
struct BroadcastPage {
    shell: Shell,
    chain: Chain,
    has_node: bool,
    text: String,
    refusal: Option<String>,
}

/// The empty form.
pub(super) fn form(pages: &UtxoPages) -> Response {
    page(pages, String::new(), None, StatusCode::OK)
}

fn page(pages: &UtxoPages, text: String, refusal: Option<String>, status: StatusCode) -> Response {
    let ledger = &pages.ledger;
    let made = BroadcastPage {
        shell: pages
            .site
            .ledger_shell(&ledger.chain.id, "Broadcast")
            .at("broadcast"),
        chain: ledger.chain.clone(),
        has_node: ledger.node.is_some(),
        text: text.chars().take(SHOWN_CHARS_MAX).collect(),
        refusal,
    }
    .render();
    match made {
        Ok(html) => {
            let mut response = respond::page(html, None);
            *response.status_mut() = status;
            response
        }
        Err(error) => respond::error(&pages.site, Some(&ledger.chain.id), "", error.into()),
    }
}

/// Sends what the form holds. A transaction that the node takes leads to its page.
pub(super) async fn send(pages: &UtxoPages, request: Request) -> Response {
    let body = match read_body(request, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return error.into_response(),
    };
    // Hexadecimal digits are often copied with line breaks.
    let hex: String = field(&body, "tx").split_whitespace().collect();
    let refuse = |why: String| page(pages, hex.clone(), Some(why), StatusCode::BAD_REQUEST);
    let tx: Transaction = match deserialize_hex(&hex) {
        Ok(tx) => tx,
        Err(error) => {
            return refuse(format!(
                "This is not a transaction in hexadecimal digits: {error}."
            ));
        }
    };
    let ledger = &pages.ledger;
    let fail = |error| respond::error(&pages.site, Some(&ledger.chain.id), "", error);
    let Some(node) = &ledger.node else {
        return fail(PageError::Unavailable(
            "This chain is read from files alone: there is no node to send a transaction to."
                .to_owned(),
        ));
    };
    match node.broadcast(&hex).await {
        Ok(txid) => {
            show_at_once(pages, tx).await;
            respond::see_other(&ledger.chain.tx_href(&txid))
        }
        Err(NodeCallError::Rejected { text, .. }) => refuse(text),
        Err(NodeCallError::Unavailable(cause)) => fail(PageError::Unavailable(format!(
            "The node did not answer, so the transaction may not have been sent: {cause}"
        ))),
    }
}

/// Shows what the node has just taken before the next look at its mempool. It has it whatever goes wrong here.
async fn show_at_once(pages: &UtxoPages, tx: Transaction) {
    let index = std::sync::Arc::clone(&pages.ledger.index);
    let added = pages
        .ledger
        .pool
        .run(move || index.add_accepted(vec![tx.into()]))
        .await;
    if !matches!(added, Ok(Ok(_))) {
        tracing::warn!("a broadcast transaction could not be shown at once");
    }
}

//! What a client wants to hear of.

use std::collections::{BTreeMap, BTreeSet};

use bitcoin::Txid;
use cairn_http::{HttpError, QueryParams};
use cairn_utxo_index::ScriptHash;
use serde::Deserialize;

use crate::parse;
use crate::state::App;

/// Scripts and transactions that one client may watch.
pub(super) const WATCHED_MAX: usize = 1_000;

/// What a client wants to hear of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// Blocks and reorganisations.
    pub(super) blocks: bool,
    /// Every transaction that enters or leaves the mempool.
    pub(super) mempool: bool,
    /// Scripts, with the address under which they were named.
    pub(super) scripts: BTreeMap<ScriptHash, Option<String>>,
    /// Transactions.
    pub(super) txs: BTreeSet<Txid>,
}

/// What a client can ask for over a connection that is open.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    #[serde(default)]
    watch: Named,
    #[serde(default)]
    unwatch: Named,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Named {
    addresses: Vec<String>,
    scripthashes: Vec<String>,
    txs: Vec<String>,
}

impl Interest {
    /// Reads `blocks`, `mempool`, `address`, `scripthash` and `tx`. Blocks unless told otherwise.
    pub(super) fn of_query(app: &App, query: &QueryParams) -> Result<Self, HttpError> {
        let list = |name: &str| -> Vec<String> {
            query
                .get(name)
                .unwrap_or("")
                .split(',')
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let mut interest = Self {
            blocks: switch(query, "blocks", true)?,
            mempool: switch(query, "mempool", false)?,
            ..Self::default()
        };
        interest.watch(
            app,
            &Named {
                addresses: list("address"),
                scripthashes: list("scripthash"),
                txs: list("tx"),
            },
        )?;
        Ok(interest)
    }

    /// Does what a message of the client says; an error changes nothing. Returns the transactions that are new.
    pub(super) fn take(&mut self, app: &App, text: &str) -> Result<BTreeSet<Txid>, HttpError> {
        let wish: Wish = serde_json::from_str(text)
            .map_err(|error| HttpError::bad_request(format!("not a wish: {error}")))?;
        let mut next = self.clone();
        next.unwatch(app, &wish.unwatch)?;
        next.watch(app, &wish.watch)?;
        let new = next.txs.difference(&self.txs).copied().collect();
        *self = next;
        Ok(new)
    }

    fn watch(&mut self, app: &App, named: &Named) -> Result<(), HttpError> {
        for (script, address) in scripts(app, named)? {
            self.scripts.insert(script, address);
        }
        for text in &named.txs {
            self.txs.insert(parse::txid(text)?);
        }
        if self.scripts.len() + self.txs.len() > WATCHED_MAX {
            return Err(HttpError::unprocessable(format!(
                "more than {WATCHED_MAX} scripts and transactions"
            )));
        }
        Ok(())
    }

    fn unwatch(&mut self, app: &App, named: &Named) -> Result<(), HttpError> {
        for (script, _) in scripts(app, named)? {
            self.scripts.remove(&script);
        }
        for text in &named.txs {
            self.txs.remove(&parse::txid(text)?);
        }
        Ok(())
    }

    /// Whether blocks alone tell all that the client wants to hear.
    pub(super) fn is_of_blocks_alone(&self) -> bool {
        !self.mempool && self.scripts.is_empty() && self.txs.is_empty()
    }
}

fn scripts(app: &App, named: &Named) -> Result<Vec<(ScriptHash, Option<String>)>, HttpError> {
    let mut scripts = Vec::new();
    for text in &named.addresses {
        let script = parse::address(text, app.network)?;
        scripts.push((ScriptHash::of(script.as_bytes()), Some(text.clone())));
    }
    for text in &named.scripthashes {
        scripts.push((ScriptHash(parse::script_hash(text)?), None));
    }
    Ok(scripts)
}

fn switch(query: &QueryParams, name: &str, usual: bool) -> Result<bool, HttpError> {
    match query.get(name) {
        None => Ok(usual),
        Some("" | "1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(_) => Err(HttpError::bad_request(format!(
            "{name} must be true or false"
        ))),
    }
}

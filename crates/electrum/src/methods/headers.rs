//! `blockchain.block.*` and `blockchain.headers.*`.

use std::sync::Arc;

use bitcoin::BlockHash;
use cairn_utxo_index::View;

use super::{Answer, Ask, Reply, value};
use crate::proofs::HeaderProof;
use crate::rpc::{Args, Json, RpcError};
use crate::session::ToldTip;
use crate::version::V1_6;

/// Most headers in one answer. Wallets ask for whole retargeting periods of 2016.
const HEADERS_MAX: u64 = 2016;
/// Headers that cost one unit.
const HEADERS_PER_UNIT: f64 = 50.0;
/// Price of a proof.
const PROOF_COST: f64 = 1.0;

/// A header, serialized.
fn header_at(view: &View, height: u64) -> Result<Vec<u8>, RpcError> {
    let header = match u32::try_from(height) {
        Ok(height) => view.header_bytes_at(height)?,
        Err(_) => None,
    };
    header.ok_or_else(|| {
        RpcError::bad(format!(
            "there is no block at height {height}; the tip is {}",
            view.tip().height
        ))
    })
}

/// A proof up to a checkpoint, which must not be below the header nor above the tip.
async fn proof(
    ask: &Ask<'_>,
    view: &Arc<View>,
    height: u64,
    checkpoint: u64,
) -> Result<HeaderProof, RpcError> {
    let wrong = || {
        RpcError::bad(format!(
            "cp_height {checkpoint} must not be below the header's height {height} nor above the tip {}",
            view.tip().height
        ))
    };
    let (Ok(height), Ok(checkpoint)) = (u32::try_from(height), u32::try_from(checkpoint)) else {
        return Err(wrong());
    };
    let (server, read_view) = (Arc::clone(ask.server), Arc::clone(view));
    let work = move || server.proofs.proof(&read_view, height, checkpoint);
    let proof = if ask.server.proofs.is_quick(checkpoint) {
        ask.server.quick(work).await?
    } else {
        ask.server.heavy(ask.session, move |_| work()).await?
    };
    proof.ok_or_else(wrong)
}

fn write_proof(json: &mut Json, proof: &HeaderProof) {
    json.raw(",\"root\":")
        .hash(proof.root)
        .raw(",\"branch\":")
        .hashes(&proof.branch);
}

pub(super) async fn header(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["height", "cp_height"], 1)?;
    let (height, checkpoint) = (args.number(0)?, args.number_or(1, 0)?);
    let view = ask.server.view()?;
    let header = header_at(&view, height)?;
    let mut json = Json::new();
    if checkpoint == 0 {
        json.hex(&header);
        return Ok(json.into());
    }
    let proof = proof(ask, &view, height, checkpoint).await?;
    json.raw("{\"header\":").hex(&header);
    write_proof(&mut json, &proof);
    json.raw("}");
    Ok(Reply {
        json,
        cost: PROOF_COST,
    })
}

pub(super) async fn headers(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["start_height", "count", "cp_height"], 2)?;
    let (start, count, checkpoint) = (args.number(0)?, args.number(1)?, args.number_or(2, 0)?);
    let view = ask.server.view()?;
    let mut headers: Vec<Vec<u8>> = Vec::new();
    for height in start..start.saturating_add(count.min(HEADERS_MAX)) {
        let Ok(height) = u32::try_from(height) else {
            break;
        };
        match view.header_bytes_at(height)? {
            Some(header) => headers.push(header),
            None => break,
        }
    }
    let mut json = Json::with_capacity(headers.len() * 164 + 64);
    json.raw("{\"count\":").integer(headers.len() as u64);
    if ask.version < V1_6 {
        json.raw(",\"hex\":\"");
        for header in &headers {
            json.hex_digits(header.iter());
        }
        json.raw("\"");
    } else {
        json.raw(",\"headers\":").list(&headers, |json, header| {
            json.hex(header);
        });
    }
    json.raw(",\"max\":").integer(HEADERS_MAX);
    let mut cost = headers.len() as f64 / HEADERS_PER_UNIT;
    if checkpoint > 0 && count > 0 {
        // The proof is of the last header in the answer; without any there is nothing to prove.
        let last = start + (headers.len() as u64).max(1) - 1;
        write_proof(&mut json, &proof(ask, &view, last, checkpoint).await?);
        cost += PROOF_COST;
    }
    json.raw("}");
    Ok(Reply { json, cost })
}

/// `{"hex":…,"height":…}`: exactly these two, since wallets refuse others.
pub(crate) fn write_tip(json: &mut Json, header: &[u8], height: u32) {
    json.raw("{\"hex\":")
        .hex(header)
        .raw(",\"height\":")
        .integer(u64::from(height))
        .raw("}");
}

fn tip(view: &View) -> Result<Json, RpcError> {
    let tip = view.tip();
    let mut json = Json::new();
    write_tip(
        &mut json,
        &header_at(view, u64::from(tip.height))?,
        tip.height,
    );
    Ok(json)
}

pub(super) fn subscribe(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    // Before the look at the tip, so that one that comes in between is told.
    ask.server.follow(ask.session);
    let view = ask.server.view()?;
    let json = tip(&view)?;
    *ask.session.tip() = Some(ToldTip {
        view: view.sequence(),
        hash: view.tip().hash,
    });
    Ok(json.into())
}

pub(super) fn unsubscribe(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    let was_told = ask.session.tip().take().is_some();
    ask.server.unfollow(ask.session);
    value(was_told)
}

pub(super) fn get_tip(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    Ok(tip(&*ask.server.view()?)?.into())
}

/// A header by height or block hash.
pub(super) fn get(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["block_hash_or_height"], 1)?;
    let view = ask.server.view()?;
    let height = match args.text(0) {
        Ok(text) => {
            let hash: BlockHash = text
                .parse()
                .map_err(|_| RpcError::bad("a block hash has 64 hex digits"))?;
            view.best_chain_block(&hash)
                .map(|block| u64::from(block.height))
                .ok_or_else(|| RpcError::bad(format!("block {hash} is not on the chain")))?
        }
        Err(_) => args.number(0)?,
    };
    let header = header_at(&view, height)?;
    let mut json = Json::new();
    write_tip(
        &mut json,
        &header,
        u32::try_from(height).unwrap_or(u32::MAX),
    );
    Ok(json.into())
}

//! `blockchain.estimatefee`, `blockchain.relayfee` and `mempool.*`.

use super::{Answer, Ask, Reply, value};
use crate::fees::{EstimateMode, Target};
use crate::rpc::{Args, Json, RpcError};

/// Transactions in `mempool.recent`.
const RECENT: usize = 10;

pub(super) async fn estimate(ask: &Ask<'_>) -> Answer {
    let args = Args::bind(ask.params, ["number", "mode"], 1)?;
    let blocks = args.number(0)?;
    let mode = match args.text_opt(1)? {
        None => EstimateMode::Default,
        Some(mode) if mode.eq_ignore_ascii_case("conservative") => EstimateMode::Conservative,
        Some(mode) if mode.eq_ignore_ascii_case("economical") => EstimateMode::Economical,
        Some(_) => return Err(RpcError::bad("mode must be CONSERVATIVE or ECONOMICAL")),
    };
    let node = ask.server.node()?;
    let tip = ask.server.view()?.tip().hash;
    let rate = ask
        .server
        .facts
        .estimate(node, Target::of(blocks), mode, tip)
        .await?;
    let mut json = Json::new();
    json.raw(rate.as_deref().unwrap_or("-1"));
    Ok(json.into())
}

pub(super) async fn relay(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    let facts = ask.server.facts.mempool(ask.server.node()?).await?;
    let mut json = Json::new();
    json.raw(facts.minrelaytxfee.get());
    Ok(json.into())
}

pub(super) async fn info(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    let facts = ask.server.facts.mempool(ask.server.node()?).await?;
    value(&*facts)
}

/// Rates with one decimal, rounded down and strictly falling; sizes in virtual bytes.
pub(super) fn histogram(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    let view = ask.server.view()?;
    let mut bins: Vec<(u64, u64)> = Vec::new();
    for bin in view.mempool().histogram().iter() {
        let tenths =
            u64::try_from(u128::from(bin.rate.fee) * 40 / u128::from(bin.rate.weight.max(1)))
                .unwrap_or(u64::MAX);
        match bins.last_mut() {
            Some((rate, vsize)) if *rate == tenths => *vsize = vsize.saturating_add(bin.vsize),
            _ => bins.push((tenths, bin.vsize)),
        }
    }
    let mut json = Json::new();
    json.list(bins, |json, (tenths, vsize)| {
        json.raw("[").integer(tenths / 10);
        if tenths % 10 > 0 {
            json.raw(".").integer(tenths % 10);
        }
        json.raw(",").integer(vsize).raw("]");
    });
    Ok(json.into())
}

pub(super) fn recent(ask: &Ask<'_>) -> Answer {
    Args::bind(ask.params, [], 0)?;
    let view = ask.server.view()?;
    let mut json = Json::new();
    json.list(view.mempool().recent(RECENT), |json, entry| {
        json.raw("{\"txid\":")
            .hash(entry.txid)
            .raw(",\"fee\":")
            .integer(entry.fee)
            .raw(",\"vsize\":")
            .integer(entry.vsize())
            .raw("}");
    });
    Ok(Reply::from(json))
}

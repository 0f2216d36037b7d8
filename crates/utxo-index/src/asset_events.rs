//! What a transaction does with assets: the rules that rows, the mempool and statistics share. Elements only.
//!
//! An asset that is blinded leaves no trace here; a plain asset with a blinded amount does. The native asset has no rows of
//! transfers, only of what changes how much of it there is.

use bitcoin::{OutPoint, Txid};
use cairn_utxo_chain::elements::{Issuance, Pegin, Pegout};
use cairn_utxo_chain::walk::{Coin, OutputRef};
use cairn_utxo_chain::{AssetId, ElementsChain, Family, Field, Tx};

use crate::rows::{self, AssetEvent, IssuedAsset};

/// An asset, and what is done with it.
pub(crate) type OfAsset = (AssetId, AssetEvent);

/// What an output does: hold, burn or peg out.
pub(crate) fn of_output(
    chain: &ElementsChain,
    vout: u32,
    output: &OutputRef<'_>,
) -> Option<OfAsset> {
    let Coin::Confidential(coin) = output.coin else {
        return None;
    };
    let asset = coin.explicit_asset()?;
    if !rows::is_unspendable(Family::Elements, output.script) {
        let value = coin.value_field();
        return (asset != chain.native_asset)
            .then_some((asset, AssetEvent::Funding { vout, value }));
    }
    let amount = coin.explicit_value().filter(|amount| *amount > 0)?;
    if output.coin.is_fee(output.script) {
        return None;
    }
    let is_pegout = asset == chain.native_asset
        && Pegout::parse(output.script)
            .is_some_and(|pegout| pegout.parent_genesis == chain.parent_genesis());
    let event = match is_pegout {
        true => AssetEvent::Pegout { vout, amount },
        false => AssetEvent::Burn { vout, amount },
    };
    Some((asset, event))
}

/// What an input does by spending an output.
pub(crate) fn of_spend(
    chain: &ElementsChain,
    vin: u32,
    funding: OutPoint,
    spent: &OutputRef<'_>,
) -> Option<OfAsset> {
    match of_output(chain, funding.vout, spent)? {
        (asset, AssetEvent::Funding { value, .. }) => Some((
            asset,
            AssetEvent::Spending {
                vin,
                funding,
                value,
            },
        )),
        _ => None,
    }
}

/// What an input issues; with the `i` row if the asset is new.
pub(crate) fn of_issuance(
    chain: &ElementsChain,
    txid: Txid,
    vin: u32,
    spent: OutPoint,
    issuance: &Issuance,
) -> Option<(OfAsset, Option<IssuedAsset>)> {
    let kind = issuance.kind(&spent);
    if kind.asset == chain.native_asset {
        // The free coins of a test chain's genesis block.
        return None;
    }
    let event = AssetEvent::Issuance {
        vin,
        is_reissuance: kind.is_reissuance,
        amount: issued(&issuance.amount),
        tokens: issued(&issuance.tokens),
    };
    let first = (!kind.is_reissuance).then_some(IssuedAsset {
        txid,
        vin,
        spent,
        issuance: *issuance,
        token: kind.token,
    });
    Some(((kind.asset, event), first))
}

/// Nothing issued is 0; blinded is unknown.
fn issued(amount: &Field) -> Option<u64> {
    match amount.is_null() {
        true => Some(0),
        false => amount.explicit_value(),
    }
}

/// What a peg-in brings.
pub(crate) fn of_pegin(chain: &ElementsChain, vin: u32, pegin: &Pegin<'_>) -> Option<OfAsset> {
    (pegin.asset == chain.native_asset).then_some((
        pegin.asset,
        AssetEvent::Pegin {
            vin,
            amount: pegin.amount,
        },
    ))
}

/// What a transaction does, and the assets that it is the first to issue.
pub(crate) type TxEvents = (Vec<OfAsset>, Vec<(AssetId, IssuedAsset)>);

/// All that a transaction does, and the assets that it is the first to issue. `spent` gives the outputs that its inputs
/// spend, as far as they spend any.
pub(crate) fn of_tx<'a, E>(
    chain: &ElementsChain,
    tx: &Tx,
    txid: Txid,
    spends: impl Iterator<Item = (u32, OutPoint)>,
    mut spent: impl FnMut(u32, &OutPoint) -> Result<OutputRef<'a>, E>,
) -> Result<TxEvents, E> {
    let (mut events, mut issued) = (Vec::new(), Vec::new());
    for (vin, outpoint) in spends {
        events.extend(of_spend(chain, vin, outpoint, &spent(vin, &outpoint)?));
    }
    for (vin, input) in (0u32..).zip(&tx.input) {
        let at = vin as usize;
        let issuance = tx.elements_input(at).and_then(|input| input.issuance);
        if let Some(issuance) = issuance
            && let Some((event, first)) =
                of_issuance(chain, txid, vin, input.previous_output, &issuance)
        {
            issued.extend(first.map(|first| (event.0, first)));
            events.push(event);
        }
        events.extend(tx.pegin(at).and_then(|pegin| of_pegin(chain, vin, &pegin)));
    }
    for (vout, output) in (0u32..).zip(tx.outputs()) {
        events.extend(of_output(chain, vout, &output));
    }
    Ok((events, issued))
}

//! Every `H` row of the index, looked at once.

use super::{Fault, Verifier};
use crate::engine::Family;
use crate::index::IndexError;
use crate::rows::{self, HistKey, HistSide, RowKind, RowValue};
use crate::types::ScriptHash;

/// Rows between two looks at the stop flag.
const STOP_ROWS: u64 = 10_000;

impl Verifier<'_> {
    /// Notes every `H` row that no block of the chain accounts for.
    pub(super) fn scan_history(
        &mut self,
        check_stop: &dyn Fn() -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        let from = vec![RowKind::History.tag()];
        let until = crate::engine::after_prefix(&from);
        let mut cursor = self
            .view
            .history_store()
            .range_cursor(Family::Hist, from.clone(), until);
        cursor.seek(&from);
        let mut seen = 0u64;
        while let Some(key) = cursor.key()? {
            seen += 1;
            if seen.is_multiple_of(STOP_ROWS) {
                check_stop()?;
            }
            match HistKey::decode(key) {
                Ok(row) if self.is_accounted_for(&row)? => {}
                Ok(row) => self.note_once(row.height, key),
                Err(_) => self.note_once(0, key),
            }
            cursor.next();
        }
        Ok(())
    }

    /// Whether the transaction is confirmed at the row's height and the output says what the row says.
    fn is_accounted_for(&self, row: &HistKey) -> Result<bool, IndexError> {
        let Some(block) = self.view.block_at(row.height) else {
            return Ok(false);
        };
        let confirmed = self
            .view
            .txstore()
            .get(Family::Confs, &rows::conf_key(&row.txid, &block.hash))?
            .is_some();
        let (output, spent) = match row.side {
            HistSide::Funding { vout } => (rows::out_key(&row.txid, vout), None),
            HistSide::Spending { vin, funding } => (
                rows::out_key(&funding.txid, funding.vout),
                Some(rows::edge_key(&funding, &row.txid, vin)),
            ),
        };
        let Some(output) = self.view.txstore().get(Family::Outs, &output)? else {
            return Ok(false);
        };
        let output = rows::decode_out_value(self.config.network.family(), &output)?;
        let edge = match spent {
            None => true,
            Some(edge) => self
                .view
                .history_store()
                .get(Family::Edges, &edge)?
                .is_some(),
        };
        let same =
            RowValue::from(output.coin) == row.value && ScriptHash::of(output.script) == row.script;
        Ok(confirmed && edge && same)
    }

    /// A row of a touched script was noted at its block already.
    fn note_once(&mut self, height: u32, key: &[u8]) {
        use bitcoin::hex::DisplayHex;
        let hex = key.to_lower_hex_string();
        if !self
            .report
            .findings
            .iter()
            .any(|finding| finding.key == hex)
        {
            self.report
                .note(height, Family::Hist.db(), Fault::Surplus, key);
        }
    }
}

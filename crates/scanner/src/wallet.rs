//! The application's latest word on a player's balances.

use serde::{Deserialize, Serialize};

use crate::faults::{Fault, Faults};
use crate::fields::Fields;
use crate::json::JsonObject;
use crate::money::{Rounding, Usd};
use crate::time::AtMs;

/// A wallet snapshot. Not a balance computed from transactions: seeding, credits of owners and locked amounts have none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wallet {
    /// Whose.
    pub player_id: String,
    /// Dollars, in micros, not negative.
    pub balance_micros: i64,
    /// APU.
    pub power_ups: i64,
    /// When the application set it, milliseconds since 1970. A later one replaces an earlier one.
    pub updated_ms: i64,
}

impl Wallet {
    /// Reads and checks a wallet; `None` with faults noted.
    ///
    /// Amounts are always rounded to a millionth: applications that keep floats send `9.010000000000002`.
    pub(crate) fn read(json: &str, path: &str, latest: AtMs, faults: &mut Faults) -> Option<Self> {
        let mut fields = Fields::parse(json, path, Rounding::HalfEven, faults);
        let player_id = fields.required_id("playerId");
        fields.required("balanceUsd");
        let balance = fields.usd("balanceUsd");
        if balance.is_some_and(|balance| balance.micros() < 0) {
            fields.fault("balanceUsd", "negative", "is below zero");
        }
        let power_ups = fields.integer("powerUps", 0).unwrap_or(0);
        let currency = fields.text("currency");
        if currency.is_some_and(|currency| currency != "USD") {
            fields.fault("currency", "unknown_value", "is not USD");
        }
        let updated = fields.required_instant("updatedAt", latest);
        if !fields.faults().is_empty() {
            return None;
        }
        Some(Self {
            player_id: player_id?,
            balance_micros: balance?.micros(),
            power_ups,
            updated_ms: updated?.ms(),
        })
    }

    /// The JSON form, as stored; `null` for balances that are not public.
    pub fn to_json(&self, with_balances: bool) -> String {
        let json = JsonObject::new().text("playerId", &self.player_id);
        let json = match Usd::from_micros(self.balance_micros) {
            Some(balance) if with_balances => json
                .usd("balanceUsd", balance)
                .number("powerUps", self.power_ups),
            _ => json
                .raw("balanceUsd", "null")
                .raw("balanceUsdMicros", "null")
                .raw("powerUps", "null"),
        };
        json.text("currency", "USD")
            .text("updatedAt", &AtMs::clamped(self.updated_ms).to_string())
            .end()
    }

    /// Reads a stored wallet.
    pub(crate) fn from_json(json: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Faults::default();
        Self::read(json, "", AtMs::clamped(i64::MAX), &mut faults).ok_or(faults.into_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wallets_round_and_read_back() {
        let wallet = Wallet::from_json(
            r#"{"playerId":"nm-1","balanceUsd":9.010000000000002,"updatedAt":"2026-03-10T14:05:17.123Z"}"#,
        )
        .expect("good");
        assert_eq!((wallet.balance_micros, wallet.power_ups), (9_010_000, 0));
        assert_eq!(Wallet::from_json(&wallet.to_json(true)), Ok(wallet));
    }

    #[test]
    fn faults_of_wallets() {
        let faults =
            Wallet::from_json(r#"{"playerId":7,"balanceUsd":-1,"powerUps":-2,"currency":"EUR"}"#)
                .expect_err("bad");
        let codes: Vec<&str> = faults.iter().map(|fault| fault.code.as_str()).collect();
        assert_eq!(
            codes,
            [
                "wrong_type",
                "negative",
                "too_small",
                "unknown_value",
                "missing"
            ]
        );
    }
}

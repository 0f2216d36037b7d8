//! How values look on a page: amounts, times, hashes, numbers, scripts. Pure functions of their arguments, so that
//! each is tested by a table of examples and no page formats anything by itself.
//!
//! The types that render markup ([`Amount`], [`Hash`], [`Stamp`], [`Json`], [`Sparkline`] and their like) implement
//! [`askama::filters::HtmlSafe`]: their own text is made of digits, hex digits and fixed markup, or escaped here.
//! Everything else is plain text and escaped by the templates.

mod amount;
mod chart;
mod copy;
mod escape;
mod hash;
mod json;
mod lock;
mod number;
mod script;
mod time;
mod usd;

pub(crate) use amount::{Amount, Change};
pub(crate) use chart::{Bars, Sparkline};
pub(crate) use copy::{Copy, path_segment, query_value};
pub(crate) use hash::Hash;
pub(crate) use json::{Difference, Json, compact, differences};
pub(crate) use lock::{LockTime, Sequence};
pub(crate) use number::{bytes, count, difficulty, fee_rate, percent, throughput, virtual_bytes};
pub(crate) use script::{Clipped, ScriptKind, coinbase_text, data_text, inner_scripts};
pub(crate) use time::{Moment, Stamp, age, age_ms, duration};
pub(crate) use usd::{signed, usd};

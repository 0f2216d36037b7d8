//! The pages: those of the whole site here, those of a ledger in its folder.

pub(crate) mod antelope;
pub(crate) mod card;
pub(crate) mod form;
pub(crate) mod home;
pub(crate) mod scanner;
pub(crate) mod search;
pub(crate) mod utxo;

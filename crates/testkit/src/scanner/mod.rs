//! The application ledger for tests: calls from a seed, a slow obvious model of every answer, and a proxy in front of Redis
//! that cuts the connection after so many commands.

mod calls;
mod model;
mod proxy;

pub use calls::{Call, CallGenerator, CallMix};
pub use model::{LedgerModel, ModelNode, ModelSpace, ModelTalk};
pub use proxy::CuttingProxy;

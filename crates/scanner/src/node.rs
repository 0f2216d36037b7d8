//! Accounts: main nodes (people) and agent nodes.

use serde::{Deserialize, Serialize};

use crate::faults::Faults;
use crate::fields::Fields;
use crate::money::Rounding;
use crate::record::{word, words};

words! {
    /// What an account is.
    NodeKind {
        /// A person's.
        Main = "main",
        /// An agent's, attached to a main node.
        Agent = "agent",
        /// Not registered.
        Unknown = "unknown",
    }
}

/// A registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The account.
    pub node_id: String,
    /// What it is.
    pub kind: NodeKind,
    /// The main node an agent belongs to.
    pub owner: Option<String>,
}

impl Node {
    /// Reads and checks a registration; `None` with faults noted.
    pub(crate) fn read(json: &str, path: &str, faults: &mut Faults) -> Option<Self> {
        let mut fields = Fields::parse(json, path, Rounding::Refuse, faults);
        let node_id = fields.required_id("nodeId");
        let kind = word(&mut fields, "kind", NodeKind::parse, NodeKind::list());
        let owner = fields.id("ownerNodeId");
        if !fields.faults().is_empty() {
            return None;
        }
        Some(Self {
            node_id: node_id?,
            kind: kind?,
            owner,
        })
    }

    /// From the application's own hash of an account: `root` and `main` are people, `agent` agents, the rest no account.
    pub(crate) fn from_auth(node_id: &str, kind: &str, parent: Option<&str>) -> Option<Self> {
        let kind = match kind {
            "root" | "main" => NodeKind::Main,
            "agent" => NodeKind::Agent,
            _ => return None,
        };
        let node_id = crate::ids::check_id(node_id).ok()?.to_owned();
        let owner = parent
            .filter(|_| kind == NodeKind::Agent)
            .and_then(|parent| crate::ids::check_id(parent).ok())
            .map(str::to_owned);
        Some(Self {
            node_id,
            kind,
            owner,
        })
    }
}

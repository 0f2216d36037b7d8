//! Whether the process can serve, and why not.
//!
//! Every part registers by name and reports its state; the answer of `/health/ready` is the whole registry. A part that
//! never reports is `starting`, so nothing is ready before it said so.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value, json};

/// The state of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing is known yet.
    Starting,
    /// The first load, or a catch-up over many blocks, is running.
    Indexing,
    /// At the tip as last seen.
    Synced,
    /// What is there is served, but nothing new has come for too long.
    Stalled,
    /// It ended and needs the operator.
    Failed,
}

impl State {
    /// The word in the answer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Indexing => "indexing",
            Self::Synced => "synced",
            Self::Stalled => "stalled",
            Self::Failed => "failed",
        }
    }

    /// Whether requests should be sent here.
    pub fn is_ready(self) -> bool {
        self == Self::Synced
    }
}

/// How far a part is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progression {
    /// Height of the index's tip.
    pub height: Option<u32>,
    /// Height of the source's tip as last seen.
    pub node_height: Option<u32>,
    /// Name of the phase.
    pub phase: &'static str,
    /// Done of the phase, 0 to 100.
    pub percent: Option<f64>,
    /// Speed, bytes per second.
    pub rate: f64,
    /// Estimated seconds until the end.
    pub eta_seconds: Option<u64>,
    /// Blocks read in this load.
    pub blocks: u64,
    /// Transactions read in this load.
    pub txs: u64,
}

/// How much of a node's unconfirmed transactions is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mempool {
    /// A part of them, since the start of the process.
    Loading,
    /// All of them.
    Loaded,
}

impl Mempool {
    /// The word in the answer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Loaded => "loaded",
        }
    }
}

/// What a part reports.
#[derive(Debug, Clone, PartialEq)]
pub struct PartStatus {
    /// Its state.
    pub state: State,
    /// Why it is not `synced`, or what is wrong although it is.
    pub reason: Option<String>,
    /// How far it is.
    pub progress: Progression,
    /// Its unconfirmed transactions; `None` if it follows none.
    pub mempool: Option<Mempool>,
}

impl PartStatus {
    /// A state without anything more to say.
    pub fn new(state: State) -> Self {
        Self {
            state,
            reason: None,
            progress: Progression::default(),
            mempool: None,
        }
    }

    /// Whether requests should be sent here.
    pub fn is_ready(&self) -> bool {
        self.state.is_ready() && self.mempool != Some(Mempool::Loading)
    }

    /// The fields of the answer.
    pub fn to_json(&self) -> Value {
        let progress = &self.progress;
        let mut fields = Map::new();
        fields.insert("index".to_owned(), self.state.name().into());
        fields.insert("height".to_owned(), progress.height.into());
        fields.insert("node_height".to_owned(), progress.node_height.into());
        fields.insert("phase".to_owned(), progress.phase.into());
        if self.state != State::Synced {
            fields.insert(
                "percent".to_owned(),
                progress
                    .percent
                    .map(|percent| (percent * 10.0).round() / 10.0)
                    .into(),
            );
            fields.insert("rate".to_owned(), progress.rate.round().into());
            fields.insert("eta_seconds".to_owned(), progress.eta_seconds.into());
            fields.insert("blocks".to_owned(), progress.blocks.into());
            fields.insert("txs".to_owned(), progress.txs.into());
        }
        if let Some(mempool) = self.mempool {
            fields.insert("mempool".to_owned(), mempool.name().into());
        }
        if let Some(reason) = &self.reason {
            fields.insert("reason".to_owned(), reason.as_str().into());
        }
        fields.into()
    }
}

/// The registry of parts. Cheap to clone; clones share their content.
#[derive(Debug, Clone)]
pub struct Health {
    version: &'static str,
    parts: Arc<RwLock<BTreeMap<String, PartStatus>>>,
    /// Further fields of a part, by its name.
    details: Arc<RwLock<BTreeMap<String, Map<String, Value>>>>,
    services: Arc<RwLock<BTreeMap<String, ServiceStatus>>>,
}

/// What something that the chains share (a Redis) reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Whether it can be used.
    pub is_ready: bool,
    /// Where it is, without secrets.
    pub place: String,
    /// Why it cannot be used, or what is wrong although it can.
    pub reason: Option<String>,
}

impl ServiceStatus {
    fn to_json(&self) -> Value {
        let mut body = json!({ "ready": self.is_ready, "place": self.place });
        if let Some(reason) = &self.reason {
            body["reason"] = reason.as_str().into();
        }
        body
    }
}

/// The right to report for one service.
#[derive(Debug, Clone)]
pub struct Service {
    name: String,
    health: Health,
}

impl Service {
    /// Replaces what was reported before.
    pub fn report(&self, status: ServiceStatus) {
        let mut services = self
            .health
            .services
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        services.insert(self.name.clone(), status);
    }
}

/// The right to report for one part.
#[derive(Debug, Clone)]
pub struct Part {
    name: String,
    health: Health,
}

impl Health {
    /// An empty registry of a process of this version. Without parts it is ready.
    pub fn new(version: &'static str) -> Self {
        Self {
            version,
            parts: Arc::default(),
            details: Arc::default(),
            services: Arc::default(),
        }
    }

    /// Adds a service, which is not ready until it says so.
    pub fn register_service(&self, name: impl Into<String>, place: impl Into<String>) -> Service {
        let service = Service {
            name: name.into(),
            health: self.clone(),
        };
        service.report(ServiceStatus {
            is_ready: false,
            place: place.into(),
            reason: Some("starting".to_owned()),
        });
        service
    }

    fn are_services_ready(&self) -> bool {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.values().all(|status| status.is_ready)
    }

    /// The fields of a part and what it added to them.
    fn part_json(&self, name: &str, status: &PartStatus) -> Value {
        let mut body = status.to_json();
        let details = self.details.read().unwrap_or_else(PoisonError::into_inner);
        if let (Value::Object(fields), Some(more)) = (&mut body, details.get(name)) {
            fields.extend(more.clone());
        }
        body
    }

    /// Adds a part (a chain, by its id) in state [`State::Starting`].
    pub fn register(&self, name: impl Into<String>) -> Part {
        let part = Part {
            name: name.into(),
            health: self.clone(),
        };
        part.report(PartStatus::new(State::Starting));
        part
    }

    /// What a part last reported.
    pub fn status(&self, name: &str) -> Option<PartStatus> {
        self.parts
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    /// Whether every part is ready.
    pub fn is_ready(&self) -> bool {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        parts.values().all(|status| status.is_ready()) && self.are_services_ready()
    }

    /// Readiness and the answer's body: every chain by its id, and for a single chain its fields at the top too.
    pub fn ready_json(&self) -> (bool, Value) {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        let ready = parts.values().all(|status| status.is_ready()) && self.are_services_ready();
        let mut body = Map::new();
        body.insert("ready".to_owned(), ready.into());
        body.insert("version".to_owned(), self.version.into());
        let mut only = parts.iter();
        if let (Some((name, status)), None) = (only.next(), only.next())
            && let Value::Object(fields) = self.part_json(name, status)
        {
            body.extend(fields);
        }
        let chains: Map<String, Value> = parts
            .iter()
            .map(|(name, status)| (name.clone(), self.part_json(name, status)))
            .collect();
        body.insert("chains".to_owned(), chains.into());
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        if !services.is_empty() {
            let services: Map<String, Value> = services
                .iter()
                .map(|(name, status)| (name.clone(), status.to_json()))
                .collect();
            body.insert("services".to_owned(), services.into());
        }
        (ready, body.into())
    }

    /// The same for one part alone, as its own listener shows it.
    pub fn part_ready_json(&self, name: &str) -> (bool, Value) {
        let status = self
            .status(name)
            .unwrap_or_else(|| PartStatus::new(State::Starting));
        let mut body = self.part_json(name, &status);
        if let Value::Object(fields) = &mut body {
            fields.insert("ready".to_owned(), status.is_ready().into());
            fields.insert("version".to_owned(), self.version.into());
        }
        (status.is_ready(), body)
    }

    /// The body of `/health/live`.
    pub fn live_json(&self) -> Value {
        json!({ "live": true, "version": self.version })
    }
}

impl Part {
    /// Replaces the further fields of the answer: what only this kind of part knows.
    pub fn detail(&self, fields: Map<String, Value>) {
        let mut details = self
            .health
            .details
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        details.insert(self.name.clone(), fields);
    }

    /// Replaces what was reported before.
    pub fn report(&self, status: PartStatus) {
        let mut parts = self
            .health
            .parts
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        parts.insert(self.name.clone(), status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_ready_before_it_says_so() {
        let health = Health::new("1.0.0");
        let first = health.register("a");
        let second = health.register("b");
        assert!(!health.is_ready());
        first.report(PartStatus::new(State::Synced));
        assert!(!health.is_ready());
        second.report(PartStatus::new(State::Synced));
        assert!(health.is_ready());
        for state in [
            State::Starting,
            State::Indexing,
            State::Stalled,
            State::Failed,
        ] {
            second.report(PartStatus::new(state));
            assert!(!health.is_ready(), "{state:?}");
        }
    }

    #[test]
    fn a_single_chain_is_at_the_top_too() {
        let health = Health::new("1.0.0");
        let part = health.register("btc");
        part.report(PartStatus {
            state: State::Indexing,
            reason: Some("node busy".to_owned()),
            progress: Progression {
                height: None,
                node_height: Some(200),
                phase: "adding",
                percent: Some(12.345),
                rate: 1000.4,
                eta_seconds: Some(61),
                blocks: 10,
                txs: 20,
            },
            mempool: None,
        });
        let chain = json!({
            "index": "indexing", "height": null, "node_height": 200, "phase": "adding", "percent": 12.3,
            "rate": 1000.0, "eta_seconds": 61, "blocks": 10, "txs": 20, "reason": "node busy",
        });
        let (ready, body) = health.ready_json();
        assert!(!ready);
        assert_eq!(body["chains"]["btc"], chain);
        for (name, value) in chain.as_object().expect("an object") {
            assert_eq!(&body[name], value, "{name}");
        }
        assert_eq!(body["version"], "1.0.0");
        health.register("other");
        let (_, body) = health.ready_json();
        assert_eq!(body.get("index"), None);
        assert_eq!(body["chains"]["other"]["index"], "starting");
    }

    #[test]
    fn a_synced_chain_shows_heights_only() {
        let health = Health::new("1.0.0");
        let part = health.register("btc");
        let progress = Progression {
            height: Some(7),
            node_height: Some(7),
            phase: "following",
            ..Default::default()
        };
        part.report(PartStatus {
            state: State::Synced,
            reason: None,
            progress,
            mempool: None,
        });
        let expected = json!({
            "index": "synced", "height": 7, "node_height": 7, "phase": "following", "ready": true, "version": "1.0.0",
        });
        assert_eq!(health.part_ready_json("btc"), (true, expected));
    }

    #[test]
    fn a_mempool_that_is_loading_is_not_ready() {
        let health = Health::new("1.0.0");
        let part = health.register("btc");
        for (mempool, word, ready) in [
            (Mempool::Loading, "loading", false),
            (Mempool::Loaded, "loaded", true),
        ] {
            part.report(PartStatus {
                mempool: Some(mempool),
                ..PartStatus::new(State::Synced)
            });
            let (is_ready, body) = health.ready_json();
            assert_eq!((is_ready, health.is_ready()), (ready, ready));
            assert_eq!(
                (&body["mempool"], &body["index"]),
                (&word.into(), &"synced".into())
            );
        }
    }

    #[test]
    fn services_count_and_details_are_shown() {
        let health = Health::new("1.0.0");
        let part = health.register("eos");
        part.report(PartStatus::new(State::Synced));
        let mut details = Map::new();
        details.insert("events".to_owned(), 5.into());
        part.detail(details);
        let redis = health.register_service("redis", "unix:/r.sock");
        assert!(!health.is_ready());
        let (ready, body) = health.ready_json();
        assert!(!ready);
        assert_eq!(body["services"]["redis"]["reason"], "starting");
        redis.report(ServiceStatus {
            is_ready: true,
            place: "unix:/r.sock".to_owned(),
            reason: None,
        });
        let (ready, body) = health.ready_json();
        assert!(ready && health.is_ready());
        assert_eq!(
            body["services"]["redis"],
            json!({ "ready": true, "place": "unix:/r.sock" })
        );
        assert_eq!(body["chains"]["eos"]["events"], 5);
        assert_eq!(body["events"], 5);
    }
}

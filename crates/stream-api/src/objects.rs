//! The forms of bodies and answers, for the description of the API.

use serde_json::Value;
use utoipa::ToSchema;

/// An error.
#[derive(Debug, ToSchema)]
pub struct ErrorAnswer {
    /// A sentence for people.
    pub error: String,
    /// A word for programs.
    pub code: String,
}

/// Which events were handled, and which were not. At least one of the three.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct AcksBody {
    /// Handled: these.
    #[schema(required = false)]
    pub ids: Vec<String>,
    /// Handled: this one, and all that were given out before it.
    #[schema(required = false)]
    pub up_to: Option<String>,
    /// Not handled.
    #[schema(required = false)]
    pub failed: Vec<FailedObject>,
}

/// An event that was not handled.
#[derive(Debug, ToSchema)]
pub struct FailedObject {
    /// Its id.
    pub id: String,
    /// Why.
    #[schema(required = false)]
    pub error: String,
}

/// What the answers did.
#[derive(Debug, ToSchema)]
pub struct AcksAnswer {
    /// Events that are done with.
    pub acknowledged: u64,
    /// Events that are given out again, or went to the dead letters.
    pub failed: u64,
    /// Ids that nothing was known of.
    pub unknown: u64,
}

/// Events by a plain request.
#[derive(Debug, ToSchema)]
pub struct BatchAnswer {
    /// `active`, or `standby` when another client or process works.
    pub role: String,
    /// The events, oldest first.
    pub events: Vec<GivenObject>,
}

/// An event that waits for its answer.
#[derive(Debug, ToSchema)]
pub struct GivenObject {
    /// What to acknowledge: the id of its entry, or `replay:` and the id of a dead letter.
    pub id: String,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// The fencing value: higher for each active instance after another.
    pub epoch: u64,
    /// The event as it is in the stream.
    pub event: Value,
}

/// A registered subscription.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
pub struct SubscriptionObject {
    /// Its id.
    pub sub_id: String,
    /// What it wants.
    pub filters: Value,
    /// Where it began.
    pub start_from: Value,
    /// When it was registered first.
    pub registered_at: Option<String>,
    /// Events given out and not acknowledged; null when it was never started.
    pub pending: Option<u64>,
    /// Events that it was not given yet; null when that is not known.
    pub lag: Option<u64>,
    /// The entry that it was given last.
    pub last_delivered_id: Option<String>,
    /// The active instance.
    pub holder: Option<String>,
    /// Events in its dead letters.
    pub dead_letters: u64,
    /// The oldest entry that was left when it lost some.
    pub trimmed_past: Option<String>,
}

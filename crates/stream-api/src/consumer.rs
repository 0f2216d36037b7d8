//! What all ways of getting events have in common: admission, and the connection to the subscription.

use axum::http::HeaderMap;
use cairn_http::{PathParams, QueryParams};
use cairn_stream::subscription::{EventSource, SubId};
use tokio::sync::mpsc;

use crate::client::{Given, Told};
use crate::error::ApiError;
use crate::params;
use crate::state::App;

/// A client's connection to its subscription.
pub(crate) struct Consumer {
    pub(crate) source: EventSource,
    pub(crate) sub_id: SubId,
    pub(crate) told: mpsc::Receiver<Told>,
}

impl Consumer {
    /// Admits and connects; `window` names the parameter that bounds events without an answer.
    pub(crate) async fn connect(
        app: &App,
        path: &PathParams,
        query: &QueryParams,
        headers: &HeaderMap,
        window: &str,
    ) -> Result<Self, ApiError> {
        app.admit(headers)?;
        let (source, sub_id) = app.subscription(path, params::get(query, "job"))?;
        let options = params::options(query, sub_id.clone())?;
        let window = params::window(query, window)?;
        let told = app.hosts.attach(source.clone(), options, window).await?;
        Ok(Self {
            source,
            sub_id,
            told,
        })
    }
}

/// An event with what the client needs for its answer: `{"id","attempt","epoch","event"}`, without the braces.
pub(crate) fn members(given: &Given, out: &mut String) {
    // An id is made of digits and a known word.
    out.push_str("\"id\":\"");
    out.push_str(&given.id);
    out.push_str("\",\"attempt\":");
    out.push_str(&given.attempt.to_string());
    out.push_str(",\"epoch\":");
    out.push_str(&given.event.epoch().to_string());
    out.push_str(",\"event\":");
    out.push_str(given.event.text());
}

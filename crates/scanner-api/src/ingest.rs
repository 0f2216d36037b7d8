//! What the application tells: one call, or many together.
//!
//! Everything is answered with the truth. That a failure must not disturb the application is the caller's part: call after
//! your own commit, with a short timeout, and drop what does not get through (the clients under `examples/` do that).

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use cairn_http::{PathParams, read_body};
use cairn_scanner::json::{JsonObject, array};
use cairn_scanner::{Command, Fault, Hook, Kept, Status};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access;
use crate::answer::Reply;
use crate::error::{ApiError, fault_json};
use crate::objects::{BatchAnswer, ErrorAnswer, StatusAnswer};
use crate::params::Asked;
use crate::state::App;

/// Largest body of one call, bytes.
const SINGLE_MAX: usize = 1 << 20;
/// Largest body of many, bytes.
const BATCH_MAX: usize = 4 << 20;
/// Calls of one batch.
const ITEMS_MAX: usize = 1000;
/// Longest idempotency key, characters.
const KEY_CHARS_MAX: usize = 255;

type Result<T = Reply, E = ApiError> = std::result::Result<T, E>;

pub(crate) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(batch))
        .routes(routes!(single))
}

/// Who may, about which host, and in which form.
fn check(app: &App, asked: &Asked, headers: &HeaderMap) -> Result<bool> {
    access::ingestion(app, headers)?;
    if !asked.is_our_host(app)? {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden_host",
            "the token is not for this host",
        ));
    }
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(|kind| kind.trim().to_ascii_lowercase());
    match kind.as_deref() {
        Some("application/json") => Ok(false),
        Some("application/x-ndjson") => Ok(true),
        _ => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "the body is application/json (a batch also application/x-ndjson)",
        )),
    }
}

fn text(body: &[u8]) -> Result<&str> {
    std::str::from_utf8(body)
        .map_err(|_| ApiError::bad_request("invalid_json", "the body is not UTF-8"))
}

/// A body that is one JSON object.
fn object(body: &[u8]) -> Result<&str> {
    let text = text(body)?;
    let value: &RawValue = serde_json::from_str(text).map_err(|error| {
        ApiError::bad_request("invalid_json", format!("the body is not JSON: {error}"))
    })?;
    if !value.get().trim_start().starts_with('{') {
        return Err(ApiError::bad_request(
            "invalid_json",
            "the body is not a JSON object",
        ));
    }
    Ok(text)
}

/// One call: `appendPurchaseRecord`, `executePurchase`, `redeemWalletBundle`, `applyGameOutcome`, `getPlayerWallet`,
/// `persistSnapshotReturningRev`, `trackEvent`, `indexWalletBalance` or `upsertNode`.
#[utoipa::path(post, path = "/api/ingest/{op}", tag = "ingestion",
    params(
        ("op" = String, Path, description = "the call"),
        ("hostId" = Option<String>, Query, description = "the host; that of this ledger unless given"),
        ("ack" = Option<String>, Query, description = "queued: answer 202 as soon as the call is written down"),
        ("Idempotency-Key" = Option<String>, Header, description = "kept for a day with the answer; the ids of the records make retries safe without it"),
    ),
    request_body(content = serde_json::Value, description = "the call's fields"),
    responses(
        (status = 201, description = "written", body = StatusAnswer),
        (status = 200, description = "known and the same (duplicate), or a wallet older than the stored one (stale)", body = StatusAnswer),
        (status = 202, description = "queued", body = StatusAnswer),
        (status = 400, description = "not JSON", body = ErrorAnswer),
        (status = 401, description = "no valid token", body = ErrorAnswer),
        (status = 409, description = "the id is known with other content", body = ErrorAnswer),
        (status = 422, description = "fields are wrong: all of them, by path", body = ErrorAnswer),
        (status = 503, description = "the store does not answer; nothing was acknowledged", body = ErrorAnswer),
    ))]
async fn single(
    State(app): State<App>,
    path: PathParams,
    asked: Asked,
    request: Request,
) -> Result {
    let is_lines = check(&app, &asked, request.headers())?;
    let hook = Hook::parse(path.get(0)).ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "unknown_op",
            format!("the call is none of: {} batch", Hook::list().trim_end()),
        )
    })?;
    if is_lines {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "one call is application/json",
        ));
    }
    let key = idempotency_key(request.headers())?;
    let is_queued = is_queued(&asked)?;
    let body = read_body(request, SINGLE_MAX).await?;
    let text = object(&body)?;
    // The same key with another call is another request.
    let of_key = key.map(|key| (key, [hook.as_str().as_bytes(), b" ", &body].concat()));
    if let Some((key, bytes)) = &of_key
        && let Some(reply) = earlier(&app, key, bytes).await?
    {
        return Ok(reply);
    }
    let command = app
        .scanner
        .read_request(hook, text)
        .map_err(ApiError::invalid)?;
    let id = command.id();
    if is_queued {
        queue(&app, vec![command]).await?;
        return Ok(Reply::new(status_json("queued", &id)).status(StatusCode::ACCEPTED));
    }
    let status = app
        .scanner
        .apply(std::slice::from_ref(&command))
        .await
        .pop();
    let (word, code) = match status {
        Some(Status::Created) => ("created", StatusCode::CREATED),
        Some(Status::Duplicate) => ("duplicate", StatusCode::OK),
        Some(Status::Stale) => ("stale", StatusCode::OK),
        Some(Status::Conflict { existing }) => return Err(ApiError::conflict(existing)),
        Some(Status::Failed(error)) => return Err(ApiError::store(&error, "Scanner")),
        None => return Err(ApiError::unavailable("Scanner")),
    };
    let json = status_json(word, &id);
    if let Some((key, bytes)) = &of_key {
        let answer = format!("{} {json}", code.as_u16());
        if let Err(error) = app.scanner.keep_answer(key, bytes, &answer).await {
            tracing::warn!(%error, "the answer of a request is not kept; its record makes a retry safe");
        }
    }
    Ok(Reply::new(json).status(code))
}

fn status_json(status: &str, id: &str) -> String {
    JsonObject::new()
        .text("status", status)
        .text("id", id)
        .end()
}

fn is_queued(asked: &Asked) -> Result<bool> {
    let queued = |word: &str| match word {
        "queued" => Some(true),
        "written" => Some(false),
        _ => None,
    };
    Ok(asked
        .word("ack", queued, "queued written")?
        .unwrap_or(false))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= KEY_CHARS_MAX => Ok(Some(key.to_owned())),
        _ => Err(ApiError::bad_request(
            "invalid_idempotency_key",
            "Idempotency-Key has 1 to 255 visible characters",
        )),
    }
}

/// The answer of an earlier request with this key.
async fn earlier(app: &App, key: &str, request: &[u8]) -> Result<Option<Reply>> {
    match app.scanner.kept_answer(key, request).await? {
        Kept::New => Ok(None),
        Kept::OtherRequest => Err(ApiError::new(
            StatusCode::CONFLICT,
            "idempotency_conflict",
            "Idempotency-Key was used for another request",
        )),
        Kept::Answered(answer) => {
            let (code, json) = answer.split_once(' ').unwrap_or(("200", "{}"));
            let code = code
                .parse()
                .ok()
                .and_then(|code| StatusCode::from_u16(code).ok());
            Ok(Some(
                Reply::new(json.to_owned()).status(code.unwrap_or(StatusCode::OK)),
            ))
        }
    }
}

async fn queue(app: &App, commands: Vec<Command>) -> Result<()> {
    let id = app.scanner.queue(&commands).await?;
    let scanner = app.scanner.clone();
    tokio::spawn(async move {
        // What does not succeed now is found again among the pending operations.
        if let Err(error) = scanner.apply_queued(&id).await {
            tracing::warn!(%error, "a queued operation is applied later");
        }
    });
    Ok(())
}

/// What a batch does at the first item that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Continue,
    Stop,
}

#[derive(Deserialize)]
struct BatchBody<'a> {
    #[serde(borrow)]
    ops: Vec<&'a RawValue>,
    #[serde(default)]
    mode: Mode,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// One item of a batch: what it says, or what is wrong with it.
type Read = std::result::Result<Command, Vec<Fault>>;

fn read_item(app: &App, raw: &str) -> Read {
    let fault = |path: &str, code: &str, message: &str| {
        vec![Fault {
            path: path.to_owned(),
            code: code.to_owned(),
            message: message.to_owned(),
        }]
    };
    let item: Item<'_> = serde_json::from_str(raw)
        .map_err(|_| fault("", "invalid_item", "is not an object with op and body"))?;
    let hook =
        Hook::parse(&item.op).ok_or_else(|| fault("op", "unknown_op", "is not a known call"))?;
    app.scanner.read_request(hook, item.body.get())
}

/// Up to 1000 calls, applied in order, each its own unit: nothing is rolled back.
#[utoipa::path(post, path = "/api/ingest/batch", tag = "ingestion",
    params(
        ("hostId" = Option<String>, Query, description = "the host; that of this ledger unless given"),
        ("ack" = Option<String>, Query, description = "queued: answer 202 as soon as the calls are written down"),
    ),
    request_body(content = serde_json::Value, description = "{\"ops\": [{\"op\", \"body\"}, …], \"mode\": \"continue\" or \"stop\"}; or application/x-ndjson, one item a line"),
    responses(
        (status = 200, description = "one result for each item", body = BatchAnswer),
        (status = 202, description = "queued", body = BatchAnswer),
        (status = 400, description = "not JSON, or no items, or too many", body = ErrorAnswer),
        (status = 401, description = "no valid token", body = ErrorAnswer),
        (status = 503, description = "the store does not answer; nothing was acknowledged", body = ErrorAnswer),
    ))]
async fn batch(State(app): State<App>, asked: Asked, request: Request) -> Result {
    let is_lines = check(&app, &asked, request.headers())?;
    let is_queued = is_queued(&asked)?;
    let body = read_body(request, BATCH_MAX).await?;
    let (items, mode): (Vec<Read>, Mode) = if is_lines {
        let lines = text(&body)?.lines().filter(|line| !line.trim().is_empty());
        (
            lines
                .take(ITEMS_MAX + 1)
                .map(|line| read_item(&app, line))
                .collect(),
            Mode::Continue,
        )
    } else {
        let text = text(&body)?;
        let batch: BatchBody<'_> = match serde_json::from_str(text) {
            Ok(batch) if text.trim_start().starts_with('{') => batch,
            Ok(_) => {
                return Err(ApiError::bad_request(
                    "invalid_json",
                    "the body is not a JSON object",
                ));
            }
            Err(error) => {
                // What is no JSON at all is told so.
                object(&body)?;
                return Err(ApiError::bad_request(
                    "invalid_batch",
                    format!("the batch cannot be read: {error}"),
                ));
            }
        };
        if batch.ops.len() > ITEMS_MAX {
            return Err(wrong_size());
        }
        (
            batch
                .ops
                .iter()
                .map(|raw| read_item(&app, raw.get()))
                .collect(),
            batch.mode,
        )
    };
    if items.is_empty() || items.len() > ITEMS_MAX {
        return Err(wrong_size());
    }
    let (results, code) = if is_queued {
        (queue_all(&app, items).await?, StatusCode::ACCEPTED)
    } else {
        (apply_all(&app, items, mode).await?, StatusCode::OK)
    };
    Ok(Reply::new(results_json(&results)).status(code))
}

fn wrong_size() -> ApiError {
    ApiError::bad_request(
        "invalid_batch",
        format!("a batch has 1 to {ITEMS_MAX} items"),
    )
}

/// What became of an item.
enum Outcome {
    Invalid(Vec<Fault>),
    Skipped,
    Queued,
    Told(Status),
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid",
            Self::Skipped => "skipped",
            Self::Queued => "queued",
            Self::Told(status) => status.as_str(),
        }
    }

    fn ends_a_stopping_batch(&self) -> bool {
        matches!(
            self,
            Self::Invalid(_) | Self::Told(Status::Conflict { .. } | Status::Failed(_))
        )
    }
}

async fn queue_all(app: &App, items: Vec<Read>) -> Result<Vec<Outcome>> {
    let mut commands = Vec::new();
    let outcomes = items
        .into_iter()
        .map(|item| match item {
            Ok(command) => {
                commands.push(command);
                Outcome::Queued
            }
            Err(faults) => Outcome::Invalid(faults),
        })
        .collect();
    if !commands.is_empty() {
        queue(app, commands).await?;
    }
    Ok(outcomes)
}

async fn apply_all(app: &App, items: Vec<Read>, mode: Mode) -> Result<Vec<Outcome>> {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(items.len());
    if mode == Mode::Stop {
        let mut is_over = false;
        for item in items {
            let outcome = match item {
                _ if is_over => Outcome::Skipped,
                Err(faults) => Outcome::Invalid(faults),
                Ok(command) => {
                    let status = app
                        .scanner
                        .apply(std::slice::from_ref(&command))
                        .await
                        .pop();
                    status.map_or(Outcome::Skipped, Outcome::Told)
                }
            };
            is_over |= outcome.ends_a_stopping_batch();
            outcomes.push(outcome);
        }
    } else {
        let mut commands = Vec::with_capacity(items.len());
        let faults: Vec<Option<Vec<Fault>>> = items
            .into_iter()
            .map(|item| match item {
                Ok(command) => {
                    commands.push(command);
                    None
                }
                Err(faults) => Some(faults),
            })
            .collect();
        let mut told = app.scanner.apply_owned(commands).await.into_iter();
        for faults in faults {
            outcomes.push(match faults {
                Some(faults) => Outcome::Invalid(faults),
                None => told.next().map_or(Outcome::Skipped, Outcome::Told),
            });
        }
    }
    // A store that was away for all of them is one error, not a thousand.
    let mut told = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Told(status) => Some(status),
        _ => None,
    });
    if let Some(Status::Failed(first)) = told.next()
        && first.is_transient()
        && told.all(|status| matches!(status, Status::Failed(_)))
    {
        return Err(ApiError::store(first, "Scanner"));
    }
    Ok(outcomes)
}

fn results_json(outcomes: &[Outcome]) -> String {
    let mut counts: std::collections::BTreeMap<&str, u64> = std::collections::BTreeMap::new();
    let results = outcomes.iter().enumerate().map(|(index, outcome)| {
        *counts.entry(outcome.word()).or_default() += 1;
        let json = JsonObject::new()
            .number("index", index as u64)
            .text("status", outcome.word());
        match outcome {
            Outcome::Invalid(faults) => json
                .text_if("code", faults.first().map(|fault| fault.code.as_str()))
                .raw("details", &array(faults.iter().map(fault_json)))
                .end(),
            Outcome::Told(Status::Conflict { existing }) => json
                .text("code", "conflict")
                .raw("existing", existing)
                .end(),
            Outcome::Told(Status::Failed(error)) => json.text("code", error.cause()).end(),
            _ => json.end(),
        }
    });
    let results = array(results.collect::<Vec<_>>());
    let mut all = JsonObject::new();
    for (word, count) in counts {
        all = all.number(word, count);
    }
    JsonObject::new()
        .raw("results", &results)
        .raw("counts", &all.end())
        .end()
}

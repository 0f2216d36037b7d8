//! `cairn status`: how far every chain is, from the running server or, without one, from the indexes.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use cairn_config::{Config, Listen};
use cairn_redis::Redis;
use cairn_stream::{ChainLabel, Checkpoint, read_stream_state};
use cairn_telemetry::progress::duration_text;
use cairn_telemetry::routes::READY_PATH;
use cairn_utxo_node::open_source;
use comfy_table::{Table, presets};
use serde_json::{Value, json};

use crate::cli::Common;
use crate::data_dir::{self, DataDirLock};
use crate::failure::Failure;
use crate::services::chain::{known_network, open_index, source_config};
use crate::stop::Stop;
use crate::{app, services, settings, system};

/// How long the server may take to answer.
const SERVER_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a node may take to tell its tip when there is no server.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer read from the server, bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Runs the command.
pub(crate) fn run(common: &Common, as_json: bool) -> Result<ExitCode, Failure> {
    // A server tells its chains by itself; only without one are those of the configuration needed.
    let loaded = settings::load(&settings::sources(common)?)?;
    let config = &loaded.config;
    settings::start_logs(&loaded)?;
    let runtime = system::runtime()?;
    let status = match runtime.block_on(ask_server(&config.http.listen)) {
        Ok(body) => of_server(&body),
        Err(error) => match data_dir::owner(&config.data_dir) {
            Some(pid) => {
                let text = format!(
                    "process {pid} uses {} but does not answer at {}",
                    config.data_dir.display(),
                    config.http.listen
                );
                return Err(error.context(text).into());
            }
            None => of_indexes(&settings::load_with_chains(common)?.config, &runtime)?,
        },
    };
    // Sources that still wait for their node must not hold the end up.
    runtime.shutdown_background();
    if as_json {
        println!("{status:#}");
    } else {
        print(&status);
    }
    Ok(ExitCode::SUCCESS)
}

async fn ask_server(listen: &Listen) -> anyhow::Result<Value> {
    let builder = reqwest::Client::builder()
        // Plain HTTP: a machine without certificates must not fail here.
        .tls_certs_only([])
        .no_proxy()
        .timeout(SERVER_TIMEOUT);
    let (client, base) = match listen {
        Listen::Unix(path) => (
            builder.unix_socket(path.as_path()).build()?,
            "http://localhost".to_owned(),
        ),
        Listen::Tcp { host, port } => (
            builder.build()?,
            format!("http://{}", reachable(host, *port)),
        ),
    };
    let mut answer = client
        .get(format!("{base}{READY_PATH}"))
        .send()
        .await
        .context("no server answers")?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            bail!("the answer of {base} is no status of Cairn");
        }
        body.extend_from_slice(&chunk);
    }
    let body: Value = serde_json::from_slice(&body)
        .map_err(|_| anyhow!("the answer of {base} is no status of Cairn"))?;
    if body["chains"].is_object() && body["version"].is_string() {
        Ok(body)
    } else {
        bail!("the answer of {base} is no status of Cairn")
    }
}

/// An address to connect to for one to listen at.
fn reachable(host: &str, port: u16) -> String {
    match host {
        "0.0.0.0" => format!("127.0.0.1:{port}"),
        "::" => format!("[::1]:{port}"),
        v6 if v6.contains(':') => format!("[{v6}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

/// The server's answer in the form of this command: chains as a list with their lag.
fn of_server(body: &Value) -> Value {
    let chains: Vec<Value> = body["chains"]
        .as_object()
        .map(|chains| {
            chains
                .iter()
                .map(|(id, fields)| with_lag(id, fields.clone()))
                .collect()
        })
        .unwrap_or_default();
    let mut status = json!({
        "source": "server", "ready": body["ready"], "version": body["version"], "chains": chains,
    });
    if body["services"].is_object() {
        status["services"] = body["services"].clone();
    }
    status
}

fn with_lag(id: &str, mut fields: Value) -> Value {
    let lag = match (fields["node_height"].as_u64(), fields["height"].as_u64()) {
        (Some(node), Some(own)) => Value::from(node.saturating_sub(own)),
        _ => Value::Null,
    };
    if let Value::Object(fields) = &mut fields {
        fields.insert("id".to_owned(), id.into());
        fields.insert("lag".to_owned(), lag);
    }
    fields
}

fn of_indexes(config: &Config, runtime: &tokio::runtime::Runtime) -> anyhow::Result<Value> {
    let _lock = if Path::new(&config.data_dir).is_dir() {
        Some(DataDirLock::take(&config.data_dir)?)
    } else {
        None
    };
    let mut chains = Vec::new();
    for chain in config.utxo_chains() {
        let height = match settings::existing_index(config, &chain.id) {
            Some(_) => open_index(config, chain)?
                .view()
                .map(|view| view.tip().height),
            None => None,
        };
        let (node_height, reason) = match node_height(config, chain, runtime) {
            Ok(height) => (height, None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let mut fields = json!({
            "index": "not running", "height": height, "node_height": node_height, "phase": "stopped",
        });
        if let Some(reason) = reason {
            fields["reason"] = reason.into();
        }
        chains.push(with_lag(&chain.id, fields));
    }
    for chain in config.antelope_chains() {
        let fields = runtime
            .block_on(of_stream(config, &chain.id))
            .unwrap_or_else(|error| {
                json!({ "height": null, "node_height": null, "reason": format!("{error:#}") })
            });
        chains.push(with_lag(&chain.id, stopped(fields)));
    }
    Ok(json!({ "source": "index", "ready": false, "version": app::VERSION, "chains": chains }))
}

fn stopped(mut fields: Value) -> Value {
    fields["index"] = "not running".into();
    fields["phase"] = "stopped".into();
    fields
}

/// What the Redis of a chain without a running server says. The private one runs with the server only.
async fn of_stream(config: &Config, id: &str) -> anyhow::Result<Value> {
    let Some(target) = services::redis::target(config)? else {
        bail!("its stream is in the private Redis, which runs with the server only")
    };
    let chain = ChainLabel::new(id)?;
    let look = async {
        let redis = Redis::connect(&target).await?;
        let checkpoint = Checkpoint::read(&redis, &chain).await?;
        let stream = read_stream_state(&redis, &chain).await?;
        anyhow::Ok((checkpoint, stream))
    };
    let (checkpoint, stream) = tokio::time::timeout(NODE_TIMEOUT, look)
        .await
        .with_context(|| format!("Redis did not answer within {} s", NODE_TIMEOUT.as_secs()))??;
    let mut fields = json!({
        "height": checkpoint.position.map(|position| position.num),
        "node_height": null,
        "irreversible_height": checkpoint.lib.map(|lib| lib.num),
        "last_updated": checkpoint.last_updated,
    });
    if let Some((state, groups)) = stream {
        fields["stream_length"] = state.length.into();
        fields["subscriptions"] = services::antelope::subscriptions(&groups);
    }
    Ok(fields)
}

/// Only a node tells its tip quickly; files alone would have to be read.
fn node_height(
    config: &Config,
    chain: &cairn_config::UtxoConfig,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<Option<u32>> {
    if chain.rpc.is_none() {
        return Ok(None);
    }
    let stop = Stop::new();
    let mut config = source_config(chain, known_network(config, chain)?);
    // The tip needs no files.
    config.blocks_dir = None;
    let opened = open_source(&config, runtime.handle().clone(), stop.token().clone())?;
    let source = opened.source;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // The receiver is gone when the time is over; nobody misses the answer then.
        let _ = sender.send(source.tip());
    });
    match receiver.recv_timeout(NODE_TIMEOUT) {
        Ok(tip) => Ok(Some(tip?.height)),
        Err(_) => {
            stop.request();
            bail!(
                "the node did not answer within {} s",
                NODE_TIMEOUT.as_secs()
            )
        }
    }
}

fn print(status: &Value) {
    if status["source"] == "index" {
        println!("no server is running; this is what the indexes hold");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "chain", "state", "tip", "node", "lag", "phase", "done", "rate", "left",
    ]);
    let mut reasons = Vec::new();
    let mut streams = Vec::new();
    for chain in status["chains"].as_array().into_iter().flatten() {
        let number = |name: &str| {
            chain[name]
                .as_u64()
                .map_or("-".to_owned(), |value| value.to_string())
        };
        let text = |name: &str| chain[name].as_str().unwrap_or("-").to_owned();
        let percent = chain["percent"]
            .as_f64()
            .map_or("-".to_owned(), |percent| format!("{percent:.1} %"));
        let rate = chain["rate"].as_f64().filter(|rate| *rate > 0.0);
        table.add_row([
            text("id"),
            text("index"),
            number("height"),
            number("node_height"),
            number("lag"),
            text("phase"),
            percent,
            rate.map_or("-".to_owned(), |rate| format!("{:.1} MB/s", rate / 1e6)),
            chain["eta_seconds"]
                .as_u64()
                .map_or("-".to_owned(), duration_text),
        ]);
        streams.extend(stream_lines(&text("id"), chain));
        if let Some(reason) = chain["reason"].as_str() {
            reasons.push(format!("{}: {reason}", text("id")));
        }
    }
    println!("{table}");
    for line in streams.into_iter().chain(reasons) {
        println!("{line}");
    }
    for (name, service) in status["services"].as_object().into_iter().flatten() {
        if let Some(reason) = service["reason"].as_str() {
            println!("{name}: {reason}");
        }
    }
}

/// A stream's length, and what its subscriptions have not got yet.
fn stream_lines(id: &str, chain: &Value) -> Vec<String> {
    let Some(length) = chain["stream_length"].as_u64() else {
        return Vec::new();
    };
    let mut lines = vec![format!("{id}: {length} events in the stream")];
    for subscription in chain["subscriptions"].as_array().into_iter().flatten() {
        let lag = subscription["lag"]
            .as_u64()
            .map_or("an unknown number of".to_owned(), |lag| lag.to_string());
        lines.push(format!(
            "{id}: subscription {}: {lag} events behind, {} not acknowledged",
            subscription["id"].as_str().unwrap_or("-"),
            subscription["pending"].as_u64().unwrap_or_default()
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags() {
        for (own, node, lag) in [
            (json!(5), json!(7), json!(2)),
            (json!(7), json!(5), json!(0)),
            (Value::Null, json!(5), Value::Null),
            (json!(5), Value::Null, Value::Null),
        ] {
            let fields = with_lag("a", json!({ "height": own, "node_height": node }));
            assert_eq!(fields["lag"], lag);
            assert_eq!(fields["id"], "a");
        }
    }

    #[test]
    fn streams_have_lines() {
        let chain = json!({
            "stream_length": 7,
            "subscriptions": [{ "id": "s", "lag": 3, "pending": 1 }, { "id": "t", "lag": null, "pending": 0 }],
        });
        assert_eq!(
            stream_lines("eos", &chain),
            [
                "eos: 7 events in the stream",
                "eos: subscription s: 3 events behind, 1 not acknowledged",
                "eos: subscription t: an unknown number of events behind, 0 not acknowledged",
            ]
        );
        assert_eq!(
            stream_lines("btc", &json!({ "height": 1 })),
            Vec::<String>::new()
        );
    }

    #[test]
    fn addresses_to_connect_to() {
        for (host, expected) in [
            ("0.0.0.0", "127.0.0.1:1"),
            ("::", "[::1]:1"),
            ("::1", "[::1]:1"),
            ("node", "node:1"),
        ] {
            assert_eq!(reachable(host, 1), expected);
        }
    }
}

//! Paths, queries and bodies of the Esplora API, and scripts as it prints them.
//!
//! The parsers and printers are taken as source files: the crate they belong to stands on the store, whose C++ would have
//! to be built with instrumentation as well.
#![no_main]

use std::sync::LazyLock;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Uri};
use axum::routing::{get, post};
use bitcoin::{Network, Script, Transaction, TxOut};
use cairn_utxo_chain::address::address_of;
use cairn_http::{
    Answer, HttpError, PathParams, QueryParams, Surface, SurfaceOptions, endpoint_not_found,
    parse_decimal, read_body,
};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

#[path = "../../crates/esplora/src/asm.rs"]
mod asm;
#[path = "../../crates/esplora/src/json.rs"]
mod json;
#[path = "../../crates/esplora/src/parse.rs"]
mod parse;
#[path = "../../crates/esplora/src/script.rs"]
mod script;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime without threads")
});

/// Every parser on every value: as the endpoints do, but without an index to ask.
static SURFACE: LazyLock<Surface> = LazyLock::new(|| {
    let router = Router::new()
        .route("/hash/{hash}/{index}", get(hash))
        .route("/address/{address}", get(address))
        .route("/scripts", post(scripts))
        .fallback(endpoint_not_found);
    Surface::new(router, SurfaceOptions::default())
});

async fn hash(path: PathParams, query: QueryParams) -> Result<Answer, HttpError> {
    parse::txid(path.get(0))?;
    parse::block_hash(path.get(0))?;
    parse::script_hash(path.get(0))?;
    parse::number(path.get(1))?;
    let asked = query.get("txids").unwrap_or("");
    for txid in asked.split(',') {
        parse::txid(txid)?;
    }
    if let Some(outpoint) = parse::outpoint(asked) {
        assert_eq!(parse::outpoint(&outpoint.to_string()), Some(outpoint));
    }
    let most = 100;
    assert!(parse::limit(&query, 25, most)? <= most);
    let _ = parse::decimal(&query, "maxfeerate", "Invalid maxfeerate")?;
    Ok(Answer::text(format!("{:?}", parse_decimal(path.get(1)))))
}

async fn address(path: PathParams) -> Result<Answer, HttpError> {
    let script = parse::address(path.get(0), Network::Bitcoin)?;
    let again = address_of(&script, Network::Bitcoin.into()).expect("came from an address");
    assert_eq!(
        parse::address(&again.to_string(), Network::Bitcoin).as_ref(),
        Ok(&script)
    );
    Ok(Answer::text(again.to_string()))
}

async fn scripts(request: axum::extract::Request) -> Result<Answer, HttpError> {
    let body = read_body(request, 10_000).await?;
    let _ = parse::transactions(&body);
    Ok(Answer::text(
        parse::text_array(&body, 10)?.len().to_string(),
    ))
}

fuzz_target!(|data: &[u8]| {
    let (first, rest) = data
        .iter()
        .position(|&byte| byte == b'\n')
        .map_or((data, &[][..]), |at| {
            let (first, rest) = data.split_at(at);
            (first, &rest[1..])
        });
    if let Ok(text) = std::str::from_utf8(first) {
        for (method, path) in [("GET", format!("/{text}")), ("POST", "/scripts".to_owned())] {
            let Ok(uri) = path.parse::<Uri>() else {
                continue;
            };
            let Ok(request) = Request::builder()
                .method(method)
                .uri(uri)
                .body(Body::from(rest.to_vec()))
            else {
                continue;
            };
            let answer = RUNTIME.block_on(SURFACE.handle(request));
            assert!(
                !answer.status().is_server_error(),
                "{method} {path}: {}",
                answer.status()
            );
        }
    }
    let _ = parse::hex_text(data);
    let mut printed = json::JsonBuf::default();
    asm::write_asm(&mut printed, data);
    assert_eq!(
        printed.into_bytes(),
        Script::from_bytes(data).to_asm_string().into_bytes()
    );
    script::script_type(Script::from_bytes(data), true);
    if let Ok(tx) = bitcoin::consensus::deserialize::<Transaction>(data) {
        let stand_in = tx.output.first().cloned().unwrap_or(TxOut::NULL);
        for input in &tx.input {
            script::inner_scripts(input, &stand_in);
        }
    }
});

//! What an Electrum client sends: PROXY headers, lines in pieces, requests, batches, arguments, versions.
//!
//! The parsers are taken as source files: the crate they belong to stands on the store, whose C++ would have to be built
//! with instrumentation as well.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/electrum/src/transport/lines.rs"]
mod lines;
#[path = "../../crates/electrum/src/transport/proxy.rs"]
mod proxy;
#[path = "../../crates/electrum/src/rpc/mod.rs"]
mod rpc;
#[path = "../../crates/electrum/src/version.rs"]
mod version;

use lines::{Line, LineBuffer};
use rpc::{Args, Call, Incoming, Item, Json, write_error, write_result};

/// Longest line in this harness.
const LINE_MAX: usize = 4096;
/// Largest batch in this harness.
const BATCH_MAX: usize = 16;

fuzz_target!(|data: &[u8]| {
    let (cut, data) = data.split_first().map_or((1, data), |(first, rest)| (usize::from(*first).max(1), rest));
    proxy(data);
    // However the bytes are cut, the lines are the same.
    let whole = split(&[data]);
    let pieces: Vec<&[u8]> = data.chunks(cut).collect();
    assert_eq!(whole, split(&pieces));
    for line in whole.into_iter().flatten() {
        answer(&line);
    }
});

/// A future that reads from memory is ready at once.
fn proxy(data: &[u8]) {
    let mut bytes = data;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without threads");
    let read = runtime.block_on(proxy::read_proxy_header(&mut bytes));
    if read.is_ok() {
        assert!(bytes.len() < data.len());
    }
}

/// All lines; the last one is `None` when a line was too long.
fn split(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut buffer = LineBuffer::new(LINE_MAX);
    let mut lines = Vec::new();
    for piece in pieces {
        buffer.space().extend_from_slice(piece);
        loop {
            match buffer.next() {
                Line::Whole(line) => lines.push(Some(line)),
                Line::Partial => break,
                Line::TooLong => {
                    lines.push(None);
                    return lines;
                }
            }
        }
    }
    lines
}

/// Every answer is one line of JSON.
fn answer(line: &[u8]) {
    let items = match rpc::parse(line, BATCH_MAX) {
        Incoming::One(item) => vec![item],
        Incoming::Batch(items) => {
            assert!((1..=BATCH_MAX).contains(&items.len()));
            items
        }
    };
    for item in items {
        let mut out = Vec::new();
        match item {
            Item::Silent => continue,
            Item::Invalid(error) => write_error(&mut out, None, &error),
            Item::Call(call) => run(&call, &mut out),
        }
        assert!(!out.contains(&b'\n'), "one line");
        let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        assert!(value.get("result").is_some() != value.get("error").is_some());
    }
}

fn run(call: &Call<'_>, out: &mut Vec<u8>) {
    let bound = Args::bind(call.params, ["scripthash", "height", "flag", "list"], 1).and_then(|args| {
        let text = args.text(0)?;
        let _ = (args.number_or(1, 0), args.signed_or(1, 0), args.flag(2), args.texts(3, 5), args.text_opt(3));
        if let Some(version) = version::negotiate(&text, &text) {
            assert!((version::LOWEST..=version::HIGHEST).contains(&version));
            assert_eq!(version::negotiate(&version.to_string(), &text), Some(version));
        }
        let mut json = Json::new();
        json.value(&text);
        Ok(json)
    });
    match bound {
        Ok(json) => write_result(out, call.id, &json),
        Err(error) => write_error(out, Some(call.id), &error),
    }
}

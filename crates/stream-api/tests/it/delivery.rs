//! What clients get, and what their answers do.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::support::{PATIENCE, TOKEN, World, listen, options};

const FIRST: &str = "startFrom=first";

#[tokio::test]
async fn server_sent_events_until_they_are_acknowledged() {
    let world = World::start().await;
    let all = world.publish(1, 6);
    let mut client = world.sse(&format!("s/events?{FIRST}")).await;
    let (ids, entries) = client.events(6).await;
    assert_eq!(ids, all);
    let (status, said) = world
        .acks("s", &json!({ "upTo": entries[1], "ids": [entries[3]] }))
        .await;
    assert_eq!(
        (status, said),
        (200, json!({ "acknowledged": 3, "failed": 0, "unknown": 0 }))
    );
    // The rest comes again on the next connection, first of all.
    drop(client);
    let more = world.publish(7, 7);
    let mut client = world.sse(&format!("s/events?{FIRST}")).await;
    let (ids, entries) = client.events(4).await;
    assert_eq!(
        ids,
        [
            all[2].clone(),
            all[4].clone(),
            all[5].clone(),
            more[0].clone()
        ]
    );
    let (_, said) = world
        .acks("s", &json!({ "upTo": entries[3], "ids": [entries[0]] }))
        .await;
    assert_eq!(
        said,
        json!({ "acknowledged": 4, "failed": 0, "unknown": 0 })
    );
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
    let (_, said) = world
        .acks("s", &json!({ "ids": [entries[0], "nonsense"] }))
        .await;
    assert_eq!(said["unknown"], 2);
}

#[tokio::test]
async fn no_more_than_the_window_and_signs_of_life() {
    let world = World::start().await;
    let all = world.publish(1, 5);
    let mut client = world.sse(&format!("s/events?{FIRST}&window=2")).await;
    let (_, entries) = client.events(2).await;
    // Nothing follows but comments, until one is acknowledged.
    let silent = tokio::time::timeout(Duration::from_millis(1_000), client.next()).await;
    assert!(silent.is_err(), "{silent:?}");
    assert!(client.comments >= 1);
    world.acks("s", &json!({ "ids": [entries[1]] })).await;
    let (ids, _) = client.events(1).await;
    assert_eq!(ids, all[2..3]);
}

#[tokio::test]
async fn what_fails_three_times_goes_to_the_dead_letters() {
    let world = World::start().await;
    let all = world.publish(1, 3);
    let mut client = world.sse(&format!("s/events?{FIRST}&window=1")).await;
    for _ in 0..3 {
        let sent = client.event().await;
        assert_eq!(sent.json()["event_id"], all[0].as_str());
        world
            .acks(
                "s",
                &json!({ "failed": [{ "id": sent.id, "error": "no" }] }),
            )
            .await;
    }
    let (ids, _) = client.events(1).await;
    assert_eq!(ids, all[1..2]);
    let dead: Vec<(String, Vec<(String, String)>)> =
        world.server.run("XRANGE ce:parser2:eos:dead:s - +");
    assert_eq!(dead.len(), 1);
    assert!(
        dead[0]
            .1
            .contains(&("lastError".to_owned(), "no".to_owned()))
    );
}

#[tokio::test]
async fn a_second_client_stands_by() {
    let world = World::start().await;
    let all = world.publish(1, 3);
    let path = format!("s/events?{FIRST}");
    let mut first = world.sse(&path).await;
    first.events(3).await;
    let mut second = world.sse(&path).await;
    assert_eq!(second.next().await.expect("its role").name, "standby");
    drop(first);
    let (ids, _) = second.events(3).await;
    assert_eq!(ids, all, "what the first one did not answer for");
}

#[tokio::test]
async fn another_server_takes_over() {
    let world = World::start().await;
    let all = world.publish(1, 3);
    let mut first = world.sse(&format!("s/events?{FIRST}")).await;
    let (_, entries) = first.events(3).await;
    world.acks("s", &json!({ "ids": [entries[0]] })).await;
    let (url, _other) = listen(
        &world.server.url(),
        cairn_http::Token::new(TOKEN),
        options(),
    )
    .await;
    let response = world
        .http
        .get(format!(
            "{url}/api/streams/eos/subscriptions/s/events?{FIRST}"
        ))
        .bearer_auth(TOKEN)
        .send()
        .await
        .expect("an answer");
    let mut second = crate::support::Sse::of(response);
    assert_eq!(second.next().await.expect("its role").name, "standby");
    // The first client goes; its server gives the lock back after a while.
    drop(first);
    let (ids, _) = second.events(2).await;
    assert_eq!(ids, all[1..]);
    let (status, said) = world.acks("s", &json!({ "ids": [entries[1]] })).await;
    assert_eq!(
        (status, said["code"].as_str()),
        (409, Some("not_connected"))
    );
}

#[tokio::test]
async fn batches_for_simple_clients() {
    let world = World::start().await;
    let all = world.publish(1, 5);
    let (status, said) = world.get(&format!("s/batch?{FIRST}&limit=3")).await;
    assert_eq!((status, said["role"].as_str()), (200, Some("active")));
    let ids = |said: &Value, name: &str| -> Vec<String> {
        let events = said["events"].as_array().expect("a list");
        events
            .iter()
            .map(|given| match name {
                "event_id" => given["event"]["event_id"].as_str(),
                other => given[other].as_str(),
            })
            .map(|id| id.expect("an id").to_owned())
            .collect()
    };
    assert_eq!(ids(&said, "event_id"), all[..3]);
    assert_eq!(said["events"][0]["attempt"], 1);
    let entries = ids(&said, "id");
    // Not acknowledged: again.
    let (_, again) = world.get(&format!("s/batch?{FIRST}&limit=3")).await;
    assert_eq!(ids(&again, "id"), entries);
    let (status, _) = world.acks("s", &json!({ "upTo": entries[2] })).await;
    assert_eq!(status, 200);
    let (_, rest) = world.get(&format!("s/batch?{FIRST}&limit=3")).await;
    assert_eq!(ids(&rest, "event_id"), all[3..]);
    world.acks("s", &json!({ "ids": ids(&rest, "id") })).await;
    let (_, none) = world.get(&format!("s/batch?{FIRST}&waitMs=50")).await;
    assert_eq!(none["events"], json!([]));
}

#[tokio::test]
async fn a_web_socket_carries_events_and_answers() {
    let world = World::start().await;
    let all = world.publish(1, 4);
    let url = world
        .path(&format!("s/events?{FIRST}"))
        .replace("http://", "ws://");
    let mut request = url.into_client_request().expect("a request");
    request.headers_mut().insert(
        "authorization",
        format!("Bearer {TOKEN}").parse().expect("ascii"),
    );
    let (mut socket, _) = tokio_tungstenite::connect_async(request)
        .await
        .expect("connected");
    let next = async |socket: &mut tokio_tungstenite::WebSocketStream<_>| -> Value {
        loop {
            let message = tokio::time::timeout(PATIENCE, socket.next())
                .await
                .expect("in time");
            match message.expect("open").expect("a message") {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).expect("JSON");
                    if message["type"] == "event" || message["type"] == "error" {
                        return message;
                    }
                }
                Message::Close(frame) => {
                    return json!({ "closed": frame.map(|frame| frame.reason.to_string()) });
                }
                _ => {}
            }
        }
    };
    let mut entries = Vec::new();
    for id in &all {
        let message = next(&mut socket).await;
        assert_eq!(message["event"]["event_id"], id.as_str());
        assert_eq!(message["epoch"], 1);
        entries.push(message["id"].as_str().expect("an id").to_owned());
    }
    for text in [
        json!({ "type": "nack", "id": entries[3], "error": "not yet" }),
        json!({ "type": "ack", "upTo": entries[1] }),
        json!({ "type": "ack", "ids": [entries[2]] }),
    ] {
        socket
            .send(Message::text(text.to_string()))
            .await
            .expect("sent");
    }
    let again = next(&mut socket).await;
    assert_eq!(
        (again["id"].as_str(), again["attempt"].as_u64()),
        (Some(entries[3].as_str()), Some(2))
    );
    socket
        .send(Message::text(
            json!({ "type": "ack", "ids": [entries[3]] }).to_string(),
        ))
        .await
        .expect("sent");
    world
        .until("all is acknowledged", |world| world.pending("s") == 0)
        .await;
    socket
        .send(Message::text("{\"type\":\"dance\"}"))
        .await
        .expect("sent");
    let closed = next(&mut socket).await;
    assert!(
        closed["closed"]
            .as_str()
            .expect("a reason")
            .contains("dance"),
        "{closed}"
    );
}

#[tokio::test]
async fn stopping_gives_locks_back_and_loses_no_answer() {
    let world = World::start().await;
    world.publish(1, 3);
    let mut client = world.sse(&format!("s/events?{FIRST}")).await;
    let (_, entries) = client.events(3).await;
    world.acks("s", &json!({ "upTo": entries[1] })).await;
    tokio::time::timeout(PATIENCE, world.hosts.clone().run(async {}))
        .await
        .expect("it ends");
    assert_eq!(world.pending("s"), 1);
    let lock: Option<String> = world.server.run("GET parser2:sub:s:lock");
    assert_eq!(lock, None);
    while let Some(sent) = client.next().await {
        assert_ne!(sent.name, "", "no event after the end");
    }
    let (status, said) = world.get(&format!("s/batch?{FIRST}")).await;
    assert_eq!((status, said["code"].as_str()), (503, Some("stopping")));
}

#[tokio::test]
async fn filters_in_the_query_and_the_list_of_subscriptions() {
    let world = World::start().await;
    world.publish(1, 3);
    let filters = "%5B%7B%22kind%22%3A%22action%22%2C%22data%22%3A%7B%22n%22%3A2%7D%7D%5D";
    let (_, said) = world
        .get(&format!("s/batch?{FIRST}&filters={filters}&limit=1"))
        .await;
    assert_eq!(said["events"][0]["event"]["event_id"], "x:a:2");
    let (status, list) = world.get("").await;
    assert_eq!(status, 200);
    assert_eq!(list[0]["subId"], "s");
    assert_eq!(
        list[0]["filters"],
        json!([{ "kind": "action", "data": { "n": 2 } }])
    );
    assert!(list[0]["holder"].is_string());
}

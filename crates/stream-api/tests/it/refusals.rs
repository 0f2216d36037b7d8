//! What is refused, with its word; and the description of the API.

use serde_json::{Value, json};

use crate::support::{TOKEN, World, answer, listen, options};

#[tokio::test]
async fn only_with_the_token() {
    let world = World::start().await;
    for (token, status) in [(None, 401), (Some("wrong"), 401), (Some(TOKEN), 200)] {
        for (rest, is_post) in [("s/batch?waitMs=1", false), ("s/acks", true), ("", false)] {
            let url = world.path(rest);
            let mut request = if is_post {
                world.http.post(url).body("{\"ids\":[\"1-0\"]}")
            } else {
                world.http.get(url)
            };
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let (got, said) = answer(request).await;
            assert_eq!(got, status, "{rest}: {said}");
        }
    }
    let (url, _) = listen(&world.server.url(), None, options()).await;
    let request = world
        .http
        .get(format!("{url}/api/streams/eos/subscriptions"))
        .bearer_auth(TOKEN);
    let (status, said) = answer(request).await;
    assert_eq!((status, said["code"].as_str()), (503, Some("disabled")));
    assert!(
        said["error"]
            .as_str()
            .expect("a text")
            .contains("stream.token")
    );
}

#[tokio::test]
async fn requests_that_make_no_sense() {
    let world = World::start().await;
    world.publish(1, 2);
    for (rest, status, code) in [
        ("s/batch?startFrom=yesterday", 400, "invalid_start"),
        ("s/batch?filters=%7B%7D", 400, "invalid_filters"),
        ("s/batch?limit=many", 400, "invalid_number"),
        ("s/batch?forks=maybe", 400, "invalid_flag"),
        ("a%3Ab/batch", 400, "invalid_id"),
        ("s/batch?job=a%3Ab", 400, "invalid_id"),
        ("t/batch?startFrom=77", 409, "not_published"),
        ("u/batch?startFrom=head-minus-5", 409, "no_head"),
    ] {
        let (got, said) = world.get(rest).await;
        assert_eq!(
            (got, said["code"].as_str()),
            (status, Some(code)),
            "{rest}: {said}"
        );
    }
    for body in [json!({}), json!({ "ids": 7 }), json!([])] {
        let (status, said) = world.acks("s", &body).await;
        assert_eq!((status, said["code"].as_str()), (400, Some("invalid_body")));
    }
    let (status, said) = world.acks("nobody", &json!({ "ids": ["1-0"] })).await;
    assert_eq!(
        (status, said["code"].as_str()),
        (409, Some("not_connected"))
    );
    let unknown = world
        .http
        .get(format!("{}/api/streams/other/subscriptions", world.url))
        .bearer_auth(TOKEN);
    assert_eq!(answer(unknown).await.1["code"], "unknown_chain");
}

#[tokio::test]
async fn limits_and_other_options() {
    let world = World::with(cairn_stream_api::ApiOptions {
        subscriptions_max: 1,
        connections_max: 2,
        ..options()
    })
    .await;
    world.publish(1, 1);
    let path = "s/events?startFrom=first";
    let mut first = world.sse(path).await;
    first.events(1).await;
    let _second = world.sse(path).await;
    for (rest, status, code) in [
        ("s/batch?startFrom=first", 429, "too_many_connections"),
        ("s/batch", 409, "other_options"),
        ("t/batch", 503, "too_many_subscriptions"),
    ] {
        let (got, said) = world.get(rest).await;
        assert_eq!((got, said["code"].as_str()), (status, Some(code)), "{rest}");
    }
}

#[tokio::test]
async fn the_description_names_every_route() {
    let world = World::start().await;
    let (status, description) = answer(
        world
            .http
            .get(format!("{}/api/streams/openapi.json", world.url)),
    )
    .await;
    assert_eq!(status, 200);
    let base = "/api/streams/{chain}/subscriptions";
    for (path, method) in [
        (base.to_owned(), "get"),
        (format!("{base}/{{sub}}/events"), "get"),
        (format!("{base}/{{sub}}/batch"), "get"),
        (format!("{base}/{{sub}}/acks"), "post"),
    ] {
        assert!(description["paths"][&path][method].is_object(), "{path}");
    }
    // Every reference leads somewhere.
    let text = description.to_string();
    for part in text.split("\"$ref\":\"#").skip(1) {
        let pointer = part.split('"').next().expect("a pointer");
        assert_ne!(description.pointer(pointer), None, "{pointer}");
    }
    assert_ne!(description["info"]["title"], Value::Null);
}

//! One server: ways in, refusals, restarts.

use std::time::Duration;

use cairn_redis::{Redis, RedisError, Target, TargetKind};
use cairn_testkit::{RedisOptions, RedisServer};

use crate::{connect, get, set, stand_in, until_ok};

#[tokio::test]
async fn all_ways_to_one_server() {
    let server = RedisServer::start();
    for url in [
        server.url(),
        server.unix_url(),
        format!("{}/3", server.url()),
        format!("valkey://localhost:{}", server.port()),
    ] {
        let redis = connect(&url).await;
        set(&redis, "key", &url).await.expect("written");
        assert_eq!(get(&redis, "key").await.expect("read"), Some(url));
        assert_eq!(redis.target().kind(), TargetKind::Single);
        assert!(!redis.is_cluster());
    }
    // The database number was used.
    assert_eq!(
        server.run::<String>("GET key"),
        format!("valkey://localhost:{}", server.port())
    );
    let facts = connect(&server.url()).await.facts().await.expect("told");
    assert_eq!(facts.append_only, Some(true));
    assert!(
        facts
            .version
            .is_some_and(|version| version.starts_with('7') || version.starts_with('8'))
    );
    assert_eq!(facts.max_bytes, Some(0));
}

#[tokio::test]
async fn a_password_is_needed_and_never_shown() {
    let server = RedisServer::start_with(RedisOptions {
        password: Some("hunter2secret".to_owned()),
        ..RedisOptions::default()
    });
    let redis = connect(&server.url()).await;
    assert!(!format!("{redis:?} {}", redis.place()).contains("hunter2"));
    for url in [
        format!("redis://:wrongsecret@127.0.0.1:{}", server.port()),
        server.unix_url(),
    ] {
        let target = Target::parse(&url).expect("valid");
        let error = Redis::connect(&target).await.expect_err("no way in");
        assert!(matches!(error, RedisError::Refused { .. }), "{error:?}");
        assert!(!error.is_transient());
        let text = format!("{error} {error:?}");
        assert!(
            !text.contains("secret") && text.contains("Check the user, the password"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn nobody_there_is_transient_and_says_where() {
    let server = RedisServer::start();
    let url = server.url();
    let socket = server.unix_url();
    drop(server);
    for url in [url, socket, "redis://no-such-host.invalid".to_owned()] {
        let target = Target::parse(&url).expect("valid");
        let error = Redis::connect(&target).await.expect_err("nobody there");
        assert!(error.is_transient(), "{error:?}");
        assert!(error.to_string().contains(&target.to_string()), "{error}");
    }
}

#[tokio::test]
async fn an_old_server_is_refused_and_a_newer_one_taken() {
    let target = Target::parse(&stand_in::of_version("6.2.14")).expect("valid");
    let error = Redis::connect(&target)
        .await
        .expect_err("too old")
        .to_string();
    assert!(error.contains("6.2.14") && error.contains("7.0"), "{error}");
    connect(&stand_in::of_version("9.1.0")).await;
}

#[tokio::test]
async fn it_comes_back_after_a_restart() {
    let mut server = RedisServer::start();
    let redis = connect(&server.url()).await;
    set(&redis, "key", "before").await.expect("written");
    server.kill();
    let error = get(&redis, "key").await.expect_err("it is gone");
    assert!(error.is_transient(), "{error}");
    server.restart();
    let value = until_ok("after the restart", || get(&redis, "key")).await;
    assert_eq!(value.as_deref(), Some("before"));
    // All clones share the new connection.
    let clones: Vec<_> = (0..20)
        .map(|_| {
            let redis = redis.clone();
            tokio::spawn(async move { get(&redis, "key").await })
        })
        .collect();
    for clone in clones {
        assert!(clone.await.expect("no panic").is_ok());
    }
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    server.run::<()>("SET text x");
    let error = redis
        .query::<u32>("text", redis::cmd("XLEN").arg("text"))
        .await
        .expect_err("a string is no stream");
    assert!(
        matches!(&error, RedisError::WrongType { what, .. } if what == "text"),
        "{error:?}"
    );
    server.config_set("maxmemory", "1");
    let error = set(&redis, "more", "x").await.expect_err("no memory");
    assert!(error.is_full() && error.is_transient(), "{error:?}");
    // In a script and in a pipeline the code is as plain.
    let script = redis::Script::new("return redis.call('SET', KEYS[1], 'x')");
    let error = script
        .key("more")
        .invoke_async::<()>(&mut redis.clone())
        .await
        .expect_err("no memory");
    assert!(redis.explain("more", &error).is_full(), "{error}");
    let error = redis::pipe()
        .atomic()
        .set("more", "x")
        .set("less", "x")
        .query_async::<()>(&mut redis.clone())
        .await
        .expect_err("no memory");
    assert!(redis.explain("more", &error).is_full(), "{error}");
    server.config_set("maxmemory", "0");
    set(&redis, "more", "x").await.expect("there is room again");
}

#[tokio::test]
async fn a_blocking_read_holds_up_nobody() {
    let server = RedisServer::start();
    let redis = connect(&server.url()).await;
    let mut waiting = redis
        .dedicated(Duration::from_secs(60))
        .await
        .expect("a connection");
    let reader = tokio::spawn(async move {
        redis::cmd("BLPOP")
            .arg("list")
            .arg(60)
            .query_async::<(String, String)>(&mut waiting)
            .await
    });
    until_ok("the reader waits", || async {
        let info: String = redis
            .query("INFO", redis::cmd("INFO").arg("clients"))
            .await?;
        if info.contains("blocked_clients:1") {
            Ok(())
        } else {
            Err(RedisError::Unavailable {
                place: String::new(),
                cause: "not yet".to_owned(),
            })
        }
    })
    .await;
    set(&redis, "key", "value").await.expect("not held up");
    server.run::<u32>("RPUSH list x");
    let popped = reader.await.expect("no panic").expect("woken");
    assert_eq!(popped, ("list".to_owned(), "x".to_owned()));
}

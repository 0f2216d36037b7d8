//! Other servers: two real ones that find each other, and what is not taken.

use std::net::TcpListener;

use cairn_electrum::PublicHost;
use cairn_testkit::TestChain;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, until};

fn with_discovery(peers: Vec<String>, private: bool) -> Setup {
    let mut setup = Setup::default();
    setup.options.peer_discovery = true;
    setup.options.peers_private = private;
    setup.options.peers = peers;
    setup
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_find_each_other() {
    let chain = TestChain::small(81, 30);
    let first = Fixture::with(chain.model(), with_discovery(Vec::new(), true)).await;
    let port: u16 = first
        .address()
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok())
        .expect("a port");
    // The second visits the first, and tells it of itself under a name that leads to it.
    let mut setup = with_discovery(vec![format!("127.0.0.1 t{port}")], true);
    let own = TcpListener::bind("127.0.0.1:0")
        .expect("a free port")
        .local_addr()
        .expect("bound")
        .port();
    setup.options.hosts = vec![PublicHost {
        host: "localhost".to_owned(),
        tcp_port: Some(own),
        ..PublicHost::default()
    }];
    let second = Fixture::with(chain.model(), setup).await;
    let mut client = second.client("1.4").await;
    let mut list = Value::Null;
    until("the first is found", async || {
        list = client.ok("server.peers.subscribe", json!([])).await;
        list != json!([])
    })
    .await;
    assert_eq!(
        list,
        json!([["127.0.0.1", "127.0.0.1", ["v1.7", format!("t{port}")]]])
    );
    let features = client.ok("server.features", json!([])).await;
    assert_eq!(
        features["hosts"],
        json!({"localhost": {"tcp_port": own, "ssl_port": null}})
    );
    first.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn introductions_are_checked() {
    let chain = TestChain::small(82, 30);
    let genesis = chain.model().block_at(0).expect("genesis").hash.to_string();
    let features = |genesis: &str, hosts: Value| json!([{"genesis_hash": genesis, "hosts": hosts}]);
    let local = json!({"localhost": {"tcp_port": 50001}});
    for (private, offered, expected) in [
        (true, features(&genesis, local.clone()), true),
        (false, features(&genesis, local.clone()), false),
        (true, features(&"00".repeat(32), local.clone()), false),
        (true, features(&genesis, json!({})), false),
        (true, features(&genesis, json!({"localhost": {}})), false),
        (
            true,
            features(&genesis, json!({"not a host": {"tcp_port": 1}})),
            false,
        ),
        // A name that leads elsewhere, or nowhere.
        (
            true,
            features(&genesis, json!({"192.0.2.1": {"tcp_port": 1}})),
            false,
        ),
        (
            true,
            features(&genesis, json!({"nowhere.invalid": {"tcp_port": 1}})),
            false,
        ),
    ] {
        let fixture = Fixture::with(chain.model(), with_discovery(Vec::new(), private)).await;
        let mut client = fixture.client("1.4").await;
        assert_eq!(
            client.ok("server.add_peer", offered.clone()).await,
            expected,
            "{offered}"
        );
        assert_eq!(
            client
                .ok("server.add_peer", features(&genesis, local.clone()))
                .await,
            false,
            "once a session"
        );
        fixture.stop().await;
    }
    let fixture = Fixture::of(chain.model()).await;
    let mut client = fixture.client("1.4").await;
    assert_eq!(
        client
            .ok("server.add_peer", features(&genesis, local))
            .await,
        false,
        "off by default"
    );
    fixture.stop().await;
}

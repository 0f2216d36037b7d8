//! TLS, WebSocket, unix sockets and the PROXY protocol.

use std::sync::Arc;

use cairn_electrum::{TlsIdentity, Transport};
use cairn_http::Listen;
use cairn_testkit::TestChain;
use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::Message;

use crate::client::{Client, PATIENCE};
use crate::fixture::{Fixture, Setup, free_port};

/// A TLS client that trusts one certificate and no other, as wallets do after their first visit.
fn pinned(identity: &TlsIdentity) -> TlsConnector {
    let pem = std::fs::read(identity.cert_file()).expect("there");
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&pem).expect("a certificate"))
        .expect("usable");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

async fn connect_tls(
    connector: &TlsConnector,
    address: &str,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.expect("listens");
    let name = ServerName::try_from("localhost").expect("a name");
    connector
        .connect(name, stream)
        .await
        .expect("the pinned certificate")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_over_every_transport() {
    let chain = TestChain::small(61, 130);
    let dir = tempfile::tempdir().expect("a folder");
    let identity =
        Arc::new(TlsIdentity::self_signed(dir.path(), &["127.0.0.1".to_owned()]).expect("made"));
    let unix = Listen::Unix(dir.path().join("electrum.sock"));
    let setup = Setup {
        endpoints: vec![
            (free_port(), Transport::Tls(identity.clone()), Vec::new()),
            (free_port(), Transport::WebSocket, Vec::new()),
            (
                free_port(),
                Transport::TlsWebSocket(identity.clone()),
                Vec::new(),
            ),
            (unix, Transport::Tcp, Vec::new()),
        ],
        ..Setup::default()
    };
    let fixture = Fixture::with(chain.model(), setup).await;
    let connector = pinned(&identity);
    let ask = json!([0, 131]);
    let expected = fixture
        .client("1.6")
        .await
        .ok("blockchain.block.headers", ask.clone())
        .await;

    let mut client = Client::over(connect_tls(&connector, &fixture.addresses[1].to_string()).await);
    assert_eq!(
        client.ok("server.version", json!(["tls", "1.6"])).await[1],
        "1.6"
    );
    assert_eq!(
        client.ok("blockchain.block.headers", ask.clone()).await,
        expected
    );
    client.finish().await;
    assert!(client.is_closed().await);

    let Listen::Unix(path) = &fixture.addresses[4] else {
        panic!("a unix socket")
    };
    let mut client = Client::over(UnixStream::connect(path).await.expect("listens"));
    client.ok("server.version", json!(["unix", "1.6"])).await;
    assert_eq!(
        client.ok("blockchain.block.headers", ask.clone()).await,
        expected
    );

    let url = format!("ws://{}/", fixture.addresses[2]);
    let (plain, _) = tokio_tungstenite::connect_async(&url)
        .await
        .expect("upgraded");
    check_websocket(plain, &expected).await;
    let address = fixture.addresses[3].to_string();
    let stream = connect_tls(&connector, &address).await;
    let (secret, _) = tokio_tungstenite::client_async(format!("wss://{address}/"), stream)
        .await
        .expect("upgraded");
    check_websocket(secret, &expected).await;
    // Another path is not the service.
    tokio_tungstenite::connect_async(format!("{url}other"))
        .await
        .expect_err("404");
    fixture.stop().await;
}

async fn check_websocket<S>(mut socket: tokio_tungstenite::WebSocketStream<S>, expected: &Value)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    // White space with line ends, binary frames, and pings in between.
    let version = "{\"id\":0,\n \"method\":\"server.version\",\n \"params\":[\"ws\",\"1.6\"]}";
    socket.send(Message::text(version)).await.expect("open");
    socket.send(Message::Ping("x".into())).await.expect("open");
    let ask =
        json!({"id": 1, "method": "blockchain.block.headers", "params": [0, 131]}).to_string();
    socket
        .send(Message::binary(ask.into_bytes()))
        .await
        .expect("open");
    let mut answers = Vec::new();
    let mut was_ponged = false;
    while answers.len() < 2 || !was_ponged {
        match tokio::time::timeout(PATIENCE, socket.next())
            .await
            .expect("in time")
            .expect("open")
            .expect("no error")
        {
            Message::Text(text) => {
                assert!(!text.contains('\n'), "one text a message");
                answers.push(serde_json::from_str::<Value>(&text).expect("JSON"));
            }
            Message::Pong(data) => was_ponged = data == "x".as_bytes(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(answers[0]["result"][1], "1.6");
    assert_eq!(&answers[1]["result"], expected);
    socket.close(None).await.expect("open");
    while let Some(Ok(_)) = tokio::time::timeout(PATIENCE, socket.next())
        .await
        .expect("in time")
    {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_and_half_open_connections_harm_nobody() {
    let chain = TestChain::small(62, 30);
    let dir = tempfile::tempdir().expect("a folder");
    let identity = Arc::new(TlsIdentity::self_signed(dir.path(), &[]).expect("made"));
    let mut setup = Setup {
        endpoints: vec![
            (free_port(), Transport::Tls(identity.clone()), Vec::new()),
            (free_port(), Transport::WebSocket, Vec::new()),
        ],
        ..Setup::default()
    };
    setup.options.limits.handshake = std::time::Duration::from_millis(300);
    setup.options.limits.request_time = std::time::Duration::from_millis(300);
    let fixture = Fixture::with(chain.model(), setup).await;
    let mut other = fixture.client("1.4").await;
    let mut half_open = Vec::new();
    for listener in 0..3 {
        let address = fixture.addresses[listener].to_string();
        for start in [
            &b""[..],
            b"\x16\x03\x01",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/1.1\r\nHost: x\r\n",
            b"{\"id\":1",
            b"\0\0\0\0\xff\xff",
        ] {
            let mut stream = TcpStream::connect(&address).await.expect("listens");
            stream.write_all(start).await.expect("open");
            half_open.push(stream);
        }
        other.ok("server.ping", json!([])).await;
    }
    // All are closed by the server in the end, with at most a few last words.
    for mut stream in half_open {
        let mut said = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut said))
            .await
            .expect("closed in time");
        assert!(said.len() < 2_000);
    }
    // A browser that was made to post to this port is not served.
    let mut browser = Client::silent(&fixture.address()).await;
    browser
        .send_raw("POST / HTTP/1.1\r\nHost: x\r\n\r\n{\"id\":1,\"method\":\"server.version\"}\n")
        .await;
    assert_eq!(browser.line().await, None);
    // Whoever trusts another certificate gets no connection; one who trusts this one does.
    let stranger = tempfile::tempdir().expect("a folder");
    let wrong = pinned(&TlsIdentity::self_signed(stranger.path(), &[]).expect("made"));
    let stream = TcpStream::connect(fixture.addresses[1].to_string())
        .await
        .expect("listens");
    wrong
        .connect(ServerName::try_from("localhost").expect("a name"), stream)
        .await
        .expect_err("another certificate");
    let mut good =
        Client::over(connect_tls(&pinned(&identity), &fixture.addresses[1].to_string()).await);
    good.ok("server.version", json!(["x", "1.4"])).await;
    other.ok("server.ping", json!([])).await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxy_header_is_due_from_proxies_and_refused_elsewhere() {
    let chain = TestChain::small(63, 30);
    let dir = tempfile::tempdir().expect("a folder");
    let identity = Arc::new(TlsIdentity::self_signed(dir.path(), &[]).expect("made"));
    let loopback = vec!["127.0.0.0/8".parse().expect("a range")];
    let mut setup = Setup {
        endpoints: vec![
            (free_port(), Transport::Tcp, loopback.clone()),
            (free_port(), Transport::Tls(identity.clone()), loopback),
            (
                free_port(),
                Transport::Tcp,
                vec!["192.0.2.0/24".parse().expect("a range")],
            ),
        ],
        ..Setup::default()
    };
    setup.options.limits.sessions_per_group = 2;
    setup.options.limits.handshake = std::time::Duration::from_millis(500);
    let fixture = Fixture::with(chain.model(), setup).await;
    let version = "{\"id\":1,\"method\":\"server.version\"}\n";
    let behind = async |address: &str, header: &str| {
        let mut client = Client::silent(address).await;
        client.send_raw(format!("{header}{version}")).await;
        client.line().await.map(|line| (client, line))
    };
    let proxied = fixture.addresses[1].to_string();
    // Loopback has no limits, but the clients behind the proxy have.
    let first = behind(&proxied, "PROXY TCP4 198.51.100.7 127.0.0.1 1 2\r\n").await;
    let second = behind(&proxied, "PROXY TCP4 198.51.100.8 127.0.0.1 1 2\r\n").await;
    assert!(first.is_some() && second.is_some());
    assert!(
        behind(&proxied, "PROXY TCP4 198.51.100.9 127.0.0.1 1 2\r\n")
            .await
            .is_none(),
        "one too many"
    );
    assert!(
        behind(&proxied, "PROXY TCP4 198.51.101.9 127.0.0.1 1 2\r\n")
            .await
            .is_some(),
        "another network"
    );
    assert!(
        behind(&proxied, "PROXY UNKNOWN\r\n").await.is_some(),
        "the balancer itself"
    );
    assert!(behind(&proxied, "").await.is_none(), "the header is due");
    assert_eq!(
        fixture
            .metric("cairn_electrum_refused_total{chain=\"test\",reason=\"sessions-per-group\"}"),
        Some(1.0)
    );
    // Where none is due, it is not taken.
    let mut plain = Client::silent(&fixture.address()).await;
    plain
        .send_raw(format!(
            "PROXY TCP4 198.51.100.9 127.0.0.1 1 2\r\n{version}"
        ))
        .await;
    assert_eq!(plain.message().await["error"]["code"], -32700);
    // From somebody who is not a proxy, nothing is.
    assert!(
        behind(
            &fixture.addresses[3].to_string(),
            "PROXY TCP4 198.51.100.9 127.0.0.1 1 2\r\n"
        )
        .await
        .is_none()
    );
    // Before TLS.
    let mut stream = TcpStream::connect(fixture.addresses[2].to_string())
        .await
        .expect("listens");
    stream
        .write_all(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n")
        .await
        .expect("open");
    let stream = pinned(&identity)
        .connect(ServerName::try_from("localhost").expect("a name"), stream)
        .await
        .expect("TLS behind it");
    Client::over(stream)
        .ok("server.version", json!(["x", "1.4"]))
        .await;
    fixture.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websocket_messages_are_bounded() {
    let chain = TestChain::small(64, 30);
    let mut setup = Setup {
        endpoints: vec![(free_port(), Transport::WebSocket, Vec::new())],
        ..Setup::default()
    };
    setup.options.limits.request_bytes = 100_000;
    let fixture = Fixture::with(chain.model(), setup).await;
    let (mut socket, _) =
        tokio_tungstenite::connect_async(format!("ws://{}/", fixture.addresses[1]))
            .await
            .expect("upgraded");
    // The client may see the end before it has sent all.
    let _ = socket.send(Message::text("x".repeat(200_000))).await;
    while let Some(Ok(message)) = tokio::time::timeout(PATIENCE, socket.next())
        .await
        .expect("in time")
    {
        assert!(matches!(message, Message::Close(_)), "{message}");
    }
    fixture
        .client("1.4")
        .await
        .ok("server.ping", json!([]))
        .await;
    fixture.stop().await;
}

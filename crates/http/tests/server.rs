//! The server loop over real sockets: slow clients, limits, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use cairn_http::{
    Answer, Cors, Listen, RequestObserver, RequestSeen, ServeLimits, Surface, SurfaceOptions,
    endpoint_not_found, read_body, serve,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Connections {
    open: AtomicUsize,
    most: AtomicUsize,
}

impl RequestObserver for Connections {
    fn request(&self, _seen: RequestSeen<'_>) {}

    fn connection_opened(&self) {
        let now = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn connection_closed(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Running {
    listen: Listen,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
    connections: Arc<Connections>,
}

impl Running {
    async fn start(limits: ServeLimits, listen: &str) -> Self {
        let router =
            Router::new()
                .route("/ok", get(|| async { Answer::text("fine") }))
                .route(
                    "/wait",
                    get(|| async {
                        tokio::time::sleep(Duration::from_millis(400)).await;
                        Answer::text("waited")
                    }),
                )
                .route(
                    "/big",
                    get(|| async { Answer::bytes(vec![7u8; 32 * 1024 * 1024]) }),
                )
                .route(
                    "/body",
                    post(|request: Request| async move {
                        read_body(request, 100).await.map(Answer::bytes)
                    }),
                )
                .fallback(endpoint_not_found);
        let connections = Arc::new(Connections::default());
        let options = SurfaceOptions {
            limits: limits.clone(),
            cors: Cors::from_origins(&["*"]).expect("star"),
            observer: Some(connections.clone()),
        };
        let listener = listen
            .parse::<Listen>()
            .expect("address")
            .bind(limits.backlog)
            .await
            .expect("bound");
        let listen = listener.address().expect("address");
        let (stop, stopped) = oneshot::channel::<()>();
        let done = tokio::spawn(serve(listener, Surface::new(router, options), async {
            stopped.await.ok();
        }));
        Self {
            listen,
            stop,
            done,
            connections,
        }
    }

    async fn connect(&self) -> TcpStream {
        let Listen::Tcp(address) = &self.listen else {
            panic!("a TCP server")
        };
        TcpStream::connect(address).await.expect("connected")
    }

    async fn stop(self) -> Duration {
        let started = Instant::now();
        self.stop.send(()).expect("server runs");
        tokio::time::timeout(PATIENCE, self.done)
            .await
            .expect("ends")
            .expect("no panic");
        started.elapsed()
    }
}

fn quick() -> ServeLimits {
    ServeLimits {
        head_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        stall_timeout: Duration::from_millis(300),
        shutdown_grace: Duration::from_secs(2),
        ..ServeLimits::default()
    }
}

/// Reads until the server closes; the time it took and what came.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> (Duration, String) {
    let started = Instant::now();
    let mut bytes = Vec::new();
    // A reset after the last answer is an end too.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes))
        .await
        .expect("closed");
    (
        started.elapsed(),
        String::from_utf8_lossy(&bytes).into_owned(),
    )
}

async fn exchange(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("written");
    rest(stream).await.1
}

#[tokio::test]
async fn silent_and_trickling_clients_are_cut() {
    let server = Running::start(quick(), "127.0.0.1:0").await;
    // Nothing at all.
    let (took, got) = rest(&mut server.connect().await).await;
    assert!(
        took >= Duration::from_millis(250) && took < PATIENCE,
        "{took:?}"
    );
    assert_eq!(got, "");
    // What could still become the preface of HTTP/2, and then nothing.
    let mut stream = server.connect().await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n")
        .await
        .expect("written");
    assert!(rest(&mut stream).await.0 < PATIENCE);
    // A head that never ends, byte by byte.
    let mut stream = server.connect().await;
    let (mut reader, mut writer) = stream.split();
    let trickle = async {
        for byte in b"GET /ok HTTP/1.1\r\nhost: x\r\nx-slow: ".iter().cycle() {
            if writer.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    };
    let got = tokio::select! {
        (_, got) = rest(&mut reader) => got,
        () = trickle => String::new(),
    };
    assert!(got.starts_with("HTTP/1.1 408 "), "{got:?}");
    assert!(got.ends_with("\r\n\r\nRequest timeout"), "{got:?}");
    assert!(
        got.contains("access-control-allow-origin: *\r\n"),
        "{got:?}"
    );
    // A body that does not come.
    let request =
        "POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nconnection: close\r\n\r\n12";
    let got = exchange(&mut server.connect().await, request).await;
    assert!(
        got.starts_with("HTTP/1.1 408 ") && got.ends_with("Request timeout"),
        "{got:?}"
    );
    // None of them holds a connection.
    while server.connections.open.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn idle_connection_is_closed_without_an_answer() {
    let server = Running::start(quick(), "127.0.0.1:0").await;
    let mut stream = server.connect().await;
    let got = exchange(&mut stream, "GET /ok HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(
        got.starts_with("HTTP/1.1 200 ") && got.ends_with("\r\n\r\nfine"),
        "{got:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn client_that_does_not_read_is_cut() {
    let server = Running::start(quick(), "127.0.0.1:0").await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("written");
    tokio::time::timeout(PATIENCE, async {
        while server.connections.most.load(Ordering::SeqCst) == 0
            || server.connections.open.load(Ordering::SeqCst) > 0
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the server gives up");
    server.stop().await;
}

#[tokio::test]
async fn large_heads_and_garbage() {
    let server = Running::start(quick(), "127.0.0.1:0").await;
    let request = format!(
        "GET /ok HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "v".repeat(20_000)
    );
    let got = exchange(&mut server.connect().await, &request).await;
    assert!(got.starts_with("HTTP/1.1 431 "), "{got:.100}");
    assert!(got.contains("access-control-allow-origin: *"), "{got:.300}");
    let request = format!(
        "GET /ok HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n",
        "v".repeat(200_000)
    );
    let mut stream = server.connect().await;
    // The server may close before all is written.
    let _ = stream.write_all(request.as_bytes()).await;
    let got = rest(&mut stream).await.1;
    assert!(
        got.is_empty() || got.starts_with("HTTP/1.1 431 "),
        "{got:.100}"
    );
    for garbage in [
        "\u{0}\u{1}\u{2}\r\n\r\n",
        "GET\r\n\r\n",
        "GET /a b c HTTP/1.1\r\n\r\n",
    ] {
        let got = exchange(&mut server.connect().await, garbage).await;
        assert!(
            got.is_empty() || got.starts_with("HTTP/1.1 400 "),
            "{got:.100}"
        );
    }
    let got = exchange(
        &mut server.connect().await,
        "GET /ok HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(got.starts_with("HTTP/1.1 200 "), "still serving: {got}");
    server.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let limits = ServeLimits {
        max_connections: 2,
        head_timeout: Duration::from_secs(1),
        ..ServeLimits::default()
    };
    let server = Running::start(limits, "127.0.0.1:0").await;
    let (first, second) = (server.connect().await, server.connect().await);
    let mut third = server.connect().await;
    let request = "GET /ok HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let got = exchange(&mut third, request).await;
    assert!(
        got.ends_with("fine"),
        "served once the silent ones are cut: {got}"
    );
    assert_eq!(server.connections.most.load(Ordering::SeqCst), 2);
    drop((first, second));
    server.stop().await;
}

#[tokio::test]
async fn shutdown_lets_requests_end_and_closes_the_idle() {
    let server = Running::start(
        ServeLimits {
            shutdown_grace: Duration::from_secs(5),
            ..ServeLimits::default()
        },
        "127.0.0.1:0",
    )
    .await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /ok HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("written");
    let mut buffer = [0; 1024];
    assert!(idle.read(&mut buffer).await.expect("answer") > 0);
    let mut busy = server.connect().await;
    busy.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("written");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (took, (_, got)) = tokio::join!(server.stop(), rest(&mut busy));
    assert!(got.ends_with("waited"), "{got:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test]
async fn shutdown_cuts_what_does_not_end() {
    let limits = ServeLimits {
        shutdown_grace: Duration::from_millis(200),
        ..ServeLimits::default()
    };
    let server = Running::start(limits, "127.0.0.1:0").await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /big HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("written");
    let mut buffer = [0; 1024];
    assert!(stream.read(&mut buffer).await.expect("begins") > 0);
    let took = server.stop().await;
    assert!(
        took >= Duration::from_millis(190) && took < Duration::from_secs(3),
        "{took:?}"
    );
}

#[tokio::test]
async fn unix_socket() {
    let dir = tempfile::tempdir().expect("tempdir");
    let path = dir.path().join("http.sock");
    let server = Running::start(quick(), &format!("unix:{}", path.display())).await;
    let mut stream = UnixStream::connect(&path).await.expect("connected");
    let request = "GET /ok HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert!(exchange(&mut stream, request).await.ends_with("fine"));
    server.stop().await;
    assert!(!path.exists(), "socket file removed");
}

//! The socket itself: TCP and Unix, bounds, endings.

use std::time::Duration;

use cairn_antelope_ship::{
    BlockStream, Branch, NodeSource, ShipError, StreamEvent, StreamSettings,
};
use cairn_testkit::antelope::{Recording, SHIP_ABI};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use super::recorded::hex;

const DEADLINE: Duration = Duration::from_secs(60);
const BOUND: usize = 256 * 1024;

/// Plays the node of the recording for one client: ABI, status, then these messages.
async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin, messages: Vec<Vec<u8>>) {
    let mut socket = accept_async(socket).await.expect("a WebSocket client");
    let frames = Recording::Main.frames();
    let status = frames
        .iter()
        .rfind(|f| f.bytes.first() == Some(&0) && f.bytes.len() < 200)
        .expect("a status");
    socket.send(Message::text(SHIP_ABI)).await.expect("sent");
    // The status request, then the request for blocks.
    assert_eq!(
        socket
            .next()
            .await
            .expect("a request")
            .expect("readable")
            .into_data()
            .as_ref(),
        [0]
    );
    socket
        .send(Message::binary(status.bytes.clone()))
        .await
        .expect("sent");
    assert_eq!(
        socket
            .next()
            .await
            .expect("a request")
            .expect("readable")
            .into_data()[0],
        1
    );
    for message in messages {
        // The client may have gone: that is what some tests are about.
        if socket.send(Message::binary(message)).await.is_err() {
            return;
        }
    }
    let _ = socket.close(None).await;
}

fn stream(url: &str) -> BlockStream {
    let settings = StreamSettings {
        pause_min: Duration::from_millis(1),
        ..StreamSettings::default()
    };
    BlockStream::new(
        Box::new(NodeSource::new(url, BOUND).expect("an address")),
        settings,
        Branch::default(),
    )
}

async fn next(stream: &mut BlockStream) -> StreamEvent {
    tokio::time::timeout(DEADLINE, stream.next())
        .await
        .expect("something happens within a minute")
}

#[tokio::test]
async fn blocks_over_tcp_and_unix_sockets() {
    let first = Recording::Main.block_frames()[0].clone();
    let expected = Recording::Main.blocks()[0]["block_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("ship.sock");
    let unix = UnixListener::bind(&path).expect("a socket");
    let urls = [
        format!("ws://{}", tcp.local_addr().expect("bound")),
        format!("unix:{}", path.display()),
    ];
    let messages = vec![first];
    let other = messages.clone();
    let server = tokio::spawn(async move {
        serve(tcp.accept().await.expect("a client").0, messages).await;
        serve(unix.accept().await.expect("a client").0, other).await;
    });
    for url in urls {
        let mut stream = stream(&url);
        assert!(
            matches!(next(&mut stream).await, StreamEvent::Connected(_)),
            "{url}"
        );
        let StreamEvent::Block(block) = next(&mut stream).await else {
            panic!("a block from {url}")
        };
        assert_eq!(hex(&block.this.id), expected);
        // The peer ends the connection.
        assert!(matches!(
            next(&mut stream).await,
            StreamEvent::Waiting {
                error: ShipError::Closed { .. },
                ..
            }
        ));
    }
    server.await.expect("the peer is content");
}

#[tokio::test]
async fn a_message_beyond_the_bound() {
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("ws://{}", tcp.local_addr().expect("bound"));
    let server = tokio::spawn(async move {
        serve(
            tcp.accept().await.expect("a client").0,
            vec![vec![1; BOUND + 1]],
        )
        .await;
    });
    let mut stream = stream(&url);
    assert!(matches!(next(&mut stream).await, StreamEvent::Connected(_)));
    let StreamEvent::Waiting { error, .. } = next(&mut stream).await else {
        panic!("such a message is not taken")
    };
    assert!(
        matches!(error, ShipError::TooLarge { bound: BOUND, .. }),
        "{error}"
    );
    drop(stream);
    server.await.expect("the peer is content");
}

#[tokio::test]
async fn nobody_there() {
    let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("ws://{}", tcp.local_addr().expect("bound"));
    drop(tcp);
    for _ in 0..3 {
        let mut stream = stream(&url);
        let StreamEvent::Waiting { error, .. } = next(&mut stream).await else {
            panic!("there is no node")
        };
        assert!(
            matches!(error, ShipError::Connect { .. }) && error.is_transient(),
            "{error}"
        );
    }
}

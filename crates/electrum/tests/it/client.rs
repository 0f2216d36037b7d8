//! A plain client: lines of JSON, answers by id, notifications put aside.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Time for anything that must come: generous, since the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

type Reader = BufReader<Box<dyn AsyncRead + Unpin + Send>>;
type Writer = Box<dyn AsyncWrite + Unpin + Send>;

/// A connection.
pub(crate) struct Client {
    reader: Reader,
    writer: Writer,
    next_id: u64,
    /// Notifications that came while an answer was awaited.
    pub(crate) aside: VecDeque<Value>,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
}

impl Client {
    /// Over any stream.
    pub(crate) fn over(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
            reader: BufReader::new(Box::new(Box::pin(reader))),
            writer: Box::new(Box::pin(writer)),
            next_id: 0,
            aside: VecDeque::new(),
        }
    }

    /// Connects without saying anything.
    pub(crate) async fn silent(address: &str) -> Self {
        Self::over(
            TcpStream::connect(address)
                .await
                .expect("the server listens"),
        )
    }

    /// Connects and agrees on a version.
    pub(crate) async fn connect(address: &str, version: &str) -> Self {
        let mut client = Self::silent(address).await;
        let agreed = client.ok("server.version", json!(["test", version])).await;
        assert_eq!(agreed[1], version);
        client
    }

    /// Sends text as it stands.
    pub(crate) async fn send_raw(&mut self, text: impl AsRef<[u8]>) {
        self.writer
            .write_all(text.as_ref())
            .await
            .expect("the connection is open");
        self.writer.flush().await.expect("the connection is open");
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn finish(&mut self) {
        self.writer
            .shutdown()
            .await
            .expect("the connection is open");
    }

    /// The next line; `None` when the server has closed the connection.
    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.reader.read_line(&mut line))
            .await
            .expect("the server says something in time");
        // A connection that is cut is closed as well.
        matches!(read, Ok(1..)).then_some(line)
    }

    /// The next message.
    pub(crate) async fn message(&mut self) -> Value {
        let line = self.line().await.expect("the connection is open");
        let value: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let of_version_2 = |value: &Value| value["jsonrpc"] == "2.0";
        match &value {
            Value::Array(items) => assert!(items.iter().all(of_version_2), "{line}"),
            value => assert!(of_version_2(value), "{line}"),
        }
        value
    }

    /// Sends text and gives back the message that answers it.
    pub(crate) async fn ask_raw(&mut self, text: &str) -> Value {
        self.send_raw(format!("{text}\n")).await;
        loop {
            let message = self.message().await;
            if message.get("method").is_none() {
                return message;
            }
            self.aside.push_back(message);
        }
    }

    /// Calls a method.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Refusal> {
        self.next_id += 1;
        let id = self.next_id;
        let answer = self
            .ask_raw(
                &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
                    .to_string(),
            )
            .await;
        assert_eq!(answer["id"], id, "{method}: {answer}");
        let object = answer.as_object().expect("an object");
        assert_eq!(object.len(), 3, "one of result and error: {answer}");
        match object.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(Refusal {
                code: answer["error"]["code"].as_i64().expect("a code"),
                message: answer["error"]["message"]
                    .as_str()
                    .expect("a text")
                    .to_owned(),
            }),
        }
    }

    /// Calls a method that must succeed.
    pub(crate) async fn ok(&mut self, method: &str, params: Value) -> Value {
        self.call(method, params.clone())
            .await
            .unwrap_or_else(|refusal| panic!("{method} {params}: {refusal:?}"))
    }

    /// Calls a method that must be refused with a code; gives back the text.
    pub(crate) async fn refused(&mut self, method: &str, params: Value, code: i64) -> String {
        match self.call(method, params.clone()).await {
            Err(refusal) if refusal.code == code => refusal.message,
            other => panic!("{method} {params}: {other:?} instead of code {code}"),
        }
    }

    /// The next notification.
    pub(crate) async fn notification(&mut self) -> (String, Value) {
        let message = match self.aside.pop_front() {
            Some(message) => message,
            None => self.message().await,
        };
        assert!(message.get("id").is_none(), "{message}");
        let method = message["method"]
            .as_str()
            .expect("a notification")
            .to_owned();
        (method, message["params"].clone())
    }

    /// Whether the server closes the connection (after at most some last words).
    pub(crate) async fn is_closed(&mut self) -> bool {
        while self.line().await.is_some() {}
        true
    }
}

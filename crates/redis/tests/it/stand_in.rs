//! A server that only says what a test wants to hear.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Answers `HELLO` with this version and everything else with OK; gives its URL. The thread ends with the process.
pub(crate) fn of_version(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut out = stream.try_clone().expect("a second handle");
                let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
                while let Some(head) = lines.next() {
                    let parts: usize = head
                        .strip_prefix('*')
                        .and_then(|count| count.parse().ok())
                        .expect("a command is an array");
                    let words: Vec<String> =
                        (0..parts).filter_map(|_| lines.by_ref().nth(1)).collect();
                    let answer = match words
                        .first()
                        .map(|word| word.to_ascii_uppercase())
                        .as_deref()
                    {
                        Some("HELLO") => {
                            format!("*2\r\n$7\r\nversion\r\n${}\r\n{version}\r\n", version.len())
                        }
                        Some("INFO") => "-NOPERM not allowed\r\n".to_owned(),
                        _ => "+OK\r\n".to_owned(),
                    };
                    if out.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("redis://{address}")
}

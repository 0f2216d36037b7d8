//! A wire between a writer and Redis that breaks at a chosen command.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Which end of a command the wire breaks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// Redis never sees it.
    Before,
    /// Redis executes it, the answer is lost.
    After,
}

/// Passes commands on one by one, and counts the writing ones.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    server: u16,
    /// Commands still to pass before the wire breaks.
    left: AtomicU32,
    mode: Mutex<Break>,
    has_broken: AtomicBool,
    /// Whether the wire lets new connections through after it broke.
    heals: bool,
}

impl Proxy {
    /// A wire to a server that breaks at the command after `pass` others; greetings of the client library do not count.
    pub(crate) fn start(server: u16, pass: u32, mode: Break, heals: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let shared = Arc::new(Shared {
            server,
            left: AtomicU32::new(pass),
            mode: Mutex::new(mode),
            has_broken: AtomicBool::new(false),
            heals,
        });
        let all = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if all.has_broken.load(Ordering::SeqCst) && !all.heals {
                    continue;
                }
                let all = Arc::clone(&all);
                std::thread::spawn(move || all.carry(client));
            }
        });
        Self { port, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Whether it has come to the break.
    pub(crate) fn has_broken(&self) -> bool {
        self.shared.has_broken.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn carry(&self, mut client: TcpStream) {
        let mut server =
            TcpStream::connect(("127.0.0.1", self.server)).expect("the server is there");
        let mut back = (
            server.try_clone().expect("a second handle"),
            client.try_clone().expect("a second handle"),
        );
        let answers = Arc::new(AtomicBool::new(true));
        let pass_answers = Arc::clone(&answers);
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = back.0.read(&mut buffer) {
                if !pass_answers.load(Ordering::SeqCst)
                    || back.1.write_all(&buffer[..count]).is_err()
                {
                    break;
                }
            }
            let _ = back.1.shutdown(Shutdown::Both);
        });
        let mut input = Vec::new();
        let mut buffer = [0; 1 << 16];
        loop {
            while let Some(len) = command_len(&input) {
                let command: Vec<u8> = input.drain(..len).collect();
                let counts = is_of_interest(&command) && !self.has_broken.load(Ordering::SeqCst);
                if counts && self.left.fetch_sub(1, Ordering::SeqCst) == 0 {
                    self.has_broken.store(true, Ordering::SeqCst);
                    if *self.mode.lock().expect("no panic") == Break::After {
                        answers.store(false, Ordering::SeqCst);
                        let _ = server.write_all(&command);
                        // Redis executes what it has read, also when the other end has gone.
                        let _ = server.shutdown(Shutdown::Write);
                        let mut rest = Vec::new();
                        let _ = server.read_to_end(&mut rest);
                    }
                    let _ = client.shutdown(Shutdown::Both);
                    let _ = server.shutdown(Shutdown::Both);
                    return;
                }
                if server.write_all(&command).is_err() {
                    let _ = client.shutdown(Shutdown::Both);
                    return;
                }
            }
            match client.read(&mut buffer) {
                Ok(count @ 1..) => input.extend_from_slice(&buffer[..count]),
                _ => {
                    let _ = server.shutdown(Shutdown::Both);
                    return;
                }
            }
        }
    }
}

/// Greetings, and the client library's own questions, are not the writer's steps.
fn is_of_interest(command: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&command[..command.len().min(40)]).to_ascii_uppercase();
    !["CLIENT", "HELLO", "PING", "INFO", "SELECT"]
        .iter()
        .any(|word| text.contains(&format!("\r\n{word}\r\n")))
}

/// Length of the first whole command in the bytes.
fn command_len(bytes: &[u8]) -> Option<usize> {
    let line = |from: usize| {
        let end = bytes[from..].windows(2).position(|pair| pair == b"\r\n")? + from;
        let number: usize = std::str::from_utf8(&bytes[from + 1..end])
            .ok()?
            .parse()
            .ok()?;
        Some((number, end + 2))
    };
    if bytes.is_empty() {
        return None;
    }
    let (parts, mut at) = line(0)?;
    for _ in 0..parts {
        if at >= bytes.len() {
            return None;
        }
        let (len, start) = line(at)?;
        at = start + len + 2;
    }
    (at <= bytes.len()).then_some(at)
}

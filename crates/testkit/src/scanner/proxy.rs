//! A proxy in front of Redis that lets so many commands through and then cuts every connection: what a process that is
//! killed between two commands leaves behind, without killing one.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// The proxy. Dropping it ends its listener.
#[derive(Debug)]
pub struct CuttingProxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Commands that may still pass; negative: any number.
    left: AtomicI64,
    passed: AtomicI64,
    cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl CuttingProxy {
    /// A proxy in front of the server on a port of this machine. Everything passes until [`CuttingProxy::cut_after`].
    ///
    /// # Panics
    ///
    /// When it cannot listen.
    pub fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound listener").port();
        let shared = Arc::new(Shared {
            left: AtomicI64::new(-1),
            passed: AtomicI64::new(0),
            cut: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                if of_thread.cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)) else {
                    continue;
                };
                pass(client, server, &of_thread);
            }
        });
        Self { port, shared }
    }

    /// The URL to connect to.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on lets so many more commands through; the next one cuts all connections, and no new one is made.
    pub fn cut_after(&self, commands: i64) {
        self.shared.passed.store(0, Ordering::SeqCst);
        self.shared.left.store(commands, Ordering::SeqCst);
    }

    /// Commands that passed since [`CuttingProxy::cut_after`].
    pub fn passed(&self) -> i64 {
        self.shared.passed.load(Ordering::SeqCst)
    }

    /// Whether the connections were cut.
    pub fn is_cut(&self) -> bool {
        self.shared.cut.load(Ordering::SeqCst)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.shared.close();
        // Wakes the listener, so that its thread sees the end.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Shared {
    fn close(&self) {
        self.cut.store(true, Ordering::SeqCst);
        for stream in self.open.lock().expect("no panic while locked").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Whether one more command may pass.
    fn may_pass(&self) -> bool {
        if self.left.load(Ordering::SeqCst) < 0 {
            return true;
        }
        if self.left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            self.left.store(0, Ordering::SeqCst);
            return false;
        }
        self.passed.fetch_add(1, Ordering::SeqCst);
        true
    }
}

fn pass(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a stream can be cloned");
    shared
        .open
        .lock()
        .expect("no panic while locked")
        .extend([clone(&client), clone(&server)]);
    let (mut back_from, mut back_to) = (clone(&server), clone(&client));
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Both);
    });
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut from = BufReader::new(client);
        let mut to = server;
        while let Some(command) = read_command(&mut from) {
            if !shared.may_pass() {
                // What passed is answered or lost with the connection; the server has it either way.
                let _ = to.flush();
                let _ = to.shutdown(Shutdown::Write);
                shared.cut.store(true, Ordering::SeqCst);
                // The server ends the connection when it has answered everything it was sent.
                break;
            }
            if to.write_all(&command).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

/// The bytes of one command: `*n`, then n times `$length` and bytes.
fn read_command(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let fields = read_number(from, b'*', &mut bytes)?;
    for _ in 0..fields {
        let length = read_number(from, b'$', &mut bytes)?;
        let start = bytes.len();
        bytes.resize(start + length + 2, 0);
        from.read_exact(&mut bytes[start..]).ok()?;
    }
    Some(bytes)
}

fn read_number(from: &mut impl BufRead, mark: u8, bytes: &mut Vec<u8>) -> Option<usize> {
    let start = bytes.len();
    from.read_until(b'\n', bytes).ok()?;
    let line = bytes.get(start..)?;
    let digits = line.strip_prefix(&[mark])?.strip_suffix(b"\r\n")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

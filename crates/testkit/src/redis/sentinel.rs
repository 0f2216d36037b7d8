//! A master, a replica, and three Sentinels that watch over them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use redis::Client;
use tempfile::TempDir;

use super::server::{RedisOptions, RedisServer, free_port, wait_until};

/// The name by which the Sentinels know the master.
const SERVICE: &str = "cairn-test";
const SENTINELS: usize = 3;
/// After this long without a sign of life the master counts as down, milliseconds.
const DOWN_AFTER_MS: u32 = 1_500;

/// A service with failover. Dropping it kills all processes.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<(Child, u16)>,
    // Held for its deletion.
    _dir: TempDir,
}

impl RedisSentinels {
    /// Starts everything; returns when the replica follows and all Sentinels know each other.
    ///
    /// # Panics
    ///
    /// When it does not come up.
    pub fn start() -> Self {
        let no_delay = || RedisOptions {
            extra_args: vec!["--repl-diskless-sync-delay".to_owned(), "0".to_owned()],
            ..RedisOptions::default()
        };
        let master = RedisServer::start_with(no_delay());
        let replica = RedisServer::start_with(no_delay());
        let _: () = replica.run(&format!("REPLICAOF 127.0.0.1 {}", master.port()));
        let dir = tempfile::tempdir().expect("a temporary folder");
        let sentinels = (0..SENTINELS)
            .map(|at| start_sentinel(&dir.path().join(format!("{at}.conf")), master.port()))
            .collect();
        let set = Self {
            servers: vec![master, replica],
            sentinels,
            _dir: dir,
        };
        wait_until("the replica follows", || {
            set.servers[1]
                .run::<String>("INFO replication")
                .contains("master_link_status:up")
        });
        wait_until("the Sentinels know each other and the replica", || {
            set.sentinels.iter().all(|(_, port)| {
                let known = |list: &str| -> Option<usize> {
                    let mut connection = Client::open(("127.0.0.1", *port))
                        .ok()?
                        .get_connection()
                        .ok()?;
                    let list: Vec<redis::Value> = redis::cmd("SENTINEL")
                        .arg(list)
                        .arg(SERVICE)
                        .query(&mut connection)
                        .ok()?;
                    Some(list.len())
                };
                known("sentinels") == Some(SENTINELS - 1) && known("replicas") == Some(1)
            })
        });
        set
    }

    /// The URL that names all Sentinels.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .sentinels
            .iter()
            .map(|(_, port)| format!("127.0.0.1:{port}"))
            .collect();
        format!("redis+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// The servers: first the one that started as master.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Kills the first server; returns when the second is master.
    ///
    /// # Panics
    ///
    /// When it does not become master within the deadline.
    pub fn fail_over(&mut self) {
        self.servers[0].kill();
        wait_until("the replica becomes master", || {
            self.servers[1]
                .run::<String>("INFO replication")
                .contains("role:master")
        });
    }
}

impl Drop for RedisSentinels {
    fn drop(&mut self) {
        for (child, _) in &mut self.sentinels {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start_sentinel(config: &PathBuf, master: u16) -> (Child, u16) {
    let port = free_port();
    let mut file = std::fs::File::create(config).expect("writable");
    write!(
        file,
        "port {port}\nbind 127.0.0.1\nlogfile {log}\n\
         sentinel monitor {SERVICE} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {SERVICE} 10000\n",
        log = config.with_extension("log").display()
    )
    .expect("writable");
    let program = std::env::var_os("REDIS_SERVER_EXE").unwrap_or_else(|| "redis-server".into());
    let child = Command::new(program)
        .arg(config)
        .arg("--sentinel")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server starts");
    (child, port)
}

//! A Redis Cluster of six processes: three masters, a replica each.

use redis::{Commands, FromRedisValue, RedisResult};

use super::server::{RedisOptions, RedisServer, free_port, wait_until};

/// Slots of a Cluster.
const SLOTS: u32 = 16_384;
const MASTERS: usize = 3;
/// After this long without a sign of life a node counts as failed, milliseconds.
const NODE_TIMEOUT_MS: u32 = 2_000;

/// A running Cluster. Nodes 0 to 2 start as masters, node `n + 3` as the replica of node `n`.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts all nodes; returns when every slot is served and every replica follows its master.
    ///
    /// # Panics
    ///
    /// When the Cluster does not come up.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further arguments for each node.
    ///
    /// # Panics
    ///
    /// When the Cluster does not come up.
    pub fn start_with(extra_args: &[&str]) -> Self {
        let nodes: Vec<RedisServer> = (0..2 * MASTERS)
            .map(|_| {
                let mut args: Vec<String> = [
                    "--cluster-enabled",
                    "yes",
                    "--cluster-node-timeout",
                    &NODE_TIMEOUT_MS.to_string(),
                    "--cluster-port",
                    &free_port().to_string(),
                    // A replica may take over whatever its age, and full slots are not asked for.
                    "--cluster-replica-validity-factor",
                    "0",
                    "--repl-diskless-sync-delay",
                    "0",
                ]
                .map(str::to_owned)
                .to_vec();
                args.extend(extra_args.iter().map(|arg| (*arg).to_owned()));
                RedisServer::start_with(RedisOptions {
                    extra_args: args,
                    ..RedisOptions::default()
                })
            })
            .collect();
        let cluster = Self { nodes };
        cluster.form();
        cluster
    }

    fn form(&self) {
        for (at, node) in self.nodes.iter().enumerate().take(MASTERS) {
            let share = SLOTS.div_ceil(MASTERS as u32);
            let first = share * at as u32;
            let last = (first + share).min(SLOTS) - 1;
            let _: () = node.run(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            let _: () = node.run(&format!("CLUSTER SET-CONFIG-EPOCH {}", at + 1));
        }
        for node in &self.nodes[1..] {
            let bus: String = node.run::<Vec<String>>("CONFIG GET cluster-port")[1].clone();
            let _: () = self.nodes[0].run(&format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port()));
        }
        wait_until("every node knows every other", || {
            self.nodes
                .iter()
                .all(|node| self.info(node, "cluster_known_nodes").as_deref() == Some("6"))
        });
        for at in 0..MASTERS {
            let id: String = self.nodes[at].run("CLUSTER MYID");
            let replica = &self.nodes[at + MASTERS];
            wait_until("the replica takes its master", || {
                redis::cmd("CLUSTER")
                    .arg("REPLICATE")
                    .arg(&id)
                    .query::<()>(&mut replica.connection())
                    .is_ok()
            });
        }
        wait_until("the Cluster is whole", || {
            self.nodes.iter().enumerate().all(|(at, node)| {
                let follows = at < MASTERS
                    || node
                        .run::<String>("INFO replication")
                        .contains("master_link_status:up");
                follows && self.info(node, "cluster_state").as_deref() == Some("ok")
            })
        });
    }

    fn info(&self, node: &RedisServer, name: &str) -> Option<String> {
        let info: String = node.run("CLUSTER INFO");
        info.lines()
            .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
            .map(str::to_owned)
    }

    /// The URL that names all nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The nodes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// A node, to kill or restart it.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    pub fn node_mut(&mut self, at: usize) -> &mut RedisServer {
        &mut self.nodes[at]
    }

    /// Index of the node that now serves this key as master.
    ///
    /// # Panics
    ///
    /// When there is none within the deadline.
    pub fn master_of(&self, key: &str) -> usize {
        let mut found = None;
        wait_until("the key has a master", || {
            found = self.nodes.iter().position(|node| {
                node.pid().is_some()
                    && is_master(node)
                    // Another master answers with a redirection.
                    && node.connection().exists::<_, bool>(key).is_ok()
            });
            found.is_some()
        });
        found.expect("just found")
    }

    /// Waits until the replicas of the node that serves this key have all that it has.
    ///
    /// # Panics
    ///
    /// When they do not within the deadline.
    pub fn settle(&self, key: &str) {
        let node = &self.nodes[self.master_of(key)];
        let mut connection = node.connection();
        wait_until("the replica has everything", || {
            // WAIT counts for the connection's own last write, so there has to be one; this one changes nothing.
            let written: RedisResult<()> = redis::cmd("PERSIST").arg(key).query(&mut connection);
            let wait: RedisResult<u32> =
                redis::cmd("WAIT").arg(1).arg(1_000).query(&mut connection);
            let info: String = redis::cmd("INFO")
                .arg("replication")
                .query(&mut connection)
                .unwrap_or_default();
            written.is_ok() && wait.is_ok_and(|replicas| replicas >= 1) && offsets_agree(&info)
        });
    }

    /// Kills the master of this key; returns its index once another node has taken over.
    ///
    /// # Panics
    ///
    /// When no other node takes over within the deadline.
    pub fn fail_over(&mut self, key: &str) -> usize {
        let old = self.master_of(key);
        self.nodes[old].kill();
        let new = self.master_of(key);
        assert_ne!(old, new);
        wait_until("the Cluster is whole again", || {
            self.nodes
                .iter()
                .filter(|node| node.pid().is_some())
                .all(|node| self.info(node, "cluster_state").as_deref() == Some("ok"))
        });
        old
    }
}

fn is_master(node: &RedisServer) -> bool {
    let role: RedisResult<Vec<redis::Value>> = redis::cmd("ROLE").query(&mut node.connection());
    role.is_ok_and(|role| {
        role.into_iter()
            .next()
            .and_then(|name| String::from_redis_value(name).ok())
            .is_some_and(|name| name == "master")
    })
}

/// Whether every replica in an `INFO replication` has acknowledged the master's own offset.
fn offsets_agree(info: &str) -> bool {
    let own = info
        .lines()
        .find_map(|line| line.trim_end().strip_prefix("master_repl_offset:"));
    let mut replicas = info
        .lines()
        .filter(|line| line.starts_with("slave") && line.contains("offset="))
        .peekable();
    replicas.peek().is_some()
        && replicas.all(|line| {
            line.split(',')
                .find_map(|part| part.strip_prefix("offset="))
                == own
        })
}

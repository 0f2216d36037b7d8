//! From configuration to a source.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_utxo_chain::Network;
use secrecy::SecretString;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::blk::BlockFiles;
use crate::files_source::FilesSource;
use crate::network;
use crate::node::Node;
use crate::node_source::{NodeFiles, NodeSource};
use crate::rpc::Credentials;
use crate::source::{ChainSource, SourceError};

/// Name of the node's cookie file.
const COOKIE_FILE: &str = ".cookie";
/// Name of the folder of block files in the node's network folder.
const BLOCKS_FOLDER: &str = "blocks";

/// Where a chain comes from: the keys of a `[[chain]]` in the configuration. Empty text means the same as there: not set.
#[derive(Clone)]
pub struct SourceConfig {
    /// Which chain.
    pub network: Network,
    /// The node's RPC address; empty: the block files alone. User and password inside it are used if no others are set.
    pub rpc_url: String,
    /// Cookie file; default: that of the network below `node_dir`.
    pub rpc_cookie_file: Option<PathBuf>,
    /// User, used with `rpc_password`; goes before the cookie.
    pub rpc_user: String,
    /// Password.
    pub rpc_password: Option<SecretString>,
    /// The node's data folder.
    pub node_dir: Option<PathBuf>,
    /// Folder of the block files; default: that of the network below `node_dir`.
    pub blocks_dir: Option<PathBuf>,
    /// Magic of the block files where it is not the network's (a fork, a signet of one's own).
    pub magic: Option<[u8; 4]>,
    /// Challenge script of a signet of one's own; gives the magic when the files are read without a node.
    pub signet_challenge: Option<Vec<u8>>,
}

impl fmt::Debug for SourceConfig {
    /// Leaves the address out: it may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceConfig")
            .field("network", &self.network)
            .field("rpc_cookie_file", &self.rpc_cookie_file)
            .field("rpc_user", &self.rpc_user)
            .field("node_dir", &self.node_dir)
            .field("blocks_dir", &self.blocks_dir)
            .field("magic", &self.magic)
            .field("signet_challenge", &self.signet_challenge)
            .finish_non_exhaustive()
    }
}

impl SourceConfig {
    /// A configuration of a network with nothing else set.
    pub fn new(network: impl Into<Network>) -> Self {
        Self {
            network: network.into(),
            rpc_url: String::new(),
            rpc_cookie_file: None,
            rpc_user: String::new(),
            rpc_password: None,
            node_dir: None,
            blocks_dir: None,
            magic: None,
            signet_challenge: None,
        }
    }

    /// The network's folder below `node_dir`. A `node_dir` that is that folder already is taken as such.
    fn network_dir(&self) -> Option<PathBuf> {
        let dir = set(self.node_dir.as_deref())?;
        let below = dir.join(network::node_folder(self.network));
        Some(if !below.is_dir() && dir.join(BLOCKS_FOLDER).is_dir() {
            dir.to_owned()
        } else {
            below
        })
    }

    /// The block folder to use, and whether it was named by the operator.
    fn blocks_dir(&self) -> Option<(PathBuf, bool)> {
        match set(self.blocks_dir.as_deref()) {
            Some(dir) => Some((dir.to_owned(), true)),
            None => Some((self.network_dir()?.join(BLOCKS_FOLDER), false)),
        }
    }

    fn credentials(&self) -> Result<Credentials, SourceError> {
        let cookie = set(self.rpc_cookie_file.as_deref());
        match (&*self.rpc_user, &self.rpc_password, cookie) {
            ("", None, Some(path)) => Ok(Credentials::Cookie(path.to_owned())),
            ("", None, None) => Ok(self.network_dir().map_or(Credentials::None, |dir| {
                Credentials::Cookie(dir.join(COOKIE_FILE))
            })),
            ("", Some(_), _) => Err(SourceError::Refused(
                "rpc_password is set without rpc_user".to_owned(),
            )),
            (_, None, _) => Err(SourceError::Refused(
                "rpc_user is set without rpc_password".to_owned(),
            )),
            (user, Some(password), _) => Ok(Credentials::Password {
                user: user.to_owned(),
                password: password.clone(),
            }),
        }
    }

    fn configured_magic(&self) -> Option<[u8; 4]> {
        self.magic
            .or_else(|| self.signet_challenge.as_deref().map(network::signet_magic))
    }
}

/// An empty path in the configuration is one that is not set.
fn set(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// A source, with the node behind it if there is one.
#[derive(Clone)]
pub struct OpenedSource {
    /// What the index reads.
    pub source: Arc<dyn ChainSource>,
    /// For broadcasting, the mempool and fees; `None`: block files alone.
    pub node: Option<Node>,
}

/// Makes the source that a configuration names. Reads `xor.dat`, lists the block folder, and does not talk to the node yet:
/// an absent node is an answer of [`ChainSource::tip`], not of this call.
///
/// Cancelling `stop` ends running calls of the source with [`SourceError::Stopped`]. `runtime` must outlive the source.
///
/// # Errors
/// [`SourceError::Refused`] for a configuration that cannot work, with the key to change.
pub fn open_source(
    config: &SourceConfig,
    runtime: Handle,
    stop: CancellationToken,
) -> Result<OpenedSource, SourceError> {
    let magic = config.configured_magic();
    let files = match config.blocks_dir() {
        None => None,
        Some((dir, named)) => match BlockFiles::open(&dir, config.network, magic) {
            Ok(files) => Some(NodeFiles {
                files,
                required: named,
                magic_is_fixed: magic.is_some(),
            }),
            // A node elsewhere, or of another user: its files were only a way to be faster.
            Err(reason) if !named && !config.rpc_url.is_empty() && !readable(&dir) => {
                tracing::info!(%reason, "block files are not readable; blocks come over RPC");
                None
            }
            Err(error) => return Err(error),
        },
    };
    if config.rpc_url.is_empty() {
        let files = files.ok_or_else(|| {
            SourceError::Refused(
                "set rpc_url to a node, or blocks_dir (or node_dir) to its block files".to_owned(),
            )
        })?;
        let source = FilesSource::new(files.files, config.network, stop);
        return Ok(OpenedSource {
            source: Arc::new(source),
            node: None,
        });
    }
    let node =
        Node::new(&config.rpc_url, config.credentials()?)?.of_family(config.network.family());
    let source = NodeSource::new(node.clone(), config.network, files, runtime, stop);
    Ok(OpenedSource {
        source: Arc::new(source),
        node: Some(node),
    })
}

/// The genesis block, serialized, of the chain that a configuration leads to: from its block files, or else from its node.
/// This is how a chain of Elements that is not a public one is known; of the configured network only the names count.
///
/// # Errors
/// See [`SourceError`]; [`SourceError::Unavailable`] if the node does not answer now.
pub fn genesis_block(config: &SourceConfig, runtime: &Handle) -> Result<Vec<u8>, SourceError> {
    if let Some((dir, named)) = config.blocks_dir()
        && (named || readable(&dir))
    {
        let files = BlockFiles::open(&dir, config.network, config.configured_magic())?;
        if let Some(block) = files.genesis()? {
            return Ok(block);
        }
        if config.rpc_url.is_empty() {
            return Err(SourceError::Refused(format!(
                "{} holds no genesis block: the files from blk00000.dat on are needed to index without a node (or set \
                 rpc_url)",
                dir.display()
            )));
        }
    }
    let node =
        Node::new(&config.rpc_url, config.credentials()?)?.of_family(config.network.family());
    let block = runtime.block_on(async { node.block(&node.block_hash(0).await?).await })?;
    Ok(block)
}

fn readable(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::Network;

    fn config(network: Network) -> SourceConfig {
        SourceConfig {
            node_dir: Some("/node".into()),
            rpc_url: "http://127.0.0.1:1".into(),
            ..SourceConfig::new(network)
        }
    }

    #[test]
    fn cookie_and_blocks_lie_in_the_network_folder() {
        for (network, folder) in [
            (Network::Bitcoin, "/node"),
            (Network::Testnet, "/node/testnet3"),
            (Network::Testnet4, "/node/testnet4"),
            (Network::Signet, "/node/signet"),
            (Network::Regtest, "/node/regtest"),
        ] {
            let config = config(network);
            let folder = Path::new(folder);
            match config.credentials() {
                Ok(Credentials::Cookie(path)) => assert_eq!(path, folder.join(".cookie")),
                other => panic!("{network}: {other:?}"),
            }
            assert_eq!(config.blocks_dir(), Some((folder.join("blocks"), false)));
        }
    }

    #[test]
    fn what_is_named_goes_before_what_is_derived() {
        let mut config = config(Network::Regtest);
        config.rpc_cookie_file = Some("/cookie".into());
        config.blocks_dir = Some("/blocks".into());
        assert!(
            matches!(config.credentials(), Ok(Credentials::Cookie(path)) if path == Path::new("/cookie"))
        );
        assert_eq!(config.blocks_dir(), Some(("/blocks".into(), true)));
        config.rpc_user = "alice".into();
        assert!(config.credentials().is_err(), "a user without a password");
        config.rpc_password = Some(SecretString::from("secret"));
        assert!(matches!(
            config.credentials(),
            Ok(Credentials::Password { .. })
        ));
        assert!(!format!("{config:?}{:?}", config.credentials()).contains("secret"));
        config.rpc_user.clear();
        assert!(config.credentials().is_err(), "a password without a user");
    }

    #[test]
    fn a_network_folder_is_taken_as_node_dir_too() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(dir.path().join("blocks")).expect("created");
        let mut config = config(Network::Regtest);
        config.node_dir = Some(dir.path().to_owned());
        assert_eq!(config.network_dir(), Some(dir.path().to_owned()));
        std::fs::create_dir(dir.path().join("regtest")).expect("created");
        assert_eq!(config.network_dir(), Some(dir.path().join("regtest")));
    }
}

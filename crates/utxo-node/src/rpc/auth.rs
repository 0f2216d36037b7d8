//! Credentials of a node: a cookie file that changes at each start of the node, or user and password.
//!
//! Values are [`SecretString`]s: they reach the request and nothing else.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};

use super::error::NodeError;

/// How to prove to a node who we are.
#[derive(Debug, Clone, Default)]
pub enum Credentials {
    /// Nothing is configured.
    #[default]
    None,
    /// A file `user:password` that the node writes when it starts.
    Cookie(PathBuf),
    /// A fixed user.
    Password {
        /// User name.
        user: String,
        /// Password.
        password: SecretString,
    },
}

impl fmt::Display for Credentials {
    /// The source of the credentials, never their value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no credentials are configured: set rpc_cookie_file, node_dir, or rpc_user and rpc_password"),
            Self::Cookie(path) => write!(f, "cookie file {}", path.display()),
            Self::Password { .. } => f.write_str("rpc_user and rpc_password"),
        }
    }
}

/// User and password of one request.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) user: String,
    pub(super) password: SecretString,
}

impl Pair {
    fn same(&self, other: &Self) -> bool {
        self.user == other.user && self.password.expose_secret() == other.password.expose_secret()
    }
}

/// Credentials with the cookie as last read.
pub(super) struct Auth {
    credentials: Credentials,
    cookie: RwLock<Option<Pair>>,
}

impl Auth {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self {
            credentials,
            cookie: RwLock::new(None),
        }
    }

    pub(super) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// What to send. The cookie is read once and kept until [`Self::forget`].
    pub(super) async fn pair(&self) -> Result<Option<Pair>, NodeError> {
        match &self.credentials {
            Credentials::None => Ok(None),
            Credentials::Password { user, password } => Ok(Some(Pair {
                user: user.clone(),
                password: password.clone(),
            })),
            Credentials::Cookie(path) => {
                if let Some(pair) = self
                    .cookie
                    .read()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone()
                {
                    return Ok(Some(pair));
                }
                let pair = read_cookie(path).await?;
                *self.cookie.write().unwrap_or_else(PoisonError::into_inner) = Some(pair.clone());
                Ok(Some(pair))
            }
        }
    }

    /// Reads the cookie again at the next call: the node was gone, so it may have restarted.
    pub(super) fn forget(&self) {
        *self.cookie.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// After a refusal: whether the cookie file now holds something else than what was sent.
    pub(super) async fn changed_since(&self, sent: Option<&Pair>) -> Result<bool, NodeError> {
        if !matches!(self.credentials, Credentials::Cookie(_)) {
            return Ok(false);
        }
        self.forget();
        let now = self.pair().await?;
        Ok(match (now, sent) {
            (Some(now), Some(sent)) => !now.same(sent),
            (now, sent) => now.is_some() != sent.is_some(),
        })
    }
}

/// Longest cookie file read, bytes; a node writes 75.
const COOKIE_MAX: usize = 4096;

async fn read_cookie(path: &PathBuf) -> Result<Pair, NodeError> {
    let bytes = match tokio::fs::read(path).await {
        Ok(bytes) => bytes,
        // A node removes its cookie when it stops and writes another when it starts.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(NodeError::Unavailable(format!(
                "cookie file {} is not there: the node is not running, or rpc_cookie_file or node_dir is wrong",
                path.display()
            )));
        }
        Err(error) => {
            return Err(NodeError::Refused(format!(
                "cannot read cookie file {}: {error}",
                path.display()
            )));
        }
    };
    let text = (bytes.len() <= COOKIE_MAX)
        .then(|| String::from_utf8(bytes).ok())
        .flatten();
    let pair = text.as_deref().and_then(|text| text.trim().split_once(':'));
    let Some((user, password)) = pair else {
        // Also the moment between the node's creating the file and filling it.
        return Err(NodeError::Unavailable(format!(
            "cookie file {} does not hold user:password",
            path.display()
        )));
    };
    Ok(Pair {
        user: user.to_owned(),
        password: SecretString::from(password.to_owned()),
    })
}

//! The certificate of the TLS listeners: given by the operator or made here, and read again when its files change.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// Names of the pair that is made when none is given.
const CERT_FILE: &str = "electrum.crt";
const KEY_FILE: &str = "electrum.key";
/// Who may read a private key.
const KEY_FILE_MODE: u32 = 0o600;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A file holds something else.
    #[error("{path}: {why}")]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong; never a part of a key.
        why: String,
    },
    /// A new pair cannot be made.
    #[error("cannot make a self-signed certificate: {0}")]
    Making(String),
}

/// A certificate with its key, and where they come from.
pub struct TlsIdentity {
    cert_file: PathBuf,
    key_file: PathBuf,
    served: Arc<Served>,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity")
            .field("cert_file", &self.cert_file)
            .field("key_file", &self.key_file)
            .finish_non_exhaustive()
    }
}

/// What handshakes use now.
struct Served {
    key: RwLock<Arc<CertifiedKey>>,
    read_at: RwLock<Stamp>,
}

/// When the files were last changed.
type Stamp = (Option<SystemTime>, Option<SystemTime>);

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Served")
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(
            &self.key.read().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}

impl TlsIdentity {
    /// The pair in two PEM files: the certificate with those that vouch for it, and its private key.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn from_files(cert_file: &Path, key_file: &Path) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let stamp = stamp(cert_file, key_file);
        let key = read_pair(cert_file, key_file, &provider)?;
        let served = Arc::new(Served {
            key: RwLock::new(Arc::new(key)),
            read_at: RwLock::new(stamp),
        });
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Making(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&served) as Arc<dyn ResolvesServerCert>);
        Ok(Self {
            cert_file: cert_file.to_owned(),
            key_file: key_file.to_owned(),
            served,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }

    /// The self-signed pair in a folder; made at the first call and then kept, since clients remember it. `names` are the
    /// host names and addresses it is for.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn self_signed(folder: &Path, names: &[String]) -> Result<Self, TlsError> {
        let (cert_file, key_file) = (folder.join(CERT_FILE), folder.join(KEY_FILE));
        if !cert_file.exists() || !key_file.exists() {
            std::fs::create_dir_all(folder).map_err(in_file(folder))?;
            let mut names = names.to_vec();
            names.push("localhost".to_owned());
            let pair = rcgen::generate_simple_self_signed(names)
                .map_err(|error| TlsError::Making(error.to_string()))?;
            write_key(&key_file, &pair.signing_key.serialize_pem())?;
            std::fs::write(&cert_file, pair.cert.pem()).map_err(in_file(&cert_file))?;
            tracing::info!(certificate = %cert_file.display(), "made a self-signed certificate");
        }
        Self::from_files(&cert_file, &key_file)
    }

    /// Where the certificate is.
    pub fn cert_file(&self) -> &Path {
        &self.cert_file
    }

    /// Accepts connections with the newest pair.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    /// Reads the files again if they were changed. A pair that cannot be used is left, and the old one stays. Returns whether
    /// there is a new one.
    ///
    /// # Errors
    /// Why the changed files cannot be used.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let now = stamp(&self.cert_file, &self.key_file);
        if *self
            .served
            .read_at
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            == now
        {
            return Ok(false);
        }
        *self
            .served
            .read_at
            .write()
            .unwrap_or_else(PoisonError::into_inner) = now;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = read_pair(&self.cert_file, &self.key_file, &provider)?;
        *self
            .served
            .key
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
        Ok(true)
    }
}

fn in_file(path: &Path) -> impl FnOnce(io::Error) -> TlsError {
    let path = path.to_owned();
    move |cause| TlsError::File { path, cause }
}

fn stamp(cert_file: &Path, key_file: &Path) -> Stamp {
    let changed = |path: &Path| {
        std::fs::metadata(path)
            .and_then(|meta| meta.modified())
            .ok()
    };
    (changed(cert_file), changed(key_file))
}

fn read_pair(
    cert_file: &Path,
    key_file: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<CertifiedKey, TlsError> {
    let content = |path: &Path, why: String| TlsError::Content {
        path: path.to_owned(),
        why,
    };
    let pem = std::fs::read(cert_file).map_err(in_file(cert_file))?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| content(cert_file, format!("not PEM: {error}")))?;
    if chain.is_empty() {
        return Err(content(
            cert_file,
            "there is no certificate in it".to_owned(),
        ));
    }
    let pem = std::fs::read(key_file).map_err(in_file(key_file))?;
    // The parser's own text could quote the key.
    let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        content(
            key_file,
            "there is no private key in PEM form in it".to_owned(),
        )
    })?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        content(
            key_file,
            format!("the key does not fit the certificate: {error}"),
        )
    })
}

fn write_key(path: &Path, pem: &str) -> Result<(), TlsError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(KEY_FILE_MODE)
        .open(path)
        .map_err(in_file(path))?;
    file.write_all(pem.as_bytes()).map_err(in_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_made_pair_is_kept_and_changed_files_are_read_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let first =
            TlsIdentity::self_signed(dir.path(), &["node.example".to_owned()]).expect("made");
        let pem = std::fs::read(first.cert_file()).expect("written");
        let mode = std::fs::metadata(dir.path().join(KEY_FILE))
            .expect("written")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, KEY_FILE_MODE);
        let again = TlsIdentity::self_signed(dir.path(), &[]).expect("read");
        assert_eq!(
            std::fs::read(again.cert_file()).expect("there"),
            pem,
            "clients remember it"
        );
        assert!(!again.reload_if_changed().expect("readable"));

        let other = tempfile::tempdir().expect("a folder");
        TlsIdentity::self_signed(other.path(), &[]).expect("made");
        // Half of a new pair does not fit, and the old one stays in use.
        let later = SystemTime::now() + std::time::Duration::from_secs(10);
        let replace = |name: &str| {
            std::fs::copy(other.path().join(name), dir.path().join(name)).expect("copied");
            std::fs::File::options()
                .write(true)
                .open(dir.path().join(name))
                .and_then(|file| file.set_modified(later))
                .expect("stamped");
        };
        replace(CERT_FILE);
        let error = again
            .reload_if_changed()
            .expect_err("two different pairs")
            .to_string();
        assert!(error.contains("does not fit"), "{error}");
        replace(KEY_FILE);
        assert!(again.reload_if_changed().expect("a pair again"));
    }

    #[test]
    fn errors_name_the_file_and_nothing_secret() {
        let dir = tempfile::tempdir().expect("a folder");
        let (cert, key) = (dir.path().join("c.pem"), dir.path().join("k.pem"));
        let error = TlsIdentity::from_files(&cert, &key)
            .expect_err("missing")
            .to_string();
        assert!(error.contains("c.pem"), "{error}");
        std::fs::write(&cert, "nothing").expect("written");
        let error = TlsIdentity::from_files(&cert, &key)
            .expect_err("empty")
            .to_string();
        assert!(error.contains("no certificate"), "{error}");
        TlsIdentity::self_signed(dir.path(), &[]).expect("made");
        std::fs::write(&key, "secret words").expect("written");
        let error = TlsIdentity::from_files(&dir.path().join(CERT_FILE), &key)
            .expect_err("no key")
            .to_string();
        assert!(
            error.contains("k.pem") && !error.contains("secret words"),
            "{error}"
        );
    }
}

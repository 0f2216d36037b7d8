//! A visit to another server: is it what it says it is?

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Address;
use crate::version::{HIGHEST, LOWEST};

/// Time for a whole visit.
const VISIT_TIME: Duration = Duration::from_secs(30);
/// Bytes read from a server in all.
const ANSWERS_MAX: u64 = 1 << 20;
/// Blocks by which another server may be ahead or behind.
const HEIGHT_SLACK: u64 = 10;

/// What a good server says.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    pub(super) genesis: String,
    pub(super) height: u32,
    /// How we call ourselves.
    pub(super) software: String,
    /// What we say about ourselves, to be told to others; `None`: nothing.
    pub(super) introduction: Option<Value>,
}

/// What was found.
#[derive(Debug)]
pub(super) struct Visited {
    pub(super) ip: IpAddr,
    pub(super) version: String,
    pub(super) peers: Vec<Address>,
}

/// Visits a server. The error says why it is not good.
pub(super) async fn visit(address: &Address, expected: &Expected) -> Result<Visited, String> {
    tokio::time::timeout(VISIT_TIME, async {
        if let Some(port) = address.ssl {
            let (stream, ip) = connect(&address.host, port).await?;
            let name =
                ServerName::try_from(address.host.clone()).map_err(|error| error.to_string())?;
            let stream = tls()
                .connect(name, stream)
                .await
                .map_err(|error| error.to_string())?;
            return talk(stream, ip, expected).await;
        }
        let port = address.tcp.ok_or("it has no port")?;
        let (stream, ip) = connect(&address.host, port).await?;
        talk(stream, ip, expected).await
    })
    .await
    .map_err(|_| "it takes too long".to_owned())?
}

async fn connect(host: &str, port: u16) -> Result<(TcpStream, IpAddr), String> {
    let stream = TcpStream::connect((host, port))
        .await
        .map_err(|error| error.to_string())?;
    let ip = stream
        .peer_addr()
        .map_err(|error| error.to_string())?
        .ip()
        .to_canonical();
    Ok((stream, ip))
}

async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    ip: IpAddr,
    expected: &Expected,
) -> Result<Visited, String> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::new(reader.take(ANSWERS_MAX));
    let mut ask = async |method: &str, params: Value| -> Result<Value, String> {
        let mut line =
            json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params}).to_string();
        line.push('\n');
        writer
            .write_all(line.as_bytes())
            .await
            .map_err(|error| error.to_string())?;
        writer.flush().await.map_err(|error| error.to_string())?;
        loop {
            let mut answer = String::new();
            if reader
                .read_line(&mut answer)
                .await
                .map_err(|error| error.to_string())?
                == 0
            {
                return Err(format!("it closed at {method}"));
            }
            let mut answer: Value =
                serde_json::from_str(&answer).map_err(|error| error.to_string())?;
            // Notifications may come in between.
            if answer.get("id").is_some() {
                return match answer.get_mut("result").map(Value::take) {
                    Some(result) => Ok(result),
                    None => Err(format!("it refuses {method}")),
                };
            }
        }
    };
    let agreed = ask(
        "server.version",
        json!([expected.software, [LOWEST.to_string(), HIGHEST.to_string()]]),
    )
    .await?;
    let features = ask("server.features", json!([])).await?;
    if features["genesis_hash"] != expected.genesis.as_str() {
        return Err("it serves another chain".to_owned());
    }
    let tip = ask("blockchain.headers.subscribe", json!([])).await?;
    let height = tip["height"].as_u64().ok_or("it has no height")?;
    if height.abs_diff(u64::from(expected.height)) > HEIGHT_SLACK {
        return Err(format!("it is at height {height}"));
    }
    let listed = ask("server.peers.subscribe", json!([])).await?;
    if let Some(introduction) = &expected.introduction {
        // Whether it takes us is its own affair.
        let _ = ask("server.add_peer", json!([introduction])).await;
    }
    let peers = listed
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let mut address = Address {
                host: entry.get(1)?.as_str()?.to_owned(),
                tcp: None,
                ssl: None,
            };
            for word in entry.get(2)?.as_array()?.iter().filter_map(Value::as_str) {
                address.take_feature(word);
            }
            address.check()
        })
        .collect();
    let version = agreed.get(1).and_then(Value::as_str).unwrap_or_default();
    Ok(Visited {
        ip,
        version: version.chars().take(16).collect(),
        peers,
    })
}

fn tls() -> TlsConnector {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// Electrum servers have certificates that nobody vouches for. What they say is checked against our own chain, and nothing
/// secret is told to them.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

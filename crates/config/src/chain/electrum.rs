//! The keys of a chain's Electrum server.

use std::net::IpAddr;

use crate::model::{AddressRange, CertificateFiles, ElectrumConfig, ElectrumHost};
use crate::problem::ProblemKind;
use crate::reader::{At, Reader};
use crate::values::{read_listeners, set_path, to_usize};

/// Reads the keys. Problems are left in the reader.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> ElectrumConfig {
    let electrum = ElectrumConfig {
        tcp: read_listeners(reader, at, "electrum_listen"),
        tls: read_listeners(reader, at, "electrum_tls_listen"),
        ws: read_listeners(reader, at, "electrum_ws_listen"),
        wss: read_listeners(reader, at, "electrum_wss_listen"),
        certificate: read_certificate(reader, at),
        banner_file: set_path(reader.text(at, "electrum_banner_file")),
        donation_address: reader.text(at, "electrum_donation_address"),
        proxy: read_listeners(reader, at, "electrum_proxy_listen"),
        proxy_tls: read_listeners(reader, at, "electrum_proxy_tls_listen"),
        proxy_from: read_ranges(reader, at, "electrum_proxy_from"),
        server_name: reader.text(at, "electrum_server_name"),
        version_first: reader.bool(at, "electrum_version_first"),
        public_hosts: read_hosts(reader, at, "electrum_public_hosts"),
        peer_discovery: reader.bool(at, "electrum_peer_discovery"),
        peers: read_hosts(reader, at, "electrum_peers"),
        history_limit: to_usize(reader.integer(at, "electrum_history_limit")),
        sessions_max: to_usize(reader.integer(at, "electrum_sessions_max")),
        sessions_per_network: to_usize(reader.integer(at, "electrum_sessions_per_network")),
        subscriptions_max: to_usize(reader.integer(at, "electrum_subscriptions_max")),
        subscriptions_per_session: to_usize(
            reader.integer(at, "electrum_subscriptions_per_session"),
        ),
        request_bytes_max: to_usize(reader.integer(at, "electrum_request_bytes_max")),
        batch_max: to_usize(reader.integer(at, "electrum_batch_max")),
        idle_seconds: reader.integer(at, "electrum_idle_seconds"),
        cost_soft: u32::try_from(reader.integer(at, "electrum_cost_soft")).unwrap_or(u32::MAX),
        cost_hard: u32::try_from(reader.integer(at, "electrum_cost_hard")).unwrap_or(u32::MAX),
        exempt: read_ranges(reader, at, "electrum_exempt"),
    };
    if electrum.cost_hard < electrum.cost_soft {
        let message = format!(
            "must not be below electrum_cost_soft, which is {}",
            electrum.cost_soft
        );
        reader.problem(at, "electrum_cost_hard", ProblemKind::InvalidValue, message);
    }
    let is_proxied = !electrum.proxy.is_empty() || !electrum.proxy_tls.is_empty();
    if is_proxied && electrum.proxy_from.is_empty() {
        let message = "must name the load balancers, since there are proxy listeners";
        reader.problem(
            at,
            "electrum_proxy_from",
            ProblemKind::InvalidValue,
            message,
        );
    }
    electrum
}

fn read_certificate(reader: &mut Reader<'_>, at: &At<'_>) -> Option<CertificateFiles> {
    let cert = set_path(reader.text(at, "tls_cert_file"));
    let key = set_path(reader.text(at, "tls_key_file"));
    match (cert, key) {
        (Some(cert), Some(key)) => Some(CertificateFiles { cert, key }),
        (None, None) => None,
        (Some(_), None) => {
            let message = "needs tls_key_file, the private key of this certificate";
            reader.problem(at, "tls_cert_file", ProblemKind::InvalidValue, message);
            None
        }
        (None, Some(_)) => {
            let message = "needs tls_cert_file, the certificate of this key";
            reader.problem(at, "tls_key_file", ProblemKind::InvalidValue, message);
            None
        }
    }
}

fn read_ranges(reader: &mut Reader<'_>, at: &At<'_>, name: &'static str) -> Vec<AddressRange> {
    let mut ranges = Vec::new();
    for text in reader.list(at, name) {
        match parse_range(&text) {
            Some(range) => ranges.push(range),
            None => {
                let message = format!(
                    "\"{text}\" is not an address or a range of addresses, like 10.0.0.0/8"
                );
                reader.problem(at, name, ProblemKind::InvalidValue, message);
            }
        }
    }
    ranges
}

fn parse_range(text: &str) -> Option<AddressRange> {
    let (address, bits) = match text.split_once('/') {
        None => (text, None),
        Some((address, bits)) => (address, Some(bits)),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= most)?,
    };
    Some(AddressRange { address, bits })
}

fn read_hosts(reader: &mut Reader<'_>, at: &At<'_>, name: &'static str) -> Vec<ElectrumHost> {
    let mut hosts = Vec::new();
    for text in reader.list(at, name) {
        match parse_host(&text) {
            Some(host) => hosts.push(host),
            None => {
                let message = format!(
                    "\"{text}\" is not a host with its ports, like \"electrum.example.org t50001 s50002\""
                );
                reader.problem(at, name, ProblemKind::InvalidValue, message);
            }
        }
    }
    hosts
}

/// A name, then a letter with a port for each way there.
fn parse_host(text: &str) -> Option<ElectrumHost> {
    let mut words = text.split_whitespace();
    let mut host = ElectrumHost {
        host: words.next()?.to_owned(),
        ..ElectrumHost::default()
    };
    let mut ways = 0;
    for word in words {
        let mut letters = word.chars();
        let slot = match letters.next()? {
            't' => &mut host.tcp,
            's' => &mut host.ssl,
            'w' => &mut host.ws,
            'W' => &mut host.wss,
            _ => return None,
        };
        *slot = Some(letters.as_str().parse().ok()?);
        ways += 1;
    }
    (ways > 0).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_hosts() {
        let range = parse_range("10.0.0.0/8").expect("a range");
        assert_eq!(
            (range.address.to_string().as_str(), range.bits),
            ("10.0.0.0", 8)
        );
        assert_eq!(parse_range("::1").map(|range| range.bits), Some(128));
        for text in ["", "x", "10.0.0.0/33", "::/129", "10.0.0.0/x"] {
            assert_eq!(parse_range(text), None, "{text}");
        }
        let host = parse_host("a.example t1 s2 w3 W4").expect("a host");
        assert_eq!(
            (host.host.as_str(), host.tcp, host.ssl, host.ws, host.wss),
            ("a.example", Some(1), Some(2), Some(3), Some(4))
        );
        for text in [
            "",
            "a.example",
            "a.example x1",
            "a.example t",
            "a.example t70000",
        ] {
            assert_eq!(parse_host(text), None, "{text}");
        }
    }
}

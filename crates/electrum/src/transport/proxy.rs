//! The PROXY protocol, versions 1 and 2: the client's address as a load balancer in front tells it.
//!
//! The header comes before anything else on the connection, TLS included, so it is read without taking a byte more. The
//! rules are those of HAProxy's `proxy-protocol.txt`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt};

/// First bytes of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Longest header of version 1, line end included.
const V1_BYTES_MAX: usize = 107;
/// Longest address part of version 2 that is read: addresses and what may follow them.
const V2_BYTES_MAX: usize = 4096;

/// Reads the header. `None`: the connection is the balancer's own, or of a kind without addresses.
///
/// # Errors
/// When there is no such header, or it is damaged.
pub(crate) async fn read_proxy_header(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<IpAddr>> {
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start).await?;
    if start == SIGNATURE {
        let mut head = [0; 4];
        stream.read_exact(&mut head).await?;
        let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if length > V2_BYTES_MAX {
            return Err(damaged("its addresses are too long"));
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        return version_2(head[0], head[1], &body);
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() >= V1_BYTES_MAX {
            return Err(damaged("its line does not end"));
        }
        line.push(stream.read_u8().await?);
    }
    version_1(&line)
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("no PROXY protocol header: {why}"),
    )
}

/// `PROXY TCP4 source destination port port\r\n`.
fn version_1(line: &[u8]) -> io::Result<Option<IpAddr>> {
    let text = std::str::from_utf8(line).map_err(|_| damaged("it is not text"))?;
    let mut words = text.trim_end().split(' ');
    if words.next() != Some("PROXY") {
        return Err(damaged("it does not begin with PROXY"));
    }
    let family = words.next();
    if family == Some("UNKNOWN") {
        return Ok(None);
    }
    let source = words.next().and_then(|word| word.parse::<IpAddr>().ok());
    match (family, source) {
        (Some("TCP4"), Some(address @ IpAddr::V4(_)))
        | (Some("TCP6"), Some(address @ IpAddr::V6(_))) => Ok(Some(address)),
        _ => Err(damaged("it has no source address")),
    }
}

/// Version and command, family, and the addresses.
fn version_2(command: u8, family: u8, body: &[u8]) -> io::Result<Option<IpAddr>> {
    match (command, family) {
        // The balancer's own connection, a health check.
        (0x20, _) => Ok(None),
        (0x21, 0x11 | 0x12) => {
            let source: [u8; 4] = leading(body, 12)?;
            Ok(Some(IpAddr::V4(Ipv4Addr::from(source))))
        }
        (0x21, 0x21 | 0x22) => {
            let source: [u8; 16] = leading(body, 36)?;
            Ok(Some(IpAddr::V6(Ipv6Addr::from(source))))
        }
        // Unspecified, or a unix socket.
        (0x21, _) => Ok(None),
        _ => Err(damaged("its version or command is unknown")),
    }
}

/// The first `N` bytes of a body that must have at least `length`.
fn leading<const N: usize>(body: &[u8], length: usize) -> io::Result<[u8; N]> {
    body.get(..length)
        .and_then(|body| body.first_chunk())
        .copied()
        .ok_or_else(|| damaged("its addresses are too short"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> (Result<Option<String>, String>, Vec<u8>) {
        let mut stream = bytes;
        let got = read_proxy_header(&mut stream)
            .await
            .map(|address| address.map(|address| address.to_string()))
            .map_err(|error| error.to_string());
        (got, stream.to_vec())
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family, 0, body.len() as u8]);
        bytes.extend(body);
        bytes
    }

    #[tokio::test]
    async fn addresses_and_nothing_more_than_the_header() {
        let four = [
            [10, 1, 2, 3].as_slice(),
            &[127, 0, 0, 1],
            &[0, 1, 0, 2],
            b"tlv",
        ]
        .concat();
        let six = [&[0xfd; 16][..], &[0; 20]].concat();
        for (bytes, expected) in [
            (
                b"PROXY TCP4 192.0.2.7 127.0.0.1 5 6\r\n".to_vec(),
                Some("192.0.2.7"),
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 5 6\r\n".to_vec(),
                Some("2001:db8::1"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN whatever\r\n".to_vec(), None),
            (v2(0x21, 0x11, &four), Some("10.1.2.3")),
            (
                v2(0x21, 0x21, &six),
                Some("fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd"),
            ),
            (v2(0x20, 0x00, b""), None),
            (v2(0x21, 0x00, b"x"), None),
        ] {
            let (got, rest) = read(&[&bytes[..], b"{}\n"].concat()).await;
            assert_eq!(got, Ok(expected.map(str::to_owned)), "{bytes:?}");
            assert_eq!(rest, b"{}\n");
        }
    }

    #[tokio::test]
    async fn damaged_headers() {
        for bytes in [
            b"".to_vec(),
            b"PROXY TCP4 1.2".to_vec(),
            b"{\"id\":1,\"method\":\"server.version\"}\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::1 5 6\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.400 1.2.3.4 5 6\r\n".to_vec(),
            b"PROXY TCP5 1.2.3.4 1.2.3.4 5 6\r\n".to_vec(),
            [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat(),
            v2(0x21, 0x11, &[1, 2, 3]),
            v2(0x31, 0x11, &[0; 12]),
            [&SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff]].concat(),
        ] {
            let (got, _) = read(&bytes).await;
            assert!(got.is_err(), "{bytes:?}");
        }
    }
}

//! Ranges of addresses: who is exempt from limits, who may send a PROXY header.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of addresses, like `10.0.0.0/8` or `2001:db8::/32`; a single address without a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subnet {
    address: IpAddr,
    bits: u8,
}

/// A text that is no range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address or a range of addresses, like 10.0.0.0/8")]
pub struct SubnetError(String);

impl Subnet {
    /// Whether an address lies in the range. IPv4 addresses that come mapped into IPv6 count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (range, address) = (self.address, address.to_canonical());
        match (range, address) {
            (IpAddr::V4(range), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.bits);
                (range.to_bits() ^ address.to_bits())
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(range), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.bits);
                (range.to_bits() ^ address.to_bits())
                    .checked_shr(shift)
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || SubnetError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            None => (text, None),
            Some((address, bits)) => (address, Some(bits)),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(wrong)?,
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (range, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "255.1.2.3", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("192.0.2.0/25", "192.0.2.128", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "1.2.3.4", false),
            ("::1", "::1", true),
        ] {
            let range: Subnet = range.parse().expect(range);
            assert_eq!(
                range.contains(address.parse().expect(address)),
                expected,
                "{range} {address}"
            );
        }
        for text in [
            "",
            "x",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0/8",
            "::/129",
            "1.2.3.4/-1",
        ] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }
}

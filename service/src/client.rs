//! Clients, as far as they share what a service has.

use core::net::IpAddr;

/// Who shares: an IPv4 address, or the /64 network of an IPv6 address, which is what one subscriber has (RFC 6177).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(IpVersion, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum IpVersion {
    V4,
    V6,
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpVersion::V4, u32::from(address).into()),
            IpAddr::V6(address) => Self(IpVersion::V6, (u128::from(address) >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_client() {
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("0.0.0.1", "0:0:0:1::", false),
        ] {
            let client = |text: &str| Client::from(text.parse::<IpAddr>().unwrap());
            assert_eq!(client(one) == client(other), same, "{one} {other}");
        }
    }
}

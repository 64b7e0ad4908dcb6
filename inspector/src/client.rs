//! Which client a request comes from.

use core::net::{IpAddr, SocketAddr};

use glacis_engine::Endpoint;

use crate::request::Header;

/// Reads an address as Envoy writes it: `192.0.2.1:80`, `[2001:db8::1]:80`, or without a port.
#[must_use]
pub fn parse_endpoint(text: &str) -> Option<Endpoint> {
    let text = text.trim();
    if let Ok(both) = text.parse::<SocketAddr>() {
        return Some(Endpoint { address: both.ip().to_canonical(), port: both.port() });
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().ok()?;
    Some(Endpoint { address: address.to_canonical(), port: 0 })
}

/// The client: `source`, unless `trusted_hops` proxies stand before the host.
///
/// Each trusted proxy appends the address it was called from to `x-forwarded-for`; so the entry that
/// the outermost of them wrote, `trusted_hops` from the right, is the last that can be believed.
/// Entries further left were sent by the client. Where the list is shorter or the entry is not an
/// address, a proxy has been bypassed or is set up otherwise, and `source` is all that is known.
#[must_use]
pub fn client_of(
    source: Option<Endpoint>,
    headers: &[Header<'_>],
    trusted_hops: usize,
) -> Option<Endpoint> {
    let forwarded = trusted_hops.checked_sub(1).and_then(|skip| {
        let entries = headers
            .iter()
            .rev()
            .filter(|header| header.name.eq_ignore_ascii_case(b"x-forwarded-for"))
            .flat_map(|header| header.value.rsplit(|&byte| byte == b','));
        let entry = entries.into_iter().nth(skip)?;
        parse_endpoint(core::str::from_utf8(entry).ok()?)
    });
    forwarded.or(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_counted_from_the_right() {
        const SOURCE: &str = "10.0.0.9:4711";
        for (hops, headers, expected) in [
            (0, &["1.1.1.1"][..], "10.0.0.9"),
            (1, &[], "10.0.0.9"),
            (1, &["1.1.1.1, 2.2.2.2"], "2.2.2.2"),
            (2, &["1.1.1.1, 2.2.2.2"], "1.1.1.1"),
            (3, &["1.1.1.1, 2.2.2.2"], "10.0.0.9"),
            (2, &["6.6.6.6", "1.1.1.1,2.2.2.2"], "1.1.1.1"),
            (3, &["6.6.6.6", "1.1.1.1,2.2.2.2"], "6.6.6.6"),
            (1, &["1.1.1.1, not an address"], "10.0.0.9"),
            (1, &["1.1.1.1, [2001:db8::1]:99"], "2001:db8::1"),
            (1, &["::ffff:192.0.2.7"], "192.0.2.7"),
            (1, &["\u{fffd}"], "10.0.0.9"),
        ] {
            let headers: Vec<_> = headers
                .iter()
                .map(|value| Header { name: b"X-Forwarded-For", value: value.as_bytes() })
                .collect();
            let client = client_of(parse_endpoint(SOURCE), &headers, hops).unwrap();
            assert_eq!(client.address.to_string(), expected, "{hops} hops of {headers:?}");
        }
    }
}

//! Which address a request comes from.
//!
//! Everything to the left of what a trusted proxy wrote into `x-forwarded-for` is the client's own
//! word, and is not looked at.

use std::net::{IpAddr, SocketAddr};

/// The client's address, with a mapped IPv4 address unmapped.
///
/// `source` is Envoy's attribute `source.address`. With `trusted_hops` above 0 the answer is the
/// entry of `forwarded_for` that stands at that place counted from the right, from 1. If there is
/// no such entry, or it is no address, then the request did not come the way that the operator
/// described, and the answer is the source address: a client must not be able to choose by leaving
/// something out. `None` if that is no address either (a Unix socket, an internal listener).
pub(crate) fn client(
    source: Option<&[u8]>,
    forwarded_for: Option<&[u8]>,
    trusted_hops: u8,
) -> Option<IpAddr> {
    forwarded(forwarded_for, trusted_hops)
        .or_else(|| source.and_then(parse))
        .map(|address| address.to_canonical())
}

fn forwarded(forwarded_for: Option<&[u8]>, trusted_hops: u8) -> Option<IpAddr> {
    let skipped = usize::from(trusted_hops).checked_sub(1)?;
    // An empty entry counts: proxies append, so it can only be to the left of what they wrote.
    forwarded_for?.rsplit(|byte| *byte == b',').nth(skipped).and_then(parse)
}

/// An address as proxies write it: alone, in brackets, or with a port.
fn parse(bytes: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(bytes).ok()?.trim_matches([' ', '\t']);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(socket.ip());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::client;

    #[track_caller]
    fn check(rows: &[(&str, Option<&str>, u8, Option<&str>)]) {
        for (source, forwarded_for, hops, expected) in rows {
            let address = client(Some(source.as_bytes()), forwarded_for.map(str::as_bytes), *hops);
            let address = address.map(|address| address.to_string());
            assert_eq!(address.as_deref(), *expected, "{source} {forwarded_for:?} {hops}");
        }
    }

    #[test]
    fn source_address() {
        check(&[
            ("192.0.2.1:5000", None, 0, Some("192.0.2.1")),
            ("[2001:db8::1]:5000", None, 0, Some("2001:db8::1")),
            ("[::ffff:192.0.2.1]:5000", None, 0, Some("192.0.2.1")),
            ("192.0.2.1", None, 0, Some("192.0.2.1")),
            ("/run/envoy.sock", None, 0, None),
            ("envoy://internal_client_address/", None, 0, None),
            ("", None, 0, None),
        ]);
        assert_eq!(client(None, None, 0), None);
        assert_eq!(client(Some(b"\xFF\xFE"), None, 0), None);
    }

    #[test]
    fn forged_entries_are_not_looked_at() {
        let forged = "10.0.0.1, 10.0.0.2, 198.51.100.7, 203.0.113.9";
        check(&[
            ("192.0.2.1:1", Some(forged), 0, Some("192.0.2.1")),
            ("192.0.2.1:1", Some(forged), 1, Some("203.0.113.9")),
            ("192.0.2.1:1", Some(forged), 2, Some("198.51.100.7")),
            ("192.0.2.1:1", Some(forged), 4, Some("10.0.0.1")),
            // Fewer entries than trusted proxies: the request did not come through them.
            ("192.0.2.1:1", Some(forged), 5, Some("192.0.2.1")),
            ("192.0.2.1:1", None, 1, Some("192.0.2.1")),
            ("192.0.2.1:1", Some(""), 1, Some("192.0.2.1")),
            ("192.0.2.1:1", Some(","), 2, Some("192.0.2.1")),
            ("192.0.2.1:1", Some(",,,203.0.113.9"), 1, Some("203.0.113.9")),
            ("192.0.2.1:1", Some("203.0.113.9,"), 1, Some("192.0.2.1")),
            ("192.0.2.1:1", Some("203.0.113.9, unknown"), 1, Some("192.0.2.1")),
            ("192.0.2.1:1", Some("203.0.113.9 198.51.100.7"), 1, Some("192.0.2.1")),
            ("192.0.2.1:1", Some("example.org"), 1, Some("192.0.2.1")),
            ("/run/envoy.sock", Some("203.0.113.9"), 1, Some("203.0.113.9")),
            ("/run/envoy.sock", Some("nonsense"), 1, None),
        ]);
    }

    #[test]
    fn forms_of_an_entry() {
        check(&[
            ("x", Some("a,\t203.0.113.9 "), 1, Some("203.0.113.9")),
            ("x", Some("203.0.113.9:4711"), 1, Some("203.0.113.9")),
            ("x", Some("2001:db8::7"), 1, Some("2001:db8::7")),
            ("x", Some("[2001:db8::7]"), 1, Some("2001:db8::7")),
            ("x", Some("[2001:db8::7]:4711"), 1, Some("2001:db8::7")),
            ("x", Some("::ffff:203.0.113.9"), 1, Some("203.0.113.9")),
            ("x", Some("[203.0.113.9]"), 1, None),
            ("x", Some("203.0.113.9:99999"), 1, None),
            ("x", Some("0313.0.113.9"), 1, None),
        ]);
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut hostile: Vec<u8> = (0..=255).cycle().take(60_000).collect();
        assert_eq!(client(Some(&hostile), Some(&hostile), 1), None);
        hostile.fill(b',');
        assert_eq!(client(None, Some(&hostile), 255), None);
    }
}

//! Hosts as limits and policies compare them.
//!
//! Proxies, frameworks and name servers disagree about authorities that are not plain `host[:port]`:
//! which of two colons ends the name, whether user information or a second dot at the end counts.
//! Such an authority has no host here. A policy rejects it, and a limit on hosts applies to it.

use std::net::Ipv6Addr;

/// The longest name of a host, in bytes, without a dot at its end (RFC 1035, section 2.3.4).
pub const HOST_BYTES_MAX: usize = 253;

/// The digits of a port.
const PORT_DIGITS_MAX: usize = 5;

/// The host of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or an address in one form: lower case, without port and without a dot at the end. An
    /// address of IPv6 is in brackets and in the form of RFC 5952. Empty if the request has no authority.
    Name(Vec<u8>),
    /// An authority in which two readers may find two hosts.
    Ambiguous,
}

impl Host {
    /// The host of an authority, such as the value of `:authority` or `host`.
    ///
    /// Plain are a name of letters, digits, `-`, `_` and single dots, with or without one dot at its
    /// end, and an address of IPv6 in brackets; both with or without `:` and a port up to 65535.
    /// Everything else is [`Host::Ambiguous`]. Looks at [`HOST_BYTES_MAX`] bytes and a few more.
    #[must_use]
    pub fn of(authority: &[u8]) -> Self {
        if authority.is_empty() {
            return Self::Name(Vec::new());
        }
        // A dot, a colon and a port may follow the longest name.
        if authority.len() > HOST_BYTES_MAX + 2 + PORT_DIGITS_MAX {
            return Self::Ambiguous;
        }
        let found = match authority.strip_prefix(b"[") {
            Some(rest) => address(rest),
            None => name(authority),
        };
        found.map_or(Self::Ambiguous, Self::Name)
    }

    /// The name, unless it is ambiguous.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        match self {
            Self::Name(name) => Some(name),
            Self::Ambiguous => None,
        }
    }
}

fn name(authority: &[u8]) -> Option<Vec<u8>> {
    let end = authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len());
    let (name, port) = authority.split_at_checked(end)?;
    let name = name.strip_suffix(b".").unwrap_or(name);
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &[u8]| !label.is_empty() && label.iter().all(plain);
    let fits = name.len() <= HOST_BYTES_MAX && name.split(|byte| *byte == b'.').all(is_label);
    (fits && is_port(port)).then(|| name.to_ascii_lowercase())
}

/// The address whose opening bracket has been read.
fn address(rest: &[u8]) -> Option<Vec<u8>> {
    let end = rest.iter().position(|byte| *byte == b']')?;
    let (address, rest) = rest.split_at_checked(end)?;
    let address: Ipv6Addr = str::from_utf8(address).ok()?.parse().ok()?;
    is_port(rest.get(1..)?).then(|| format!("[{address}]").into_bytes())
}

/// Whether this is what may follow a host: nothing, or a colon and a port, which may be empty (RFC 3986,
/// section 3.2.3).
fn is_port(rest: &[u8]) -> bool {
    let Some(digits) = rest.strip_prefix(b":") else { return rest.is_empty() };
    let text = str::from_utf8(digits).unwrap_or("-");
    digits.iter().all(u8::is_ascii_digit)
        && digits.len() <= PORT_DIGITS_MAX
        && (text.is_empty() || text.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_authorities_have_one_host() {
        for (given, expected) in [
            ("Shop.Example", "shop.example"),
            ("shop.example:8443", "shop.example"),
            ("shop.example:", "shop.example"),
            ("shop.example:65535", "shop.example"),
            ("shop.example.", "shop.example"),
            ("shop.example.:443", "shop.example"),
            ("my_app", "my_app"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("[2001:DB8:0:0::1]:443", "[2001:db8::1]"),
            ("", ""),
        ] {
            let expected = Host::Name(expected.as_bytes().to_vec());
            assert_eq!(Host::of(given.as_bytes()), expected, "{given}");
        }
    }

    #[test]
    fn all_others_are_ambiguous() {
        let long_label = format!("{}.example", "a".repeat(HOST_BYTES_MAX));
        let long = "x".repeat(60 << 10);
        for given in [
            "shop.example..",
            ".shop.example",
            "shop..example",
            ".",
            ":",
            ":80",
            "x@shop.example",
            "shop.example:80:80",
            "shop.example:80.",
            "shop.example:+80",
            "shop.example:65536",
            "shop.example:000080",
            "shop.example:80a",
            "[shop.example]",
            "[192.0.2.1]",
            "[::1].",
            "[::1]x",
            "[::1",
            "[::1%25eth0]",
            "::1",
            "[]",
            "shop.example,other.example",
            "shop.example other.example",
            " shop.example",
            "shop.example/",
            "shop.example?",
            "shop.example#",
            "shop%2eexample",
            "shop\\.example",
            "*",
            "sh\u{f6}p.example",
            "shop\u{ff0e}example",
            &long_label,
            &long,
        ] {
            assert_eq!(Host::of(given.as_bytes()), Host::Ambiguous, "{given}");
        }
    }

    #[test]
    fn the_longest_name() {
        let name = [["a"; 126].join("."), "a".to_owned()].join("");
        for (bytes, fits) in [(HOST_BYTES_MAX, true), (HOST_BYTES_MAX + 1, false)] {
            let mut name = name.clone();
            name.extend(std::iter::repeat_n('b', bytes - name.len()));
            for rest in ["", ".", ".:65535"] {
                let found = Host::of(format!("{name}{rest}").as_bytes());
                assert_eq!(found.name().is_some(), fits, "{bytes} bytes and {rest:?}");
            }
        }
    }
}

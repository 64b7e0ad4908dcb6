//! `Sec-WebSocket-Extensions` (RFC 6455, 9.1): what both ends may agree on, so that messages can be inspected.
//!
//! Of what a client offers only permessage-deflate goes on, with `server_no_context_takeover` and
//! `client_no_context_takeover` (RFC 7692, 7.1.1): every message is then compressed by itself, and nobody has to hold a
//! window between messages. A server that accepts an offer with the first of them has to comply; the second is added to
//! what it accepts, which binds the client and leaves the server free to reset its window or not.

use crate::request::Header;

/// The name of the header.
pub(crate) const NAME: &str = "sec-websocket-extensions";

/// Offers that go on. Clients send one or two.
const OFFERS_MAX: usize = 4;

const DEFLATE: &str = "permessage-deflate";
const SERVER_RESETS: &str = "server_no_context_takeover";
const CLIENT_RESETS: &str = "client_no_context_takeover";
const SERVER_WINDOW: &str = "server_max_window_bits";
const CLIENT_WINDOW: &str = "client_max_window_bits";

/// What has to happen to the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderChange {
    /// It stays as it is.
    Keep,
    /// It is removed, each time it is there.
    Remove,
    /// Its value becomes this, once.
    Set(String),
}

/// An offer or an acceptance of permessage-deflate.
#[derive(Debug, Default)]
struct Deflate<'v> {
    server_resets: bool,
    client_resets: bool,
    server_window: Option<&'v str>,
    /// `Some("")` where the client says that it knows the parameter.
    client_window: Option<&'v str>,
}

/// What goes on of a client's offers; [`HeaderChange::Remove`] if nothing can be inspected.
pub(crate) fn offer(headers: &[Header<'_>]) -> HeaderChange {
    let values = values(headers);
    if values.is_empty() {
        return HeaderChange::Keep;
    }
    let offers = extensions(&values).filter_map(|text| Deflate::read(text, false));
    let offers: Vec<String> = offers
        .take(OFFERS_MAX)
        .map(|offer| Deflate { server_resets: true, client_resets: true, ..offer }.text())
        .collect();
    if offers.is_empty() { HeaderChange::Remove } else { HeaderChange::Set(offers.join(", ")) }
}

/// Whether messages may be compressed by what a server has accepted, and what the client is to see of it; `None` if the
/// server has accepted what was not offered. `offered` says whether [`offer`] let something go on.
pub(crate) fn accept(headers: &[Header<'_>], offered: bool) -> Option<(bool, HeaderChange)> {
    let values = values(headers);
    let mut accepted = extensions(&values);
    let Some(text) = accepted.next() else { return Some((false, HeaderChange::Keep)) };
    let deflate = Deflate::read(text, true)?;
    if accepted.next().is_some() || !offered || !deflate.server_resets {
        return None;
    }
    let change = HeaderChange::Set(Deflate { client_resets: true, ..deflate }.text());
    Some((true, change))
}

/// The values of the header; one that is no text is the empty extension, which nobody knows.
fn values<'h>(headers: &[Header<'h>]) -> Vec<&'h str> {
    let named = headers.iter().filter(|it| it.name.eq_ignore_ascii_case(NAME.as_bytes()));
    named.map(|header| core::str::from_utf8(header.value).unwrap_or(";")).collect()
}

/// The extensions in a list. A comma within quotation marks is none in a value that is accepted here.
fn extensions<'v>(values: &[&'v str]) -> impl Iterator<Item = &'v str> {
    let list = values.iter().flat_map(|value| value.split(','));
    list.map(str::trim).filter(|text| !text.is_empty())
}

impl<'v> Deflate<'v> {
    /// Reads an extension; `None` for any other, and for parameters that are unknown, repeated or malformed.
    fn read(text: &'v str, is_accepted: bool) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(DEFLATE) {
            return None;
        }
        let mut deflate = Self::default();
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim_end(), Some(unquoted(value.trim_start()))),
                None => (part, None),
            };
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let bits = value.filter(|bits| is_window(bits));
            match value {
                None if is(SERVER_RESETS) && !deflate.server_resets => deflate.server_resets = true,
                None if is(CLIENT_RESETS) && !deflate.client_resets => deflate.client_resets = true,
                None if is(CLIENT_WINDOW) && deflate.client_window.is_none() && !is_accepted => {
                    deflate.client_window = Some("");
                }
                Some(_) if is(CLIENT_WINDOW) && deflate.client_window.is_none() => {
                    deflate.client_window = Some(bits?);
                }
                Some(_) if is(SERVER_WINDOW) && deflate.server_window.is_none() => {
                    deflate.server_window = Some(bits?);
                }
                _ => return None,
            }
        }
        Some(deflate)
    }

    fn text(&self) -> String {
        let mut text = DEFLATE.to_owned();
        for (has, name) in
            [(self.server_resets, SERVER_RESETS), (self.client_resets, CLIENT_RESETS)]
        {
            if has {
                text += "; ";
                text += name;
            }
        }
        for (window, name) in
            [(self.server_window, SERVER_WINDOW), (self.client_window, CLIENT_WINDOW)]
        {
            match window {
                Some("") => text += &format!("; {name}"),
                Some(bits) => text += &format!("; {name}={bits}"),
                None => {}
            }
        }
        text
    }
}

fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

/// A size of a window: 8 to 15, without leading zeros.
fn is_window(bits: &str) -> bool {
    matches!(bits, "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers<'v>(values: &[&'v str]) -> Vec<Header<'v>> {
        let header =
            |value: &&'v str| Header { name: b"Sec-WebSocket-Extensions", value: value.as_bytes() };
        values.iter().map(header).collect()
    }

    #[test]
    fn offers_that_go_on() {
        let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        let known = format!("{both}; client_max_window_bits");
        for (values, expected) in [
            (&[][..], HeaderChange::Keep),
            (&[""], HeaderChange::Remove),
            (&["permessage-deflate"], HeaderChange::Set(both.to_owned())),
            (&[both], HeaderChange::Set(both.to_owned())),
            (&["permessage-deflate; client_max_window_bits"], HeaderChange::Set(known)),
            (
                &["permessage-deflate; server_max_window_bits=\"10\"; client_max_window_bits, x"],
                HeaderChange::Set(format!(
                    "{both}; server_max_window_bits=10; client_max_window_bits"
                )),
            ),
            (&["x-webkit-deflate-frame"], HeaderChange::Remove),
            (&["permessage-bzip2, foo; a=\"b, c\""], HeaderChange::Remove),
            (
                &["foo", "Permessage-Deflate", "permessage-deflate;server_max_window_bits=8"],
                HeaderChange::Set(format!("{both}, {both}; server_max_window_bits=8")),
            ),
            (&["permessage-deflate; server_max_window_bits=16"], HeaderChange::Remove),
            (&["permessage-deflate; server_max_window_bits"], HeaderChange::Remove),
            (&["permessage-deflate; unknown"], HeaderChange::Remove),
            (
                &["permessage-deflate; client_max_window_bits; client_max_window_bits=9"],
                HeaderChange::Remove,
            ),
        ] {
            assert_eq!(offer(&headers(values)), expected, "{values:?}");
        }
        let many = vec!["permessage-deflate"; OFFERS_MAX + 1];
        let HeaderChange::Set(value) = offer(&headers(&many)) else { panic!() };
        assert_eq!(value.split(',').count(), OFFERS_MAX);
        let no_text = [Header { name: NAME.as_bytes(), value: b"\xff" }];
        assert_eq!(offer(&no_text), HeaderChange::Remove);
    }

    #[test]
    fn acceptances() {
        let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        let server = "permessage-deflate; server_no_context_takeover";
        for (values, offered, expected) in [
            (&[][..], true, Some((false, HeaderChange::Keep))),
            (&[both], true, Some((true, HeaderChange::Set(both.to_owned())))),
            (&[server], true, Some((true, HeaderChange::Set(both.to_owned())))),
            (
                &["permessage-deflate; server_no_context_takeover; client_max_window_bits=12"],
                true,
                Some((true, HeaderChange::Set(format!("{both}; client_max_window_bits=12")))),
            ),
            // The server holds on to its window.
            (&["permessage-deflate"], true, None),
            (&["permessage-deflate; client_no_context_takeover"], true, None),
            (&[both], false, None),
            (&[both, "x-other"], true, None),
            (&["x-other"], true, None),
            (
                &["permessage-deflate; server_no_context_takeover; client_max_window_bits"],
                true,
                None,
            ),
        ] {
            assert_eq!(accept(&headers(values), offered), expected, "{values:?}");
        }
        let no_text = [Header { name: NAME.as_bytes(), value: b"\xff" }];
        assert_eq!(accept(&no_text, true), None);
    }
}

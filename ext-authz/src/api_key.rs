//! API keys: whose they are, and what they allow. Keys themselves are nowhere kept, only hashes of them.

use std::collections::HashMap;

use glacis_inspector::{Header, cookies};
use ring::{digest, hmac, rand::SecureRandom as _};
use subtle::ConstantTimeEq as _;

/// Bytes of a key that is looked at; a longer one is nobody's.
pub(crate) const KEY_BYTES_MAX: usize = 512;

/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// Random bytes of a key that we make.
const NEW_KEY_BYTES: usize = 32;

/// What a key that we make begins with, so that scanners for secrets can find it.
const NEW_KEY_PREFIX: &str = "glacis_";

/// How keys are hashed: with SHA-256, or keyed with a secret of the operator's (HMAC-SHA-256), so that a
/// configuration that is lost does not even allow to test guesses.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyHash {
    pepper: Option<hmac::Key>,
}

impl KeyHash {
    /// With this secret, if there is one.
    pub(crate) fn new(pepper: Option<&[u8]>) -> Self {
        Self { pepper: pepper.map(|pepper| hmac::Key::new(hmac::HMAC_SHA256, pepper)) }
    }

    /// What hashes of this kind begin with in a configuration.
    const fn prefix(&self) -> &'static str {
        if self.pepper.is_some() { "hmac-sha256:" } else { "sha256:" }
    }

    fn of(&self, key: &[u8]) -> [u8; HASH_BYTES] {
        let mut hash = [0; HASH_BYTES];
        match &self.pepper {
            Some(pepper) => hash.copy_from_slice(hmac::sign(pepper, key).as_ref()),
            None => hash.copy_from_slice(digest::digest(&digest::SHA256, key).as_ref()),
        }
        hash
    }

    /// A key's hash as it is written in a configuration.
    pub(crate) fn text(&self, key: &[u8]) -> String {
        let hash = self.of(key);
        let digits = hash.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digits = digits.map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0'));
        self.prefix().chars().chain(digits).collect()
    }

    /// Reads what [`Self::text`] writes.
    pub(crate) fn parse(&self, text: &str) -> Result<[u8; HASH_BYTES], String> {
        let wrong = || {
            let prefix = self.prefix();
            format!(
                "this is no hash: write what `glacis-ext-authz hash-key` says, {prefix} and 64 hexadecimal digits"
            )
        };
        let digits = text.strip_prefix(self.prefix()).ok_or_else(wrong)?;
        let mut hash = [0; HASH_BYTES];
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        if pairs.len() != HASH_BYTES || !rest.is_empty() {
            return Err(wrong());
        }
        for (byte, pair) in hash.iter_mut().zip(pairs) {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let both = digit(pair[0]).zip(digit(pair[1])).ok_or_else(wrong)?;
            *byte = u8::try_from(both.0 << 4 | both.1).map_err(|_| wrong())?;
        }
        Ok(hash)
    }
}

/// A new key, of 256 random bits.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn new_key() -> Result<String, &'static str> {
    let mut bytes = [0; NEW_KEY_BYTES];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "the system gives no random numbers")?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.map(|digit| char::from_digit(digit.into(), 16).unwrap_or('0'));
    Ok(NEW_KEY_PREFIX.chars().chain(digits).collect())
}

/// Where a key is looked for in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A header, perhaps behind a word (`Bearer`).
    Header { name: String, scheme: Option<String> },
    /// A parameter of the query.
    Query(String),
    /// A cookie.
    Cookie(String),
}

/// A key of a client.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) hash: [u8; HASH_BYTES],
    /// The first and the last second since 1970 in which it holds.
    pub(crate) not_before: u64,
    pub(crate) not_after: u64,
    /// The place of its client.
    pub(crate) client: usize,
}

/// Who has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) scopes: Vec<String>,
}

/// What is known of the key of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'k> {
    /// There is none.
    Nothing,
    /// There is one, and it is nobody's, or not of this time.
    Wrong,
    /// A parameter has the name of a place in another spelling (`%6bey`): Envoy would not remove it.
    Ambiguous,
    /// Whose it is, and where in the list of clients.
    Client(&'k Client, usize),
}

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    places: Vec<Place>,
    hash: KeyHash,
    clients: Vec<Client>,
    /// By the first half of their hashes. What the time of a look-up tells of a hash is of no use to somebody who
    /// would have to find a key for it; the rest is compared in constant time.
    keys: HashMap<[u8; 16], Vec<Key>>,
}

impl Keys {
    pub(crate) fn new(
        places: Vec<Place>,
        hash: KeyHash,
        clients: Vec<Client>,
        keys: Vec<Key>,
    ) -> Self {
        let mut by_half: HashMap<[u8; 16], Vec<Key>> = HashMap::new();
        for key in keys {
            by_half.entry(half(&key.hash)).or_default().push(key);
        }
        Self { places, hash, clients, keys: by_half }
    }

    /// Whose key a request has. The first place in which there is something decides. A name in another spelling makes
    /// the request ambiguous, whichever place comes first.
    pub(crate) fn find(&self, headers: &[Header<'_>], query: &[u8], now_seconds: u64) -> Found<'_> {
        if self.places.iter().any(|place| place.is_ambiguous(query)) {
            return Found::Ambiguous;
        }
        let mut given = self.places.iter().filter_map(|place| place.read(headers, query));
        match given.next() {
            None => Found::Nothing,
            Some(Given::One(key)) => self.whose(&key, now_seconds),
            Some(Given::Several) => Found::Wrong,
        }
    }

    fn whose(&self, key: &[u8], now_seconds: u64) -> Found<'_> {
        if key.len() > KEY_BYTES_MAX {
            return Found::Wrong;
        }
        let hash = self.hash.of(key);
        let mut holding = self
            .of_hash(&hash)
            .filter(|key| (key.not_before..=key.not_after).contains(&now_seconds));
        let client = holding.next().map(|key| key.client);
        let found = client.and_then(|index| Some(Found::Client(self.clients.get(index)?, index)));
        found.unwrap_or(Found::Wrong)
    }

    fn of_hash(&self, hash: &[u8; HASH_BYTES]) -> impl Iterator<Item = &Key> {
        let candidates = self.keys.get(&half(hash)).map(Vec::as_slice).unwrap_or_default();
        candidates.iter().filter(move |key| bool::from(key.hash.ct_eq(hash)))
    }

    /// The places in which a request has a key of somebody's, of whatever time: what is not to reach the upstream.
    /// What else stands in a place is not ours, such as the upstream's own token.
    pub(crate) fn held(&self, headers: &[Header<'_>], query: &[u8]) -> Vec<&Place> {
        let is_known = |key: &Vec<u8>| {
            key.len() <= KEY_BYTES_MAX && self.of_hash(&self.hash.of(key)).next().is_some()
        };
        let holds = |place: &&Place| place.values(headers, query).iter().any(is_known);
        self.places.iter().filter(holds).collect()
    }

    /// The places.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }
}

fn half(hash: &[u8; HASH_BYTES]) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(hash).for_each(|(to, from)| *to = *from);
    half
}

/// What stands in a place.
enum Given {
    One(Vec<u8>),
    /// Several different ones: nobody can say which is meant.
    Several,
}

impl Place {
    fn read(&self, headers: &[Header<'_>], query: &[u8]) -> Option<Given> {
        let mut found = self.values(headers, query);
        found.dedup();
        match found.len() {
            0 => None,
            1 => found.pop().map(Given::One),
            _ => Some(Given::Several),
        }
    }

    /// All that stands in it.
    fn values(&self, headers: &[Header<'_>], query: &[u8]) -> Vec<Vec<u8>> {
        let mut found: Vec<Vec<u8>> = match self {
            Self::Header { name, scheme } => {
                let named =
                    |header: &&Header<'_>| header.name.eq_ignore_ascii_case(name.as_bytes());
                let values = headers.iter().filter(named).map(|header| header.value.trim_ascii());
                let of_scheme = values.filter_map(|value| behind(value, scheme.as_deref()));
                of_scheme.map(<[u8]>::to_vec).collect()
            }
            Self::Query(name) => parameters(query, name).flatten().collect(),
            Self::Cookie(name) => cookies(headers)
                .filter(|(key, _)| *key == name.as_bytes())
                .map(|(_, value)| value.to_vec())
                .collect(),
        };
        found.retain(|key| !key.is_empty());
        found
    }

    /// Whether the query has the name of this place in another spelling.
    fn is_ambiguous(&self, query: &[u8]) -> bool {
        match self {
            Self::Query(name) => parameters(query, name).any(|value| value.is_none()),
            Self::Header { .. } | Self::Cookie(_) => false,
        }
    }
}

/// Whether a parameter of this name has one spelling that needs no escape (RFC 3986, 2.3): only such names can be
/// places of keys.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    !name.is_empty() && name.bytes().all(plain)
}

/// The values of all parameters that the upstream may read under this name; `None` for one whose name is spelled
/// otherwise than in the configuration (`%6bey` for `key`).
///
/// Lookup and removal both use this function. Envoy compares names as they were sent when it removes parameters, so
/// that a value counts only under a name that Envoy finds as well.
fn parameters<'q>(query: &'q [u8], name: &'q str) -> impl Iterator<Item = Option<Vec<u8>>> {
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let (decoded, value) = form_urlencoded::parse(pair).next()?;
        if decoded != name {
            return None;
        }
        let sent = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        Some((sent == name.as_bytes()).then(|| value.into_owned().into_bytes()))
    })
}

/// What follows the word `scheme` (RFC 9110, 11.4), in any case.
fn behind<'v>(value: &'v [u8], scheme: Option<&str>) -> Option<&'v [u8]> {
    let Some(scheme) = scheme else { return Some(value) };
    let (word, rest) = value.split_at_checked(scheme.len())?;
    let fits = word.eq_ignore_ascii_case(scheme.as_bytes()) && rest.first() == Some(&b' ');
    fits.then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers<'a>(pairs: &'a [(&'a str, &'a str)]) -> Vec<Header<'a>> {
        let header = |(name, value): &(&'a str, &'a str)| Header {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        pairs.iter().map(header).collect()
    }

    fn keys(pepper: Option<&[u8]>) -> Keys {
        let hash = KeyHash::new(pepper);
        let places = vec![
            Place::Header { name: "x-api-key".to_owned(), scheme: None },
            Place::Header { name: "authorization".to_owned(), scheme: Some("Bearer".to_owned()) },
            Place::Query("key".to_owned()),
            Place::Cookie("key".to_owned()),
        ];
        let client = |name: &str| Client { name: name.to_owned(), scopes: Vec::new() };
        let key = |text: &str, client, not_before, not_after| {
            let hash = hash.parse(&hash.text(text.as_bytes())).unwrap();
            Key { hash, not_before, not_after, client }
        };
        let all =
            vec![key("old", 0, 0, 100), key("new", 0, 50, u64::MAX), key("other", 1, 0, u64::MAX)];
        Keys::new(places, hash, vec![client("acme"), client("shop")], all)
    }

    #[test]
    fn whose_a_key_is() {
        for pepper in [None, Some(&b"pepper"[..])] {
            let keys = keys(pepper);
            for (given, query, now, expected) in [
                (&[("x-api-key", "old")][..], "", 10, Some("acme")),
                (&[("x-api-key", "new")], "", 10, None),
                // While both hold a client can go from one to the other.
                (&[("x-api-key", "old")], "", 60, Some("acme")),
                (&[("x-api-key", "new")], "", 60, Some("acme")),
                (&[("x-api-key", "old")], "", 101, None),
                (&[("X-API-Key", " new ")], "", 101, Some("acme")),
                (&[("authorization", "bearer other")], "", 1, Some("shop")),
                (&[("authorization", "Bearerother")], "", 1, Some("nothing")),
                (&[("authorization", "Basic other")], "", 1, Some("nothing")),
                (&[], "a=b&key=o%74her", 1, Some("shop")),
                (&[("cookie", "a=b; key=other")], "", 1, Some("shop")),
                // The first place decides, also where the key in it is wrong.
                (&[("x-api-key", "x"), ("cookie", "key=other")], "key=other", 1, None),
                (&[("x-api-key", "other"), ("x-api-key", "old")], "", 1, None),
                (&[("x-api-key", "other"), ("x-api-key", "other")], "", 1, Some("shop")),
                (&[("x-api-key", "")], "", 1, Some("nothing")),
                // Several places: the first decides, whoever has the keys in the others.
                (&[("x-api-key", "old"), ("cookie", "key=other")], "", 1, Some("acme")),
                (&[("x-api-key", "other"), ("cookie", "key=old")], "key=old", 1, Some("shop")),
                (&[("authorization", "Bearer other")], "key=old", 1, Some("shop")),
                (&[], "key=other&key=other", 1, Some("shop")),
                (&[], "key=other&key=old", 1, None),
                (&[], "key=&key=other", 1, Some("shop")),
                // Envoy removes parameters by the name as it was sent.
                (&[], "%6bey=other", 1, Some("ambiguous")),
                (&[], "k%65y=other", 1, Some("ambiguous")),
                (&[], "%6B%65%79=other", 1, Some("ambiguous")),
                (&[], "key=other&ke%79=other", 1, Some("ambiguous")),
                (&[], "ke%79=x&key=other", 1, Some("ambiguous")),
                (&[], "%6bey", 1, Some("ambiguous")),
                (&[("x-api-key", "other")], "%6bey=old", 1, Some("ambiguous")),
                // Other names: decoded once, by the upstream as well.
                (&[], "%256bey=other", 1, Some("nothing")),
                (&[], "k+ey=other&+key=other&key+=other&KEY=other", 1, Some("nothing")),
                (&[], "a=b;key=other", 1, Some("nothing")),
                (&[], "%zzkey=other&%6key=other", 1, Some("nothing")),
                (&[("x-api-key", &*"a".repeat(513))], "", 1, None),
            ] {
                let found = match keys.find(&headers(given), query.as_bytes(), now) {
                    Found::Nothing => Some("nothing"),
                    Found::Ambiguous => Some("ambiguous"),
                    Found::Wrong => None,
                    Found::Client(client, _) => Some(client.name.as_str()),
                };
                assert_eq!(found, expected, "{given:?} {query} {now}");
            }
        }
    }

    #[test]
    fn hashes_as_they_are_written() {
        let plain = KeyHash::new(None);
        // SHA-256 of "abc" (FIPS 180-2), and test case 2 of RFC 4231 for HMAC.
        assert_eq!(
            plain.text(b"abc"),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let keyed = KeyHash::new(Some(b"Jefe"));
        assert_eq!(
            keyed.text(b"what do ya want for nothing?"),
            "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        for wrong in
            ["", "abc", "sha256:", "sha256:zz", &plain.text(b"a").to_uppercase(), &keyed.text(b"a")]
        {
            assert!(plain.parse(wrong).unwrap_err().contains("hash-key"), "{wrong}");
        }
        let (one, other) = (new_key().unwrap(), new_key().unwrap());
        assert!(one != other && one.len() == NEW_KEY_PREFIX.len() + 64, "{one} {other}");
    }
}

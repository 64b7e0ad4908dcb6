//! What is known of a request: asked of the host when a check wants it, and not twice.

use crate::rate_limit::{Absent, Applies, KeyPart, RateLimit};
use crate::seed::Seed;
use glacis_limits::authority::Host;
use glacis_limits::cidr::network_of;
use glacis_limits::field::{self, Cookies, ELEMENTS_MAX, Given};
use glacis_limits::geo::Country;
use glacis_limits::keyed_hash::sip_hash_24;
use glacis_limits::lease;
use glacis_limits::patch::Head;
use glacis_limits::path::{NormalPath, Template, is_ambiguous};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;
use std::net::IpAddr;

/// The longest path that limits compare, in bytes; they apply to a longer one, whichever it is.
pub(crate) const PATH_BYTES_MAX: usize = 8 << 10;

/// What is one client, unless a limit says otherwise: an address of IPv4, and what a customer has at least of IPv6.
const IPV4_CLIENT: u8 = 32;
const IPV6_CLIENT: u8 = 64;

mod patched;

pub(crate) use patched::Patched;

/// The head of a request, at its host.
pub trait Request {
    /// The first header field of this name, or a pseudo-header such as `:path`.
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>>;

    /// The values of all header fields of this name, for which the host has to be asked for the whole head.
    fn headers(&self, name: &str) -> Vec<Vec<u8>>;

    /// The values of all header fields whose names are this one to some server; see [`field::is_same_name`].
    fn headers_like(&self, name: &str) -> Vec<Vec<u8>>;

    /// Says that many fields will be looked at, so that a host may fetch all at once from now on.
    fn expect_many_fields(&self) {}

    /// Dynamic metadata: the name of the filter that has set it, then the keys.
    fn metadata(&self, keys: &[String]) -> Option<Vec<u8>>;

    /// A text in filter state, which only filters set.
    fn filter_state(&self, name: &str) -> Option<Vec<u8>>;
}

/// A request and what has been worked out about it.
pub struct Facts<'a> {
    request: &'a dyn Request,
    /// The client's address, with a mapped IPv4 address unmapped.
    pub(crate) client: Option<IpAddr>,
    /// What lists say of it.
    pub(crate) tags: Vec<String>,
    /// Where it is; unknown as long as nobody has said so.
    pub(crate) country: Country,
    /// Its autonomous system; 0 as long as nobody has said so.
    pub(crate) asn: u32,
    /// How unlike a browser it is; 0 as long as nobody has looked.
    pub(crate) bot_score: u8,
    /// Whether a body, or the end of the request, is still to come.
    pub(crate) awaits_body: bool,
    target: OnceCell<Vec<u8>>,
    path: OnceCell<Option<NormalPath>>,
    host: OnceCell<Host>,
    method: OnceCell<Vec<u8>>,
    cookies: OnceCell<Cookies>,
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("client", &self.client).finish_non_exhaustive()
    }
}

/// What a limit counts a request under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    Of(u64),
    /// The limit does not apply to this request.
    Skip,
    /// It would be counted by its address, and has none.
    NoAddress,
}

/// The same, before it is hashed.
enum Identity {
    Of(Vec<u8>),
    Skip,
    NoAddress,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(request: &'a dyn Request, client: Option<IpAddr>) -> Self {
        let (target, path, host, method, cookies) = Default::default();
        Self {
            request,
            client,
            tags: Vec::new(),
            country: Country::UNKNOWN,
            asn: 0,
            bot_score: 0,
            awaits_body: false,
            target,
            path,
            host,
            method,
            cookies,
        }
    }

    /// The country that header fields name; unknown if they name none, or several.
    pub(crate) fn country_of_header(&self, name: &str) -> Country {
        self.origin_of_header(name, Country::parse).unwrap_or(Country::UNKNOWN)
    }

    /// The autonomous system that header fields name, as `64496` or `AS64496`; 0 if they name none, or several.
    pub(crate) fn asn_of_header(&self, name: &str) -> u32 {
        let parse = |text: &str| text.strip_prefix("AS").unwrap_or(text).parse().ok();
        self.origin_of_header(name, parse).unwrap_or(0)
    }

    /// What all fields of a name and all elements of each say, if they say one thing.
    fn origin_of_header<T: PartialEq>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let fields = self.request.headers(name);
        let elements = fields.iter().flat_map(|field| field.split(|byte| *byte == b','));
        let parsed = |element: &[u8]| parse(str::from_utf8(element.trim_ascii()).ok()?);
        // So many are not what a filter writes down.
        let mut elements = elements.take(ELEMENTS_MAX + 1).map(parsed).enumerate();
        let (_, first) = elements.next()?;
        let first = first?;
        let is_first = |(place, other): (usize, Option<T>)| {
            place < ELEMENTS_MAX && other.as_ref() == Some(&first)
        };
        elements.all(is_first).then_some(first)
    }

    /// Says that many fields will be looked at.
    pub(crate) fn expect_many_fields(&self) {
        self.request.expect_many_fields();
    }

    /// The first header field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        self.request.header(name)
    }

    /// A text that another filter has left.
    pub(crate) fn filter_state(&self, name: &str) -> Option<Vec<u8>> {
        self.request.filter_state(name)
    }

    /// Path and query, as they were sent.
    fn target(&self) -> &[u8] {
        let read = || self.request.header(":path").unwrap_or_default().into_owned();
        self.target.get_or_init(read)
    }

    /// Whether the path is one of a template. One that is too long to be compared is, whatever the template.
    fn is_path(&self, template: &Template) -> bool {
        let read = || {
            let target = self.target();
            let bytes = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
            (bytes <= PATH_BYTES_MAX).then(|| NormalPath::new(target))
        };
        self.path.get_or_init(read).as_ref().is_none_or(|path| template.matches(path))
    }

    fn host(&self) -> &Host {
        let read = || Host::of(&self.request.header(":authority").unwrap_or_default());
        self.host.get_or_init(read)
    }

    /// The method, in upper case.
    pub(crate) fn method(&self) -> &[u8] {
        let read = || self.request.header(":method").unwrap_or_default().to_ascii_uppercase();
        self.method.get_or_init(read)
    }

    /// Whether something is for requests like this.
    pub(crate) fn fits(&self, applies: &Applies) -> bool {
        (applies.methods.is_empty() || applies.methods.iter().any(|known| known == self.method()))
            && (applies.hosts.is_empty() || is_one_of(&applies.hosts, self.host()))
            && (applies.paths.is_empty()
                || applies.paths.iter().any(|template| self.is_path(template)))
            && (applies.countries.is_empty() || applies.countries.contains(&self.country))
            && (applies.asns.is_empty() || applies.asns.contains(&self.asn))
            && (applies.tags.is_empty() || applies.tags.iter().any(|tag| self.tags.contains(tag)))
    }

    /// Whether something is for requests like this alone: not if the host or the path could mean another one. For
    /// what takes requests out of a check, while `fits` is for what adds one.
    pub fn fits_plainly(&self, applies: &Applies) -> bool {
        let is_long = || self.target().len() > PATH_BYTES_MAX;
        let unclear_host = !applies.hosts.is_empty() && *self.host() == Host::Ambiguous;
        let unclear_path = !applies.paths.is_empty() && (is_long() || is_ambiguous(self.target()));
        !unclear_host && !unclear_path && self.fits(applies)
    }

    /// A keyed hash of what the limit tells clients apart by.
    pub(crate) fn fingerprint(&self, limit: &RateLimit, seed: Seed) -> Fingerprint {
        match self.identity(limit) {
            Identity::Of(bytes) => Fingerprint::Of(sip_hash_24(seed, &bytes)),
            Identity::Skip => Fingerprint::Skip,
            Identity::NoAddress => Fingerprint::NoAddress,
        }
    }

    /// The same as a lender and all its borrowers know it. It costs a few times as much, and is
    /// wanted only when the lender is to be asked.
    pub(crate) fn lease_key(&self, limit: &RateLimit) -> Option<lease::Key> {
        let Identity::Of(bytes) = self.identity(limit) else { return None };
        Sha256::digest(bytes).first_chunk().copied()
    }

    /// What the limit tells clients apart by.
    ///
    /// Each part is written with its place, its kind and its length before it, so that no two
    /// requests with different parts are written alike.
    fn identity(&self, limit: &RateLimit) -> Identity {
        let mut bytes = Vec::with_capacity(64);
        for part in &limit.key {
            let (kind, value) = match (self.part(part, limit), absent(part)) {
                (Given::One(value), _) => (b'=', value),
                (Given::Nothing | Given::Several, Absent::Shared) => (b'-', Vec::new()),
                (Given::Nothing, Absent::Skip) => return Identity::Skip,
                // With `skip`, too: to send a field twice must not be a way around the limit.
                (Given::Nothing, Absent::Address) | (Given::Several, _) => {
                    match self.network(limit) {
                        Some(network) => (b'@', network),
                        None => return Identity::NoAddress,
                    }
                }
            };
            bytes.push(kind);
            bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&value);
        }
        Identity::Of(bytes)
    }

    fn part(&self, part: &KeyPart, limit: &RateLimit) -> Given {
        let value = match part {
            KeyPart::Header(name, _) => return self.header(name),
            KeyPart::Cookie(name, _) => return self.cookies().given(name),
            KeyPart::ClientAddress => self.network(limit),
            // All ambiguous ones share a bucket that no host can have: what is no plain host is no new one.
            KeyPart::Host => Some(self.host().name().unwrap_or(b"?").to_vec()),
            KeyPart::Method => Some(self.method().to_vec()),
            KeyPart::Country => Some(self.country.as_str().as_bytes().to_vec()),
            KeyPart::Path(templates) => {
                let first = templates.iter().position(|template| self.is_path(template));
                Some(first.map_or(u64::MAX, |first| first as u64).to_le_bytes().to_vec())
            }
            KeyPart::Asn => Some(self.asn.to_le_bytes().to_vec()),
            KeyPart::Metadata(keys, _) => self.request.metadata(keys),
        };
        // What is empty is as good as not there, and as cheap to send.
        value.filter(|value| !value.is_empty()).map_or(Given::Nothing, Given::One)
    }

    /// What a request has in all fields of a header.
    fn header(&self, name: &str) -> Given {
        let values = self.request.headers_like(name);
        field::header(name, values.iter().map(Vec::as_slice))
    }

    /// The cookies of all `Cookie` fields, of which HTTP/1 may have several.
    fn cookies(&self) -> &Cookies {
        let read = || {
            let fields = self.request.headers_like("cookie");
            Cookies::read(fields.iter().map(Vec::as_slice))
        };
        self.cookies.get_or_init(read)
    }

    /// A keyed hash of the client: its address of IPv4, or its /64 of IPv6.
    pub(crate) fn client_fingerprint(&self, seed: Seed) -> Option<u64> {
        self.network_of_client(IPV4_CLIENT, IPV6_CLIENT).map(|bytes| sip_hash_24(seed, &bytes))
    }

    fn network(&self, limit: &RateLimit) -> Option<Vec<u8>> {
        self.network_of_client(limit.ipv4_prefix, limit.ipv6_prefix)
    }

    fn network_of_client(&self, ipv4_prefix: u8, ipv6_prefix: u8) -> Option<Vec<u8>> {
        // Four bytes and sixteen: the lengths keep the two kinds apart.
        let prefix = if self.client?.is_ipv4() { ipv4_prefix } else { ipv6_prefix };
        Some(match network_of(self.client?, prefix) {
            IpAddr::V4(network) => network.octets().to_vec(),
            IpAddr::V6(network) => network.octets().to_vec(),
        })
    }
}

impl Head for Facts<'_> {
    fn method(&self) -> Vec<u8> {
        // Patches do not look at its case.
        Self::method(self).to_vec()
    }

    fn target(&self) -> Vec<u8> {
        Self::target(self).to_vec()
    }

    fn headers(&self, name: &str) -> Vec<Vec<u8>> {
        self.request.headers(name)
    }
}

fn absent(part: &KeyPart) -> Absent {
    match part {
        KeyPart::Header(_, absent) | KeyPart::Cookie(_, absent) | KeyPart::Metadata(_, absent) => {
            *absent
        }
        _ => Absent::Address,
    }
}

/// Whether a host is one of these. An ambiguous one may be any of them.
fn is_one_of(hosts: &[Vec<u8>], host: &Host) -> bool {
    host.name().is_none_or(|host| hosts.iter().any(|known| known == host))
}

#[cfg(test)]
pub(crate) mod fake {
    //! The request of the tests: a list of fields, and metadata joined by `/`.

    use super::Request;
    use glacis_limits::field::is_same_name;
    use std::borrow::Cow;

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Fake {
        pub(crate) fields: Vec<(&'static str, &'static str)>,
    }

    impl Request for Fake {
        fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
            let field = self.fields.iter().find(|(field, _)| *field == name);
            field.map(|(_, value)| value.as_bytes().into())
        }

        fn headers(&self, name: &str) -> Vec<Vec<u8>> {
            let fields = self.fields.iter().filter(|(field, _)| *field == name);
            fields.map(|(_, value)| value.as_bytes().to_vec()).collect()
        }

        fn headers_like(&self, name: &str) -> Vec<Vec<u8>> {
            let same = |field: &str| is_same_name(field.as_bytes(), name.as_bytes());
            let fields = self.fields.iter().filter(|(field, _)| same(field));
            fields.map(|(_, value)| value.as_bytes().to_vec()).collect()
        }

        fn metadata(&self, keys: &[String]) -> Option<Vec<u8>> {
            self.header(&keys.join("/")).map(Cow::into_owned)
        }

        fn filter_state(&self, name: &str) -> Option<Vec<u8>> {
            self.header(name).map(Cow::into_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;
    use crate::config::Config;

    /// Where servers may disagree about the host, or the path is too long to be compared, a limit applies.
    #[test]
    fn limits_apply_to_what_is_ambiguous() {
        let config = br#"{"rate_limits": [
            {"name": "host", "requests": 1, "match": {"hosts": ["Shop.example"]}},
            {"name": "path", "requests": 1, "match": {"paths": ["/login", "/internal/**"]}}
        ]}"#;
        let config = Config::parse(config).unwrap();
        let padded = |bytes: usize| format!("/{}/login", "/".repeat(bytes - 7));
        let rows: &[(&str, String, [bool; 2])] = &[
            ("shop.example", "/login".to_owned(), [true, true]),
            ("SHOP.example.:8080", "/logi".to_owned(), [true, false]),
            ("other.example", "/a".to_owned(), [false, false]),
            ("", "/login?a".to_owned(), [false, true]),
            ("shop.example..", "/login%20".to_owned(), [true, true]),
            ("x@shop.example", "/login.".to_owned(), [true, true]),
            ("shop.example:80:80", "/internal./x".to_owned(), [true, true]),
            ("[shop.example]", "/internal%20/x".to_owned(), [true, true]),
            ("other.example:80:80", "/x/..%20/LOGIN;a".to_owned(), [true, true]),
            ("other.example", padded(PATH_BYTES_MAX), [false, true]),
            ("other.example", format!("/{}?b", "a".repeat(PATH_BYTES_MAX - 1)), [false, false]),
            ("other.example", format!("/{}?b", "a".repeat(PATH_BYTES_MAX)), [false, true]),
            ("other.example", format!("/a?{}", "a".repeat(PATH_BYTES_MAX)), [false, false]),
        ];
        for (host, path, expected) in rows {
            let path: &'static str = path.clone().leak();
            let fake = Fake { fields: vec![(":authority", *host), (":path", path)] };
            let facts = Facts::new(&fake, None);
            let applies = |limit: &RateLimit| facts.fits(&limit.applies);
            let found: Vec<_> = config.rate_limits.iter().map(applies).collect();
            assert_eq!(found, expected, "{host} {path:.40}");
            // What takes a request out of a check is not for what is ambiguous.
            let plain = [
                Host::of(host.as_bytes()) != Host::Ambiguous,
                path.len() <= PATH_BYTES_MAX && !is_ambiguous(path.as_bytes()),
            ];
            for ((limit, fits), plain) in config.rate_limits.iter().zip(expected).zip(plain) {
                assert_eq!(facts.fits_plainly(&limit.applies), *fits && plain, "{host} {path:.40}");
            }
        }
    }

    type Fields = &'static [(&'static str, &'static str)];

    /// Which pairs of requests are the same client to a limit with this key.
    #[track_caller]
    fn check(key: &str, rows: &[(Fields, Fields, bool)]) {
        let config = format!(r#"{{"rate_limits": [{{"requests": 1, "key": {key}}}]}}"#);
        let config = Config::parse(config.as_bytes()).unwrap();
        let limit = &config.rate_limits[0];
        let of = |fields: Fields| {
            let address = fields.iter().find(|(name, _)| *name == "address");
            let client = address.map_or("192.0.2.1", |(_, address)| address).parse().ok();
            let fake = Fake { fields: fields.to_vec() };
            Facts::new(&fake, client).fingerprint(limit, [7; 16])
        };
        for (one, other, same) in rows {
            assert_eq!(of(one) == of(other), *same, "{key}: {one:?} {other:?}");
        }
    }

    #[test]
    fn keys() {
        check(
            r#"["client_address"]"#,
            &[(&[], &[("address", "192.0.2.2")], false), (&[], &[("a", "b")], true)],
        );
        check(
            r#"[{"header": "X-Key"}]"#,
            &[
                (&[("x-key", "a")], &[("x-key", "b")], false),
                (&[("x-key", "a")], &[("x-key", "a"), ("address", "192.0.2.2")], true),
                // Who leaves it out is counted by address, and an empty one is none.
                (&[], &[("address", "192.0.2.2")], false),
                (&[], &[("x-key", "")], true),
                // An address as the value is not the address itself.
                (&[], &[("x-key", "\u{0}")], false),
            ],
        );
        check(
            r#"[{"header": "x-key", "absent": "shared"}, {"cookie": "c", "absent": "shared"}]"#,
            &[
                (&[], &[("address", "192.0.2.2")], true),
                (
                    &[("x-key", "ab"), ("cookie", "c=c")],
                    &[("x-key", "a"), ("cookie", "c=bc")],
                    false,
                ),
                (&[("x-key", "a")], &[("cookie", "c=a")], false),
            ],
        );
        check(
            r#"["host", {"path": ["/users/{id}", "/login"]}]"#,
            &[
                (&[(":path", "/users/1")], &[(":path", "/USERS/%32?x")], true),
                (&[(":path", "/users/1")], &[(":path", "/login")], false),
                (&[(":path", "/a")], &[(":path", "/b")], true),
                (&[(":authority", "a.b:1")], &[(":authority", "A.B")], true),
                (&[(":authority", "a.b")], &[(":authority", "a.c")], false),
                (&[(":authority", "a.b:1:1")], &[(":authority", "x@a.b")], true),
                (&[(":authority", "a.b:1:1")], &[(":authority", "a.b")], false),
                (&[(":path", "/login%20")], &[(":path", "/login")], true),
            ],
        );
        check(
            r#"[{"jwt_claim": "sub"}, "method"]"#,
            &[
                (
                    &[("envoy.filters.http.jwt_authn/jwt_payload/sub", "ann")],
                    &[("envoy.filters.http.jwt_authn/jwt_payload/sub", "bob")],
                    false,
                ),
                (&[(":method", "GET")], &[(":method", "get")], true),
                (&[(":method", "GET")], &[(":method", "POST")], false),
            ],
        );
    }

    /// Who sends a field twice is counted by what it says if it says one thing, and by address otherwise.
    #[test]
    fn keys_in_repeated_fields() {
        const ONE: Fields = &[("x-key", "a")];
        const TWO: Fields = &[("x-key", "a"), ("x-key", "b")];
        const TWO_ELSEWHERE: Fields = &[("x-key", "a"), ("x-key", "b"), ("address", "192.0.2.2")];
        check(
            r#"[{"header": "x-key"}]"#,
            &[
                (&[("x-key", "a"), ("x-key", "a")], ONE, true),
                (&[("x-key", ""), ("x-key", "a"), ("x-key", "")], ONE, true),
                (TWO, ONE, false),
                (TWO, &[("x-key", "b")], false),
                (TWO, &[("x-key", "a, b")], true),
                (&[("X_Key", "a")], ONE, true),
                (&[("X_Key", "b"), ("x-key", "a")], TWO, true),
                (&[("x-key", "\"a\"")], ONE, true),
                (TWO, &[("x-key", "c"), ("x-key", "d")], true),
                (TWO, &[], true),
                (TWO, TWO_ELSEWHERE, false),
            ],
        );
        let shared = r#"[{"header": "x-key", "absent": "shared"}]"#;
        check(shared, &[(TWO, TWO_ELSEWHERE, true), (TWO, &[], true), (TWO, ONE, false)]);
        check(
            r#"[{"header": "x-key", "absent": "skip"}]"#,
            &[
                (&[], &[("address", "192.0.2.2")], true),
                // No way around the limit.
                (TWO, &[], false),
                (TWO, &[("x-key", "c"), ("x-key", "d")], true),
                (TWO, TWO_ELSEWHERE, false),
                (&[("x-key", "a"), ("x-key", "b"), ("address", "none")], &[], false),
            ],
        );
        check(
            r#"[{"cookie": "c", "absent": "skip"}]"#,
            &[
                (&[("cookie", "x=1"), ("cookie", "c=a")], &[("cookie", "c=a")], true),
                (&[("cookie", "c=a"), ("cookie", "c=b")], &[("cookie", "c=a; c=b")], true),
                (&[("cookie", "c=a"), ("cookie", "c=b")], &[("cookie", "c=b")], false),
                (&[("cookie", "x=1"), ("cookie", "y=1")], &[], true),
                // Several count by address, whatever they are, and quotes and escapes do not matter.
                (&[("cookie", "c=junk1; c=a")], &[("cookie", "c=junk2; c=a")], true),
                (&[("cookie", "c=junk1; c=a")], &[("cookie", "c=a")], false),
                (&[("cookie", "c=\"a\"; c=%61")], &[("cookie", "c=a")], true),
            ],
        );
        check(
            r#"[{"header": "authorization"}]"#,
            &[
                (&[("authorization", "bEARER  a")], &[("authorization", "Bearer a")], true),
                (&[("authorization", "Basic YTpi====")], &[("authorization", "basic YTpi")], true),
                (
                    &[("authorization", "Bearer a, Bearer b")],
                    &[("authorization", "Bearer a, c")],
                    true,
                ),
                (&[("authorization", "Bearer a")], &[("authorization", "Bearer A")], false),
            ],
        );
    }

    #[test]
    fn without_address() {
        let config = br#"{"rate_limits": [
            {"name": "a", "requests": 1},
            {"name": "b", "requests": 1, "key": [{"header": "x", "absent": "skip"}]},
            {"name": "c", "requests": 1, "key": [{"header": "x"}]}
        ]}"#;
        let config = Config::parse(config).unwrap();
        let fake = Fake::default();
        let facts = Facts::new(&fake, None);
        let of: Vec<_> =
            config.rate_limits.iter().map(|limit| facts.fingerprint(limit, [7; 16])).collect();
        assert_eq!(of, [Fingerprint::NoAddress, Fingerprint::Skip, Fingerprint::NoAddress]);
    }
}

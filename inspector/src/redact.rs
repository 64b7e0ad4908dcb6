//! Masking of secrets before anything is written to a log.
//!
//! What is masked is decided by where a value stood: credentials' headers, all cookies, values whose
//! name looks like a secret's, and values in which secrets stand without a name (whole bodies, XML
//! text). It is not decided by what the value looks like: a password in an argument named `comment`
//! is not recognised.

use std::borrow::Cow;

use glacis_engine::Hidden;

/// What stands in the place of a secret.
pub(crate) const MASK: &str = "[redacted]";

/// Names of secrets: a name that has one of these in it is taken for a secret's, without regard to
/// case, hyphens and underscores.
pub const SECRET_NAMES: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "sessionid",
    "jwt",
    "signature",
    "sessid",
    "creditcard",
    "cardnumber",
];

/// Words of secrets: a name is taken for a secret's if one of its segments is one of these, without regard to case.
/// Segments end at everything that is neither letter nor digit, between letters and digits, and before a capital
/// that begins a word: `otp_2`, `userPin` and `X-CSRF` have a secret's word, `keyboard` and `sign` have none.
pub const SECRET_WORDS: [&str; 20] = [
    "auth", "bearer", "card", "code", "csrf", "cvc", "cvv", "key", "nonce", "otp", "pass", "pin",
    "sess", "session", "sid", "sig", "ssn", "ticket", "totp", "xsrf",
];

/// Headers whose value is a credential, whatever the configured names.
const SECRET_HEADERS: [&str; 5] =
    ["authorization", "proxyauthorization", "cookie", "setcookie", "xforwardedclientcert"];

/// Which values are masked in logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redaction {
    enabled: bool,
    names: Vec<String>,
    words: Vec<String>,
    /// Variables without a name of their own that rules have hidden, in capitals.
    variables: Vec<Vec<u8>>,
    /// Whether rules have hidden everything.
    everything: bool,
}

impl Default for Redaction {
    /// On, with [`SECRET_NAMES`] and [`SECRET_WORDS`].
    fn default() -> Self {
        Self::new(true, SECRET_NAMES, SECRET_WORDS)
    }
}

/// How much of a value may be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exposure {
    /// All of it.
    Open,
    /// All unless it has `name=value` pairs with the name of a secret.
    Pairs,
    /// Nothing.
    Hidden,
}

impl Redaction {
    /// Masking of values whose name contains one of `names`, or has one of `words` as a segment; none at all unless
    /// `enabled`.
    pub fn new<'n>(
        enabled: bool,
        names: impl IntoIterator<Item = &'n str>,
        words: impl IntoIterator<Item = &'n str>,
    ) -> Self {
        let normalized = |name: &str| Some(normal(name.as_bytes())).filter(|name| !name.is_empty());
        let names = names.into_iter().filter_map(normalized).collect();
        let words = words.into_iter().filter_map(normalized).collect();
        Self { enabled, names, words, variables: Vec::new(), everything: false }
    }

    /// This masking, and that of what rules have hidden (`sanitiseArg` and its like). Rules are obeyed
    /// whether or not masking is enabled; where they hide something, all that is masked by default
    /// elsewhere is masked as well.
    pub(crate) fn with(&self, hidden: Hidden<'_>) -> Cow<'_, Self> {
        if hidden.variables.is_empty() && !hidden.everything {
            return Cow::Borrowed(self);
        }
        let mut with = self.clone();
        with.enabled = true;
        with.everything = hidden.everything;
        for variable in hidden.variables {
            let mut parts = variable.splitn(2, |&byte| byte == b':');
            let collection = parts.next().unwrap_or_default();
            match parts.next().map(normal).filter(|name| !name.is_empty()) {
                Some(name) => with.names.push(name),
                // A name that cannot be compared hides all members.
                None => with.variables.push(collection.to_ascii_uppercase()),
            }
        }
        Cow::Owned(with)
    }

    fn hides_uri(&self) -> bool {
        let whole = ["REQUEST_URI", "REQUEST_URI_RAW", "REQUEST_LINE", "REQUEST_FILENAME"];
        let has = |name: &str| self.variables.iter().any(|known| known == name.as_bytes());
        self.everything || whole.into_iter().chain(["QUERY_STRING", "ARGS", "ARGS_GET"]).any(has)
    }

    /// A URI with the values of secret parameters masked.
    pub(crate) fn uri<'u>(&self, uri: &'u str) -> Cow<'u, str> {
        if self.hides_uri() {
            return Cow::Borrowed(MASK);
        }
        if !self.enabled {
            return Cow::Borrowed(uri);
        }
        // A question mark behind the first is part of a name or of a value.
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let mut masked = self.form(path);
        if path.len() < uri.len() {
            masked.push('?');
            masked.push_str(&self.form(query));
        }
        Cow::Owned(masked)
    }

    /// `name=value` pairs with the values of secrets masked.
    pub(crate) fn form(&self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        for part in text.split_inclusive('&') {
            self.push_pair(&mut masked, part, &['?', ';']);
        }
        masked
    }

    /// One pair, which for some readers is several, separated by `others`.
    fn push_pair(&self, masked: &mut String, part: &str, others: &[char]) {
        let (body, end) = match part.strip_suffix(['?', '&', ';']) {
            Some(body) => (body, part.get(body.len()..).unwrap_or_default()),
            None => (part, ""),
        };
        match body.split_once('=') {
            // The whole name counts, so that it can stand across separators of other readers.
            Some((name, _)) if self.is_secret(name.as_bytes()) => {
                masked.push_str(name);
                masked.push('=');
                masked.push_str(MASK);
            }
            Some(_) if !others.is_empty() && body.contains(others) => {
                for part in body.split_inclusive(others) {
                    self.push_pair(masked, part, &[]);
                }
            }
            Some((name, value)) if self.has_secret_pair(&decoded(value)) => {
                masked.push_str(name);
                masked.push('=');
                masked.push_str(MASK);
            }
            _ => masked.push_str(body),
        }
        masked.push_str(end);
    }

    /// Whether rules have hidden the body of that variable, or everything.
    pub(crate) fn hides_body(&self, variable: &str) -> bool {
        let related = match variable {
            "REQUEST_BODY" => &["REQUEST_BODY", "FULL_REQUEST", "ARGS", "ARGS_POST", "FILES"][..],
            _ => &["RESPONSE_BODY"],
        };
        let hidden = |name: &&str| self.variables.iter().any(|known| known == name.as_bytes());
        self.everything || related.iter().any(hidden)
    }

    /// The value of `variable` (such as `ARGS:id`), masked if need be.
    pub(crate) fn value<'v>(&self, variable: &[u8], value: &'v str) -> &'v str {
        if self.hides(variable, value) { MASK } else { value }
    }

    /// Whether `value`, found in `variable`, must not be seen.
    pub(crate) fn hides(&self, variable: &[u8], value: &str) -> bool {
        self.enabled
            && match self.exposure(variable) {
                Exposure::Open => false,
                Exposure::Pairs => self.has_secret_pair(value),
                Exposure::Hidden => true,
            }
    }

    /// Whether text expanded from matched values may show a secret by itself.
    pub(crate) fn hides_text(&self, text: &str) -> bool {
        self.enabled && self.has_secret_pair(text)
    }

    /// Whether anything is masked.
    pub(crate) const fn enabled(&self) -> bool {
        self.enabled
    }

    fn exposure(&self, variable: &[u8]) -> Exposure {
        let mut parts = variable.splitn(2, |&byte| byte == b':');
        let collection = parts.next().unwrap_or_default();
        let key = parts.next().unwrap_or_default();
        let collection = collection.to_ascii_uppercase();
        if self.everything || self.variables.contains(&collection) {
            return Exposure::Hidden;
        }
        match collection.as_slice() {
            b"REQUEST_COOKIES" | b"REQUEST_BODY" | b"FULL_REQUEST" | b"RESPONSE_BODY" | b"XML"
            | b"REMOTE_USER" | b"AUTH_TYPE" => Exposure::Hidden,
            b"REQUEST_HEADERS" | b"RESPONSE_HEADERS" if self.is_secret_header(key) => {
                Exposure::Hidden
            }
            b"ARGS"
            | b"ARGS_GET"
            | b"ARGS_POST"
            | b"MULTIPART_PART_HEADERS"
            | b"FILES"
            | b"FILES_TMP_CONTENT"
            | b"TX"
                if self.is_secret(key) =>
            {
                Exposure::Hidden
            }
            b"ARGS_NAMES"
            | b"ARGS_GET_NAMES"
            | b"ARGS_POST_NAMES"
            | b"REQUEST_COOKIES_NAMES"
            | b"REQUEST_HEADERS_NAMES" => Exposure::Open,
            _ => Exposure::Pairs,
        }
    }

    fn is_secret_header(&self, name: &[u8]) -> bool {
        SECRET_HEADERS.contains(&normal(name).as_str()) || self.is_secret(name)
    }

    /// Whether a value of this name is a secret, by the name.
    #[must_use]
    pub fn is_secret(&self, name: &[u8]) -> bool {
        let whole = normal(name);
        self.names.iter().any(|secret| whole.contains(secret.as_str()))
            || self.has_secret_word(name)
    }

    /// Whether a segment of a name is a secret's word.
    fn has_secret_word(&self, name: &[u8]) -> bool {
        if self.words.is_empty() {
            return false;
        }
        let mut segment = String::new();
        let mut before = 0;
        for byte in unescaped(name) {
            if is_boundary(before, byte) && self.is_secret_word(&mut segment) {
                return true;
            }
            if byte.is_ascii_alphanumeric() {
                segment.push(char::from(byte.to_ascii_lowercase()));
            }
            before = byte;
        }
        self.is_secret_word(&mut segment)
    }

    /// Whether a segment is a secret's word; it is empty afterwards.
    fn is_secret_word(&self, segment: &mut String) -> bool {
        let found = self.words.iter().any(|word| word == segment);
        segment.clear();
        found
    }

    /// Whether a `name=value` or `"name":value` pair with the name of a secret stands in the text.
    fn has_secret_pair(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        memchr::memchr2_iter(b'=', b':', bytes).any(|at| {
            let start = at.saturating_sub(NAME_BYTES_MAX);
            let before = bytes.get(start..at).unwrap_or_default();
            let name = before.rsplit(|byte| b"&;?, \t\r\n/=:{".contains(byte)).next();
            self.is_secret(name.unwrap_or_default())
        })
    }
}

/// Bytes of a name that are looked at: the search for pairs stays linear.
const NAME_BYTES_MAX: usize = 128;

/// Whether a segment of a name ends between two of its bytes: `user-Pin`, `userPin`, `pin2`. A run of capitals is one
/// segment (`CSRFtoken`).
const fn is_boundary(before: u8, byte: u8) -> bool {
    let between_kinds = before.is_ascii_digit() != byte.is_ascii_digit();
    let word_begins = before.is_ascii_lowercase() && byte.is_ascii_uppercase();
    !byte.is_ascii_alphanumeric() || between_kinds || word_begins
}

/// A name to compare by: percent-decoded, letters and digits only, in lower case.
fn normal(name: &[u8]) -> String {
    let plain = unescaped(name).filter(u8::is_ascii_alphanumeric);
    plain.map(|byte| char::from(byte.to_ascii_lowercase())).collect()
}

/// The bytes of a name, percent-decoded.
fn unescaped(name: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = name;
    core::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (first, after_all(rest)),
            },
            _ => (first, after),
        };
        rest = after;
        Some(byte)
    })
}

/// A value of a form without its escapes.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (first, after_all(rest)),
            },
            (b'+', _) => (b' ', after),
            _ => (first, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What follows the first byte.
fn after_all(bytes: &[u8]) -> &[u8] {
    bytes.get(1..).unwrap_or_default()
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris() {
        for (uri, expected) in [
            ("/a?b=c", "/a?b=c"),
            ("/a?password=hunter2", "/a?password=[redacted]"),
            ("/a?x=1&Api-Key=k&y=2", "/a?x=1&Api-Key=[redacted]&y=2"),
            // A semicolon may be part of the secret.
            ("/a?user[passwd]=x;y=2", "/a?user[passwd]=[redacted]"),
            ("/a?pass%77ord=hunter2", "/a?pass%77ord=[redacted]"),
            ("/a?access_token=a=b&c=d", "/a?access_token=[redacted]&c=d"),
            ("/a?q=password", "/a?q=password"),
            ("/a?password", "/a?password"),
            ("/a%?%=", "/a%?%="),
            ("/a?pass?word=hunter2", "/a?pass?word=[redacted]"),
            ("/a?pass;word=hunter2", "/a?pass;word=[redacted]"),
            ("/a?x=1;token=2?y=3", "/a?x=1;token=[redacted]?y=3"),
            ("/a;jsessionid=1?x=2", "/a;jsessionid=[redacted]?x=2"),
            ("/a?next=%2Fb%3Ftoken%3Dhunter2&z=1", "/a?next=[redacted]&z=1"),
        ] {
            assert_eq!(Redaction::default().uri(uri), expected);
            assert_eq!(Redaction::new(false, SECRET_NAMES, SECRET_WORDS).uri(uri), uri);
        }
    }

    #[test]
    fn values() {
        for (variable, value, hidden) in [
            ("REQUEST_HEADERS:Authorization", "Basic abc", true),
            ("REQUEST_HEADERS:proxy-authorization", "Basic abc", true),
            ("REQUEST_HEADERS:Cookie", "a=b", true),
            ("RESPONSE_HEADERS:Set-Cookie", "a=b", true),
            ("REQUEST_HEADERS:X-Api-Key", "abc", true),
            ("REQUEST_HEADERS:User-Agent", "nikto", false),
            ("REQUEST_HEADERS:Referer", "http://a/?token=abc", true),
            ("REQUEST_HEADERS:Referer", "http://a/?page=1", false),
            ("REQUEST_COOKIES:theme", "dark", true),
            ("REQUEST_COOKIES_NAMES:theme", "theme", false),
            ("ARGS:id", "1 union select", false),
            ("ARGS:password", "hunter2", true),
            ("ARGS_POST:user.clientSecret", "hunter2", true),
            ("args_get:PASS_WD", "hunter2", true),
            ("ARGS_NAMES:password", "password", false),
            ("ARGS:data", "{\"password\":\"x\"}", true),
            ("REQUEST_BODY", "anything", true),
            ("XML:/*", "anything", true),
            ("QUERY_STRING", "a=b", false),
            ("QUERY_STRING", "a=b&token=c", true),
            ("REQUEST_URI", "/a?pwd=x", true),
            ("", "", false),
        ] {
            let by_default = Redaction::default();
            assert_eq!(by_default.hides(variable.as_bytes(), value), hidden, "{variable} {value}");
            let off = Redaction::new(false, SECRET_NAMES, SECRET_WORDS);
            assert!(!off.hides(variable.as_bytes(), value));
        }
    }

    /// Words are compared with segments of names, not with parts of words.
    #[test]
    fn words() {
        let by_default = Redaction::default();
        for word in SECRET_WORDS {
            let (upper, capital) =
                (word.to_uppercase(), format!("{}{}", &word[..1].to_uppercase(), &word[1..]));
            for name in [
                word.to_owned(),
                upper.clone(),
                format!("user_{word}"),
                format!("{word}-id"),
                format!("user{capital}"),
                format!("user[{word}]"),
                format!("{word}2"),
                format!("X-{upper}"),
                format!("a.{word}.b"),
                format!("%5f{word}"),
            ] {
                assert!(by_default.is_secret(name.as_bytes()), "{name}");
            }
            for name in [format!("x{word}"), format!("{word}x"), format!("X{upper}Y")] {
                assert!(!by_default.is_secret(name.as_bytes()), "{name}");
            }
        }
        for name in [
            "keyboard",
            "keyword",
            "monkey",
            "sign",
            "design",
            "signal",
            "pinned",
            "spin",
            "coding",
            "decode",
            "author",
            "authority",
            "cardinal",
            "discard",
            "compass",
            "passage",
            "sidebar",
            "aside",
            "essay",
            "obsession",
            "q",
            "id",
            "page",
            "",
        ] {
            assert!(!by_default.is_secret(name.as_bytes()), "{name}");
        }
        for (variable, value, hidden) in [
            ("REQUEST_HEADERS:X-Auth", "abc", true),
            ("REQUEST_HEADERS:X-CSRF", "abc", true),
            ("REQUEST_HEADERS:X-Author", "abc", false),
            ("ARGS:code", "abc", true),
            ("ARGS:sid", "abc", true),
            ("ARGS:keyboard", "qwertz", false),
            ("REQUEST_HEADERS:Referer", "http://a/?code=abc&state=x", true),
            ("REQUEST_HEADERS:Referer", "http://a/?keyword=abc", false),
        ] {
            assert_eq!(by_default.hides(variable.as_bytes(), value), hidden, "{variable} {value}");
        }
        for (uri, expected) in [
            ("/cb?code=abc&state=x", "/cb?code=[redacted]&state=x"),
            ("/a?userPin=1&zoom=2", "/a?userPin=[redacted]&zoom=2"),
            ("/a?k%65y=1", "/a?k%65y=[redacted]"),
            ("/a?sign=up&keyboard=de", "/a?sign=up&keyboard=de"),
        ] {
            assert_eq!(by_default.uri(uri), expected);
        }
    }

    #[test]
    fn names_are_configurable() {
        let redaction = Redaction::new(true, ["iban", ""], ["tax", ""]);
        assert!(redaction.hides(b"ARGS:user_tax", "1"));
        assert!(!redaction.hides(b"ARGS:syntax", "1"));
        assert!(!redaction.hides(b"ARGS:code", "1"));
        assert!(redaction.hides(b"ARGS:my_IBAN", "DE00"));
        assert!(!redaction.hides(b"ARGS:password", "hunter2"));
        assert!(redaction.hides(b"REQUEST_HEADERS:authorization", "Basic abc"));
    }
}

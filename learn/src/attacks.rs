//! Known attacks: what an exclusion must not hide, and what is never evidence.

use core::{fmt::Write as _, str::from_utf8};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use regex_automata::{meta, util::syntax};

const LIST: &str = include_str!("attacks.txt");

const SIGNATURES: &str = "signatures";

/// Bytes of a text that are looked through for signatures.
const SIGNED_BYTES_MAX: usize = 65_536;

/// Attacks that a user may add.
const ADDED_MAX: usize = 10_000;

/// An attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attack {
    pub(crate) category: String,
    pub(crate) payload: Vec<u8>,
}

/// Known attacks by category, and patterns for texts that are attacks without doubt.
#[derive(Debug)]
pub(crate) struct Attacks {
    pub(crate) list: Vec<Attack>,
    signatures: Option<meta::Regex>,
}

impl Attacks {
    /// The shipped list, and more attacks without a category.
    pub(crate) fn with(more: &[Vec<u8>]) -> Self {
        let (mut list, mut signatures, mut category) = (Vec::new(), Vec::new(), "");
        for line in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                category = name;
            } else if category == SIGNATURES {
                signatures.push(line);
            } else {
                let payload = line.as_bytes().to_vec();
                list.push(Attack { category: category.to_owned(), payload });
            }
        }
        let added = more.iter().take(ADDED_MAX).filter(|payload| !payload.is_empty());
        let attack =
            |payload: &Vec<u8>| Attack { category: "added".to_owned(), payload: payload.clone() };
        list.extend(added.map(attack));
        // Rules decode what applications may decode: an exclusion for some characters must not hide an encoding.
        let encoded = |name: &str, encode: fn(&[u8]) -> String| -> Vec<Attack> {
            let one = |attack: &Attack| Attack {
                category: format!("{}, {name}", attack.category),
                payload: encode(&attack.payload).into_bytes(),
            };
            list.iter().map(one).collect()
        };
        let encoded = [
            encoded("percent-encoded", percent_encoded),
            encoded("in base64", |payload| STANDARD.encode(payload)),
        ]
        .concat();
        list.extend(encoded);
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let signatures = meta::Regex::builder()
            .syntax(syntax)
            .configure(meta::Config::new().utf8_empty(false))
            .build_many(&signatures)
            .ok();
        Self { list, signatures }
    }

    /// Whether the text is an attack without doubt, as it is or decoded once.
    pub(crate) fn sign(&self, text: &[u8]) -> bool {
        let text = text.get(..text.len().min(SIGNED_BYTES_MAX)).unwrap_or_default();
        let plain = |text: &[u8]| {
            let text = folded(text);
            self.signatures.as_ref().is_some_and(|signatures| signatures.is_match(&text))
        };
        plain(text) || {
            let decoded = percent_decoded(text);
            decoded != text && plain(&decoded)
        }
    }
}

/// In lower case, with runs of white space and comments of SQL as one space.
fn folded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'/' && behind.first() == Some(&b'*') {
            let end = behind.windows(2).position(|pair| pair == b"*/");
            let Some(end) = end else {
                out.push(byte);
                continue;
            };
            rest = behind.get(end + 2..).unwrap_or_default();
            space(&mut out);
        } else if byte.is_ascii_whitespace() || byte == b'+' {
            space(&mut out);
        } else {
            out.push(byte.to_ascii_lowercase());
        }
    }
    out
}

fn space(out: &mut Vec<u8>) {
    if out.last() != Some(&b' ') {
        out.push(b' ');
    }
}

/// Every byte but letters, digits and a few others as an escape.
pub(crate) fn percent_encoded(text: &[u8]) -> String {
    let mut out = String::new();
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Undoes percent-encoding; what is no escape stays.
pub(crate) fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let digits = text.get(at + 1..at + 3).and_then(|digits| from_utf8(digits).ok());
        let plain = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let escape = digits.filter(plain).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match escape.filter(|_| byte == b'%') {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_are_signed_and_ordinary_texts_are_not() {
        let attacks = Attacks::with(&[]);
        assert!(attacks.signatures.is_some());
        for text in [
            "1' OR '1'='1",
            "1%27%20UNION/**/SELECT%20login%20FROM%20users",
            "<img src=x onerror=alert(1)>",
            "../../../etc/hosts",
            "x; cat /etc/hosts",
            "${jndi:ldap://x}",
        ] {
            assert!(attacks.sign(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "%",
            "/*",
            "select a table from the list",
            "Rock & Roll, and more",
            "it's 5 o'clock; or so",
            "{\"event\":\"page_view\",\"url\":\"https://shop.example/?a=1&b=2\"}",
            "<p class=\"x\">Hello <b>world</b></p>",
            "$orderby=Price desc",
            "project = A AND (x = \"b\" OR y = \"e\")",
            "NC",
            "C# or Java? ../readme.md",
            "javascript:void(0)",
        ] {
            assert!(!attacks.sign(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn most_of_the_list_is_signed() {
        let attacks = Attacks::with(&[b"mine".to_vec(), Vec::new()]);
        assert!(attacks.list.iter().any(|attack| attack.payload == b"mine"));
        let plain = attacks.list.len() / 3;
        let signed =
            attacks.list.iter().take(plain).filter(|one| attacks.sign(&one.payload)).count();
        assert!(plain > 180 && signed * 2 > plain, "{signed} of {plain}");
    }
}

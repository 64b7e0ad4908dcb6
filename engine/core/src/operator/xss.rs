//! `@detectXSS`: whether a value is a piece of HTML that runs script.
//!
//! The method is libinjection's: read the value as a browser would in five places (between tags,
//! among attributes, and inside values in single, double and back quotes) and look for tags,
//! attributes, URLs and comments that no harmless input has.
//!
//! Source: libinjection (`libinjection_xss`, as of February 2025), whose answers these are. Of the
//! crate `libinjectionrs`, which tests compare the names with, nothing is used here: its reader
//! differs from libinjection on NUL bytes and on event names with something behind them, and it
//! looks through a list of hundreds for each name. A value can hold as many names as it has bytes.

mod events;
mod html;

use memchr::memchr2;

use crate::scan::ByteSet;
use events::starts_with_event;
use html::{Kind, Reader, State};

/// Longer names are in no list of this file; the longest has 13 letters.
const NAME_MAX: usize = 16;

/// What an attribute may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attribute {
    Harmless,
    /// Runs its value, or styles, whatever the value is.
    Harmful,
    /// Follows the URL in its value.
    Url,
    /// Its value is the name of another attribute.
    Indirect,
}

/// Tags that run script, or bring what does.
const TAGS: &[&[u8]] = &[
    b"applet",
    b"base",
    b"comment",
    b"embed",
    b"frame",
    b"frameset",
    b"handler",
    b"iframe",
    b"import",
    b"isindex",
    b"link",
    b"listener",
    b"meta",
    b"noscript",
    b"object",
    b"script",
    b"style",
    b"vmlframe",
    b"xml",
    b"xss",
];

/// Attributes whose value is a URL.
const URL_ATTRIBUTES: &[&[u8]] = &[
    b"action",
    b"background",
    b"by",
    b"dynsrc",
    b"folder",
    b"formaction",
    b"from",
    b"handler",
    b"href",
    b"lowsrc",
    b"poster",
    b"src",
    b"to",
    b"values",
    b"xlink:href",
];

/// Attributes that are harmful themselves.
const HARMFUL_ATTRIBUTES: &[&[u8]] = &[b"dataformatas", b"datasrc", b"filter", b"style"];

/// Attributes whose value is the name of another.
const INDIRECT_ATTRIBUTES: &[&[u8]] = &[b"attributename"];

/// Beginnings of URLs that run script, in upper case.
const SCRIPT_SCHEMES: &[&[u8]] = &[b"DATA", b"VIEW-SOURCE", b"JAVA", b"VBSCRIPT"];

/// Script needs a tag, or an attribute with a value: one of these bytes.
pub(crate) const NEEDS: ByteSet = ByteSet::of(b"<=");

/// The five places.
const STARTS: [State; 5] = [
    State::Data,
    State::BeforeAttributeName,
    State::QuotedValue(b'\''),
    State::QuotedValue(b'"'),
    State::QuotedValue(b'`'),
];

/// Whether `input` runs script in any of the five places.
pub(crate) fn detect(input: &[u8]) -> bool {
    memchr2(b'<', b'=', input).is_some() && read(input)
}

fn read(input: &[u8]) -> bool {
    STARTS.iter().any(|&start| runs_script(input, start))
}

fn runs_script(input: &[u8], start: State) -> bool {
    let mut reader = Reader::new(input, start);
    let mut attribute: &[u8] = b"";
    while let Some(token) = reader.next_token() {
        let text = input.get(token.start..token.start + token.len).unwrap_or_default();
        let harmful = match token.kind {
            Kind::Doctype => true,
            Kind::TagOpen => is_harmful_tag(text),
            Kind::Comment => is_harmful_comment(text),
            // Names are judged only when a value follows: most words of plain text look like names.
            Kind::AttributeValue => is_harmful_value(attribute, text),
            Kind::AttributeName | Kind::Other => false,
        };
        if harmful {
            return true;
        }
        // Only a value right behind its name belongs to it.
        attribute = if token.kind == Kind::AttributeName { text } else { b"" };
    }
    false
}

fn is_harmful_value(attribute: &[u8], value: &[u8]) -> bool {
    match classify(attribute) {
        Attribute::Harmless => false,
        Attribute::Harmful => true,
        Attribute::Url => is_script_url(value),
        Attribute::Indirect => classify(value) != Attribute::Harmless,
    }
}

/// A name in lower case and without its NUL bytes, which old browsers ignore.
struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

impl Name {
    /// `None` if it is too long for any list.
    fn new(name: &[u8]) -> Option<Self> {
        let mut plain = Self { bytes: [0; NAME_MAX], len: 0 };
        for byte in name.iter().filter(|&&byte| byte != 0) {
            *plain.bytes.get_mut(plain.len)? = byte.to_ascii_lowercase();
            plain.len += 1;
        }
        Some(plain)
    }

    fn is_in(&self, list: &[&[u8]]) -> bool {
        list.contains(&self.bytes.get(..self.len).unwrap_or_default())
    }
}

fn starts_with(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Whether a tag may run script: those of the list, and everything of SVG and XSL, which NUL bytes
/// hide from libinjection.
fn is_harmful_tag(name: &[u8]) -> bool {
    starts_with(name, b"svg")
        || starts_with(name, b"xsl")
        || Name::new(name).is_some_and(|name| name.is_in(TAGS))
}

/// What the attribute of that name may do.
fn classify(name: &[u8]) -> Attribute {
    if is_event(name) || starts_with(name, b"xmlns") || starts_with(name, b"xlink") {
        return Attribute::Harmful;
    }
    match Name::new(name) {
        Some(name) if name.is_in(HARMFUL_ATTRIBUTES) => Attribute::Harmful,
        Some(name) if name.is_in(URL_ATTRIBUTES) => Attribute::Url,
        Some(name) if name.is_in(INDIRECT_ATTRIBUTES) => Attribute::Indirect,
        _ => Attribute::Harmless,
    }
}

/// Whether the name *starts* with `on` and the name of an event: what stands behind does not count.
fn is_event(name: &[u8]) -> bool {
    starts_with(name, b"on") && name.get(2..).is_some_and(starts_with_event)
}

/// Whether a URL starts with a scheme that runs script, however disguised.
fn is_script_url(url: &[u8]) -> bool {
    let start = url.iter().position(|byte| (33..127).contains(byte)).unwrap_or(url.len());
    let url = url.get(start..).unwrap_or_default();
    SCRIPT_SCHEMES.iter().any(|scheme| has_scheme(url, scheme))
}

/// Whether a URL starts with a scheme once character references are resolved and leading white
/// space, NUL and line feeds ignored.
fn has_scheme(mut url: &[u8], scheme: &[u8]) -> bool {
    let mut expected = scheme.iter();
    let mut leading = true;
    let mut next = expected.next();
    while let Some(&letter) = next {
        let Some((character, length)) = character(url) else { return false };
        url = url.get(length..).unwrap_or_default();
        if (leading && character <= 32) || character == 0 || character == 10 {
            continue;
        }
        leading = false;
        // Like libinjection: letters of both cases, but above them only the low byte counts.
        let upper = match u8::try_from(character) {
            Ok(byte) => byte.to_ascii_uppercase(),
            Err(_) => (character & 0xff) as u8,
        };
        if upper != letter {
            return false;
        }
        next = expected.next();
    }
    true
}

/// The first character of a text, with a numeric character reference resolved, and its length. A
/// reference beyond the planes of Unicode is just an ampersand.
fn character(text: &[u8]) -> Option<(u32, usize)> {
    /// The least number that is no character; libinjection's, somewhat low.
    const REFERENCE_MAX: u32 = 0x10_00ff;
    let (&first, _) = text.split_first()?;
    let plain = Some((u32::from(first), 1));
    let (radix, mark) = match text {
        [b'&', b'#', b'x' | b'X', ..] => (16, 3),
        [b'&', b'#', ..] => (10, 2),
        _ => return plain,
    };
    let mut number = 0;
    let mut length = mark;
    while let Some(digit) = text.get(length).and_then(|&byte| char::from(byte).to_digit(radix)) {
        number = number * radix + digit;
        if number > REFERENCE_MAX {
            return plain;
        }
        length += 1;
    }
    if length == mark {
        return plain;
    }
    let semicolon = text.get(length) == Some(&b';');
    Some((number, length + usize::from(semicolon)))
}

/// Whether a comment does something in some browser: a backtick ends one in Internet Explorer,
/// which also has conditions and imports in comments; XML has declarations.
fn is_harmful_comment(text: &[u8]) -> bool {
    memchr::memchr(b'`', text).is_some()
        || (text.len() > 3 && (starts_with(text, b"[if") || starts_with(text, b"xml")))
        || starts_with(text, b"import")
        || starts_with(text, b"entity")
}

#[cfg(test)]
mod tests;

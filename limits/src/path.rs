//! Paths as limits compare them: in one form, whatever way a client has written them.
//!
//! A client that is limited on `/login` may write `/%6cogin`, `//login`, `/x/../login`, `/login%20` or
//! `/Login;a=b`, and many an application answers all of them alike. Two laws:
//!
//! 1. Two written forms may be treated as one path, never one as two. For a limit the former costs
//!    nothing, while the latter is a way around it.
//! 2. A path that is changed by more than escapes, case and a slash at its end [`is_ambiguous`]: what is
//!    exempt from something by its path must not be so.
//!
//! `+` is a plus: it is a blank in queries only. None of this is for routing.

/// The most segments of a template.
pub const TEMPLATE_SEGMENTS_MAX: usize = 32;

/// A path in one form: without query, decoded once, `\` as `/`, without empty segments, `.` and
/// `;parameters`, `..` carried out, without dots and blanks at the end of a segment, ASCII in lower case.
/// It begins with `/` and ends without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormalPath {
    text: Vec<u8>,
    /// Where the first segments end: one more than a template can have.
    ends: Vec<usize>,
}

impl NormalPath {
    /// The path of what a request asks for. Linear in the length, and never longer than the input and one byte.
    #[must_use]
    pub fn new(path_and_query: &[u8]) -> Self {
        let end = path_and_query.iter().position(|byte| matches!(byte, b'?' | b'#'));
        let path = path_and_query.get(..end.unwrap_or(path_and_query.len())).unwrap_or_default();
        let mut decoded = narrow(percent_decoded(path));
        decoded.make_ascii_lowercase();
        decoded.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        let mut segments: Vec<&[u8]> = Vec::new();
        for segment in decoded.split(|byte| *byte == b'/') {
            let named = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            match without_blanks(named) {
                b".." => drop(segments.pop()),
                // What consists of blanks and dots alone has no name left.
                named => segments.extend(Some(trimmed(named)).filter(|name| !name.is_empty())),
            }
        }
        let (mut text, mut ends) = (Vec::with_capacity(decoded.len() + 1), Vec::new());
        for segment in &segments {
            text.push(b'/');
            text.extend_from_slice(segment);
            if ends.len() <= TEMPLATE_SEGMENTS_MAX {
                ends.push(text.len());
            }
        }
        if text.is_empty() {
            text.push(b'/');
        }
        Self { text, ends }
    }

    /// The path as text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The first segments, one more than a template can have.
    fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(begin, end)| self.text.get(begin + 1..*end).unwrap_or_default())
    }
}

/// The text of [`NormalPath`].
#[must_use]
pub fn normalized(path_and_query: &[u8]) -> Vec<u8> {
    NormalPath::new(path_and_query).text
}

/// A segment without the dots and blanks at its end, which Windows and a few frameworks drop.
fn trimmed(segment: &[u8]) -> &[u8] {
    let mut rest = segment;
    loop {
        let shorter = without_blanks(rest);
        let shorter = shorter.strip_suffix(b".").unwrap_or(shorter);
        if shorter.len() == rest.len() {
            return rest;
        }
        rest = shorter;
    }
}

/// A segment without the blanks and control bytes at its end: those of ASCII, and what Unicode calls white space.
fn without_blanks(segment: &[u8]) -> &[u8] {
    let mut rest = segment;
    while let [before @ .., 0..=0x20 | 0x7f]
    | [before @ .., 0xc2, 0x85 | 0xa0]
    | [before @ .., 0xe1, 0x9a, 0x80]
    | [before @ .., 0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf]
    | [before @ .., 0xe2, 0x81, 0x9f]
    | [before @ .., 0xe3, 0x80, 0x80] = rest
    {
        rest = before;
    }
    rest
}

/// Characters that compatibility forms of Unicode (NFKC) make dots and slashes of, and what they become.
const WIDE: [(&[u8], &[u8]); 7] = [
    ("\u{2024}".as_bytes(), b"."),
    ("\u{2025}".as_bytes(), b".."),
    ("\u{fe52}".as_bytes(), b"."),
    ("\u{fe68}".as_bytes(), b"\\"),
    ("\u{ff0e}".as_bytes(), b"."),
    ("\u{ff0f}".as_bytes(), b"/"),
    ("\u{ff3c}".as_bytes(), b"\\"),
];

/// A decoded path with dots and slashes of ASCII in place of [`WIDE`] ones.
fn narrow(decoded: Vec<u8>) -> Vec<u8> {
    if !has_wide(&decoded) {
        return decoded;
    }
    let mut out = Vec::with_capacity(decoded.len());
    let mut rest = decoded.as_slice();
    while let Some((byte, after)) = rest.split_first() {
        match WIDE.iter().find_map(|(wide, narrow)| Some((narrow, rest.strip_prefix(*wide)?))) {
            Some((narrow, after)) => {
                out.extend_from_slice(narrow);
                rest = after;
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

fn has_wide(decoded: &[u8]) -> bool {
    // Nearly all paths are ASCII, and to see that takes little.
    !decoded.is_ascii()
        && decoded.windows(3).any(|bytes| {
            matches!(bytes, [0xe2 | 0xef, ..]) && WIDE.iter().any(|(wide, _)| *wide == bytes)
        })
}

/// Whether a path could mean another one to somebody: it has dot segments, dots or blanks at the end of a
/// segment, doubled slashes, backslashes, `;parameters`, wide forms of these, escapes of these, of control
/// bytes or of `%`, or overlong UTF-8. Linear in the length.
#[must_use]
pub fn is_ambiguous(path_and_query: &[u8]) -> bool {
    let end = path_and_query.iter().position(|byte| *byte == b'?');
    let path = path_and_query.get(..end.unwrap_or(path_and_query.len())).unwrap_or_default();
    let pairs = path.windows(2).any(|pair| matches!(pair, b"//" | b".."));
    let bytes = path.iter().any(|byte| matches!(byte, b'\\' | b';' | b'#' | 0..0x20 | 0x7f));
    let escapes = path.windows(3).any(|escape| match *escape {
        [b'%', b'0' | b'1', _] => true,
        [b'%', b'2', low] => matches!(low, b'5' | b'e' | b'E' | b'f' | b'F'),
        [b'%', b'3', low] => matches!(low, b'b' | b'B'),
        [b'%', b'5', low] => matches!(low, b'c' | b'C'),
        [b'%', b'7', low] => matches!(low, b'f' | b'F'),
        // IIS decodes `%u002e` as well.
        [b'%', b'u' | b'U', _] => true,
        _ => false,
    });
    pairs || bytes || escapes || is_ambiguous_decoded(path)
}

/// What can only be seen once escapes are undone.
fn is_ambiguous_decoded(path: &[u8]) -> bool {
    let escaped = path.contains(&b'%').then(|| percent_decoded(path));
    let decoded = escaped.as_deref().unwrap_or(path);
    let mut segments = decoded.split(|byte| *byte == b'/');
    is_overlong(decoded)
        || has_wide(decoded)
        || segments.any(|segment| trimmed(segment).len() < segment.len())
}

/// Whether a character takes more bytes than it needs: lenient readers take `%c0%af`, `%e0%80%af`
/// and `%f0%80%80%af` for `/`. UTF-8 that is right has none of these pairs.
fn is_overlong(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, 0xc0 | 0xc1))
        || bytes
            .windows(2)
            .any(|pair| matches!(pair, [0xe0, 0x80..=0x9f] | [0xf0 | 0xf8 | 0xfc, 0x80..=0x8f]))
}

/// `%XX` decoded once; what is no escape stays as it is.
#[must_use]
pub fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    if !bytes.contains(&b'%') {
        return bytes.to_vec();
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((byte, after)) = rest.split_first() {
        let escape = match (byte, after) {
            (b'%', [high, low, after @ ..]) => hex(*high).zip(hex(*low)).map(|pair| (pair, after)),
            _ => None,
        };
        match escape {
            Some(((high, low), after)) => {
                out.push(high << 4 | low);
                rest = after;
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// A path with places for anything: `/users/{id}/orders`, `/static/**`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// `None` is any one segment.
    segments: Vec<Option<Vec<u8>>>,
    /// Whether anything may follow, or nothing.
    open: bool,
}

/// Why a text is no template. `Display` says what to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// It does not begin with `/`.
    NoSlash,
    /// It has a query, an escape, an empty, `.` or `..` segment, or one with a dot or blank at its end.
    NotNormal,
    /// `**` stands elsewhere than at the end, or a `*`, `{` or `}` not as described.
    Wildcard,
    /// It has more than [`TEMPLATE_SEGMENTS_MAX`] segments.
    TooLong,
}

impl std::fmt::Display for TemplateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSlash => f.write_str("a path begins with '/'; write such as /users/{id}"),
            Self::NotNormal => f.write_str(
                "it has a query, an escape, a ';', an empty, '.' or '..' segment, or a dot or blank at \
                 the end of one, which the paths that it is compared with never have; write it without",
            ),
            Self::Wildcard => f.write_str(
                "write {name} for one whole segment, and ** only at the end, for any further ones",
            ),
            Self::TooLong => write!(f, "write at most {TEMPLATE_SEGMENTS_MAX} segments"),
        }
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Reads a template. A `/` at the end means nothing.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let rest = text.strip_prefix('/').ok_or(TemplateError::NoSlash)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (rest, open) = match rest.strip_suffix("**") {
            Some("") => ("", true),
            Some(before) => (before.strip_suffix('/').ok_or(TemplateError::Wildcard)?, true),
            None => (rest, false),
        };
        let segments = rest.split('/').filter(|_| !rest.is_empty()).map(segment);
        let segments = segments.collect::<Result<Vec<_>, _>>()?;
        if segments.len() > TEMPLATE_SEGMENTS_MAX {
            return Err(TemplateError::TooLong);
        }
        Ok(Self { segments, open })
    }

    /// Whether a path is one of these. Linear in the length of the template, however long the path is.
    #[must_use]
    pub fn matches(&self, path: &NormalPath) -> bool {
        let mut given = path.segments();
        for segment in &self.segments {
            let Some(given) = given.next() else { return false };
            if segment.as_ref().is_some_and(|wanted| wanted != given) {
                return false;
            }
        }
        self.open || given.next().is_none()
    }
}

fn segment(text: &str) -> Result<Option<Vec<u8>>, TemplateError> {
    let literal = text.to_ascii_lowercase().into_bytes();
    let normal = NormalPath::new(&literal).text;
    if text.is_empty() || text.contains('%') || normal.strip_prefix(b"/") != Some(&literal) {
        return Err(TemplateError::NotNormal);
    }
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    if text.contains('*') || inside.unwrap_or(text).contains(['{', '}']) || inside == Some("") {
        return Err(TemplateError::Wildcard);
    }
    Ok(inside.is_none().then_some(literal))
}

#[cfg(test)]
mod tests;

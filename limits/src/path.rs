//! Paths as limits compare them: in one form, whatever way a client has written them.
//!
//! A client that is limited on `/login` may write `/%6cogin`, `//login`, `/x/../login` or
//! `/Login;a=b`, and many an application answers all of them alike. For a limit it costs nothing
//! to take two paths for one, while to take one for two is a way around it; so everything here errs
//! on that side. It is not for deciding what an application would do, and not for routing.

/// The most segments of a template.
pub const TEMPLATE_SEGMENTS_MAX: usize = 32;

/// The path in one form: without query, decoded once, `\` as `/`, without empty segments, `.` and
/// `;parameters`, `..` carried out, ASCII in lower case. It begins with `/` and ends without one.
/// Linear in the length, and never longer than the input and one byte.
#[must_use]
pub fn normalized(path_and_query: &[u8]) -> Vec<u8> {
    let end = path_and_query.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let path = path_and_query.get(..end.unwrap_or(path_and_query.len())).unwrap_or_default();
    let mut decoded = percent_decoded(path);
    for byte in &mut decoded {
        *byte = if *byte == b'\\' { b'/' } else { byte.to_ascii_lowercase() };
    }
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|byte| *byte == b'/') {
        match segment.split(|byte| *byte == b';').next().unwrap_or_default() {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut out = Vec::with_capacity(decoded.len() + 1);
    for segment in &segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}

/// Whether a path could mean another one to somebody: it has dot segments, doubled slashes, backslashes,
/// `;parameters`, escapes of these, of control bytes or of `%`, or overlong UTF-8. What is exempt from something
/// by its path must not be so. Linear in the length.
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
    let dot = path.split(|byte| *byte == b'/').any(|segment| segment == b".");
    pairs || bytes || escapes || dot || is_overlong(path)
}

/// Whether a character takes more bytes than it needs, escaped or not: lenient readers take `%c0%af`, `%e0%80%af`
/// and `%f0%80%80%af` for `/`. UTF-8 that is right has none of these pairs.
fn is_overlong(path: &[u8]) -> bool {
    let escaped = path.contains(&b'%').then(|| percent_decoded(path));
    let bytes = escaped.as_deref().unwrap_or(path);
    bytes.iter().any(|byte| matches!(byte, 0xc0 | 0xc1))
        || bytes.windows(2).any(|pair| matches!(pair, [0xe0, 0x80..=0x9f] | [0xf0, 0x80..=0x8f]))
}

/// `%XX` decoded once; what is no escape stays as it is.
#[must_use]
pub fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
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
    /// It has a query, an escape, or an empty, `.` or `..` segment.
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
                "it has a query, an escape, a ';', or an empty, '.' or '..' segment, which the \
                 paths that it is compared with never have; write it without",
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

    /// Whether a path that [`normalized`] has made is one of these. Linear in its length.
    #[must_use]
    pub fn matches(&self, normalized: &[u8]) -> bool {
        let mut given = normalized.split(|byte| *byte == b'/').filter(|given| !given.is_empty());
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
    if matches!(text, "" | "." | "..") || text.contains(['?', '#', '%', '\\', ';']) {
        return Err(TemplateError::NotNormal);
    }
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    if text.contains('*') || inside.unwrap_or(text).contains(['{', '}']) || inside == Some("") {
        return Err(TemplateError::Wildcard);
    }
    Ok(inside.is_none().then(|| text.to_ascii_lowercase().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_form() {
        let rows: &[(&[u8], &[u8])] = &[
            (b"/login", b"/login"),
            (b"/login/", b"/login"),
            (b"/login?next=/a#b", b"/login"),
            (b"/login#b", b"/login"),
            (b"/%6cog%49n", b"/login"),
            (b"//login", b"/login"),
            (b"/./login/.", b"/login"),
            (b"/a/../login", b"/login"),
            (b"/a/..;x=y/login;z", b"/login"),
            (b"/a/%2e%2e/login", b"/login"),
            (b"/a%2f..%2Flogin", b"/login"),
            (b"\\login", b"/login"),
            (b"/a%5c..%5clogin", b"/login"),
            (b"/../../login", b"/login"),
            (b"/LOGIN", b"/login"),
            // Once, as applications do.
            (b"/%256cogin", b"/%6cogin"),
            (b"/%4A%4f%6A", b"/joj"),
            (b"/%4g%g4%4G", b"/%4g%g4%4g"),
            (b"/a%", b"/a%"),
            (b"/a%4", b"/a%4"),
            (b"/a%zz", b"/a%zz"),
            (b"/a%00b", b"/a\0b"),
            (b"/\xFF%ff", b"/\xFF\xFF"),
            (b"*", b"/*"),
            (b"", b"/"),
            (b"/", b"/"),
            (b"?", b"/"),
        ];
        for (given, expected) in rows {
            let shown = String::from_utf8_lossy(given);
            let once = normalized(given);
            assert_eq!(once, *expected, "{shown}");
            assert!(once.len() <= given.len() + 1, "{shown}");
        }
    }

    #[test]
    fn paths_that_could_mean_another() {
        for (path, expected) in [
            ("/", false),
            ("/a/b.c/d-e_f~g", false),
            ("/a%20b%3a/%e4", false),
            ("/a?x=..//;%2f", false),
            ("/a./.b/c", false),
            ("/a/../b", true),
            ("/a..b", true),
            ("/./a", true),
            ("/a/.", true),
            ("//a", true),
            ("/a/", false),
            ("/a\\b", true),
            ("/a;b", true),
            ("/a#b", true),
            ("/a%2Fb", true),
            ("/a%2eb", true),
            ("/a%5Cb", true),
            ("/a%3bb", true),
            ("/a%252f", true),
            ("/a%00", true),
            ("/a%1f", true),
            ("/a%7F", true),
            ("/a%2E%2f", true),
            ("/a%2fb", true),
            ("/a%2Eb", true),
            ("/a%3Bb", true),
            ("/a%5cb", true),
            ("/a%7fb", true),
            ("/a%24%26%3a%3c%5b%5d%7e", false),
            ("/a%c0%af", true),
            ("/a\u{1}", true),
            ("/a\u{1f}b", true),
            ("/a\u{7f}b", true),
            ("/a b", false),
            // Overlong: '.', '/', '\' and NUL, in two, three and four bytes.
            ("/%c0%ae", true),
            ("/%C1%9c", true),
            ("/%c0%80", true),
            ("/%u002e", true),
            ("/%e0%80%ae", true),
            ("/%E0%80%AF", true),
            ("/%e0%81%9c", true),
            ("/%e0%80%80", true),
            ("/%e0%9f%bf", true),
            ("/%f0%80%80%ae", true),
            ("/%F0%80%80%AF", true),
            ("/%f0%80%81%9c", true),
            ("/%f0%80%80%80", true),
            ("/%f0%8f%bf%bf", true),
            // The least characters of three and four bytes, and what is no UTF-8 at all.
            ("/%c2%80/%e0%a0%80/%f0%90%80%80", false),
            ("/\u{80}/\u{800}/\u{10000}", false),
            ("/%e0/%e0%20/%f0", false),
        ] {
            assert_eq!(is_ambiguous(path.as_bytes()), expected, "{path}");
        }
        for path in [&b"/\xc0\xae"[..], b"/\xe0\x80\xaf", b"/%e0\x80\xaf", b"/\xf0\x80\x80\xaf"] {
            assert!(is_ambiguous(path), "{path:x?}");
        }
    }

    #[test]
    fn templates() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("/", &["/", ""], &["/a"]),
            ("/login", &["/login", "/LOGIN/", "/a/../login?x"], &["/", "/login/x", "/logins"]),
            ("/Users/{id}/orders", &["/users/7/orders"], &["/users/orders", "/users/7/orders/8"]),
            ("/{a}/{b}", &["/x/y"], &["/x", "/x/y/z"]),
            ("/static/**", &["/static", "/static/a/b"], &["/statics"]),
            ("/static/**/", &["/static", "/static/a/b"], &["/statics"]),
            ("/**", &["/", "/a", "/a/b"], &[]),
        ];
        for (text, inside, outside) in rows {
            let template = Template::parse(text).unwrap();
            for (paths, expected) in [(inside, true), (outside, false)] {
                for path in *paths {
                    let matched = template.matches(&normalized(path.as_bytes()));
                    assert_eq!(matched, expected, "{text} {path}");
                }
            }
        }
    }

    #[test]
    fn wrong_templates() {
        let long = "/a".repeat(TEMPLATE_SEGMENTS_MAX + 1);
        let rows = [
            ("", TemplateError::NoSlash),
            ("login", TemplateError::NoSlash),
            ("/a//b", TemplateError::NotNormal),
            ("/a/../b", TemplateError::NotNormal),
            ("/a/./b", TemplateError::NotNormal),
            ("/a?b", TemplateError::NotNormal),
            ("/a#b", TemplateError::NotNormal),
            ("/a\\b", TemplateError::NotNormal),
            ("/a;b", TemplateError::NotNormal),
            ("/%61", TemplateError::NotNormal),
            ("/a/**/b", TemplateError::Wildcard),
            ("/a**", TemplateError::Wildcard),
            ("/a/*", TemplateError::Wildcard),
            ("/a{b}", TemplateError::Wildcard),
            ("/{a", TemplateError::Wildcard),
            ("/a}", TemplateError::Wildcard),
            ("/{}", TemplateError::Wildcard),
            ("/{a}{b}", TemplateError::Wildcard),
            (&long, TemplateError::TooLong),
        ];
        for (text, expected) in rows {
            assert_eq!(Template::parse(text), Err(expected), "{text}");
        }
        assert!(Template::parse(&long[2..]).is_ok());
        for (error, expected) in [
            (TemplateError::NoSlash, "begins with '/'"),
            (TemplateError::NotNormal, "it has a query, an escape"),
            (TemplateError::Wildcard, "write {name} for one whole segment"),
            (TemplateError::TooLong, "write at most 32 segments"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}

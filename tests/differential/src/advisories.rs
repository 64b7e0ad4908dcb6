//! Advisories as data: named cases with requests, and what is expected of each (`advisories.txt` says how they are written).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// An advisory with its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advisory {
    /// CVE, GHSA, or a project with the number of an issue, and the summary.
    pub title: String,
    /// The expectation.
    pub expect: Expect,
    /// Names and requests.
    pub variants: Vec<(String, Request)>,
}

/// What becomes of the requests of an advisory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Each is blocked.
    Block,
    /// Each ends with a verdict, whichever it is.
    Verdict,
    /// There is no request, for this reason.
    Skip(String),
}

/// A request as it is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The target, as bytes.
    pub uri: Vec<u8>,
    /// Header fields in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request of a line of JSON: `method`, `uri`, `headers` as pairs, `body_base64`.
    #[must_use]
    pub fn of_json(line: &str) -> Option<Self> {
        let fields: Value = serde_json::from_str(line).ok()?;
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let field = |pair: &Value| Some((text(pair.get(0)?)?, text(pair.get(1)?)?.into_bytes()));
        Some(Self {
            method: text(&fields["method"])?,
            uri: text(&fields["uri"])?.into_bytes(),
            headers: fields["headers"].as_array()?.iter().map(field).collect::<Option<_>>()?,
            body: STANDARD.decode(fields["body_base64"].as_str()?).ok()?,
        })
    }
}

/// Reads the cases of a file; what is wrong with one is in the error.
///
/// # Errors
/// For a case without an expectation, or a request without a request line.
pub fn read(text: &str) -> Result<Vec<Advisory>, String> {
    let mut cases = text.split("\n=== ");
    // What stands before the first case is a comment.
    cases.next();
    cases.map(case).collect()
}

fn case(text: &str) -> Result<Advisory, String> {
    let mut parts = text.split("\n--- ");
    let head = parts.next().unwrap_or_default();
    let (title, rest) = head.split_once('\n').ok_or_else(|| format!("{head}: no expectation"))?;
    let expect = match rest.trim() {
        "expect: block" => Expect::Block,
        "expect: verdict" => Expect::Verdict,
        other => match other.strip_prefix("skip: ") {
            Some(reason) => Expect::Skip(reason.to_owned()),
            None => return Err(format!("{title}: {other}")),
        },
    };
    let variants = parts.map(|part| request(part).ok_or_else(|| format!("{title}: {part}")));
    Ok(Advisory { title: title.to_owned(), expect, variants: variants.collect::<Result<_, _>>()? })
}

fn request(text: &str) -> Option<(String, Request)> {
    let (name, text) = text.split_once('\n')?;
    let (head, body) = text.split_once("\n\n").unwrap_or_else(|| (text.trim_end_matches('\n'), ""));
    let mut lines = head.lines();
    let (method, rest) = lines.next()?.split_once(' ')?;
    let uri = bytes(rest.strip_suffix(" HTTP/1.1")?);
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_owned(), bytes(value.trim_start())))
    };
    let headers = lines.map(field).collect::<Option<Vec<_>>>()?;
    let body = bytes(&body.lines().collect::<String>());
    Some((name.to_owned(), Request { method: method.to_owned(), uri, headers, body }))
}

/// The bytes that a text stands for: escapes, and `@N text@` for a text N times.
fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('@') {
        let repeated = after.split_once(' ').and_then(|(count, after)| {
            let (text, after) = after.split_once('@')?;
            Some((count.parse::<usize>().ok()?, text, after))
        });
        unescape(before, &mut out);
        rest = after;
        match repeated {
            Some((count, text, after)) => {
                let mut once = Vec::new();
                unescape(text, &mut once);
                out.extend(once.repeat(count));
                rest = after;
            }
            None => out.push(b'@'),
        }
    }
    unescape(rest, &mut out);
    out
}

fn unescape(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let mut chars = after.chars();
        let escaped = chars.next();
        rest = chars.as_str();
        match escaped {
            Some('r') => out.push(b'\r'),
            Some('n') => out.push(b'\n'),
            Some('t') => out.push(b'\t'),
            Some('0') => out.push(0),
            Some('x') => {
                let digits = rest.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
                out.extend(digits);
                rest = rest.get(2..).unwrap_or_default();
            }
            Some(other) => out.extend(other.to_string().bytes()),
            None => out.push(b'\\'),
        }
    }
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read() {
        let text = "# x\n\n=== A b: c\nexpect: block\n--- v\nPOST /@2 ab@ HTTP/1.1\nX: y@z\n\na\\r\\n\\x41\nb\n\n=== D\nskip: no\n";
        let cases = read(text).unwrap();
        let request = Request {
            method: "POST".to_owned(),
            uri: b"/abab".to_vec(),
            headers: vec![("X".to_owned(), b"y@z".to_vec())],
            body: b"a\r\nAb".to_vec(),
        };
        assert_eq!(cases[0].variants, [("v".to_owned(), request)]);
        assert_eq!(
            (&cases[0].expect, cases[1].expect.clone()),
            (&Expect::Block, Expect::Skip("no".to_owned()))
        );
        assert!(read("\n=== A\n--- x\n").is_err());
        assert!(read("\n=== A\nexpect: block\n--- x\nGET\n").is_err());
    }
}

//! Seeds for the fuzzer, made of what the engine's tests are fed with, as each law reads its inputs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{self, Outcome};

/// What the engine's tests are fed with.
#[derive(Debug, Default)]
pub(crate) struct Fixtures {
    rules: Vec<String>,
    requests: Vec<Request>,
}

/// A request of a fixture, and its response if it has one.
#[derive(Debug)]
struct Request {
    head: String,
    body: Vec<u8>,
    response: Option<String>,
}

/// Folders of SecLang files, and the folder of fixtures with rules and requests.
const RULES: &[&str] = &[
    "engine/seclang/tests/data/ok",
    "engine/seclang/tests/data/err",
    "engine/core/tests/data/refused",
    "engine/core/tests/data/warnings",
    "fuzz/laws/src",
];
const TRANSACTIONS: &str = "engine/core/tests/data/transactions";

impl Fixtures {
    pub(crate) fn read(root: &Path) -> Outcome<Self> {
        let mut fixtures = Self::default();
        for folder in RULES {
            for path in files(&root.join(folder), "conf")? {
                fixtures.rules.push(text(&path)?);
            }
        }
        for path in files(&root.join(TRANSACTIONS), "txt")? {
            fixtures.add(&text(&path)?);
        }
        Ok(fixtures)
    }

    /// Takes a file of sections that begin with `=== NAME`.
    fn add(&mut self, text: &str) {
        for section in text.strip_prefix("=== ").unwrap_or(text).split("\n=== ") {
            let (name, content) = section.split_once('\n').unwrap_or((section, ""));
            match name {
                "rules" => self.rules.push(format!("{content}\n")),
                "response" => {
                    if let Some(request) = self.requests.last_mut() {
                        request.response = Some(content.to_owned());
                    }
                }
                name if name.starts_with("request") => {
                    let (head, body) = content.split_once("\n\n").unwrap_or((content, ""));
                    let is_escaped = name.ends_with("escaped");
                    let body = if is_escaped { unescape(body) } else { body.as_bytes().to_vec() };
                    self.requests.push(Request { head: head.to_owned(), body, response: None });
                }
                _ => {}
            }
        }
    }
}

fn files(folder: &Path, ending: &str) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(failure::io("read", folder))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    paths.sort();
    Ok(paths)
}

fn text(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(failure::io("read", path))
}

/// Line ends are for the reader; those that count are written `\r` and `\n`, other bytes `\xHH`.
fn unescape(body: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = body.chars().filter(|&char| char != '\n');
    while let Some(char) = rest.next() {
        match (char, if char == '\\' { rest.next() } else { None }) {
            (_, Some('n')) => bytes.push(b'\n'),
            (_, Some('r')) => bytes.push(b'\r'),
            (_, Some('x')) => {
                let digits: String = rest.by_ref().take(2).collect();
                bytes.extend(u8::from_str_radix(&digits, 16));
            }
            (_, Some(other)) => bytes.extend(other.to_string().bytes()),
            (char, None) => bytes.extend(char.to_string().bytes()),
        }
    }
    bytes
}

impl Request {
    /// As `fuzz/laws/src/message.rs` reads it.
    fn message(&self) -> Vec<u8> {
        let mut message = [self.head.as_bytes(), b"\n\n", &self.body].concat();
        if let Some(response) = &self.response {
            message.extend_from_slice(b"\n=== response\n");
            message.extend_from_slice(response.as_bytes());
        }
        message
    }

    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| *known == name)
            .unwrap_or_default()
            .1
    }
}

/// The rules as they stand.
pub(crate) fn rules(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    fixtures.rules.iter().map(|rules| rules.clone().into_bytes()).collect()
}

fn messages(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    fixtures.requests.iter().map(Request::message).collect()
}

/// The requests; and rules made of the patterns of all rules, before one of them.
pub(crate) fn ruled(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    const RULES: usize = 4;
    let messages = messages(fixtures);
    let patterns = patterns(fixtures);
    let patterns: Vec<&[u8]> =
        patterns.iter().filter_map(|seed| seed.split(|&byte| byte == b'\n').next()).collect();
    // Upper-case: each rule is asked in this phase and in the next.
    let mut phases = (b'A'..=b'E').cycle();
    let with_rules = patterns.chunks(RULES).zip(messages.iter().cycle()).map(|(rules, message)| {
        let mut seed = b"=== rules\n".to_vec();
        for ((choice, pattern), phase) in (b'b'..).zip(rules).zip(&mut phases) {
            seed.extend_from_slice(&[choice, b'a', b'0', choice, choice, phase, b' ']);
            seed.extend_from_slice(pattern);
            seed.push(b'\n');
        }
        [&seed, b"=== request\n".as_slice(), message].concat()
    });
    with_rules.chain(messages.iter().cloned()).collect()
}

/// The requests, with bodies that come in pieces.
pub(crate) fn in_pieces(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    messages(fixtures).iter().map(|message| [b"\x03\x07\n", message.as_slice()].concat()).collect()
}

/// The requests as values, behind the transformations that are applied to them.
pub(crate) fn values(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    messages(fixtures).iter().map(|message| [b"\x01\x08\n", message.as_slice()].concat()).collect()
}

/// Each body, with default limits and with small ones; as it is, and compressed or taken for it.
pub(crate) fn bodies(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    /// Codings, as the law counts them behind the lowest bit, which is for small limits.
    const CODINGS: [&str; 5] = ["", "gzip", "deflate", "Deflate", "br"];
    let with_body = fixtures.requests.iter().filter(|request| !request.body.is_empty());
    let seed = |(index, request): (usize, &Request)| {
        let media_type = request.header("Content-Type");
        let known = ["urlencoded", "multipart", "json", "xml"];
        let processor = known.iter().position(|known| media_type.contains(known)).unwrap_or(0);
        let named = request.header("Content-Encoding");
        let coding = CODINGS.iter().position(|coding| *coding == named).unwrap_or(5);
        [coding << 1, 1, (index % 9) << 1].map(|choice| {
            let choices = [processor, choice].map(|choice| u8::try_from(choice).unwrap_or(0));
            [&choices, media_type.as_bytes(), b"\n", &request.body].concat()
        })
    };
    with_body.enumerate().flat_map(seed).collect()
}

/// Bytes of WebSockets as the law reads them: texts, of which it makes frames, for each setting.
pub(crate) fn sockets(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    let texts = values(fixtures);
    let seed = |(at, text): (usize, Vec<u8>)| {
        let settings = u8::try_from(at % 16).unwrap_or(0);
        [&[settings, 7], &text[..]].concat()
    };
    texts.into_iter().enumerate().map(seed).collect()
}

/// Event streams as the law reads them: texts with line ends of all kinds between.
pub(crate) fn streams(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    let texts = values(fixtures);
    let seed = |(at, text): (usize, Vec<u8>)| {
        let [setting, end] = [at % 2, 0x80 + at % 8].map(|byte| u8::try_from(byte).unwrap_or(0));
        [&[setting, 7], &b"data: "[..], &text, &[end, 0x83], b"id: 1\x83~"].concat()
    };
    texts.into_iter().enumerate().map(seed).collect()
}

/// GraphQL documents as the law reads them: bodies of all kinds, since changes of any text break its grammar.
pub(crate) fn documents(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    const DOCUMENTS: [&str; 3] = [
        "query Q($a: [T!] = [{b: 1}]) { x: f(a: \"c\\u0041\", b: $a) { ...F ... on T @d { g } } }",
        "fragment F on T { h(first: 10, w: {i: [E, null, -1.5e3]}) { j } } { ...F }",
        "mutation { k(l: \"\"\"m\n  n\\\"\"\"\"\"\") } # o",
    ];
    let bodies = fixtures.requests.iter().map(|request| request.body.clone());
    let documents = bodies.chain(DOCUMENTS.map(|document| document.as_bytes().to_vec()));
    documents.filter(|body| !body.is_empty()).map(|body| [b"\x10\0", &*body].concat()).collect()
}

/// Requests that a document of the law of OpenAPI declares, and bodies of fixtures.
pub(crate) fn api_requests(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    const REQUESTS: [&str; 3] = [
        "GET /a?a=1&a=true&b=x|y&c[z]=1&d={\"a\":[1]}&g=h\nCookie: e=2026-01-01T00:00:00Z\nF: a:b, c:d\n\n",
        "GET /1,2/.k=v.l=w/;matrix=a.x\n\n",
        "POST /a\nContent-Type: application/json\n\n{\"a\": [[], {\"b\": null}]}",
    ];
    let post = |request: &Request| {
        let media_type = request.header("Content-Type");
        [b"POST /a\nContent-Type: ", media_type.as_bytes(), b"\n\n", &request.body].concat()
    };
    let requests = fixtures.requests.iter().filter(|request| !request.body.is_empty());
    requests.map(post).chain(REQUESTS.map(|request| request.as_bytes().to_vec())).collect()
}

/// The patterns of all rules, with a value that many match.
pub(crate) fn patterns(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    let operators = fixtures.rules.iter().flat_map(|rules| rules.split("@rx ").skip(1));
    let patterns = operators.filter_map(|rest| Some(rest.split_once("\" ")?.0));
    let seed = |pattern: &str| format!("{}\nabc select 12", pattern.replace('\n', " "));
    patterns.map(seed).map(String::into_bytes).collect()
}

/// The calls that send a request, in the letters of the law, every other time with a trace.
pub(crate) fn calls(fixtures: &Fixtures) -> Vec<Vec<u8>> {
    let seed = |(index, request): (usize, &Request)| {
        let mut lines = request.head.lines();
        let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').take(2).collect();
        let headers: String =
            lines.map(|line| format!("h{}\n", line.replacen(": ", "=", 1))).collect();
        let trace = if index % 2 == 1 { "t\n" } else { "" };
        let begin = format!("{trace}s\nl{}\n{headers}1\nb", first.join("="));
        let end = b"\n2\nLHTTP/1.1=\nHContent-Type=text/html\n3\nB<p>a</p>\n4\n5\nd\n";
        [begin.as_bytes(), &request.body, end].concat()
    };
    fixtures.requests.iter().enumerate().map(seed).collect()
}

/// The first requests of each of the regression tests of CRS, as near as lines tell: seeds need not be
/// exact. A CRS without its tests has none.
pub(crate) fn crs_requests(crs: &Path) -> Outcome<Vec<Vec<u8>>> {
    const OF_EACH: usize = 3;
    let folder = crs.join("tests");
    let mut seeds = Vec::new();
    for group in fs::read_dir(folder).into_iter().flatten().flatten() {
        for path in files(&group.path(), "yaml")? {
            let text = text(&path)?;
            seeds.extend(text.split("- input:").skip(1).take(OF_EACH).map(crs_request));
        }
    }
    seeds.sort();
    Ok(seeds)
}

fn crs_request(test: &str) -> Vec<u8> {
    let lines = || test.lines().map(str::trim);
    let field = |name: &str| {
        let value = lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        value.trim_matches(['"', '\'']).replace("\\\"", "\"")
    };
    let method = if field("method:").is_empty() { "GET".to_owned() } else { field("method:") };
    let headers = lines().skip_while(|line| *line != "headers:").skip(1);
    let headers: String = headers
        .take_while(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
        .map(|line| format!("\n{}", line.replace('"', "")))
        .collect();
    format!("{method} {} HTTP/1.1{headers}\n\n{}", field("uri:"), field("data:")).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_in_tests_of_crs() {
        let test = "\n  headers:\n    Host: \"a\"\n    Cookie: b=c\n  method: POST\n  uri: '/d?e'\n  \
                    data: \"f=\\\"g\"\n  output:\n    log: x\n";
        let request = String::from_utf8(crs_request(test)).unwrap();
        assert_eq!(request, "POST /d?e HTTP/1.1\nHost: a\nCookie: b=c\n\nf=\"g");
        assert_eq!(crs_request(""), b"GET  HTTP/1.1\n\n");
    }

    #[test]
    fn rules_of_seeds_are_asked_in_each_phase() {
        let mut fixtures = Fixtures::default();
        let patterns = "@rx a\" ".repeat(5);
        fixtures.add(&format!("=== rules\n{patterns}\n=== request\nGET / HTTP/1.1"));
        let seeds = ruled(&fixtures);
        let expected = [
            "=== rules\nba0bbA a\nca0ccB a\nda0ddC a\nea0eeD a\n=== request\n",
            "=== rules\nba0bbE a\n=== request\n",
        ];
        for (seed, expected) in seeds.iter().zip(expected) {
            assert!(seed.starts_with(expected.as_bytes()), "{}", String::from_utf8_lossy(seed));
        }
        assert_eq!(seeds.len(), expected.len() + fixtures.requests.len());
    }

    #[test]
    fn sections_become_requests() {
        let mut fixtures = Fixtures::default();
        fixtures.add(
            "=== rules\nSecX\n=== request escaped\nPOST /a HTTP/1.1\nContent-Type: text/xml\n\n\
             a\\r\nb\\x41\\\\\n=== response\nHTTP/1.1 200\n\nc\n=== expect\nallow\n",
        );
        assert_eq!(fixtures.rules, ["SecX\n"]);
        let message =
            "POST /a HTTP/1.1\nContent-Type: text/xml\n\na\rbA\\\n=== response\nHTTP/1.1 200\n\nc";
        assert_eq!(messages(&fixtures), [message.as_bytes()]);
        assert_eq!(bodies(&fixtures)[1], b"\x03\x01text/xml\na\rbA\\");
        assert!(ruled(&fixtures).contains(&message.as_bytes().to_vec()));
        assert!(calls(&fixtures)[0].starts_with(b"s\nlPOST=/a\nhContent-Type=text/xml\n1\nba\r"));
    }
}

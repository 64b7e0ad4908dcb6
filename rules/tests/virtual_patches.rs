//! Each virtual patch stops its attack and lets its neighbour through, in the filter and as rules,
//! and both see the same in whatever else there is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction, Verdict};
use glacis_limits::patch::{Head, Patch, Prepared};
use serde_json::Value;

/// A request as the tests of patches write it: a request line without version, then fields.
struct Request {
    method: String,
    target: String,
    fields: Vec<(String, String)>,
}

impl Request {
    fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        };
        let fields = lines.map(field).collect();
        Self { method: method.to_owned(), target: target.to_owned(), fields }
    }
}

impl Head for Request {
    fn method(&self) -> Vec<u8> {
        self.method.clone().into_bytes()
    }

    fn target(&self) -> Vec<u8> {
        self.target.clone().into_bytes()
    }

    fn headers(&self, name: &str) -> Vec<Vec<u8>> {
        let fields = self.fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.clone().into_bytes()).collect()
    }
}

struct Case {
    patch: Patch,
    program: Arc<Program>,
    attacks: Vec<String>,
    neighbours: Vec<String>,
    rule: u64,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("virtual-patches");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let read = |file: &std::path::PathBuf| -> Vec<Value> {
        let text = std::fs::read_to_string(file).unwrap();
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    };
    files.iter().flat_map(read).map(|value| case(&value)).collect()
}

fn case(value: &Value) -> Case {
    let patch = Patch::read(value).unwrap_or_else(|error| panic!("{}: {error}", value["id"]));
    let name = format!("{}.conf", patch.id);
    let text = format!("SecRuleEngine On\n{}", patch.to_seclang());
    let rules = Input::Text { name, text: text.clone() };
    let program = Program::build(&[rules], &NoFiles, Limits::default())
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let texts = |name: &str| -> Vec<String> {
        let list = value["tests"][name].as_array().unwrap();
        list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    Case {
        patch,
        program: Arc::new(program),
        attacks: texts("attacks"),
        neighbours: texts("neighbours"),
        rule: value["rule"].as_u64().unwrap(),
    }
}

fn refused_by_rules(case: &Case, request: &Request) -> bool {
    let mut transaction = Transaction::new(Arc::clone(&case.program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    let start = Start { unique_id: "1", time: Duration::ZERO, client: endpoint, server: endpoint };
    transaction.start(&start);
    transaction.request_line(request.method.as_bytes(), request.target.as_bytes(), b"HTTP/1.1");
    for (name, value) in &request.fields {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    matches!(transaction.evaluate_request_headers(), Verdict::Deny(_))
}

fn refused_by_filter(case: &Case, request: &Request) -> bool {
    case.patch.matches(&Prepared::new(request))
}

#[test]
fn each_stops_its_attack_and_lets_its_neighbour_through() {
    let cases = cases();
    let mut told = Vec::new();
    for case in &cases {
        assert!(!case.attacks.is_empty() && !case.neighbours.is_empty(), "{}", case.patch.id);
        for (texts, expected) in [(&case.attacks, true), (&case.neighbours, false)] {
            for text in texts {
                let request = Request::read(text);
                let seen = (refused_by_filter(case, &request), refused_by_rules(case, &request));
                if seen != (expected, expected) {
                    told.push(format!(
                        "{}: filter and rules say {seen:?} to {text:?}",
                        case.patch.id
                    ));
                }
            }
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
    let ids: BTreeSet<_> = cases.iter().map(|case| &case.patch.id).collect();
    let rules: BTreeSet<_> = cases.iter().map(|case| case.rule).collect();
    assert_eq!((ids.len(), rules.len()), (cases.len(), cases.len()), "ids and rules are unique");
    let cves: BTreeSet<_> = cases.iter().map(|case| &case.patch.cve).collect();
    assert!(
        cases.len() >= 100 && cves.len() >= 100,
        "{} patches, {} flaws",
        cases.len(),
        cves.len()
    );
}

/// The places of a path where another spelling can be inserted: its slashes as they were written.
fn slashes(path: &str) -> impl Iterator<Item = usize> {
    path.match_indices('/').map(|(at, _)| at)
}

/// A path with each of its bytes that is no escape as an escape, `percent` being how many times `%` is escaped.
fn escaped_at(path: &str, at: usize, percent: &str) -> Option<String> {
    let byte = *path.as_bytes().get(at)?;
    let inside = (1..=2).any(|back| at >= back && path.as_bytes()[at - back] == b'%');
    if inside || byte == b'%' {
        return None;
    }
    Some(format!("{}{percent}{byte:02x}{}", &path[..at], &path[at + 1..]))
}

/// Other spellings of a path that servers take for the same.
fn spellings(path: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let between =
        ["//", "/./", "/;x/", "/;x=y/", "/.;x/", "/%2e/", "/x/../", "/x/%2e%2e/", "/x/..;y/"];
    for at in slashes(path) {
        let with = |slash: &str| format!("{}{slash}{}", &path[..at], &path[at + 1..]);
        all.extend(between.map(with));
        if at > 0 {
            all.extend(["\\", "%5c", "%2f", "%2F", "%252f", ";x=y/", ";%2f..%2f/"].map(with));
        }
    }
    let everywhere = path.replace('/', ";x=y/").replacen(";x=y", "", 1);
    all.extend([&everywhere, path].map(|path| format!("{path};x=y")));
    let behind = ["%20", " ", ".", "%2e", "/", "/.", "%2f", ";", ";x=y", ";%2fx", "/;x", "/x/.."];
    all.extend(behind.map(|end| format!("{path}{end}")));
    for at in 0..path.len() {
        all.extend(escaped_at(path, at, "%").filter(|_| at > 0));
        all.extend(escaped_at(path, at, "%25").filter(|_| at > 0));
        all.extend(escaped_at(path, at, "%u00").filter(|_| at > 0));
    }
    all.extend([path.to_uppercase(), path.to_lowercase()]);
    all.remove(path);
    all
}

/// A request with its path in another spelling.
fn respelled(text: &str) -> Vec<String> {
    let (line, fields) = text.split_once('\n').map_or((text, None), |(a, b)| (a, Some(b)));
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(a, b)| (a, Some(b)));
    let whole = |path: String| {
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let fields = fields.map(|fields| format!("\n{fields}")).unwrap_or_default();
        format!("{method} {path}{query}{fields}")
    };
    spellings(path).into_iter().map(whole).collect()
}

/// Each attack is refused however its path is spelled, by the filter and by the rules.
#[test]
fn each_stops_its_attack_in_any_spelling() {
    let (mut told, mut tried) = (Vec::new(), 0);
    for case in &cases() {
        for text in case.attacks.iter().flat_map(|attack| respelled(attack)) {
            let request = Request::read(&text);
            let seen = (refused_by_filter(case, &request), refused_by_rules(case, &request));
            tried += 1;
            if seen != (true, true) {
                told.push(format!("{}: filter and rules say {seen:?} to {text:?}", case.patch.id));
            }
        }
    }
    assert!(told.is_empty(), "{} of {tried}:\n{}", told.len(), told.join("\n"));
    assert!(tried > 10_000, "{tried}");
}

/// Paths and values of a few parts that matter, put together by chance: filter and rules see the same.
#[test]
fn filter_and_rules_agree_on_random_paths() {
    const PARTS: &[&str] = &[
        "/", "/", "/", "\\", "a", "b", "ab", ";", ";x=y", ".", "..", "/../", "%2f", "%5C", "%20",
        "%252f", "%3b", "%u002e", "%u0061", "%uff41", "%u00", "%", "+", "%00", "A", "%2541",
    ];
    const VALUES: &[&str] = &[
        "/a", "/a/b", "/a/", "//a", "//a/b/", "a", "a/b", ".a", "..", "/..", "/../a", "../a/",
        "/..;/", ";x", "/a;/b", "/", "b/../a", "/a/a/b", "/./a",
    ];
    let mut random = Random(7);
    let (mut told, mut refused) = (Vec::new(), 0);
    for value in VALUES {
        for operator in ["equals", "prefix", "suffix", "contains"] {
            let case = case(&serde_json::json!({"id": "a", "cve": "CVE-2099-1", "title": "t",
                "rule": 9_100_001, "when": [{"target": "path", operator: value}],
                "tests": {"attacks": [], "neighbours": []}}));
            for _ in 0..400 {
                let parts = (0..random.below(9)).map(|_| PARTS[random.below(PARTS.len())]);
                let target = format!("/{}", parts.collect::<String>());
                let request = Request::read(&format!("GET {target}"));
                let seen = (refused_by_filter(&case, &request), refused_by_rules(&case, &request));
                refused += u32::from(seen.0);
                if seen.0 != seen.1 {
                    told.push(format!("{operator} {value:?}: {seen:?} to {target:?}"));
                }
            }
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
    assert!((2_000..25_000).contains(&refused), "{refused}");
}

/// Numbers by chance, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % end
    }
}

/// The requests of all patches, and what becomes of them when they are written otherwise.
#[test]
fn filter_and_rules_agree() {
    let cases = cases();
    let all = cases.iter().flat_map(|case| case.attacks.iter().chain(&case.neighbours));
    let mut requests = Vec::new();
    for (i, text) in all.enumerate() {
        requests.push(text.clone());
        let (line, rest) = text.split_once('\n').map_or((text.as_str(), ""), |(a, b)| (a, b));
        let changed = match i % 6 {
            0 => line.to_uppercase(),
            1 => line.replace('/', "%2F").replacen("%2F", "/", 1),
            2 => line.replace(['.', ';'], "%2e"),
            3 => line.replace('=', "==").replace('&', "&&"),
            4 => format!("{}%", line.replace('?', "?%2?&")),
            _ => line.replace('/', "%252f").replacen("%252f", "/", 1),
        };
        requests.push(if rest.is_empty() { changed } else { format!("{changed}\n{rest}") });
    }
    let (mut told, mut refused) = (Vec::new(), 0);
    for text in &requests {
        let request = Request::read(text);
        for case in &cases {
            let seen = (refused_by_filter(case, &request), refused_by_rules(case, &request));
            refused += u32::from(seen.0);
            if seen.0 != seen.1 {
                told.push(format!("{}: filter and rules say {seen:?} to {text:?}", case.patch.id));
            }
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
    assert!(refused > 150, "{refused}");
}

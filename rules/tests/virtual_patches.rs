//! Each virtual patch stops its attack and lets its neighbour through, in the filter and as rules,
//! and both see the same in whatever else there is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction, Verdict};
use glacis_limits::patch::{
    Head, PATH_BYTES_MAX, PATH_SEGMENTS_MAX, PATTERN_BYTES_MAX, Patch, Prepared, Work,
};
use serde_json::Value;

/// A request as the tests of patches write it: a request line without version, then fields.
struct Request {
    method: String,
    target: String,
    fields: Vec<(String, String)>,
    body: String,
}

impl Request {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let (method, target) = lines.next().unwrap().split_once(' ').unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        };
        let fields = lines.map(field).collect();
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, fields, body: body.to_owned() }
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
    /// Requests with a form in the body, which only rules see.
    forms: Vec<String>,
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
    let text = format!("SecRuleEngine On\nSecRequestBodyAccess On\n{}", patch.to_seclang());
    let rules = Input::Text { name, text: text.clone() };
    let program = Program::build(&[rules], &NoFiles, Limits::default())
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let texts = |name: &str| -> Vec<String> {
        let list = value["tests"][name].as_array();
        list.into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    Case {
        patch,
        program: Arc::new(program),
        attacks: texts("attacks"),
        neighbours: texts("neighbours"),
        forms: texts("forms"),
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
    let at_headers = matches!(transaction.evaluate_request_headers(), Verdict::Deny(_));
    if !request.body.is_empty() {
        transaction.request_body(request.body.as_bytes());
    }
    at_headers || matches!(transaction.evaluate_request_body(), Verdict::Deny(_))
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

/// A patch that says that its flaw is in forms, too, is one whose rules look into them.
#[test]
fn rules_look_into_forms() {
    let cases = cases();
    let with_forms: Vec<_> = cases.iter().filter(|case| !case.forms.is_empty()).collect();
    assert!(with_forms.len() >= 5, "{}", with_forms.len());
    for case in with_forms {
        for text in &case.forms {
            let request = Request::read(text);
            assert!(refused_by_rules(case, &request), "{}: {text:?}", case.patch.id);
            let empty = Request { body: "a=b".to_owned(), ..request };
            assert!(!refused_by_rules(case, &empty), "{}: {text:?}", case.patch.id);
        }
    }
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
    // A fourth decoding is not covered.
    let depth = if path.contains("%2525") { 0 } else { path.len() };
    for at in 0..depth {
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

/// Beyond the bytes that a pattern looks at, both count it as found.
#[test]
fn filter_and_rules_agree_on_long_values() {
    let case = case(
        &serde_json::json!({"id": "a", "cve": "CVE-2099-1", "title": "t", "rule": 9_100_001,
        "when": [{"target": "path", "prefix": "/a"}, {"target": "argument", "name": "q", "regex": "b"}],
        "tests": {"attacks": [], "neighbours": []}}),
    );
    for (bytes, expected) in [(PATTERN_BYTES_MAX, false), (PATTERN_BYTES_MAX + 1, true)] {
        let request = Request::read(&format!("GET /a?q={}", "a".repeat(bytes)));
        let seen = (refused_by_filter(&case, &request), refused_by_rules(&case, &request));
        assert_eq!(seen, (expected, expected), "{bytes}");
    }
}

/// The values of all patches for a target, one after the other.
fn values_of(target: &str) -> Vec<String> {
    let files = ["appliances", "java", "web"].map(|name| format!("virtual-patches/{name}.yaml"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut values = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let patches: Vec<Value> = serde_saphyr::from_str(&text).unwrap();
        let conditions = patches.iter().flat_map(|patch| patch["when"].as_array().unwrap());
        for condition in conditions.filter(|condition| condition["target"] == target) {
            let given = ["equals", "prefix", "suffix", "contains"].map(|name| &condition[name]);
            for value in given {
                values.extend(value.as_str().map(str::to_owned));
                let list = value.as_array().into_iter().flatten();
                values.extend(list.map(|value| value.as_str().unwrap().to_owned()));
            }
        }
    }
    values
}

/// Whatever the head, what the patches compare is bounded: 1 MB takes about a millisecond.
#[test]
fn no_head_is_expensive() {
    let cases = cases();
    let full = |text: &str, bytes: usize| -> String { text.chars().cycle().take(bytes).collect() };
    let pieces: Vec<_> = values_of("path").iter().map(|value| value.replace("..", "x")).collect();
    let pieces = pieces.concat().replace(['?', '#', ' '], "/");
    let paths = [
        full("/", 55_000),
        full("/", PATH_BYTES_MAX),
        full("/a", 2 * (PATH_SEGMENTS_MAX - 1)),
        full(&pieces, PATH_BYTES_MAX),
        format!("/;{}", full("/x/..", 5 * 120)),
        format!("/;{}", full(&pieces, PATH_BYTES_MAX - 2)),
        format!("/{}", full("..", PATH_BYTES_MAX - 1)),
        format!("/{}", full("%2e", PATH_BYTES_MAX - 1)),
        format!("/{}", full("$", PATH_BYTES_MAX - 1)),
        format!("/control/main/modules/messaging/{}", full("/.", 400)),
    ];
    let names = "q=1&element_parents=a&auth=b&jsp=c&s=d&search={.&id=1&routestring=e&".to_owned();
    let query = values_of("query").concat().replace(['#', '?'], "") + "&";
    let queries = [
        String::new(),
        full("a&", 8_000),
        full(&names, 8_000),
        full(&query, 8_000),
        full("$", 8_000),
    ];
    let fields =
        ["user-agent", "referer", "cookie", "accept", "range", "content-type", "host", "x-a"];
    let (mut most, mut tried, mut refused, mut longest) = (Work::default(), 0, 0, Duration::ZERO);
    for (path, query) in
        paths.iter().flat_map(|path| queries.iter().map(move |query| (path, query)))
    {
        for method in ["GET", "POST", "PUT"] {
            let fields = fields.map(|name| (name.to_owned(), full("${jndi", 7_500)));
            let target = if query.is_empty() { path.clone() } else { format!("{path}?{query}") };
            let (method, fields) = (method.to_owned(), fields.to_vec());
            let request = Request { method, target, fields, body: String::new() };
            let judge = || {
                let (prepared, start) = (Prepared::new(&request), Instant::now());
                let matches = |case: &&Case| case.patch.matches(&prepared);
                let found =
                    if prepared.is_too_long() { 0 } else { cases.iter().filter(matches).count() };
                (prepared.work(), found, start.elapsed())
            };
            let (work, found, _) = judge();
            // The machine may be busy: the shortest of several times is the nearest to the truth.
            longest = longest.max((0..9).map(|_| judge().2).min().unwrap());
            refused += found;
            most.pattern_bytes = most.pattern_bytes.max(work.pattern_bytes);
            most.compared = most.compared.max(work.compared);
            tried += 1;
        }
    }
    println!("{tried} heads, {refused} refusals: at most {most:?}, here {longest:?}");
    assert!(most.pattern_bytes <= 5_000 && most.compared <= 1_000_000, "{most:?}");
    // The heads are expensive as far as that goes.
    assert!(most.compared >= 100_000, "{most:?}");
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
        let names = ["_=%5b=", "_=.=", "?=?%20+", "&=&%20", "==[]=", "==%00=", "==[x=", "==.="];
        let (from, to) = names[i % names.len()].split_once('=').unwrap();
        let from = if from.is_empty() { "=" } else { from };
        let renamed = line.replace(from, to);
        requests.push(if rest.is_empty() { renamed } else { format!("{renamed}\n{rest}") });
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

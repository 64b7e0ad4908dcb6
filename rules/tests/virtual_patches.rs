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

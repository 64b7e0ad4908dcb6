//! What CRS finds in arguments of forms it finds in messages of gRPC: the arguments of its own regression tests, sent once
//! as a form and once as a message, at its highest paranoia level.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{
    collections::BTreeSet,
    fs,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use glacis_engine::{
    Endpoint, Input, Limits, Program, Start, Transaction,
    body::{BodyScratch, BodySink, Room, urlencoded},
};
use glacis_rules::FileSource;
use serde::Deserialize;

const FORM: &str = "application/x-www-form-urlencoded";
const GRPC: &str = "application/grpc";

#[derive(Deserialize)]
struct Suite {
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    test_id: u32,
    stages: Vec<Stage>,
}

#[derive(Deserialize)]
struct Stage {
    #[serde(default)]
    input: Request,
}

#[derive(Default, Deserialize)]
struct Request {
    #[serde(default)]
    uri: String,
    #[serde(default)]
    data: Option<String>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
}

/// The values of arguments.
#[derive(Default)]
struct Values(Vec<Vec<u8>>);

impl BodySink for Values {
    fn argument(&mut self, _: &[u8], value: &[u8]) -> Room {
        self.0.push(value.to_vec());
        Room::Left
    }
    fn file(&mut self, _: &[u8], _: &[u8], _: &[u8]) -> Room {
        Room::Left
    }
    fn file_name(&mut self, _: &[u8], _: &[u8]) -> Room {
        Room::Left
    }
    fn part_header(&mut self, _: &[u8], _: &[u8]) -> Room {
        Room::Left
    }
    fn xml_text(&mut self, _: &[u8]) -> Room {
        Room::Left
    }
    fn xml_attribute(&mut self, _: &[u8], _: &[u8]) -> Room {
        Room::Left
    }
}

fn crs() -> PathBuf {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from)
}

/// CRS at paranoia level 4. Nothing is refused, so that all of its rules run.
fn program() -> Arc<Program> {
    let text =
        |name: &str, text: &str| Input::Text { name: name.to_owned(), text: text.to_owned() };
    let mut inputs = vec![text(
        "level.conf",
        "SecAction \"id:1,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=4,\
             setvar:tx.detection_paranoia_level=4\"\nSecRequestBodyAccess On\n\
             SecRule REQUEST_HEADERS:Content-Type \"@streq application/grpc\" \
             \"id:2,phase:1,pass,nolog,ctl:requestBodyProcessor=GRPC\"\n\
             SecRule REQUEST_HEADERS:Content-Type \"@streq application/json\" \
             \"id:3,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON\"",
    )];
    let found = glacis_rules::crs(&crs());
    inputs.extend(found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`")));
    inputs.push(text("mode.conf", "SecRuleEngine DetectionOnly"));
    Arc::new(Program::build(&inputs, &FileSource::new(), Limits::default()).unwrap())
}

/// What matched in arguments: rule, name and value, with `match_value_bytes_max` of each.
fn matches(transaction: &mut Transaction, media_type: &str, body: &[u8]) -> BTreeSet<String> {
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::ZERO;
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", b"/shop.Orders/Place", b"HTTP/2");
    for (name, value) in [("Host", "example.com"), ("Content-Type", media_type)] {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_body(body);
    transaction.evaluate_request_body();
    let mut found = BTreeSet::new();
    for rule in transaction.matched_rules() {
        for matched in rule.matches {
            let name = String::from_utf8_lossy(&matched.variable).into_owned();
            if name.starts_with("ARGS") {
                found.insert(format!("{} {name}={}", rule.id, matched.value.escape_ascii()));
            }
        }
    }
    found
}

/// Arguments with numbers for names.
fn form(values: &[Vec<u8>]) -> Vec<u8> {
    let mut form = String::new();
    for (number, value) in values.iter().enumerate() {
        let value: String = value.iter().map(|byte| format!("%{byte:02x}")).collect();
        form.push_str(&format!("{}{}={value}", if number == 0 { "" } else { "&" }, number + 1));
    }
    form.into_bytes()
}

fn push_varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

/// One message with a field for each value, in its frame.
fn message(values: &[Vec<u8>]) -> Vec<u8> {
    let mut message = Vec::new();
    for (number, value) in values.iter().enumerate() {
        push_varint((number + 1) << 3 | 2, &mut message);
        push_varint(value.len(), &mut message);
        message.extend_from_slice(value);
    }
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], &message].concat()
}

/// The values of the arguments of a test, of its query and its form.
fn values(request: &Request) -> Vec<Vec<u8>> {
    let mut values = Values::default();
    let mut scratch = BodyScratch::default();
    if let Some((_, query)) = request.uri.split_once('?') {
        urlencoded::parse(query.as_bytes(), b'&', &mut scratch, &mut values);
    }
    // A body without a type is sent as a form.
    let mut fields = request.headers.iter();
    let media_type = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let is_form = media_type.is_none_or(|(_, value)| value.starts_with(FORM));
    if let Some(data) = request.data.as_ref().filter(|_| is_form) {
        urlencoded::parse(data.as_bytes(), b'&', &mut scratch, &mut values);
    }
    values.0
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn crs_finds_in_messages_what_it_finds_in_forms() {
    let mut paths = Vec::new();
    files(&crs().join("tests"), &mut paths);
    paths.sort();
    let mut transaction = Transaction::new(program());
    let (mut compared, mut with_matches, mut wrong) = (0, 0, Vec::new());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        // One file has comments only.
        if !text.lines().any(|line| line.starts_with("tests:")) {
            continue;
        }
        let suite: Suite = serde_saphyr::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for test in suite.tests {
            let requests = test.stages.iter().map(|stage| values(&stage.input));
            for values in requests.filter(|values| !values.is_empty()) {
                let expected = matches(&mut transaction, FORM, &form(&values));
                let found = matches(&mut transaction, GRPC, &message(&values));
                compared += 1;
                with_matches += usize::from(!expected.is_empty());
                // What looks like a message is looked into besides.
                let is_within = |line: &String| {
                    line.split_once(['=', ' ']).is_some() && {
                        let name = line.split(' ').nth(1).unwrap_or_default();
                        name.split('=').next().unwrap_or_default().contains('.')
                    }
                };
                let outer: BTreeSet<_> =
                    found.into_iter().filter(|line| !is_within(line)).collect();
                if outer != expected {
                    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                    let missing: Vec<_> = expected.difference(&outer).collect();
                    let more: Vec<_> = outer.difference(&expected).collect();
                    wrong.push(format!("{name}-{}: {missing:?} {more:?}", test.test_id));
                }
            }
        }
    }
    println!("{compared} compared, {with_matches} with matches");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(with_matches > 1_000, "{with_matches} of {compared} match at all");
}

const JSON: &str = "application/json";

/// A field of variable length.
fn field(number: usize, content: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    push_varint(number << 3 | 2, &mut field);
    push_varint(content.len(), &mut field);
    [field, content.to_vec()].concat()
}

/// A message in its frame.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// What a message costs beside the same as JSON, in the steps of rules, and at most half as much more: flat messages, and
/// nested ones whose types nobody knows.
#[test]
fn messages_cost_no_more_than_one_and_a_half_times_json() {
    const NOTE: &str =
        "Please leave the parcel at the back door, thank you; the bell (2nd floor) is broken.";
    let texts = ["Jane Doe", "jane.doe@shop.example", "12 Harbour Street", "Port Louis", NOTE];
    let names = ["customer", "email", "street", "city", "note"];
    let object = |from: usize, to: usize| {
        let members = (from..to).map(|at| format!("\"{}\":\"{}\"", names[at], texts[at]));
        members.collect::<Vec<_>>().join(",")
    };
    let fields = |from: usize, to: usize| {
        (from..to).flat_map(|at| field(at - from + 1, texts[at].as_bytes())).collect::<Vec<u8>>()
    };
    let address = field(3, &fields(2, 4));
    let line = |number: usize| {
        [field(1, format!("article-{number}").as_bytes()), field(2, NOTE.as_bytes())].concat()
    };
    let lines: Vec<u8> = (0..5).flat_map(|number| field(4, &line(number))).collect();
    let lines_json: Vec<String> = (0..5)
        .map(|number| format!("{{\"article\":\"article-{number}\",\"note\":\"{NOTE}\"}}"))
        .collect();
    let mut transaction = Transaction::new(program());
    for (name, json, message) in [
        ("flat", format!("{{{}}}", object(0, 5)), fields(0, 5)),
        (
            "nested",
            format!("{{{},\"address\":{{{}}},\"note\":\"{NOTE}\"}}", object(0, 2), object(2, 4)),
            [fields(0, 2), address, field(5, NOTE.as_bytes())].concat(),
        ),
        (
            "a list",
            format!("{{{},\"lines\":[{}]}}", object(0, 2), lines_json.join(",")),
            [fields(0, 2), lines].concat(),
        ),
    ] {
        let mut cost = |media_type: &str, body: &[u8]| {
            // Once before, so that both find warm automata.
            matches(&mut transaction, media_type, body);
            let began = std::time::Instant::now();
            for _ in 0..20 {
                matches(&mut transaction, media_type, body);
            }
            (transaction.rule_steps(), began.elapsed() / 20)
        };
        let (json_steps, json_time) = cost(JSON, json.as_bytes());
        let (steps, time) = cost(GRPC, &frame(&message));
        println!("{name}: {steps} steps beside {json_steps}, {time:?} beside {json_time:?}");
        assert!(steps * 2 <= json_steps * 3, "{name}: {steps} steps beside {json_steps}");
    }
}

//! Rules and requests as data: each file under `data/transactions` holds rules, requests and what must
//! come of them. Every file runs in several ways that must not differ: the body in one piece and byte by
//! byte, in a fresh transaction (which keeps a trace) and in one that has been used before, with the fast
//! path and without.
//!
//! The sections of a file begin with a line `=== NAME`: `rules` once, then for each request `request`
//! (as on the wire, lines ended by LF, the body after a blank line, escapes \r \n \xHH resolved in the
//! body when the section is named `request escaped`), `response` if there is one, and `expect`. A
//! request named `request at 60` comes 60 seconds after the first.
//! `UPDATE_EXPECT=1 cargo test` writes what was seen into `expect`; read it before you commit it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests read their data and may fail loudly"
)]

use std::{fmt::Write as _, fs, net::Ipv4Addr, path::Path, sync::Arc, time::Duration};

use glacis_engine::{
    BodyRoom, CollectionStore, Endpoint, Flags, Geo, Input, Limits, Lookup, MemoryStore, NoFiles,
    Program, Source, SourceError, SourceFile, Start, Transaction, Verdict,
};

const ENDPOINT: Endpoint =
    Endpoint { address: std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), port: 4711 };

/// What the fixtures' host knows: where the fixtures' client is, and that a block list has it.
#[derive(Debug)]
struct Known;

impl Lookup for Known {
    fn geo(&self, address: std::net::IpAddr) -> Option<Geo> {
        (address == ENDPOINT.address).then(|| Geo {
            country_code: "DE".to_owned(),
            country_name: "Germany".to_owned(),
            city: "Bonn".to_owned(),
            ..Geo::default()
        })
    }

    fn rbl(&self, name: &str) -> Option<bool> {
        name.ends_with(".bl.example").then_some(name == "7.2.0.192.bl.example")
    }
}

fn transaction(program: &Arc<Program>) -> Transaction {
    Transaction::new(Arc::clone(program)).with_lookup(Arc::new(Known))
}

/// Data files that fixtures name, from the folder `data/files`.
struct DataFiles;

impl Source for DataFiles {
    fn read(&self, path: &str, _from: &str) -> Result<SourceFile, SourceError> {
        let full = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/files").join(path);
        let bytes =
            fs::read(&full).map_err(|error| SourceError::new(format!("{path}: {error}")))?;
        Ok(SourceFile { name: path.to_owned(), bytes })
    }

    fn list(&self, pattern: &str, _from: &str) -> Result<Vec<String>, SourceError> {
        Ok(vec![pattern.to_owned()])
    }
}

#[derive(Debug, Default)]
struct Section {
    name: String,
    text: String,
}

fn sections(text: &str) -> Vec<Section> {
    let mut list: Vec<Section> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(name) = line.strip_prefix("=== ") {
            list.push(Section { name: name.trim().to_owned(), text: String::new() });
        } else if let Some(section) = list.last_mut() {
            section.text.push_str(line);
        }
    }
    list
}

struct Message<'s> {
    first_line: Vec<&'s str>,
    headers: Vec<(&'s str, &'s str)>,
    body: Vec<u8>,
}

fn message(section: &Section) -> Message<'_> {
    let text = section.text.strip_suffix('\n').unwrap_or(&section.text);
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let first_line = lines.next().unwrap_or_default().splitn(3, ' ').collect();
    let headers = lines.map(|line| line.split_once(": ").expect("a header line")).collect();
    let body = if section.name.ends_with("escaped") {
        unescape(&body.replace('\n', ""))
    } else {
        body.as_bytes().to_vec()
    };
    Message { first_line, headers, body }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let (byte, length) = match escape.as_bytes()[0] {
            b'n' => (b'\n', 1),
            b'r' => (b'\r', 1),
            b'x' => (u8::from_str_radix(&escape[1..3], 16).unwrap(), 3),
            other => (other, 1),
        };
        out.push(byte);
        rest = &escape[length..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn feed(body: &[u8], chunk: usize, mut take: impl FnMut(&[u8]) -> BodyRoom) {
    for piece in body.chunks(chunk) {
        if take(piece) == BodyRoom::Full {
            return;
        }
    }
}

/// In pieces of this size a transaction gives memory back wherever a host waits.
const RESTING_CHUNK: usize = 7;

fn wait(transaction: &mut Transaction, chunk: usize) {
    if chunk == RESTING_CHUNK {
        transaction.rest();
    }
}

fn run(transaction: &mut Transaction, request: &Section, response: Option<&Section>, chunk: usize) {
    let later = request.name.split_once(" at ").map_or(0, |(_, seconds)| seconds.parse().unwrap());
    transaction.start(&Start {
        unique_id: "fixture",
        time: Duration::from_secs(1_735_689_600 + later),
        client: ENDPOINT,
        server: ENDPOINT,
    });
    let request = message(request);
    let [method, uri, protocol] = request.first_line[..] else { panic!("METHOD URI PROTOCOL") };
    transaction.request_line(method.as_bytes(), uri.as_bytes(), protocol.as_bytes());
    for (name, value) in &request.headers {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    wait(transaction, chunk);
    if transaction.wants_request_body() {
        feed(&request.body, chunk, |piece| transaction.request_body(piece));
    }
    transaction.evaluate_request_body();
    wait(transaction, chunk);
    if let Some(response) = response {
        let response = message(response);
        let status = response.first_line[1].parse().unwrap();
        transaction.response_line(status, response.first_line[0].as_bytes());
        for (name, value) in &response.headers {
            transaction.response_header(name.as_bytes(), value.as_bytes());
        }
        transaction.evaluate_response_headers();
        if transaction.wants_response_body() {
            feed(&response.body, chunk, |piece| transaction.response_body(piece));
        }
        transaction.evaluate_response_body();
    }
    transaction.finish(Duration::from_secs(1_735_689_601 + later));
}

fn describe(transaction: &Transaction) -> String {
    let mut out = String::new();
    match transaction.verdict() {
        Verdict::Allow => out.push_str("allow\n"),
        verdict => {
            let refusal = verdict.refusal().unwrap();
            let rule = refusal.rule.map_or_else(|| "limit".to_owned(), |id| format!("rule {id}"));
            let _ = write!(
                out,
                "{} {} by {rule} in phase {}",
                verdict.name(),
                refusal.status,
                refusal.phase.number()
            );
            if let Verdict::Redirect { location, .. } = verdict {
                let _ = write!(out, " to {location}");
            }
            out.push('\n');
        }
    }
    for rule in transaction.matched_rules() {
        let _ = write!(out, "{}", rule.id);
        if !rule.log {
            out.push_str(" (not logged)");
        }
        if !rule.msg.is_empty() {
            let _ = write!(out, " msg={}", rule.msg);
        }
        if !rule.logdata.is_empty() {
            let _ = write!(out, " logdata={}", rule.logdata.escape_debug());
        }
        for found in rule.matches {
            let name = found.variable.escape_ascii();
            let _ = write!(out, "\n    {name}={}", found.value.escape_ascii());
        }
        out.push('\n');
    }
    if transaction.flags() != Flags::default() {
        // Only what was hit is named, so that a new flag changes no fixture.
        let flags = format!("{:?}", transaction.flags());
        let flags = flags.trim_start_matches("Flags { ").trim_end_matches(" }").split(", ");
        let hit: Vec<&str> = flags.filter_map(|flag| flag.strip_suffix(": true")).collect();
        let _ = writeln!(out, "flags: {}", hit.join(", "));
    }
    out
}

/// Runs the requests of a file one after the other, with a store of their own for collections.
fn play(used: &mut Transaction, list: &[Section], chunk: usize, fresh: bool) -> Vec<String> {
    let program = Arc::clone(used.program());
    let limits = program.limits().collections();
    let store: Arc<dyn CollectionStore> = Arc::new(MemoryStore::new(16, limits));
    let new = || transaction(&program).with_collections(Arc::clone(&store));
    *used = std::mem::replace(used, new()).with_collections(Arc::clone(&store));
    let mut seen = Vec::new();
    for (at, section) in list.iter().enumerate() {
        if !section.name.starts_with("request") {
            continue;
        }
        if fresh {
            *used = new().with_trace();
        }
        let response = list.get(at + 1).filter(|next| next.name.starts_with("response"));
        run(used, section, response, chunk);
        seen.push(describe(used));
    }
    seen
}

/// A request has so many texts that may be recalled, at two for each pass.
const RECALL_PASSES: usize = 8;

fn check(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let mut list = sections(&text);
    let rules = list.iter().find(|section| section.name == "rules").expect("a section `rules`");
    let input = Input::Text { name: "rules".to_owned(), text: rules.text.clone() };
    let build = || {
        let program = Program::build(core::slice::from_ref(&input), &DataFiles, Limits::default());
        program.unwrap_or_else(|errors| panic!("{}: {errors}", path.display()))
    };
    let program = Arc::new(build());
    let mut used = transaction(&program);
    let seen = play(&mut used, &list, usize::MAX, false);
    for chunk in [1, RESTING_CHUNK] {
        let again = play(&mut used, &list, chunk, false);
        assert_eq!(again, seen, "{}: in chunks of {chunk}", path.display());
    }
    // Texts that came before are recalled, some more of them in each transaction.
    for pass in 0..RECALL_PASSES {
        let again = play(&mut used, &list, usize::MAX, false);
        assert_eq!(again, seen, "{}: recalled, pass {pass}", path.display());
    }
    let fresh = play(&mut used, &list, usize::MAX, true);
    assert_eq!(fresh, seen, "{}: in fresh transactions, with a trace", path.display());
    let mut profiled = transaction(&program).with_profile(|| 0);
    let counted = play(&mut profiled, &list, usize::MAX, false);
    assert_eq!(counted, seen, "{}: with a profile", path.display());
    let transactions = profiled.profile().map_or(0, |profile| profile.transactions);
    assert_eq!(transactions, seen.len() as u64, "{}: all are counted", path.display());
    let mut new = transaction(&Arc::new(build().without_recall()));
    let again = play(&mut new, &list, usize::MAX, false);
    assert_eq!(again, seen, "{}: with nothing recalled", path.display());
    let mut every_rule = transaction(&Arc::new(build().without_gates()));
    let slow = play(&mut every_rule, &list, usize::MAX, false);
    assert_eq!(slow, seen, "{}: without gates", path.display());
    let expectations: Vec<&mut Section> =
        list.iter_mut().filter(|section| section.name == "expect").collect();
    assert_eq!(expectations.len(), seen.len(), "{}: one `expect` per request", path.display());
    let mut wrong = false;
    for (expected, seen) in expectations.into_iter().zip(seen) {
        if expected.text != seen {
            eprintln!("{}:\n--- expected\n{}--- seen\n{seen}", path.display(), expected.text);
            expected.text = seen;
            wrong = true;
        }
    }
    if wrong && std::env::var_os("UPDATE_EXPECT").is_some() {
        let text: String =
            list.iter().map(|section| format!("=== {}\n{}", section.name, section.text)).collect();
        fs::write(path, text).unwrap();
    } else {
        assert!(!wrong, "{} differs", path.display());
    }
}

fn files(folder: &str, ending: &str) -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn transactions_come_out_as_recorded() {
    for path in files("transactions", "txt") {
        check(&path);
    }
}

/// Without a host that answers, look-ups never match, and nothing goes wrong.
#[test]
fn look_ups_that_nobody_answers_do_not_match() {
    let text = r#"SecRuleEngine On
        SecRule REMOTE_ADDR "@geoLookup" "id:1,phase:1,deny"
        SecRule REMOTE_ADDR "@rbl bl.example" "id:2,phase:1,deny""#;
    let input = Input::Text { name: "rules".to_owned(), text: text.to_owned() };
    let program = Arc::new(Program::build(&[input], &NoFiles, Limits::default()).unwrap());
    assert_eq!(program.warnings().len(), 2, "{:?}", program.warnings());
    let request = Section { name: "request".to_owned(), text: "GET / HTTP/1.1\n".to_owned() };
    for (mut transaction, verdict) in
        [(Transaction::new(Arc::clone(&program)), "allow"), (transaction(&program), "deny")]
    {
        run(&mut transaction, &request, None, usize::MAX);
        assert_eq!(transaction.verdict().name(), verdict);
    }
}

/// The host is not asked more often than the limit says.
#[test]
fn look_ups_are_bounded() {
    let text = r#"SecRuleEngine On
        SecRule ARGS "@rbl bl.example" "id:1,phase:1,pass"
        SecRule REMOTE_ADDR "@rbl bl.example" "id:2,phase:1,deny""#;
    let input = Input::Text { name: "rules".to_owned(), text: text.to_owned() };
    let limits = Limits { lookups_max: 3, ..Limits::default() };
    let program = Arc::new(Program::build(&[input], &NoFiles, limits).unwrap());
    for (query, verdict, dropped) in [("a=1&b=2", "deny", false), ("a=1&b=2&c=3", "allow", true)] {
        let request =
            Section { name: "request".to_owned(), text: format!("GET /?{query} HTTP/1.1\n") };
        let mut transaction = transaction(&program);
        run(&mut transaction, &request, None, usize::MAX);
        assert_eq!(transaction.verdict().name(), verdict);
        assert_eq!(transaction.flags().lookups_dropped, dropped);
    }
}

/// Without a store a collection ends with its transaction.
#[test]
fn collections_that_nobody_keeps_end_with_their_transaction() {
    let text = r#"SecRuleEngine On
        SecAction "id:1,phase:1,pass,nolog,initcol:ip=x,setvar:ip.n=+1,expirevar:ip.n=60"
        SecRule IP:n "@gt 1" "id:2,phase:1,deny""#;
    let input = Input::Text { name: "rules".to_owned(), text: text.to_owned() };
    let program = Arc::new(Program::build(&[input], &NoFiles, Limits::default()).unwrap());
    assert_eq!(program.warnings().len(), 1, "{:?}", program.warnings());
    let request = Section { name: "request".to_owned(), text: "GET / HTTP/1.1\n".to_owned() };
    let mut transaction = Transaction::new(program);
    for _ in 0..3 {
        run(&mut transaction, &request, None, usize::MAX);
        assert_eq!(transaction.verdict().name(), "allow");
    }
}

/// A request that is refused before the rules of phase 1 run has nothing set that they would set: what was
/// evaluated when rules were loaded is left out, too.
#[test]
fn a_request_refused_before_its_rules_is_logged_alike() {
    let text = r#"SecRuleEngine On
        SecAction "id:1,phase:1,pass,nolog,setvar:tx.level=1"
        SecRule TX:level "@lt 2" "id:2,phase:5,pass,nolog,skipAfter:END"
        SecAction "id:3,phase:5,pass,log"
        SecMarker END"#;
    let input = Input::Text { name: "rules".to_owned(), text: text.to_owned() };
    let limits = Limits { headers_max: 1, ..Limits::default() };
    let build = || Program::build(core::slice::from_ref(&input), &NoFiles, limits.clone()).unwrap();
    for program in [build(), build().without_gates()] {
        let mut transaction = transaction(&Arc::new(program));
        for (headers, expected) in [("A: b\n", vec![]), ("A: b\nC: d\n", vec![3])] {
            let text = format!("GET / HTTP/1.1\n{headers}");
            let request = Section { name: "request".to_owned(), text };
            run(&mut transaction, &request, None, usize::MAX);
            let logged: Vec<u32> = transaction.matched_rules().map(|rule| rule.id.0).collect();
            assert_eq!(logged, expected, "{headers}");
        }
    }
}

/// What the rules say of requests whose header names came before, and of those whose names did not.
#[test]
fn chains_that_leave_nothing_behind_are_left_out() {
    let text = r#"SecRuleEngine On
        SecAction "id:1,phase:1,pass,nolog,setvar:'tx.restricted=/proxy/ /x-bad/'"
        SecRule REQUEST_HEADERS_NAMES "@rx ^.*$" "id:2,phase:1,deny,log,capture,t:lowercase,logdata:'%{MATCHED_VAR}',setvar:'tx.name_%{tx.0}=/%{tx.0}/',chain"
        SecRule TX:/^name_/ "@within %{tx.restricted}" "setvar:tx.score=+1"
        SecRule TX:/name_.*seen$/ "@unconditionalMatch" "id:3,phase:2,pass,log,logdata:'%{MATCHED_VAR}'"
        SecRule TX:score "@gt 0" "id:4,phase:5,pass,log""#;
    let input = Input::Text { name: "rules".to_owned(), text: text.to_owned() };
    // Of a chain that is run, one name more than these would be flagged.
    let limits = Limits { tx_members_max: 2, ..Limits::default() };
    let build = || Program::build(core::slice::from_ref(&input), &NoFiles, limits.clone()).unwrap();
    let mut fast = transaction(&Arc::new(build()));
    let mut slow = transaction(&Arc::new(build().without_gates()));
    let requests =
        ["Host", "Host Accept", "Accept Proxy", "Seen", "Seen X-Bad", "Host Accept Connection"];
    let mut known: Vec<Vec<String>> = Vec::new();
    for round in 0..8 {
        let mut seen = Vec::new();
        for headers in requests {
            let lines = headers.split(' ').map(|name| format!("{name}: 1\n"));
            let text = format!("GET / HTTP/1.1\n{}", lines.collect::<String>());
            let request = Section { name: "request".to_owned(), text };
            let described = [&mut fast, &mut slow].map(|transaction| {
                run(transaction, &request, None, usize::MAX);
                describe(transaction)
            });
            let dropped = [&fast, &slow].map(|used| used.flags().tx_members_dropped);
            if headers == "Host Accept Connection" {
                assert_eq!(dropped, [false, true], "left out, and run: round {round}");
            } else {
                assert_eq!(described[0], described[1], "{headers}, round {round}");
            }
            seen.push(format!("{} steps: {}", fast.rule_steps(), described[0]));
        }
        known.push(seen);
    }
    assert!(known.iter().all(|round| *round == known[0]), "{known:?}");
}

/// Hosts have response bodies sent for rules that run, not for those that are removed.
#[test]
fn rules_that_are_removed_ask_for_no_body() {
    for (removal, asked) in [("", true), ("SecRuleRemoveById 1", false)] {
        let text = format!(
            r#"SecResponseBodyAccess On
            SecRule REQUEST_URI "@rx a" "id:1,phase:4,pass,chain"
            SecRule RESPONSE_BODY "@rx a"
            {removal}"#
        );
        let input = Input::Text { name: "rules".to_owned(), text };
        let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
        assert_eq!(program.inspects_response_body(), asked, "{removal}");
    }
}

/// Hosts collect a body where rules look at it, are given it, and have not decided yet.
#[test]
fn bodies_of_requests_are_asked_for_where_they_are_looked_at() {
    const LOOKS: &str = r#"SecRule REQUEST_BODY "@rx a" "id:1,phase:2,deny""#;
    for (directives, wanted) in [
        ("SecRuleEngine On\nSecRequestBodyAccess On", true),
        ("SecRuleEngine DetectionOnly\nSecRequestBodyAccess On", true),
        ("SecRuleEngine Off\nSecRequestBodyAccess On", false),
        ("SecRuleEngine On\nSecRequestBodyAccess Off", false),
        ("SecRuleEngine On\nSecRequestBodyAccess On\nSecAction id:2,phase:1,deny", false),
        ("SecRuleEngine On\nSecRequestBodyAccess On\nSecAction id:2,phase:1,allow", false),
        (
            "SecRuleEngine On\nSecRequestBodyAccess On\nSecAction id:2,phase:1,pass,ctl:requestBodyAccess=Off",
            false,
        ),
    ] {
        let text = format!("{directives}\n{LOOKS}");
        let input = Input::Text { name: "rules".to_owned(), text };
        let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
        let mut transaction = transaction(&Arc::new(program));
        assert!(!transaction.wants_request_body(), "{directives}: before it has begun");
        transaction.start(&Start {
            unique_id: "fixture",
            time: Duration::ZERO,
            client: ENDPOINT,
            server: ENDPOINT,
        });
        transaction.request_line(b"POST", b"/", b"HTTP/1.1");
        assert!(!transaction.wants_request_body(), "{directives}: before phase 1");
        transaction.evaluate_request_headers();
        assert_eq!(transaction.wants_request_body(), wanted, "{directives}");
        transaction.evaluate_request_body();
        assert!(!transaction.wants_request_body(), "{directives}: behind phase 2");
    }
}

/// Also rules of later phases look at arguments and uploads.
#[test]
fn bodies_of_requests_are_asked_for_by_later_phases() {
    for (rule, wanted) in [
        (r#"SecRule ARGS "@rx a" "id:1,phase:3,pass""#, true),
        (r#"SecRule ARGS_POST_NAMES "@rx a" "id:1,phase:4,pass""#, true),
        (r#"SecRule &FILES "@eq 0" "id:1,phase:5,pass""#, true),
        (r#"SecRule ARGS_GET "@rx a" "id:1,phase:3,pass""#, false),
        (r#"SecRule ARGS "@rx a" "id:1,phase:1,pass""#, false),
        ("SecRule ARGS \"@rx a\" \"id:1,phase:3,pass\"\nSecRuleRemoveById 1", false),
    ] {
        let text = format!("SecRuleEngine On\nSecRequestBodyAccess On\n{rule}");
        let input = Input::Text { name: "rules".to_owned(), text };
        let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
        assert_eq!(program.inspects_request_body(), wanted, "{rule}");
    }
}

/// Hosts show responses to rulesets that look at them only to log.
#[test]
fn rules_of_the_last_phase_ask_for_what_they_look_at() {
    for (rule, asked) in [
        (r#"SecRule RESPONSE_STATUS "@rx ^5" "id:1,phase:5,pass""#, true),
        (r#"SecRule &RESPONSE_HEADERS "@eq 0" "id:1,phase:5,pass""#, true),
        (r#"SecRule OUTBOUND_DATA_ERROR "@eq 1" "id:1,phase:5,pass""#, true),
        (
            r#"SecRule TX:a "@eq 1" "id:1,phase:5,pass,chain"
            SecRule RESPONSE_STATUS "@rx ^5""#,
            true,
        ),
        (r#"SecRule RESPONSE_STATUS "@rx ^5" "id:1,phase:2,pass""#, false),
        (r#"SecRule MSC_STEPS_LIMIT_EXCEEDED "@eq 1" "id:1,phase:5,pass""#, false),
        ("SecRule RESPONSE_STATUS \"@rx ^5\" \"id:1,phase:5,pass\"\nSecRuleRemoveById 1", false),
    ] {
        let input = Input::Text { name: "rules".to_owned(), text: rule.to_owned() };
        let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
        assert_eq!(program.inspects_response(), asked, "{rule}");
    }
}

/// What a rule says of itself comes with its match.
#[test]
fn matches_bring_what_their_rule_says() {
    let text = r#"SecRuleEngine On
        SecAction "id:1,phase:1,pass,log,severity:2,tag:one,tag:two,rev:'3',ver:'four',maturity:9,accuracy:0"
        SecAction "id:2,phase:2,pass,nolog,auditlog""#;
    let input = Input::Text { name: "rules.conf".to_owned(), text: text.to_owned() };
    let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
    let mut transaction = transaction(&Arc::new(program));
    let request = Section { name: "request".to_owned(), text: "GET / HTTP/1.1\n".to_owned() };
    run(&mut transaction, &request, None, usize::MAX);
    let told = transaction.matched_rules().map(|rule| {
        let tags: Vec<&str> = rule.tags.iter().map(|tag| &**tag).collect();
        let about = (rule.severity, rule.severity_name(), rule.rev, rule.ver);
        let place = (rule.file, rule.line, rule.phase.number());
        let rest = (rule.maturity, rule.accuracy, rule.log, rule.audit_log);
        format!("{} {tags:?} {about:?} {place:?} {rest:?}", rule.id)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            r#"1 ["one", "two"] (Some(2), "CRITICAL", "3", "four") ("rules.conf", 2, 1) (Some(9), Some(0), true, true)"#,
            r#"2 [] (None, "", "", "") ("rules.conf", 3, 2) (None, None, false, true)"#,
        ]
    );
}

/// Each `data/warnings/NAME.conf` is accepted with exactly the warnings of `NAME.txt`.
#[test]
fn what_does_nothing_is_warned_of() {
    for path in files("warnings", "conf") {
        let text = fs::read_to_string(&path).unwrap();
        let input = Input::Text { name: "rules.conf".to_owned(), text };
        let inputs = [input];
        let program = Program::build(&inputs, &NoFiles, Limits::default())
            .unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
        Program::check(&inputs, &NoFiles, Limits::default()).unwrap();
        let seen: String = program.warnings().iter().flat_map(|w| [w.as_str(), "\n"]).collect();
        let expected = path.with_extension("txt");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&expected, &seen).unwrap();
        }
        assert_eq!(fs::read_to_string(&expected).unwrap_or_default(), seen, "{}", path.display());
    }
}

/// Each `data/refused/NAME.conf` is refused with exactly the messages of `NAME.err`.
#[test]
fn what_is_not_supported_is_refused() {
    for path in files("refused", "conf") {
        let text = fs::read_to_string(&path).unwrap();
        let inputs = [Input::Text { name: "rules.conf".to_owned(), text }];
        let errors = Program::build(&inputs, &NoFiles, Limits::default())
            .expect_err(&format!("{} must be refused", path.display()));
        // The check finds all of it, but for automata that are too large.
        let checked = Program::check(&inputs, &NoFiles, Limits::default());
        let checked = checked.err().map(|errors| errors.to_string());
        if !errors.errors().iter().any(|error| error.message().contains("bytes of automaton")) {
            assert_eq!(checked.as_ref(), Some(&errors.to_string()), "{}", path.display());
        }
        let seen = format!("{errors}\n");
        let expected = path.with_extension("err");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&expected, &seen).unwrap();
        }
        assert_eq!(fs::read_to_string(&expected).unwrap_or_default(), seen, "{}", path.display());
    }
}

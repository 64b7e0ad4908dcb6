//! Rules and requests as data: each file under `data/transactions` holds rules, requests and what must
//! come of them. Every file runs in several ways that must not differ: the body in one piece and byte by
//! byte, in a fresh transaction and in one that has been used before, with the fast path and without.
//!
//! The sections of a file begin with a line `=== NAME`: `rules` once, then for each request `request`
//! (as on the wire, lines ended by LF, the body after a blank line, escapes \r \n \xHH resolved in the
//! body when the section is named `request escaped`), `response` if there is one, and `expect`.
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
    BodyRoom, Endpoint, Flags, Input, Limits, NoFiles, Program, Start, Transaction, Verdict,
};

const ENDPOINT: Endpoint =
    Endpoint { address: std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), port: 4711 };

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

fn run(transaction: &mut Transaction, request: &Section, response: Option<&Section>, chunk: usize) {
    transaction.start(&Start {
        unique_id: "fixture",
        time: Duration::from_secs(1_735_689_600),
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
    if transaction.wants_request_body() {
        feed(&request.body, chunk, |piece| transaction.request_body(piece));
    }
    transaction.evaluate_request_body();
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
    transaction.finish(Duration::from_secs(1_735_689_601));
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
        let _ = writeln!(out, "{:?}", transaction.flags());
    }
    out
}

fn check(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let mut list = sections(&text);
    let rules = list.iter().find(|section| section.name == "rules").expect("a section `rules`");
    let input = Input::Text { name: "rules".to_owned(), text: rules.text.clone() };
    let build = || {
        let program = Program::build(core::slice::from_ref(&input), &NoFiles, Limits::default());
        program.unwrap_or_else(|errors| panic!("{}: {errors}", path.display()))
    };
    let program = Arc::new(build());
    let every_rule = Arc::new(build().without_gates());
    let mut used = Transaction::new(Arc::clone(&program));
    let mut seen = Vec::new();
    for (at, section) in list.iter().enumerate() {
        if !section.name.starts_with("request") {
            continue;
        }
        let response = list.get(at + 1).filter(|next| next.name.starts_with("response"));
        run(&mut used, section, response, usize::MAX);
        let once = describe(&used);
        for chunk in [1, 7] {
            run(&mut used, section, response, chunk);
            assert_eq!(describe(&used), once, "{}: in chunks of {chunk}", path.display());
        }
        for (program, how) in [(&program, "in a fresh transaction"), (&every_rule, "without gates")]
        {
            let mut fresh = Transaction::new(Arc::clone(program));
            run(&mut fresh, section, response, usize::MAX);
            assert_eq!(describe(&fresh), once, "{}: {how}", path.display());
        }
        seen.push(once);
    }
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

/// Each `data/refused/NAME.conf` is refused with exactly the messages of `NAME.err`.
#[test]
fn what_is_not_supported_is_refused() {
    for path in files("refused", "conf") {
        let text = fs::read_to_string(&path).unwrap();
        let input = Input::Text { name: "rules.conf".to_owned(), text };
        let errors = Program::build(&[input], &NoFiles, Limits::default())
            .expect_err(&format!("{} must be refused", path.display()));
        let seen = format!("{errors}\n");
        let expected = path.with_extension("err");
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&expected, &seen).unwrap();
        }
        assert_eq!(fs::read_to_string(&expected).unwrap_or_default(), seen, "{}", path.display());
    }
}

//! `glacis ftw`: in process, and against a server that this test plays.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{
    fs::{self, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use run::{expect, glacis, glacis_with};

const FTW: &str = "ftw --tests ftw/tests --rules ftw/rules.conf";

#[test]
fn reports() {
    let table = [
        ("report.txt", "", 1, ""),
        ("report.json", "--json", 1, ""),
        (
            "overridden.txt",
            "--overrides ftw/overrides.yaml",
            1,
            "warning: override of 9-9: there is no such test\n",
        ),
        ("overridden.txt", "--overrides ftw/overrides.yaml --quiet", 1, ""),
        ("passing.txt", "--only 1-", 0, ""),
        ("one.txt", "--only 1-6 --only 2-3", 1, ""),
        ("report.txt", "--jobs 4", 1, ""),
        ("needless.txt", "--overrides ftw/needless.yaml --only 1-", 1, ""),
    ];
    for (golden, options, status, stderr) in table {
        let ran = glacis(&format!("{FTW} {options}"), b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(status), stderr), "{options}");
        expect(&format!("ftw/{golden}"), &ran.stdout);
    }
}

#[test]
fn requests_go_to_a_proxy() {
    let audit_log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ftw-audit.jsonl");
    fs::write(&audit_log, "a record of an earlier time\n").unwrap();
    let url = serve(&audit_log);
    let audit_log = audit_log.to_str().unwrap();
    // Tests without a record wait for it: together, not one after the other.
    let arguments = "ftw --tests ftw/url --jobs 4 --url".split(' ');
    let arguments: Vec<_> = arguments.chain([&*url, "--audit-log", audit_log]).collect();
    let ran = glacis_with(&arguments, b"");
    expect("ftw/url.txt", &ran.stdout.replace(&url["http://".len()..], "ADDRESS"));
    let ran = glacis_with(&["ftw", "--tests", "ftw/url", "--url", &url], b"");
    expect("ftw/url_without_log.txt", &ran.stdout.replace(&url["http://".len()..], "ADDRESS"));
}

/// A proxy of sorts: refuses what has `attack` in it, echoes the rest, and writes audit records about
/// what is not `lost`.
fn serve(audit_log: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let audit_log = audit_log.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &audit_log);
        }
    });
    format!("http://{address}")
}

fn answer(stream: TcpStream, audit_log: &Path) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let length = header("Content-Length:").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let request_id = header("x-request-id:").unwrap().to_owned();
    if head.contains("/close") {
        return;
    }
    let mut stream = reader.into_inner();
    let attack = head.contains("/attack");
    if attack {
        write!(stream, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap();
    } else {
        let echo = head.replace(&request_id, "ID") + &String::from_utf8(body).unwrap();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{echo}", echo.len()).unwrap();
    }
    if !head.contains("lost") {
        let rules = if attack { r#"{"id":100,"msg":"m","logdata":"within ARGS:a"}"# } else { "" };
        let cut = if head.contains("cut") { r#","rules_omitted":1"# } else { "" };
        write_slowly(
            audit_log,
            &format!(r#"{{"request_id":"{request_id}","rules":[{rules}]{cut}}}"#),
        );
    }
}

/// After the answer, and not all at once.
fn write_slowly(audit_log: &Path, record: &str) {
    let mut log = OpenOptions::new().append(true).open(audit_log).unwrap();
    let (first, second) = record.split_at(record.len() / 2);
    for piece in [first, second, "\n"] {
        thread::sleep(Duration::from_millis(20));
        write!(log, "{piece}").unwrap();
    }
}

//! `glacis eval`: answers, malformed lines, threads, chunks, measuring.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use run::{data, expect, glacis};

const EVAL: &str = "eval --rules eval/rules.conf";

/// The answers do not depend on threads, on the pieces of a body, or on where the input comes from.
#[test]
fn answers() {
    let input = std::fs::read(data().join("eval/requests.jsonl")).unwrap();
    let table = [
        ("eval/requests.jsonl", ""),
        ("eval/requests.jsonl", "--jobs 3"),
        ("eval/requests.jsonl", "--body-chunk 1"),
        ("eval/requests.jsonl", "--body-chunk 3 --jobs 2"),
        ("-", ""),
        ("", ""),
    ];
    for (requests, options) in table {
        let ran = glacis(&format!("{EVAL} {options} {requests}"), &input);
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{requests} {options}");
        expect("eval/answers.jsonl", &ran.stdout);
    }
}

#[test]
fn detection_only_reports_and_allows() {
    let arguments = format!("{EVAL} --rules eval/detection.conf eval/requests.jsonl");
    let ran = glacis(&arguments, b"");
    assert_eq!(ran.status, Some(0));
    expect("eval/detected.jsonl", &ran.stdout);
    assert!(ran.stdout.lines().all(|line| line.contains(r#""action":"allow""#)));
}

#[test]
fn malformed_lines_are_answered() {
    for options in ["", "--jobs 4"] {
        let ran = glacis(&format!("{EVAL} {options} eval/malformed.jsonl"), b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""));
        expect("eval/malformed.answers.jsonl", &ran.stdout);
    }
}

/// A line beyond the limit is answered, and the next one is read from its beginning.
#[test]
fn long_lines_are_refused() {
    let request = r#"{"id":1,"method":"GET","uri":"/","protocol":"HTTP/1.1"}"#;
    let mut input = vec![b' '; (64 << 20) + 10];
    input.extend_from_slice(b"\n");
    input.extend_from_slice(request.as_bytes());
    let ran = glacis(EVAL, &input);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(ran.status, Some(1));
    assert_eq!(lines[0], r#"{"id":null,"error":"line 1: longer than 67108864 bytes"}"#);
    assert!(lines[1].starts_with(r#"{"id":1,"action":"allow""#), "{}", lines[1]);
    assert_eq!(lines.len(), 2);
}

/// Whoever writes one line and waits gets its answer.
#[test]
fn answers_come_line_by_line() {
    for jobs in ["1", "2"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_glacis"))
            .args(["eval", "--rules", "eval/rules.conf", "--jobs", jobs])
            .current_dir(data())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for id in 0..3 {
            let request =
                format!(r#"{{"id":{id},"method":"GET","uri":"/","protocol":"HTTP/1.1"}}"#);
            writeln!(stdin, "{request}").unwrap();
            let mut answer = String::new();
            stdout.read_line(&mut answer).unwrap();
            assert!(answer.starts_with(&format!(r#"{{"id":{id},"#)), "{answer}");
        }
        drop(stdin);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let input = std::fs::read(data().join("eval/requests.jsonl")).unwrap().repeat(2_000);
    let mut child = Command::new(env!("CARGO_BIN_EXE_glacis"))
        .args(["eval", "--rules", "eval/rules.conf"])
        .current_dir(data())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    assert!(stdin.write_all(&input).is_err(), "it should have ended before the end of its input");
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// The report has a value above zero everywhere, and counts every class.
#[test]
fn bench_reports_by_class() {
    for options in ["", "--reuse"] {
        let ran = glacis(&format!("{EVAL} --bench 0.05 {options} eval/requests.jsonl"), b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
        let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let classes = report["classes"].as_object().unwrap();
        let names: Vec<&str> = classes.keys().map(String::as_str).collect();
        assert_eq!(names, ["attack", "clean", "default"]);
        let mut count = 0;
        for statistics in classes.values().chain([&report["all"]]) {
            for field in ["count", "median_ns", "p99_ns", "mean_ns", "bytes_per_s"] {
                assert!(statistics[field].as_f64().unwrap() > 0.0, "{field}: {statistics}");
            }
            assert!(statistics["median_ns"].as_u64() <= statistics["p99_ns"].as_u64());
        }
        for statistics in classes.values() {
            count += statistics["count"].as_u64().unwrap();
        }
        assert_eq!(Some(count), report["all"]["count"].as_u64());
        assert!(report["load_ms"].as_f64().unwrap() > 0.0);
        assert!(report["rss_bytes"].as_u64().unwrap() > 0);
    }
}

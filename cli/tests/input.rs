//! `glacis eval` and `explain` on what people have: URLs, request lines, raw HTTP, HAR and curl commands.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::{Ran, glacis, glacis_with};

const RAW: &str = "POST /?a=1 HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                   Content-Length: 6\r\n\r\nq=evil\n";

const HAR: &str = r#"{"log": {"entries": [{"request": {"method": "GET", "url": "https://h/?q=evil",
    "httpVersion": "HTTP/2", "headers": [{"name": ":authority", "value": "h"}]}}]}}"#;

fn eval(arguments: &[&str], input: &str) -> Ran {
    let mut all = vec!["eval", "--rules", "input/rules.conf"];
    all.extend(arguments);
    glacis_with(&all, input.as_bytes())
}

/// Each has `q=evil` in it, which the rules block.
#[test]
fn requests_are_read_from_what_there_is() {
    let curl = "curl 'https://h/' -H 'X: 1' --data-raw 'q=evil' --compressed";
    let line =
        r#"{"id":1,"method":"GET","uri":"/?q=evil","protocol":"HTTP/1.1","headers":{"Host":"h"}}"#;
    for (arguments, input) in [
        (vec!["http://h/?q=evil"], ""),
        (vec!["GET /?q=evil HTTP/1.1"], ""),
        (vec!["GET /?q=evil"], ""),
        (vec!["--", "curl", "-s", "https://h/", "-d", "q=evil"], ""),
        (vec![curl], ""),
        (vec!["-"], curl),
        (vec!["-"], RAW),
        (vec![], RAW),
        (vec!["-"], HAR),
        (vec!["-"], line),
        (vec![line], ""),
    ] {
        let ran = eval(&arguments, input);
        assert_eq!(ran.status, Some(0), "{arguments:?} {input}: {}", ran.stderr);
        assert!(ran.stdout.contains(r#""action":"deny""#), "{arguments:?} {input}: {}", ran.stdout);
        assert_eq!(ran.stdout.lines().count(), 1, "{arguments:?} {input}: {}", ran.stdout);
    }
}

#[test]
fn what_is_ignored_or_added_is_said() {
    let ran = eval(&["--", "curl", "-k", "-o", "/dev/null", "http://h/"], "");
    assert_eq!(ran.stderr, "note: options without effect on the request are ignored: -k -o\n");
    let ran = eval(&["GET / HTTP/1.1"], "");
    assert_eq!(ran.stderr, "note: headers added: Host: localhost, User-Agent, Accept\n");
    for (arguments, expected) in [
        (vec!["--", "curl", "--nonsense", "http://h/"], "curl: --nonsense: no option of curl"),
        (vec!["--", "wget", "http://h/"], "begins with `curl`"),
    ] {
        let ran = eval(&arguments, "");
        assert_eq!(ran.status, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn explain_reads_the_same() {
    let ran = glacis_with(
        &["explain", "--rules", "input/rules.conf", "--", "curl", "http://h/?q=evil"],
        b"",
    );
    assert_eq!(ran.status, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.contains("It is refused by rule 1"), "{}", ran.stdout);
}

#[test]
fn verdicts_are_compared_with_what_is_expected() {
    let requests = "input/requests.jsonl";
    for (expect, status, expected) in [
        ("input/expected.txt", 0, ""),
        ("input/answers.jsonl", 0, ""),
        (
            "blocked",
            3,
            "request 2 (id \"fine\"): expected blocked, is passed; matched rules: none\n1 of 2 verdicts differ\n",
        ),
        (
            "passed",
            3,
            "request 1 (id \"evil\"): expected passed, is blocked; matched rules: 1\n1 of 2 verdicts differ\n",
        ),
        ("input/short.txt", 3, "1 verdicts are expected, of 2 requests\n"),
        ("input/none.txt", 1, "input/none.txt: No such file or directory (os error 2)\n"),
        (
            "input/rules.conf",
            1,
            "input/rules.conf: line 1: write blocked, passed, or an answer of `glacis eval`\n",
        ),
    ] {
        let ran =
            glacis(&format!("eval --rules input/rules.conf --expect {expect} {requests}"), b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(status), expected), "{expect}");
    }
    let ran = glacis("eval --rules input/rules.conf --expect passed", b"");
    assert_eq!(ran.status, Some(3), "nothing was compared");
}

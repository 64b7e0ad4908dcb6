//! Wrong usage, bad input, help: status and a message, never a backtrace.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::glacis;

/// Status, and what standard error has to say (nothing when empty).
#[test]
fn messages() {
    let table = [
        ("", 2, "Usage: glacis <COMMAND>"),
        ("nonsense", 2, "unrecognized subcommand 'nonsense'"),
        ("evla", 2, "tip: some similar subcommands exist: 'explain', 'eval'"),
        ("lint --stric x", 2, "tip: a similar argument exists: '--strict'"),
        ("--nonsense", 2, "unexpected argument '--nonsense' found"),
        ("lint", 2, "lint needs at least one file"),
        ("lint --rules x", 2, "unexpected argument '--rules' found"),
        ("lint nowhere.conf", 1, ""),
        ("eval", 2, "eval needs --rules FILE"),
        ("eval --every-rule --no-recall eval/requests.jsonl", 2, "eval needs --rules FILE"),
        ("eval --rules", 2, "a value is required for '--rules <FILE>'"),
        ("eval --rules eval/rules.conf one two", 2, "unexpected argument 'two' found"),
        ("eval --rules eval/rules.conf --jobs 0", 2, "write a number from 1 to 1024"),
        ("eval --rules eval/rules.conf --jobs many", 2, "write a number from 1 to 1024"),
        ("eval --rules eval/rules.conf --body-chunk 0", 2, "write a number from 1 to"),
        ("eval --rules eval/rules.conf --bench -1", 2, "write a number of seconds"),
        ("eval --rules eval/rules.conf --bench NaN", 2, "write a number of seconds"),
        ("eval --rules eval/rules.conf --bench 1 --jobs 2", 2, "--bench measures one thread"),
        ("eval --rules eval/rules.conf --reuse", 2, "--bench <SECONDS>"),
        ("eval --rules eval/rules.conf --each", 2, "--bench <SECONDS>"),
        ("eval --rules eval/rules.conf nowhere.jsonl", 1, "nowhere.jsonl: No such file"),
        ("eval --rules eval", 1, "eval: Is a directory"),
        ("eval --rules lint/directive.conf", 1, "lint/directive.conf:1:15: "),
        ("eval --crs eval", 1, "eval: no crs-setup.conf"),
        ("eval --crs nowhere", 1, "nowhere: there is no such folder"),
        ("eval --defaults own", 2, "[possible values: glacis, crs]"),
        (
            "eval --rules eval/rules.conf --bench 1 eval/malformed.jsonl",
            1,
            "eval/malformed.jsonl: line 1: ",
        ),
        ("eval --rules eval/rules.conf --bench 1 eval/empty.jsonl", 1, "there is no request"),
        ("explain explain/small.jsonl", 2, "explain needs --rules FILE"),
        (
            "explain --rules eval/rules.conf eval/malformed.jsonl",
            1,
            "eval/malformed.jsonl: line 1: ",
        ),
        ("explain --rules eval/rules.conf eval/empty.jsonl", 1, "there is no such request"),
        (
            "explain --rules explain/rules.conf --id x explain/small.jsonl",
            1,
            "there is no such request",
        ),
        ("learn", 2, "learn needs --rules FILE"),
        ("learn --base --min-days -1", 2, "invalid value '-1' for '--min-days <N>'"),
        ("bundle", 2, "bundle needs --rules FILE"),
        ("profile eval/requests.jsonl", 2, "profile needs --rules FILE"),
        ("profile --rules eval/rules.conf --passes 0", 2, "write a number from 1 to"),
        ("profile --rules eval/rules.conf --top -1", 2, "invalid value '-1' for '--top <N>'"),
        ("profile --rules eval/rules.conf eval/empty.jsonl", 1, "there is no request"),
        (
            "profile --rules eval/rules.conf eval/malformed.jsonl",
            1,
            "eval/malformed.jsonl: line 1: ",
        ),
        ("ftw --rules eval/rules.conf", 2, "--tests <PATH>"),
        ("status --admin", 2, "a value is required for '--admin <HOST:PORT>'"),
        ("status --admin nowhere", 4, "nowhere: "),
        ("status --admin 127.0.0.1:1", 4, "127.0.0.1:1: Connection refused"),
        ("patches", 2, "<FORM> <FILE>..."),
        ("patches seclang", 2, "<FILE>..."),
        ("patches filter nowhere.yaml", 1, "nowhere.yaml: No such file"),
        ("geo", 2, "Usage: glacis geo <COMMAND>"),
        ("geo build", 2, "<FILE.mmdb>"),
        ("geo build --only 64496 nowhere.mmdb", 2, "--asn"),
        ("geo build --asn --only x nowhere.mmdb", 2, "numbers of autonomous systems are written"),
        ("geo build nowhere.mmdb", 1, "nowhere.mmdb: "),
        ("geo build eval/rules.conf", 1, "eval/rules.conf: "),
        ("ftw --tests ftw/tests", 2, "ftw needs --rules FILE"),
        ("ftw --tests eval --rules eval/rules.conf", 1, "eval: there are no test files"),
        ("ftw --tests ftw/tests --url localhost:80", 2, "begins with http://"),
        ("ftw --tests ftw/tests --url http:///x", 2, "it names no host"),
        ("ftw --tests ftw/tests --url http://h --rules x", 2, "leave out --rules"),
        ("ftw --tests ftw/tests --audit-log x --rules y", 2, "--audit-log is for --url"),
        ("ftw --tests ftw/bad/unknown.yaml --rules eval/rules.conf", 1, "ftw/bad/unknown.yaml:5:"),
        (
            "ftw --tests ftw/bad/syntax.yaml --rules eval/rules.conf",
            1,
            "ftw/bad/syntax.yaml:1:10: ",
        ),
        (
            "ftw --tests ftw/tests --rules eval/rules.conf --overrides ftw/bad/reason.yaml",
            1,
            "1-1: there is no reason",
        ),
        (
            "ftw --tests ftw/tests --rules eval/rules.conf --overrides ftw/bad/neither.yaml",
            1,
            "1-1: either `skip: true` or `expect` is needed",
        ),
        (
            "ftw --tests ftw/tests --rules eval/rules.conf --overrides ftw/bad/twice.yaml",
            1,
            "1-1: named twice",
        ),
        (
            "ftw --tests ftw/tests --rules eval/rules.conf --overrides ftw/bad/none.yaml",
            1,
            "an override names no test",
        ),
        ("ftw --tests ftw/tests --rules eval/rules.conf --jobs 0", 2, "write a number from 1"),
        ("doctor", 2, "doctor needs something to check"),
        ("doctor --config a --crs b", 2, "leave out --rules"),
        ("doctor --config nowhere.yaml", 1, "nowhere.yaml: No such file"),
        ("doctor --config eval/malformed.jsonl", 1, "eval/malformed.jsonl: "),
        ("doctor --envoy nowhere.yaml", 1, "nowhere.yaml: No such file"),
        ("doctor --envoy-admin 127.0.0.1:1", 4, "127.0.0.1:1: Connection refused"),
        ("doctor --admin http://127.0.0.1:1/", 4, "127.0.0.1:1: Connection refused"),
        ("doctor --crs nowhere --ignore GD999", 2, "there is no check of this id"),
        ("bans", 2, "Usage: glacis bans"),
        ("bans add 192.0.2.1", 2, "--seconds"),
        ("bans list --seconds 1", 2, "unexpected argument '--seconds'"),
        ("bans remove 192.0.2.1 192.0.2.2", 2, "unexpected argument '192.0.2.2'"),
        ("bans list --admin 127.0.0.1:1", 4, "127.0.0.1:1"),
        ("bans list --token-file no/such/file", 1, "no/such/file"),
        ("status --admin 127.0.0.1:1 --token-file no/such/file", 1, "no/such/file"),
    ];
    for (arguments, status, message) in table {
        let ran = glacis(arguments, b"");
        assert_eq!(ran.status, Some(status), "{arguments}: {ran:?}");
        assert!(ran.stderr.contains(message), "{arguments}: {ran:?}");
        assert_eq!(ran.stderr.is_empty(), message.is_empty(), "{arguments}: {ran:?}");
        assert!(!ran.stderr.contains("panicked"), "{arguments}: {ran:?}");
    }
}

#[test]
fn help_is_a_result() {
    for (arguments, text) in [
        ("--help", "Usage: glacis <COMMAND>"),
        ("help", "Usage: glacis <COMMAND>"),
        ("help eval", "Usage: glacis eval"),
        ("version", "for CRS 4.25.0)"),
        ("-V", "(commit "),
        ("completions bash", "_glacis()"),
        ("completions zsh", "#compdef glacis"),
        ("completions fish", "complete -c glacis"),
        ("man", ".TH glacis 1"),
        ("man eval", ".TH glacis-eval 1"),
        ("--version", "glacis 0."),
        ("lint --help", "Usage: glacis lint"),
        ("eval -h", "Usage: glacis eval"),
        ("explain --help", "Usage: glacis explain"),
        ("learn --help", "Usage: glacis learn"),
        ("profile --help", "Usage: glacis profile"),
        ("ftw --help", "Usage: glacis ftw"),
        ("geo build --help", "Usage: glacis geo build"),
        ("patches --help", "Usage: glacis patches"),
        ("status --help", "Usage: glacis status"),
        ("doctor --help", "Usage: glacis doctor"),
        ("bans --help", "Usage: glacis bans"),
        ("import --help", "Usage: glacis import"),
        ("bundle --help", "Usage: glacis bundle"),
    ] {
        let ran = glacis(arguments, b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{arguments}");
        assert!(ran.stdout.contains(text), "{arguments}: {ran:?}");
    }
}

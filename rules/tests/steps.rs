//! What requests cost with the whole of CRS at its highest paranoia level, in the engine's steps: no
//! ordinary request comes near the limit, and the worst one is cut off at it.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, Program, Start, Transaction};
use glacis_rules::FileSource;

const MIB: usize = 1 << 20;
const FORM: &str = "application/x-www-form-urlencoded";
const TEXT: &str = "The quick brown fox jumps over the lazy dog (10 of 12), isn't it; ";
const ATTACK: &str = "1' or '1'='1 union select <script>alert(1)</script> ../../etc/passwd ; cat \
                      /bin/sh \\u0041 0x41 -- /* x */ ${jndi:ldap} ";

/// CRS at paranoia level 4. Nothing is refused, so that all of its rules run.
fn program(steps_max: usize) -> Arc<Program> {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let crs = std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from);
    let text = |name: &str, text: String| Input::Text { name: name.to_owned(), text };
    let mut inputs = vec![text(
        "level.conf",
        "SecAction \"id:1,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=4,\
         setvar:tx.detection_paranoia_level=4\""
            .to_owned(),
    )];
    let found = glacis_rules::crs(&crs);
    inputs.extend(found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`")));
    let mode = format!("SecRuleEngine DetectionOnly\nSecRuleStepsLimit {steps_max}");
    inputs.push(text("mode.conf", mode));
    Arc::new(Program::build(&inputs, &FileSource::new(), Limits::default()).unwrap())
}

fn run(
    program: &Arc<Program>,
    uri: &str,
    headers: &[(String, String)],
    media_type: &str,
    body: &str,
) -> Transaction {
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::ZERO;
    transaction.start(&Start { unique_id: "steps", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", uri.as_bytes(), b"HTTP/1.1");
    transaction.request_header(b"Host", b"example.com");
    transaction.request_header(b"Content-Type", media_type.as_bytes());
    for (name, value) in headers {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_body(body.as_bytes());
    transaction.evaluate_request_body();
    transaction
}

/// So many bytes of a text, over and over.
fn long(text: &str, bytes: usize) -> String {
    text.chars().cycle().take(bytes).collect()
}

/// So many arguments.
fn form(arguments: usize, value: &str) -> String {
    let arguments: Vec<String> = (0..arguments).map(|n| format!("a{n}={value}")).collect();
    arguments.join("&")
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn ordinary_requests_stay_far_below_the_limit() {
    let limit = Limits::default().rule_steps_max as u64;
    let program = program(Limits::default().rule_steps_max);
    let json: Vec<String> =
        (0..900).map(|n| format!("\"key{n}\":\"{}\"", long(TEXT, 1_100))).collect();
    for (name, media_type, body) in [
        ("small", FORM, "a=b".to_owned()),
        ("one argument", FORM, format!("a={}", long(TEXT, MIB - 2))),
        ("many arguments", FORM, form(999, &long(TEXT, 1_000))),
        ("JSON", "application/json", format!("{{{}}}", json.join(","))),
        (
            "XML",
            "text/xml",
            format!("<a>{}</a>", long("<b c=\"d\">the quick brown</b>", 28 * 30_000)),
        ),
        ("attacks", FORM, format!("a={}", long(&ATTACK.replace('=', "+"), MIB - 2))),
    ] {
        let transaction = run(&program, "/index.php?id=1", &[], media_type, &body);
        let steps = transaction.rule_steps();
        assert!(!transaction.flags().rules_cut_off && steps < limit / 4, "{name}: {steps}");
    }
}

/// Headers, cookies, query string and body as large as they may be, and full of what rules look for.
#[test]
fn the_worst_request_is_cut_off_at_the_limit() {
    let limit = 1_000_000;
    let value = encoded(&long(ATTACK, 350));
    let cookies: Vec<String> =
        (0..256).map(|n| format!("c{n}={}", long(&ATTACK.replace(';', ","), 1_000))).collect();
    let mut headers = vec![("Cookie".to_owned(), cookies.join("; "))];
    headers.extend((0..250).map(|n| (format!("X-{n}"), long(ATTACK, 1_000))));
    let uri = format!("/?{}", form(999, &value));
    let transaction = run(&program(limit), &uri, &headers, FORM, &form(999, &value));
    let steps = transaction.rule_steps();
    let limit = limit as u64;
    assert!(transaction.flags().rules_cut_off);
    assert!((limit..limit + limit / 10).contains(&steps), "{steps}");
}

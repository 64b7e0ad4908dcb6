//! The admin port of the real stack, and its page in a real browser.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use glacis_tests::browser::{self, Browser};
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

/// What a person sees: who was refused, why, and what would let it pass; nothing of a request is run.
#[test]
fn the_page_in_a_browser() {
    let Some(program) = browser::find() else {
        // Past the capture of the test harness, so that nobody takes it for tested.
        let said = writeln!(
            std::io::stderr(),
            "SKIPPED: the admin page was not tried in a browser: no Chromium (GLACIS_CHROMIUM)"
        );
        return said.unwrap();
    };
    let notice = "drain_notice_seconds: 30\ncost_sample: 1\n";
    let mut own = Own::start("admin-page", Processor::ExtProcWith(notice), &[]);
    let stack = &own.0;
    let admin = admin_of(stack.ports.ext_proc_admin);
    let mut page = Browser::start(&program, stack.folder.path()).unwrap();
    page.open(&format!("http://{admin}/")).unwrap();
    page.wait_for("document.getElementById('ready')?.textContent === 'ready'").unwrap();
    page.wait_for("document.getElementById('rulesets').rows.length === 1").unwrap();
    assert_eq!(stack.send(client(), &Request::get("/").browser()).unwrap().status, 200);
    assert_eq!(stack.send(client(), &attack()).unwrap().status, 403);

    // It comes by itself, as text.
    page.wait_for("document.querySelectorAll('#recent tr').length === 1").unwrap();
    let row = page.value("document.querySelector('#recent').innerText").unwrap();
    let row = row.as_str().unwrap();
    assert!(row.contains("/search?q=") && row.contains("949110"), "{row}");
    page.wait_for("document.querySelectorAll('#rules tr').length > 1").unwrap();
    page.wait_for("document.querySelectorAll('#scores svg rect').length === 13").unwrap();
    page.wait_for("document.querySelectorAll('#costs tr').length === 12").unwrap();
    let costs = page.value("document.querySelector('#costs').innerText").unwrap();
    let first: f64 =
        costs.as_str().unwrap().split('\t').nth(2).unwrap().replace(" %", "").parse().unwrap();
    assert!(first > 1.0 && first < 100.0, "{costs}");
    let sample = page.value("document.getElementById('sample').textContent").unwrap();
    assert!(sample.as_str().unwrap().ends_with("requests, one of 1."), "{sample}");
    page.wait_for("document.querySelectorAll('#latency svg').length >= 1").unwrap();
    let scores = "document.querySelector('#scores svg').getAttribute('aria-label')";
    assert!(page.value(scores).unwrap().as_str().unwrap().contains("≤15: 1"), "{scores}");

    // The story, by keyboard alone.
    page.value("document.querySelector('#recent button').focus()").unwrap();
    page.press("Enter").unwrap();
    page.wait_for("document.getElementById('story').dataset.state === 'told'").unwrap();
    let told = page.value("document.getElementById('story').innerText").unwrap();
    let told = told.as_str().unwrap();
    // The markup of the attack is decoded by the rules: it is shown as it is, and is no element.
    for words in [
        "<img src=x",
        "Why was it refused?",
        "941100",
        "SecRuleUpdateTargetById",
        "Tried: the request passes.",
        "targets: [\"ARGS:q\"]",
        "path: \"/search\"",
    ] {
        assert!(told.contains(words), "{words} is not in: {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");
    assert_eq!(page.value("document.images.length").unwrap(), 0);
    assert_eq!(page.value("document.title").unwrap(), "Glacis");
    page.picture(&stack.folder.file("story.png")).unwrap();
    page.press("Escape").unwrap();
    page.wait_for("!document.getElementById('story').open").unwrap();
    assert_eq!(
        page.value("document.activeElement === document.querySelector('#recent button')").unwrap(),
        true,
        "the focus goes back to where it was"
    );

    // Both colour schemes, and the policy holds: a script that is put in does not run.
    let ground = "getComputedStyle(document.body).backgroundColor";
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        page.prefer_colours(scheme).unwrap();
        grounds.push(page.value(ground).unwrap());
        page.picture(&stack.folder.file(&format!("page-{scheme}.png"))).unwrap();
    }
    assert_ne!(grounds[0], grounds[1]);
    // A configuration that is not good, and the end of the process, are seen with their reasons.
    let ext_proc = own.0.ext_proc.as_mut().unwrap();
    ext_proc.set_keys(&format!("{notice}canary: /?q=plain\n")).unwrap();
    ext_proc.hang_up().unwrap();
    let refused =
        "/not put to use: .*attack passes/.test(document.getElementById('reload').textContent)";
    page.wait_for(refused).unwrap();
    let id = ext_proc.process().id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ready = "document.getElementById('ready').textContent";
    page.wait_for(&format!("{ready} === 'not ready – draining: the process ends'")).unwrap();
    assert_eq!(page.faults, Vec::<String>::new());
    page.value(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')",
    )
    .unwrap();
    eventually("the policy is broken and says so", Duration::from_secs(5), || {
        page.value("document.title").unwrap();
        !page.faults.is_empty()
    });
    assert_eq!(page.value("document.title").unwrap(), "Glacis");
}

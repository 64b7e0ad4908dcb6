//! The page of the admin port in a real browser: what people see in detection mode and where rules block.
//!
//! Pictures of it are in the folders of the stacks (`console-*.png`), for people to look at.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use glacis_tests::browser::{self, Browser};
use glacis_tests::http::{self, Request};
use glacis_tests::stack::{Processor, Stack};
use serde_json::{Value, json};

use crate::support::{Own, client, eventually};

/// An attack with markup that would do something if it were put into a page as HTML.
const ATTACK: &str =
    "/search?q=%3Cimg%20src=x%20onerror=%22document.title='owned'%22%3E&password=hunter2-secret";

fn attack() -> Request {
    Request::get(ATTACK).header("authorization", "Bearer t0p-secret-token").browser()
}

/// The program; a notice past the capture of the harness where there is none, so that this does not pass for tested.
fn chromium() -> Option<PathBuf> {
    let found = browser::find();
    if found.is_none() {
        let notice =
            "SKIPPED: the admin page was not tried in a browser: no Chromium (GLACIS_CHROMIUM)";
        let written = writeln!(std::io::stderr(), "{notice}");
        written.unwrap();
    }
    found
}

/// The page of this stack, in a browser of its own.
fn open(program: &Path, stack: &Stack) -> Browser {
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, stack.ports.ext_proc_admin));
    let mut page = Browser::start(program, stack.folder.path()).unwrap();
    page.open(&format!("http://{admin}/")).unwrap();
    page.wait_for("document.getElementById('ready')?.textContent === 'ready'").unwrap();
    page
}

fn text(page: &mut Browser, expression: &str) -> String {
    page.value(expression).unwrap().as_str().unwrap_or_default().to_owned()
}

/// Pictures at both sizes and in both schemes, each without anything beyond the edge of the window.
fn pictures(page: &mut Browser, stack: &Stack, name: &str) {
    for (width, height, place) in [(1280, 1400, "desktop"), (390, 844, "phone")] {
        page.resize(width, height).unwrap();
        for scheme in ["light", "dark"] {
            page.prefer_colours(scheme).unwrap();
            let file = stack.folder.file(&format!("console-{name}-{place}-{scheme}.png"));
            page.picture(&file).unwrap();
        }
        let wide = page.value("document.documentElement.scrollWidth <= innerWidth").unwrap();
        assert_eq!(wide, true, "{name} {place}: nothing is beyond the edge of the window");
    }
    page.resize(1280, 1400).unwrap();
    page.prefer_colours("light").unwrap();
}

/// In detection mode the page says so, proposes an attack to try, and lists it as what would be blocked.
#[test]
fn detection_mode_in_a_browser() {
    let Some(program) = chromium() else { return };
    let keys = "mode: detection\ncost_sample: 1\n";
    let own = Own::start("console-detection", Processor::ExtProcWith(keys), &[]);
    let stack = &own.0;
    let mut page = open(&program, stack);
    page.wait_for("document.getElementById('try') !== null").unwrap();
    assert_eq!(
        text(&mut page, "document.getElementById('mode').innerText"),
        "DETECTION: nothing is blocked"
    );
    assert!(text(&mut page, "document.getElementById('instance').innerText").contains("version"));
    assert!(text(&mut page, "document.title").starts_with("Glacis – "));
    // What has too few samples is not shown.
    for table in ["rules-table", "costs-table", "list", "shadows"] {
        let hidden = page.value(&format!("document.getElementById('{table}').hidden")).unwrap();
        assert_eq!(hidden, true, "{table}");
    }
    pictures(&mut page, stack, "empty");

    // The command that is proposed is an attack.
    let command = text(&mut page, "document.querySelector('#try pre').textContent");
    let target = command.split("GATEWAY").nth(1).unwrap().trim_end_matches('\'').to_owned();
    let answer = stack.send(client(), &Request::get(&target).browser()).unwrap();
    assert_eq!(answer.status, 200, "{command}");
    page.wait_for("document.querySelectorAll('#recent tr.would_block').length === 1").unwrap();
    let row = text(&mut page, "document.querySelector('#recent').innerText");
    for words in ["Would be blocked", "Cross-site scripting · 941", "<script>", "UTC"] {
        assert!(row.contains(words), "{words}: {row}");
    }
    assert!(!row.contains("949110"), "{row}");
    assert!(
        text(&mut page, "document.getElementById('h-blocked').innerText")
            .contains("would be blocked")
    );

    // Copying without navigator.clipboard, as on a page that did not come over HTTPS, by keyboard.
    page.value("document.querySelector('#recent button.open').focus()").unwrap();
    page.press("Enter").unwrap();
    page.wait_for("document.getElementById('story').dataset.state === 'told'").unwrap();
    page.value("Object.defineProperty(navigator, 'clipboard', { value: undefined })").unwrap();
    page.value("document.querySelector('#allow summary').focus()").unwrap();
    page.press("Enter").unwrap();
    page.wait_for("document.getElementById('allow').open").unwrap();
    page.value("document.addEventListener('copy', () => (document.copied = document.getSelection().toString()), { once: true })")
        .unwrap();
    page.value("document.querySelector('#allow .copy').focus()").unwrap();
    page.press("Enter").unwrap();
    page.wait_for("document.querySelector('#allow .copy').textContent === 'Copied'").unwrap();
    assert_eq!(
        page.value("document.activeElement === document.querySelector('#allow .copy')").unwrap(),
        true,
        "the focus stays on the button"
    );
    pictures(&mut page, stack, "story");
    assert_eq!(page.faults, Vec::<String>::new());
}

/// The story of a block in its order, a deep link to it, and an exclusion in three forms.
#[test]
fn a_story_in_a_browser() {
    let Some(program) = chromium() else { return };
    let notice = "drain_notice_seconds: 30\ncost_sample: 1\n";
    let mut own = Own::start("console-story", Processor::ExtProcWith(notice), &[]);
    let stack = &own.0;
    let mut page = open(&program, stack);
    assert_eq!(text(&mut page, "document.getElementById('mode').innerText"), "BLOCKING");
    assert_eq!(stack.send(client(), &Request::get("/").browser()).unwrap().status, 200);
    assert_eq!(stack.send(client(), &attack()).unwrap().status, 403);
    page.wait_for("document.querySelectorAll('#recent tr.blocked').length === 1").unwrap();
    page.wait_for("document.querySelectorAll('#rules tr').length > 1").unwrap();
    // Two requests say nothing of the time that rules take.
    page.wait_for("document.getElementById('sample').textContent.startsWith('Too few samples')")
        .unwrap();
    let scores = "document.querySelector('#scores svg').getAttribute('aria-label')";
    page.wait_for(&format!("/ 0: 1, \\d+: 1$/.test({scores})")).unwrap();
    for plot in ["#rate", "#verdicts", "#latency", "#scores"] {
        let names =
            page.value(&format!("document.querySelectorAll('{plot} svg text').length")).unwrap();
        assert!(names.as_u64().unwrap() >= 4, "{plot} has axes: {names}");
    }
    assert_eq!(page.value("document.querySelectorAll('#scores .threshold').length").unwrap(), 1);

    page.value("document.querySelector('#recent button.open').focus()").unwrap();
    page.press("Enter").unwrap();
    page.wait_for("document.getElementById('story').dataset.state === 'told'").unwrap();
    assert_eq!(page.value("location.hash").unwrap(), "#request=1");
    page.value("document.querySelectorAll('#story details').forEach((part) => (part.open = true))")
        .unwrap();
    let told = text(&mut page, "document.getElementById('story').innerText");
    // What happened comes first, and what would allow it after that.
    let order = [
        "Blocked with status 403: its anomaly score of",
        "What the rules found",
        "rule 941100",
        "Score",
        "Allow this",
        "Raw record",
    ];
    let places: Vec<_> = order.iter().map(|words| told.find(words)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {told}");
    for words in [
        "<img src=x",
        "requests are blocked from 5",
        "targets: [\"ARGS:q\"]",
        "path: \"/search\"",
        "Tried: the request is allowed",
    ] {
        assert!(told.contains(words), "{words} is not in: {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");
    let marked = text(&mut page, "document.querySelector('#story mark').textContent");
    assert!(marked.contains("<img") || marked.contains("onerror"), "{marked}");
    // Owner and reason are put in as text of YAML.
    page.value(
        "[...document.querySelectorAll('#allow input[type=text]')].forEach((field, index) => { \
         field.value = ['team \"shop\"', 'a: # b'][index]; \
         field.dispatchEvent(new Event('input', { bubbles: true })); })",
    )
    .unwrap();
    let yaml = text(&mut page, "document.querySelector('#allow pre').textContent");
    assert!(
        yaml.contains(r#"owner: "team \"shop\"""#) && yaml.contains(r#"reason: "a: # b""#),
        "{yaml}"
    );
    for (form, words) in
        [("values", "+     exclusions:"), ("seclang", "ctl:ruleRemoveTargetById=941100;ARGS:q")]
    {
        page.value(&format!("document.querySelector('#allow input[value={form}]').click()"))
            .unwrap();
        let shown = text(&mut page, "document.querySelector('#allow pre').textContent");
        assert!(shown.contains(words), "{form}: {shown}");
    }
    assert_eq!(page.value("document.images.length").unwrap(), 0);
    page.press("Escape").unwrap();
    page.wait_for("!document.getElementById('story').open && location.hash === ''").unwrap();
    assert_eq!(
        page.value("document.activeElement === document.querySelector('#recent button.open')")
            .unwrap(),
        true,
        "the focus goes back to where it was"
    );
    // The address opens the story again.
    page.value("location.hash = '#request=1'").unwrap();
    page.wait_for("document.getElementById('story').open").unwrap();
    page.value("document.getElementById('close').click()").unwrap();
    page.wait_for("!document.getElementById('story').open").unwrap();

    // A configuration that is not good, and the end of the process, are seen with their reasons.
    let ext_proc = own.0.ext_proc.as_mut().unwrap();
    ext_proc.set_keys(&format!("{notice}canary: /?q=plain\n")).unwrap();
    ext_proc.hang_up().unwrap();
    page.wait_for(
        "/was rejected: .*attack passes/.test(document.getElementById('reload').textContent)",
    )
    .unwrap();
    let id = ext_proc.process().id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ready = "document.getElementById('ready').textContent";
    page.wait_for(&format!("{ready} === 'not ready – draining: the process ends'")).unwrap();
    assert_eq!(page.faults, Vec::<String>::new());
    // The policy holds: a script that is put in does not run.
    page.value(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')",
    )
    .unwrap();
    eventually("the policy is broken and says so", Duration::from_secs(5), || {
        page.value("document.title").unwrap();
        !page.faults.is_empty()
    });
    assert!(text(&mut page, "document.title").starts_with("Glacis"));
}

/// Lists can be filtered and searched, and everything that a request brings is shown as text.
#[test]
fn hostile_requests_in_a_browser() {
    let Some(program) = chromium() else { return };
    let own = Own::start("console-hostile", Processor::ExtProcWith("mode: detection\n"), &[]);
    let stack = &own.0;
    let mut page = open(&program, stack);
    let markup =
        "<script>document.title='owned'</script><img src=x onerror=document.title='owned'>";
    let mut sent = 0;
    for path in [
        "/%3Cscript%3Edocument.title='owned'%3C/script%3E?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/%22%3E%3Cimg%20src=x%20onerror=document.title='owned'%3E?q=%3Cscript%3E",
        "/javascript:alert(1)//?q=1'%20or%201=1--%20union%20select",
        "/%E2%80%AEtxt.exe%00?q=%3Cscript%3Ealert(2)%3C/script%3E",
        "/$%7B7*7%7D%7B%7Bconstructor%7D%7D?q=%3Cscript%3Ealert(3)%3C/script%3E",
        &format!("/{}?q=%3Cscript%3Ealert(4)%3C/script%3E", "long/".repeat(150)),
    ] {
        let request = Request::get(path)
            .header("x-request-id", markup)
            .header("user-agent", markup)
            .header("x-note", markup)
            .browser();
        let status = stack.send(client(), &request).unwrap().status;
        sent += u64::from(status != 400);
    }
    assert!(sent >= 4, "{sent} requests reached the rules");
    page.wait_for(&format!("document.querySelectorAll('#recent tr').length === {sent}")).unwrap();
    let lists = text(&mut page, "document.getElementById('tops').innerText");
    assert!(lists.contains("<script>document.title='owned'</script>"), "{lists}");
    // Every row takes as much room as any other, however long its URL.
    let heights = page.value("[...new Set([...document.querySelectorAll('#recent tr')].map((row) => row.offsetHeight))]").unwrap();
    assert_eq!(heights.as_array().unwrap().len(), 1, "{heights}");
    // Characters that reorder or hide text are written out.
    let all = text(&mut page, "document.body.innerText");
    assert!(!all.contains('\u{202e}'), "{all}");

    // A story takes seconds where nothing is optimised.
    for number in [1, 2, 4] {
        page.value(&format!("location.hash = '#request={number}'")).unwrap();
        page.wait_for("document.getElementById('story').dataset.state === 'told'").unwrap();
        page.value(
            "document.querySelectorAll('#story details').forEach((part) => (part.open = true))",
        )
        .unwrap();
        let told = text(&mut page, "document.getElementById('story').innerText");
        assert!(told.contains("would be blocked"), "{told}");
        page.value("document.getElementById('close').click()").unwrap();
        page.wait_for("!document.getElementById('story').open").unwrap();
        page.value("document.getElementById('story').dataset.state = ''").unwrap();
    }
    let elements = "document.querySelectorAll('img, iframe, main script, dialog script, [onerror], a[href^=javascript]').length";
    assert_eq!(page.value(elements).unwrap(), 0);
    assert!(text(&mut page, "document.title").starts_with("Glacis – "));

    // A click filters, and so does the search; the address says what is chosen.
    let rows = "document.querySelectorAll('#recent tr').length";
    page.value("document.querySelector('#recent .client button').click()").unwrap();
    page.wait_for(&format!("{rows} === 1 && location.hash.startsWith('#client=127.')")).unwrap();
    page.value("document.querySelector('#chosen button').click()").unwrap();
    page.wait_for(&format!("{rows} === {sent} && location.hash === ''")).unwrap();
    let search = |words: &str| {
        let words = json!(words);
        format!(
            "document.getElementById('text').value = {words}; \
             document.getElementById('text').dispatchEvent(new Event('input', {{ bubbles: true }}))"
        )
    };
    page.value(&search("JAVASCRIPT:")).unwrap();
    page.wait_for(&format!("{rows} === 1")).unwrap();
    page.value(&search("<nothing has this>")).unwrap();
    page.wait_for(
        "document.getElementById('none').innerText.includes('No stored request matches')",
    )
    .unwrap();
    page.value("document.querySelector('#none button').click()").unwrap();
    page.wait_for(&format!("{rows} === {sent}")).unwrap();
    page.value("document.querySelector('#verdict input[value=blocked]').click()").unwrap();
    page.wait_for("!document.getElementById('none').hidden").unwrap();
    page.value("document.querySelector('#verdict input[value=would_block]').click()").unwrap();
    page.wait_for(&format!("{rows} === {sent}")).unwrap();
    pictures(&mut page, stack, "hostile");
    assert_eq!(page.faults, Vec::<String>::new());
    assert_eq!(page.value("document.images.length").unwrap(), Value::from(0));
}

/// What the service finds out about itself is in the header, leads to its list, and is read by keyboard.
#[test]
fn checks_in_a_browser() {
    let Some(program) = chromium() else { return };
    let keys = "oversized_body: pass\nlate: fail\n";
    let own = Own::start("console-checks", Processor::ExtProcWith(keys), &[]);
    let mut page = open(&program, &own.0);
    page.wait_for("document.getElementById('unhealthy').textContent === '2 checks failed'")
        .unwrap();
    let listed = text(&mut page, "document.getElementById('findings').innerText");
    for words in ["large bodies pass", "GD108", "late requests are left to Envoy", "GD110"] {
        assert!(listed.contains(words), "{words}: {listed}");
    }
    assert!(
        text(&mut page, "document.getElementById('checked').innerText").starts_with("2 findings")
    );
    page.value("document.getElementById('unhealthy').focus()").unwrap();
    page.press("Enter").unwrap();
    page.wait_for("document.activeElement.tagName === 'SUMMARY'").unwrap();
    assert_eq!(page.value("location.hash").unwrap(), "", "the filter stays as it is");
    page.press("Enter").unwrap();
    page.wait_for("document.querySelector('#findings details').open").unwrap();
    let told = text(&mut page, "document.getElementById('findings').innerText");
    assert!(told.contains("Remedy: Set `oversized_body: reject`"), "{told}");
    pictures(&mut page, &own.0, "checks");
    assert_eq!(page.faults, Vec::<String>::new());
}

/// The story of a block that the rules in use would not repeat says so; user agents are counted and chosen.
#[test]
fn an_old_block_in_a_browser() {
    let Some(program) = chromium() else { return };
    let own =
        Own::start("console-old", Processor::ExtProcWith("mode: on\ncanary_seconds: 0\n"), &[]);
    let (stack, ext_proc) = (&own.0, own.0.ext_proc.as_ref().unwrap());
    assert_eq!(stack.send(client(), &attack()).unwrap().status, 403);
    ext_proc.set_keys("mode: on\ninbound_threshold: 1000\ncanary_seconds: 0\n").unwrap();
    ext_proc.hang_up().unwrap();
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, stack.ports.ext_proc_admin));
    eventually("the rules are in use", Duration::from_secs(20), || {
        let activity = http::fetch(admin, "/activity").unwrap().text();
        activity.contains("\"threshold\":1000")
    });
    let mut page = open(&program, stack);
    page.wait_for("document.querySelectorAll('#recent tr.blocked').length === 1").unwrap();
    let tops = text(&mut page, "document.getElementById('tops').innerText");
    assert!(tops.to_lowercase().contains("user agents"), "{tops}");
    page.value("document.querySelector('#recent button.open').click()").unwrap();
    page.wait_for("document.getElementById('story').dataset.state === 'told'").unwrap();
    let told = text(&mut page, "document.querySelector('#told .passes').innerText");
    assert!(told.starts_with("Nothing would block this request now"), "{told}");
    pictures(&mut page, stack, "old");
    assert_eq!(page.faults, Vec::<String>::new());
}

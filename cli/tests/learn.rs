//! `glacis learn` over the real CRS: traffic of several sites, generated, learned from in its first half and measured in
//! its second; attempts at poisoning; attacks of CRS's own tests put into what is excluded.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

mod run;

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use run::{crs, glacis, glacis_with};
use serde_json::{Value, json};

const DAYS: u64 = 10;
const REQUESTS_A_DAY: u64 = 24;
const CLIENTS: u64 = 12;

/// Of the attacks that are found before, so many have to be found with exclusions, in percent.
const KEPT_PERCENT: usize = 98;

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[usize::try_from(self.below(texts.len() as u64)).unwrap()]
    }
}

/// A site: its host, and a request with something in the place that trips rules.
struct Site {
    host: &'static str,
    /// Texts that users of this site send.
    values: &'static [&'static str],
    make: fn(&mut Numbers, &str) -> Value,
}

const SITES: &[Site] = &[
    Site {
        host: "shop.example",
        values: &["red shoes", "and/or; ls", "tea; ls, size", "blue hat; ls"],
        make: |_, value| json!({"uri": format!("/search?q={}", encoded(value))}),
    },
    Site {
        host: "wiki.example",
        values: &["see ../../notes", "back to ../../index", "in ../../a/b we say"],
        make: |numbers, value| {
            json!({
                "method": "POST", "uri": format!("/page/{}/save", numbers.below(1_000)),
                "body": format!("title=x&text={}", encoded(value)),
            })
        },
    },
    Site {
        host: "odata.example",
        values: &["Price desc", "Name asc"],
        make: |numbers, value| {
            let skip = numbers.below(500);
            json!({"uri": format!("/odata/Products?$top=10&$skip={skip}&$orderby={}", encoded(value))})
        },
    },
    Site {
        host: "issues.example",
        values: &["project = A AND (x = \"b\")", "project = C AND (y = \"d\" OR y = \"e\")"],
        make: |_, value| json!({"uri": format!("/rest/api/2/search?jql={}", encoded(value))}),
    },
    Site {
        host: "metrics.example",
        values: &["$or", "$and"],
        make: |numbers, value| {
            let at = numbers.below(4);
            let id = format!("{:08x}{:08x}a1", numbers.next(), numbers.next());
            let mut events = vec![json!({"name": "view"}); 4];
            events[usize::try_from(at).unwrap()] = json!({"name": value});
            json!({
                "method": "POST", "uri": format!("/collect/{id}"), "type": "application/json",
                "body": json!({"events": events, "time": numbers.next()}).to_string(),
            })
        },
    },
    Site {
        host: "news.example",
        values: &["{\"$or\":1,\"theme\":\"dark\"}", "{\"$or\":2,\"theme\":\"light\"}"],
        make: |numbers, value| {
            let page = numbers.below(50);
            let value = value.replace(';', "%3B");
            json!({"uri": format!("/story/{page}"), "cookie": format!("prefs={value}; sid={}", numbers.next())})
        },
    },
    Site {
        host: "things.example",
        values: &["application/x-thing", "application/x-other-thing"],
        make: |numbers, value| {
            let uri = format!("/v1/{}/state", numbers.below(100));
            json!({"method": "PUT", "uri": uri, "type": value, "body": "{}"})
        },
    },
    Site {
        host: "quiet.example",
        values: &["hello", "world"],
        make: |_, value| json!({"uri": format!("/?q={}", encoded(value))}),
    },
];

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A line for `glacis eval`.
fn line(id: &str, host: &str, client: &str, day: u64, made: &Value) -> String {
    let mut headers = vec![
        json!(["Host", host]),
        json!([
            "User-Agent",
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
        ]),
        json!(["Accept", "*/*"]),
    ];
    if let Some(cookie) = made["cookie"].as_str() {
        headers.push(json!(["Cookie", cookie]));
    }
    let mut line = json!({
        "id": id, "time": format!("2026-11-{:02}T12:00:00Z", day + 1), "client": {"ip": client},
        "method": made["method"].as_str().unwrap_or("GET"), "uri": made["uri"],
        "protocol": "HTTP/1.1",
    });
    if let Some(body) = made["body"].as_str() {
        let form = "application/x-www-form-urlencoded";
        headers.push(json!(["Content-Type", made["type"].as_str().unwrap_or(form)]));
        headers.push(json!(["Content-Length", body.len().to_string()]));
        line["body"] = body.into();
    }
    line["headers"] = headers.into();
    line.to_string() + "\n"
}

/// Ordinary requests of some days to all sites.
fn ordinary(days: core::ops::Range<u64>) -> String {
    let mut numbers = Numbers(days.start + 1);
    let mut out = String::new();
    for day in days {
        for site in SITES {
            for at in 0..REQUESTS_A_DAY {
                let client = format!("192.0.2.{}", numbers.below(CLIENTS));
                let value = numbers.pick(site.values);
                let made = (site.make)(&mut numbers, value);
                out += &line(&format!("{}-{day}-{at}", site.host), site.host, &client, day, &made);
            }
        }
    }
    out
}

/// Attackers who want rules switched off: the same attack from several addresses on several days, alone or among
/// ordinary requests, and one that has no signature.
fn poison(days: core::ops::Range<u64>) -> String {
    let mut out = String::new();
    let attacks =
        ["1' OR '1'='1", "1 UNION SELECT login,password FROM users", "7' divx(8)-- x' like 'x"];
    for day in days {
        for (at, attack) in attacks.iter().enumerate() {
            for client in 0..4 {
                let uri = format!("/?q={}", encoded(attack));
                let client = format!("203.0.113.{client}");
                out += &line(
                    &format!("poison-{day}-{at}"),
                    "quiet.example",
                    &client,
                    day,
                    &json!({"uri": uri}),
                );
                let uri = format!("/search?q={}", encoded(attack));
                out += &line(
                    &format!("poison-{day}-{at}"),
                    "shop.example",
                    &client,
                    day,
                    &json!({"uri": uri}),
                );
            }
        }
    }
    out
}

/// A file of its own, for this process and name.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("glacis-learn-{}-{name}", std::process::id()));
    fs::write(&path, text).unwrap();
    path
}

/// Exclusions learned from `requests`, and what was declined.
/// With the scores that the authors of CRS gave: what trips rules is for CRS to say.
fn learn(requests: &str, options: &[&str]) -> (String, String) {
    let crs = crs();
    let arguments =
        [&["learn", "--crs", crs.to_str().unwrap(), "--defaults", "crs"], options].concat();
    let ran = glacis_with(&arguments, requests.as_bytes());
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    (ran.stdout, ran.stderr)
}

/// Which requests are blocked, by id.
fn blocked(requests: &str, exclusions: Option<&PathBuf>) -> BTreeMap<String, bool> {
    let crs = crs();
    let mut arguments =
        vec!["eval", "-q", "--crs", crs.to_str().unwrap(), "--defaults", "crs", "--jobs", "2"];
    if let Some(path) = exclusions {
        arguments.extend(["--exclusions", path.to_str().unwrap()]);
    }
    let ran = glacis_with(&arguments, requests.as_bytes());
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    let answer = |line: &str| -> (String, bool) {
        let answer: Value = serde_json::from_str(line).unwrap();
        (answer["id"].as_str().unwrap().to_owned(), answer["action"] != "allow")
    };
    ran.stdout.lines().map(answer).collect()
}

fn count(blocked: &BTreeMap<String, bool>) -> usize {
    blocked.values().filter(|blocked| **blocked).count()
}

/// Values of parameters in the attacks that CRS's own tests send: nobody of us chose them.
fn attacks_of_crs() -> Vec<String> {
    let mut found = std::collections::BTreeSet::new();
    for folder in fs::read_dir(crs().join("tests")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("REQUEST-93") && !name.starts_with("REQUEST-94") {
            continue;
        }
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(file).unwrap();
            let Ok(suite) = serde_saphyr::from_str::<Value>(&text) else { continue };
            for test in suite["tests"].as_array().into_iter().flatten() {
                for stage in test["stages"].as_array().into_iter().flatten() {
                    if stage["output"]["log"]["expect_ids"].is_array() {
                        let input = &stage["input"];
                        let query = input["uri"].as_str().and_then(|uri| uri.split_once('?'));
                        found.extend(query.iter().flat_map(|(_, query)| values(query)));
                        found.extend(input["data"].as_str().into_iter().flat_map(values));
                    }
                }
            }
        }
    }
    found.into_iter().filter(|value| value.len() >= 4).collect()
}

fn values(form: &str) -> Vec<String> {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    let decoded = |value: &str| {
        let value = value.replace('+', " ");
        let mut out = Vec::new();
        let mut rest = value.as_bytes();
        while let Some((&byte, behind)) = rest.split_first() {
            let digits = behind.get(..2).and_then(|digits| core::str::from_utf8(digits).ok());
            let escape = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            match escape.filter(|_| byte == b'%') {
                Some(decoded) => {
                    out.push(decoded);
                    rest = &behind[2..];
                }
                None => {
                    out.push(byte);
                    rest = behind;
                }
            }
        }
        String::from_utf8(out).ok()
    };
    pairs.filter_map(|(_, value)| decoded(value)).collect()
}

/// Every site with each attack in the place that trips rules.
fn attacked(attacks: &[String]) -> String {
    let mut numbers = Numbers(99);
    let mut out = String::new();
    for site in SITES {
        for (at, attack) in attacks.iter().enumerate() {
            let one_line: String = attack.chars().filter(|c| !c.is_control()).collect();
            let is_header = ["news.example", "things.example"].contains(&site.host);
            let made = (site.make)(&mut numbers, if is_header { &one_line } else { attack });
            out += &line(&format!("{}-{at}", site.host), site.host, "198.51.100.1", 9, &made);
        }
    }
    out
}

#[test]
fn ordinary_requests_pass_afterwards_and_attacks_do_not() {
    let half = DAYS / 2;
    let requests = ordinary(0..half) + &poison(0..half);
    let (exclusions, report) = learn(&requests, &[]);
    let path = file("halves.yaml", &exclusions);
    let second = ordinary(half..DAYS);
    let before = blocked(&second, None);
    assert!(count(&before) * 2 > before.len(), "{} of {}", count(&before), before.len());
    let after = blocked(&second, Some(&path));
    assert_eq!(count(&after), 0, "{exclusions}\n{report}");

    // Attempts at poisoning are named, and blocked as before.
    assert!(report.contains("known attack"), "{report}");
    assert!(!exclusions.contains("quiet.example"), "{exclusions}");
    let poison = poison(half..DAYS);
    assert_eq!(blocked(&poison, Some(&path)), blocked(&poison, None));

    // What nobody of us has chosen.
    let attacks = attacks_of_crs();
    assert!(attacks.len() > 1_500);
    let sample: Vec<String> = attacks.into_iter().step_by(5).collect();
    let attacked = attacked(&sample);
    let (before, after) = (blocked(&attacked, None), blocked(&attacked, Some(&path)));
    let mut by_site: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for id in before.iter().filter(|(_, blocked)| **blocked).map(|(id, _)| id) {
        let (site, at) = id.rsplit_once('-').unwrap();
        // Names of parameters block each of these requests, whatever the attack: found is what is found elsewhere.
        if site == "odata.example" && !before[&format!("quiet.example-{at}")] {
            continue;
        }
        let counts = by_site.entry(site).or_default();
        counts.0 += 1;
        counts.1 += usize::from(after[id]);
    }
    let (found, kept) = by_site.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(
        found > 500 && kept * 100 >= found * KEPT_PERCENT,
        "{kept} of {found}: {by_site:?}\n{exclusions}"
    );
    println!("{kept} of {found}: {by_site:?}");
    fs::remove_file(path).unwrap();
}

#[test]
fn exclusions_are_narrow_and_say_what_they_rest_on() {
    let (exclusions, _) = learn(&ordinary(0..5), &[]);
    for expected in [
        "targets: [\"ARGS:text\"]",
        "path: \"/page/{number}/save\"",
        "targets: [\"ARGS_NAMES:$orderby\"",
        "path: \"/collect/{",
        "targets: [\"REQUEST_COOKIES:prefs\"]",
        "targets: [\"REQUEST_HEADERS:content-type\"]",
        "values: \"application/x-",
        "hosts: [\"things.example\"]",
        "json.events.array_{number}.name",
        "owner: \"\"",
        "expires: 20",
        "evidence: {requests: ",
    ] {
        assert!(exclusions.contains(expected), "{expected}\n{exclusions}");
    }
}

#[test]
fn evidence_is_needed() {
    let one = |at: u64, client: &str, day: u64| {
        let made = json!({"uri": "/search?q=tea%3B%20ls%2C%20size"});
        line(&format!("a-{at}"), "shop.example", client, day, &made)
    };
    let learns = |requests: &str, options: &[&str]| learn(requests, options).0.contains("- rules:");
    let several = [one(0, "192.0.2.1", 1), one(1, "192.0.2.2", 2), one(2, "192.0.2.1", 3)].concat();
    assert!(learns(&several, &[]));
    assert!(!learns(&several, &["--min-requests", "4"]));
    assert!(!learns(&several, &["--min-clients", "3"]));
    assert!(!learns(&several, &["--min-days", "4"]));
    let one_client =
        [one(0, "192.0.2.1", 1), one(1, "192.0.2.1", 2), one(2, "192.0.2.1", 3)].concat();
    assert!(!learns(&one_client, &[]));
    assert!(learns(&one_client, &["--min-clients", "1"]));
    // Addresses of one network of IPv6 are one client.
    let network =
        one_client.replace("192.0.2.1", "2001:db8::1").replacen("2001:db8::1", "2001:db8::2", 1);
    assert!(!learns(&network, &[]));
    let one_day = [one(0, "192.0.2.1", 1), one(1, "192.0.2.2", 1), one(2, "192.0.2.3", 1)].concat();
    assert!(!learns(&one_day, &[]));
    let no_time: String = one_day
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("time");
            line.to_string() + "\n"
        })
        .collect();
    assert!(learns(&no_time, &[]));
    let nobody: String = no_time
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("client");
            line.to_string() + "\n"
        })
        .collect();
    let (exclusions, _) = learn(&nobody, &[]);
    assert!(
        exclusions.contains("- rules:") && exclusions.contains("names its client"),
        "{exclusions}"
    );
}

#[test]
fn har_and_audit_records_are_read() {
    let entry = |day: u64| {
        json!({
            "startedDateTime": format!("2026-11-{day:02}T01:02:03.456+01:00"),
            "request": {
                "method": "GET", "url": "https://shop.example/search?q=tea%3B%20ls%2C%20size",
                "httpVersion": "h2", "headers": [
                    {"name": ":authority", "value": "shop.example"},
                    {"name": "User-Agent", "value": "Mozilla/5.0"}, {"name": "Accept", "value": "*/*"},
                ],
            },
        })
    };
    let har = json!({"log": {"entries": [entry(1), entry(2), entry(3)]}}).to_string();
    let (first, second) = (file("a.har", &har), file("b.json", &har));
    let (exclusions, _) = learn("", &[first.to_str().unwrap(), second.to_str().unwrap()]);
    assert!(exclusions.contains("evidence: {requests: 6, clients: 2, days: 3}"), "{exclusions}");
    let record = |day: u64, client: &str| {
        json!({
            "version": 1, "time": format!("2026-11-{day:02}T01:02:03.456Z"), "request_id": "a", "client": client,
            "method": "GET", "uri": "/search?q=tea%3B%20ls%2C%20size", "host": "shop.example", "action": "deny",
            "request": {"protocol": "HTTP/1.1", "headers": [["host", "shop.example"], ["user-agent", "x"], ["accept", "*/*"]]},
        }).to_string() + "\n"
    };
    let records = [record(1, "192.0.2.1"), record(2, "192.0.2.2"), record(3, "192.0.2.1")].concat();
    assert!(learn(&records, &[]).0.contains("evidence: {requests: 3, clients: 2, days: 3}"));
    fs::remove_file(first).unwrap();
    fs::remove_file(second).unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let missing = glacis("learn", b"");
    assert_eq!(missing.status, Some(2));
    let format = glacis("learn --base --format xml", b"");
    assert!(
        format.status == Some(2)
            && format.stderr.contains("[possible values: auto, requests, har]")
    );
    let ran = glacis("learn --base -q", b"no request\n");
    assert_eq!(ran.status, Some(1));
    assert!(ran.stdout.ends_with("exclusions: []\n") && ran.stderr.contains("line 1"), "{ran:?}");
    let absent = glacis("eval --base --exclusions absent.yaml", b"");
    assert!(absent.status == Some(1) && absent.stderr.contains("absent.yaml"), "{absent:?}");
    let expired = file(
        "expired.yaml",
        "exclusions:\n- rules: [1]\n  owner: \"\"\n  reason: x\n  expires: 2020-01-01\n",
    );
    let ran = glacis_with(&["eval", "--base", "--exclusions", expired.to_str().unwrap()], b"");
    assert!(ran.status == Some(0) && ran.stderr.contains("has expired"), "{ran:?}");
    fs::remove_file(expired).unwrap();
}

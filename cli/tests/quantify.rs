//! `glacis quantify` over the real CRS: one evaluation at the highest level counts what four of them do.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{collections::BTreeMap, fs};

use run::{crs, glacis, glacis_with};
use serde_json::Value;

/// Sentences of words that rules look for, and of others; the same in each run.
fn sentences(count: u64) -> String {
    let words = [
        "the",
        "order",
        "by",
        "select",
        "from",
        "table",
        "union",
        "and",
        "or",
        "cat",
        "ls",
        "it's",
        "O'Brien",
        "1",
        "2",
        "=",
        "\"quoted\"",
        "(see",
        "below)",
        "drop",
        "--",
        "#3",
        "$5",
        "50%",
        "a;b",
        "system",
        "exec",
        "office",
        "../notes",
        "<b>bold</b>",
        "na\u{ef}ve",
        "price",
        "of",
        "http://example.com/a",
        "{x}",
        "`code`",
        "&",
        "hello,",
        "world!",
    ];
    let mut state = 7_u64;
    let mut next = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut out = String::new();
    for number in 0..count {
        let length = 3 + next(12);
        let chosen: Vec<&str> = (0..length)
            .map(|_| words[usize::try_from(next(words.len() as u64)).unwrap()])
            .collect();
        out += &format!("{number}\t{}.\n", chosen.join(" "));
    }
    out
}

fn quantify(input: &str, options: &[&str]) -> Value {
    let crs = crs();
    let arguments = [&["quantify", "--json", "--crs", crs.to_str().unwrap()], options].concat();
    let ran = glacis_with(&arguments, input.as_bytes());
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
    serde_json::from_str(&ran.stdout).unwrap()
}

/// Counts by rule of the levels up to `level`.
fn rules(run: &Value, level: u64) -> BTreeMap<String, u64> {
    let rules = run["falsePositivesPerRule"].as_object().unwrap();
    let of_level =
        rules.iter().filter(|(_, rule)| rule["paranoiaLevel"].as_u64().unwrap() <= level);
    of_level.map(|(id, rule)| (id.clone(), rule["falsePositives"].as_u64().unwrap())).collect()
}

#[test]
fn one_evaluation_counts_what_four_do() {
    let corpora = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/corpora/ordinary");
    let mut requests = String::new();
    for entry in fs::read_dir(corpora).unwrap() {
        requests += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    for input in [sentences(1_500), requests] {
        let all = quantify(&input, &[]);
        assert!(rules(&all, 4).len() > 20, "{all}");
        for level in 1..=4 {
            let one = quantify(&input, &["--paranoia", &level.to_string()]);
            assert_eq!(rules(&all, level), rules(&one, 4), "level {level}");
            let blocked = |run: &Value| run["blockedPerParanoiaLevel"][level.to_string()].clone();
            assert_eq!(blocked(&all), blocked(&one), "level {level}");
        }
    }
}

/// What is said to be blocked is what `eval` blocks in blocking mode.
#[test]
fn blocked_is_what_eval_blocks() {
    let crs = crs();
    let input = sentences(300);
    let counted = quantify(&input, &["--jobs", "1"]);
    let lines: String = input
        .lines()
        .map(|line| {
            let sentence = line.split_once('\t').unwrap().1;
            let uri: String = sentence.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let headers = [["Host", "localhost"], ["User-Agent", "Mozilla/5.0"], ["Accept", "*/*"]];
            let uri = format!("/get?uri_payload={uri}");
            serde_json::json!({
                "id": 1, "method": "GET", "uri": uri, "protocol": "HTTP/1.1", "headers": headers,
            })
            .to_string()
                + "\n"
        })
        .collect();
    let ran = glacis_with(&["eval", "-q", "--crs", crs.to_str().unwrap()], lines.as_bytes());
    let blocked = ran.stdout.lines().filter(|line| line.contains("\"action\":\"deny\"")).count();
    assert!(blocked > 10);
    assert_eq!(counted["blockedPerParanoiaLevel"]["1"], blocked);
}

/// The keys and their meaning are those of go-ftw (internal/quantitative/stats.go).
#[test]
fn the_format_is_that_of_go_ftw() {
    let run = quantify("union select from\nhello\n", &["--paranoia", "2"]);
    assert_eq!((&run["count"], &run["skipped"]), (&2.into(), &0.into()));
    let by_rule: u64 = rules(&run, 4).values().sum();
    let by_level: u64 = run["falsePositivesPerParanoiaLevel"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    let all = run["falsePositives"].as_u64().unwrap();
    assert_eq!((by_rule, by_level), (all, all));
    assert!(by_rule > 0 && run["totalTimeSeconds"].is_f64());
}

#[test]
fn two_rulesets_are_compared() {
    let crs = crs();
    let folder = std::env::temp_dir().join(format!("glacis-quantify-{}", std::process::id()));
    fs::create_dir_all(folder.join("rules")).unwrap();
    fs::copy(crs.join("crs-setup.conf.example"), folder.join("crs-setup.conf.example")).unwrap();
    for entry in fs::read_dir(crs.join("rules")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join("rules").join(entry.file_name())).unwrap();
    }
    let input = sentences(200);
    let against = folder.to_str().unwrap();
    let same = quantify(&input, &["--against", against]);
    assert_eq!(same["difference"], serde_json::json!({}));
    let file = folder.join("rules/REQUEST-942-APPLICATION-ATTACK-SQLI.conf");
    let text = fs::read_to_string(&file).unwrap() + "\nSecRuleRemoveById 942440\n";
    fs::write(&file, text).unwrap();
    let other = quantify(&input, &["--against", against]);
    let lost =
        other["rules"]["falsePositivesPerRule"]["942440"]["falsePositives"].as_i64().unwrap();
    assert!(lost > 0);
    assert_eq!(other["difference"], serde_json::json!({"942440": -lost}));
    let arguments = ["quantify", "--crs", crs.to_str().unwrap(), "--against", against];
    let ran = glacis_with(&arguments, input.as_bytes());
    let row = ran.stdout.lines().find(|line| line.starts_with("942440")).unwrap();
    assert!(row.ends_with(&format!("-{lost}")), "{row}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    for (arguments, message) in [
        ("quantify", "quantify needs --crs DIR"),
        ("quantify --crs x --paranoia 5", "is not in 1..=4"),
        ("quantify --crs x --paranoia 0", "is not in 1..=4"),
    ] {
        let ran = glacis(arguments, b"");
        assert!(ran.status == Some(2) && ran.stderr.contains(message), "{arguments}: {ran:?}");
    }
    let crs = crs();
    let arguments = ["quantify", "--json", "--requests", "--crs", crs.to_str().unwrap()];
    let ran = glacis_with(&arguments, b"{\n");
    assert_eq!(ran.status, Some(1));
    let run: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&run["count"], &run["skipped"]), (&1.into(), &1.into()));
}

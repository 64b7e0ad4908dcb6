//! `glacis train`, and the weights in `glacis eval --second-opinion`.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{env, fs, process};

use glacis_engine::Input;
use glacis_rules::Defaults;
use run::{glacis, glacis_with};
use serde_json::{Value, json};

const RULES: &str = "train/rules.conf";

/// Two sources of attacks, two of ordinary requests, one of technical texts.
fn requests() -> String {
    let mut lines = String::new();
    for number in 0..40 {
        for (source, label, text) in [
            ("first", "attack", format!("select'{number}")),
            ("second", "attack", format!("select'zz{number}")),
            ("third", "benign", format!("it's{number}")),
            ("fourth", "benign", format!("tea{number}")),
            ("fifth", "technical", format!("select{number}")),
        ] {
            let request = json!({"id": number, "method": "GET", "uri": format!("/?q={text}"),
                "protocol": "HTTP/1.1", "label": label, "source": source});
            lines += &format!("{request}\n");
        }
    }
    lines
}

fn train(options: &str, input: &str) -> run::Ran {
    glacis(&format!("train --rules {RULES} --date 2026-11-23 {options}"), input.as_bytes())
}

#[test]
fn the_same_requests_give_the_same_file() {
    let trained = train("", &requests());
    assert_eq!(trained.status, Some(0), "{}", trained.stderr);
    assert!(trained.stderr.contains("weights, threshold"), "{}", trained.stderr);
    let again = train("--jobs 3 -q", &requests());
    assert_eq!((again.stderr.as_str(), again.stdout), ("", trained.stdout.clone()));
    let file: Value = serde_json::from_str(&trained.stdout).unwrap();
    let sources = file["provenance"]["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 5);
    assert_eq!(sources[0]["name"], "first");
    assert_eq!((&sources[0]["attacks"], &sources[0]["benign"]), (&json!(40), &json!(0)));
    assert_eq!(sources[0]["sha256"].as_str().map(str::len), Some(64));
    assert_eq!(file["provenance"]["date"], "2026-11-23");
    let weights = file["rules"].as_object().unwrap();
    let weight = |rule: &str| weights.get(rule).and_then(Value::as_f64).unwrap_or_default();
    assert!(weight("942001") + weight("942002") > 1.0, "{weights:?}");
    assert!(!weights.contains_key("920001"), "{weights:?}");
    // A request more is another source.
    let more = requests() + &requests().lines().next().unwrap().replace("first", "sixth") + "\n";
    assert_ne!(train("-q", &more).stdout, trained.stdout);
}

#[test]
fn requests_need_labels_and_sources() {
    let line = requests().lines().next().unwrap().to_owned();
    let alike = requests().replace("second", "first");
    for (input, problem) in [
        (line.replace("attack", "evil"), "line 1: unknown variant"),
        (line.replace("\"source\"", "\"origin\""), "line 1: missing field `source`"),
        (line.replace("\"uri\"", "\"path\""), "line 1: missing field `uri`"),
        (line, "two sources"),
        (alike, "two sources"),
        (String::new(), "two sources"),
    ] {
        let ran = train("-q", &input);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(ran.stderr.contains(problem), "{}: {problem}", ran.stderr);
    }
}

#[test]
fn eval_adds_the_opinion() {
    let weights = json!({"format": 1, "name": "test", "paranoia_level": 4, "threshold": 3.0,
        "rules": {"942001": 2.1, "942002": 1.3},
        "provenance": {"date": "", "ruleset": "", "sources": [], "held_out": []}});
    let file = env::temp_dir().join(format!("glacis-weights-{}.json", process::id()));
    fs::write(&file, weights.to_string()).unwrap();
    let option = format!("--second-opinion={}", file.display());
    let request = |query: &str| {
        let line = json!({"id": 1, "method": "GET", "uri": query, "protocol": "HTTP/1.1"});
        let ran = glacis_with(&["eval", "--rules", RULES, &option], line.to_string().as_bytes());
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let answer = request("/?q=select'");
    assert_eq!(answer["action"], "allow");
    let expected = json!({"attack": true, "score": 3.4, "threshold": 3.0, "value": "ARGS:q",
        "sum": "942001 +2.1, 942002 +1.3",
        "reasons": [{"rule": 942001, "weight": 2.1}, {"rule": 942002, "weight": 1.3}]});
    assert_eq!(answer["second_opinion"], expected);
    let expected = json!({"attack": false, "score": 0.0, "threshold": 3.0, "value": "", "sum": "",
        "reasons": []});
    assert_eq!(request("/?q=tea")["second_opinion"], expected);
    let line = json!({"id": 1, "method": "GET", "uri": "/?q=select'", "protocol": "HTTP/1.1"});
    let line = line.to_string();
    let explained = glacis_with(&["explain", "--rules", RULES, &option], line.as_bytes()).stdout;
    for expected in ["attack: 3.4 points, threshold 3", "ARGS:q: 942001 +2.1, 942002 +1.3"] {
        assert!(explained.contains(expected), "{explained}");
    }
    fs::write(&file, "{}").unwrap();
    let ran = glacis_with(&["eval", "--rules", RULES, &option], b"");
    assert_eq!(ran.status, Some(1));
    assert!(ran.stderr.contains("missing field"), "{}", ran.stderr);
    fs::remove_file(&file).unwrap();
}

/// The weights that Glacis ships are read, and are about rules that the pinned CRS or the defaults of Glacis have.
#[test]
fn shipped_weights_are_of_the_pinned_rules() {
    let crs = run::crs();
    let line = json!({"id": 1, "method": "GET", "uri": "/?q=1'+union+select+password+from+users--",
        "protocol": "HTTP/1.1", "headers": [["Host", "example.com"]]});
    let arguments = ["eval", "-q", "--crs", crs.to_str().unwrap(), "--second-opinion"];
    let ran = glacis_with(&arguments, line.to_string().as_bytes());
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(answer["second_opinion"]["attack"], true, "{}", ran.stdout);
    let mut rules = String::new();
    for entry in fs::read_dir(crs.join("rules")).unwrap() {
        rules += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    for input in Defaults::Glacis.inputs() {
        if let Input::Text { text, .. } = input {
            rules += &text;
        }
    }
    let file: Value = serde_json::from_str(glacis_rules::WEIGHTS).unwrap();
    for rule in file["rules"].as_object().unwrap().keys() {
        assert!(rules.contains(&format!("id:{rule},")), "{rule}");
    }
}

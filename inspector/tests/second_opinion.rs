//! A second opinion beside the verdict of the rules: what it refuses, and what is recorded of it.

#![allow(clippy::unwrap_used, reason = "tests: helpers fail as assertions do")]

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{Input, Limits, NoFiles, Program, RuleEngine};
use glacis_inspector::{
    Decision, End, Header, Inspector, OpinionAction, RequestHead, SECOND_OPINION_RULE,
    SecondOpinion, Settings,
};
use glacis_second_opinion::Weights;

const RULES: &str = r#"
    SecRuleEngine On
    SecRequestBodyAccess On
    SecRule ARGS "@contains select" "id:942001,phase:2,pass,log"
    SecRule ARGS "@contains union" "id:942002,phase:2,pass,log"
    SecRule ARGS "@contains early" "id:942003,phase:1,deny,status:401,log"
    SecRule ARGS "@contains denied" "id:942004,phase:2,deny,status:401,log"
"#;

const WEIGHTS: [(u32, i32); 4] =
    [(942_001, 2_100), (942_002, 1_400), (942_003, 9_000), (942_004, 9_000)];

fn inspector(action: OpinionAction, rule_engine: Option<RuleEngine>) -> Inspector {
    let input = Input::Text { name: "test".into(), text: RULES.to_owned() };
    let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
    let weights = Weights::new("test".to_owned(), 4, 3_500, WEIGHTS.to_vec()).unwrap();
    let second_opinion = Some(SecondOpinion { weights: Arc::new(weights), action });
    let settings = Settings { rule_engine, second_opinion, ..Settings::default() };
    Inspector::new(Arc::new(program), Arc::new(settings))
}

/// Inspects a request, with a form as its body if there is one.
fn inspect(inspector: &mut Inspector, path: &str, body: &str) -> Decision {
    let form = "application/x-www-form-urlencoded";
    let length = body.len().to_string();
    let mut headers = vec![(":method", "GET"), (":path", path), ("host", "a.example")];
    if !body.is_empty() {
        headers = vec![
            (":method", "POST"),
            (":path", path),
            ("host", "a.example"),
            ("content-type", form),
            ("content-length", &length),
        ];
    }
    let headers: Vec<Header<'_>> = headers
        .iter()
        .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let head = RequestHead {
        headers: &headers,
        protocol: None,
        end_of_stream: body.is_empty(),
        id: "1",
        time: Duration::ZERO,
        source: None,
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    };
    match inspector.request_headers(&head) {
        Decision::NeedBody => inspector.request_body(body.as_bytes(), End::Last),
        decision => decision,
    }
}

#[test]
fn opinions_refuse_where_they_may_and_never_acquit() {
    use OpinionAction::{Block, Shadow};
    let own = SECOND_OPINION_RULE.0;
    // What is answered: status and rule, 0 for no refusal. What the receipt holds: score, and whether rules refuse.
    for (action, mode, path, body, answer, opinion) in [
        (Shadow, None, "/?q=tea", "", (0, 0), Some((0, false))),
        (Shadow, None, "/?q=union+select", "", (0, 0), Some((3_500, false))),
        (Block, None, "/?q=tea", "", (0, 0), Some((0, false))),
        (Block, None, "/?q=select", "", (0, 0), Some((2_100, false))),
        (Block, None, "/?q=union+select", "", (403, own), Some((3_500, false))),
        (Block, None, "/", "q=union+select", (403, own), Some((3_500, false))),
        // Two values are two sums.
        (Block, None, "/?q=union", "p=select", (0, 0), Some((2_100, false))),
        // What rules refuse stays refused as they say, also where the opinion has not been formed.
        (Block, None, "/?q=denied", "", (401, 942_004), Some((9_000, true))),
        (Shadow, None, "/?q=denied", "", (401, 942_004), Some((9_000, true))),
        (Block, None, "/?q=early", "", (401, 942_003), None),
        // Where rules may not block, opinions may not either.
        (
            Block,
            Some(RuleEngine::DetectionOnly),
            "/?q=union+select",
            "",
            (0, 0),
            Some((3_500, false)),
        ),
        (Block, Some(RuleEngine::Off), "/?q=union+select", "", (0, 0), None),
    ] {
        let row = format!("{action:?} {mode:?} {path} {body}");
        let mut inspector = inspector(action, mode);
        let found = match inspect(&mut inspector, path, body) {
            Decision::Reply(reply) => (reply.status, reply.rule.map_or(0, |rule| rule.0)),
            Decision::Continue => (0, 0),
            Decision::NeedBody => panic!("{row}: it waits for a body"),
        };
        assert_eq!(found, answer, "{row}");
        let receipt = inspector.receipt();
        assert_eq!(receipt.verdict, if answer.0 == 0 { "allow" } else { "deny" }, "{row}");
        assert_eq!(receipt.reason, None, "{row}");
        // Detection mode withholds the refusal of an opinion that blocks, and names it.
        let withheld = mode == Some(RuleEngine::DetectionOnly);
        let would_deny = receipt.would_deny.map(|would_deny| would_deny.rule.0);
        assert_eq!(would_deny, withheld.then_some(own), "{row}");
        let held = receipt.opinion.map(|it| (it.score, it.refused_by_rules));
        assert_eq!(held, opinion, "{row}");
        let attack = receipt.opinion.is_some_and(|opinion| opinion.attack);
        assert_eq!(attack, opinion.is_some_and(|(score, _)| score >= 3_500), "{row}");
    }
}

/// A refusal by the opinion has a record, with the sum that it came to.
#[test]
fn records_show_the_sum() {
    let mut inspector = inspector(OpinionAction::Block, None);
    inspect(&mut inspector, "/?q=union+select", "");
    let record = inspector.finish(Duration::ZERO).audit.unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(
        (&record["action"], &record["rule"]),
        (&"deny".into(), &SECOND_OPINION_RULE.0.into())
    );
    let expected = serde_json::json!({
        "attack": true, "score": 3.5, "threshold": 3.5, "value": "ARGS:q",
        "reasons": [{"rule": 942_001, "weight": 2.1}, {"rule": 942_002, "weight": 1.4}],
    });
    assert_eq!(record["second_opinion"], expected);
    // An opinion does not outlive its request.
    inspect(&mut inspector, "/?q=early", "");
    assert_eq!(inspector.receipt().opinion, None);
}

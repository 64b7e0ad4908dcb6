//! Rules above the blocking paranoia level that run for detection change no verdict, no score and no match of the rules
//! up to that level: a second opinion may look at all levels while CRS decides by its own.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod requests;

use std::sync::Arc;

use glacis_engine::{Limits, Program};
use glacis_inspector::{Decision, End, Inspector, Settings};
use glacis_rules::{CrsSettings, FileSource};
use requests::{Request, attacks, crs, mixtures, ordinary};

/// What an inspection came to: the verdict, status and rule of the answer, the score, and each rule that matched with
/// the values it matched on.
#[derive(Debug, PartialEq)]
struct Came {
    verdict: &'static str,
    answer: Option<(u16, String)>,
    score: i64,
    matched: Vec<(u32, String)>,
}

fn inspector(blocking: u8, detection: Option<u8>) -> Inspector {
    let mut inputs = glacis_rules::crs(&crs()).unwrap();
    let settings = CrsSettings {
        paranoia: Some(blocking),
        detection_paranoia: detection,
        ..CrsSettings::default()
    };
    inputs.splice(2..2, settings.input());
    let program = Program::build(&inputs, &FileSource::new(), Limits::default()).unwrap();
    Inspector::new(Arc::new(program), Arc::new(Settings::default()))
}

fn came(inspector: &mut Inspector, request: &Request, level: u8) -> Came {
    let headers = request.headers();
    let head = request.head(&headers);
    let mut decision = inspector.request_headers(&head);
    if decision == Decision::NeedBody {
        decision = inspector.request_body(&request.body, End::Last);
    }
    let answer = match decision {
        Decision::Reply(reply) => Some((reply.status, reply.details)),
        _ => None,
    };
    let of_level = |tag: &str| {
        let number = tag.strip_prefix("paranoia-level/").and_then(|level| level.parse().ok());
        number.is_some_and(|number: u8| number <= level)
    };
    // Rules without a level report the sums of all levels.
    let matched =
        inspector.matched_rules().filter(|rule| rule.tags.iter().any(|tag| of_level(tag)));
    let matched = matched.map(|rule| (rule.id.0, format!("{:?}", rule.matches))).collect();
    let receipt = inspector.receipt();
    Came { verdict: receipt.verdict, answer, score: receipt.scores.inbound, matched }
}

#[test]
fn rules_of_higher_levels_change_nothing() {
    let (attacks, ordinary) = (attacks(), ordinary());
    let all: Vec<Request> = attacks.into_iter().chain(ordinary).collect();
    let mixed: Vec<Request> = mixtures(&all, 500).collect();
    for level in [1, 2] {
        let (mut plain, mut watched) = (inspector(level, None), inspector(level, Some(4)));
        let (mut blocked, mut matched) = (0, 0);
        for request in all.iter().chain(&mixed) {
            let expected = came(&mut plain, request, level);
            assert_eq!(came(&mut watched, request, level), expected, "{level}: {request:?}");
            blocked += usize::from(expected.verdict == "deny");
            matched += watched.matched_rules().count() - plain.matched_rules().count();
        }
        // Both must come, or there would be nothing to compare.
        assert!(blocked > 1_000 && matched > 1_000, "{blocked} {matched}");
    }
}

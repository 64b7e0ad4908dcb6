//! From which anomaly score and up to which paranoia level rules block, as they say it themselves: one request is
//! evaluated, and what it sets is read from the trace.

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{Program, RuleEngine, TraceEvent, Transaction};

use crate::{Occasion, Request, inspect};

/// The highest paranoia level of CRS.
const LEVEL_MAX: u8 = 4;

/// From where on rules block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// The anomaly score of a request; `None` where the rules set none.
    pub threshold: Option<i64>,
    /// The highest paranoia level whose rules count; rules above are evidence only.
    pub level: u8,
}

impl Blocking {
    /// What the rules of a program set.
    #[must_use]
    pub fn of(program: &Arc<Program>) -> Self {
        let line = r#"{"id": 1, "method": "GET", "uri": "/", "protocol": "HTTP/1.1"}"#;
        let mut found = Self { threshold: None, level: LEVEL_MAX };
        let Ok(request) = Request::parse(line.as_bytes()) else { return found };
        let mut transaction = Transaction::new(Arc::clone(program)).with_trace();
        // An empty request may be blocked before its end.
        let rule_engine = Some(RuleEngine::DetectionOnly);
        let occasion = Occasion { rule_engine, ..Occasion::at(Duration::ZERO) };
        inspect(&mut transaction, &request, "threshold", &occasion);
        for step in transaction.trace() {
            let change = match step.event {
                TraceEvent::Change(change) => change,
                TraceEvent::Match(_) | TraceEvent::Miss(_) | TraceEvent::Rule(_) => continue,
            };
            let Some(value) = &change.after else { continue };
            match &*change.member {
                b"inbound_anomaly_score_threshold" => {
                    found.threshold = value.text().trim().parse().ok();
                }
                b"blocking_paranoia_level" => {
                    found.level = value.text().trim().parse().unwrap_or(LEVEL_MAX);
                }
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use glacis_engine::{Input, Limits, NoFiles};

    use super::*;

    #[test]
    fn what_rules_set_is_found() {
        const SET: &str =
            "SecAction \"id:1,phase:1,pass,nolog,setvar:tx.inbound_anomaly_score_threshold=";
        for (rules, expected) in [
            (String::new(), (None, 4)),
            (format!("{SET}5,setvar:tx.blocking_paranoia_level=2\""), (Some(5), 2)),
            // The last one counts, also where the request itself is blocked.
            (
                format!(
                    "{SET}5\"\nSecAction \"id:2,phase:1,deny,log\"\n\
                     SecAction \"id:3,phase:1,pass,nolog,setvar:tx.inbound_anomaly_score_threshold=7\""
                ),
                (Some(7), 4),
            ),
            (format!("{SET}many\""), (None, 4)),
        ] {
            let text = format!("SecRuleEngine On\n{rules}");
            let input = Input::Text { name: "test".into(), text };
            let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
            let Blocking { threshold, level } = Blocking::of(&Arc::new(program));
            assert_eq!((threshold, level), expected, "{rules}");
        }
    }
}

//! The anomaly score at which rules block, as they say it themselves: one request is evaluated, and what it sets is
//! read from the trace.

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{Program, RuleEngine, TraceEvent, Transaction};
use glacis_explain::{Occasion, Request, inspect};

const MEMBER: &[u8] = b"inbound_anomaly_score_threshold";

/// The threshold for the score of a request; `None` where the rules set none.
pub(crate) fn inbound_threshold(program: &Arc<Program>) -> Option<i64> {
    let line = r#"{"id": 1, "method": "GET", "uri": "/", "protocol": "HTTP/1.1"}"#;
    let request = Request::parse(line.as_bytes()).ok()?;
    let mut transaction = Transaction::new(Arc::clone(program)).with_trace();
    // An empty request may be blocked before its end.
    let rule_engine = Some(RuleEngine::DetectionOnly);
    let occasion = Occasion { rule_engine, ..Occasion::at(Duration::ZERO) };
    inspect(&mut transaction, &request, "threshold", &occasion);
    let set = transaction.trace().filter_map(|step| match step.event {
        TraceEvent::Change(change) if *change.member == *MEMBER => change.after.as_ref(),
        TraceEvent::Change(_)
        | TraceEvent::Match(_)
        | TraceEvent::Miss(_)
        | TraceEvent::Rule(_) => None,
    });
    set.last()?.text().trim().parse().ok()
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
            (String::new(), None),
            (format!("{SET}5\""), Some(5)),
            // The last one counts, also where the request itself is blocked.
            (
                format!(
                    "{SET}5\"\nSecAction \"id:2,phase:1,deny,log\"\n\
                     SecAction \"id:3,phase:1,pass,nolog,setvar:tx.inbound_anomaly_score_threshold=7\""
                ),
                Some(7),
            ),
            (format!("{SET}many\""), None),
        ] {
            let text = format!("SecRuleEngine On\n{rules}");
            let input = Input::Text { name: "test".into(), text };
            let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
            assert_eq!(inbound_threshold(&Arc::new(program)), expected, "{rules}");
        }
    }
}

//! A law of verdicts without the body. The input is a message, behind rules perhaps: see the module `generated`.

use std::sync::Arc;

use glacis_engine::Program;

use crate::{
    generated,
    message::{Message, fresh, with_body, with_values},
    sample::{Choices, encoded_sample},
};

/// What CRS does with matches: they add to a score, and the last rule refuses a high one.
const SCORED: [&str; 2] = [
    "SecAction \"id:401,phase:1,pass,nolog,setvar:tx.one=1,setvar:tx.s=0\"\n\
     SecRule ARGS|REQUEST_HEADERS \"@rx [ae]\" \"id:402,phase:2,pass,log,setvar:tx.s=+%{tx.one}\"\n\
     SecRule REQUEST_URI|ARGS_NAMES \"!@contains b\" \"id:403,phase:2,pass,log,setvar:tx.s=+%{tx.one}\"\n",
    "SecAction \"id:404,phase:2,pass,nolog,setvar:tx.sum=0\"\n\
     SecRule REQUEST_METHOD \"@rx P\" \"id:405,phase:2,pass,nolog,setvar:tx.sum=+%{tx.s}\"\n\
     SecRule TX:sum \"@ge 3\" \"id:406,phase:2,deny,log\"\n",
];

/// Rules that refuse a request on its head alone refuse it with any body.
pub fn before_body(input: &[u8]) {
    let (rules, message) = generated::parts(input).unwrap_or((b"", input));
    let program = Arc::new(generated::between(SCORED, rules));
    let mut choices = Choices::of(input);
    let parameters = generated::parameters(rules);
    let sample = |text: &String| encoded_sample(text, &mut choices);
    let samples: Vec<Vec<u8>> = parameters.iter().map(sample).collect();
    let (of_head, of_body) = samples.split_at(samples.len() / 2);
    let bare = message;
    let message = with_values(message, of_head);
    for message in [bare.to_vec(), with_body(&message, of_body), message] {
        refuses_with_body(&program, &message);
    }
}

/// Says whether the head alone was refused.
fn refuses_with_body(program: &Arc<Program>, message: &[u8]) -> bool {
    let message = Message::parse(message);
    let refused = message.is_refused_before_body(&mut fresh(program));
    if refused {
        let mut whole = fresh(program);
        message.send(&mut whole, &[]);
        assert!(
            whole.verdict().refusal().is_some(),
            "refused before its body has come, and passed with it: {:?}",
            whole.verdict()
        );
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The law is about something: heads are refused, and one only with the body.
    #[test]
    fn some_heads_are_refused() {
        let program = Arc::new(generated::between(SCORED, b""));
        let refused = |line: &str| {
            let head = "Content-Type: application/x-www-form-urlencoded\n\nc=a&d=e&f=a";
            let message = format!("POST {line} HTTP/1.1\n{head}");
            let mut whole = fresh(&program);
            Message::parse(message.as_bytes()).send(&mut whole, &[]);
            assert!(whole.verdict().refusal().is_some(), "{line} with its body");
            refuses_with_body(&program, message.as_bytes())
        };
        assert!(refused("/a?a=e&b=a&c=a"));
        assert!(!refused("/b"));
    }

    /// A ruleset in which a body may take matches away allows no verdict without it.
    #[test]
    fn bodies_that_take_matches_away_are_waited_for() {
        for (rule, allows) in [
            ("SecRule ARGS \"@rx a\" \"id:409,phase:2,pass,log\"", true),
            ("SecRule ARGS \"@rx a\" \"id:409,phase:2,pass,log,ctl:auditLogParts=+E\"", true),
            ("SecRule ARGS \"@rx a\" \"id:409,phase:2,pass,log,ctl:ruleRemoveById=402\"", false),
            ("SecRule ARGS_GET \"@rx a\" \"id:409,phase:2,pass,log,ctl:ruleRemoveById=402\"", true),
            ("SecRule ARGS \"@rx a\" \"id:409,phase:2,pass,log,skip:1\"", false),
            ("SecRule REQUEST_BODY \"@rx a\" \"id:409,phase:2,pass,log,skipAfter:END\"", false),
            ("SecRule &ARGS \"@eq 1\" \"id:409,phase:2,allow\"", false),
            ("SecRule REQUEST_URI \"@rx a\" \"id:409,phase:2,allow\"", true),
            ("SecRule REQUEST_URI \"@rx a\" \"id:409,phase:2,pass,initcol:ip=1\"", false),
            ("SecRule ARGS \"@rx a\" \"id:409,phase:2,pass,setvar:ip.a=+1\"", false),
        ] {
            let program = generated::of_text(&[SCORED[0], rule, "\n", SCORED[1]].concat());
            assert_eq!(program.can_refuse_before_body(), allows, "{rule}");
        }
    }

    /// Trailers may bring the header that names a user, and so another user than none.
    #[test]
    fn trailers_may_name_the_user() {
        let rule = "SecRule REMOTE_USER \"!@streq z\" \"id:409,phase:2,deny\"\n";
        let program = Arc::new(generated::of_text(rule));
        assert!(!refuses_with_body(&program, b"POST /b HTTP/1.1\nHost: a"));
    }

    /// Scores that a body may lower, or that a rule compares otherwise, refuse nothing on the head.
    #[test]
    fn what_a_body_may_undo_is_no_refusal() {
        for (rule, is_refused) in [
            ("", true),
            ("SecRule ARGS \"@rx z\" \"id:409,phase:2,pass,log,setvar:tx.s=0\"", false),
            ("SecRule ARGS \"@rx z\" \"id:409,phase:2,pass,log,setvar:tx.s=-1\"", false),
            ("SecRule ARGS \"@rx z\" \"id:409,phase:2,pass,log,setvar:tx.s=+%{ARGS.z}\"", false),
            ("SecRule ARGS \"@rx z\" \"id:409,phase:2,pass,log,setvar:tx.one=-5\"", false),
            (
                "SecRule ARGS \"@rx z\" \"id:409,phase:2,pass,log,setvar:tx.%{MATCHED_VAR}=1\"",
                false,
            ),
            (
                "SecRule ARGS \"@rx z\" \"id:409,phase:2,pass,log,setvar:tx.t%{MATCHED_VAR}=1\"",
                true,
            ),
            ("SecRule TX:s \"@lt 9\" \"id:409,phase:2,pass,log,setvar:tx.sum=+9\"", true),
        ] {
            let program =
                Arc::new(generated::of_text(&[SCORED[0], rule, "\n", SCORED[1]].concat()));
            let message = b"POST /a?a=e&b=a&c=a HTTP/1.1\nHost: a";
            assert_eq!(refuses_with_body(&program, message), is_refused, "{rule}");
        }
    }
}

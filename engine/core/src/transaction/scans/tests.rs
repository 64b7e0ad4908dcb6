//! The law of [`crate::scan`] where something changes between phases, or while rules run: what matches is the same
//! with the fast path and without.

use core::{net::Ipv4Addr, time::Duration};
use std::sync::Arc;

use crate::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};

/// The rules that match a form with an attack, which is answered with 503.
#[track_caller]
fn check(rules: &str, expected: &[u32]) {
    let text = format!("SecRuleEngine On\nSecRequestBodyAccess On\n{rules}");
    let input = [Input::Text { name: "rules".to_owned(), text }];
    let build = || Program::build(&input, &NoFiles, Limits::default()).unwrap();
    for (how, program) in [("fast", build()), ("slow", build().without_gates())] {
        let mut transaction = Transaction::new(Arc::new(program));
        let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
        let time = Duration::ZERO;
        transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
        transaction.request_line(b"POST", b"/", b"HTTP/1.1");
        transaction.request_header(b"Content-Type", b"application/x-www-form-urlencoded");
        transaction.evaluate_request_headers();
        transaction.request_body(b"a=union+select");
        transaction.evaluate_request_body();
        transaction.response_line(503, b"HTTP/1.1");
        transaction.evaluate_response_headers();
        transaction.finish(time);
        let matched: Vec<u32> = transaction.matched_rules().map(|rule| rule.id.0).collect();
        assert_eq!(matched, expected, "{how}: {rules}");
    }
}

/// A rule that looks too early does not hide from later ones what is there by then.
#[test]
fn values_come_with_their_phase() {
    for transformations in ["t:none", "t:lowercase", "t:urlDecodeUni", "multiMatch,t:urlDecodeUni"]
    {
        check(
            &format!(
                r#"SecRule REQUEST_BODY "@rx union.select" "id:1,phase:1,pass,log,{transformations}"
                SecRule REQUEST_BODY "@rx union.select" "id:2,phase:2,pass,log,{transformations}"
                SecRule REQUEST_BODY "!@rx union.select" "id:3,phase:2,pass,log,{transformations}"
                SecRule RESPONSE_STATUS "@rx ^5\d+$" "id:4,phase:2,pass,log,{transformations}"
                SecRule RESPONSE_STATUS "@rx ^5\d+$" "id:5,phase:3,pass,log,{transformations}"
                SecRule ARGS_COMBINED_SIZE "@rx ^0$" "id:6,phase:1,pass,log,{transformations}"
                SecRule ARGS_COMBINED_SIZE "@rx ^0$" "id:7,phase:2,pass,log,{transformations}""#
            ),
            &[6, 2, 5],
        );
    }
}

/// Beyond its limits nothing more is kept of values, and rules find what they look for none the less.
#[test]
fn what_is_kept_of_values_is_bounded() {
    let rules = r#"SecRuleEngine On
        SecRequestBodyAccess On
        SecAction "id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=XML"
        SecRule XML:/* "@rx union.select" "id:2,phase:2,pass,log,t:urlDecodeUni"
        SecRule XML:/* "@rx union.select" "id:3,phase:2,pass,log,t:htmlEntityDecode"
        SecRule XML:/* "@rx union.select" "id:4,phase:2,pass,log,multiMatch,t:urlDecodeUni""#;
    let padding = "<b>%41 &amp;#65; x</b>".repeat(1_000);
    let body = format!("<a>{padding}<b>union%20select</b></a>");
    for (views_max, transformed_bytes_max, dropped) in [
        (1 << 16, 1 << 16, false),
        (100, 1 << 16, true),
        (1_500, 1 << 16, true),
        (1 << 16, 1_000, true),
        (0, 0, true),
    ] {
        let limits = Limits { views_max, transformed_bytes_max, ..Limits::default() };
        let input = [Input::Text { name: "rules".to_owned(), text: rules.to_owned() }];
        let program = Program::build(&input, &NoFiles, limits).unwrap();
        let mut transaction = Transaction::new(Arc::new(program));
        // The second time with memory that has been used.
        for _ in 0..2 {
            let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
            let time = Duration::ZERO;
            transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
            transaction.request_line(b"POST", b"/", b"HTTP/1.1");
            transaction.evaluate_request_headers();
            transaction.request_body(body.as_bytes());
            transaction.evaluate_request_body();
            let matched: Vec<u32> = transaction.matched_rules().map(|rule| rule.id.0).collect();
            // But for the method and the protocol, of which something may be known.
            let views = transaction.scans.views.len() - transaction.scans.unbounded;
            let context = format!("{views_max} {transformed_bytes_max}: {views} views");
            assert_eq!(matched, [2, 4], "{context}");
            assert_eq!(transaction.flags().views_dropped, dropped, "{context}");
            assert!(views <= views_max, "{context}");
        }
    }
}

/// A rule that only skips others does not where a `ctl` took away what it looks at.
#[test]
fn what_skips_may_lose_its_target() {
    const SKIPS: &str = r#"
        SecRule REQUEST_METHOD "@rx (.+)" "id:2,phase:1,pass,nolog,capture,setvar:tx.level=%{tx.1}"
        SecRule TX:level "@eq 0" "id:3,phase:1,pass,nolog,skipAfter:END"
        SecRule REQUEST_METHOD "@streq POST" "id:4,phase:1,pass,log"
        SecMarker END"#;
    for (control, expected) in [
        ("auditEngine=On", &[][..]),
        ("ruleRemoveTargetById=9;TX:level", &[]),
        ("ruleRemoveTargetById=3;TX:level", &[4]),
        ("ruleRemoveTargetById=3;TX", &[4]),
    ] {
        check(&format!("SecAction \"id:1,phase:1,pass,nolog,ctl:{control}\"{SKIPS}"), expected);
    }
}

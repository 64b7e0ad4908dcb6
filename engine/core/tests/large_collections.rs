//! Members of collections behind those of which all is kept ([`Limits::kept_members_max`]): that limit changes no verdict.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};

/// A rule for every kind of gate, of those that have none, and with a target that is taken away.
const RULES: &str = r#"
    SecRuleEngine DetectionOnly
    SecRequestBodyAccess On
    SecRule ARGS "@rx union" "id:1,phase:2,pass,t:none,t:removeWhitespace"
    SecRule ARGS_NAMES "@contains select" "id:2,phase:2,pass,t:none,t:urlDecodeUni,t:lowercase"
    SecRule ARGS_POST "@rx ^[a-z]'[0-9]$" "id:3,phase:2,pass,t:none"
    SecRule ARGS "@rx ;" "id:4,phase:2,pass,t:none,t:htmlEntityDecode"
    SecRule ARGS "@detectSQLi" "id:5,phase:2,pass,t:none"
    SecRule &ARGS "!@eq 4" "id:6,phase:2,pass"
    SecRule ARGS|!ARGS:y "!@rx ^.{0,40}$" "id:7,phase:2,pass,t:none"
    SecRule ARGS:y "@rx ^$" "id:8,phase:2,pass"
    SecRule ARGS "@rx <[a-z]" "id:9,phase:2,pass,multiMatch,t:none,t:hexDecode"
    SecRule ARGS "@rx ^0$" "id:10,phase:2,pass,t:none,t:length"
    SecRule ARGS:y|ARGS_NAMES:q "@rx [0-9]{3}$" "id:11,phase:2,pass,t:none,chain"
        SecRule MATCHED_VAR "@rx ^9" "t:none""#;

fn matched(kept_members_max: usize, body: &str) -> Vec<u32> {
    let limits = Limits { kept_members_max, arguments_max: 10_000, ..Limits::default() };
    let input = Input::Text { name: "rules.conf".to_owned(), text: RULES.to_owned() };
    let program = Program::build(&[input], &NoFiles, limits).unwrap();
    let mut transaction = Transaction::new(Arc::new(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::from_secs(1);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", b"/", b"HTTP/1.1");
    transaction.request_header(b"Content-Type", b"application/x-www-form-urlencoded");
    transaction.evaluate_request_headers();
    transaction.request_body(body.as_bytes());
    transaction.evaluate_request_body();
    transaction.matched_rules().map(|rule| rule.id.0).collect()
}

#[test]
fn members_of_which_nothing_is_kept_are_inspected() {
    for (pair, expected) in [
        ("y=uni on", vec![1]),
        ("SELECT=1", vec![2]),
        ("%73elect=1", vec![2]),
        ("y=a'7", vec![3]),
        ("y=%26%2359%3b", vec![4]),
        ("y=1' or 1=1 --", vec![5]),
        ("x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", vec![7]),
        ("y=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", vec![]),
        ("y=", vec![8, 10]),
        ("z=", vec![10]),
        ("y=3c61", vec![9]),
        ("y=<a", vec![9]),
        ("y=912", vec![11]),
        ("y=812", vec![]),
        ("y=1&z=2", vec![6]),
    ] {
        for fillers in ["a=1&b=2&c=3", "b=7&b=7&b=7"] {
            for body in [format!("{fillers}&{pair}"), format!("{pair}&{fillers}")] {
                for kept_members_max in [0, 1, 2, 3, 4, 5, 1_024] {
                    let found = matched(kept_members_max, &body);
                    assert_eq!(found, expected, "{body}, {kept_members_max} kept");
                }
            }
        }
    }
}

/// Members at the limit of those that are kept, and one above, many of them alike.
#[test]
fn at_the_limit() {
    let kept = Limits::default().kept_members_max;
    for count in [kept - 2, kept - 1, kept, kept + 1, 3 * kept] {
        let fillers = vec!["n=some+words"; count].join("&");
        let body = |pair: &str| format!("{fillers}&{pair}");
        let before: Vec<u32> = vec![6];
        assert_eq!(matched(kept, &body("y=1")), before, "{count}");
        assert_eq!(matched(kept, &body("y=union")), vec![1, 6], "{count}");
        assert_eq!(matched(kept, &format!("{}&n=union&{fillers}", body("y=1"))), vec![1, 6]);
    }
}

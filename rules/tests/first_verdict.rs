//! The law of the first verdict: what it calls clean is let through, scores zero and matches nothing that logs
//! when the whole engine inspects it. Over the regression tests of CRS, ordinary traffic, and mixtures of both,
//! with the rules as a module in Envoy gets them: packed into bytes and read again.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

mod requests;

use std::sync::Arc;

use glacis_engine::{Input, Limits, MemoryStore};
use glacis_inspector::{
    Decision, End, FIRST_VERDICT_HEAD_BYTES_MAX, First, FirstVerdict, Inspector, RuleBundle,
    Settings,
};
use glacis_rules::FileSource;
use requests::{Request, attacks, crs, mixtures, ordinary};

/// Both sides, with the same rules.
struct Sides {
    first: FirstVerdict,
    whole: Inspector,
}

impl Sides {
    fn new(text: &str) -> Self {
        let own = Input::Text { name: "own.conf".to_owned(), text: text.to_owned() };
        let mut inputs = vec![own];
        let found = glacis_rules::crs(&crs());
        inputs.extend(found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`")));
        let (bundle, program) = RuleBundle::gather(&inputs, &FileSource::new()).unwrap();
        let packed = bundle.pack().unwrap();
        assert!(packed.len() < 512 << 10, "{} bytes", packed.len());
        let again = RuleBundle::unpack(&packed).unwrap().build().unwrap();
        assert_eq!(again.rule_count(), program.rule_count());
        let store = MemoryStore::new(100, Limits::default().collections());
        let settings = Settings { collections: Some(Arc::new(store)), ..Settings::default() };
        Self {
            first: FirstVerdict::new(Arc::new(again), 0),
            whole: Inspector::new(Arc::new(program), Arc::new(settings)),
        }
    }

    /// The first verdict, which is held against the whole inspection.
    fn check(&mut self, request: &Request) -> First {
        let headers = request.headers();
        let head = request.head(&headers);
        let first = self.first.judge(&head);
        if self.whole.request_headers(&head) == Decision::NeedBody {
            self.whole.request_body(&request.body, End::Last);
        }
        let receipt = self.whole.finish(head.time).receipt;
        let found = (receipt.verdict, receipt.scores.inbound, &*receipt.rules);
        let quiet = found == ("allow", 0, &[]);
        match first {
            First::Clean => {
                assert!(quiet, "{}: called clean: {found:?}: {request:?}", request.name)
            }
            First::Body => assert!(!request.body.is_empty(), "no body: {request:?}"),
            // Not the law, but what it is for: what has no body and nothing is found in is clean.
            First::Suspect if !quiet || !request.body.is_empty() => {}
            First::Suspect => panic!("not called clean: {request:?}"),
        }
        first
    }
}

#[test]
fn what_is_called_clean_scores_zero() {
    let (attacks, ordinary) = (attacks(), ordinary());
    assert!(attacks.len() > 3_000 && ordinary.len() > 100, "{} {}", attacks.len(), ordinary.len());
    let all: Vec<Request> = attacks.iter().chain(&ordinary).cloned().collect();
    for level in [1, 4] {
        let mut sides = Sides::new(&format!(
            "SecAction \"id:1,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level={level}\""
        ));
        let mut clean = |requests: &mut dyn Iterator<Item = Request>| {
            let mut clean = [0usize; 3];
            for request in requests {
                clean[sides.check(&request) as usize] += 1;
            }
            clean
        };
        let ordinary = clean(&mut ordinary.iter().cloned());
        let attacks = clean(&mut attacks.iter().cloned());
        let mixtures = clean(&mut mixtures(&all, 6_000));
        println!("level {level}: ordinary {ordinary:?} attacks {attacks:?} mixtures {mixtures:?}");
        // It has to come everywhere, or the law would hold for want of anything to hold for.
        assert!(attacks[2] > 1_000 && mixtures[0] > 20 && mixtures[2] > 1_000);
        if level == 1 {
            assert_eq!(ordinary[2], 0, "ordinary requests are clean, or have a body");
        }
    }
}

/// What only the host of the whole inspection could answer is never clean.
#[test]
fn what_asks_elsewhere_is_suspect() {
    let request = Request { method: b"GET".to_vec(), path: b"/".to_vec(), ..Request::default() };
    let headers = request.headers();
    for (rules, expected) in [
        ("SecAction \"id:1,phase:1,pass,nolog\"", First::Clean),
        ("SecAction \"id:1,phase:1,pass,nolog,initcol:ip=%{REMOTE_ADDR}\"", First::Suspect),
        ("SecRule REMOTE_ADDR \"@geoLookup\" \"id:1,phase:1,pass,nolog\"", First::Suspect),
        ("SecRule REMOTE_ADDR \"@rbl bl.example\" \"id:1,phase:2,pass,nolog\"", First::Suspect),
        ("SecAction \"id:1,phase:1,pass,log\"", First::Suspect),
        ("SecAction \"id:1,phase:2,pass,nolog,setvar:tx.inbound_anomaly_score=1\"", First::Clean),
        ("SecAction \"id:1,phase:1,pass,nolog,ctl:ruleEngine=Off\"", First::Suspect),
        ("SecRuleEngine Off", First::Suspect),
        ("SecRule REQUEST_METHOD \"@streq GET\" \"id:1,phase:2,deny,nolog\"", First::Suspect),
    ] {
        let bundle = RuleBundle::of_text("rules", &format!("SecRuleEngine On\n{rules}"));
        let mut first = FirstVerdict::new(Arc::new(bundle.build().unwrap()), 0);
        assert_eq!(first.judge(&request.head(&headers)), expected, "{rules}");
    }
}

/// A head is bounded in bytes and in work: ext_proc is asked about what goes beyond.
#[test]
fn what_takes_too_long_is_suspect() {
    let clean = |path: Vec<u8>, rules: &str| {
        let request = Request { method: b"GET".to_vec(), path, ..Request::default() };
        let bundle = RuleBundle::of_text("rules", &format!("SecRuleEngine On\n{rules}"));
        let mut first = FirstVerdict::new(Arc::new(bundle.build().unwrap()), 0);
        first.judge(&request.head(&request.headers()))
    };
    let of_others = ":method".len() + "GET".len() + ":path".len();
    let longest = FIRST_VERDICT_HEAD_BYTES_MAX - of_others;
    assert_eq!(clean(vec![b'/'; longest], ""), First::Clean);
    assert_eq!(clean(vec![b'/'; longest + 1], ""), First::Suspect);
    // Each rule looks at 500 arguments.
    let rules = |count: u32| -> String {
        let rule = |id| format!("SecRule ARGS \"@contains %{{tx.a}}x\" \"id:{id},nolog,pass\"\n");
        (1..=count).map(rule).collect()
    };
    let many = [b"/?".to_vec(), b"a=b&".repeat(500)].concat();
    assert_eq!(clean(many.clone(), &rules(4)), First::Clean);
    assert_eq!(clean(many, &rules(200)), First::Suspect);
}

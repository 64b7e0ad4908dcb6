//! `glacis bundle`: what it prints is the rules, with all the files that they name.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_inspector::RuleBundle;

use run::{crs, glacis_with};

#[test]
fn what_is_printed_is_the_rules() {
    let crs = crs();
    let crs = crs.to_str().unwrap();
    for (rules, rules_min) in [(["--rules", "eval/rules.conf"], 9), (["--crs", crs], 400)] {
        let ran = glacis_with(&[&["bundle"][..], &rules].concat(), b"");
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        let packed = STANDARD.decode(ran.stdout.strip_suffix('\n').unwrap()).unwrap();
        // The bundle answers what the rules ask for: no file is read here.
        let program = RuleBundle::unpack(&packed).unwrap().build().unwrap();
        let count = program.rule_count();
        assert!(count >= rules_min, "{rules:?}: {count}");
        assert_eq!(ran.stderr, format!("{count} rules, {} bytes\n", packed.len()));
        let quiet = glacis_with(&["bundle", "--quiet", rules[0], rules[1]], b"");
        assert_eq!((quiet.stdout, quiet.stderr), (ran.stdout, String::new()));
    }
}

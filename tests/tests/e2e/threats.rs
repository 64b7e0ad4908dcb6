//! Each line of the threat model names what shows it, and that exists.

use std::collections::BTreeSet;
use std::fs;

use glacis_tests::{chaos, settings};

#[test]
fn what_the_threat_model_names_exists() {
    let root = settings::root();
    let text = fs::read_to_string(root.join("docs/threat-model.md")).unwrap();
    let scenarios = chaos::read(&root.join("tests/chaos")).unwrap();
    let scenarios: BTreeSet<_> = scenarios.into_iter().map(|scenario| scenario.name).collect();
    let mut count = 0;
    for line in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| can he"))
    {
        let shown = line.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names: Vec<_> = shown.split('`').filter(|name| name.contains('#')).collect();
        assert!(!names.is_empty(), "nothing shows: {line}");
        for name in names {
            let (file, function) = name.split_once('#').unwrap();
            let exists = match file {
                "chaos" => scenarios.contains(function),
                file => fs::read_to_string(root.join(file))
                    .is_ok_and(|text| text.contains(&format!("fn {function}("))),
            };
            assert!(exists, "there is no {name}: {line}");
            count += 1;
        }
    }
    assert!(count > 40, "only {count} are named");
}

//! How many rules of CRS the fast path covers, by phase and gate, and which it does not: the golden file
//! `fast_path.txt`, which `UPDATE_EXPECT=1` renews. A rule that becomes open, or a gate that names more
//! than before, is seen there before it is seen in a benchmark.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{fmt::Write as _, fs, path::PathBuf};

use glacis_engine::{GateKind, GatedRule, Input, Limits, Phase, Program};
use glacis_rules::{Defaults, FileSource};

/// The pinned CRS with the base configuration at paranoia level 4: all of its rules can run.
fn program() -> Program {
    Program::build(&inputs(), &FileSource::new(), Limits::default()).unwrap()
}

/// A line that sets the paranoia level, then the base configuration and CRS.
fn inputs() -> Vec<Input> {
    let crs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let level = Input::Text {
        name: "level.conf".to_owned(),
        text: "SecAction \"id:1,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=4,\
               setvar:tx.detection_paranoia_level=4\""
            .to_owned(),
    };
    let found = glacis_rules::crs(&crs);
    let found = found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`"));
    [level].into_iter().chain(found).collect()
}

fn table(rules: &[GatedRule]) -> String {
    let mut text = String::from(
        "# Rules of CRS 4.25.0 at paranoia level 4, with the base configuration, by phase and by what the\n\
         # fast path asks before it runs them; links of chains do not count. Open rules run for every request,\n\
         # folded ones are evaluated when rules are loaded and counted under no gate.\n\
         # `UPDATE_EXPECT=1 cargo test -p glacis-rules --test fast_path` renews this file.\n",
    );
    let names: Vec<String> =
        GateKind::ALL.iter().map(|gate| format!("{:>8}", gate.name())).collect();
    let _ = writeln!(text, "phase {} {:>8} {:>8}", names.join(" "), "folded", "all");
    for phase in Phase::ALL {
        let all = || rules.iter().filter(move |rule| rule.phase == phase);
        let left = || all().filter(|rule| !rule.folded);
        let count = |gate: &GateKind| left().filter(|rule| rule.gate == *gate).count();
        let counts = GateKind::ALL.iter().map(|gate| format!("{:>8}", count(gate)));
        let counts = counts.collect::<Vec<String>>().join(" ");
        let (all, left) = (all().count(), left().count());
        let _ = writeln!(text, "{:<5} {counts} {:>8} {all:>8}", phase.number(), all - left);
    }
    for (phase, gate) in Phase::ALL
        .iter()
        .flat_map(|phase| [GateKind::Open, GateKind::Always].map(|gate| (*phase, gate)))
    {
        let mut line = format!("\n{}, phase {}:", gate.name(), phase.number());
        let found = rules.iter().filter(|rule| rule.phase == phase && rule.gate == gate);
        let mut found = found.filter(|rule| !rule.folded).peekable();
        if found.peek().is_none() {
            continue;
        }
        for rule in found {
            if line.chars().count() > 80 {
                let _ = writeln!(text, "{line}");
                line = String::from(" ");
            }
            let _ = write!(line, " {}", rule.id);
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

#[test]
fn the_fast_path_covers_what_it_covered() {
    let program = program();
    let rules: Vec<GatedRule> = program.fast_path().collect();
    assert_eq!(rules.len(), program.rule_count());
    let seen = table(&rules);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fast_path.txt");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &seen).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(seen, expected, "tests/fast_path.txt; UPDATE_EXPECT=1 rewrites it");
}

/// A golden file says what is, not what must be: as many rules as these are evaluated when rules are loaded, with the
/// base configuration and the defaults of Glacis, at the paranoia level that CRS sets.
#[test]
fn constant_folding_covers_the_configuration_of_crs() {
    const FLOOR: [(Phase, usize); 4] = [
        (Phase::RequestHeaders, 90),
        (Phase::RequestBody, 60),
        (Phase::ResponseHeaders, 30),
        (Phase::ResponseBody, 30),
    ];
    let mut inputs = inputs().split_off(1);
    Defaults::Glacis.weigh(&mut inputs);
    inputs.splice(2..2, Defaults::Glacis.inputs());
    let program = Program::build(&inputs, &FileSource::new(), Limits::default()).unwrap();
    for (phase, floor) in FLOOR {
        let folded = program.fast_path().filter(|rule| rule.phase == phase && rule.folded).count();
        assert!(folded >= floor, "phase {}: {folded} of at least {floor}", phase.number());
    }
}

/// With every gate open nothing is covered: what the file counts are gates, not rules.
#[test]
fn without_gates_all_rules_are_open() {
    let program = program().without_gates();
    let covered = program.fast_path().filter(|rule| rule.folded || rule.gate.can_say_no()).count();
    assert_eq!(covered, 0);
}

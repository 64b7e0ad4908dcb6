//! The memory that CRS takes at its highest paranoia level, in bytes of the heap: exact, and the same on
//! every machine of 64 bits. `cargo xtask bench load` measures the process as a whole.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{path::PathBuf, sync::Arc};

use allocation_counter::measure;
use glacis_engine::{Input, Limits, Parts, Program, Transaction};
use glacis_rules::FileSource;

const KIB: u64 = 1 << 10;

/// Bounds a little above what is seen today; lower them when less is needed.
const PROGRAM_MAX: u64 = 30_720 * KIB;
/// With what it has in common with the first kept once.
const FURTHER_PROGRAM_MAX: u64 = 1_088 * KIB;
const BUILDING_MAX: u64 = 41_984 * KIB;
const TRANSACTION_MAX: u64 = 80 * KIB;

const EXCLUSIONS: &str = "SecRuleRemoveById 942100 941000-941999
SecRuleUpdateTargetById 932235 !ARGS:comment
SecRuleRemoveByTag platform-windows";

fn build(level: u8, more: &str, parts: &mut Parts) -> Arc<Program> {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let crs = std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from);
    let text =
        format!("SecAction \"id:1,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level={level}\"");
    let mut inputs = vec![Input::Text { name: "level.conf".to_owned(), text }];
    let found = glacis_rules::crs(&crs);
    inputs.extend(found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`")));
    inputs.push(Input::Text { name: "more.conf".to_owned(), text: more.to_owned() });
    let program = Program::build_with(&inputs, &FileSource::new(), Limits::default(), parts);
    Arc::new(program.unwrap())
}

#[test]
fn a_program_takes_no_more_memory_than_it_did() {
    let mut kept = Vec::new();
    let mut found = Vec::new();
    let mut check = |name: &str, bytes: u64, max: u64| {
        if bytes > max {
            found.push(format!("{name}: {} KiB, not {} at most", bytes / KIB, max / KIB));
        }
    };
    let mut parts = Parts::default();
    for (name, level, more, max) in [
        ("the first profile", 4, "", PROGRAM_MAX),
        ("a further profile", 1, "", FURTHER_PROGRAM_MAX),
        ("a profile with exclusions", 2, EXCLUSIONS, FURTHER_PROGRAM_MAX),
    ] {
        let taken = measure(|| kept.push(build(level, more, &mut parts)));
        check(name, u64::try_from(taken.bytes_current).unwrap(), max);
        check(&format!("{name}, while it is built"), taken.bytes_max, BUILDING_MAX);
    }
    let mut transaction = None;
    let taken = measure(|| transaction = Some(Transaction::new(Arc::clone(&kept[0]))));
    check("a new transaction", taken.bytes_max, TRANSACTION_MAX);
    assert!(kept.iter().all(|program| program.rule_count() > 500));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

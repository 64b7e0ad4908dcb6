//! The benches of `bench/http` in their shortest form: that they run, that every answer is right, and that they say what they
//! have seen. How fast something is, they say on a quiet machine.

use std::process::Command;

use glacis_tests::bench::{self, Options, report, sizing};
use glacis_tests::settings;

#[test]
fn benches_run_and_check_answers() {
    // The path of a socket may have 107 bytes: cargo's folder can be longer.
    let folder = std::env::temp_dir().join(format!("glacis-e2e-bench-{}", std::process::id()));
    let (run, written) = (folder.join("run"), folder.join("written"));
    let workload = folder.join("workload");
    std::fs::create_dir_all(&folder).unwrap();
    let definitions = settings::root().join("bench/definitions.yaml");
    let made = Command::new(settings::workload().unwrap()).arg(definitions).arg(&workload).status();
    assert!(made.unwrap().success());
    for (name, stacks) in [
        ("barbacana", &["crs", "first-verdict"][..]),
        ("boundary", &["native", "hybrid"]),
        ("crowdsec", &["patches", "out-of-band"]),
        ("proxies", &["upstream", "envoy-empty-ext-proc"]),
        ("curves", &["crs-pl4"]),
        ("profiles", &["crs-3-profiles"]),
    ] {
        let options = Options { name, short: true, workload: &workload, folder: &run };
        let mut kept = 0;
        let results = bench::run(&options, &mut |line| println!("{line}"), &mut |results| {
            kept = results.rows.len();
            Ok(())
        })
        .unwrap();
        let rows = &results.rows;
        assert_eq!((kept, &results.without), (rows.len(), &Vec::new()), "{name}");
        let names: Vec<&str> = rows.iter().map(|row| row.stack.as_str()).collect();
        assert_eq!(names, stacks, "{name}");
        for row in rows {
            assert!(row.answered > 10 && row.p99_ms > 0.0, "{row:?}");
            assert!(row.cpu_us() > 1.0 || row.stack == "upstream", "{row:?}");
            assert_eq!(row.wrong.values().sum::<u64>() + row.broken, 0, "{row:?}");
        }
        let table = report::write(&written, name, &results, "").unwrap();
        assert!(stacks.iter().all(|stack| table.contains(stack)), "{table}");
        let csv = std::fs::read_to_string(written.join(format!("{name}.csv"))).unwrap();
        assert_eq!(csv.lines().count(), 1 + rows.len());
    }
    let plots = std::fs::read_dir(&written).unwrap().flatten();
    let plots = plots.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "svg"));
    // Two of each, and one of each curve.
    assert_eq!(plots.count(), 10);
    // Too little for a line, enough to be read.
    let sizing = sizing::write(&written, "").unwrap();
    assert!(sizing.contains("## Fleets") && sizing.contains("not measured"), "{sizing}");
    std::fs::remove_dir_all(&folder).unwrap();
}

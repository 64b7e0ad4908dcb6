//! `glacis patches`: what it prints is what the others take.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::glacis;

const FILES: [&str; 3] = ["appliances", "java", "web"];

#[test]
fn prints_both_forms() {
    let files = FILES.map(|name| format!("../../../rules/virtual-patches/{name}.yaml")).join(" ");
    let rules = glacis(&format!("patches seclang {files}"), b"");
    assert_eq!((rules.status, rules.stderr.as_str()), (Some(0), ""));
    let filter = glacis(&format!("patches filter {files}"), b"");
    assert_eq!((filter.status, filter.stderr.as_str()), (Some(0), ""));
    assert!(!filter.stdout.contains("\"tests\""), "tests are not for the filter");
    let patches = filter.stdout.matches("\"cve\":").count();
    assert!(patches >= 100 && rules.stdout.matches("id:91").count() == patches, "{patches}");
    // The rules are in order by the command's own judgement.
    let file = std::env::temp_dir().join(format!("glacis-patches-{}.conf", std::process::id()));
    assert!(std::fs::write(&file, rules.stdout).is_ok());
    let lint = glacis(&format!("lint {}", file.display()), b"");
    assert!(std::fs::remove_file(&file).is_ok());
    assert_eq!(lint.status, Some(0), "{}", lint.stdout);
}

//! `glacis lint`.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::{crs, expect, glacis, glacis_with};

#[test]
fn rules_are_checked() {
    let table = [
        ("lint lint/ok.conf", 0, "", "3 rules, no errors, 0 warnings\n"),
        ("lint --quiet lint/ok.conf", 0, "", ""),
        ("lint --base lint/ok.conf", 0, "", "15 rules, no errors, 0 warnings\n"),
        ("lint --crs lint/crs", 0, "", "37 rules, no errors, 0 warnings\n"),
        ("lint --crs lint/crs --defaults crs", 0, "", "14 rules, no errors, 0 warnings\n"),
        ("lint --base lint/ok.conf --crs lint/crs", 0, "", "40 rules, no errors, 0 warnings\n"),
        (
            "lint lint/warning.conf",
            0,
            "",
            "warning: lint/warning.conf:2: SecDebugLog has no effect: the host logs; see its \
             configuration\n1 rule, no errors, 1 warning\n",
        ),
        ("lint -q lint/warning.conf", 0, "", ""),
        ("lint --strict -q lint/warning.conf", 1, "", ""),
        (
            "lint --strict lint/warning.conf",
            1,
            "",
            "warning: lint/warning.conf:2: SecDebugLog has no effect: the host logs; see its \
             configuration\n1 rule, no errors, 1 warning\n",
        ),
        ("lint --strict lint/ok.conf", 0, "", "3 rules, no errors, 0 warnings\n"),
    ];
    for (arguments, status, stdout, stderr) in table {
        let ran = glacis(arguments, b"");
        assert_eq!(
            (ran.status, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(status), stdout, stderr),
            "{arguments}"
        );
    }
}

#[test]
fn errors_name_file_line_and_column() {
    for name in ["pattern", "directive", "included", "missing_include", "not_utf8"] {
        let ran = glacis(&format!("lint lint/{name}.conf"), b"");
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(1), ""), "{name}");
        expect(&format!("lint/{name}.txt"), &ran.stdout);
    }
}

/// A warning that is always there trains people to ignore warnings.
#[test]
fn unmodified_crs_has_no_warning() {
    let crs = crs();
    let crs = crs.to_str().unwrap();
    for defaults in ["crs", "glacis"] {
        let ran = glacis_with(&["lint", "--strict", "--crs", crs, "--defaults", defaults], b"");
        assert_eq!(ran.status, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.ends_with("no errors, 0 warnings\n"), "{}", ran.stderr);
    }
}

/// CRS copies its settings in its first rules: set behind them they have no effect.
#[test]
fn settings_behind_crs_are_warned_of() {
    let crs = crs();
    let crs = crs.to_str().unwrap();
    let file = "lint/late_setting.conf";
    let ran = glacis_with(&["lint", "--strict", "--crs", crs, file], b"");
    assert_eq!(ran.status, Some(1), "{}", ran.stderr);
    let expected = "warning: lint/late_setting.conf:2: tx.blocking_paranoia_level is a setting of CRS, which has read \
                    it before this rule runs: set it before CRS, in phase 1\n";
    assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("1 warning\n"), "{}", ran.stderr);
    let ran = glacis_with(&["lint", "--strict", file, "--crs", crs], b"");
    assert!(ran.stderr.ends_with("0 warnings\n"), "{}", ran.stderr);
    // Then collections are opened, and it says who keeps them.
    let ran = glacis_with(&["lint", "lint/collections.conf", "--crs", crs], b"");
    assert_eq!(
        ran.stderr.matches("only where the host keeps collections").count(),
        2,
        "{}",
        ran.stderr
    );
}

#[test]
fn programs_get_other_formats() {
    for (file, status) in [("directive", 1), ("warning", 0)] {
        for format in ["json", "sarif", "github"] {
            let ran = glacis(&format!("lint --format {format} lint/{file}.conf"), b"");
            assert_eq!((ran.status, ran.stderr.as_str()), (Some(status), ""), "{format}");
            expect(&format!("lint/{file}.{format}"), &ran.stdout);
        }
    }
}

//! `glacis lint`.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::{expect, glacis};

#[test]
fn rules_are_checked() {
    let table = [
        ("lint lint/ok.conf", 0, "", "3 rules, no errors, 0 warnings\n"),
        ("lint --quiet lint/ok.conf", 0, "", ""),
        ("lint --base lint/ok.conf", 0, "", "13 rules, no errors, 0 warnings\n"),
        ("lint --crs lint/crs", 0, "", "29 rules, no errors, 0 warnings\n"),
        ("lint --crs lint/crs --defaults crs", 0, "", "12 rules, no errors, 0 warnings\n"),
        ("lint --base lint/ok.conf --crs lint/crs", 0, "", "32 rules, no errors, 0 warnings\n"),
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

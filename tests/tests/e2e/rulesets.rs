//! ext-proc refuses a ruleset with something that it does not support, and says where.

use std::process::{Command, Output};

use glacis_tests::log::Folder;
use glacis_tests::settings;

use crate::support::folder;

/// Lets ext-proc read one rules file as it does at its start, without serving if they are good.
fn run(folder: &Folder, rules: &str) -> Output {
    let rules = folder.write("local.conf", rules).unwrap();
    let config = format!(
        "listen:\n  tcp: 127.0.0.1:0\nadmin:\n  address: 127.0.0.1:0\nrules:\n- {}\n",
        rules.display()
    );
    let config = folder.write("ext-proc.yaml", &config).unwrap();
    Command::new(settings::ext_proc().unwrap())
        .arg("--check")
        .arg("--config")
        .arg(config)
        .output()
        .unwrap()
}

#[test]
fn what_is_not_supported_is_refused_with_file_and_line() {
    let folder = Folder::new(&folder("rulesets")).unwrap();
    // Rules, the line that is wrong, and a word of it that is named.
    let rows = [
        ("SecRuleEngine On\nSecRuleEngin On\n", 2, "SecRuleEngin"),
        ("\n\nSecRule ARGS \"@rxx a\" \"id:1,deny\"\n", 3, "rxx"),
        ("SecRule ARGS \"@rx a\" \"id:1,deny,t:rot13\"\n", 1, "rot13"),
        ("SecRule ARGUMENTS \"@rx a\" \"id:1,deny\"\n", 1, "ARGUMENTS"),
    ];
    for (rules, line, word) in rows {
        let output = run(&folder, rules);
        let told = [output.stderr, output.stdout].concat();
        let told = String::from_utf8_lossy(&told);
        assert_eq!(output.status.code(), Some(1), "{rules}\n{told}");
        let place = format!("local.conf:{line}");
        assert!(told.contains(&place) && told.contains(word), "{rules}\n{told}");
    }
}

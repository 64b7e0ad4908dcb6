//! `glacis import`: each file of `data/import` beside what is made of it.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use run::{crs, data, expect, glacis};

const FILES: [(&str, &str); 6] = [
    ("ingress-nginx", "ingress-nginx.yaml"),
    ("coraza-proxy-wasm", "coraza-proxy-wasm.yaml"),
    ("coraza-proxy-wasm", "envoy.json"),
    ("coraza-caddy", "Caddyfile"),
    ("coraza-caddy", "caddy.json"),
    ("modsecurity", "main.conf"),
];

#[test]
fn prints_profiles_and_what_is_lost() {
    for (form, file) in FILES {
        let ran = glacis(&format!("import {form} import/{file}"), b"");
        assert_eq!(ran.status, Some(0), "{file}: {}", ran.stderr);
        expect(&format!("import/{file}.out.yaml"), &format!("{}# {}", ran.stdout, ran.stderr));
    }
}

/// What the golden files hold as directives is accepted, together with the rules that it changes.
#[test]
fn what_is_carried_over_is_accepted() {
    for (_, file) in FILES {
        let made = std::fs::read_to_string(data().join(format!("import/{file}.out.yaml"))).unwrap();
        for (index, block) in made.split("directives: |\n").skip(1).enumerate() {
            let indent = block.len() - block.trim_start().len();
            let rules: String = block
                .lines()
                .take_while(|line| line.len() - line.trim_start().len() >= indent)
                .map(|line| format!("{}\n", line.trim_start()))
                .collect();
            let name = format!("glacis-import-{}-{file}-{index}.conf", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, &rules).unwrap();
            let lint = glacis(&format!("lint --crs {} {}", crs().display(), path.display()), b"");
            std::fs::remove_file(&path).unwrap();
            assert_eq!(lint.status, Some(0), "{file}: {}\n{rules}", lint.stdout);
        }
    }
}

#[test]
fn what_is_not_there_is_said() {
    for (arguments, expected) in [
        ("import", "import needs ingress-nginx"),
        ("import nginx a", "import needs ingress-nginx"),
        ("import modsecurity", "import needs files"),
        ("import modsecurity import/none", "import/none"),
        (
            "import ingress-nginx import/coraza-proxy-wasm.yaml",
            "nothing of ingress-nginx was found",
        ),
        (
            "import coraza-proxy-wasm import/ingress-nginx.yaml",
            "nothing of coraza-proxy-wasm was found",
        ),
    ] {
        let ran = glacis(arguments, b"");
        assert!(ran.status.is_some_and(|status| status > 0), "{arguments}");
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
    }
}

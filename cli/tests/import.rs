//! `glacis import`: each file of `data/import` beside what is made of it, and what must not be lost.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{
    fs,
    path::{Path, PathBuf},
};

use glacis_engine::RuleEngine;
use glacis_ext_proc::reload::Reading;
use run::{Ran, crs, expect, glacis, glacis_with};

const FILES: [(&str, &str); 7] = [
    ("ingress-nginx", "ingress-nginx.yaml"),
    ("coraza-proxy-wasm", "coraza-proxy-wasm.yaml"),
    ("coraza-proxy-wasm", "envoy.json"),
    ("coraza-caddy", "Caddyfile"),
    ("coraza-caddy", "caddy.json"),
    ("modsecurity", "main.conf"),
    ("nginx", "nginx.conf"),
];

/// A folder of the test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("glacis-import-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file, and gives its path back.
    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn import(form: &str, files: &[&str]) -> Ran {
    let crs = crs();
    let mut arguments = vec!["import", form, "--crs", crs.to_str().unwrap()];
    arguments.extend(files);
    let ran = glacis_with(&arguments, b"");
    assert_eq!(ran.status, Some(0), "{files:?}: {}", ran.stderr);
    ran
}

/// Loads what was printed as `glacis-ext-proc --check` does.
fn load(folder: &Folder, printed: &str) -> Reading {
    let file = folder.file("ext-proc.yaml", printed);
    match Reading::check(Path::new(&file)) {
        Ok(reading) => reading,
        Err(failure) => {
            assert_eq!(failure.to_string(), "", "{printed}");
            unreachable!()
        }
    }
}

fn modes(reading: &Reading) -> Vec<(String, RuleEngine)> {
    let names = reading.config.profile_names();
    let mode = |name: &str| reading.config.keys_of(name).mode.map(RuleEngine::from);
    names.map(|name| (name.to_owned(), mode(name).unwrap_or(RuleEngine::On))).collect()
}

#[test]
fn prints_profiles_and_what_is_lost() {
    let folder = Folder::new("golden");
    for (form, file) in FILES {
        let ran = import(form, &[&format!("import/{file}")]);
        let printed = ran.stdout.replace(crs().to_str().unwrap(), "CRS");
        expect(&format!("import/{file}.out.yaml"), &format!("{printed}# {}", ran.stderr));
        load(&folder, &ran.stdout);
    }
}

/// The standard layout includes a file that says `DetectionOnly`: the import must not block.
#[test]
fn the_mode_of_included_files_is_kept() {
    let folder = Folder::new("mode");
    for (engine, expected) in [
        ("SecRuleEngine DetectionOnly", RuleEngine::DetectionOnly),
        ("SecRuleEngine On", RuleEngine::On),
        ("SecRuleEngine Off", RuleEngine::Off),
        // Nothing is blocked without it.
        ("SecRequestBodyAccess On", RuleEngine::DetectionOnly),
    ] {
        folder.file("modsecurity.conf", &format!("{engine}\nSecRequestBodyLimit 1000000\n"));
        let main = folder.file("main.conf", "Include modsecurity.conf\n");
        let printed = import("modsecurity", &[&main]).stdout;
        assert_eq!(
            modes(&load(&folder, &printed)),
            [("default".to_owned(), expected)],
            "{printed}"
        );
        assert!(printed.contains("SecRequestBodyLimit 1000000"), "{printed}");
    }
    let main = folder.file("main.conf", "Include /nowhere/modsecurity.conf\nSecAction \"id:1\"\n");
    let printed = import("modsecurity", &[&main]).stdout;
    assert_eq!(modes(&load(&folder, &printed))[0].1, RuleEngine::DetectionOnly, "{printed}");
    assert!(printed.contains("/nowhere/modsecurity.conf: not found here"), "{printed}");
}

/// CRS keeps these files for the exclusions of its users.
#[test]
fn exclusions_beside_the_files_of_crs_are_kept() {
    let folder = Folder::new("exclusions");
    for file in ["REQUEST-901-INITIALIZATION.conf", "REQUEST-942-APPLICATION-ATTACK-SQLI.conf"] {
        let text = fs::read_to_string(crs().join("rules").join(file)).unwrap();
        folder.file(&format!("crs/rules/{file}"), &text);
    }
    let changed =
        fs::read_to_string(crs().join("rules/REQUEST-913-SCANNER-DETECTION.conf")).unwrap();
    folder.file(
        "crs/rules/REQUEST-913-SCANNER-DETECTION.conf",
        &format!("{changed}\nSecRuleRemoveById 913110\n"),
    );
    folder.file("crs/crs-setup.conf", &{
        let setup = fs::read_to_string(crs().join("crs-setup.conf.example")).unwrap();
        format!("{setup}\nSecAction \"id:900000,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=3\"\n")
    });
    folder.file(
        "crs/rules/REQUEST-900-EXCLUSION-RULES-BEFORE-CRS.conf",
        "SecRule REQUEST_URI \"@beginsWith /wiki\" \"id:1000,phase:1,pass,nolog,ctl:ruleRemoveById=942100\"\n",
    );
    folder.file(
        "crs/rules/RESPONSE-999-EXCLUSION-RULES-AFTER-CRS.conf",
        "SecRuleRemoveById 942110\n",
    );
    folder.file("my-crs-exclusions.conf", "SecRuleUpdateTargetById 942120 \"!ARGS:text\"\n");
    let main = folder.file(
        "main.conf",
        "SecRuleEngine On\nInclude crs/crs-setup.conf\nInclude crs/rules/*.conf\nInclude my-crs-exclusions.conf\n",
    );
    let printed = import("modsecurity", &[&main]).stdout;
    let config = load(&folder, &printed).config;
    for (text, place) in [
        ("tx.blocking_paranoia_level=3", &config.setup),
        ("ctl:ruleRemoveById=942100", &config.setup),
        ("SecRuleRemoveById 942110", &config.directives),
        ("SecRuleRemoveById 913110", &config.directives),
        ("SecRuleUpdateTargetById 942120 \"!ARGS:text\"", &config.directives),
        // Only three files were there.
        ("941000-941999", &config.directives),
    ] {
        assert!(place.contains(text), "{text}: {printed}");
    }
    assert!(!config.directives.contains("942000-942999"), "{printed}");
    assert!(!printed.contains("NOT CARRIED OVER"), "{printed}");
}

/// ingress-nginx loads the snippet of an Ingress before CRS, which takes its variables over.
#[test]
fn snippets_of_an_ingress_come_before_crs() {
    let folder = Folder::new("snippets");
    let file = folder.file(
        "all.yaml",
        "kind: List\nitems:\n\
         - {kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {enable-modsecurity: 'true', \
         enable-owasp-modsecurity-crs: 'true', modsecurity-snippet: 'SecRuleEngine On'}}\n\
         - kind: Ingress\n  metadata:\n    name: a\n    namespace: shop\n    annotations:\n      \
         nginx.ingress.kubernetes.io/modsecurity-snippet: |\n        \
         SecAction \"id:900000,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level=2\"\n        \
         SecRuleRemoveById 942100\n",
    );
    let printed = import("ingress-nginx", &[&file]).stdout;
    let config = load(&folder, &printed).config;
    let keys = config.keys_of("shop.a");
    assert!(keys.setup.contains("tx.blocking_paranoia_level=2"), "{printed}");
    assert!(keys.directives.contains("SecRuleRemoveById 942100"), "{printed}");
    assert_eq!(
        (keys.crs, keys.mode.map(RuleEngine::from)),
        (Some(crs()), Some(RuleEngine::On)),
        "{printed}"
    );
}

/// As ingress-nginx's documentation says, its base configuration is `DetectionOnly`.
#[test]
fn an_ingress_without_a_mode_only_detects() {
    let folder = Folder::new("ingress-mode");
    let ingress = |on: &str, snippet: &str| {
        format!(
            "kind: Ingress\nmetadata: {{name: a, namespace: n, annotations: {{\
             nginx.ingress.kubernetes.io/enable-modsecurity: '{on}', \
             nginx.ingress.kubernetes.io/modsecurity-snippet: '{snippet}'}}}}\n"
        )
    };
    for (on, snippet, expected) in [
        ("true", "SecAction \"id:1,phase:1,pass\"", RuleEngine::DetectionOnly),
        ("true", "SecRuleEngine On", RuleEngine::On),
        ("false", "SecRuleEngine On", RuleEngine::Off),
    ] {
        let file = folder.file("one.yaml", &ingress(on, snippet));
        let printed = import("ingress-nginx", &[&file]).stdout;
        assert_eq!(modes(&load(&folder, &printed))[1].1, expected, "{printed}");
    }
}

#[test]
fn several_files_are_one_document() {
    let folder = Folder::new("several");
    let one = folder.file("a.conf", "SecRuleEngine On\nSecAction \"id:1,phase:1,pass\"\n");
    let two = folder.file("b.conf", "SecAction \"id:2,phase:1,pass\"\n");
    let printed = import("modsecurity", &[&one, &two]).stdout;
    let config = load(&folder, &printed).config;
    assert!(
        config.directives.contains("id:1,") && config.directives.contains("id:2,"),
        "{printed}"
    );
    for form in ["coraza-caddy", "coraza-proxy-wasm"] {
        let (_, file) = FILES.iter().find(|(of, _)| *of == form).unwrap();
        let file = format!("import/{file}");
        let printed = import(form, &[&file, &file]).stdout;
        assert_eq!(modes(&load(&folder, &printed)).len(), 4, "{printed}");
    }
}

#[test]
fn without_a_folder_of_crs_it_says_so() {
    let ran = glacis("import modsecurity import/main.conf", b"");
    assert_eq!(ran.status, Some(0));
    assert!(ran.stdout.contains("crs: \"/usr/share/glacis/crs\""), "{}", ran.stdout);
    assert!(ran.stdout.contains("# The folder in the images of Glacis"), "{}", ran.stdout);
}

#[test]
fn what_is_not_there_is_said() {
    let folder = Folder::new("nothing");
    let json =
        folder.file("aws.json", "{\n  \"Name\": \"a\",\n  \"Rules\": [{\"Priority\": 1}]\n}\n");
    let plain = folder.file("nginx.conf", "http {\n  server { listen 80; }\n}\n");
    for (arguments, expected) in [
        ("import", "<FORM> <FILE>..."),
        (
            "import aws-waf a",
            "[possible values: ingress-nginx, coraza-proxy-wasm, coraza-caddy, modsecurity, nginx]",
        ),
        ("import modsecurity", "<FILE>..."),
        ("import modsecurity import/none", "import/none"),
        ("import modsecurity --crs /nowhere import/main.conf", "/nowhere: there is no such folder"),
        (
            "import ingress-nginx import/coraza-proxy-wasm.yaml",
            "nothing of ingress-nginx was found",
        ),
        (
            "import coraza-proxy-wasm import/ingress-nginx.yaml",
            "nothing of coraza-proxy-wasm was found",
        ),
        (&format!("import modsecurity {json}"), "nothing of modsecurity was found"),
        (&format!("import modsecurity {plain}"), "nothing of modsecurity was found"),
        (&format!("import nginx {plain}"), "nothing of nginx was found"),
        ("import nginx import/main.conf", "nothing of nginx was found"),
    ] {
        let ran = glacis(arguments, b"");
        assert!(ran.status.is_some_and(|status| status > 0), "{arguments}");
        assert!(ran.stderr.contains(expected), "{arguments}: {}", ran.stderr);
    }
}

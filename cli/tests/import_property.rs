//! `glacis import modsecurity` over generated configurations: every directive of the input is in the output, and the
//! output loads.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod run;

use std::{
    fs,
    path::{Path, PathBuf},
};

use glacis_ext_proc::reload::Reading;
use run::{crs, glacis_with};

/// Configurations that are made.
const CASES: u64 = 24;

/// Numbers by chance, the same on each run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64);
        &items[usize::try_from(index).unwrap()]
    }
}

/// A configuration in files, and what must be found in the output: a text of each directive that no other has.
struct Made {
    folder: PathBuf,
    chance: Chance,
    next_id: u64,
    files: u64,
    marks: Vec<String>,
}

impl Made {
    /// One directive, and the text by which it is found again.
    fn directive(&mut self) -> String {
        let id = self.next_id;
        self.next_id += 1;
        let (text, mark) = match self.chance.below(16) {
            0 => (
                format!("SecRule ARGS:a{id} \"@rx ^x$\" \"id:{id},phase:2,deny\""),
                format!("id:{id},"),
            ),
            1 => (
                format!(
                    "SecRule ARGS:a{id} \"@rx ^x$\" \\\n    \"id:{id},\\\n    phase:2,\\\n    deny\""
                ),
                format!("id:{id},"),
            ),
            2 => (
                format!(
                    "SecRule ARGS:a{id} \"@streq x\" \"id:{id},phase:1,deny,chain\"\n  \
                     SecRule REQUEST_METHOD \"@streq M{id}\""
                ),
                format!("@streq M{id}\""),
            ),
            3 => (
                format!("SecAction \"id:{id},phase:1,pass,nolog,setvar:'tx.mine=1'\""),
                format!("id:{id},"),
            ),
            4 => (format!("SecAction `\n  id:{id},\n  phase:1,pass,nolog\n`"), format!("id:{id},")),
            5 => (format!("SecMarker END-OF-{id}"), format!("SecMarker END-OF-{id}")),
            6 => (format!("SecRuleRemoveById {id}"), format!("SecRuleRemoveById {id}")),
            7 => (format!("SecRuleRemoveByTag my-tag-{id}"), format!("my-tag-{id}")),
            8 => {
                (format!("SecRuleUpdateTargetById 942100 \"!ARGS:b{id}\""), format!("!ARGS:b{id}"))
            }
            // None of these has a place in the configuration: they are named.
            9 => (format!("SecAuditLog /var/log/audit-{id}.log"), format!("audit-{id}.log")),
            10 => (
                format!("SecRule ARGS \"@fuzzyHash x{id} 1\" \"id:{id},phase:2,deny\""),
                format!("@fuzzyHash x{id} 1"),
            ),
            11 => (format!("SecRuleScript /lua/{id}.lua \"id:{id}\""), format!("/lua/{id}.lua")),
            12 => (format!("SecNoSuchDirective x{id}"), format!("SecNoSuchDirective x{id}")),
            13 => (format!("Include /nowhere/own-{id}.conf"), format!("/nowhere/own-{id}.conf")),
            14 => (
                format!("<Location /p{id}>\nSecRuleRemoveById {id}999\n</Location>"),
                format!("SecRuleRemoveById {id}999"),
            ),
            // An id that CRS has.
            _ => (
                format!("SecRule ARGS:c{id} \"@rx x\" \"id:942100,phase:2,deny\""),
                format!("SecRule ARGS:c{id} "),
            ),
        };
        self.marks.push(mark);
        text
    }

    fn directives(&mut self) -> String {
        let mut text = String::from("# a comment \\\n");
        for _ in 0..self.chance.below(5) {
            text += &self.directive();
            text.push_str(if self.chance.below(4) == 0 { "\r\n" } else { "\n" });
            if self.chance.below(3) == 0 {
                text.push_str("\n# SecRule in a comment\n");
            }
        }
        text
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A file with directives, and perhaps files within it; what includes it.
    fn file(&mut self, depth: u64) -> String {
        self.files += 1;
        let number = self.files;
        let names = ["modsecurity", "own", "my-crs-exclusions", "owasp", "request-9"];
        let name = format!("{}-{number}.conf", self.chance.pick(&names));
        let mut text = self.directives();
        if depth < 3 && self.chance.below(2) == 0 {
            text += &self.file(depth + 1);
            text += &self.directives();
        }
        self.write(&name, &text);
        match self.chance.below(3) {
            0 => format!("Include {}\n", self.folder.join(name).display()),
            1 => format!("Include \"{name}\"\n"),
            _ => format!("IncludeOptional *-{number}.conf\n"),
        }
    }

    /// A folder of CRS: some files as they are, some changed, and the user's.
    fn crs(&mut self) -> String {
        let rules = crs().join("rules");
        let names = [
            "REQUEST-901-INITIALIZATION.conf",
            "REQUEST-913-SCANNER-DETECTION.conf",
            "REQUEST-930-APPLICATION-ATTACK-LFI.conf",
            "REQUEST-949-BLOCKING-EVALUATION.conf",
        ];
        for name in names {
            let mut text = fs::read_to_string(rules.join(name)).unwrap();
            if self.chance.below(2) == 0 {
                text += &self.directives();
            }
            self.write(&format!("crs/rules/{name}"), &text);
        }
        let (before, between, after) = (self.directives(), self.directives(), self.directives());
        self.write("crs/rules/REQUEST-900-EXCLUSION-RULES-BEFORE-CRS.conf", &before);
        self.write("crs/rules/REQUEST-920-OWN-crs.conf.conf", "");
        self.write("crs/rules/REQUEST-92X-OWN.conf", &between);
        self.write("crs/rules/RESPONSE-999-EXCLUSION-RULES-AFTER-CRS.conf", &after);
        let setup = fs::read_to_string(crs().join("crs-setup.conf.example")).unwrap();
        let own = self.directives();
        self.write("crs/crs-setup.conf", &format!("{setup}\n{own}"));
        "Include crs/crs-setup.conf\nInclude crs/rules/*.conf\n".to_owned()
    }
}

/// The output as one text, with the lines of comments and blocks joined.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn no_directive_is_lost() {
    let crs = crs();
    let mut directives = 0;
    for case in 0..CASES {
        let name = format!("glacis-import-property-{}-{case}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let chance = Chance(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(case + 1));
        let mut made =
            Made { folder: folder.clone(), chance, next_id: 10_000, files: 0, marks: Vec::new() };
        let mut main = made.directives();
        main += &made.file(0);
        if case % 3 != 0 {
            main += &made.crs();
        }
        main += &made.directives();
        main += &made.file(1);
        made.write("main.conf", &format!("SecRuleEngine On\n{main}"));
        let file = folder.join("main.conf");
        let ran = glacis_with(
            &["import", "modsecurity", "--crs", crs.to_str().unwrap(), file.to_str().unwrap()],
            b"",
        );
        assert_eq!(ran.status, Some(0), "case {case}: {}\n{main}", ran.stderr);
        let output = squeezed(&ran.stdout);
        for mark in &made.marks {
            assert!(
                output.contains(&squeezed(mark)),
                "case {case}: {mark}\n{main}\n{}",
                ran.stdout
            );
        }
        directives += made.marks.len();
        check(&folder, case, &ran.stdout);
        fs::remove_dir_all(&folder).unwrap();
    }
    assert!(directives > 300, "{directives}");
}

fn check(folder: &Path, case: u64, printed: &str) {
    let path = folder.join("ext-proc.yaml");
    fs::write(&path, printed).unwrap();
    let problem = Reading::check(&path).err().map(|failure| failure.to_string());
    assert_eq!(problem, None, "case {case}\n{printed}");
}

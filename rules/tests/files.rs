//! [`FileSource`] over a folder that the test makes.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

use std::{fs, path::PathBuf};

use glacis_engine::{Input, Limits, Program, Source as _};
use glacis_rules::{FileSource, RecordingSource, crs};

/// A folder of this test's own, with the named files; their content is their name.
fn folder(name: &str, files: &[&str]) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    for file in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }
    folder
}

const FILES: &[&str] = &[
    "main.conf",
    "a.conf",
    "b.conf",
    "b.data",
    ".hidden.conf",
    "rules/2.conf",
    "rules/1.conf",
    "rules/10.conf.example",
    "rules/deep/3.conf",
    "rules/..data/1.conf",
    "other/1.conf",
    "[odd]/1.conf",
];

#[test]
fn patterns_stand_for_files_beside_the_including_one() {
    let folder = folder("list", FILES);
    let at = |path: &str| folder.join(path).to_str().unwrap().to_owned();
    let table: &[(&str, &str, &[&str])] = &[
        ("a.conf", "main.conf", &["a.conf"]),
        ("./a.conf", "main.conf", &["a.conf"]),
        ("nowhere.conf", "main.conf", &[]),
        ("*.conf", "main.conf", &["a.conf", "b.conf", "main.conf"]),
        ("[ab].conf", "main.conf", &["a.conf", "b.conf"]),
        ("?.*", "main.conf", &["a.conf", "b.conf", "b.data"]),
        (".*.conf", "main.conf", &[".hidden.conf"]),
        ("rules/*.conf", "main.conf", &["rules/1.conf", "rules/2.conf"]),
        ("*/1.conf", "main.conf", &["[odd]/1.conf", "other/1.conf", "rules/1.conf"]),
        ("*.conf", "rules/1.conf", &["rules/1.conf", "rules/2.conf"]),
        ("../*.data", "rules/1.conf", &["rules/../b.data"]),
        ("*.conf", "[odd]/1.conf", &["[odd]/1.conf"]),
        ("nowhere/*", "main.conf", &[]),
        ("a.conf/*", "main.conf", &[]),
        (
            "rules",
            "main.conf",
            &["rules/1.conf", "rules/10.conf.example", "rules/2.conf", "rules/deep/3.conf"],
        ),
        ("oth*", "main.conf", &["other/1.conf"]),
    ];
    for (pattern, from, expected) in table {
        let found = FileSource::new().list(pattern, &at(from)).unwrap();
        let expected: Vec<String> = expected.iter().map(|path| at(path)).collect();
        assert_eq!(found, expected, "{pattern} in {from}");
    }
    let absolute = format!("{}/*.data", folder.to_str().unwrap());
    assert_eq!(FileSource::new().list(&absolute, "elsewhere/x.conf").unwrap(), [at("b.data")]);
}

#[test]
fn files_are_read_beside_the_naming_one() {
    let folder = folder("read", FILES);
    let from = folder.join("main.conf").to_str().unwrap().to_owned();
    let read = |source: FileSource, path: &str| {
        source.read(path, &from).map(|file| (file.name, file.bytes)).map_err(|e| e.to_string())
    };
    let name = folder.join("rules/1.conf").to_str().unwrap().to_owned();
    assert_eq!(read(FileSource::new(), "rules/1.conf"), Ok((name, b"rules/1.conf".to_vec())));
    assert!(read(FileSource::with_bytes_max(12), "rules/1.conf").is_ok());
    for (source, path, message) in [
        (FileSource::with_bytes_max(11), "rules/1.conf", "1.conf: larger than 11 bytes"),
        (FileSource::new(), "nowhere", "nowhere: No such file"),
        (FileSource::new(), "rules", "rules: Is a directory"),
    ] {
        let error = read(source, path).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

/// A folder that is linked into itself is an error, not an endless list.
#[cfg(unix)]
#[test]
fn loops_of_links_end() {
    let folder = folder("loop", &["main.conf", "rules/1.conf"]);
    std::os::unix::fs::symlink(&folder, folder.join("rules/again")).unwrap();
    let from = folder.join("main.conf").to_str().unwrap().to_owned();
    let error = FileSource::new().list("rules", &from).unwrap_err();
    assert!(error.to_string().contains("more than 16 folders deep"), "{error}");
}

#[test]
fn includes_build() {
    let folder = folder("include", &[]);
    fs::create_dir_all(folder.join("rules")).unwrap();
    let write = |path: &str, text: &str| fs::write(folder.join(path), text).unwrap();
    write("main.conf", "Include rules/*.conf\nIncludeOptional none/*.conf\n");
    write("rules/1.conf", "SecRule ARGS \"@pmFromFile words.data\" \"id:1,phase:2,deny\"\n");
    write("rules/2.conf", "SecAction \"id:2,phase:1,pass\"\n");
    write("rules/words.data", "# words\none\ntwo\n");
    let main = folder.join("main.conf").to_str().unwrap().to_owned();
    let program =
        Program::build(&[Input::File(main)], &FileSource::new(), Limits::default()).unwrap();
    assert_eq!(program.rule_count(), 2);
}

/// The layouts in which CRS comes, and the order in which its parts have to be read.
#[test]
fn crs_is_found_in_its_layouts() {
    let layouts: &[(&[&str], &[&str])] = &[
        (
            &[
                "crs-setup.conf.example",
                "rules/R-2.conf",
                "rules/R-1.conf",
                "rules/R-9.conf.example",
            ],
            &["crs-setup.conf.example", "rules/R-1.conf", "rules/R-2.conf"],
        ),
        (
            &["crs-setup.conf", "crs-setup.conf.example", "rules/R-1.conf"],
            &["crs-setup.conf", "rules/R-1.conf"],
        ),
        (
            &["@crs-setup.conf.example", "@owasp_crs/R-1.conf"],
            &["@crs-setup.conf.example", "@owasp_crs/R-1.conf"],
        ),
        (
            &["rules/@crs-setup.conf.example", "rules/@owasp_crs/R-1.conf"],
            &["rules/@crs-setup.conf.example", "rules/@owasp_crs/R-1.conf"],
        ),
        (
            &[
                "crs-setup.conf.example",
                "rules/R-1.conf",
                "plugins/x-after.conf",
                "plugins/x-before.conf",
                "plugins/x-config.conf",
            ],
            &[
                "crs-setup.conf.example",
                "plugins/x-config.conf",
                "plugins/x-before.conf",
                "rules/R-1.conf",
                "plugins/x-after.conf",
            ],
        ),
    ];
    for (files, expected) in layouts {
        let folder = folder("crs", files);
        let inputs = crs(&folder).unwrap();
        let expected: Vec<Input> = expected
            .iter()
            .map(|path| Input::File(folder.join(path).to_str().unwrap().to_owned()))
            .collect();
        assert_eq!(inputs.first(), Some(&glacis_rules::base()));
        assert_eq!(inputs[1..], expected, "{files:?}");
    }
    for (files, message) in [
        (&["rules/R-1.conf"][..], "no crs-setup.conf or crs-setup.conf.example in it"),
        (&["crs-setup.conf", "rules/README"][..], "no rules/*.conf in it"),
    ] {
        let error = crs(&folder("crs", files)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let error = crs(&folder("crs", &[]).join("nowhere")).unwrap_err().to_string();
    assert!(error.contains("there is no such folder"), "{error}");
}

/// What changes a record: each answer of the file system that has changed, and nothing else.
#[test]
fn a_record_tells_change() {
    let folder = folder("record", &["main.conf", "a.conf", "rules/1.conf", "crs/rules/1.conf"]);
    let main = "Include a.conf\nInclude rules/*.conf\n";
    fs::write(folder.join("main.conf"), main).unwrap();
    fs::write(folder.join("crs/crs-setup.conf"), "").unwrap();
    for file in ["a.conf", "rules/1.conf", "crs/rules/1.conf"] {
        fs::write(folder.join(file), "SecRuleEngine On\n").unwrap();
    }
    let record = || {
        let source = RecordingSource::new();
        source.note(&folder.join("settings"));
        let mut inputs = source.crs(&folder.join("crs")).unwrap();
        inputs.push(Input::File(folder.join("main.conf").to_str().unwrap().to_owned()));
        let _ = Program::build(&inputs, &source, Limits::default());
        source.into_record()
    };
    let seen = record();
    assert_eq!(seen.as_read(), seen.now());
    let steps: &[(&str, &str)] = &[
        ("a.conf", "SecRuleEngine Off\n"),
        ("rules/1.conf", "SecRuleEngine Off\n"),
        ("rules/2.conf", "SecRuleEngine On\n"),
        ("main.conf", "Include a.conf\nInclude rules/*.conf\n\n"),
        ("main.conf", "Include b.conf\n"),
        ("b.conf", "SecRuleEngine On\n"),
        ("crs/rules/1.conf", "SecRuleEngine Off\n"),
        ("crs/rules/2.conf", "SecRuleEngine Off\n"),
        ("settings", "anything"),
    ];
    for (file, text) in steps {
        let before = record();
        assert_eq!(before.as_read(), before.now(), "{file}");
        fs::write(folder.join(file), text).unwrap();
        assert_ne!(before.as_read(), before.now(), "{file}");
        // What was written again is the same.
        let after = record();
        fs::write(folder.join(file), text).unwrap();
        assert_eq!(after.as_read(), after.now(), "{file}");
    }
}

//! Envoy itself accepts every configuration that we ship, and refuses what our module refuses.

use std::fs;
use std::path::{Path, PathBuf};

use glacis_tests::stack::{Ports, WASM, WASM_WITH_ENGINE, quickstart};
use glacis_tests::{envoy, log, settings};
use serde_json::Value;

use crate::support::folder;

/// Every YAML file of Envoy under `envoy-configs/`, whose names begin with `envoy`.
pub(crate) fn shipped() -> Vec<PathBuf> {
    let mut folders = vec![settings::root().join("envoy-configs")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            match path.is_dir() {
                true => folders.push(path),
                false if name.starts_with("envoy") && name.ends_with(".yaml") => files.push(path),
                false => {}
            }
        }
    }
    files
}

#[test]
fn envoy_accepts_each_file_and_deprecates_nothing() {
    let wasm = settings::wasm().unwrap().display().to_string();
    let with_engine = settings::wasm_with_engine().unwrap().display().to_string();
    let folder = log::Folder::new(&folder("configs")).unwrap();
    let files = shipped();
    assert!(!files.is_empty());
    for file in files {
        // Only the module is elsewhere: cargo may build into another folder.
        let text = fs::read_to_string(&file).unwrap().replace(WASM, &wasm);
        let text = text.replace(WASM_WITH_ENGINE, &with_engine);
        let config = folder.write("envoy.yaml", &text).unwrap();
        let told =
            envoy::validate(&settings::envoy().unwrap(), &settings::root(), &config).unwrap();
        assert!(!told.contains("eprecated"), "{}: {told}", file.display());
    }
}

/// The quickstart with another plugin configuration is refused, and Envoy shows our message.
#[test]
fn envoy_refuses_a_wrong_plugin_configuration() {
    let folder = log::Folder::new(&folder("plugin")).unwrap();
    let line = r#""trusted_hops": 0"#;
    // What stands in place of that line, and what must be told.
    let rows = [
        (r#""trusted_hops": -1"#, "trusted_hops: "),
        (r#""trusted_hop": 0"#, "trusted_hop: there is no such field"),
        (r#""failure_mode": "ajar""#, r#"failure_mode: it is "ajar"; write "open" or "closed""#),
        (r#""trusted_hops": "#, "it cannot be read as JSON"),
    ];
    for (wrong, message) in rows {
        let text = quickstart(&Ports::QUICKSTART, &[(line, wrong)]).unwrap();
        let told = refused(&folder, &text);
        assert!(told.contains("the configuration of the Glacis wasm filter is refused"), "{told}");
        assert!(told.contains(message), "{wrong}: {told}");
    }
}

/// What Envoy says to a configuration that it must not start with.
#[track_caller]
fn refused(folder: &log::Folder, text: &str) -> String {
    let config = folder.write("envoy.yaml", text).unwrap();
    let root: &Path = &settings::root();
    match envoy::validate(&settings::envoy().unwrap(), root, &config) {
        Ok(told) => panic!("accepted: {told}\n{text}"),
        Err(failure) => failure.to_string(),
    }
}

/// The overload managers of a document, in it or in a text of it.
fn overload_managers(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("overload_manager").cloned());
            // Envoy Gateway's is a patch.
            let is_patch = members.get("path").is_some_and(|path| path == "/overload_manager");
            found.extend(is_patch.then(|| value["value"].clone()));
            members.values().for_each(|value| overload_managers(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| overload_managers(value, found)),
        Value::String(text) if text.starts_with("overload_manager:") => {
            overload_managers(&serde_saphyr::from_str(text).unwrap(), found);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What bounds Envoy's memory is the same wherever it is shipped, so that one test tries it for all.
#[test]
fn the_overload_manager_is_one_for_all() {
    let of = |text: &str| {
        let mut found = Vec::new();
        overload_managers(&serde_saphyr::from_str(text).unwrap(), &mut found);
        found
    };
    let quickstart = of(&quickstart(&Ports::QUICKSTART, &[]).unwrap());
    assert_eq!(quickstart.len(), 1);
    for file in shipped() {
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(of(&text), quickstart, "{}", file.display());
    }
    for file in [
        "envoy-configs/istio/bootstrap.yaml",
        "envoy-configs/envoy-gateway/proxy.yaml",
        "charts/glacis/tests/golden/files.yaml",
    ] {
        let text = fs::read_to_string(settings::root().join(file)).unwrap();
        let found: Vec<Value> = text.split("\n---\n").flat_map(of).collect();
        assert_eq!(found, quickstart, "{file}");
    }
}

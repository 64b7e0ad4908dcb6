//! Who may depend on whom. `ARCHITECTURE.md` draws this list, and `drawn.rs` compares both.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::Finding;
use crate::cargo::{self, cargo, output};
use crate::failure::{Failure, Outcome};

/// Each member and the members it may use, in the product: what its tests use is its own affair.
pub(super) const EDGES: &[(&str, &[&str])] = &[
    ("seclang", &[]),
    ("glacis-engine", &["seclang"]),
    (
        "glacis-laws",
        &["seclang", "glacis-engine", "glacis-inspector", "glacis-openapi", "glacis-rules"],
    ),
    ("glacis-differential", &["glacis-engine", "glacis-rules"]),
    ("glacis-openapi", &["glacis-engine"]),
    ("glacis-rules", &["glacis-engine", "glacis-openapi"]),
    ("glacis-explain", &["glacis-engine", "glacis-second-opinion"]),
    ("glacis-doctor", &["glacis-engine"]),
    ("glacis-learn", &["glacis-engine", "glacis-explain", "glacis-rules"]),
    ("glacis-limits", &[]),
    ("glacis-limit-store", &["glacis-limits"]),
    ("glacis-policy", &["glacis-limits"]),
    ("glacis-second-opinion", &["glacis-engine"]),
    ("glacis-inspector", &["glacis-engine", "glacis-second-opinion"]),
    ("glacis-service", &[]),
    (
        "glacis-host",
        &[
            "glacis-engine",
            "glacis-inspector",
            "glacis-rules",
            "glacis-second-opinion",
            "glacis-service",
        ],
    ),
    ("glacis-wasm-filter", &["glacis-limits", "glacis-policy", "glacis-inspector"]),
    (
        "glacis-ext-proc",
        &[
            "glacis-doctor",
            "glacis-inspector",
            "glacis-engine",
            "glacis-explain",
            "glacis-host",
            "glacis-learn",
            "glacis-limit-store",
            "glacis-rules",
            "glacis-service",
        ],
    ),
    (
        "glacis-envoy-module",
        &[
            "glacis-engine",
            "glacis-host",
            "glacis-inspector",
            "glacis-limits",
            "glacis-policy",
            "glacis-rules",
            "glacis-service",
        ],
    ),
    (
        "glacis-ext-authz",
        &[
            "glacis-engine",
            "glacis-inspector",
            "glacis-limit-store",
            "glacis-limits",
            "glacis-rules",
            "glacis-service",
        ],
    ),
    (
        "glacis-cli",
        &[
            "glacis-doctor",
            "glacis-engine",
            "glacis-explain",
            "glacis-learn",
            "glacis-rules",
            "glacis-inspector",
            "glacis-limits",
            "glacis-openapi",
            "glacis-second-opinion",
        ],
    ),
    ("glacis-bench-empty-ext-proc", &[]),
    ("glacis-bench-probe", &["glacis-engine", "glacis-rules"]),
    ("glacis-bench-workload", &[]),
    ("xtask", &[]),
];

/// Members that may use any other: nothing is built on them.
pub(super) const UNRESTRICTED: &[&str] = &["glacis-tests"];

/// Members without I/O, and what would bring I/O or a host into them.
pub(super) const PURE: &[&str] = &[
    "seclang",
    "glacis-doctor",
    "glacis-engine",
    "glacis-explain",
    "glacis-learn",
    "glacis-inspector",
    "glacis-limits",
    "glacis-openapi",
    "glacis-policy",
    "glacis-second-opinion",
];
const IMPURE: &[&str] = &["tokio", "tonic", "hyper", "proxy-wasm"];

/// Only this member may know the proxy-wasm host.
const WASM_FILTER: &str = "glacis-wasm-filter";

pub(super) fn check(members: &[Member]) -> Outcome<Vec<Finding>> {
    let mut findings: Vec<Finding> = members
        .iter()
        .flat_map(|member| {
            let manifest = fs::read_to_string(cargo::root().join(&member.manifest));
            edges(member, members, &manifest.unwrap_or_default())
        })
        .collect();
    for member in members {
        let tree = ["tree", "-e", "normal", "--target", "all", "--prefix", "none", "-p"];
        let told = output(cargo(tree).arg(&member.name))?;
        findings.extend(reached(member, &told));
    }
    Ok(findings)
}

/// A package of the workspace.
pub(super) struct Member {
    pub(super) name: String,
    /// Relative to the top folder.
    pub(super) manifest: String,
    /// Names of all dependencies but those for tests.
    pub(super) uses: BTreeSet<String>,
    /// Names of all dependencies from elsewhere, those for tests among them.
    pub(super) foreign: BTreeSet<String>,
}

impl Member {
    /// Where it stands, from the top folder.
    pub(super) fn folder(&self) -> &str {
        self.manifest.strip_suffix("/Cargo.toml").unwrap_or(&self.manifest)
    }
}

/// All packages of the workspace, as cargo tells them.
pub(super) fn of_workspace() -> Outcome<Vec<Member>> {
    members(&output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?)
}

fn members(metadata: &str) -> Outcome<Vec<Member>> {
    let metadata: Value = serde_json::from_str(metadata)
        .map_err(|error| Failure::new(format!("`cargo metadata` is not JSON: {error}")))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.filter_map(|package| member(package, &metadata)).collect())
}

fn member(package: &Value, metadata: &Value) -> Option<Member> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    let root = metadata["workspace_root"].as_str()?;
    let names = |is_wanted: fn(&Value) -> bool| {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let wanted = dependencies.filter(|dependency| is_wanted(dependency));
        wanted.filter_map(|dependency| Some(dependency["name"].as_str()?.to_owned())).collect()
    };
    Some(Member {
        name: package["name"].as_str()?.to_owned(),
        manifest: manifest.strip_prefix(root).ok()?.display().to_string(),
        uses: names(|dependency| dependency["kind"] != "dev"),
        foreign: names(|dependency| !dependency["source"].is_null()),
    })
}

fn edges(member: &Member, members: &[Member], manifest: &str) -> Vec<Finding> {
    let Member { name, manifest: path, uses, .. } = member;
    if UNRESTRICTED.contains(&name.as_str()) {
        return Vec::new();
    }
    let Some((_, allowed)) = EDGES.iter().find(|(known, _)| known == name) else {
        let message = format!("`{name}` is not in the list of xtask/src/tidy/dependencies.rs");
        return vec![Finding::new(path, 1, message)];
    };
    let is_ours = |used: &&String| members.iter().any(|member| &member.name == *used);
    let forbidden = uses.iter().filter(is_ours).filter(|used| !allowed.contains(&used.as_str()));
    forbidden
        .map(|used| {
            let line = manifest.lines().position(|line| line.starts_with(used.as_str()));
            let message = format!("`{name}` may not depend on `{used}`");
            Finding::new(path, line.map_or(1, |index| index + 1), message)
        })
        .collect()
}

/// Judges all that a member reaches; `tree` has a line `NAME vVERSION …` for each.
fn reached(member: &Member, tree: &str) -> Vec<Finding> {
    let is_pure = PURE.contains(&member.name.as_str());
    let forbidden = |package: &&str| {
        (is_pure && IMPURE.contains(package))
            || *package == "openssl-sys"
            || package.starts_with("pcre")
            || (*package == "proxy-wasm" && member.name != WASM_FILTER)
    };
    let packages: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split(' ').next()).filter(forbidden).collect();
    let message = |package| {
        let name = &member.name;
        format!("`{name}` reaches `{package}` (`cargo tree -e normal -p {name} -i {package}`)")
    };
    packages
        .into_iter()
        .map(|package| Finding::new(&member.manifest, 1, message(package)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"workspace_root": "/w", "packages": [
        {"name": "seclang", "manifest_path": "/w/engine/seclang/Cargo.toml", "dependencies": [
            {"name": "memchr", "kind": null}, {"name": "glacis-engine", "kind": "dev"},
            {"name": "glacis-limits", "kind": null}]},
        {"name": "glacis-engine", "manifest_path": "/w/engine/core/Cargo.toml", "dependencies": [
            {"name": "seclang", "kind": null}, {"name": "glacis-limits", "kind": "build"}]},
        {"name": "glacis-limits", "manifest_path": "/w/limits/Cargo.toml", "dependencies": []},
        {"name": "glacis-tests", "manifest_path": "/w/tests/Cargo.toml", "dependencies": [
            {"name": "seclang", "kind": null}]},
        {"name": "stranger", "manifest_path": "/w/stranger/Cargo.toml", "dependencies": []}]}"#;

    #[test]
    fn only_listed_edges_are_allowed() {
        let members = members(METADATA).unwrap();
        let manifest = "[dependencies]\nglacis-limits.workspace = true\n";
        let findings = members.iter().flat_map(|member| edges(member, &members, manifest));
        assert_eq!(
            findings.map(|finding| finding.to_string()).collect::<Vec<_>>(),
            [
                "engine/seclang/Cargo.toml:2: `seclang` may not depend on `glacis-limits`",
                "engine/core/Cargo.toml:2: `glacis-engine` may not depend on `glacis-limits`",
                "stranger/Cargo.toml:1: `stranger` is not in the list of \
                 xtask/src/tidy/dependencies.rs",
            ]
        );
    }

    #[test]
    fn forbidden_packages_depend_on_who_reaches_them() {
        let rows: &[(&str, &str, usize)] = &[
            ("seclang", "memchr v2\ntokio-stream v1", 0),
            ("seclang", "tokio v1\ntokio v1 (*)", 1),
            ("glacis-ext-proc", "tokio v1\nhyper v1\ntonic v1", 0),
            ("glacis-ext-proc", "openssl-sys v1\npcre2-sys v1\nproxy-wasm v1", 3),
            ("glacis-wasm-filter", "proxy-wasm v1", 0),
            ("glacis-limits", "proxy-wasm v1", 1),
        ];
        for (name, tree, expected) in rows {
            let (name, manifest) = ((*name).to_owned(), "Cargo.toml".to_owned());
            let member = Member { name, manifest, uses: BTreeSet::new(), foreign: BTreeSet::new() };
            assert_eq!(reached(&member, tree).len(), *expected, "{tree}");
        }
    }
}

//! Dashboards and alerts ask for metrics that exist: those of the references, and Envoy's that are named here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::failure::{self, Failure, Outcome};

/// Where each family of ours stands in the first column of a table.
const REFERENCES: [&str; 3] =
    ["docs/reference/metrics.md", "docs/reference/metrics-ext-authz.md", "wasm-filter/README.md"];

/// Families of Envoy, of which `cargo xtask mesh` looks whether Envoy tells them.
const COMMON: &[&str] = &[
    "envoy_cluster_health_check_success",
    "envoy_cluster_membership_healthy",
    "envoy_cluster_membership_total",
    "envoy_cluster_upstream_rq_active",
    "envoy_cluster_upstream_rq_pending_overflow",
    "envoy_cluster_outlier_detection_ejections_active",
    "envoy_http_downstream_rq_total",
    "envoy_http_ext_proc_failure_mode_allowed",
    "envoy_http_ext_proc_message_timeouts",
    "envoy_http_ext_proc_streams_failed",
];

/// A circuit breaker where its priority is a part of the name.
const PRIORITY_IN_NAME: &[&str] = &["envoy_cluster_circuit_breakers_default_rq_open"];

/// The same by the rules of Envoy Gateway's proxies, which make the priority a label.
const PRIORITY_AS_LABEL: &[&str] = &["envoy_cluster_circuit_breakers_rq_open"];

/// Names that Envoy's own rules for labels give, with a label `envoy_rbac_http_prefix`.
const ENVOYS: &[&str] = &["envoy_http_rbac_denied", "envoy_http_rbac_shadow_denied"];

/// The same by the rules of Istio's proxies.
const ISTIOS: &[&str] =
    &["envoy_http_rbac_glacis_receipt", "envoy_http_rbac_glacis_receipt_denied"];

pub(super) fn check(root: &Path) -> Outcome<()> {
    let known = known(root)?;
    let mut wrong = Vec::new();
    for folder in ["charts/glacis/dashboards", "charts/glacis/alerts"] {
        let folder = root.join(folder);
        for entry in fs::read_dir(&folder).map_err(failure::io("list", &folder))? {
            let path = entry.map_err(failure::io("list", &folder))?.path();
            let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
            if path.extension().is_some_and(|extension| extension == "json") {
                serde_json::from_str::<serde_json::Value>(&text)
                    .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
            }
            for name in names(&text).into_iter().filter(|name| !is_known(name, &known)) {
                wrong.push(format!("{}: nobody tells a metric {name}", path.display()));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}

fn known(root: &Path) -> Outcome<BTreeSet<String>> {
    let envoys = [COMMON, PRIORITY_IN_NAME, PRIORITY_AS_LABEL, ENVOYS, ISTIOS];
    let mut known: BTreeSet<String> =
        envoys.into_iter().flatten().map(ToString::to_string).collect();
    for reference in REFERENCES {
        let path = root.join(reference);
        let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
        known.extend(rows.map(|(name, _)| name.to_owned()));
    }
    known.extend(recorded(root)?);
    Ok(known)
}

/// What our own rules make of others.
fn recorded(root: &Path) -> Outcome<Vec<String>> {
    let path = root.join("charts/glacis/alerts/breaker.yaml");
    let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
    let records = text.lines().filter_map(|line| line.trim().strip_prefix("- record: "));
    // Of a name with a colon, the first part is seen by `names`.
    let names = records.map(|name| name.split(':').next().unwrap_or(name).to_owned());
    Ok(names.collect())
}

/// A histogram is asked for by the names of its parts, and a recording rule is one of ours.
fn is_known(name: &str, known: &BTreeSet<String>) -> bool {
    let parts = ["_bucket", "_sum", "_count"];
    known.contains(name)
        || parts
            .iter()
            .any(|part| name.strip_suffix(part).is_some_and(|family| known.contains(family)))
}

/// What looks like the name of a metric of ours, of the contract, or of Envoy. Patterns of names are not read.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let words = text.split(|character| !is_part(character));
    let ours = ["glacis_", "coraza_waf_", "envoy_cluster_", "envoy_http_"];
    let is_label =
        |word: &str| ["envoy_cluster_name", "envoy_http_conn_manager_prefix"].contains(&word);
    let told = ["glacis_receipt", "glacis_"];
    words
        .filter(|word| ours.iter().any(|start| word.starts_with(start)))
        .filter(|word| !is_label(word) && !told.contains(word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_expressions() {
        let text = r#"sum by (envoy_cluster_name) (rate(glacis_requests_total{verdict="deny"}[5m])) / envoy_http_a"#;
        assert_eq!(Vec::from_iter(names(text)), ["envoy_http_a", "glacis_requests_total"]);
    }

    #[test]
    fn parts_of_histograms_are_known() {
        let known = BTreeSet::from(["glacis_inspection_seconds".to_owned()]);
        for (name, expected) in [
            ("glacis_inspection_seconds_bucket", true),
            ("glacis_inspection_seconds", true),
            ("glacis_inspection_second", false),
            ("glacis_other_bucket", false),
        ] {
            assert_eq!(is_known(name, &known), expected, "{name}");
        }
    }
}

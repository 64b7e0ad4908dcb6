//! The ways of attaching as plain YAML in `envoy-configs/`, for people without Helm.

use super::{Helm, compare as compare_file, render};
use crate::cargo;
use crate::failure::Outcome;

/// Values, the template that is taken of what they give (all, if it has no name), and the file.
const FILES: &[(&str, &str, &str)] = &[
    ("default", "", "kubernetes/glacis.yaml"),
    ("istio-gateway", "istio", "istio/gateway.yaml"),
    ("istio-sidecar", "istio", "istio/sidecar.yaml"),
    ("istio-waypoint", "istio", "istio/waypoint.yaml"),
    ("envoy-gateway", "envoy-gateway", "envoy-gateway/route.yaml"),
    ("gateway-api", "envoy-gateway", "envoy-gateway/gateway.yaml"),
    ("native", "envoy-gateway", "envoy-gateway/native.yaml"),
    ("native", "istio", "istio/native.yaml"),
];

pub(super) fn compare(helm: &Helm, write: bool) -> Outcome<Vec<String>> {
    let mut differences = Vec::new();
    for (values, template, file) in FILES {
        let values_file = helm.chart.join(format!("tests/{values}.values.yaml"));
        let has_template = !template.is_empty();
        let template = format!("templates/{template}.yaml");
        let values_file = values_file.to_string_lossy();
        let mut arguments = vec!["--no-hooks", "--values", &values_file];
        if has_template {
            arguments.extend(["--show-only", &template]);
        }
        let rendered = helm.template(&arguments)?;
        let path = cargo::root().join("envoy-configs").join(file);
        differences.extend(compare_file(&path, &plain(values, &rendered), write)?);
    }
    Ok(differences)
}

/// Without what only means something to Helm, and with a heading.
fn plain(values: &str, rendered: &str) -> String {
    let helms = [
        "# Source:",
        "app.kubernetes.io/managed-by:",
        "helm.sh/chart:",
        "app.kubernetes.io/version:",
    ];
    let text = render::tidy(rendered);
    let lines =
        text.lines().filter(|line| !helms.iter().any(|start| line.trim_start().starts_with(start)));
    let mut plain = format!(
        "# What the chart makes of charts/glacis/tests/{values}.values.yaml; README.md beside it says what to change.\n\
         # Renewed by `cargo xtask charts --write`.\n"
    );
    for line in lines.skip_while(|line| *line == "---") {
        plain.push_str(line);
        plain.push('\n');
    }
    plain
}

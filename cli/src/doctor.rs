//! `glacis doctor`: checks of an installation. The checks are those of the crate `doctor`; evidence is gathered here, from
//! files and from admin ports.

mod configuration;
mod sources;

use std::io::Write as _;

use glacis_doctor::{Check, Evidence, Finding, Severity, examine};
use glacis_rules::CRS_VERSION;
use serde_json::json;

use crate::{
    arguments::{DoctorFormat, DoctorOptions},
    inspect::now,
    output::{self, Fault, Outcome},
};
use configuration::Configuration;
use sources::{Replica, envoy, replicas};

/// Runs the checks for which there is evidence; an error or a warning is a finding.
pub(crate) fn run(options: &DoctorOptions) -> Result<Outcome, Fault> {
    let replicas = replicas(&options.admin, options.token_file.as_deref())?;
    let of_file = options.config.as_deref().map(Configuration::load).transpose()?;
    let configuration = match of_file {
        Some(configuration) => configuration,
        None => Configuration::of_rules(&options.rules.0)?,
    };
    let envoy = envoy(options)?;
    // A service answers what its configuration is: Envoy's is compared with it.
    let asked = replicas.iter().find_map(Replica::settings);
    let services: Vec<_> = replicas.iter().map(|replica| replica.service.clone()).collect();
    let mut findings = examine(&Evidence {
        now: now().as_secs(),
        settings: configuration.settings.as_ref().or(asked.as_ref()),
        rules: &configuration.rules,
        crs_tested: Some(CRS_VERSION),
        refused: configuration.refused.as_ref(),
        envoy: envoy.as_ref(),
        services: &services,
    });
    findings.extend(replicas.into_iter().flat_map(|replica| replica.findings));
    findings.retain(|finding| !options.ignore.iter().any(|id| id == finding.check.id));
    let findings = Finding::joined(findings);
    print(options.format, &findings)?;
    let is_note = |finding: &Finding| finding.check.severity == Severity::Note;
    Ok(if findings.iter().all(is_note) { Outcome::Clean } else { Outcome::Findings })
}

fn print(format: DoctorFormat, findings: &[Finding]) -> Result<(), Fault> {
    let mut out = output::results();
    match format {
        DoctorFormat::Json => writeln!(out, "{}", json!({ "findings": findings }))?,
        DoctorFormat::Text => {
            for finding in findings {
                let Finding { check, subject, detail } = finding;
                let Check { id, name, severity, meaning, remedy, .. } = check;
                writeln!(out, "{id} {severity:<7} {name}: {subject}: {detail}")?;
                writeln!(out, "      {meaning}\n      Remedy: {remedy}\n")?;
            }
            let count =
                |severity| findings.iter().filter(|it| it.check.severity == severity).count();
            let [errors, warnings, notes] =
                [Severity::Error, Severity::Warning, Severity::Note].map(count);
            writeln!(out, "errors: {errors}, warnings: {warnings}, notes: {notes}")?;
        }
    }
    Ok(out.flush()?)
}

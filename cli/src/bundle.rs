//! `glacis bundle`: rules with all their files in one piece, for the wasm-filter.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_inspector::RuleBundle;
use glacis_rules::FileSource;

use crate::arguments::BundleOptions;
use crate::output::{self, Fault, Outcome};
use crate::ruleset;

/// Prints the bundle in base64, on one line.
pub(crate) fn run(options: &BundleOptions) -> Result<Outcome, Fault> {
    let fault = |error: &dyn std::fmt::Display| Fault::Input(error.to_string());
    let inputs = ruleset::inputs(&options.rules)?;
    let gathered = RuleBundle::gather(&inputs, &FileSource::new());
    let (bundle, program) = gathered.map_err(|errors| fault(&errors))?;
    let packed = bundle.pack_like(&program).map_err(|error| fault(&error))?;
    let mut out = output::results();
    writeln!(out, "{}", STANDARD.encode(&packed))?;
    out.flush()?;
    if !options.quiet {
        let (rules, bytes) = (program.rule_count(), packed.len());
        output::remark(format_args!("{rules} rules, {bytes} bytes"));
    }
    Ok(Outcome::Clean)
}

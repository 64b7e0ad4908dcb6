//! `glacis lint`: are these rules in order?

use std::io::Write as _;

use crate::{
    arguments::LintOptions,
    output::{self, Fault, Outcome},
    ruleset,
};

/// Prints every error; remarks on what has no effect.
pub(crate) fn run(options: &LintOptions) -> Result<Outcome, Fault> {
    let program = match ruleset::build(&options.rules)? {
        Ok(program) => program,
        Err(errors) => {
            let mut out = output::results();
            writeln!(out, "{errors}")?;
            out.flush()?;
            return Ok(Outcome::Findings);
        }
    };
    if !options.quiet {
        for warning in program.warnings() {
            output::remark(format_args!("warning: {warning}"));
        }
        let (rules, warnings) = (program.rule_count(), program.warnings().len());
        let (rules, warnings) = (counted(rules, "rule"), counted(warnings, "warning"));
        output::remark(format_args!("{rules}, no errors, {warnings}"));
    }
    let fails = options.strict && !program.warnings().is_empty();
    Ok(if fails { Outcome::Findings } else { Outcome::Clean })
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

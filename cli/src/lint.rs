//! `glacis lint`: are these rules in order?

use std::io::Write as _;

use glacis_engine::BuildErrors;
use serde_json::{Value, json};

use crate::{
    arguments::{LintFormat, LintOptions},
    output::{self, Fault, Outcome},
    ruleset,
};

/// An error or a warning, with its place.
#[derive(Debug)]
struct Finding {
    level: &'static str,
    file: String,
    /// 0 where it is about no line.
    line: u32,
    column: u32,
    message: String,
}

/// Prints every error; remarks on what has no effect.
pub(crate) fn run(options: &LintOptions) -> Result<Outcome, Fault> {
    let built = ruleset::build(&options.rules)?;
    if options.format != LintFormat::Text {
        let findings = match &built {
            Ok(program) => program.warnings().iter().map(|warning| of_warning(warning)).collect(),
            Err(errors) => of_errors(errors),
        };
        print(options.format, &findings)?;
    } else if let Err(errors) = &built {
        let mut out = output::results();
        writeln!(out, "{errors}")?;
        out.flush()?;
    }
    let Ok(program) = built else { return Ok(Outcome::Findings) };
    if !options.quiet && options.format == LintFormat::Text {
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

fn of_errors(errors: &BuildErrors) -> Vec<Finding> {
    let finding = |error: &glacis_engine::BuildError| {
        let text = error.to_string();
        let place = format!("{}:{}:", error.file(), error.line());
        let column =
            text.strip_prefix(&place).and_then(|rest| rest.split(':').next()?.parse().ok());
        Finding {
            level: "error",
            file: error.file().to_owned(),
            line: error.line(),
            column: column.unwrap_or(1),
            message: error.message().to_owned(),
        }
    };
    errors.errors().iter().map(finding).collect()
}

/// A warning is `FILE:LINE: message`.
fn of_warning(warning: &str) -> Finding {
    let (place, message) = warning.split_once(": ").unwrap_or(("", warning));
    let split = place.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let (file, line) = split.unwrap_or((place, 0));
    Finding {
        level: "warning",
        file: file.to_owned(),
        line,
        column: 1,
        message: message.to_owned(),
    }
}

fn print(format: LintFormat, findings: &[Finding]) -> Result<(), Fault> {
    let mut out = output::results();
    match format {
        LintFormat::Text => {}
        LintFormat::Json => {
            let list: Vec<Value> = findings.iter().map(Finding::json).collect();
            writeln!(out, "{}", json!({ "findings": list }))?;
        }
        LintFormat::Sarif => writeln!(out, "{:#}", sarif(findings))?,
        LintFormat::Github => {
            for finding in findings {
                writeln!(out, "{}", finding.github())?;
            }
        }
    }
    Ok(out.flush()?)
}

impl Finding {
    fn json(&self) -> Value {
        json!({
            "level": self.level,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
        })
    }

    /// A workflow command of GitHub Actions: <https://docs.github.com/actions/reference/workflow-commands>.
    fn github(&self) -> String {
        let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
        let (file, line, column) = (property(&self.file), self.line.max(1), self.column);
        format!("::{} file={file},line={line},col={column}::{}", self.level, data(&self.message))
    }
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// SARIF 2.1.0 (OASIS). Results without a line have no region.
fn sarif(findings: &[Finding]) -> Value {
    let result = |finding: &Finding| {
        let mut place = json!({"artifactLocation": {"uri": uri(&finding.file)}});
        if finding.line > 0 {
            place["region"] = json!({"startLine": finding.line, "startColumn": finding.column});
        }
        json!({
            "ruleId": format!("glacis/{}", finding.level),
            "level": finding.level,
            "message": {"text": finding.message},
            "locations": [{"physicalLocation": place}],
        })
    };
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "glacis lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": [
                    {"id": "glacis/error", "shortDescription": {"text": "The ruleset does not load"}},
                    {"id": "glacis/warning", "shortDescription": {"text": "The directive has no effect"}},
                ],
            }},
            "results": findings.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}

/// A path as a relative reference of RFC 3986.
fn uri(path: &str) -> String {
    let mut uri = String::new();
    for byte in path.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(byte.into())
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

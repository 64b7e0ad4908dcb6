//! Compares what became of a case with what ModSecurity does.

use std::path::Path;

use regex_automata::{meta, util::syntax};

use super::case::{Case, Data, Expected};
use super::expectations::Entry;
use super::play::{Seen, play};

/// What is said of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// All that is compared is as ModSecurity has it.
    Passes,
    /// So it is, but for a pattern for words of ModSecurity's logs, in whose place another one holds.
    PassesReworded,
    /// It is not, for the reason on file.
    Differs,
    /// It should pass and does not, or is on file and should not be; what is wrong.
    Wrong(String),
}

/// Plays and judges a case of the suite in `folder`; `entry` is what is on file of it.
#[must_use]
pub fn judge(case: &Case, folder: &Path, entry: Option<&Entry>) -> Judged {
    let (found, reworded) = match &case.data {
        Err(why) => (vec![why.clone()], None),
        Ok(data) => {
            let seen = play(&case.file, data, folder);
            let instead = entry.filter(|entry| entry.is_reworded());
            (faults(data, &seen, None), instead.map(|entry| faults(data, &seen, Some(entry))))
        }
    };
    match (found.as_slice(), entry, reworded) {
        ([], None, _) => Judged::Passes,
        ([], Some(_), _) => Judged::Wrong("it passes, and is listed all the same".to_owned()),
        (found, None, _) => Judged::Wrong(found.join("; ")),
        (_, Some(_), None) => Judged::Differs,
        (_, Some(_), Some(faults)) if faults.is_empty() => Judged::PassesReworded,
        (_, Some(_), Some(faults)) => Judged::Wrong(faults.join("; ")),
    }
}

/// What is not as expected; patterns of `instead` take the place of those for logs.
fn faults(data: &Data, seen: &Seen, instead: Option<&Entry>) -> Vec<String> {
    let Expected { http_code, redirect_url, parser_error, debug_log, error_log, audit_log } =
        &data.expected;
    match (&seen.rejected, parser_error.is_empty()) {
        (Some(_), false) => return Vec::new(),
        (Some(errors), true) => return vec![format!("the rules are rejected: {errors}")],
        (None, false) => return vec![format!("the rules are accepted ({parser_error})")],
        (None, true) => {}
    }
    let mut faults = Vec::new();
    let expected = http_code.unwrap_or(200);
    if seen.status != expected {
        faults.push(format!("status {} instead of {expected}", seen.status));
    }
    if redirect_url.is_some() && *redirect_url != seen.location {
        faults.push(format!("location {:?} instead of {redirect_url:?}", seen.location));
    }
    let logs = &seen.logs;
    let patterns = match instead {
        Some(entry) => {
            let without = entry.without.as_deref();
            if without.is_some_and(|pattern| holds(pattern, &logs.debug).is_ok()) {
                faults.push(format!("our log: {without:?} is there"));
            }
            vec![("our", entry.log.as_deref().unwrap_or_default(), &logs.debug)]
        }
        None => vec![
            ("debug", debug_log.as_str(), &logs.debug),
            ("error", error_log, &logs.error),
            ("audit", audit_log, &logs.audit),
        ],
    };
    for (name, pattern, text) in patterns {
        if let Err(why) = holds(pattern, text) {
            faults.push(format!("{name} log: {why}"));
        }
    }
    faults
}

/// Whether the text has a match of the pattern, as ModSecurity's runner looks for it.
fn holds(pattern: &str, text: &str) -> Result<(), String> {
    if pattern.is_empty() {
        return Ok(());
    }
    let config = syntax::Config::new().dot_matches_new_line(true).multi_line(true);
    let config = config.unicode(false).utf8(false);
    let regex = meta::Regex::builder().syntax(config).build(pattern);
    let regex = regex.map_err(|error| format!("{pattern:?} does not compile: {error}"))?;
    if regex.is_match(text) { Ok(()) } else { Err(format!("no {pattern:?}")) }
}

#[cfg(test)]
mod tests {
    use super::super::case::Lines;
    use super::*;

    fn case(status: u16, log: &str) -> Case {
        let rules = "SecRuleEngine On\nSecRule ARGS \"@streq b\" \"id:1,phase:1,deny\"\n";
        let mut data = Data { rules: Lines(rules.to_owned()), ..Data::default() };
        data.request.uri = "/?a=b".to_owned();
        data.request.method = "GET".to_owned();
        data.expected.http_code = Some(status);
        data.expected.debug_log = log.to_owned();
        Case { id: "a.json#1".to_owned(), file: "a.json".to_owned(), data: Ok(data) }
    }

    fn entry(log: Option<&str>) -> Entry {
        Entry {
            reason: "It is so.".to_owned(),
            log: log.map(str::to_owned),
            without: None,
            cases: Vec::new(),
        }
    }

    #[track_caller]
    fn check(case: &Case, entry: Option<&Entry>, expected: &str) {
        let judged = judge(case, Path::new("/nowhere"), entry);
        assert!(format!("{judged:?}").starts_with(expected), "{judged:?}");
    }

    #[test]
    fn a_case_passes_or_is_listed() {
        let shown = r#"Target value: "b" \(Variable: ARGS:a\)"#;
        check(&case(403, shown), None, "Passes");
        check(&case(200, shown), None, "Wrong(\"status 403 instead of 200");
        check(&case(403, "words"), None, "Wrong(\"debug log");
        check(&case(403, ""), Some(&entry(None)), "Wrong(\"it passes");
        check(&case(403, "words"), Some(&entry(None)), "Differs");
        check(
            &case(403, "words"),
            Some(&entry(Some("end: ARGS|Rule returned 1"))),
            "PassesReworded",
        );
        check(&case(403, "words"), Some(&entry(Some("other words"))), "Wrong(\"our log");
        check(&case(200, "words"), Some(&entry(Some("Rule returned 1"))), "Wrong(\"status");
        let without = |pattern: &str| Entry { without: Some(pattern.to_owned()), ..entry(None) };
        check(&case(403, "words"), Some(&without("Rule: 2")), "PassesReworded");
        check(&case(403, "words"), Some(&without("Rule: 1")), "Wrong(\"our log");
        let broken = Case { data: Err("broken".to_owned()), ..case(200, "") };
        check(&broken, None, "Wrong(\"broken");
        check(&broken, Some(&entry(None)), "Differs");
    }
}

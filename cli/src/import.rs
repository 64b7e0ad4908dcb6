//! `glacis import`: the rules of another web application firewall as profiles of ext-proc.
//!
//! The configuration is printed; what could not be carried over stands in it as comments, and is counted on standard
//! error. Nothing is left out silently.

mod directives;
mod print;
mod sources;

use std::io::Write as _;

use glacis_engine::{Input, Limits, Program};
use glacis_rules::FileSource;

use crate::arguments::ImportOptions;
use crate::output::{self, Fault, Outcome};
use directives::Directive;

/// One set of rules as the other firewall has it.
#[derive(Debug, Default)]
struct Given {
    /// A name for the profile; `None` for that of everything else.
    name: Option<String>,
    /// For whom it is: hosts, paths, objects.
    used_by: Vec<String>,
    /// Whether there is CRS, as far as a switch says it.
    crs: bool,
    /// Whether the firewall is on, as far as a switch says it.
    mode: Option<&'static str>,
    /// SecLang.
    text: String,
    /// What was seen and cannot be carried over.
    lost: Vec<String>,
}

/// The same as a profile of ours.
#[derive(Debug, Default, PartialEq, Eq)]
struct Profile {
    name: Option<String>,
    used_by: Vec<String>,
    mode: Option<&'static str>,
    crs: bool,
    /// Files with rules, to be brought along.
    rules: Vec<String>,
    /// SecLang that stood before CRS.
    setup: Vec<String>,
    /// SecLang.
    directives: Vec<String>,
    lost: Vec<String>,
}

/// Prints the configuration.
pub(crate) fn run(options: &ImportOptions) -> Result<Outcome, Fault> {
    let mut given = Vec::new();
    for file in &options.files {
        let fault = |problem: String| Fault::Input(format!("{}: {problem}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| fault(error.to_string()))?;
        given.extend(sources::read(options.form, &text).map_err(fault)?);
    }
    if given.is_empty() {
        let message = format!("nothing of {} was found in these files", options.form.name());
        return Err(Fault::Input(message));
    }
    let profiles: Vec<Profile> = given.into_iter().map(carry).collect();
    let mut out = output::results();
    out.write_all(print::configuration(options.form, &profiles).as_bytes())?;
    out.flush()?;
    let lost: usize = profiles.iter().map(|profile| profile.lost.len()).sum();
    output::remark(format_args!(
        "profiles: {}; not carried over, and named in comments: {lost}",
        profiles.len()
    ));
    Ok(Outcome::Clean)
}

/// Sorts the directives into what is a key of the configuration, what is SecLang, and what is lost.
fn carry(given: Given) -> Profile {
    let Given { name, used_by, crs, mode, text, lost } = given;
    let mut profile = Profile { name, used_by, mode, crs, lost, ..Profile::default() };
    let (mut setup, mut kept) = (Vec::new(), Vec::new());
    for directive in directives::split(&text) {
        match directive {
            Directive::Engine(mode) => profile.mode = Some(mode),
            Directive::Base => {}
            Directive::Crs => {
                profile.crs = true;
                setup.append(&mut kept);
            }
            Directive::File(path) => profile.rules.push(path),
            Directive::Lost(text, why) => profile.lost.push(format!("{text}: {why}")),
            Directive::Rules(text) if text.lines().any(|line| line.contains(print::is_control)) => {
                let why = "a control character, which YAML cannot hold: write \\xHH";
                profile.lost.push(format!("{text}: {why}"));
            }
            Directive::Rules(text) => kept.push(text),
        }
    }
    profile.setup = accepted(setup, &mut profile.lost);
    profile.directives = accepted(kept, &mut profile.lost);
    profile
}

/// What the engine accepts; the rest is lost.
fn accepted(kept: Vec<String>, lost: &mut Vec<String>) -> Vec<String> {
    if problem(&kept.join("\n")).is_none() {
        return kept;
    }
    // Something in it is not accepted: which, shows when each is looked at alone.
    let mut accepted = Vec::new();
    for text in kept {
        match problem(&text) {
            Some(why) if !directives::needs_others(&text) => lost.push(format!("{text}: {why}")),
            _ => accepted.push(text),
        }
    }
    accepted
}

/// Why the engine does not accept a text, in one line.
fn problem(text: &str) -> Option<String> {
    let inputs = [Input::Text { name: "imported".to_owned(), text: text.to_owned() }];
    let errors = Program::build(&inputs, &FileSource::new(), Limits::default()).err()?.to_string();
    let first = errors.lines().next().unwrap_or_default();
    // The place is that in a text which nobody has seen.
    let message = first.split_once(": ").map_or(first, |(_, message)| message);
    Some(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else the end of a line of theirs would be one of ours, and what follows a key.
    #[test]
    fn rules_with_control_characters_are_lost() {
        let rule = |value: &str| format!("SecRule ARGS \"@rx {value}\" \"id:1,phase:1,deny\"\n");
        for (value, kept) in [("a", 1), ("a\tb", 1), ("a\rmode: off", 0), ("a\u{85}b", 0)] {
            let profile = carry(Given { text: rule(value), ..Given::default() });
            assert_eq!(
                (profile.directives.len(), profile.lost.len()),
                (kept, 1 - kept),
                "{value:?}"
            );
        }
    }
}

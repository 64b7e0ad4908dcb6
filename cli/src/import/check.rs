//! Loads what is printed as ext-proc would, and takes out what it would not accept.

use std::path::Path;

use glacis_engine::{BuildError, Limits, Program};
use glacis_rules::{Assembly, CrsSettings, Defaults, ExclusionRules, RecordingSource};

use super::{Profile, statement::Statement};

/// Rounds: in each the engine names all errors that it can find at once.
const ROUNDS_MAX: usize = 64;

/// Takes what the engine does not accept out of a profile and puts it among what is lost.
///
/// `crs` is the folder of CRS, where there is one on this machine.
///
/// # Errors
/// When what is wrong is in nothing that was imported.
pub(super) fn settle(profile: &mut Profile, crs: Option<&Path>) -> Result<(), String> {
    let folder = crs.filter(|_| profile.crs);
    for _ in 0..ROUNDS_MAX {
        let errors = errors(profile, folder)?;
        // Without CRS, directives about its rules cannot be judged.
        let is_blind = profile.crs && folder.is_none();
        let mut bad: Vec<(bool, usize, String)> = Vec::new();
        for error in &errors {
            let Some((is_setup, index)) = culprit(profile, error) else { continue };
            let list = if is_setup { &profile.setup } else { &profile.directives };
            let excused = is_blind && list.get(index).is_some_and(Statement::needs_others);
            if !excused && !bad.iter().any(|(setup, at, _)| (*setup, *at) == (is_setup, index)) {
                bad.push((is_setup, index, error.message().to_owned()));
            }
        }
        if bad.is_empty() {
            let excused = is_blind || errors.is_empty();
            return match errors.first().filter(|_| !excused) {
                Some(error) => Err(error.to_string()),
                None => Ok(()),
            };
        }
        bad.sort_by_key(|(_, index, _)| std::cmp::Reverse(*index));
        for (is_setup, index, why) in bad {
            let list = if is_setup { &mut profile.setup } else { &mut profile.directives };
            let statement = list.remove(index);
            let place = statement.place();
            profile.lost.push(format!("{}: {why} ({place})", statement.text));
        }
    }
    Err("too much of it is not accepted".to_owned())
}

fn errors(profile: &Profile, crs: Option<&Path>) -> Result<Vec<BuildError>, String> {
    let source = RecordingSource::new();
    let assembly = Assembly {
        base: true,
        crs,
        defaults: Defaults::Crs,
        setup: &text(&profile.setup),
        settings: CrsSettings::default(),
        graphql: "",
        openapi: "",
        exclusions: &ExclusionRules::default(),
        files: &[],
        directives: &text(&profile.directives),
        limits: "",
    };
    let assembled = assembly.assemble(&source).map_err(|error| error.to_string())?;
    let errors = Program::build(&assembled.inputs, &source, Limits::default()).err();
    Ok(errors.map(|errors| errors.errors().to_vec()).unwrap_or_default())
}

/// The statements as they are printed.
pub(super) fn text(statements: &[Statement]) -> String {
    statements.iter().map(|statement| format!("{}\n", statement.text)).collect()
}

/// The statement that an error is about: the one it is in, or the one whose id it names.
fn culprit(profile: &Profile, error: &BuildError) -> Option<(bool, usize)> {
    let place = |name: &str, line: usize| match name {
        "setup" => at(&profile.setup, line).map(|index| (true, index)),
        "directives" => at(&profile.directives, line).map(|index| (false, index)),
        _ => None,
    };
    let line = usize::try_from(error.line()).unwrap_or_default();
    place(error.file(), line).or_else(|| {
        let (_, other) = error.message().split_once("already used at ")?;
        let (name, line) = other.split_once(':')?;
        let digits: String = line.chars().take_while(char::is_ascii_digit).collect();
        place(name, digits.parse().ok()?)
    })
}

/// The index of the statement that has a line of the printed text, counted from 1.
fn at(statements: &[Statement], line: usize) -> Option<usize> {
    let mut next = 1;
    statements.iter().position(|statement| {
        next += statement.text.split('\n').count();
        line < next
    })
}

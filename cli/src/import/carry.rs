//! From what another firewall has to profiles of ours.

use std::{collections::BTreeSet, path::Path};

use super::{
    Given, Piece, Profile,
    crs_files::{self, Crs},
    reader::{Reader, Step},
    statement::Statement,
};

/// What one piece of a ruleset became.
#[derive(Clone, Debug, Default)]
struct Part {
    mode: Option<&'static str>,
    /// Whether the mode is in a file that could not be read.
    mode_is_unknown: bool,
    crs: bool,
    /// Files of CRS that were named one by one.
    files: BTreeSet<u32>,
    /// Whether all of CRS was named.
    all: bool,
    setup: Vec<Statement>,
    directives: Vec<Statement>,
    lost: Vec<String>,
    notes: Vec<String>,
}

/// Makes profiles; the second is how many directives were recognised.
pub(super) fn profiles(given: &[Given], crs: &Crs) -> (Vec<Profile>, usize) {
    let mut recognised = 0;
    let mut profiles: Vec<Profile> = Vec::new();
    let mut default: Option<Part> = None;
    for given in given {
        let (part, seen) = part(&given.pieces, given.first_wins, given.is_local, crs);
        recognised += seen + usize::from(given.mode.is_some());
        let above = default.as_ref().filter(|_| given.name.is_some() && given.inherits);
        let profile = profile(given, &part, above);
        if given.name.is_none() {
            default = Some(part);
        }
        profiles.push(profile);
    }
    (profiles, recognised)
}

fn part(pieces: &[Piece], first_wins: bool, is_local: bool, crs: &Crs) -> (Part, usize) {
    let mut whole = Part::default();
    let mut recognised = 0;
    let mut crs_is_passed = false;
    for piece in pieces {
        let mut reader = Reader::new(crs, is_local);
        match piece {
            Piece::Text { text, file, line } => reader.text(text, file, *line, 0),
            Piece::File { path, by } => {
                let by = Statement {
                    text: format!("Include {path}"),
                    file: by.clone(),
                    ..Statement::default()
                };
                match is_local && Path::new(path).is_file() {
                    true => reader.file(&by, path, 0),
                    false => reader.text(&format!("Include {path}"), by.file.as_str(), 1, 0),
                }
            }
            Piece::Base(name) => reader.unread_base(name),
            Piece::Crs(name) => reader.crs_here(name),
        }
        let (steps, seen) = reader.finish();
        recognised += seen;
        let next = sort(steps, crs_is_passed);
        crs_is_passed |= next.crs;
        if first_wins {
            whole.stack(next);
        } else {
            whole.follow(next);
        }
    }
    (whole, recognised)
}

/// Sorts steps by whether they come before CRS or after it.
fn sort(steps: Vec<Step>, crs_is_passed: bool) -> Part {
    let mut part = Part::default();
    let last_crs = steps.iter().rposition(|step| matches!(step, Step::Crs(_)));
    let mut between = Vec::new();
    let mut engine: Option<Statement> = None;
    for (index, step) in steps.into_iter().enumerate() {
        match step {
            Step::Engine(mode, statement) => {
                if let Some(earlier) = engine.replace(statement) {
                    let (text, place) = (&earlier.text, earlier.place());
                    part.notes.push(format!("{text}: a later one replaces it ({place})"));
                }
                part.mode = Some(mode);
                part.mode_is_unknown = false;
            }
            Step::UnknownMode => {
                part.mode_is_unknown = part.mode.is_none();
            }
            Step::Crs(name) => {
                part.crs = true;
                let is_one = crs_files::is_rules_name(&name) && !name.contains('*');
                match crs_files::number(&name).filter(|_| is_one) {
                    Some(number) => {
                        part.files.insert(number);
                    }
                    None => part.all = true,
                }
            }
            Step::Keep(statement) => {
                let is_before =
                    last_crs.is_none_or(|last| index < last) && !part.crs && !crs_is_passed;
                if part.crs
                    && last_crs.is_some_and(|last| index < last)
                    && !statement.changes_rules()
                {
                    between.push(statement.place());
                }
                match is_before {
                    true => part.setup.push(statement),
                    false => part.directives.push(statement),
                }
            }
            Step::Lost(text, why) => part.lost.push(format!("{text}: {why}")),
            Step::Note(note) => part.notes.push(note),
        }
    }
    if !between.is_empty() {
        let places = between.join(" ");
        part.notes.push(format!(
            "these stood between files of CRS, and come after all of them now: {places}"
        ));
    }
    part
}

impl Part {
    /// Adds what comes after it in the same ruleset: later settings win.
    fn follow(&mut self, next: Self) {
        let mode = next.mode.or(self.mode);
        let unknown =
            next.mode_is_unknown && next.mode.is_none() || self.mode_is_unknown && mode.is_none();
        self.add(next);
        self.mode = mode;
        self.mode_is_unknown = unknown;
    }

    /// Adds what libmodsecurity merges into it: settings that are there win, rules follow.
    fn stack(&mut self, mut next: Self) {
        let mode = self.mode.or(next.mode);
        let unknown = (self.mode_is_unknown || next.mode_is_unknown) && mode.is_none();
        let settings = |statements: &mut Vec<Statement>| {
            let (settings, rest) = statements.drain(..).partition(Statement::is_setting);
            *statements = rest;
            settings
        };
        let mut before: Vec<Statement> = settings(&mut next.setup);
        before.append(&mut self.setup);
        self.setup = before;
        if !self.directives.is_empty() {
            let mut before: Vec<Statement> = settings(&mut next.directives);
            before.append(&mut self.directives);
            self.directives = before;
        }
        self.add(next);
        self.mode = mode;
        self.mode_is_unknown = unknown;
    }

    fn add(&mut self, mut next: Self) {
        self.crs |= next.crs;
        self.all |= next.all;
        self.files.append(&mut next.files);
        self.setup.append(&mut next.setup);
        self.directives.append(&mut next.directives);
        self.lost.append(&mut next.lost);
        self.notes.append(&mut next.notes);
    }

    fn has_rules(&self) -> bool {
        !self.setup.is_empty() || !self.directives.is_empty()
    }
}

fn profile(given: &Given, part: &Part, above: Option<&Part>) -> Profile {
    let mut whole = part.clone();
    let mut notes = part.notes.clone();
    if let Some(above) = above {
        if part.has_rules() && above.has_rules() {
            notes.push("the rules of the profile above follow these, as they did".to_owned());
        }
        whole.stack(above.clone());
    }
    let mode = mode(given, part, above.is_some(), &mut notes);
    let Part { crs, files, all, mut setup, mut directives, .. } = whole;
    if given.removals_apply_anywhere {
        // libmodsecurity keeps a list of what is taken away, wherever it stands; here that follows the rules.
        let (changes, rest): (Vec<_>, Vec<_>) =
            setup.into_iter().partition(Statement::changes_rules);
        setup = rest;
        directives.extend(changes);
    }
    if !crs {
        // Without CRS there is nothing to be before of.
        setup.append(&mut directives);
        directives = std::mem::take(&mut setup);
    }
    if crs && !all {
        directives.extend(left_out(&files, &mut notes));
    }
    let mut lost = given.lost.clone();
    lost.extend(part.lost.iter().cloned());
    let is_own = part.has_rules() || part.crs || above.is_none() && mode != Some("off");
    Profile {
        name: given.name.clone(),
        used_by: given.used_by.clone(),
        mode,
        crs: crs && is_own,
        inherits: !is_own,
        setup: if is_own { setup } else { Vec::new() },
        directives: if is_own { directives } else { Vec::new() },
        lost,
        notes,
    }
}

fn mode(
    given: &Given,
    part: &Part,
    inherits: bool,
    notes: &mut Vec<String>,
) -> Option<&'static str> {
    // Off is off, whatever rules say.
    let switched = given.mode.filter(|mode| *mode == "off");
    if let Some(mode) = switched.or(part.mode) {
        return Some(mode);
    }
    if inherits && given.mode.is_none() && !part.mode_is_unknown {
        return None;
    }
    let why = match part.mode_is_unknown {
        true => {
            "SecRuleEngine is in a file that was not read; as it is shipped it says DetectionOnly"
        }
        false => "nothing sets SecRuleEngine, and without it nothing is blocked",
    };
    notes.push(format!("mode: {why}"));
    Some("detection")
}

/// Where files of CRS were named one by one: takes the rules of the others away.
fn left_out(files: &BTreeSet<u32>, notes: &mut Vec<String>) -> Option<Statement> {
    let ranges: Vec<String> = crs_files::attack_numbers()
        .difference(files)
        .map(|number| format!("{number}000-{number}999"))
        .collect();
    (!ranges.is_empty()).then(|| {
        let list = ranges.join(" ");
        notes.push(format!(
            "files of CRS were named one by one: the last directive takes away the rules of the others ({list})"
        ));
        Statement {
            text: format!("SecRuleRemoveById {list}"),
            name: "secruleremovebyid".to_owned(),
            ..Statement::default()
        }
    })
}

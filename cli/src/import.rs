//! `glacis import`: the rules of another web application firewall as profiles of ext-proc.
//!
//! Prints the configuration. Every directive of the input is in it: as a key, as SecLang, or in a comment with the reason.
//! The printed configuration loads unchanged if the folder of CRS exists on this machine.

mod carry;
mod check;
mod crs_files;
mod nginx;
mod print;
mod reader;
mod sources;
mod statement;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::{
    arguments::ImportOptions,
    output::{self, Fault, Outcome},
};
use crs_files::Crs;
use statement::Statement;

/// Bytes of a file that is named on the command line.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The folder of CRS in our images.
const CRS_OF_IMAGES: &str = "/usr/share/glacis/crs";

/// A part of a ruleset, in the order in which the other firewall loads them.
#[derive(Clone, Debug)]
enum Piece {
    /// SecLang, and where it is.
    Text { text: String, file: String, line: usize },
    /// A file, and the file that names it.
    File { path: String, by: String },
    /// A base configuration that is not at hand.
    Base(String),
    /// CRS, switched on by something else than an `Include`.
    Crs(String),
}

/// One set of rules as the other firewall has it.
#[derive(Debug, Default)]
struct Given {
    /// A name for the profile; `None` for that of everything else.
    name: Option<String>,
    /// For whom it is: hosts, paths, objects.
    used_by: Vec<String>,
    /// Whether a switch other than `SecRuleEngine` turns it on or off.
    mode: Option<&'static str>,
    pieces: Vec<Piece>,
    /// What was seen and cannot be carried over.
    lost: Vec<String>,
    /// Whether the rules of the default profile follow its own.
    inherits: bool,
    /// Whether, of settings in several pieces, the first one holds: libmodsecurity merges them so.
    first_wins: bool,
    /// Whether rules can be taken away before they are defined, as in libmodsecurity.
    removals_apply_anywhere: bool,
    /// Whether paths in it are those of this machine.
    is_local: bool,
}

/// The same as a profile of ours.
#[derive(Debug, Default, PartialEq, Eq)]
struct Profile {
    name: Option<String>,
    used_by: Vec<String>,
    mode: Option<&'static str>,
    crs: bool,
    /// Whether what it does not have itself is that of the default profile.
    inherits: bool,
    /// What is before CRS.
    setup: Vec<Statement>,
    directives: Vec<Statement>,
    lost: Vec<String>,
    notes: Vec<String>,
}

/// Prints the configuration.
pub(crate) fn run(options: &ImportOptions) -> Result<Outcome, Fault> {
    let folder = crs_folder(options)?;
    let crs = Crs::read(folder.as_deref());
    let mut given = Vec::new();
    for file in &options.files {
        let read = sources::read(options.form, file, &text_of(file)?);
        given.extend(read.map_err(|problem| fault(file, &problem))?);
    }
    let form = options.form.name();
    let (mut profiles, recognised) = carry::profiles(&sources::combined(options.form, given), &crs);
    if profiles.is_empty() || recognised == 0 {
        return Err(Fault::Input(format!("nothing of {form} was found in these files")));
    }
    for profile in &mut profiles {
        check::settle(profile, folder.as_deref()).map_err(|problem| {
            let name = profile.name.as_deref().unwrap_or("the default profile");
            Fault::Input(format!("{name}: what is imported does not load: {problem}"))
        })?;
    }
    each_comment_once(&mut profiles);
    let printed = print::Printed {
        form: options.form,
        crs: options.crs.as_deref().map_or_else(|| CRS_OF_IMAGES.to_owned(), absolute),
        crs_is_given: options.crs.is_some(),
    };
    let mut out = output::results();
    out.write_all(printed.configuration(&profiles).as_bytes())?;
    out.flush()?;
    let lost: usize = profiles.iter().map(|profile| profile.lost.len()).sum();
    output::remark(format_args!(
        "profiles: {}; not carried over, and named in comments: {lost}",
        profiles.len()
    ));
    if folder.is_none() && profiles.iter().any(|profile| profile.crs) {
        output::remark(format_args!(
            "{CRS_OF_IMAGES} is the folder of CRS in the images of Glacis: elsewhere write --crs DIR"
        ));
    }
    Ok(Outcome::Clean)
}

/// Leaves a comment where it is first: profiles that share files share what is to be said of them.
fn each_comment_once(profiles: &mut [Profile]) {
    let mut printed = BTreeSet::new();
    for profile in profiles {
        profile.lost.retain(|comment| printed.insert(comment.clone()));
        profile
            .notes
            .retain(|comment| comment.starts_with("mode: ") || printed.insert(comment.clone()));
    }
}

/// The folder of CRS to check with: the named one, or that of our images where there is one.
fn crs_folder(options: &ImportOptions) -> Result<Option<PathBuf>, Fault> {
    match &options.crs {
        Some(folder) => {
            glacis_rules::crs(folder).map_err(|error| Fault::Input(error.to_string()))?;
            Ok(Some(folder.clone()))
        }
        None => {
            let folder = PathBuf::from(CRS_OF_IMAGES);
            Ok(glacis_rules::crs(&folder).is_ok().then_some(folder))
        }
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// The text of a file; what is not UTF-8 in it is marked.
fn text_of(file: &Path) -> Result<String, Fault> {
    let size = fs::metadata(file).map_err(|error| fault(file, &error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(fault(file, &format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    let bytes = fs::read(file).map_err(|error| fault(file, &error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn fault(file: &Path, problem: &str) -> Fault {
    Fault::Input(format!("{}: {problem}", file.display()))
}

/// Gives each profile but the first one without a name a name that no other has.
fn name_all(given: &mut [Given]) {
    let mut names: BTreeSet<String> = BTreeSet::from(["default".to_owned()]);
    let mut has_default = false;
    for (index, given) in given.iter_mut().enumerate() {
        if given.name.is_none() && !has_default {
            has_default = true;
            continue;
        }
        let wanted = given.name.clone().unwrap_or_else(|| format!("site-{}", index + 1));
        let mut name = wanted.clone();
        let mut count = 2;
        while !names.insert(name.clone()) {
            name = format!("{wanted}-{count}");
            count += 1;
        }
        given.name = Some(name);
    }
}

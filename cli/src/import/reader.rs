//! Reads the texts of a ruleset with the files that they include, and sorts out what is CRS's.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use glacis_engine::Source as _;
use glacis_rules::FileSource;

use super::{
    crs_files::{self, Crs, FileKind},
    statement::{Statement, statements},
};

/// Files within files.
const DEPTH_MAX: usize = 16;

/// Files of one ruleset.
const FILES_MAX: usize = 10_000;

/// What becomes of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It sets the mode.
    Engine(&'static str, Statement),
    /// A file of rules of CRS is here; its name.
    Crs(String),
    /// It stays as it is.
    Keep(Statement),
    /// What has no place in the output, and why.
    Lost(String, String),
    /// What stands for something in the output that is not there literally.
    Note(String),
    /// A base configuration that could not be read: its mode is not known.
    UnknownMode,
}

/// Where records go is not configured by rules here.
const OUTPUTS: &[&str] = &[
    "secauditlog",
    "secauditlog2",
    "secauditlogtype",
    "secauditlogformat",
    "secauditlogstoragedir",
    "secauditlogdirmode",
    "secauditlogfilemode",
    "secauditlogprefix",
];

/// Reads one ruleset.
pub(super) struct Reader<'c> {
    crs: &'c Crs,
    source: FileSource,
    /// Whether paths are those of this machine: otherwise nothing is read.
    is_local: bool,
    steps: Vec<Step>,
    files: usize,
    /// Names of directives of SecLang, or includes, that were seen.
    recognised: usize,
    /// Sections of Apache that are open, with whether they restrict what is in them.
    sections: Vec<(String, bool)>,
}

impl<'c> Reader<'c> {
    pub(super) fn new(crs: &'c Crs, is_local: bool) -> Self {
        Self {
            crs,
            source: FileSource::new(),
            is_local,
            steps: Vec::new(),
            files: 0,
            recognised: 0,
            sections: Vec::new(),
        }
    }

    /// What was read, and how many directives were recognised.
    pub(super) fn finish(self) -> (Vec<Step>, usize) {
        (self.steps, self.recognised)
    }

    /// Notes that CRS is switched on here.
    pub(super) fn crs_here(&mut self, name: &str) {
        self.recognised += 1;
        self.steps.push(Step::Crs(name.to_owned()));
    }

    /// Notes a base configuration that is not at hand.
    pub(super) fn unread_base(&mut self, name: &str) {
        self.unread(&format!("{name}: not read; the base configuration of Glacis stands for it"));
        self.steps.push(Step::UnknownMode);
    }

    /// Reads a text; paths in it are relative to the folder of `file`.
    pub(super) fn text(&mut self, text: &str, file: &str, first_line: usize, depth: usize) {
        let open = self.sections.len();
        for statement in statements(text, file, first_line) {
            self.statement(statement, depth);
        }
        self.sections.truncate(open);
    }

    fn lost(&mut self, statement: &Statement, why: &str) {
        let place = statement.place();
        self.steps.push(Step::Lost(statement.text.clone(), format!("{why} ({place})")));
    }

    fn unread(&mut self, note: &str) {
        self.steps.push(Step::Note(note.to_owned()));
    }

    fn statement(&mut self, statement: Statement, depth: usize) {
        self.recognised += usize::from(statement.is_known());
        if statement.name.starts_with('<') {
            return self.section(&statement);
        }
        if let Some((section, _)) = self.sections.iter().find(|(_, restricts)| *restricts) {
            let why = format!(
                "it is for {section} only: write it into a profile, and name the profile in the route"
            );
            return self.lost(&statement, &why);
        }
        match statement.name.as_str() {
            _ if statement.text.contains('\u{fffd}') => {
                self.lost(&statement, "it is not UTF-8: write \\xHH for bytes");
            }
            _ if statement
                .text
                .chars()
                .any(|char| super::print::is_control(char) && char != '\n') =>
            {
                self.lost(&statement, "a control character, which YAML cannot hold: write \\xHH");
            }
            "secruleengine" => match statement.value().to_ascii_lowercase().as_str() {
                "on" => self.steps.push(Step::Engine("on", statement)),
                "detectiononly" => self.steps.push(Step::Engine("detection", statement)),
                "off" => self.steps.push(Step::Engine("off", statement)),
                _ => self.steps.push(Step::Keep(statement)),
            },
            "include" | "includeoptional" => self.include(&statement, depth),
            name if OUTPUTS.contains(&name) => {
                self.lost(&statement, "`audit` in the configuration sets where records go");
            }
            _ => self.steps.push(Step::Keep(absolute_files(statement))),
        }
    }

    /// `<IfModule x>` and the like; what is between them is read as if they were not there. Other sections restrict their
    /// content to a part of the traffic.
    fn section(&mut self, statement: &Statement) {
        if statement.name.starts_with("</") {
            self.sections.pop();
            return self.lost(statement, "the end of a section");
        }
        let restricts = !statement.name.starts_with("<if");
        self.sections.push((statement.text.clone(), restricts));
        let why = match restricts {
            true => "the section of a web server: what is in it is named below",
            false => "a condition of a web server: what is in it is read as if it held",
        };
        self.lost(statement, why);
    }

    fn include(&mut self, statement: &Statement, depth: usize) {
        let path = statement.value().to_owned();
        if path.starts_with('@') {
            return self.embedded(statement, &path);
        }
        let found = match self.source.list(&path, &statement.file) {
            _ if !self.is_local => Vec::new(),
            Ok(found) => found,
            Err(error) => return self.lost(statement, &error.to_string()),
        };
        if found.is_empty() {
            return self.absent(statement, &path);
        }
        for file in found {
            if depth >= DEPTH_MAX || self.files >= FILES_MAX {
                self.lost(statement, &format!("{file}: too many files, or one includes itself"));
                continue;
            }
            self.file(statement, &file, depth + 1);
        }
    }

    /// Reads a file that exists.
    pub(super) fn file(&mut self, by: &Statement, file: &str, depth: usize) {
        self.files += 1;
        let bytes = match self.source.read(file, "") {
            Ok(read) => read.bytes,
            Err(error) => {
                return self.lost(by, &format!("{error}: import it where it can be read"));
            }
        };
        let text = String::from_utf8_lossy(&bytes);
        match crs_files::kind(file, &bytes) {
            FileKind::Unchanged => {
                let release = crs_files::release();
                self.steps.push(Step::Note(format!("{file}: a file of {release}, unchanged")));
                self.steps.push(Step::Crs(file.to_owned()));
            }
            FileKind::Rules => self.rules_of_crs(&text, file, depth),
            FileKind::Setup => self.setup_of_crs(&text, file, depth),
            FileKind::Own => self.text(&text, file, 1, depth),
        }
    }

    /// A file of CRS that is not that of the pinned release: its own rules are replaced, everything else is kept.
    fn rules_of_crs(&mut self, text: &str, file: &str, depth: usize) {
        self.steps.push(Step::Crs(file.to_owned()));
        let mut ids = BTreeSet::new();
        for statement in statements(text, file, 1) {
            if self.crs.owns(&statement) && self.crs.made(&statement) {
                ids.extend(statement.id());
            } else if self.crs.owns(&statement) && statement.is_rule() {
                self.lost(&statement, "CRS has a rule with this id, which is used as CRS made it");
            } else {
                self.statement(statement, depth);
            }
        }
        let (release, unknown) = (crs_files::release(), self.crs.unknown(&ids));
        let listed = |ids: &mut dyn Iterator<Item = u64>| {
            ids.map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
        };
        let mut note = format!(
            "{file}: changed, or of another release; these rules are those of {release} now, without your changes: {}",
            listed(&mut ids.into_iter())
        );
        if !unknown.is_empty() {
            note += &format!("; {release} does not have {}", listed(&mut unknown.into_iter()));
        }
        self.steps.push(Step::Note(note));
    }

    /// `crs-setup.conf`: what differs from the one that comes with CRS is kept.
    fn setup_of_crs(&mut self, text: &str, file: &str, depth: usize) {
        for statement in statements(text, file, 1) {
            if crs_files::is_default_of_setup(&statement) {
                let text = one_line(&statement.text);
                let place = statement.place();
                self.steps.push(Step::Note(format!(
                    "{text}: crs-setup.conf of CRS has it as well ({place})"
                )));
            } else {
                self.statement(statement, depth);
            }
        }
    }

    /// What Coraza has within itself.
    fn embedded(&mut self, statement: &Statement, path: &str) {
        let lower = path.to_ascii_lowercase();
        if crs_files::is_setup_name(&lower) {
            return self.unread(&format!("Include {path}: that of CRS is used as it comes"));
        }
        if lower.contains("owasp_crs") {
            return self.steps.push(Step::Crs(path.to_owned()));
        }
        if lower.contains("recommended") || lower.starts_with("@coraza") {
            return self.unread_base(&format!("Include {path}"));
        }
        self.lost(statement, "a configuration within Coraza, for demonstrations");
    }

    /// A file that is not here: what it is, by the names that packages give their files.
    fn absent(&mut self, statement: &Statement, path: &str) {
        let lower = path.to_ascii_lowercase();
        let name = lower.rsplit('/').next().unwrap_or_default();
        let of_crs = ["owasp", "crs", "coreruleset"].iter().any(|part| lower.contains(part));
        let all_rules =
            of_crs && (name.contains('*') && lower.contains("rules/") || name == "*.conf");
        if crs_files::is_setup_name(&lower) {
            let note = format!(
                "Include {path}: not found here, so that of CRS is used as it comes: import where the file is if you have changed it"
            );
            return self.unread(&note);
        }
        if all_rules
            || crs_files::is_rules_name(&lower)
            || of_crs && name == "nginx-modsecurity.conf"
        {
            let note = format!(
                "Include {path}: not found here, and CRS by its name; exclusions beside CRS's files are not carried over: import where the files are"
            );
            self.unread(&note);
            return self.steps.push(Step::Crs(path.to_owned()));
        }
        if ["modsecurity.conf", "coraza.conf", "modsecurity-recommended"]
            .iter()
            .any(|it| name.contains(it))
        {
            return self.unread_base(&format!("Include {path}: not found here"));
        }
        let why = match statement.name.as_str() {
            "includeoptional" => "there is no such file, and it is optional",
            _ => "not found here: import where the file is",
        };
        self.lost(statement, why);
    }
}

/// A text on one line.
pub(super) fn one_line(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The statement with paths of data files that are relative to its file made absolute, as it will be in another one.
fn absolute_files(mut statement: Statement) -> Statement {
    const OPERATORS: &[&str] = &["@pmfromfile ", "@pmf ", "@ipmatchfromfile ", "@ipmatchf "];
    let lower = statement.text.to_ascii_lowercase();
    let folder = Path::new(&statement.file).parent().unwrap_or_else(|| Path::new(""));
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    let mut note = |at: usize, word: &str| {
        let path = folder.join(word);
        if !word.starts_with('/')
            && path.is_file()
            && let Ok(path) = std::path::absolute(path)
        {
            paths.insert(at, path.to_string_lossy().into_owned());
        }
    };
    for operator in OPERATORS {
        for (at, _) in lower.match_indices(operator) {
            let begin = at + operator.len();
            let rest = statement.text.get(begin..).unwrap_or_default();
            let end = rest.find(['"', '\'']).unwrap_or(rest.len());
            let mut from = begin;
            for word in rest.get(..end).unwrap_or_default().split(' ') {
                note(from, word);
                from += word.len() + 1;
            }
        }
    }
    if matches!(statement.name.as_str(), "secunicodemapfile" | "secgeolookupdb") {
        let value = statement.value().to_owned();
        let word = value.split_whitespace().next().unwrap_or_default();
        note(statement.text.find(word).unwrap_or_default(), word);
    }
    for (at, path) in paths.into_iter().rev() {
        let rest = statement.text.get(at..).unwrap_or_default();
        let length = rest.find(['"', '\'', ' ']).unwrap_or(rest.len());
        statement.text.replace_range(at..at + length, &path);
    }
    statement
}

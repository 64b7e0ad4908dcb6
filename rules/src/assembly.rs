//! The order in which the rules of a profile are put together.

use std::path::Path;

use glacis_engine::{Input, Source as _, SourceError};

use crate::{CrsSettings, Defaults, ExclusionRules, RecordingSource, base, glob};

/// What a profile's rules are made of.
///
/// They are put together so: base, `setup` with the set-up of CRS behind it, typed settings, `graphql`, defaults, exclusions
/// for a path, the rules of CRS, files, `directives`, exclusions for every path, `limits`. Later directives override
/// earlier ones, but CRS's initialisation keeps what stands before it.
#[derive(Clone, Debug)]
pub struct Assembly<'a> {
    /// Whether the base configuration comes first. CRS needs it.
    pub base: bool,
    /// The folder of CRS.
    pub crs: Option<&'a Path>,
    /// Whose defaults CRS has, where it is there.
    pub defaults: Defaults,
    /// SecLang before CRS.
    pub setup: &'a str,
    /// Settings of CRS.
    pub settings: CrsSettings,
    /// SecLang for GraphQL, before the rules of CRS.
    pub graphql: &'a str,
    /// SecLang for an OpenAPI document, before the rules of CRS.
    pub openapi: &'a str,
    /// What rules do not look at.
    pub exclusions: &'a ExclusionRules,
    /// Files with rules, or patterns of them.
    pub files: &'a [String],
    /// SecLang behind them.
    pub directives: &'a str,
    /// SecLang at the end.
    pub limits: &'a str,
}

/// Rules that were put together.
#[derive(Clone, Debug, PartialEq)]
pub struct Assembled {
    /// In their order.
    pub inputs: Vec<Input>,
    /// Where more would stand at the end of `setup`.
    pub setup_end: usize,
    /// Where more would stand at the end of `directives`.
    pub directives_end: usize,
}

impl Assembly<'_> {
    /// Puts them together; CRS is looked for through `source`, files are read when the program is built.
    ///
    /// # Errors
    /// When the folder is not one of CRS, or a pattern among the files stands for none.
    pub fn assemble(&self, source: &RecordingSource) -> Result<Assembled, SourceError> {
        let mut rules = match self.crs {
            Some(folder) => source.crs(folder)?,
            None if self.base => vec![base()],
            None => Vec::new(),
        };
        // The first input is the base configuration, if there is one; the set-up of CRS is the next.
        let mut rest = rules.split_off(usize::from(self.base).min(rules.len()));
        let mut after_setup = rest.split_off(usize::from(self.crs.is_some()).min(rest.len()));
        if self.base {
            self.defaults.weigh(&mut after_setup);
        }
        let mut inputs = rules;
        inputs.extend(text("setup", self.setup));
        let setup_end = inputs.len();
        inputs.append(&mut rest);
        inputs.extend(self.settings.input());
        inputs.extend(text("graphql", self.graphql));
        inputs.extend(text("openapi", self.openapi));
        if self.base && self.crs.is_some() {
            inputs.extend(self.defaults.inputs());
        }
        inputs.extend(text("exclusions", &self.exclusions.before));
        inputs.extend(after_setup);
        for file in self.files {
            inputs.extend(files(file, source)?);
        }
        inputs.extend(text("directives", self.directives));
        let directives_end = inputs.len();
        inputs.extend(text("exclusions", &self.exclusions.after));
        inputs.extend(text("limits", self.limits));
        Ok(Assembled { inputs, setup_end, directives_end })
    }
}

/// A file, or those that a pattern stands for, sorted: a pattern that stands for none is a mistake of somebody's.
fn files(file: &str, source: &RecordingSource) -> Result<Vec<Input>, SourceError> {
    if !glob::has_wildcard(file) {
        return Ok(vec![Input::File(file.to_owned())]);
    }
    let found = source.list(file, "")?;
    if found.is_empty() {
        return Err(SourceError::new(format!("{file}: there is no such file")));
    }
    Ok(found.into_iter().map(Input::File).collect())
}

fn text(name: &str, text: &str) -> Option<Input> {
    let input = || Input::Text { name: name.to_owned(), text: text.to_owned() };
    (!text.is_empty()).then(input)
}

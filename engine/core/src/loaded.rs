//! The rules of a program, for people: what is loaded, and where it stands.

use std::sync::Arc;

use crate::{
    id::{Phase, RuleId},
    program::Program,
};

/// A rule that is loaded; with the links of its chain, if it has any.
#[derive(Clone, Copy, Debug)]
pub struct LoadedRule<'p> {
    /// Its id.
    pub id: RuleId,
    /// The phase in which it runs.
    pub phase: Phase,
    /// The file in which it stands.
    pub file: &'p str,
    /// The line on which it begins.
    pub line: u32,
    /// `msg` as written, with its macros.
    pub msg: &'p str,
    /// `tag`, in the order written.
    pub tags: &'p [Arc<str>],
    /// 0 (emergency) to 7 (debug).
    pub severity: Option<u8>,
    /// How many links follow it in its chain.
    pub links: u32,
    /// Whether it is to appear in the error log (`log`).
    pub log: bool,
}

impl Program {
    /// The rules, by phase and in the order of evaluation, without those that directives have removed.
    /// As many as [`Program::rule_count`] says.
    pub fn rules(&self) -> impl Iterator<Item = LoadedRule<'_>> {
        let starters = self.phases.iter().flatten();
        starters.filter_map(|index| self.rules.get(index.get())).map(|rule| LoadedRule {
            id: rule.id,
            phase: rule.phase,
            file: &rule.meta.file,
            line: rule.meta.line,
            msg: &rule.meta.msg_text,
            tags: &rule.meta.tags,
            severity: rule.meta.severity,
            links: rule.links,
            log: rule.log,
        })
    }
}

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
    /// `ver`, or nothing.
    pub ver: &'p str,
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
    ///
    /// ```
    /// use glacis_engine::{Input, Limits, NoFiles, Phase, Program, RuleId};
    ///
    /// let text = r#"SecAction "id:1,phase:5,pass,nolog"
    ///     SecRule ARGS "@rx union\s+select" "id:2,phase:1,deny,severity:CRITICAL,tag:sql"
    ///     SecRule ARGS "@rx script" "id:3,phase:1,deny"
    ///     SecRuleRemoveById 3"#;
    /// let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// // Phase 1 comes before phase 5, and rule 3 is gone.
    /// let ids: Vec<RuleId> = program.rules().map(|rule| rule.id).collect();
    /// assert_eq!(ids, [RuleId(2), RuleId(1)]);
    /// let first = program.rules().next().expect("rules are loaded");
    /// assert_eq!((first.phase, first.line), (Phase::RequestHeaders, 2));
    /// assert_eq!((first.severity, &*first.tags[0]), (Some(2), "sql"));
    /// ```
    pub fn rules(&self) -> impl Iterator<Item = LoadedRule<'_>> {
        let starters = self.phases.iter().flatten();
        starters.filter_map(|index| self.rules.get(index.get())).map(|rule| LoadedRule {
            id: rule.id,
            phase: rule.phase,
            file: &rule.meta.file,
            line: rule.meta.line,
            msg: &rule.meta.msg_text,
            tags: &rule.meta.tags,
            ver: &rule.meta.ver,
            severity: rule.meta.severity,
            links: rule.links,
            log: rule.log,
        })
    }
}

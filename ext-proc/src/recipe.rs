//! What a profile's rules are built from, to build them again with an exclusion that is tried.

use std::{sync::Arc, time::Instant};

use glacis_engine::{BuildErrors, Input, Limits, Parts, Program, RuleEngine, Transaction};
use glacis_explain::{Occasion, Rebuild, Request, inspect};
use glacis_rules::{ExclusionRules, FileSource};

/// What rules are built from. Files are named, and read when they are built.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    pub(crate) inputs: Vec<Input>,
    /// Where more would stand at the end of the key `setup`, and at the end of `directives`.
    pub(crate) setup_end: usize,
    pub(crate) directives_end: usize,
    pub(crate) limits: Limits,
}

impl Recipe {
    /// The inputs with more at the end of `setup` and of `directives`.
    fn with(&self, setup: Option<&str>, directives: Option<&str>) -> Vec<Input> {
        let more = |text: &str| Input::Text { name: "exclusion".to_owned(), text: text.to_owned() };
        let mut inputs = Vec::with_capacity(self.inputs.len() + 2);
        for position in 0..=self.inputs.len() {
            if position == self.setup_end {
                inputs.extend(setup.map(more));
            }
            if position == self.directives_end {
                inputs.extend(directives.map(more));
            }
            inputs.extend(self.inputs.get(position).cloned());
        }
        inputs
    }
}

/// A recipe that may be used until a moment.
#[derive(Debug)]
pub(crate) struct Timed<'r> {
    pub(crate) recipe: &'r Recipe,
    pub(crate) until: Instant,
    /// What is the same from one time to the next.
    pub(crate) parts: Parts,
}

impl Timed<'_> {
    /// Whether a request passes with these exclusions; `None` when there is no time to see.
    pub(crate) fn pass(
        &mut self,
        rules: &ExclusionRules,
        request: &Request,
        occasion: &Occasion,
    ) -> Option<bool> {
        let Ok(program) = self.build(Some(&rules.before), Some(&rules.after)).ok()? else {
            return Some(false);
        };
        let mut transaction = Transaction::new(Arc::new(program));
        let occasion = Occasion { rule_engine: Some(RuleEngine::On), ..*occasion };
        inspect(&mut transaction, request, &request.id.text(), &occasion);
        Some(transaction.verdict().refusal().is_none())
    }
}

/// The time is over.
#[derive(Debug)]
pub(crate) struct TimeOver;

impl Rebuild for Timed<'_> {
    type Fault = TimeOver;

    fn build(
        &mut self,
        before: Option<&str>,
        behind: Option<&str>,
    ) -> Result<Result<Program, BuildErrors>, TimeOver> {
        if Instant::now() > self.until {
            return Err(TimeOver);
        }
        let inputs = self.recipe.with(before, behind);
        let limits = self.recipe.limits.clone();
        Ok(Program::build_with(&inputs, &FileSource::new(), limits, &mut self.parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_stands_where_it_would_be_written() {
        let input = |name: &str| Input::File(name.to_owned());
        let recipe = Recipe {
            inputs: ["base", "setup", "rules", "directives", "limits"].map(input).to_vec(),
            setup_end: 2,
            directives_end: 4,
            limits: Limits::default(),
        };
        let names = |setup, directives| {
            let names = recipe.with(setup, directives).into_iter().map(|input| match input {
                Input::File(name) => name,
                Input::Text { text, .. } => text,
            });
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(None, None), "base setup rules directives limits");
        assert_eq!(names(Some("+"), None), "base setup + rules directives limits");
        assert_eq!(names(None, Some("+")), "base setup rules directives + limits");
    }
}

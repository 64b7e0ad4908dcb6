//! What a profile's rules are built from, to build them again with an exclusion that is tried.

use std::{sync::Arc, time::Instant};

use glacis_engine::{BuildErrors, Input, Parts, Program, RuleEngine, Transaction};
use glacis_explain::{Occasion, Rebuild, Request, inspect};
use glacis_host::Recipe;
use glacis_rules::{ExclusionRules, FileSource};

/// The inputs of a recipe with more at the end of `setup` and of `directives`.
fn inputs_with(recipe: &Recipe, setup: Option<&str>, directives: Option<&str>) -> Vec<Input> {
    let more = |text: &str| Input::Text { name: "exclusion".to_owned(), text: text.to_owned() };
    let mut inputs = Vec::with_capacity(recipe.inputs.len() + 2);
    for position in 0..=recipe.inputs.len() {
        if position == recipe.setup_end {
            inputs.extend(setup.map(more));
        }
        if position == recipe.directives_end {
            inputs.extend(directives.map(more));
        }
        inputs.extend(recipe.inputs.get(position).cloned());
    }
    inputs
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
        let inputs = inputs_with(self.recipe, before, behind);
        let limits = self.recipe.limits.clone();
        Ok(Program::build_with(&inputs, &FileSource::new(), limits, &mut self.parts))
    }
}

#[cfg(test)]
mod tests {
    use glacis_engine::Limits;

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
            let names =
                inputs_with(&recipe, setup, directives).into_iter().map(|input| match input {
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

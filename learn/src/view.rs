//! What rules see of a request: its path, arguments and cookies. A small ruleset is asked for them, so that encodings
//! and kinds of bodies mean the same here.

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{BuildErrors, Input, Limits, NoFiles, Program, RuleEngine, Transaction};
use glacis_explain::{Occasion, Request, inspect};
use glacis_rules::base;

const RULES: &str = "SecRuleEngine On\n\
    SecRequestBodyAccess On\n\
    SecRule REQUEST_FILENAME \"@unconditionalMatch\" \"id:1,phase:1,pass,log\"\n\
    SecRule ARGS|REQUEST_COOKIES \"@unconditionalMatch\" \"id:2,phase:2,pass,log\"";

/// Bytes of one value that are looked at.
const VALUE_BYTES_MAX: usize = 65_536;

/// Arguments and cookies of one request that are looked at.
const VALUES_MAX: usize = 1_024;

/// What rules see of a request.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The path, decoded once; empty where it is no text.
    pub(crate) path: String,
    /// Names such as `ARGS:q`, and values.
    pub(crate) values: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Shows requests as rules see them.
#[derive(Debug)]
pub(crate) struct Viewer {
    transaction: Transaction,
}

impl Viewer {
    pub(crate) fn new() -> Result<Self, BuildErrors> {
        let own = Input::Text { name: "view".to_owned(), text: RULES.to_owned() };
        let limits = Limits {
            match_value_bytes_max: VALUE_BYTES_MAX,
            matches_per_rule_max: VALUES_MAX,
            ..Limits::default()
        };
        // Before the base configuration, whose rules may end the phase.
        let program = Program::build(&[own, base()], &NoFiles, limits)?;
        Ok(Self { transaction: Transaction::new(Arc::new(program)) })
    }

    pub(crate) fn view(&mut self, request: &Request) -> View {
        let occasion =
            Occasion { rule_engine: Some(RuleEngine::On), ..Occasion::at(Duration::ZERO) };
        inspect(&mut self.transaction, request, "", &occasion);
        let mut view = View::default();
        for rule in self.transaction.matched_rules() {
            let values =
                rule.matches.iter().map(|found| (found.variable.clone(), found.value.clone()));
            match rule.id.0 {
                1 => {
                    let path = values.map(|(_, path)| String::from_utf8(path)).next();
                    view.path = path.and_then(Result::ok).unwrap_or_default();
                }
                2 => view.values.extend(values),
                _ => {}
            }
        }
        view
    }
}

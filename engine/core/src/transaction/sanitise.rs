//! What logs must not show, because a rule said so (`sanitiseArg` and its like).

use super::Transaction;
use crate::{expand::Expression, program::Program, variable::Variable};

/// Names kept; beyond them everything is hidden.
const NAMES_MAX: usize = 256;

/// Where values stood that are not to be seen.
#[derive(Debug, Default)]
pub(super) struct Sanitised {
    names: Vec<Vec<u8>>,
    everything: bool,
}

impl Sanitised {
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.everything = false;
    }

    fn add(&mut self, name: Vec<u8>) {
        if self.names.contains(&name) {
            return;
        }
        if self.names.len() >= NAMES_MAX {
            self.everything = true;
            return;
        }
        self.names.push(name);
    }
}

/// What a host must leave out of its logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden<'t> {
    /// Variables such as `ARGS:password` or `REQUEST_URI`, the collection in capitals. Texts of which
    /// such a value is part (a URI with the argument in it) must not show it either.
    pub variables: &'t [Vec<u8>],
    /// Everything: rules have named more variables than are kept.
    pub everything: bool,
}

impl Transaction {
    /// What rules have said must not be seen in logs (`sanitiseArg`, `sanitiseRequestHeader`,
    /// `sanitiseResponseHeader`, `sanitiseMatched`). The transaction itself hides nothing.
    #[must_use]
    pub fn hidden(&self) -> Hidden<'_> {
        Hidden { variables: &self.sanitised.names, everything: self.sanitised.everything }
    }

    pub(super) fn sanitise(&mut self, program: &Program, collection: Variable, name: &Expression) {
        let mut variable = collection.name().as_bytes().to_vec();
        variable.push(b':');
        self.expand(program, name, &mut variable);
        self.sanitised.add(variable);
    }

    pub(super) fn sanitise_matched(&mut self) {
        if let Some(var) = self.matches.vars().last() {
            self.sanitised.add(var.name.clone());
        }
    }
}

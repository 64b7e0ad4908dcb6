//! What the configuration says of requests, ready to be asked.

use crate::{
    config::Config,
    wire::{Answer, Asked},
};

/// Everything that is asked for each request. It is immutable, and exchanged as a whole.
#[derive(Debug, Default)]
pub struct Policy {}

impl Policy {
    /// That of a configuration.
    pub(crate) fn new(_: &Config) -> Self {
        Self {}
    }

    /// What becomes of a request.
    pub(crate) fn check(&self, _: &Asked) -> Answer {
        Answer::allow()
    }
}

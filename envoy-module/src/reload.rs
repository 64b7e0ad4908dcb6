//! Loads the rules of a filter, and loads them again when their files change.

use std::sync::Arc;

use glacis_host::RulesetError;
use glacis_rules::Date;
use glacis_service::now;

use crate::{
    config::Config,
    in_use::{InUse, Rules},
    log,
    rulesets::Rulesets,
    shared::Shared,
    stream::Level,
    watch::Stop,
};

/// Loads the rules of one configuration.
///
/// What is not good changes nothing: the rules in use stay.
pub(crate) struct Loader {
    shared: Arc<Shared>,
    text: Vec<u8>,
    /// What the last two looks have found. A file that is being written is not the same twice.
    last: Vec<u64>,
    /// What was tried last, good or not.
    tried: Vec<u64>,
    /// When that was: exclusions end with a day.
    tried_on: Date,
    /// The last error of the first rules, which are tried again and again.
    refused: Option<String>,
}

/// Ends the wait for the first rules, if it goes on when this is dropped: after an error, or a panic.
struct EndOfWait<'s>(&'s InUse);

impl Drop for EndOfWait<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

impl Loader {
    pub(crate) fn new(shared: Arc<Shared>, text: Vec<u8>) -> Self {
        let (last, tried, tried_on) = (Vec::new(), Vec::new(), Date::at(now()));
        Self { shared, text, last, tried, tried_on, refused: None }
    }

    /// Compiles the first rules, before the filter has any request.
    ///
    /// # Errors
    /// When something is wrong with them.
    pub(crate) fn load_first(&mut self, config: &Config) -> Result<(), RulesetError> {
        let rulesets = Rulesets::build(config, self.shared.collections.as_ref())?;
        self.put_to_use(rulesets);
        Ok(())
    }

    /// Loads rules where there are none yet, and loads them again where their files have changed.
    pub(crate) fn look(&mut self, stop: &Stop) {
        let shared = Arc::clone(&self.shared);
        match shared.rules.rules() {
            Rules::Ready(rulesets) => self.look_at_files(&rulesets, stop),
            Rules::Awaited | Rules::Failed => {
                let _end = EndOfWait(&shared.rules);
                if let Err(message) = self.read().map(|rulesets| self.put_to_use(rulesets))
                    && !stop.is_due()
                    && self.refused.as_ref() != Some(&message)
                {
                    let text = format!("glacis: there are no rules, requests get 503: {message}");
                    self.refused = Some(message);
                    log::line(Level::Error, &text);
                }
            }
        }
    }

    fn look_at_files(&mut self, rulesets: &Rulesets, stop: &Stop) {
        let (found, today) = (rulesets.as_now(), Date::at(now()));
        let holds = |day| -> Vec<bool> {
            rulesets.exclusions.iter().map(|loaded| loaded.exclusion.holds_on(day)).collect()
        };
        let is_another_day = holds(today) != holds(self.tried_on);
        let is_settled = core::mem::replace(&mut self.last, found.clone()) == found;
        if is_another_day || (is_settled && found != self.tried) {
            (self.tried, self.tried_on) = (found, today);
            self.reload(stop);
        }
    }

    fn reload(&mut self, stop: &Stop) {
        let read = self.read();
        // Nobody has a use for it, and Envoy may be about to end.
        if stop.is_due() {
            return;
        }
        match read {
            Ok(rulesets) => {
                self.put_to_use(rulesets);
                self.shared.reloaded(true);
            }
            Err(message) => {
                let text =
                    format!("glacis: the rules in use stay, the new ones are refused: {message}");
                self.shared.reloaded(false);
                log::line(Level::Error, &text);
            }
        }
    }

    fn read(&self) -> Result<Rulesets, String> {
        let config = Config::read(&self.text)?;
        let rulesets = Rulesets::build(&config, self.shared.collections.as_ref());
        rulesets.map_err(|error| error.to_string())
    }

    fn put_to_use(&mut self, rulesets: Rulesets) {
        rulesets.log();
        self.shared.show(rulesets.infos());
        self.tried = rulesets.as_read();
        self.last.clone_from(&self.tried);
        self.shared.rules.replace(rulesets);
    }
}

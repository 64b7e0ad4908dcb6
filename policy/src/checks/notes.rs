//! What a request leaves for access logs, later filters and the upstream.

use crate::bots::Bots;
use crate::facts::Facts;
use crate::policy::Policy;

/// A text that is to be found behind the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its name: `glacis.country` is filter state `wasm.glacis.country`. `None` if it is no filter state.
    pub state: Option<&'static str>,
    /// The header field of the request that gets it, in place of one that the client has made up.
    pub header: Option<&'static str>,
    /// The text.
    pub text: String,
}

/// The verdict.
const VERDICT: &str = "glacis.wasm";
/// The tags that lists and signs of bots give to the request.
const TAGS: &str = "glacis.tags";
const COUNTRY: &str = "glacis.country";
const ASN: &str = "glacis.asn";
const BOT_SCORE: &str = "glacis.bot_score";

impl Note {
    /// The verdict in words.
    pub fn verdict(text: &str) -> Self {
        Self { state: Some(VERDICT), header: None, text: text.to_owned() }
    }
}

/// The notes of a request with this verdict.
pub(super) fn of(policy: &Policy, facts: &Facts<'_>, verdict: &str) -> Vec<Note> {
    let mut notes = vec![Note::verdict(verdict)];
    if !facts.tags.is_empty() {
        notes.push(Note { state: Some(TAGS), header: None, text: facts.tags.join(",") });
    }
    if let Some(geo) = policy.geo() {
        let header = geo.header.then_some("x-glacis-country");
        notes.push(Note { state: Some(COUNTRY), header, text: facts.country.as_str().to_owned() });
    }
    if let Some(asn) = policy.asn() {
        let header = asn.header.then_some("x-glacis-asn");
        notes.push(Note { state: Some(ASN), header, text: facts.asn.to_string() });
    }
    // Most requests have 0, and filter state costs as much as a check.
    let header = policy.bots().map(Bots::header);
    if header.is_some_and(|header| header || facts.bot_score > 0) {
        let header = (header == Some(true)).then_some("x-glacis-bot-score");
        notes.push(Note { state: Some(BOT_SCORE), header, text: facts.bot_score.to_string() });
    }
    notes
}

//! The first verdict, in the configuration.

use super::document::{Object, Problems};
use super::limit::read_applies;
use crate::json::Json;
use crate::rate_limit::Applies;

/// What a first verdict is given by. The rules are read once all else is right: see
/// [`crate::first_verdict`].
#[derive(Debug)]
pub(crate) struct FirstVerdict {
    #[cfg_attr(not(feature = "engine"), expect(dead_code, reason = "only the engine reads it"))]
    pub(crate) rules: RuleText,
    pub(crate) applies: Applies,
}

/// Rules as they stand in the configuration.
#[cfg_attr(not(feature = "engine"), expect(dead_code, reason = "only the engine reads it"))]
#[derive(Debug)]
pub(crate) enum RuleText {
    /// What `glacis bundle` prints.
    Bundle(String),
    Seclang(String),
}

/// The first verdict of the configuration, if there is one.
pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> Option<FirstVerdict> {
    let json = object.field("first_verdict")?;
    const FIELDS: &[&str] = &["rules", "seclang", "match"];
    let own = Object::new("first_verdict", json, FIELDS, problems)?;
    let rules = match (own.field("rules"), own.field("seclang")) {
        (Some(Json::Text(text)), None) => Some(RuleText::Bundle(text.clone())),
        (None, Some(Json::Text(text))) => Some(RuleText::Seclang(text.clone())),
        (Some(other), None) => {
            problems.wrong("first_verdict.rules", other, "what `glacis bundle` prints")
        }
        (None, Some(other)) => problems.wrong("first_verdict.seclang", other, "rules"),
        _ => problems.add("first_verdict", format_args!("write either rules or seclang")),
    };
    let applies = read_applies(&own, problems);
    Some(FirstVerdict { rules: rules?, applies: applies? })
}

//! The first verdict, in the configuration.

use super::document::{Object, Problems};
use super::limit::read_applies;
use crate::json::Json;
use crate::rate_limit::Applies;

/// What a first verdict is given by. A host with an engine reads the rules once all else is right.
#[derive(Debug)]
pub struct FirstVerdict {
    /// The rules.
    pub rules: RuleText,
    /// Requests that get first verdicts.
    pub applies: Applies,
}

/// Rules as they stand in the configuration.
#[derive(Debug)]
pub enum RuleText {
    /// What `glacis bundle` prints.
    Bundle(String),
    /// Text in SecLang.
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

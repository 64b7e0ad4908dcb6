//! The rules of a profile in one piece, for the wasm-filter's first verdict: what the profile has, and nothing
//! that would have to be repeated.

use core::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_engine::{Input, RuleEngine};
use glacis_host::{Recipe, recipe, second_opinion};
use glacis_inspector::RuleBundle;
use glacis_rules::{Exclusion, RecordingSource, exclusion_rules};

use crate::{
    config::{Config, Evaluation, ExpiredExclusions, Response},
    ruleset::{RulesetError, RulesetErrorKind},
};

/// A profile's rules, packed.
#[derive(Debug)]
pub struct ProfileBundle {
    /// The line for `first_verdict.rules`, in base64.
    pub line: String,
    /// Rules in it.
    pub rules: usize,
    /// What somebody who uses it has to know.
    pub remarks: Vec<Remark>,
}

/// What a bundle leaves to ext-proc, or a profile does that a first verdict takes no part in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// An exclusion that ends is left out: after its last day the filter would be less strict than ext-proc.
    Expires(String),
    /// The profile inspects responses, which those of clean requests escape.
    Responses,
    /// The profile answers before it evaluates; clean requests are then not evaluated at all.
    OutOfBand,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expires(subject) => write!(
                f,
                "the exclusion of {subject} has a last day and is left out: what it excuses goes to ext-proc"
            ),
            Self::Responses => f.write_str(
                "this profile inspects responses; those of requests that are called clean are not inspected",
            ),
            Self::OutOfBand => f.write_str(
                "this profile evaluates out of band; requests that are called clean are not evaluated at all",
            ),
        }
    }
}

/// Packs the rules of the profile `name`.
///
/// # Errors
/// When there is no such profile, when its rules do not run or are refused, and when they are larger than a
/// bundle may be.
pub fn bundle(config: &Config, name: &str) -> Result<ProfileBundle, RulesetError> {
    if !config.profile_names().any(|known| known == name) {
        return Err(RulesetError::no_profile(name));
    }
    let config = config.of_profile(name);
    let refuse = |kind| RulesetError { profile: name.to_owned(), kind };
    let (exclusions, mut remarks) = lasting(&config);
    let rules = exclusion_rules(&exclusions)
        .map_err(|error| refuse(RulesetErrorKind::Exclusions(error)))?;
    let source = RecordingSource::new();
    let opinion = second_opinion(&config.keys(), &source)?;
    let recipe = recipe(&config.keys(), &rules, opinion.as_ref(), &source);
    let Recipe { mut inputs, limits, .. } =
        recipe.map_err(|error| refuse(RulesetErrorKind::Crs(error)))?;
    inputs.extend(config.mode.map(|mode| mode_directive(mode.into())));
    let built = RuleBundle::gather_with(&inputs, &source, limits);
    let (bundle, program) = built.map_err(|errors| refuse(RulesetErrorKind::Rules(errors)))?;
    if program.rule_engine() == RuleEngine::Off {
        return Err(refuse(RulesetErrorKind::Bundle("no rules run in it".to_owned())));
    }
    let packed = bundle.with_trusted_hops(config.trusted_hops).pack_like(&program);
    let packed = packed.map_err(|error| refuse(RulesetErrorKind::Bundle(error.to_string())))?;
    if config.response != Response::Off && program.inspects_response() {
        remarks.push(Remark::Responses);
    }
    if config.evaluation == Evaluation::OutOfBand {
        remarks.push(Remark::OutOfBand);
    }
    Ok(ProfileBundle { line: STANDARD.encode(packed), rules: program.rule_count(), remarks })
}

/// The exclusions that will never end, and what is to be said of the others.
fn lasting(config: &Config) -> (Vec<Exclusion>, Vec<Remark>) {
    let for_ever = config.expired_exclusions == ExpiredExclusions::Apply;
    let all = config.exclusions.iter().map(Exclusion::from);
    let (lasting, ending): (Vec<_>, Vec<_>) =
        all.partition(|exclusion| for_ever || exclusion.expires.is_none());
    let remarks = ending.iter().map(|exclusion| Remark::Expires(exclusion.subject()));
    (lasting, remarks.collect())
}

/// The mode in which an exchange begins, for a host that knows of no profiles.
fn mode_directive(mode: RuleEngine) -> Input {
    let word = match mode {
        RuleEngine::On => "On",
        RuleEngine::DetectionOnly => "DetectionOnly",
        RuleEngine::Off => "Off",
    };
    Input::Text { name: "mode".to_owned(), text: format!("SecRuleEngine {word}\n") }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use glacis_inspector::{
        FirstVerdict, Header, Inspector, RequestHead, Settings, parse_endpoint,
    };
    use glacis_service::config::parse;

    use super::*;
    use crate::ruleset::{Host, Rulesets};

    const CONFIG: &str = r#"
profile: site
mode: on
base: false
directives: |
  SecRule ARGS|REQUEST_HEADERS "@contains attack" "id:1,phase:1,deny,msg:'a'"
  SecRule REMOTE_ADDR "@streq 198.51.100.9" "id:2,phase:1,deny,msg:'b'"
  SecRule REQUEST_URI "@contains debug" "id:3,phase:1,deny,msg:'c'"
exclusions:
- {rules: [1], targets: ["ARGS:comment"], owner: o, reason: r, expires: never}
- {rules: [3], path: /tools/, owner: o, reason: r, expires: 2999-12-31}
profiles:
  strict:
    trusted_hops: 1
    limits: {headers_max: 3}
  lax:
    mode: detection
    expired_exclusions: apply
  none:
    mode: off
  seen:
    response: full
    evaluation: out_of_band
    directives: SecRule RESPONSE_STATUS "@streq 500" "id:4,phase:3,deny"
"#;

    /// Query, further headers, and what each profile calls it first.
    type Row = (&'static str, &'static [(&'static str, &'static str)], [&'static str; 3]);

    const ROWS: &[Row] = &[
        ("/?q=shoes", &[], ["clean"; 3]),
        ("/?q=attack", &[], ["suspect"; 3]),
        ("/?comment=attack", &[], ["clean"; 3]),
        ("/?q=1", &[("x-a", "attack")], ["suspect"; 3]),
        ("/?q=1", &[("a", "1"), ("b", "2"), ("c", "3")], ["clean", "suspect", "clean"]),
        ("/", &[("x-forwarded-for", "198.51.100.9")], ["clean", "suspect", "clean"]),
        ("/tools/debug", &[], ["suspect", "suspect", "clean"]),
        ("/debug", &[], ["suspect"; 3]),
    ];

    /// What is called clean is quiet in the profile itself; what is not, is not, but for an exclusion that ends.
    #[test]
    fn bundles_say_what_their_profiles_say() {
        let config = parse::<Config>(CONFIG).unwrap();
        let host = Host::new(&config).unwrap();
        let now = Duration::from_secs(1_790_000_000);
        let rulesets = Rulesets::build(&config, &host, &RecordingSource::new(), now).unwrap();
        for (i, name) in ["site", "strict", "lax"].into_iter().enumerate() {
            let packed = STANDARD.decode(bundle(&config, name).unwrap().line).unwrap();
            let unpacked = RuleBundle::unpack(&packed).unwrap();
            let hops = unpacked.trusted_hops().unwrap();
            let mut first = FirstVerdict::new(Arc::new(unpacked.build().unwrap()), hops);
            let profile = rulesets.profiles.get(name).unwrap();
            let settings = Settings::clone(&profile.settings);
            let mut whole = Inspector::new(Arc::clone(&profile.program), Arc::new(settings));
            for (path, more, expected) in ROWS {
                let text = [(":method", "GET"), (":path", path), (":authority", "a.example")];
                let fields = text.iter().chain(*more);
                let headers: Vec<_> = fields
                    .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
                    .collect();
                let head = RequestHead {
                    headers: &headers,
                    protocol: Some("HTTP/2"),
                    end_of_stream: true,
                    id: "1",
                    time: now,
                    source: parse_endpoint("192.0.2.7:4711"),
                    destination: None,
                    user: None,
                    lot: 0,
                    audit_lot: 0,
                };
                let said = first.judge(&head).name();
                assert_eq!(said, expected[i], "{name}: {path} {more:?}");
                whole.request_headers(&head);
                let receipt = whole.finish(now).receipt;
                let quiet = receipt.verdict == "allow" && receipt.rules.is_empty();
                let left_out = *path == "/tools/debug" && name != "lax";
                assert_eq!(quiet, said == "clean" || left_out, "{name}: {path}: {receipt:?}");
            }
        }
    }

    #[test]
    fn what_has_to_be_known() {
        let config = parse::<Config>(CONFIG).unwrap();
        let remarks = |name: &str| bundle(&config, name).unwrap().remarks;
        let ends = Remark::Expires("3".to_owned());
        assert_eq!(remarks("site"), std::slice::from_ref(&ends));
        assert_eq!(remarks("lax"), []);
        assert_eq!(remarks("seen"), [ends, Remark::Responses, Remark::OutOfBand]);
        let refused = |name: &str| bundle(&config, name).unwrap_err().to_string();
        assert_eq!(refused("none"), "profile none: no rules run in it");
        assert_eq!(refused("other"), "profile other: there is no profile of this name");
    }
}

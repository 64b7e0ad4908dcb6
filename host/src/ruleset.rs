//! From the keys of a profile to what an inspector runs: the recipe of its rules, and its settings.

use core::fmt;
use std::sync::Arc;

use glacis_engine::{
    AuditParts, BuildErrors, CollectionStore, Input, Limits, RuleEngine, SourceError,
};
use glacis_inspector::{
    AuditFormat, BlockPage, Redaction, Sample, SecondOpinion, Settings, canary::CRS_CANARY,
};
use glacis_rules::{
    Assembled, Assembly, CrsSettings, Date, Exclusion, ExclusionError, ExclusionRules,
    RecordingSource,
};

use crate::{Evaluation, ExpiredExclusions, OversizedBody, ProfileKeys};

/// What rules are built from. Files are named, and read when they are built.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Files and texts, in their order.
    pub inputs: Vec<Input>,
    /// Where more would stand at the end of the key `setup`.
    pub setup_end: usize,
    /// Where more would stand at the end of `directives`.
    pub directives_end: usize,
    /// The limits where the rules set none.
    pub limits: Limits,
}

/// An exclusion, and what became of it.
#[derive(Clone, Debug)]
pub struct LoadedExclusion {
    /// The name of the profile.
    pub profile: String,
    /// What it says.
    pub exclusion: Exclusion,
    /// Whether its last day is over.
    pub expired: bool,
    /// Whether it is in force.
    pub applied: bool,
}

impl fmt::Display for LoadedExclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, exclusion, expired, applied } = self;
        let state = match (expired, applied) {
            (false, _) => "holds",
            (true, true) => "has expired and is still applied",
            (true, false) => "has expired and is no longer applied",
        };
        let (subject, owner, reason) = (exclusion.subject(), &exclusion.owner, &exclusion.reason);
        write!(
            f,
            "profile {profile}: the exclusion of {subject} {state}; owner: {owner}, reason: {reason}"
        )
    }
}

/// A profile whose rules were refused.
#[derive(Debug)]
pub struct RulesetError {
    /// Its name.
    pub profile: String,
    /// Why.
    pub kind: RulesetErrorKind,
}

/// Why the rules of a profile were refused.
#[derive(Debug)]
#[expect(missing_docs, reason = "each carries its own message")]
pub enum RulesetErrorKind {
    Crs(SourceError),
    Exclusions(ExclusionError),
    Rules(BuildErrors),
    Bundle(String),
    Weights(String),
    NoProfile,
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "profile {}: ", self.profile)?;
        match &self.kind {
            RulesetErrorKind::Crs(error) => write!(f, "crs: {error}"),
            RulesetErrorKind::Exclusions(error) => error.fmt(f),
            RulesetErrorKind::Rules(errors) => errors.fmt(f),
            RulesetErrorKind::Bundle(problem) => f.write_str(problem),
            RulesetErrorKind::Weights(problem) => {
                write!(f, "weights of the second opinion: {problem}")
            }
            RulesetErrorKind::NoProfile => f.write_str("there is no profile of this name"),
        }
    }
}

impl core::error::Error for RulesetError {}

impl RulesetError {
    /// The error for a name that no profile has.
    #[must_use]
    pub fn no_profile(name: &str) -> Self {
        Self { profile: name.to_owned(), kind: RulesetErrorKind::NoProfile }
    }
}

/// The exclusions of a profile on a day, those that are over among them.
#[must_use]
pub fn load_exclusions(keys: &ProfileKeys, today: Date) -> Vec<LoadedExclusion> {
    let late = keys.expired_exclusions == ExpiredExclusions::Apply;
    let loaded = keys.exclusions.iter().map(Exclusion::from).map(|exclusion| {
        let expired = !exclusion.holds_on(today);
        let profile = keys.profile.clone();
        LoadedExclusion { profile, exclusion, expired, applied: !expired || late }
    });
    loaded.collect()
}

/// What the program of a profile is built from.
///
/// # Errors
/// When a folder or a file that it names is not there.
pub fn recipe(
    keys: &ProfileKeys,
    exclusions: &ExclusionRules,
    opinion: Option<&SecondOpinion>,
    source: &RecordingSource,
) -> Result<Recipe, SourceError> {
    let assembly = Assembly {
        base: keys.base,
        crs: keys.crs.as_deref(),
        defaults: keys.defaults.into(),
        setup: &keys.setup,
        settings: CrsSettings {
            paranoia: keys.paranoia,
            detection_paranoia: keys.detection_paranoia.or_else(|| {
                // Rules above the blocking level are evidence only.
                opinion
                    .map(|opinion| opinion.weights.paranoia_level.max(keys.paranoia.unwrap_or(1)))
            }),
            inbound_threshold: keys.inbound_threshold,
            outbound_threshold: keys.outbound_threshold,
        },
        graphql: &keys.graphql.directives(),
        openapi: &keys.openapi.directives(),
        exclusions,
        files: &keys.rules,
        directives: &keys.directives,
        limits: &limit_directives(keys),
    };
    let Assembled { inputs, setup_end, directives_end } = assembly.assemble(source)?;
    Ok(Recipe { inputs, setup_end, directives_end, limits: Limits::from(&keys.limits) })
}

/// The typed limit of request bodies, what becomes of longer ones, and the types of messages, as SecLang.
fn limit_directives(keys: &ProfileKeys) -> String {
    let mut directives = String::new();
    if let Some(bytes) = keys.request_body_bytes_max {
        directives += &format!("SecRequestBodyLimit {bytes}\n");
    }
    if keys.oversized_body != OversizedBody::Reject {
        directives += "SecRequestBodyLimitAction ProcessPartial\n";
    }
    if let Some(path) = &keys.grpc_descriptors {
        directives += &format!("SecGrpcDescriptorSet \"{}\"\n", path.display());
    }
    directives
}

/// The canary of a profile: its own, or that of CRS.
#[must_use]
pub fn canary_of(keys: &ProfileKeys) -> Option<String> {
    keys.canary.clone().or_else(|| keys.crs.is_some().then(|| CRS_CANARY.to_owned()))
}

/// What a host records of exchanges, the same for all of its profiles.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// What is masked.
    pub redaction: Redaction,
    /// The shape of audit records.
    pub format: AuditFormat,
    /// Of which requests that pass there is a record.
    pub sample: Sample,
    /// The parts of a record that the host itself keeps of refused requests.
    pub refused_parts: Option<AuditParts>,
}

/// How the rules of a profile are applied.
#[must_use]
pub fn settings(
    keys: &ProfileKeys,
    records: &Records,
    second_opinion: Option<SecondOpinion>,
    collections: Option<Arc<dyn CollectionStore>>,
) -> Settings {
    let other = keys.block.body.clone().map(|body| {
        let content_type = keys.block.content_type.as_deref();
        (content_type.unwrap_or("text/plain; charset=utf-8").to_owned(), body)
    });
    Settings {
        profile: keys.profile.clone(),
        rule_engine: keys.mode.map(RuleEngine::from),
        sample: Sample::percent(keys.sample_percent).unwrap_or_default(),
        response: keys.response.into(),
        truncated_body: keys.oversized_body.into(),
        body_overflow: keys.body_overflow.into(),
        late: keys.late.into(),
        grpc: keys.grpc.into(),
        socket: keys.websocket.settings(),
        event_stream: keys.event_stream.settings(),
        trusted_hops: keys.trusted_hops,
        redaction: records.redaction.clone(),
        audit_format: records.format,
        refused_parts: records.refused_parts,
        audit_sample: records.sample,
        block_status: keys.block.status,
        block_page: BlockPage { html: keys.block.html.clone(), other },
        lookup: None,
        collections,
        second_opinion,
        out_of_band: keys.evaluation == Evaluation::OutOfBand,
    }
}

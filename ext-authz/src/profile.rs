//! Rules of the engine for the heads of requests, and for bodies where Envoy sends them.

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{Limits, Parts, Program, RuleEngine};
use glacis_inspector::{
    Decision, End, Header, Pool, Redaction, Reply, RequestHead, Settings, find, has_body,
};
use glacis_rules::{Assembly, CrsSettings, ExclusionRules, RecordingSource};

use crate::{config::ProfileConfig, wire::Asked};

/// Inspectors that each profile keeps for reuse.
const POOLED_MAX: usize = 64;

/// Rules, compiled, with how they are applied.
#[derive(Debug)]
pub(crate) struct Profile {
    program: Arc<Program>,
    settings: Arc<Settings>,
    pool: Pool,
}

/// What rules have found.
#[derive(Debug)]
pub(crate) struct Found {
    /// What the client is answered, if they refuse.
    pub(crate) reply: Option<Box<Reply>>,
    /// The ids of rules that matched and log.
    pub(crate) rules: String,
    /// The rule that would refuse, where rules may not.
    pub(crate) would_deny: Option<String>,
    pub(crate) inspected: &'static str,
    pub(crate) uninspected: Option<&'static str>,
}

/// What an evaluation needs besides the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion<'a> {
    pub(crate) id: &'a str,
    /// Time since 1970.
    pub(crate) now: Duration,
}

impl Profile {
    /// That of a configuration; the error says what is wrong in its rules.
    pub(crate) fn build(
        name: &str,
        config: &ProfileConfig,
        trusted_hops: usize,
        source: &RecordingSource,
        parts: &mut Parts,
    ) -> Result<Self, String> {
        let assembly = Assembly {
            base: config.base,
            crs: config.crs.as_deref(),
            defaults: config.defaults.into(),
            setup: &config.setup,
            settings: CrsSettings {
                paranoia: config.paranoia,
                inbound_threshold: config.inbound_threshold,
                ..CrsSettings::default()
            },
            graphql: "",
            openapi: "",
            exclusions: &ExclusionRules::default(),
            files: &config.rules,
            directives: &config.directives,
            limits: "",
        };
        let inputs = assembly.assemble(source).map_err(|error| error.to_string())?.inputs;
        let program = Program::build_with(&inputs, source, Limits::default(), parts);
        let program = Arc::new(program.map_err(|errors| errors.to_string())?);
        let settings = Settings {
            profile: name.to_owned(),
            rule_engine: config.mode.map(Into::into),
            trusted_hops,
            truncated_body: config.partial_body.into(),
            redaction: Redaction::default(),
            ..Settings::default()
        };
        let settings = Arc::new(settings);
        let pool = Pool::new(Arc::clone(&program), Arc::clone(&settings), POOLED_MAX);
        Ok(Self { program, settings, pool })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.settings.profile
    }

    /// Whether its rules may refuse requests, as far as no rule changes that.
    pub(crate) fn may_block(&self) -> bool {
        self.settings.rule_engine.unwrap_or_else(|| self.program.rule_engine()) == RuleEngine::On
    }

    /// How many rules there are, and what is to be said of them.
    pub(crate) fn program(&self) -> &Program {
        &self.program
    }

    /// Evaluates a request.
    pub(crate) fn evaluate(
        &self,
        asked: &Asked,
        headers: &[Header<'_>],
        occasion: Occasion<'_>,
    ) -> Found {
        let mut inspector = self.pool.take();
        let body = Body::of(asked, headers);
        let head = RequestHead {
            headers,
            protocol: asked.protocol.as_deref(),
            end_of_stream: body == Body::None,
            id: occasion.id,
            time: occasion.now,
            source: asked.source,
            destination: asked.destination,
            user: None,
            lot: 0,
            audit_lot: 0,
        };
        let mut decision = inspector.request_headers(&head);
        if decision == Decision::NeedBody {
            decision = match body {
                Body::Whole if has_body(&head) => inspector.request_body(&asked.body, End::Last),
                Body::Beginning if has_body(&head) => {
                    inspector.request_body(&asked.body, End::Truncated)
                }
                _ => inspector.request_body_absent(),
            };
        }
        let reply = if let Decision::Reply(reply) = decision { Some(reply) } else { None };
        let receipt = inspector.finish(occasion.now).receipt;
        let rules: Vec<String> = receipt.rules.iter().map(ToString::to_string).collect();
        let found = Found {
            reply,
            rules: rules.join(","),
            would_deny: receipt.would_deny.map(|would_deny| would_deny.rule.to_string()),
            inspected: receipt.inspected,
            uninspected: receipt.uninspected.map(glacis_inspector::Uninspected::name),
        };
        self.pool.keep(inspector);
        found
    }
}

/// What is there of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// There is none.
    None,
    Whole,
    Beginning,
    /// There is one, or may be, and Envoy does not send it.
    NotSent,
}

impl Body {
    /// Envoy does not say whether a request has ended with its headers. Where it sends bodies it says how much of
    /// one this is; otherwise a body is expected where one is announced, and of methods that are there for it.
    fn of(asked: &Asked, headers: &[Header<'_>]) -> Self {
        let announced = find(headers, b"content-length").is_some_and(|length| length != b"0");
        let chunked = find(headers, b"transfer-encoding").is_some();
        match asked.is_partial() {
            Some(true) => return Self::Beginning,
            Some(false) if !asked.body.is_empty() => return Self::Whole,
            Some(false) if !announced => return Self::None,
            _ => {}
        }
        if !asked.body.is_empty() {
            // It is not said whether it is all.
            return Self::Beginning;
        }
        let unannounced = find(headers, b"content-length").is_none();
        let for_bodies = find(headers, b":method")
            .is_some_and(|method| matches!(method, b"POST" | b"PUT" | b"PATCH"));
        if announced || chunked || (unannounced && for_bodies) { Self::NotSent } else { Self::None }
    }
}

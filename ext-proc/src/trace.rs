//! Spans of OpenTelemetry: one for each exchange that Envoy, or the client before it, traces, and under it
//! one for each message that was evaluated.
//!
//! The context comes as W3C Trace Context (<https://www.w3.org/TR/trace-context/>), version 00: with the
//! metadata of the stream, where Envoy says its own span, or else with the request's headers.

use core::time::Duration;
use std::time::Instant;

use glacis_engine::RuleId;
use glacis_inspector::{Header, Inspector, Outcome};
use glacis_service::{
    Losses,
    chance::{lot, random},
    now,
    otlp::{CollectorError, Exporter, Span, Value},
};
use tonic::metadata::MetadataMap;

use crate::{PROGRAM, config::Config};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// Bytes of a `tracestate` that are passed on: the recommendation wants at least so many.
const TRACESTATE_BYTES_MAX: usize = 512;

/// Spans under that of an exchange, and ids of rules in each: a body may come in any number of pieces.
const PHASES_MAX: usize = 32;
const RULES_MAX: usize = 64;

/// What OpenTelemetry calls the work of a server, and work within it.
const KIND_SERVER: i32 = 2;
const KIND_INTERNAL: i32 = 1;

/// Flags of a span: sampled; and that it is known whether the parent is remote, and that it is.
const SAMPLED: u32 = 1;
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

/// Makes spans, if it is on.
#[derive(Clone, Debug, Default)]
pub struct Tracer {
    on: Option<On>,
}

#[derive(Clone, Debug)]
struct On {
    exporter: Exporter<Span>,
    /// Of a hundred exchanges without a context, so many are traced.
    sample_percent: u8,
}

impl Tracer {
    /// As `config` says; what is lost is counted in `losses`. To be called within a runtime.
    ///
    /// # Errors
    /// When the collector makes no sense.
    pub fn start(config: &Config, losses: &Losses) -> Result<Self, CollectorError> {
        let traces = &config.traces;
        let version = env!("CARGO_PKG_VERSION");
        let exporter = || Exporter::start(&config.otlp, PROGRAM, version, losses);
        let exporter = traces.enabled.then(exporter).transpose()?;
        let sample_percent = traces.sample_percent;
        Ok(Self { on: exporter.map(|exporter| On { exporter, sample_percent }) })
    }

    /// Waits until what was handed over is sent, but no longer than `limit`.
    pub async fn flush(&self, limit: Duration) {
        if let Some(on) = &self.on {
            on.exporter.flush(limit).await;
        }
    }

    /// The context that comes with a stream.
    pub(crate) fn of_stream(&self, metadata: &MetadataMap) -> Option<Context> {
        self.on.as_ref()?;
        let text = |key| metadata.get(key)?.to_str().ok();
        Context::parse(text(TRACEPARENT)?, text(TRACESTATE))
    }

    /// Begins the span of an exchange: as its context says, or else by chance. `stream` goes before the
    /// headers: it is Envoy's own word.
    pub(crate) fn begin(
        &self,
        stream: Option<Context>,
        headers: &[Header<'_>],
    ) -> Option<Exchange> {
        let on = self.on.as_ref()?;
        let context = stream.or_else(|| Context::of_headers(headers));
        let sampled =
            context.as_ref().map_or_else(|| lot() < on.sample_percent, |context| context.sampled);
        let ids = SpanContext {
            trace: context.as_ref().map_or_else(random_trace, |context| context.trace),
            span: random().to_be_bytes(),
        };
        sampled.then(|| Exchange {
            exporter: on.exporter.clone(),
            context,
            ids,
            began: Moment::now(),
            phases: Vec::new(),
            rules_seen: 0,
        })
    }
}

fn random_trace() -> [u8; 16] {
    (u128::from(random()) << 64 | u128::from(random())).to_be_bytes()
}

/// The names of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanContext {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
}

/// Of which trace a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    trace: [u8; 16],
    parent: [u8; 8],
    sampled: bool,
    state: String,
}

impl Context {
    fn of_headers(headers: &[Header<'_>]) -> Option<Self> {
        let mut parents = headers.iter().filter(|header| is(header, TRACEPARENT));
        let parent = core::str::from_utf8(parents.next()?.value).ok()?;
        // Two of them are none.
        if parents.next().is_some() {
            return None;
        }
        let state = headers.iter().find(|header| is(header, TRACESTATE));
        let state = state.and_then(|header| core::str::from_utf8(header.value).ok());
        Self::parse(parent, state)
    }

    /// `version "-" trace-id "-" parent-id "-" flags`, in lower case. Of a version that is not known what is
    /// known is read, if nothing or a hyphen follows.
    fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.split('-');
        let [version] = hex::<1>(parts.next()?)?;
        let (trace, parent) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex::<1>(parts.next()?)?;
        let known = version != 0xff && (version != 0 || parts.next().is_none());
        let valid = known && trace != [0; 16] && parent != [0; 8];
        let state = state.filter(|state| {
            let shown = |byte: u8| (0x20..0x7f).contains(&byte);
            state.len() <= TRACESTATE_BYTES_MAX && state.bytes().all(shown)
        });
        let state = state.unwrap_or_default().to_owned();
        valid.then_some(Self { trace, parent, sampled: flags & 1 == 1, state })
    }
}

fn is(header: &Header<'_>, name: &str) -> bool {
    header.name.eq_ignore_ascii_case(name.as_bytes())
}

/// Bytes in hexadecimal digits, in lower case.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

/// A point in time, as spans say it and as it is measured.
#[derive(Clone, Copy, Debug)]
struct Moment {
    nanos: u64,
    instant: Instant,
}

impl Moment {
    fn now() -> Self {
        Self { nanos: nanos(now()), instant: Instant::now() }
    }

    /// Nanoseconds since 1970 at a later point.
    fn at(self, later: Instant) -> u64 {
        self.nanos.saturating_add(nanos(later.saturating_duration_since(self.instant)))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The span of an exchange that is traced, and those under it.
#[derive(Debug)]
pub(crate) struct Exchange {
    exporter: Exporter<Span>,
    context: Option<Context>,
    ids: SpanContext,
    began: Moment,
    phases: Vec<Span>,
    /// Rules that belong to earlier phases.
    rules_seen: usize,
}

impl Exchange {
    /// The span of the whole.
    pub(crate) const fn ids(&self) -> SpanContext {
        self.ids
    }

    /// A message was evaluated; `name` is its kind. Rules that matched by it are those that had not before.
    pub(crate) fn phase(&mut self, name: &str, began: Instant, inspector: Option<&Inspector>) {
        if self.phases.len() >= PHASES_MAX {
            return;
        }
        let matched = inspector.into_iter().flat_map(Inspector::matched_rules);
        let mut rules: Vec<RuleId> =
            matched.filter(|rule| rule.log).skip(self.rules_seen).map(|rule| rule.id).collect();
        self.rules_seen = self.rules_seen.saturating_add(rules.len());
        rules.truncate(RULES_MAX);
        let span = Span {
            trace_id: self.ids.trace.to_vec(),
            span_id: random().to_be_bytes().to_vec(),
            parent_span_id: self.ids.span.to_vec(),
            name: format!("glacis {name}"),
            kind: KIND_INTERNAL,
            start_time_unix_nano: self.began.at(began),
            end_time_unix_nano: self.began.at(Instant::now()),
            flags: SAMPLED | PARENT_KNOWN,
            ..Span::default()
        };
        self.phases.push(span.with("glacis.rules", ids(&rules)));
    }

    /// The exchange is over: its spans are handed over.
    pub(crate) fn finish(self, outcome: &Outcome<'_>) {
        let receipt = &outcome.receipt;
        let remote = if self.context.is_some() { PARENT_REMOTE } else { 0 };
        let context = self.context.as_ref();
        let mut span = Span {
            trace_id: self.ids.trace.to_vec(),
            span_id: self.ids.span.to_vec(),
            parent_span_id: context.map_or_else(Vec::new, |context| context.parent.to_vec()),
            trace_state: context.map_or_else(String::new, |context| context.state.clone()),
            name: "glacis inspect".to_owned(),
            kind: KIND_SERVER,
            start_time_unix_nano: self.began.nanos,
            end_time_unix_nano: self.began.at(Instant::now()),
            flags: SAMPLED | PARENT_KNOWN | remote,
            ..Span::default()
        };
        let mode = receipt.mode.name();
        for (key, value) in [
            ("glacis.profile", receipt.profile.into()),
            ("glacis.verdict", receipt.verdict.into()),
            ("glacis.mode", mode.into()),
            ("glacis.inspected", receipt.inspected.into()),
            ("glacis.request_id", receipt.request_id.into()),
            ("glacis.ruleset", receipt.ruleset.into()),
            ("glacis.score.inbound", Value::Int(receipt.scores.inbound)),
            ("glacis.score.outbound", Value::Int(receipt.scores.outbound)),
            ("glacis.rules", ids(&receipt.rules)),
        ] {
            span = span.with(key, value);
        }
        if let Some(reason) = receipt.uninspected {
            span = span.with("glacis.uninspected", reason.name().into());
        }
        self.exporter.send(span);
        for phase in self.phases {
            self.exporter.send(phase);
        }
    }
}

fn ids(rules: &[RuleId]) -> Value {
    Value::ints(rules.iter().map(|rule| i64::from(rule.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn contexts() {
        let trace = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
        let parent = 0xb7ad_6b71_6920_3331_u64.to_be_bytes();
        for (text, sampled) in [
            (PARENT, Some(true)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", Some(false)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03", Some(true)),
            ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", Some(true)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", None),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", None),
            ("00-0af7651916cd43dd8448eb211c80319ü-b7ad6b7169203331-01", None),
            ("", None),
        ] {
            let context = Context::parse(text, None);
            assert_eq!(context.as_ref().map(|context| context.sampled), sampled, "{text}");
            if let Some(context) = context {
                assert_eq!((context.trace, context.parent), (trace, parent), "{text}");
            }
        }
    }

    #[test]
    fn states() {
        let long = "a".repeat(513);
        for (state, expected) in [
            (None, ""),
            (Some("a=b,c=d"), "a=b,c=d"),
            (Some("a=\u{7}"), ""),
            (Some(long.as_str()), ""),
        ] {
            assert_eq!(Context::parse(PARENT, state).unwrap().state, expected);
        }
    }

    #[test]
    fn a_context_that_comes_twice_is_none() {
        let header = |name| Header { name, value: PARENT.as_bytes() };
        let one = [header(b"Traceparent")];
        let two = [header(b"traceparent"), header(b"traceparent")];
        assert!(Context::of_headers(&one).is_some());
        assert!(Context::of_headers(&two).is_none() && Context::of_headers(&[]).is_none());
    }
}

//! The callbacks of one request.

use crate::address;
use crate::answer::{Answer, Field, fields_on_allowed};
use crate::config::FailureMode;
use crate::counters::Unconfigured;
use crate::facts::{Facts, Request as _};
use crate::first_verdict;
use crate::host::{self, Head, Proxy};
use crate::plugin::Plugin;
use crate::policy::{Judgement, Reason, Verdict};
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::rc::Rc;

/// One request and its response.
#[derive(Debug)]
pub(crate) struct Http {
    /// What counts it instead if Envoy sends it to a plugin that has refused its configuration.
    plugin: Result<Rc<Plugin>, Unconfigured>,
    /// What the response of the upstream is to get; taken when it has got it.
    response_fields: Vec<Field>,
    /// What is counted while its body is awaited.
    pending: Option<Pending>,
}

/// A request whose body is awaited.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The client under which it is counted.
    client: u64,
    /// Bytes that have come.
    bytes: u64,
    /// MiB of them that are counted.
    mib: u32,
    /// It has gone beyond what its client may hold, in shadow mode.
    is_beyond: bool,
}

impl Pending {
    const fn of(client: u64) -> Self {
        Self { client, bytes: 0, mib: 0, is_beyond: false }
    }

    /// Takes further bytes. Says how many MiB more are to be counted.
    fn take(&mut self, bytes: usize) -> u32 {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        let whole = u32::try_from(self.bytes >> 20).unwrap_or(u32::MAX);
        whole.saturating_sub(self.mib)
    }
}

impl Http {
    pub(crate) fn new(plugin: Result<Rc<Plugin>, Unconfigured>) -> Self {
        Self { plugin, response_fields: Vec::new(), pending: None }
    }

    /// The request is pending no more, if it was: its body is there, its answer has begun, or it is over.
    fn end_pending(&mut self) {
        if let (Some(pending), Ok(plugin)) = (self.pending.take(), &self.plugin) {
            plugin.policy.end_pending(pending.client, pending.mib, host::now_ns(), &Proxy);
            plugin.counters.pending(-1);
        }
    }

    /// Counts what has come of the body. The answer if that is more than the client may hold.
    fn grow_pending(&mut self, bytes: usize) -> Option<Answer> {
        let (Some(pending), Ok(plugin)) = (&mut self.pending, &self.plugin) else { return None };
        let more = pending.take(bytes);
        if more == 0 {
            return None;
        }
        let policy = &plugin.policy;
        let beyond = policy.grow_pending(pending.client, more, host::now_ns(), &Proxy);
        // What is beyond is counted in shadow mode only.
        if beyond.is_none_or(Verdict::goes_on) {
            pending.mib = pending.mib.saturating_add(more);
        }
        let verdict = beyond?;
        // In shadow mode the body goes on: it is counted once.
        if std::mem::replace(&mut pending.is_beyond, true) {
            return None;
        }
        host::note_verdict(&policy.property(verdict, &[]));
        plugin.counters.body_cut();
        Answer::new(&verdict.into(), policy.rate_limits(), host::request_id)
    }

    fn judge(&self, plugin: &Plugin, end_of_stream: bool) -> Judgement {
        let trusted_hops = plugin.policy.trusted_hops();
        let many = plugin.policy.looks_at_many_fields();
        let head = if many { Head::whole() } else { Head::apart() };
        // Nobody asks for it without trusted proxies.
        let forwarded_for = if trusted_hops > 0 { head.header("x-forwarded-for") } else { None };
        let source = host::source_address();
        let client = address::client(source.as_deref(), forwarded_for.as_deref(), trusted_hops);
        let mut facts = Facts::new(&head, client);
        facts.awaits_body = !end_of_stream;
        // Nobody else has them while a request is judged, so there is always a guard.
        let feeds = plugin.feeds.try_borrow();
        let feeds = feeds.as_deref().map(Vec::as_slice).unwrap_or_default();
        let now_ns = host::now_ns();
        let judgement = plugin.policy.judge(&mut facts, feeds, now_ns, &Proxy);
        let verdict = plugin.policy.property(judgement.verdict, feeds);
        host::note_verdict(&verdict);
        plugin.counters.count_verdict(&verdict);
        plugin.wish(&judgement, now_ns);
        plugin.counters.count(&judgement);
        if !facts.tags.is_empty() {
            host::note_tags(&facts.tags.join(","));
        }
        if let Some(geo) = plugin.policy.geo() {
            host::note_country(facts.country.as_str(), geo.header);
        }
        if let Some(asn) = plugin.policy.asn() {
            host::note_asn(facts.asn, asn.header);
        }
        if let Some(bots) = plugin.policy.bots() {
            host::note_bot_score(facts.bot_score, bots.header());
        }
        // Behind all that changes header fields, so that it sees what ext_proc will see.
        if let Some(first) = &plugin.first_verdict
            && judgement.verdict.goes_on()
        {
            let changed = plugin.policy.changes_head().then(Head::whole);
            let request = first_verdict::Request {
                fields: changed.as_ref().unwrap_or(&head).fields(),
                source: source.as_deref(),
                end_of_stream,
                now_ns,
            };
            if let Some(name) = first.judge(&facts, &request) {
                host::note_first_verdict(name);
                plugin.counters.count_first_verdict(name);
            }
        }
        judgement
    }
}

impl Drop for Http {
    /// However a request ends: Envoy deletes the context of each.
    fn drop(&mut self) {
        self.end_pending();
    }
}

impl Context for Http {}

impl HttpContext for Http {
    fn on_http_request_headers(&mut self, _num_headers: usize, end_of_stream: bool) -> Action {
        let plugin = match self.plugin.clone() {
            Ok(plugin) => plugin,
            Err(unconfigured) => {
                let reason = Reason::NoConfiguration;
                host::note_verdict(reason.property());
                unconfigured.count();
                return answered(Answer::new(
                    &Verdict::Undecided(reason, FailureMode::Closed).into(),
                    &[],
                    host::request_id,
                ));
            }
        };
        if let Some(guard) = plugin.policy.guard() {
            let found = guard.look(&Head::apart(), host::first_verdict, host::route_name);
            host::note_guard(found.name());
            plugin.counters.count_guard(found);
            return answered(Answer::of_guard(found, host::request_id));
        }
        let judgement = self.judge(&plugin, end_of_stream);
        let limits = plugin.policy.rate_limits();
        let answer = Answer::new(&judgement, limits, host::request_id);
        if judgement.pending.is_some() {
            self.pending = judgement.pending.map(Pending::of);
            plugin.counters.pending(1);
        }
        if answer.is_none() {
            self.response_fields = fields_on_allowed(&judgement, limits);
        }
        answered(answer)
    }

    fn on_http_request_body(&mut self, body_bytes: usize, end_of_stream: bool) -> Action {
        if end_of_stream {
            self.end_pending();
            return Action::Continue;
        }
        let answer = self.grow_pending(body_bytes);
        if answer.is_some() {
            self.end_pending();
        }
        answered(answer)
    }

    fn on_http_request_trailers(&mut self, _num_trailers: usize) -> Action {
        self.end_pending();
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _num_headers: usize, _end_of_stream: bool) -> Action {
        // A handshake of a WebSocket, or another tunnel, has no body that ends: it is answered.
        self.end_pending();
        for field in std::mem::take(&mut self.response_fields) {
            host::add_response_field(&field);
        }
        Action::Continue
    }
}

/// Sends the answer, if there is one, and says what is to become of the request.
fn answered(answer: Option<Answer>) -> Action {
    let Some(answer) = answer else { return Action::Continue };
    host::send(&answer);
    // Even if the host refused to send: what was not to pass must not pass.
    Action::Pause
}

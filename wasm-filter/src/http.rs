//! The callbacks of one request.

use crate::counters::Unconfigured;
use crate::first_verdict;
use crate::host::{self, Head, Proxy};
use crate::plugin::Plugin;
use glacis_policy::{Answer, Arrival, Field, Judged, NO_CONFIGURATION, Note, PendingBody};
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
    pending: Option<PendingBody>,
}

impl Http {
    pub(crate) fn new(plugin: Result<Rc<Plugin>, Unconfigured>) -> Self {
        Self { plugin, response_fields: Vec::new(), pending: None }
    }

    /// The request is pending no more, if it was: its body is there, its answer has begun, or it is over.
    fn end_pending(&mut self) {
        if let (Some(pending), Ok(plugin)) = (self.pending.take(), &self.plugin) {
            plugin.checks.end_pending(&pending, host::now_ns(), &Proxy);
            plugin.counters.pending(-1);
        }
    }

    /// Counts what has come of the body. The answer if that is more than the client may hold.
    fn grow_pending(&mut self, bytes: usize) -> Option<Answer> {
        let (Some(pending), Ok(plugin)) = (&mut self.pending, &self.plugin) else { return None };
        let (checks, now_ns) = (&plugin.checks, host::now_ns());
        let grown = checks.grow_pending(pending, bytes, now_ns, &Proxy, host::request_id)?;
        host::note(&Note::verdict(&grown.verdict));
        plugin.counters.body_cut();
        grown.answer
    }

    fn judge(&mut self, plugin: &Plugin, end_of_stream: bool) -> Option<Answer> {
        let head = match plugin.checks.looks_at_many_fields() {
            true => Head::whole(),
            false => Head::apart(),
        };
        let (source, now_ns) = (host::source_address(), host::now_ns());
        let arrival = Arrival { source: source.as_deref(), end_of_stream, now_ns };
        let judged = plugin.checks.judge(&head, &arrival, &Proxy, host::request_id);
        judged.notes.iter().for_each(host::note);
        plugin.counters.count(&judged);
        self.first_verdict(plugin, &head, &arrival, &judged);
        if judged.pending.is_some() {
            plugin.counters.pending(1);
        }
        (self.pending, self.response_fields) = (judged.pending, judged.response_fields);
        judged.answer
    }

    /// Gives the first verdict. After all that changes header fields, so that it sees what ext_proc will see.
    fn first_verdict(
        &self,
        plugin: &Plugin,
        head: &Head,
        arrival: &Arrival<'_>,
        judged: &Judged<'_>,
    ) {
        let Some(first) = plugin.first_verdict.as_ref().filter(|_| judged.goes_on()) else {
            return;
        };
        let changed = plugin.checks.changes_head().then(Head::whole);
        let request = first_verdict::Request {
            fields: changed.as_ref().unwrap_or(head).fields(),
            source: arrival.source,
            end_of_stream: arrival.end_of_stream,
            now_ns: arrival.now_ns,
        };
        if let Some(name) = first.judge(judged.facts(), &request) {
            host::note_first_verdict(name);
            plugin.counters.count_first_verdict(name);
        }
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
                host::note(&Note::verdict(NO_CONFIGURATION));
                unconfigured.count();
                return answered(Some(Answer::unavailable(host::request_id)));
            }
        };
        let guard = plugin.checks.is_guard().then(Head::apart);
        let found = guard
            .and_then(|head| plugin.checks.guard(&head, host::first_verdict, host::route_name));
        if let Some(found) = found {
            host::note_guard(found.name());
            plugin.counters.count_guard(found);
            return answered(Answer::of_guard(found, host::request_id));
        }
        let answer = self.judge(&plugin, end_of_stream);
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

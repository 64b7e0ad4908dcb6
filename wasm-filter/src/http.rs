//! The callbacks of one request.

use crate::address;
use crate::answer::{Answer, Field, fields_on_allowed};
use crate::config::FailureMode;
use crate::host::{self, Proxy};
use crate::policy::{Reason, Verdict};
use crate::root::Plugin;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::rc::Rc;

/// One request and its response.
#[derive(Debug)]
pub(crate) struct Http {
    /// Absent if Envoy sends a request to a plugin that has refused its configuration.
    plugin: Option<Rc<Plugin>>,
    /// What the response of the upstream is to get; taken when it has got it.
    response_fields: Vec<Field>,
}

impl Http {
    pub(crate) fn new(plugin: Option<Rc<Plugin>>) -> Self {
        Self { plugin, response_fields: Vec::new() }
    }

    fn judge(&self) -> Verdict {
        let Some(plugin) = &self.plugin else {
            return Verdict::Undecided(Reason::NoConfiguration, FailureMode::Closed);
        };
        let trusted_hops = plugin.policy.trusted_hops();
        // To read a header costs a call, and nobody asks for it without trusted proxies.
        let forwarded_for = if trusted_hops > 0 { host::forwarded_for() } else { None };
        let source = host::source_address();
        let client = address::client(source.as_deref(), forwarded_for.as_deref(), trusted_hops);
        let judgement = plugin.policy.judge(client, host::now_ns(), &Proxy);
        plugin.counters.count(&judgement);
        judgement.verdict
    }
}

impl Context for Http {}

impl HttpContext for Http {
    fn on_http_request_headers(&mut self, _num_headers: usize, _end_of_stream: bool) -> Action {
        let verdict = self.judge();
        host::note_verdict(verdict.as_property());
        let limit = self.plugin.as_ref().and_then(|plugin| plugin.policy.rate_limit());
        let Some(answer) = Answer::new(&verdict, limit, host::request_id) else {
            self.response_fields = fields_on_allowed(&verdict, limit);
            return Action::Continue;
        };
        host::send(&answer);
        // Even if the host refused to send: what was not to pass must not pass.
        Action::Pause
    }

    fn on_http_response_headers(&mut self, _num_headers: usize, _end_of_stream: bool) -> Action {
        for field in std::mem::take(&mut self.response_fields) {
            host::add_response_field(&field);
        }
        Action::Continue
    }
}

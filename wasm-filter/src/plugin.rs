//! What all requests of a worker share: the checks, first verdicts and the counters.

use crate::counters::Counters;
use crate::first_verdict::FirstVerdict;
use crate::host::{self, Proxy};
use glacis_policy::{CONFIG_BYTES_MAX, Checks, Config, Event, Host, HttpCall, LeaseCall};

/// What all requests of a worker share.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) checks: Checks,
    pub(crate) counters: Counters,
    pub(crate) first_verdict: Option<FirstVerdict>,
}

impl Plugin {
    /// The plugin that the configuration says, or why it is refused.
    pub(crate) fn configured() -> Result<Self, String> {
        let refused = |problem: &dyn std::fmt::Display| {
            format!("the configuration of the Glacis wasm filter is refused: {problem}")
        };
        // One byte more than is allowed, so that a longer text is seen to be longer.
        let text = host::plugin_configuration(CONFIG_BYTES_MAX + 1);
        let mut config = Config::parse(&text).map_err(|error| refused(&error))?;
        drop(text);
        let trusted_hops = config.trusted_hops;
        let first_verdict = config.first_verdict.take();
        let first_verdict = first_verdict
            .map(|first| FirstVerdict::new(first, trusted_hops))
            .transpose()
            .map_err(|problem| refused(&problem))?;
        let worker = host::random_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes);
        let checks = Checks::new(config, &Proxy, host::random_bytes(), worker)
            .map_err(|_| "the host refuses shared data, without which workers cannot agree")?;
        Ok(Self { checks, counters: Counters::new(), first_verdict })
    }

    /// Does what is due.
    pub(crate) fn tick(&self) {
        self.counters.tell();
        self.checks.tick(&mut Between(&self.counters), &Proxy);
    }

    pub(crate) fn take_list(&self, number: u32, body_bytes: usize) {
        let response = || host::response(body_bytes);
        let mut host = Between(&self.counters);
        self.checks.take_list(number.into(), response, &mut host, &Proxy);
    }

    pub(crate) fn take_answer(&self, number: u32, status: u32, bytes: usize) {
        let response = if status == 0 { host::lease_response(bytes) } else { None };
        let mut host = Between(&self.counters);
        self.checks.take_answer(number.into(), response.as_deref(), &mut host, &Proxy);
    }
}

/// The proxy, between requests.
struct Between<'a>(&'a Counters);

impl Host for Between<'_> {
    fn now_ns(&self) -> u64 {
        host::now_ns()
    }

    fn http_call(&mut self, call: &HttpCall<'_>) -> Option<u64> {
        host::call(call)
    }

    fn lease_call(&mut self, call: &LeaseCall<'_>) -> Option<u64> {
        host::lease_call(call)
    }

    fn log_error(&mut self, message: &str) {
        host::log_error(message);
    }

    fn happened(&mut self, event: Event) {
        self.0.happened(event);
    }
}

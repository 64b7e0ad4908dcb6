//! The checks of the wasm-filter, natively: lists, limits, countries, bots, virtual patches, leases, and the guard.
//!
//! `glacis_policy` has the checks and their configuration. Here is what they need of a host: `request` is one stream,
//! `store` the state that all workers share, `metrics` what is counted, and this file what is done between requests.

mod metrics;
mod request;
mod store;

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glacis_inspector::find;
use glacis_limits::lease::wire;
use glacis_policy::{
    BODY_BYTES_MAX, CONFIG_BYTES_MAX, Checks, Config, Event, Host, HttpCall,
    LEASE_RESPONSE_BYTES_MAX, LeaseCall, Response,
};
use glacis_service::{chance::random, now};

pub(crate) use self::request::Request;
use self::{
    metrics::{Families, Untold},
    store::STORE,
};
use crate::{
    log, startup,
    stream::{Called, Calls, Level, Setup, Wake},
    watch::Watcher,
};

/// Between two ticks: lists and statistics are late by as much.
const TICK: Duration = Duration::from_millis(250);
/// Often enough for the shortest leases, which live 100 ms.
const LEASE_TICK: Duration = Duration::from_millis(20);
/// Bytes before a message of gRPC: not compressed, then the length of the message.
const PREFIX_BYTES: usize = 5;

/// Answers to calls for lists that wait to be parsed. There are fewer calls at once: one for each list and table.
const ANSWERS_MAX: usize = 16;

/// A configuration of checks.
#[derive(Debug)]
pub(crate) struct ChecksFilter {
    shared: Arc<Shared>,
    metrics: Families,
    /// `None` if nothing is to be done between requests, and where Envoy only checks its configuration.
    _ticks: Option<Ticks>,
}

/// Envoy's scheduler of the configuration. It goes with the configuration: Envoy may have ended afterwards.
type Bell = Arc<Mutex<Option<Box<dyn Wake>>>>;

/// The thread that does what is due between requests.
struct Ticks {
    bell: Bell,
    _thread: Watcher,
}

impl core::fmt::Debug for Ticks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ticks").finish_non_exhaustive()
    }
}

impl Drop for Ticks {
    /// Within the lock: a thread that rings just now is done before the scheduler goes.
    fn drop(&mut self) {
        *lock(&self.bell) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What streams, Envoy's main thread and the thread of the ticks share.
#[derive(Debug)]
struct Shared {
    checks: Checks,
    /// Events between requests that metrics do not include yet: only hooks of a stream can increment metrics.
    untold: Untold,
    /// Answers to calls for lists, which the thread of the ticks parses: Envoy's main thread has no time for that.
    answers: Mutex<Vec<(u64, Response)>>,
}

impl ChecksFilter {
    /// Reads a configuration.
    ///
    /// # Errors
    /// What is wrong with it, as the wasm-filter reports it.
    pub(crate) fn new(text: &[u8], envoy: &mut impl Setup) -> Result<Arc<Self>, String> {
        let config = read(text)?;
        let seed = u128::from(random()) | u128::from(random()) << 64;
        let checks = Checks::new(config, &*STORE, seed.to_le_bytes(), random())
            .map_err(|_| "the store of the checks is full".to_owned())?;
        let metrics = Families::define(envoy);
        let (untold, answers) = (Untold::default(), Mutex::default());
        let shared = Arc::new(Shared { checks, untold, answers });
        let needs_ticks = shared.checks.needs_ticks() && !startup::is_validation_mode();
        let ticks = needs_ticks.then(|| shared.start_ticks(envoy)).transpose()?;
        Ok(Arc::new(Self { shared, metrics, _ticks: ticks }))
    }

    /// Does what is due between requests.
    pub(crate) fn tick(&self, envoy: &mut impl Calls) {
        let Shared { checks, untold, .. } = &*self.shared;
        checks.tick(&mut Between { envoy: Some(envoy), untold }, &*STORE);
    }

    /// Takes the answer to a call.
    pub(crate) fn called(&self, envoy: &mut impl Calls, called: &Called<'_>) {
        let Shared { checks, untold, .. } = &*self.shared;
        if checks.awaits_list(called.number) {
            let mut answers = self.shared.answers();
            if answers.len() < ANSWERS_MAX {
                answers.push((called.number, response(called)));
            }
            return;
        }
        let (message, mut host) = (message(called), Between { envoy: Some(envoy), untold });
        checks.take_answer(called.number, message.as_deref(), &mut host, &*STORE);
    }
}

impl Shared {
    /// Starts the thread that parses lists, and wakes Envoy's main thread for all else.
    fn start_ticks(self: &Arc<Self>, envoy: &mut impl Setup) -> Result<Ticks, String> {
        let waker = envoy.waker().ok_or("Envoy has no scheduler for this configuration")?;
        let bell: Bell = Arc::new(Mutex::new(Some(Box::new(waker))));
        let rung = Arc::clone(&bell);
        let interval = if self.checks.leases() { LEASE_TICK } else { TICK };
        let shared = Arc::clone(self);
        // The first look is at once, when Envoy makes no calls yet.
        let mut is_first = true;
        let ticks = Watcher::start(Some(interval), move |_| {
            shared.take_lists();
            if !core::mem::take(&mut is_first)
                && let Some(waker) = &*lock(&rung)
            {
                waker.wake();
            }
        });
        let thread = ticks.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Ticks { bell, _thread: thread })
    }

    fn answers(&self) -> MutexGuard<'_, Vec<(u64, Response)>> {
        lock(&self.answers)
    }

    /// Parses the lists that have come.
    fn take_lists(&self) {
        let answers = core::mem::take(&mut *self.answers());
        let mut host = Between { envoy: None::<&mut NoCalls>, untold: &self.untold };
        for (number, response) in answers {
            self.checks.take_list(number, || response, &mut host, &*STORE);
        }
    }
}

/// Reads a configuration, and refuses what this host cannot do.
fn read(text: &[u8]) -> Result<Config, String> {
    // The parser has the bound, and says so.
    let text = text.get(..CONFIG_BYTES_MAX + 1).unwrap_or(text);
    let config = Config::parse(text).map_err(|error| error.to_string())?;
    if config.first_verdict.is_some() {
        return Err("first_verdict: the module gives no first verdicts; remove it, and let a filter of the module run \
                    the rules"
            .to_owned());
    }
    if let Some(limit) = config.nested_metadata() {
        return Err(format!(
            "rate_limits: the limit {limit:?} has a key in metadata below a key of a namespace, which a native module \
             cannot read; write it to a header (jwt_authn: claim_to_headers) and use that"
        ));
    }
    Ok(config)
}

/// The answer to a call for a list.
fn response(called: &Called<'_>) -> Response {
    let field = |name: &[u8]| find(&called.headers, name).map(<[u8]>::to_vec).unwrap_or_default();
    let bytes: usize = called.body.iter().map(|piece| piece.len()).sum();
    Response {
        status: field(b":status"),
        etag: field(b"etag"),
        digest: field(b"repr-digest"),
        body: (bytes <= BODY_BYTES_MAX).then(|| called.body.concat()),
    }
}

/// The message in the answer to a call of gRPC; `None` if the call has failed.
///
/// Envoy hands no trailers over. A call that fails has its code in the headers and no message, or it has one: a message
/// that came whole is one that the lender has sent.
fn message(called: &Called<'_>) -> Option<Vec<u8>> {
    let bytes: usize = called.body.iter().map(|piece| piece.len()).sum();
    let is_answered = find(&called.headers, b":status") == Some(b"200")
        && find(&called.headers, b"grpc-status").is_none_or(|status| status == b"0");
    if !is_answered || bytes > LEASE_RESPONSE_BYTES_MAX + PREFIX_BYTES {
        return None;
    }
    let body = called.body.concat();
    let (prefix, message) = body.split_first_chunk::<PREFIX_BYTES>()?;
    let [compressed, length @ ..] = *prefix;
    let is_whole = usize::try_from(u32::from_be_bytes(length)) == Ok(message.len());
    (compressed == 0 && is_whole).then(|| message.to_vec())
}

/// Since 1970.
fn now_ns() -> u64 {
    u64::try_from(now().as_nanos()).unwrap_or(u64::MAX)
}

/// Between requests: on Envoy's main thread, or on the thread of the ticks, from which no calls can be made.
struct Between<'a, E> {
    envoy: Option<&'a mut E>,
    untold: &'a Untold,
}

/// On the thread of the ticks there is nobody who makes calls.
enum NoCalls {}

impl Calls for NoCalls {
    fn call(&mut self, _: &str, _: &[(&str, &str)], _: &[u8], _: Duration) -> Option<u64> {
        match *self {}
    }
}

impl<E: Calls> Host for Between<'_, E> {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn http_call(&mut self, call: &HttpCall<'_>) -> Option<u64> {
        self.envoy.as_mut()?.call(call.cluster, &call.fields, &[], call.timeout)
    }

    fn lease_call(&mut self, call: &LeaseCall<'_>) -> Option<u64> {
        let path = format!("/{}/{}", wire::SERVICE, wire::METHOD);
        let authorization = call.token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path.as_str()),
            (":authority", call.cluster),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        headers.extend(authorization.as_deref().map(|value| ("authorization", value)));
        let length = u32::try_from(call.question.len()).ok()?;
        let body = [&[0], &length.to_be_bytes()[..], call.question].concat();
        self.envoy.as_mut()?.call(call.cluster, &headers, &body, call.timeout)
    }

    fn log_error(&mut self, message: &str) {
        log::line(Level::Error, &format!("glacis: {message}"));
    }

    fn happened(&mut self, event: Event) {
        self.untold.happened(event);
    }
}

#[cfg(test)]
mod tests;

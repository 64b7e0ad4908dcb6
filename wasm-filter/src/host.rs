//! The calls to the proxy: the only file that makes any.
//!
//! All of them are the free functions of `proxy_wasm::hostcalls`, which return a `Result`; the
//! methods of the SDK's traits unwrap it. Those functions still panic at a status that they do not
//! expect. For each call here the statuses that Envoy 1.40 gives in the callback that makes it are
//! among the expected ones, whatever the request holds: a map is only read or changed in the
//! callback that it belongs to, a header is read as bytes, and a property is set only while there
//! is a stream.

use glacis_limits::field::is_same_name;
use glacis_limits::lease::wire;
use glacis_policy::{
    Answer, BODY_BYTES_MAX, Field, HostError, HttpCall, LEASE_RESPONSE_BYTES_MAX, LeaseCall, Mark,
    Note, Request, Response, SharedData, Stored, WriteError,
};
use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, LogLevel, MapType, MetricType, Status};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, UNIX_EPOCH};

/// A version that a value practically never has: Envoy counts writes from 1.
///
/// Zero would mean "whatever is there", so a first write has to name some version. If the key is
/// absent Envoy ignores it; if another worker was faster it does not match. Were the four billionth
/// write exactly this one, an update would be lost, and nothing else.
const VERSION_OF_ABSENT: u32 = u32::MAX;

/// Filter state `wasm.glacis.first_verdict`.
const FIRST_VERDICT_PROPERTY: &str = "glacis.first_verdict";
const GUARD_PROPERTY: &str = "glacis.guard";

/// Shared data of the proxy, which the workers of one process have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proxy;

impl SharedData for Proxy {
    fn read(&self, key: &str) -> Result<Stored, HostError> {
        let (value, version) = hostcalls::get_shared_data(key).map_err(|_| HostError)?;
        let mark = version.map_or(Mark::Absent, Mark::Version);
        Ok(Stored { value: value.unwrap_or_default(), mark })
    }

    fn write(&self, key: &str, value: &[u8], mark: Mark) -> Result<(), WriteError> {
        let version = match mark {
            Mark::Absent => VERSION_OF_ABSENT,
            Mark::Version(version) => version,
        };
        match hostcalls::set_shared_data(key, Some(value), Some(version)) {
            Ok(()) => Ok(()),
            Err(Status::CasMismatch) => Err(WriteError::Changed),
            Err(_) => Err(WriteError::Host),
        }
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<(), HostError> {
        hostcalls::set_shared_data(key, Some(value), None).map_err(|_| HostError)
    }
}

/// Header fields that are asked for one by one before all of them are: to fetch all of a browser's takes as long
/// as to fetch two or three.
const APART_MAX: u8 = 2;

/// The head of the request whose callback is being served. Only for the callback of the request's headers.
#[derive(Debug)]
pub(crate) struct Head {
    /// All fields, once they have been fetched.
    fields: OnceCell<Vec<(String, Vec<u8>)>>,
    /// How many may still be fetched apart.
    apart: Cell<u8>,
}

impl Head {
    /// A head of which few fields will be looked at.
    pub(crate) fn apart() -> Self {
        Self { fields: OnceCell::new(), apart: Cell::new(APART_MAX) }
    }

    /// A head of which many will.
    pub(crate) fn whole() -> Self {
        Self { fields: OnceCell::new(), apart: Cell::new(0) }
    }

    /// All header fields, pseudo-headers among them, as they were when they were first asked for.
    ///
    /// The SDK panics at a name that is not UTF-8; Envoy lets only tokens be names.
    pub(crate) fn fields(&self) -> &[(String, Vec<u8>)] {
        self.fields.get_or_init(|| {
            hostcalls::get_map_bytes(MapType::HttpRequestHeaders).unwrap_or_default()
        })
    }
}

impl Request for Head {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let name = name_in_envoy(name);
        if let (None, Some(left)) = (self.fields.get(), self.apart.get().checked_sub(1)) {
            self.apart.set(left);
            let value = hostcalls::get_map_value_bytes(MapType::HttpRequestHeaders, name);
            return value.ok().flatten().map(Cow::Owned);
        }
        let field = self.fields().iter().find(|(known, _)| known == name);
        field.map(|(_, value)| Cow::Borrowed(value.as_slice()))
    }

    fn headers(&self, name: &str) -> Vec<Vec<u8>> {
        // Envoy gives the first only when it is asked for one by name.
        let name = name_in_envoy(name);
        let fields = self.fields().iter().filter(|(known, _)| known == name);
        fields.map(|(_, value)| value.clone()).collect()
    }

    fn headers_like(&self, name: &str) -> Vec<Vec<u8>> {
        let name = name_in_envoy(name).as_bytes();
        let fields = self.fields().iter().filter(|(known, _)| is_same_name(known.as_bytes(), name));
        fields.map(|(_, value)| value.clone()).collect()
    }

    fn expect_many_fields(&self) {
        self.apart.set(0);
    }

    fn metadata(&self, keys: &[String]) -> Option<Vec<u8>> {
        let mut path = vec!["metadata", "filter_metadata"];
        path.extend(keys.iter().map(String::as_str));
        hostcalls::get_property(path).ok().flatten()
    }

    fn filter_state(&self, name: &str) -> Option<Vec<u8>> {
        hostcalls::get_property(vec!["filter_state", name]).ok().flatten()
    }
}

/// Envoy has the host as `:authority`, and all names in lower case, as our configuration does.
fn name_in_envoy(name: &str) -> &str {
    if name == "host" { ":authority" } else { name }
}

/// The wall clock. A host without one gives 0, at which nothing is gained and nothing is lost.
pub(crate) fn now_ns() -> u64 {
    let now = hostcalls::get_current_time().ok();
    let since_epoch = now.and_then(|now| now.duration_since(UNIX_EPOCH).ok());
    since_epoch.and_then(|time| u64::try_from(time.as_nanos()).ok()).unwrap_or(0)
}

/// Bytes that a stranger cannot guess, from the keys that the standard library draws at random.
pub(crate) fn random_bytes() -> [u8; 16] {
    let state = RandomState::new();
    let (low, high) = (state.hash_one(0u8), state.hash_one(1u8));
    (u128::from(low) | u128::from(high) << 64).to_le_bytes()
}

/// The text of the plugin configuration; empty if there is none.
pub(crate) fn plugin_configuration(bytes_max: usize) -> Vec<u8> {
    let buffer = hostcalls::get_buffer(BufferType::PluginConfiguration, 0, bytes_max);
    buffer.ok().flatten().unwrap_or_default()
}

/// Envoy's attribute `source.address`.
pub(crate) fn source_address() -> Option<Vec<u8>> {
    hostcalls::get_property(vec!["source", "address"]).ok().flatten()
}

/// Envoy's attribute `destination.address`.
#[cfg(feature = "engine")]
pub(crate) fn destination_address() -> Option<Vec<u8>> {
    hostcalls::get_property(vec!["destination", "address"]).ok().flatten()
}

/// Envoy's attribute `request.protocol`.
#[cfg(feature = "engine")]
pub(crate) fn request_protocol() -> Option<Vec<u8>> {
    hostcalls::get_property(vec!["request", "protocol"]).ok().flatten()
}

/// The name of the route; `None` if there is no route.
pub(crate) fn route_name() -> Option<Vec<u8>> {
    hostcalls::get_property(vec!["xds", "route_name"]).ok().flatten()
}

/// Notes the first verdict, which Envoy's matchers and the guard look at.
pub(crate) fn note_first_verdict(name: &str) {
    let _ = hostcalls::set_property(vec![FIRST_VERDICT_PROPERTY], Some(name.as_bytes()));
}

/// The first verdict of this request, by whichever filter with our module.
pub(crate) fn first_verdict() -> Option<Vec<u8>> {
    hostcalls::get_property(vec![FIRST_VERDICT_PROPERTY]).ok().flatten()
}

/// Notes what the guard has found.
pub(crate) fn note_guard(name: &str) {
    let _ = hostcalls::set_property(vec![GUARD_PROPERTY], Some(name.as_bytes()));
}

/// The request id, as Envoy or the client gave it.
pub(crate) fn request_id() -> Option<Vec<u8>> {
    hostcalls::get_property(vec!["request", "id"]).ok().flatten()
}

/// Notes something for access logs, later filters and the upstream: as filter state `wasm.` and its name, which a client
/// cannot set, and as a header field. It is of no use to the decision, so a failure is not looked at.
pub(crate) fn note(note: &Note) {
    if let Some(name) = note.state {
        let _ = hostcalls::set_property(vec![name], Some(note.text.as_bytes()));
    }
    if let Some(name) = note.header {
        let _ = hostcalls::set_map_value(MapType::HttpRequestHeaders, name, Some(&note.text));
    }
}

/// Answers the request instead of the upstream. The caller pauses the request in any case.
pub(crate) fn send(answer: &Answer) {
    let fields = answer.fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let body = Some(answer.body.as_bytes());
    let _ = hostcalls::send_http_response(answer.status, fields, body);
}

/// Adds a field to the response. Only for the callback of the response's headers.
pub(crate) fn add_response_field((name, value): &Field) {
    let _ = hostcalls::add_map_value(MapType::HttpResponseHeaders, name, value);
}

/// Asks for a callback every so often.
pub(crate) fn tick_every(period: Duration) {
    let _ = hostcalls::set_tick_period(period);
}

/// Makes a call for a list; the number of the call, if Envoy makes it.
pub(crate) fn call(call: &HttpCall<'_>) -> Option<u64> {
    let fields = call.fields.clone();
    let number =
        hostcalls::dispatch_http_call(call.cluster, fields, None, Vec::new(), call.timeout);
    number.ok().map(u64::from)
}

/// Makes a call to a lender, with its token if it asks for one; the number of the call, if Envoy makes it.
///
/// Envoy takes the text for a serialised `GrpcService` if it can be read as one, which the name of
/// a cluster may be by accident; the SDK panics at what Envoy says then. So it is one.
pub(crate) fn lease_call(call: &LeaseCall<'_>) -> Option<u64> {
    let service = grpc_service(call.cluster)?;
    let (name, method) = (wire::SERVICE, wire::METHOD);
    let authorization = call.token.map(|token| format!("Bearer {token}"));
    let metadata: Vec<(&str, &[u8])> =
        authorization.iter().map(|value| ("authorization", value.as_bytes())).collect();
    let (question, timeout) = (Some(call.question), call.timeout);
    let number = hostcalls::dispatch_grpc_call(&service, name, method, metadata, question, timeout);
    number.ok().map(u64::from)
}

/// `GrpcService { envoy_grpc: EnvoyGrpc { cluster_name } }`, which is UTF-8 as long as each of its
/// lengths is below 128.
fn grpc_service(cluster: &str) -> Option<String> {
    let inner = u8::try_from(cluster.len()).ok().filter(|length| *length < 126)?;
    Some(format!("\n{}\n{}{cluster}", char::from(inner + 2), char::from(inner)))
}

/// What a lender answered. Only for the callback of a call's response.
pub(crate) fn lease_response(bytes: usize) -> Option<Vec<u8>> {
    if bytes > LEASE_RESPONSE_BYTES_MAX {
        return None;
    }
    let body = hostcalls::get_buffer(BufferType::GrpcReceiveBuffer, 0, bytes).ok()?;
    Some(body.unwrap_or_default())
}

/// What came back. Only for the callback of a call's response.
pub(crate) fn response(body_bytes: usize) -> Response {
    let field = |name| {
        hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, name).ok().flatten()
    };
    let body = |bytes| {
        hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, bytes)
            .map(Option::unwrap_or_default)
    };
    let fits = body_bytes <= BODY_BYTES_MAX;
    Response {
        status: field(":status").unwrap_or_default(),
        etag: field("etag").unwrap_or_default(),
        digest: field("repr-digest").unwrap_or_default(),
        body: fits.then(|| body(body_bytes).ok()).flatten(),
    }
}

/// Writes to Envoy's log, at level error.
pub(crate) fn log_error(message: &str) {
    let _ = hostcalls::log(LogLevel::Error, message);
}

/// A counter among Envoy's statistics, under `wasmcustom.` and its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter(Option<u32>);

impl Counter {
    /// A counter that the host refuses counts nothing; requests are decided all the same.
    pub(crate) fn new(name: &str) -> Self {
        Self(hostcalls::define_metric(MetricType::Counter, name).ok())
    }

    /// A gauge, set by [`Counter::record`].
    pub(crate) fn gauge(name: &str) -> Self {
        Self(hostcalls::define_metric(MetricType::Gauge, name).ok())
    }

    pub(crate) fn record(self, value: u64) {
        if let Some(id) = self.0 {
            let _ = hostcalls::record_metric(id, value);
        }
    }

    pub(crate) fn increment(self) {
        self.add(1);
    }

    fn add(self, count: i64) {
        if let Some(id) = self.0 {
            let _ = hostcalls::increment_metric(id, count);
        }
    }
}

/// A counter of what happens to nearly each request: it is kept in the worker's memory and told to
/// Envoy at ticks, since that is a call of the host.
#[derive(Debug)]
pub(crate) struct Tally {
    counter: Counter,
    untold: Cell<i64>,
}

impl Tally {
    /// A counter of which Envoy knows the name from now on, as of any other.
    pub(crate) fn new(name: &str) -> Self {
        Self { counter: Counter::new(name), untold: Cell::new(0) }
    }

    /// A gauge of which all workers tell their changes.
    pub(crate) fn gauge(name: &str) -> Self {
        Self { counter: Counter::gauge(name), untold: Cell::new(0) }
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: i64) {
        self.untold.set(self.untold.get().saturating_add(count));
    }

    /// Tells Envoy what was counted since it was last told; that is no call if it is nothing.
    pub(crate) fn tell(&self) {
        match self.untold.take() {
            0 => {}
            count => self.counter.add(count),
        }
    }
}

impl Drop for Tally {
    /// Requests that began under a configuration count there, also when another one has taken its place.
    fn drop(&mut self) {
        self.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::grpc_service;

    #[test]
    fn the_name_of_a_cluster_is_a_message() {
        assert_eq!(grpc_service("authz").as_deref(), Some("\n\x07\n\x05authz"));
        assert_eq!(grpc_service(&"c".repeat(125)).map(|text| text.len()), Some(129));
        assert_eq!(grpc_service(&"c".repeat(126)), None);
    }
}

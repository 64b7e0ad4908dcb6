//! Envoy's ABI for dynamic modules, version 0.2.0: every hook that Envoy calls and every callback that it offers.
//!
//! No other file of the repository contains `unsafe` code. Names, numbers and layouts are those of
//! `source/extensions/dynamic_modules/abi/abi.h` in Envoy. Callbacks are looked up at run time, so that one library
//! loads into Envoy 1.38, 1.39 and 1.40; callbacks that the older ones lack are optional.
//!
//! Each hook catches panics. Envoy then answers the client with 503 and the details `glacis_fault`.
#![allow(unsafe_code, reason = "the one file that speaks Envoy's ABI")]

mod calls;
mod hooks;
#[cfg(test)]
mod tests;

use core::{
    ffi::{CStr, c_char, c_void},
    marker::PhantomData,
    ptr,
};
use std::sync::{Arc, OnceLock};

use glacis_inspector::{Header, Reply};

use crate::{
    metadata,
    route::Route,
    stream::{Attribute, Half, HeaderMap, Level, MetricId, Metrics, Stream, Value, Wake, Wakeup},
};

/// The version of the ABI. Envoy 1.40 logs a warning for any other, and loads the module all the same.
const VERSION: &CStr = c"v0.2.0";

/// The number of the metadata that filters set for a stream.
const DYNAMIC: i32 = 0;

/// Headers that are read without an allocation for Envoy's form of them.
const HEADERS_ON_STACK: usize = 64;

/// `envoy_dynamic_module_type_envoy_buffer` and `…_module_buffer`: memory of the one who passes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Buf {
    ptr: *const u8,
    len: usize,
}

impl Buf {
    const NULL: Self = Self { ptr: ptr::null(), len: 0 };

    const fn of(bytes: &[u8]) -> Self {
        Self { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    /// The bytes.
    ///
    /// # Safety
    /// They must stay valid and unchanged for `'b`.
    const unsafe fn bytes<'b>(self) -> &'b [u8] {
        if self.ptr.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: the pointer is not null, and the caller vouches for the rest.
        unsafe { core::slice::from_raw_parts(self.ptr, self.len) }
    }
}

/// `envoy_dynamic_module_type_envoy_http_header`, `…_module_http_header` and `…_module_key_value_pair`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Pair {
    key: Buf,
    value: Buf,
}

impl Pair {
    const NULL: Self = Self { key: Buf::NULL, value: Buf::NULL };

    const fn of(key: &[u8], value: &[u8]) -> Self {
        Self { key: Buf::of(key), value: Buf::of(value) }
    }
}

/// Envoy's object of a stream, of a configuration, or of a scheduler.
type Object = *mut c_void;

unsafe extern "C" {
    /// The dynamic linker's, of the C library. A null handle is `RTLD_DEFAULT`: Envoy's own symbols come first.
    fn dlsym(handle: Object, symbol: *const c_char) -> Object;
}

/// Declares the table of callbacks, and how it is looked up. Those after the semicolon are optional.
macro_rules! callbacks {
    (
        $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?,)*;
        $($newer:ident: fn($($newer_argument:ty),*) $(-> $newer_result:ty)?,)*
    ) => {
        /// Envoy's callbacks.
        #[derive(Clone, Copy, Debug)]
        struct Callbacks {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $($newer: Option<unsafe extern "C" fn($($newer_argument),*) $(-> $newer_result)?>,)*
        }

        impl Callbacks {
            /// Looks all of them up.
            ///
            /// # Errors
            /// The name of the first that is missing although every supported Envoy has it.
            fn resolve(look_up: impl Fn(&CStr) -> Object) -> Result<Self, &'static str> {
                Ok(Self {
                    $($name: {
                        let symbol = concat!("envoy_dynamic_module_callback_", stringify!($name), "\0");
                        let found = CStr::from_bytes_with_nul(symbol.as_bytes()).map(&look_up);
                        let found = found.unwrap_or(ptr::null_mut());
                        // SAFETY: a function pointer that may be null is an `Option`; the signature is Envoy's.
                        let callback = unsafe {
                            core::mem::transmute::<
                                Object,
                                Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>,
                            >(found)
                        };
                        callback.ok_or(stringify!($name))?
                    },)*
                    $($newer: {
                        let symbol = concat!("envoy_dynamic_module_callback_", stringify!($newer), "\0");
                        let found = CStr::from_bytes_with_nul(symbol.as_bytes()).map(&look_up);
                        let found = found.unwrap_or(ptr::null_mut());
                        // SAFETY: as above.
                        unsafe {
                            core::mem::transmute::<
                                Object,
                                Option<unsafe extern "C" fn($($newer_argument),*) $(-> $newer_result)?>,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

callbacks! {
    log: fn(i32, Buf),
    is_validation_mode: fn() -> bool,
    http_get_headers_size: fn(Object, i32) -> usize,
    http_get_headers: fn(Object, i32, *mut Pair) -> bool,
    http_set_header: fn(Object, i32, Buf, Buf) -> bool,
    http_get_body_chunks_size: fn(Object, i32) -> usize,
    http_get_body_chunks: fn(Object, i32, *mut Buf) -> bool,
    http_drain_body: fn(Object, i32, usize) -> bool,
    http_append_body: fn(Object, i32, Buf) -> bool,
    http_get_buffer_limit: fn(Object) -> u64,
    http_set_buffer_limit: fn(Object, u64),
    http_send_response: fn(Object, u32, *const Pair, usize, Buf, Buf),
    http_filter_get_attribute_string: fn(Object, i32, *mut Buf) -> bool,
    http_get_metadata_string: fn(Object, i32, Buf, Buf, *mut Buf) -> bool,
    http_get_metadata_list_size: fn(Object, i32, Buf, Buf, *mut usize) -> bool,
    http_add_dynamic_metadata_list_string: fn(Object, Buf, Buf, Buf) -> bool,
    http_set_dynamic_metadata_string: fn(Object, Buf, Buf, Buf),
    http_set_dynamic_metadata_number: fn(Object, Buf, Buf, f64),
    get_most_specific_route_config: fn(Object) -> *const c_void,
    http_filter_config_define_counter: fn(Object, Buf, *const Buf, usize, *mut usize) -> i32,
    http_filter_config_define_gauge: fn(Object, Buf, *const Buf, usize, *mut usize) -> i32,
    http_filter_config_define_histogram: fn(Object, Buf, *const Buf, usize, *mut usize) -> i32,
    http_filter_increment_counter: fn(Object, usize, *const Buf, usize, u64) -> i32,
    http_filter_set_gauge: fn(Object, usize, *const Buf, usize, u64) -> i32,
    http_filter_record_histogram_value: fn(Object, usize, *const Buf, usize, u64) -> i32,
    http_filter_scheduler_new: fn(Object) -> Object,
    http_filter_scheduler_commit: fn(Object, u64),
    http_filter_scheduler_delete: fn(Object),
    http_filter_continue_decoding: fn(Object),
    http_filter_continue_encoding: fn(Object),
    http_get_filter_state_bytes: fn(Object, Buf, *mut Buf) -> bool,
    http_set_filter_state_bytes: fn(Object, Buf, Buf) -> bool,
    http_add_header: fn(Object, i32, Buf, Buf) -> bool,
    http_filter_config_scheduler_new: fn(Object) -> Object,
    http_filter_config_scheduler_commit: fn(Object, u64),
    http_filter_config_scheduler_delete: fn(Object),
    http_filter_config_http_callout: fn(Object, *mut u64, Buf, *const Pair, usize, Buf, u64) -> i32,
    ;
    http_set_dynamic_metadata_struct: fn(Object, Buf, Buf),
}

/// The callbacks of the process: Envoy has looked the module up before it calls any other hook.
static CALLBACKS: OnceLock<Callbacks> = OnceLock::new();

/// Looks the callbacks up, once.
fn load_callbacks() -> Result<(), &'static str> {
    if CALLBACKS.get().is_some() {
        return Ok(());
    }
    // SAFETY: `dlsym` reads the name only.
    let look_up = |name: &CStr| unsafe { dlsym(ptr::null_mut(), name.as_ptr()) };
    let callbacks = Callbacks::resolve(look_up)?;
    // Another thread has found the same ones.
    let _ = CALLBACKS.set(callbacks);
    Ok(())
}

/// Writes a line to Envoy's log. Any thread may.
fn log(level: Level, text: &str) {
    let level = match level {
        Level::Info => 2,
        Level::Warn => 3,
        Level::Error => 4,
    };
    if let Some(callbacks) = CALLBACKS.get() {
        // SAFETY: Envoy copies the text before it returns.
        unsafe { (callbacks.log)(level, Buf::of(text.as_bytes())) }
    }
}

/// Whether Envoy only checks its configuration.
fn is_validation_mode() -> bool {
    // SAFETY: it takes nothing.
    CALLBACKS.get().is_some_and(|callbacks| unsafe { (callbacks.is_validation_mode)() })
}

/// Changes a metric: its stream, its number, the values of its labels and how many they are, and the value.
type Change = unsafe extern "C" fn(Object, usize, *const Buf, usize, u64) -> i32;

/// A stream of Envoy, as long as a hook of it runs.
#[derive(Debug)]
struct EnvoyStream<'h> {
    envoy: Object,
    callbacks: &'static Callbacks,
    hook: PhantomData<&'h mut ()>,
}

impl EnvoyStream<'_> {
    /// Answers the client. The filter may be destroyed when this returns.
    fn reply(self, reply: &Reply) {
        // Envoy takes any number; what is no status of an answer must not become one.
        let status = if (200..=599).contains(&reply.status) { reply.status } else { 403 };
        let mut headers: Vec<Pair> = { reply.headers.iter() }
            .map(|(name, value)| Pair::of(name.as_bytes(), value.as_bytes()))
            .collect();
        let grpc_status = reply.grpc_status.map(|status| status.to_string());
        headers
            .extend(grpc_status.iter().map(|status| Pair::of(b"grpc-status", status.as_bytes())));
        let (body, details) = (Buf::of(reply.body.as_bytes()), Buf::of(reply.details.as_bytes()));
        // SAFETY: the stream lives while its hook runs; Envoy copies all that it is given.
        unsafe {
            (self.callbacks.http_send_response)(
                self.envoy,
                status.into(),
                headers.as_ptr(),
                headers.len(),
                body,
                details,
            );
        }
    }

    /// Ends the wait of a half. The filter may be destroyed when this returns.
    fn resume(self, half: Half) {
        let resume = match half {
            Half::Request => self.callbacks.http_filter_continue_decoding,
            Half::Response => self.callbacks.http_filter_continue_encoding,
        };
        // SAFETY: the stream lives while its hook runs.
        unsafe { resume(self.envoy) }
    }

    /// The chunks of a body: of the request what is received (0) or held (1), of the response what is received (2).
    fn chunks(&self, body: i32) -> Vec<&[u8]> {
        // SAFETY: the stream lives while its hook runs.
        let count = unsafe { (self.callbacks.http_get_body_chunks_size)(self.envoy, body) };
        let mut chunks = vec![Buf::NULL; count];
        // SAFETY: Envoy writes as many buffers as it has said, and there is room for them.
        let known = count > 0
            && unsafe {
                let get = self.callbacks.http_get_body_chunks;
                get(self.envoy, body, chunks.as_mut_ptr())
            };
        if !known {
            return Vec::new();
        }
        // SAFETY: valid until the hook ends or a setter is called, which takes `&mut self`.
        chunks.into_iter().map(|chunk| unsafe { chunk.bytes() }).collect()
    }

    /// What `read` makes of the text that a getter wrote.
    fn text<T>(
        &self,
        get: impl FnOnce(Object, *mut Buf) -> bool,
        read: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        let mut found = Buf::NULL;
        if !get(self.envoy, &raw mut found) {
            return None;
        }
        // SAFETY: valid until the hook ends or Envoy is called again, which `read` cannot do.
        core::str::from_utf8(unsafe { found.bytes() }).ok().map(read)
    }

    /// What `read` makes of a text in metadata: the stream's own, or the route's.
    fn metadata_text<T>(
        &self,
        source: i32,
        namespace: &str,
        key: &str,
        read: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        let (namespace, key) = (Buf::of(namespace.as_bytes()), Buf::of(key.as_bytes()));
        // SAFETY: the stream lives, and Envoy writes one buffer.
        let get = |envoy, found| unsafe {
            (self.callbacks.http_get_metadata_string)(envoy, source, namespace, key, found)
        };
        self.text(get, read)
    }

    /// Calls what changes a metric of the configuration.
    fn change(&self, change: Change, MetricId(id): MetricId, labels: &[&str], value: u64) {
        let labels: Vec<Buf> = labels.iter().map(|label| Buf::of(label.as_bytes())).collect();
        // SAFETY: the stream lives, and Envoy copies the labels.
        unsafe { change(self.envoy, id, labels.as_ptr(), labels.len(), value) };
    }

    /// How many strings of a list in the stream's own metadata there are already.
    fn list_size(&self, namespace: Buf, key: Buf) -> usize {
        let mut size = 0;
        // SAFETY: the stream lives, and Envoy writes one number.
        let known = unsafe {
            let get = self.callbacks.http_get_metadata_list_size;
            get(self.envoy, DYNAMIC, namespace, key, &raw mut size)
        };
        if known { size } else { 0 }
    }

    /// Sets metadata one by one, in Envoys that cannot take all of it at once.
    fn set_each(&mut self, namespace: Buf, entries: &[(&str, Value<'_>)]) {
        let callbacks = self.callbacks;
        for (key, value) in entries {
            let key = Buf::of(key.as_bytes());
            match value {
                Value::Text(text) => {
                    let text = Buf::of(text.as_bytes());
                    // SAFETY: the stream lives, and Envoy copies the bytes; likewise below.
                    unsafe {
                        let set = callbacks.http_set_dynamic_metadata_string;
                        set(self.envoy, namespace, key, text);
                    }
                }
                // SAFETY: as above.
                Value::Number(number) => unsafe {
                    let set = callbacks.http_set_dynamic_metadata_number;
                    set(self.envoy, namespace, key, *number);
                },
                // A list can only be added to: it grows, and never changes.
                Value::Texts(texts) => {
                    for text in texts.iter().skip(self.list_size(namespace, key)) {
                        let text = Buf::of(text.as_bytes());
                        // SAFETY: as above.
                        unsafe {
                            let add = callbacks.http_add_dynamic_metadata_list_string;
                            add(self.envoy, namespace, key, text);
                        }
                    }
                }
            }
        }
    }
}

impl Stream for EnvoyStream<'_> {
    type Waker = Scheduler;

    fn headers(&self, map: HeaderMap) -> Vec<Header<'_>> {
        let map = map_number(map);
        // SAFETY: the stream lives while its hook runs.
        let count = unsafe { (self.callbacks.http_get_headers_size)(self.envoy, map) };
        let (mut few, mut many) = ([Pair::NULL; HEADERS_ON_STACK], Vec::new());
        let pairs = match few.get_mut(..count) {
            Some(pairs) => pairs,
            None => {
                many.resize(count, Pair::NULL);
                many.as_mut_slice()
            }
        };
        // SAFETY: Envoy writes as many pairs as it has said, and there is room for them.
        let known = count > 0
            && unsafe { (self.callbacks.http_get_headers)(self.envoy, map, pairs.as_mut_ptr()) };
        if !known {
            return Vec::new();
        }
        // SAFETY: valid until the hook ends or a setter is called, which takes `&mut self`.
        let header =
            |pair: &Pair| unsafe { Header { name: pair.key.bytes(), value: pair.value.bytes() } };
        pairs.iter().map(header).collect()
    }

    fn body(&self, half: Half) -> Vec<&[u8]> {
        self.chunks(received(half))
    }

    fn held_body(&self) -> Vec<&[u8]> {
        self.chunks(1)
    }

    fn attribute<T>(&self, attribute: Attribute, read: impl FnOnce(&str) -> T) -> Option<T> {
        let id = match attribute {
            Attribute::Protocol => 10,
            Attribute::SourceAddress => 24,
            Attribute::DestinationAddress => 26,
            Attribute::RouteName => 61,
        };
        // SAFETY: the stream lives, and Envoy writes one buffer.
        let get = |envoy, found| unsafe {
            (self.callbacks.http_filter_get_attribute_string)(envoy, id, found)
        };
        self.text(get, read)
    }

    fn route_metadata<T>(
        &self,
        namespace: &str,
        key: &str,
        read: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        const ROUTE: i32 = 1;
        self.metadata_text(ROUTE, namespace, key, read)
    }

    fn dynamic_metadata<T>(
        &self,
        namespace: &str,
        key: &str,
        read: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        self.metadata_text(DYNAMIC, namespace, key, read)
    }

    fn route(&self) -> Option<Arc<Route>> {
        // SAFETY: the stream lives while its hook runs.
        let route = unsafe { (self.callbacks.get_most_specific_route_config)(self.envoy) };
        if route.is_null() {
            return None;
        }
        let route: *const Route = route.cast();
        // SAFETY: Envoy gives back what the hook for the route's configuration returned, and keeps it for that long.
        unsafe {
            Arc::increment_strong_count(route);
            Some(Arc::from_raw(route))
        }
    }

    fn remove_header(&mut self, map: HeaderMap, name: &[u8]) {
        let set = self.callbacks.http_set_header;
        // SAFETY: the stream lives, and Envoy copies the name. No value means to remove the header.
        unsafe { set(self.envoy, map_number(map), Buf::of(name), Buf::NULL) };
    }

    fn set_header(&mut self, map: HeaderMap, name: &[u8], value: &[u8]) {
        let set = self.callbacks.http_set_header;
        // SAFETY: the stream lives, and Envoy copies name and value.
        unsafe { set(self.envoy, map_number(map), Buf::of(name), Buf::of(value)) };
    }

    fn replace_body(&mut self, half: Half, bytes: &[u8]) {
        let body = received(half);
        let held: usize = self.chunks(body).iter().map(|chunk| chunk.len()).sum();
        // SAFETY: the stream lives, and Envoy copies the bytes.
        unsafe {
            (self.callbacks.http_drain_body)(self.envoy, body, held);
            (self.callbacks.http_append_body)(self.envoy, body, Buf::of(bytes));
        }
    }

    fn buffer_at_least(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        // SAFETY: the stream lives while its hook runs.
        unsafe {
            if (self.callbacks.http_get_buffer_limit)(self.envoy) < bytes {
                (self.callbacks.http_set_buffer_limit)(self.envoy, bytes);
            }
        }
    }

    fn set_metadata(&mut self, namespace: &str, entries: &[(&str, Value<'_>)]) {
        let namespace = Buf::of(namespace.as_bytes());
        let Some(set) = self.callbacks.http_set_dynamic_metadata_struct else {
            return self.set_each(namespace, entries);
        };
        let message = metadata::encode(entries);
        // SAFETY: the stream lives, and Envoy parses the message before it returns.
        unsafe { set(self.envoy, namespace, Buf::of(&message)) };
    }

    fn count(&mut self, metric: MetricId, labels: &[&str], by: u64) {
        self.change(self.callbacks.http_filter_increment_counter, metric, labels, by);
    }

    fn set(&mut self, metric: MetricId, labels: &[&str], value: u64) {
        self.change(self.callbacks.http_filter_set_gauge, metric, labels, value);
    }

    fn record(&mut self, metric: MetricId, labels: &[&str], value: u64) {
        self.change(self.callbacks.http_filter_record_histogram_value, metric, labels, value);
    }

    fn waker(&mut self, reason: Wakeup) -> Option<Scheduler> {
        // SAFETY: the stream lives while its hook runs.
        let scheduler = unsafe { (self.callbacks.http_filter_scheduler_new)(self.envoy) };
        let event = event_number(reason);
        (!scheduler.is_null()).then_some(Scheduler { scheduler, event, callbacks: self.callbacks })
    }
}

/// The number of a scheduled event; Envoy passes it back.
const fn event_number(reason: Wakeup) -> u64 {
    match reason {
        Wakeup::Evaluation => 0,
        Wakeup::Rules => 1,
        Wakeup::LateBody => 2,
        Wakeup::Cut => 3,
    }
}

/// The reason for which a stream is woken by the event of this number.
const fn wakeup(event: u64) -> Wakeup {
    match event {
        1 => Wakeup::Rules,
        2 => Wakeup::LateBody,
        3 => Wakeup::Cut,
        _ => Wakeup::Evaluation,
    }
}

/// The number of the body that a hook was called for.
const fn received(half: Half) -> i32 {
    match half {
        Half::Request => 0,
        Half::Response => 2,
    }
}

const fn map_number(map: HeaderMap) -> i32 {
    match map {
        HeaderMap::Request => 0,
        HeaderMap::RequestTrailers => 1,
        HeaderMap::Response => 2,
        HeaderMap::ResponseTrailers => 3,
    }
}

/// Envoy's scheduler of one stream.
#[derive(Debug)]
pub(crate) struct Scheduler {
    scheduler: Object,
    event: u64,
    callbacks: &'static Callbacks,
}

// SAFETY: Envoy lets any thread commit an event, and delete a scheduler; nothing else is done with it.
unsafe impl Send for Scheduler {}

impl Wake for Scheduler {
    fn wake(&self) {
        // SAFETY: it is deleted when this is dropped, and not before.
        unsafe { (self.callbacks.http_filter_scheduler_commit)(self.scheduler, self.event) }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { (self.callbacks.http_filter_scheduler_delete)(self.scheduler) }
    }
}

/// Envoy's configuration object, while the hook runs that makes a configuration of it.
#[derive(Debug)]
struct EnvoyConfig<'h> {
    envoy: Object,
    callbacks: &'static Callbacks,
    hook: PhantomData<&'h mut ()>,
}

impl EnvoyConfig<'_> {
    fn define(
        &self,
        name: &str,
        labels: &[&str],
        define: unsafe extern "C" fn(Object, Buf, *const Buf, usize, *mut usize) -> i32,
    ) -> Option<MetricId> {
        let labels: Vec<Buf> = labels.iter().map(|label| Buf::of(label.as_bytes())).collect();
        let (name, mut id) = (Buf::of(name.as_bytes()), 0);
        // SAFETY: the configuration lives while its hook runs; Envoy copies names and writes one number.
        let result =
            unsafe { define(self.envoy, name, labels.as_ptr(), labels.len(), &raw mut id) };
        (result == 0).then_some(MetricId(id))
    }
}

impl Metrics for EnvoyConfig<'_> {
    fn counter(&mut self, name: &str, labels: &[&str]) -> Option<MetricId> {
        self.define(name, labels, self.callbacks.http_filter_config_define_counter)
    }

    fn gauge(&mut self, name: &str, labels: &[&str]) -> Option<MetricId> {
        self.define(name, labels, self.callbacks.http_filter_config_define_gauge)
    }

    fn histogram(&mut self, name: &str, labels: &[&str]) -> Option<MetricId> {
        self.define(name, labels, self.callbacks.http_filter_config_define_histogram)
    }
}

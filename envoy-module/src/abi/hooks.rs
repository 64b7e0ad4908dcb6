//! The hooks that Envoy calls.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use super::{
    Arc, Buf, CALLBACKS, EnvoyConfig, EnvoyStream, Header, Object, Pair, PhantomData, Scheduler,
    VERSION, c_char, c_void, is_validation_mode, load_callbacks, log, ptr, wakeup,
};
use crate::{
    metrics::Error,
    role::{OneStream, Role},
    route::Route,
    startup,
    stream::{Called, Half, Level, Next},
};

/// A stream's filter. All of its hooks run on the thread of the stream; what a hook does can destroy it, and call other
/// hooks of it.
struct Cell(RefCell<OneStream<Scheduler>>);

/// What Envoy is told that goes on, or waits, in each kind of hook.
mod status {
    pub(super) const CONTINUE: i32 = 0;
    /// Of headers and trailers.
    pub(super) const STOP: i32 = 1;
    /// Of bodies: the piece is kept.
    pub(super) const STOP_AND_BUFFER: i32 = 1;
    pub(super) const STOP_AND_WATERMARK: i32 = 2;
    /// The piece is not kept.
    pub(super) const STOP_NO_BUFFER: i32 = 3;
}

/// Does the work of a hook; `otherwise` if that panics. An unwinding panic must not reach Envoy.
fn guarded<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    // The state that a panic leaves behind is dropped, and not used again.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

/// Makes the panics of this library lines in Envoy's log.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let words = panic.payload();
        let text = { words.downcast_ref::<&str>().copied() }
            .or_else(|| words.downcast_ref::<String>().map(String::as_str));
        log(Level::Error, &format!("glacis: a panic at {place}: {}", text.unwrap_or_default()));
    }));
}

/// Once, when Envoy has loaded the library. Null refuses to be loaded.
#[unsafe(no_mangle)]
pub(super) extern "C" fn envoy_dynamic_module_on_program_init() -> *const c_char {
    guarded(ptr::null(), || match load_callbacks() {
        Ok(()) => {
            log_panics();
            crate::log::init(log);
            startup::init(is_validation_mode);
            VERSION.as_ptr()
        }
        Err(_) => ptr::null(),
    })
}

/// A filter configuration. Null refuses it.
///
/// # Safety
/// Envoy passes its configuration object, and buffers that live as long as the call.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    envoy: Object,
    name: Buf,
    config: Buf,
) -> *const c_void {
    guarded(ptr::null(), || {
        let Some(callbacks) = CALLBACKS.get() else { return ptr::null() };
        // SAFETY: the buffers live as long as this hook.
        let (name, config) = unsafe { (name.bytes(), config.bytes()) };
        let mut envoy = EnvoyConfig { envoy, callbacks, hook: PhantomData };
        match Role::new(name, config, &mut envoy) {
            Ok(role) => Arc::into_raw(Arc::new(role)).cast(),
            Err(message) => {
                log(Level::Error, &format!("glacis: the configuration is refused: {message}"));
                ptr::null()
            }
        }
    })
}

/// # Safety
/// Envoy passes what the hook above has returned, once, when no filter uses it any more.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(
    config: *const c_void,
) {
    guarded((), || {
        if !config.is_null() {
            // SAFETY: it came from `Arc::into_raw`, and Envoy gives its reference up.
            drop(unsafe { Arc::from_raw(config.cast::<Role>()) });
        }
    });
}

/// Runs a hook of a configuration.
///
/// # Safety
/// Envoy passes a configuration whose hook is running, and what the hook above has returned for it.
unsafe fn configured(
    envoy: Object,
    config: *const c_void,
    work: impl FnOnce(&Role, &mut EnvoyConfig<'_>),
) {
    guarded((), || {
        let Some(callbacks) = CALLBACKS.get().filter(|_| !config.is_null()) else { return };
        // SAFETY: Envoy keeps the configuration while it calls the hook.
        let role = unsafe { &*config.cast::<Role>() };
        work(role, &mut EnvoyConfig { envoy, callbacks, hook: PhantomData });
    });
}

/// A thread of the library wakes a configuration, on Envoy's main thread.
///
/// # Safety
/// As for [`configured`].
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    envoy: Object,
    config: *const c_void,
    _event: u64,
) {
    // SAFETY: Envoy's promise is the same.
    unsafe { configured(envoy, config, |role, envoy| role.scheduled(envoy)) };
}

/// The answer to an HTTP call of a configuration has come, or will not.
///
/// # Safety
/// As for [`configured`]; headers and pieces of the body live as long as the call.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_callout_done(
    envoy: Object,
    config: *const c_void,
    number: u64,
    result: i32,
    headers: *const Pair,
    headers_size: usize,
    chunks: *const Buf,
    chunks_size: usize,
) {
    const SUCCESS: i32 = 0;
    let (headers, chunks) = match result {
        // SAFETY: Envoy's promise.
        SUCCESS => unsafe { (slice(headers, headers_size), slice(chunks, chunks_size)) },
        _ => (&[][..], &[][..]),
    };
    // SAFETY: Envoy's promise.
    let header =
        |pair: &Pair| unsafe { Header { name: pair.key.bytes(), value: pair.value.bytes() } };
    let called = Called {
        number,
        headers: headers.iter().map(header).collect(),
        // SAFETY: Envoy's promise.
        body: chunks.iter().map(|chunk| unsafe { chunk.bytes() }).collect(),
    };
    // SAFETY: Envoy's promise is the same.
    unsafe { configured(envoy, config, |role, envoy| role.called(envoy, &called)) };
}

/// An array of Envoy's.
///
/// # Safety
/// It must stay valid and unchanged for `'a`, if it is not null.
const unsafe fn slice<'a, T>(first: *const T, length: usize) -> &'a [T] {
    if first.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the pointer is not null, and the caller vouches for the rest.
    unsafe { core::slice::from_raw_parts(first, length) }
}

/// What one route says. Null refuses it.
///
/// # Safety
/// Envoy passes buffers that live as long as the call.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    _name: Buf,
    config: Buf,
) -> *const c_void {
    guarded(ptr::null(), || {
        // SAFETY: the buffer lives as long as this hook.
        match Route::new(unsafe { config.bytes() }) {
            Ok(route) => Arc::into_raw(Arc::new(route)).cast(),
            Err(message) => {
                log(Level::Error, &format!("glacis: a route is refused: {message}"));
                ptr::null()
            }
        }
    })
}

/// # Safety
/// Envoy passes what the hook above has returned, once.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(
    config: *const c_void,
) {
    guarded((), || {
        if !config.is_null() {
            // SAFETY: it came from `Arc::into_raw`, and Envoy gives its reference up.
            drop(unsafe { Arc::from_raw(config.cast::<Route>()) });
        }
    });
}

/// The filter of a new stream.
///
/// # Safety
/// Envoy passes what the hook for the configuration has returned.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(
    config: *const c_void,
    _envoy: Object,
) -> *const c_void {
    guarded(ptr::null(), || {
        if config.is_null() {
            return ptr::null();
        }
        // SAFETY: Envoy keeps the configuration while it makes filters of it.
        let role = unsafe { &*config.cast::<Role>() };
        Rc::into_raw(Rc::new(Cell(RefCell::new(role.stream())))).cast()
    })
}

/// # Safety
/// Envoy passes what the hook above has returned, once.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(filter: *const c_void) {
    guarded((), || {
        if !filter.is_null() {
            // SAFETY: it came from `Rc::into_raw`, and Envoy gives its reference up. A hook that is running has one of
            // its own.
            drop(unsafe { Rc::from_raw(filter.cast::<Cell>()) });
        }
    });
}

/// Runs a hook of a stream and does what it asks for. Says whether and how the message waits.
///
/// # Safety
/// Envoy passes a stream whose hook is running, and the filter that it has for it.
unsafe fn run(
    envoy: Object,
    filter: *const c_void,
    work: impl FnOnce(&mut OneStream<Scheduler>, &mut EnvoyStream<'_>) -> Next,
) -> Waits {
    guarded(Waits::Dropped, || {
        let Some(callbacks) = CALLBACKS.get().filter(|_| !filter.is_null()) else {
            return Waits::Dropped;
        };
        let filter: *const Cell = filter.cast();
        // SAFETY: Envoy's reference is alive while it calls the hook; this one is of our own, as what follows may destroy
        // Envoy's.
        let cell = unsafe {
            Rc::increment_strong_count(filter);
            Rc::from_raw(filter)
        };
        let mut stream = EnvoyStream { envoy, callbacks, hook: PhantomData };
        // A hook within a hook of the same stream: Envoy answers on its own behalf. Nothing is decided there.
        let Ok(mut exchange) = cell.0.try_borrow_mut() else { return Waits::No };
        let next = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            assert!(!PANICS.take(), "the test wants it");
            work(&mut exchange, &mut stream)
        }));
        let next = next.unwrap_or_else(|_| exchange.give_up(Error::Fault));
        drop(exchange);
        match next {
            Next::Continue => Waits::No,
            Next::Hold => Waits::Buffered,
            Next::HoldAndSlowDown => Waits::Slowed,
            Next::Drop => Waits::Dropped,
            Next::Reply(reply) => {
                stream.reply(&reply);
                Waits::Dropped
            }
            Next::Resume(half) => {
                stream.resume(half);
                Waits::No
            }
        }
    })
}

/// What happens to the message of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    No,
    Buffered,
    Slowed,
    Dropped,
}

impl Waits {
    const fn of_headers(self) -> i32 {
        match self {
            Self::No => status::CONTINUE,
            Self::Buffered | Self::Slowed | Self::Dropped => status::STOP,
        }
    }

    const fn of_body(self) -> i32 {
        match self {
            Self::No => status::CONTINUE,
            Self::Buffered => status::STOP_AND_BUFFER,
            Self::Slowed => status::STOP_AND_WATERMARK,
            Self::Dropped => status::STOP_NO_BUFFER,
        }
    }
}

/// Declares a hook of a stream: its name, whether it is told of the end of the stream, and how it answers.
macro_rules! hooks {
    ($($hook:ident $method:ident($half:ident $(, $end:ident)?) $answer:ident;)*) => {
        $(
            /// # Safety
            /// Envoy passes a stream whose hook is running, and the filter that it has for it.
            #[unsafe(no_mangle)]
            pub(super) unsafe extern "C" fn $hook(
                envoy: Object,
                filter: *const c_void,
                $($end: bool,)?
            ) -> i32 {
                // SAFETY: Envoy's promise is the same.
                unsafe {
                    run(envoy, filter, |exchange, stream| {
                        exchange.$method(stream, Half::$half $(, $end)?)
                    })
                }
                .$answer()
            }
        )*
    };
}

hooks! {
    envoy_dynamic_module_on_http_filter_request_headers headers(Request, end) of_headers;
    envoy_dynamic_module_on_http_filter_request_body body(Request, end) of_body;
    envoy_dynamic_module_on_http_filter_request_trailers trailers(Request) of_headers;
    envoy_dynamic_module_on_http_filter_response_headers headers(Response, end) of_headers;
    envoy_dynamic_module_on_http_filter_response_body body(Response, end) of_body;
    envoy_dynamic_module_on_http_filter_response_trailers trailers(Response) of_headers;
}

/// Another thread wakes the stream.
///
/// # Safety
/// As for the other hooks of a stream.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_scheduled(
    envoy: Object,
    filter: *const c_void,
    event: u64,
) {
    // SAFETY: Envoy's promise is the same.
    unsafe { run(envoy, filter, |exchange, stream| exchange.woken(stream, wakeup(event))) };
}

/// The stream is over; access logs are not yet written.
///
/// # Safety
/// As for the other hooks of a stream.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn envoy_dynamic_module_on_http_filter_stream_complete(
    envoy: Object,
    filter: *const c_void,
) {
    // SAFETY: Envoy's promise is the same.
    unsafe { run(envoy, filter, |exchange, stream| exchange.complete(stream)) };
}

/// Hooks that Envoy demands, for what this filter does not use.
macro_rules! unused_hooks {
    ($($hook:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $hook() {}
        )*
    };
}

unused_hooks! {
    envoy_dynamic_module_on_http_filter_http_callout_done
    envoy_dynamic_module_on_http_filter_http_stream_headers
    envoy_dynamic_module_on_http_filter_http_stream_data
    envoy_dynamic_module_on_http_filter_http_stream_trailers
    envoy_dynamic_module_on_http_filter_http_stream_complete
    envoy_dynamic_module_on_http_filter_http_stream_reset
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark
}

#[cfg(test)]
thread_local! {
    /// Whether the next hook of a stream panics.
    static PANICS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Has the next hook of a stream on this thread panic.
#[cfg(test)]
pub(super) fn panic_next() {
    PANICS.set(true);
}

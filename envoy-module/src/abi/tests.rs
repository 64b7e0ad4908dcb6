//! A host of the test's own instead of Envoy: it calls the hooks as Envoy does, in orders that Envoy would not.
#![allow(clippy::undocumented_unsafe_blocks, reason = "all of it is the test's own memory")]

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use super::{hooks as module, *};
use crate::startup::tests::PRETENDED;

/// What Envoy keeps of one stream.
#[derive(Default)]
struct Fake {
    /// By number of the map.
    maps: [Vec<(Vec<u8>, Vec<u8>)>; 4],
    /// What the running body hook was called for.
    received: Vec<Vec<u8>>,
    route: *const c_void,
    buffer_limit: u64,
    replies: Vec<(u32, String)>,
    resumed: usize,
    metadata: usize,
    /// Filter state that was set.
    state: Vec<String>,
    /// Calls hooks from within callbacks, and destroys the filter there, as Envoy may.
    destroys: bool,
    filter: *const c_void,
}

thread_local! {
    static SEEN: RefCell<Seen> = RefCell::default();
}

/// What is not of one stream.
#[derive(Default)]
struct Seen {
    attribute: Vec<u8>,
}

/// Streams that threads have woken, by address of their fake, each with the number of its event.
static WOKEN: Mutex<VecDeque<(usize, u64)>> = Mutex::new(VecDeque::new());
/// Schedulers that were made and not deleted.
static SCHEDULERS: Mutex<usize> = Mutex::new(0);
/// The tests share Envoy's side.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

unsafe fn fake<'f>(envoy: Object) -> &'f mut Fake {
    // SAFETY: every object that the test passes is one of its fakes.
    unsafe { &mut *envoy.cast::<Fake>() }
}

unsafe extern "C" fn ignore_log(_: i32, _: Buf) {}
unsafe extern "C" fn no() -> bool {
    false
}
unsafe extern "C" fn headers_size(envoy: Object, map: i32) -> usize {
    unsafe { fake(envoy) }.maps[map as usize].len()
}
unsafe extern "C" fn headers(envoy: Object, map: i32, out: *mut Pair) -> bool {
    for (at, (key, value)) in unsafe { fake(envoy) }.maps[map as usize].iter().enumerate() {
        unsafe { out.add(at).write(Pair::of(key, value)) };
    }
    true
}
unsafe extern "C" fn set_header(envoy: Object, map: i32, key: Buf, _: Buf) -> bool {
    let name = unsafe { key.bytes() }.to_vec();
    // The memory of the map moves: what was borrowed of it must not be used any more.
    let map = &mut unsafe { fake(envoy) }.maps[map as usize];
    *map = map.iter().filter(|(key, _)| *key != name).cloned().collect();
    true
}
unsafe extern "C" fn chunks_size(envoy: Object, _: i32) -> usize {
    unsafe { fake(envoy) }.received.len()
}
unsafe extern "C" fn chunks(envoy: Object, _: i32, out: *mut Buf) -> bool {
    for (at, chunk) in unsafe { fake(envoy) }.received.iter().enumerate() {
        unsafe { out.add(at).write(Buf::of(chunk)) };
    }
    true
}
unsafe extern "C" fn drain_body(envoy: Object, _: i32, _: usize) -> bool {
    unsafe { fake(envoy) }.received.clear();
    true
}
unsafe extern "C" fn append_body(envoy: Object, _: i32, bytes: Buf) -> bool {
    unsafe { fake(envoy) }.received.push(unsafe { bytes.bytes() }.to_vec());
    true
}
unsafe extern "C" fn buffer_limit(envoy: Object) -> u64 {
    unsafe { fake(envoy) }.buffer_limit
}
unsafe extern "C" fn set_buffer_limit(envoy: Object, limit: u64) {
    unsafe { fake(envoy) }.buffer_limit = limit;
}
unsafe extern "C" fn send_response(
    envoy: Object,
    status: u32,
    _: *const Pair,
    _: usize,
    _: Buf,
    details: Buf,
) {
    let details = String::from_utf8(unsafe { details.bytes() }.to_vec()).unwrap();
    unsafe { fake(envoy) }.replies.push((status, details));
    unsafe { within(envoy) };
}
unsafe extern "C" fn resume(envoy: Object) {
    unsafe { fake(envoy) }.resumed += 1;
    unsafe { within(envoy) };
}

/// What Envoy may do before a callback returns: the answer goes through the filter, and the stream ends.
unsafe fn within(envoy: Object) {
    let filter = unsafe { fake(envoy) }.filter;
    if unsafe { fake(envoy) }.destroys && !filter.is_null() {
        unsafe {
            module::envoy_dynamic_module_on_http_filter_response_headers(envoy, filter, false);
            module::envoy_dynamic_module_on_http_filter_stream_complete(envoy, filter);
            fake(envoy).filter = ptr::null();
            module::envoy_dynamic_module_on_http_filter_destroy(filter);
        }
    }
}
unsafe extern "C" fn attribute(_: Object, id: i32, out: *mut Buf) -> bool {
    SEEN.with_borrow_mut(|seen| {
        seen.attribute = match id {
            10 => b"HTTP/1.1".to_vec(),
            24 => b"192.0.2.1:4711".to_vec(),
            _ => return false,
        };
        unsafe { out.write(Buf::of(&seen.attribute)) };
        true
    })
}
unsafe extern "C" fn metadata_string(_: Object, _: i32, _: Buf, _: Buf, _: *mut Buf) -> bool {
    false
}
unsafe extern "C" fn list_size(_: Object, _: i32, _: Buf, _: Buf, _: *mut usize) -> bool {
    false
}
unsafe extern "C" fn add_string(_: Object, _: Buf, _: Buf, _: Buf) -> bool {
    true
}
unsafe extern "C" fn set_string(envoy: Object, _: Buf, _: Buf, value: Buf) {
    unsafe { fake(envoy) }.metadata += unsafe { value.bytes() }.len();
}
unsafe extern "C" fn set_number(_: Object, _: Buf, _: Buf, _: f64) {}
unsafe extern "C" fn route(envoy: Object) -> *const c_void {
    unsafe { fake(envoy) }.route
}
unsafe extern "C" fn define(_: Object, _: Buf, _: *const Buf, _: usize, id: *mut usize) -> i32 {
    unsafe { id.write(1) };
    0
}
unsafe extern "C" fn add(_: Object, _: usize, labels: *const Buf, count: usize, _: u64) -> i32 {
    for at in 0..count {
        assert!(core::str::from_utf8(unsafe { (*labels.add(at)).bytes() }).is_ok());
    }
    0
}
unsafe extern "C" fn scheduler_new(envoy: Object) -> Object {
    *SCHEDULERS.lock().unwrap() += 1;
    Box::into_raw(Box::new(envoy as usize)).cast()
}
unsafe extern "C" fn scheduler_commit(scheduler: Object, event: u64) {
    WOKEN.lock().unwrap().push_back((unsafe { *scheduler.cast::<usize>() }, event));
}
unsafe extern "C" fn scheduler_delete(scheduler: Object) {
    *SCHEDULERS.lock().unwrap() -= 1;
    drop(unsafe { Box::from_raw(scheduler.cast::<usize>()) });
}

unsafe extern "C" fn filter_state(_: Object, _: Buf, _: *mut Buf) -> bool {
    false
}
unsafe extern "C" fn set_filter_state(envoy: Object, name: Buf, text: Buf) -> bool {
    let text = unsafe { [name.bytes(), b"=", text.bytes()].concat() };
    unsafe { fake(envoy) }.state.push(String::from_utf8(text).unwrap());
    true
}
unsafe extern "C" fn add_header(_: Object, _: i32, _: Buf, _: Buf) -> bool {
    true
}
unsafe extern "C" fn callout(
    _: Object,
    number: *mut u64,
    _: Buf,
    _: *const Pair,
    _: usize,
    _: Buf,
    _: u64,
) -> i32 {
    unsafe { number.write(7) };
    0
}

const STUBS: Callbacks = Callbacks {
    log: ignore_log,
    is_validation_mode: no,
    http_get_headers_size: headers_size,
    http_get_headers: headers,
    http_set_header: set_header,
    http_get_body_chunks_size: chunks_size,
    http_get_body_chunks: chunks,
    http_drain_body: drain_body,
    http_append_body: append_body,
    http_get_buffer_limit: buffer_limit,
    http_set_buffer_limit: set_buffer_limit,
    http_send_response: send_response,
    http_filter_get_attribute_string: attribute,
    http_get_metadata_string: metadata_string,
    http_get_metadata_list_size: list_size,
    http_add_dynamic_metadata_list_string: add_string,
    http_set_dynamic_metadata_string: set_string,
    http_set_dynamic_metadata_number: set_number,
    get_most_specific_route_config: route,
    http_filter_config_define_counter: define,
    http_filter_config_define_gauge: define,
    http_filter_config_define_histogram: define,
    http_filter_increment_counter: add,
    http_filter_set_gauge: add,
    http_filter_record_histogram_value: add,
    http_filter_scheduler_new: scheduler_new,
    http_filter_scheduler_commit: scheduler_commit,
    http_filter_scheduler_delete: scheduler_delete,
    http_filter_continue_decoding: resume,
    http_filter_continue_encoding: resume,
    http_get_filter_state_bytes: filter_state,
    http_set_filter_state_bytes: set_filter_state,
    http_add_header: add_header,
    http_filter_config_scheduler_new: scheduler_new,
    http_filter_config_scheduler_commit: scheduler_commit,
    http_filter_config_scheduler_delete: scheduler_delete,
    http_filter_config_http_callout: callout,
    http_set_dynamic_metadata_struct: None,
};

/// Envoy's side, for one test at a time.
fn stubs() -> MutexGuard<'static, ()> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let _ = CALLBACKS.set(STUBS);
    guard
}

/// Rules of each phase; bodies of more than a hundred bytes are evaluated elsewhere.
const CONFIG: &str = r#"{
    "base": false,
    "response": "full",
    "inline_body_bytes": 100,
    "inline_header_bytes": 400,
    "evaluation_threads": 1,
    "evaluation_queue_max": 2,
    "reload_seconds": 1,
    "audit": {"stdout": false},
    "directives": "SecRuleEngine On\nSecRequestBodyAccess On\nSecResponseBodyAccess On\nSecRequestBodyLimit 4000\nSecResponseBodyLimit 4000\nSecResponseBodyMimeType text/plain\nSecRule ARGS|REQUEST_HEADERS|REQUEST_BODY \"@contains attack\" \"id:1,phase:2,deny\"\nSecRule RESPONSE_BODY \"@contains secret\" \"id:2,phase:4,deny\"\n"
}"#;

fn config(text: &str) -> *const c_void {
    let (name, config) = (Buf::of(b"waf"), Buf::of(text.as_bytes()));
    unsafe { module::envoy_dynamic_module_on_http_filter_config_new(ptr::null_mut(), name, config) }
}

/// A generator of the test's own (xorshift), so that a run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn is(&mut self, one_of: u64) -> bool {
        self.below(one_of) == 0
    }

    fn fields(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let all: [(&[u8], &[u8]); 12] = [
            (b":method", b"POST"),
            (b":method", b"GET"),
            (b":path", b"/?a=attack"),
            (b":path", b"/\xff?a=b"),
            (b":authority", b"shop.example"),
            (b":status", b"200"),
            (b"content-type", b"text/plain"),
            (b"content-type", b"application/grpc"),
            (b"content-length", b"99999999"),
            (b"upgrade", b"websocket"),
            (b"", b""),
            (b"x-request-id", b"7f9c2ba4"),
        ];
        (0..self.below(70))
            .map(|_| {
                let (name, value) = all[self.below(12) as usize];
                (name.to_vec(), value.to_vec())
            })
            .collect()
    }

    fn pieces(&mut self) -> Vec<Vec<u8>> {
        (0..self.below(4))
            .map(|_| {
                let text: &[u8] =
                    [b"harmless ".as_slice(), b"attack", b"secret", b""][self.below(4) as usize];
                text.repeat(self.below(200) as usize)
            })
            .collect()
    }
}

/// Runs one hook of a stream that exists.
fn any_hook(random: &mut Random, fake: &mut Fake) {
    let (filter, end) = (fake.filter, random.is(3));
    for map in &mut fake.maps {
        if random.is(2) {
            *map = random.fields();
        }
    }
    fake.received = random.pieces();
    fake.destroys = random.is(4);
    let envoy: Object = ptr::from_mut(fake).cast();
    unsafe {
        match random.below(9) {
            0 | 1 => {
                module::envoy_dynamic_module_on_http_filter_request_headers(envoy, filter, end)
            }
            2 | 3 => module::envoy_dynamic_module_on_http_filter_request_body(envoy, filter, end),
            4 => module::envoy_dynamic_module_on_http_filter_request_trailers(envoy, filter),
            5 => module::envoy_dynamic_module_on_http_filter_response_headers(envoy, filter, end),
            6 => module::envoy_dynamic_module_on_http_filter_response_body(envoy, filter, end),
            7 => module::envoy_dynamic_module_on_http_filter_response_trailers(envoy, filter),
            _ => {
                let event = random.below(4);
                module::envoy_dynamic_module_on_http_filter_scheduled(envoy, filter, event);
                0
            }
        };
    }
}

/// What was woken is told of it, if it is still there.
fn wake(streams: &mut [Box<Fake>]) {
    while let Some((woken, event)) = { WOKEN.lock().unwrap().pop_front() } {
        let found = streams.iter_mut().find(|fake| ptr::from_ref(&***fake) as usize == woken);
        if let Some(fake) = found.filter(|fake| !fake.filter.is_null()) {
            let (envoy, filter) = (ptr::from_mut(&mut **fake).cast(), fake.filter);
            unsafe { module::envoy_dynamic_module_on_http_filter_scheduled(envoy, filter, event) };
        }
    }
}

fn destroy(fake: &mut Fake) {
    if !fake.filter.is_null() {
        let filter = core::mem::replace(&mut fake.filter, ptr::null());
        unsafe { module::envoy_dynamic_module_on_http_filter_destroy(filter) };
    }
}

/// Any hooks in any order, on streams that come and go, with answers that destroy the filter before they return: no
/// access to what is gone (which a sanitizer sees), no panic, no stream that is answered twice.
#[test]
fn hooks_in_any_order() {
    let _guard = stubs();
    let route = {
        let text = Buf::of(br#"{"profile": "nobody"}"#);
        unsafe { module::envoy_dynamic_module_on_http_filter_per_route_config_new(Buf::NULL, text) }
    };
    for seed in 1..=8_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // With and without rules at the beginning.
        PRETENDED.set(seed % 2 == 0);
        let config = config(&CONFIG.replace("\"id:1,", &format!("\"id:{seed}1,")));
        PRETENDED.set(false);
        assert!(!config.is_null());
        let mut streams: Vec<Box<Fake>> = (0..4).map(|_| Box::default()).collect();
        for _ in 0..500 {
            wake(&mut streams);
            let at = random.below(4) as usize;
            let fake = &mut streams[at];
            if fake.filter.is_null() {
                assert!(fake.replies.len() <= 1, "answered twice: {:?}", fake.replies);
                **fake = Fake::default();
                fake.route = if random.is(4) { route } else { ptr::null() };
                let envoy = ptr::from_mut(&mut **fake).cast();
                fake.filter =
                    unsafe { module::envoy_dynamic_module_on_http_filter_new(config, envoy) };
                assert!(!fake.filter.is_null());
            } else if random.is(12) {
                destroy(fake);
            } else {
                any_hook(&mut random, fake);
            }
        }
        streams.iter_mut().for_each(|fake| destroy(fake));
        unsafe { module::envoy_dynamic_module_on_http_filter_config_destroy(config) };
    }
    unsafe { module::envoy_dynamic_module_on_http_filter_per_route_config_destroy(route) };
    assert_eq!(*SCHEDULERS.lock().unwrap(), 0, "schedulers that were not deleted");
}

fn fields(pairs: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

/// A stream whose request has these headers.
fn stream(config: *const c_void, headers: &[(&str, &str)]) -> Box<Fake> {
    let mut fake = Box::<Fake>::default();
    fake.maps[0] = fields(headers);
    fake.filter = unsafe {
        module::envoy_dynamic_module_on_http_filter_new(config, ptr::from_mut(&mut *fake).cast())
    };
    fake
}

mod checks;

/// A panic in each hook ends in a 503 of our own, and in nothing worse.
#[test]
fn a_panic_is_a_503() {
    let _guard = stubs();
    let config = config(CONFIG);
    for hook in 0..6 {
        let mut fake = stream(config, &[(":method", "POST"), (":path", "/")]);
        let (envoy, filter): (Object, _) = (ptr::from_mut(&mut *fake).cast(), fake.filter);
        module::panic_next();
        let status = unsafe {
            match hook {
                0 => {
                    module::envoy_dynamic_module_on_http_filter_request_headers(envoy, filter, true)
                }
                1 => module::envoy_dynamic_module_on_http_filter_request_body(envoy, filter, true),
                2 => module::envoy_dynamic_module_on_http_filter_request_trailers(envoy, filter),
                3 => module::envoy_dynamic_module_on_http_filter_response_headers(
                    envoy, filter, true,
                ),
                4 => module::envoy_dynamic_module_on_http_filter_response_body(envoy, filter, true),
                _ => module::envoy_dynamic_module_on_http_filter_response_trailers(envoy, filter),
            }
        };
        assert_ne!(status, 0, "hook {hook} goes on");
        assert_eq!(fake.replies, [(503, "glacis_fault".to_owned())], "hook {hook}");
        destroy(&mut fake);
    }
    unsafe { module::envoy_dynamic_module_on_http_filter_config_destroy(config) };
}

/// What one request is answered, by the real rules and the real threads.
#[test]
fn requests_are_judged() {
    let _guard = stubs();
    judge_requests(config(CONFIG));
}

/// Rules that are not ready yet are waited for.
#[test]
fn requests_wait_for_rules() {
    let _guard = stubs();
    for number in 2..6 {
        PRETENDED.set(true);
        let config = config(&CONFIG.replace("\"id:1,", &format!("\"id:{number}2,")));
        PRETENDED.set(false);
        judge_requests(config);
    }
}

/// Rules that do not become ready end the wait with a 503, and so do all that come afterwards.
#[test]
fn rules_that_fail_are_a_503() {
    let _guard = stubs();
    // The check passes it; the automaton is too large.
    let rules = r#"{"base": false, "audit": {"stdout": false}, "reload_seconds": 0,
        "directives": "SecRule ARGS \"@rx (?:(?:(?:a{1,999}b){1,999}c){1,999})\" \"id:1,phase:2,deny\""}"#;
    PRETENDED.set(true);
    let config = config(rules);
    PRETENDED.set(false);
    assert!(!config.is_null());
    for _ in 0..2 {
        let mut fake = stream(config, &[(":method", "GET"), (":path", "/")]);
        let (envoy, filter): (Object, _) = (ptr::from_mut(&mut *fake).cast(), fake.filter);
        let status = unsafe {
            module::envoy_dynamic_module_on_http_filter_request_headers(envoy, filter, true)
        };
        assert_eq!(status, 1);
        for _ in 0..2_000 {
            if !fake.replies.is_empty() {
                break;
            }
            std::thread::sleep(core::time::Duration::from_millis(5));
            wake(core::slice::from_mut(&mut fake));
        }
        assert_eq!(fake.replies, [(503, "glacis_not_ready".to_owned())]);
        destroy(&mut fake);
    }
    unsafe { module::envoy_dynamic_module_on_http_filter_config_destroy(config) };
}

fn judge_requests(config: *const c_void) {
    assert!(!config.is_null());
    let large = |text: &str| format!("{}{text}", "harmless ".repeat(50));
    let (long, hostile) = (format!("/?b={}", large("")), format!("/?a={}", large("attack")));
    for (path, body, expected) in [
        (&*long, None, None),
        (&hostile, None, Some(403)),
        (&long, Some("harmless".to_owned()), None),
        (&long, Some("attack".to_owned()), Some(403)),
        (&long, Some(large("attack")), Some(403)),
        (&long, Some("a".repeat(4_001)), Some(413)),
        ("/", None, None),
        ("/?a=attack", None, Some(403)),
        ("/", Some("harmless".to_owned()), None),
        ("/", Some("attack".to_owned()), Some(403)),
        ("/", Some(large("")), None),
        ("/", Some(large("attack")), Some(403)),
        ("/", Some("a".repeat(4_001)), Some(413)),
    ] {
        let form = ("content-type", "application/x-www-form-urlencoded");
        let mut fake = stream(config, &[(":method", "POST"), (":path", path), form]);
        let (envoy, filter): (Object, _) = (ptr::from_mut(&mut *fake).cast(), fake.filter);
        let mut status = unsafe {
            module::envoy_dynamic_module_on_http_filter_request_headers(
                envoy,
                filter,
                body.is_none(),
            )
        };
        if let Some(body) = &body {
            assert_eq!(status, 1, "the headers wait for the body");
            fake.received = vec![body.clone().into_bytes()];
            status = unsafe {
                module::envoy_dynamic_module_on_http_filter_request_body(envoy, filter, true)
            };
        }
        for _ in 0..1_000 {
            if status == 0 || fake.resumed > 0 || !fake.replies.is_empty() {
                break;
            }
            std::thread::sleep(core::time::Duration::from_millis(5));
            wake(core::slice::from_mut(&mut fake));
        }
        let answered = fake.replies.first().map(|(status, _)| *status);
        assert_eq!(answered, expected, "{path} {body:?}");
        assert!(fake.metadata > 0, "no receipt");
        destroy(&mut fake);
    }
    unsafe { module::envoy_dynamic_module_on_http_filter_config_destroy(config) };
}

#[test]
fn what_is_not_good_is_refused() {
    let _guard = stubs();
    for text in ["{", "{}", r#"{"directives": "SecRule A"}"#] {
        assert!(config(text).is_null(), "{text}");
        PRETENDED.set(true);
        assert!(config(text).is_null(), "{text}, while Envoy serves");
        PRETENDED.set(false);
    }
    let name = Buf::NULL;
    let route = Buf::of(b"{\"profil\":1}");
    assert!(
        unsafe { module::envoy_dynamic_module_on_http_filter_per_route_config_new(name, route) }
            .is_null()
    );
    // Envoy never passes null here; the hooks stand it all the same.
    unsafe {
        assert!(
            module::envoy_dynamic_module_on_http_filter_new(ptr::null(), ptr::null_mut()).is_null()
        );
        module::envoy_dynamic_module_on_http_filter_destroy(ptr::null());
        module::envoy_dynamic_module_on_http_filter_config_destroy(ptr::null());
        module::envoy_dynamic_module_on_http_filter_per_route_config_destroy(ptr::null());
    }
}

/// An Envoy that lacks an older callback is refused; one that lacks only newer ones is served.
#[test]
fn callbacks_are_looked_up() {
    let some = ptr::without_provenance_mut(1);
    let without = |missing: &'static str| {
        move |name: &CStr| {
            if name.to_str().unwrap().ends_with(missing) { ptr::null_mut() } else { some }
        }
    };
    assert!(
        Callbacks::resolve(without("nothing")).unwrap().http_set_dynamic_metadata_struct.is_some()
    );
    let older = Callbacks::resolve(without("_http_set_dynamic_metadata_struct")).unwrap();
    assert!(older.http_set_dynamic_metadata_struct.is_none());
    assert_eq!(
        Callbacks::resolve(without("_http_send_response")).unwrap_err(),
        "http_send_response"
    );
}

//! The real modules in a host of our own, which says and calls whatever a host may, in any order: no trap.
//!
//! What it keeps to is what Envoy keeps to, and the SDK relies on: contexts and calls that exist, maps of the
//! callback that is being made, names of header fields that are tokens.

use std::fs;
use std::path::PathBuf;

use glacis_tests::settings;
use wasmi::{Caller, Engine, Error, Extern, Instance, Linker, Memory, Module, Store, Val, ValType};

const OK: i32 = 0;
const NOT_FOUND: i32 = 1;
const BAD_ARGUMENT: i32 = 2;
const INTERNAL_FAILURE: i32 = 10;
const CAS_MISMATCH: i32 = 8;

/// Kinds of maps and buffers.
const REQUEST_HEADERS: i32 = 0;
const RESPONSE_HEADERS: i32 = 2;
const CALL_HEADERS: i32 = 6;
const PLUGIN_CONFIGURATION: i32 = 7;

/// Which callback is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Other,
    RequestHeaders,
    ResponseHeaders,
    CallResponse,
}

/// What the module talks to.
struct Host {
    random: u64,
    now: Now,
    /// What workers agree on by shared data while they are configured is kept.
    configuring: bool,
    agreed: Vec<u8>,
    configuration: Vec<u8>,
    /// Calls that have been made and not been answered.
    http_calls: Vec<i32>,
    grpc_calls: Vec<i32>,
    next_call: i32,
    /// What the module has said.
    log: Vec<String>,
    answers: usize,
    /// What is counted, by the number that the module is told of it.
    metrics: Vec<(String, i64)>,
    /// The headers of every request, from a host that answers always alike.
    fixed: Option<Vec<(String, Vec<u8>)>>,
}

impl Host {
    fn next(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.next(one_in) == 0
    }

    /// Nothing, pieces of what has a meaning somewhere, or any bytes.
    fn bytes(&mut self) -> Vec<u8> {
        const PIECES: [&[u8]; 20] = [
            b"/",
            b"..",
            b"%2e",
            b"%",
            b";",
            b"=",
            b"&",
            b"?",
            b"\\",
            b",",
            b":",
            b"[::1]",
            b"127.0.0.1:80",
            b"\xff\xfe",
            b"\0",
            b"a",
            b"clean",
            b"<script>",
            b"Mozilla/5.0 ",
            b"allow",
        ];
        let length = [0, 1, 3, 40, 2_000][self.next(5) as usize];
        let mut bytes = Vec::new();
        for _ in 0..length {
            match self.chance(4) {
                true => bytes.push(self.next(256) as u8),
                false => bytes.extend_from_slice(PIECES[self.next(20) as usize]),
            }
        }
        bytes
    }

    /// A map as hosts write it down: the number of fields, their lengths, names and values.
    fn map(&mut self) -> Vec<u8> {
        const NAMES: [&str; 14] = [
            ":method",
            ":path",
            ":authority",
            ":scheme",
            "host",
            "cookie",
            "user-agent",
            "accept",
            "x-forwarded-for",
            "content-length",
            "transfer-encoding",
            "upgrade",
            "x-request-id",
            "x-a",
        ];
        let count = [0, 1, 8, 40, 400][self.next(5) as usize];
        let mut fields = Vec::new();
        for _ in 0..count {
            let name = NAMES[self.next(14) as usize];
            fields.push((name, self.bytes()));
        }
        written(&fields)
    }

    /// Whether a map may be read and changed now.
    fn has_map(&self, kind: i32) -> bool {
        matches!(
            (self.now, kind),
            (Now::RequestHeaders, REQUEST_HEADERS)
                | (Now::ResponseHeaders, RESPONSE_HEADERS)
                | (Now::CallResponse, CALL_HEADERS)
        )
    }

    fn call(&mut self, http: bool) -> (i32, i32) {
        if self.chance(4) {
            return (if self.chance(2) { BAD_ARGUMENT } else { INTERNAL_FAILURE }, 0);
        }
        self.next_call += 1;
        if http { &mut self.http_calls } else { &mut self.grpc_calls }.push(self.next_call);
        (OK, self.next_call)
    }
}

/// Fields as hosts write a map down.
fn written(fields: &[(impl AsRef<[u8]>, Vec<u8>)]) -> Vec<u8> {
    let mut out = u32::try_from(fields.len()).unwrap().to_le_bytes().to_vec();
    for (name, value) in fields {
        out.extend_from_slice(&u32::try_from(name.as_ref().len()).unwrap().to_le_bytes());
        out.extend_from_slice(&u32::try_from(value.len()).unwrap().to_le_bytes());
    }
    for (name, value) in fields {
        out.extend_from_slice(&[name.as_ref(), b"\0", value, b"\0"].concat());
    }
    out
}

/// A call of the module, with its memory.
struct Call<'a, 'b> {
    caller: Caller<'a, Host>,
    parameters: &'b [Val],
}

impl Call<'_, '_> {
    fn number(&self, at: usize) -> i32 {
        self.parameters.get(at).and_then(Val::i32).unwrap_or_default()
    }

    fn memory(&self) -> Memory {
        self.caller.get_export("memory").and_then(Extern::into_memory).unwrap()
    }

    fn read(&self, address: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.number(length) as usize];
        self.memory().read(&self.caller, self.number(address) as usize, &mut bytes).unwrap();
        bytes
    }

    fn write(&mut self, address: i32, bytes: &[u8]) {
        let memory = self.memory();
        memory.write(&mut self.caller, address as usize, bytes).unwrap();
    }

    /// Gives the module bytes in memory of its own, and says where.
    fn give(&mut self, bytes: &[u8], pointer: usize, length: usize) -> Result<i32, Error> {
        let allocate =
            self.caller.get_export("proxy_on_memory_allocate").and_then(Extern::into_func);
        let allocate = allocate.unwrap().typed::<i32, i32>(&self.caller).unwrap();
        let size = i32::try_from(bytes.len()).unwrap();
        // Envoy allocates nothing for nothing.
        let place = if size == 0 { 0 } else { allocate.call(&mut self.caller, size)? };
        self.write(place, bytes);
        let (pointer, length) = (self.number(pointer), self.number(length));
        self.write(pointer, &place.to_le_bytes());
        self.write(length, &size.to_le_bytes());
        Ok(OK)
    }

    /// Something or nothing.
    fn maybe(&mut self, pointer: usize, length: usize) -> Result<i32, Error> {
        if self.caller.data_mut().chance(3) {
            return Ok(NOT_FOUND);
        }
        let bytes = self.caller.data_mut().bytes();
        self.give(&bytes, pointer, length)
    }

    /// What a host says that answers always alike: with these headers, and a store that is empty.
    fn fixed(&mut self, name: &str) -> Option<Result<i32, Error>> {
        let fields = self.caller.data().fixed.clone()?;
        Some(match name {
            "proxy_get_header_map_pairs" => self.give(&written(&fields), 1, 2),
            "proxy_get_header_map_value" => {
                let wanted = self.read(1, 2);
                match fields.iter().find(|(known, _)| known.as_bytes() == wanted) {
                    Some((_, value)) => self.give(value, 3, 4),
                    None => Ok(NOT_FOUND),
                }
            }
            "proxy_get_property" if self.read(0, 1) == b"source\0address" => {
                self.give(b"192.0.2.7:4711", 2, 3)
            }
            "proxy_get_property" | "proxy_get_shared_data" => Ok(NOT_FOUND),
            "proxy_set_shared_data" => Ok(OK),
            _ => return None,
        })
    }

    fn answer(&mut self, name: &str) -> Result<i32, Error> {
        if let Some(answer) = self.fixed(name) {
            return answer;
        }
        let kind = self.number(0);
        let host = self.caller.data_mut();
        match name {
            "proxy_log" => {
                let text = String::from_utf8_lossy(&self.read(1, 2)).into_owned();
                self.caller.data_mut().log.push(text);
            }
            "proxy_get_current_time_nanoseconds" => {
                let time = match host.chance(20) {
                    true => u64::MAX >> host.next(64),
                    false => 1_790_000_000_000_000_000 + host.next(1 << 40),
                };
                self.write(self.number(0), &time.to_le_bytes());
            }
            "proxy_get_buffer_bytes" if kind == PLUGIN_CONFIGURATION => {
                let text = host.configuration.clone();
                return self.give(&text, 3, 4);
            }
            "proxy_get_buffer_bytes" => return self.maybe(3, 4),
            "proxy_get_header_map_pairs" => {
                assert!(host.has_map(kind), "a map out of its callback");
                let map = host.map();
                return self.give(&map, 1, 2);
            }
            "proxy_get_header_map_value" => {
                assert!(host.has_map(kind), "a map out of its callback");
                return self.maybe(3, 4);
            }
            "proxy_add_header_map_value" | "proxy_replace_header_map_value" => {
                assert!(host.has_map(kind), "a map out of its callback");
            }
            "proxy_get_property" => return self.maybe(2, 3),
            "proxy_get_shared_data" => {
                let agreed = if host.configuring { Some(host.agreed.clone()) } else { None };
                if agreed.as_ref().map_or_else(|| host.chance(3), Vec::is_empty) {
                    return Ok(NOT_FOUND);
                }
                let bytes = agreed.unwrap_or_else(|| host.bytes());
                let version = host.next(1 << 32) as u32;
                self.write(self.number(4), &version.to_le_bytes());
                return self.give(&bytes, 2, 3);
            }
            "proxy_set_shared_data" if host.configuring => {
                self.caller.data_mut().agreed = self.read(2, 3);
            }
            "proxy_set_shared_data" => return Ok(if host.chance(3) { CAS_MISMATCH } else { OK }),
            "proxy_define_metric" => {
                let name = String::from_utf8_lossy(&self.read(1, 2)).into_owned();
                let metrics = &mut self.caller.data_mut().metrics;
                // Envoy would keep another entry for it each time.
                assert!(!metrics.iter().any(|(known, _)| *known == name), "{name} is there twice");
                metrics.push((name, 0));
                let number = u32::try_from(metrics.len() - 1).unwrap();
                self.write(self.number(3), &number.to_le_bytes());
            }
            "proxy_increment_metric" => {
                let count = self.parameters.get(1).and_then(Val::i64).unwrap();
                host.metrics[usize::try_from(kind).unwrap()].1 += count;
            }
            "proxy_http_call" => {
                let (status, token) = host.call(true);
                self.write(self.number(9), &token.to_le_bytes());
                return Ok(status);
            }
            "proxy_grpc_call" => {
                let (status, token) = host.call(false);
                self.write(self.number(11), &token.to_le_bytes());
                return Ok(status);
            }
            "proxy_send_local_response" => host.answers += 1,
            "random_get" => {
                let bytes: Vec<u8> =
                    (0..self.number(1)).map(|_| self.caller.data_mut().next(256) as u8).collect();
                self.write(self.number(0), &bytes);
            }
            "environ_sizes_get" => {
                self.write(self.number(0), &[0; 4]);
                self.write(self.number(1), &[0; 4]);
            }
            "proc_exit" => return Err(Error::new("the module ended itself")),
            _ => {}
        }
        Ok(OK)
    }
}

/// A module at work.
struct Running {
    store: Store<Host>,
    instance: Instance,
}

impl Running {
    fn start(file: &PathBuf, configuration: &str, random: u64) -> Self {
        let (running, accepted) = Self::configured(file, configuration, random);
        assert_eq!(accepted, Some(1), "{:?}", running.store.data().log);
        running
    }

    /// A module that has been given a configuration, and what it says to that.
    fn configured(file: &PathBuf, configuration: &str, random: u64) -> (Self, Option<i32>) {
        let engine = Engine::new(wasmi::Config::default().consume_fuel(true));
        let module = Module::new(&engine, fs::read(file).unwrap()).unwrap();
        let host = Host {
            random,
            now: Now::Other,
            configuring: true,
            agreed: Vec::new(),
            configuration: configuration.as_bytes().to_vec(),
            http_calls: Vec::new(),
            grpc_calls: Vec::new(),
            next_call: 0,
            log: Vec::new(),
            answers: 0,
            metrics: Vec::new(),
            fixed: None,
        };
        let mut store = Store::new(&engine, host);
        store.set_fuel(u64::MAX).unwrap();
        let mut linker = Linker::new(&engine);
        for import in module.imports() {
            let name = import.name().to_owned();
            let kind = import.ty().func().unwrap().clone();
            let gives = kind.results().first() == Some(&ValType::I32);
            let answer =
                move |caller: Caller<'_, Host>, parameters: &[Val], results: &mut [Val]| {
                    let status = Call { caller, parameters }.answer(&name)?;
                    if gives {
                        results[0] = Val::I32(status);
                    }
                    Ok(())
                };
            linker.func_new(import.module(), import.name(), kind, answer).unwrap();
        }
        let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
        let mut running = Self { store, instance };
        running.call("_initialize", &[]);
        running.call("proxy_on_context_create", &[ROOT, 0]);
        running.call("proxy_on_vm_start", &[ROOT, 0]);
        let length = i32::try_from(configuration.len()).unwrap();
        let accepted = running.call("proxy_on_configure", &[ROOT, length]);
        running.store.data_mut().configuring = false;
        (running, accepted)
    }

    #[track_caller]
    fn call(&mut self, name: &str, parameters: &[i32]) -> Option<i32> {
        let function =
            self.instance.get_func(&self.store, name).unwrap_or_else(|| panic!("no {name}"));
        let given = function.ty(&self.store).results().len();
        let parameters: Vec<Val> = parameters.iter().map(|number| Val::I32(*number)).collect();
        let mut results = vec![Val::I32(0); given];
        if let Err(trap) = function.call(&mut self.store, &parameters, &mut results) {
            panic!("{name} {parameters:?}: {trap}; {:?}", self.store.data().log);
        }
        results.first().and_then(Val::i32)
    }

    fn during(&mut self, now: Now, name: &str, parameters: &[i32]) -> Option<i32> {
        self.store.data_mut().now = now;
        let result = self.call(name, parameters);
        self.store.data_mut().now = Now::Other;
        result
    }

    fn next(&mut self, below: u64) -> i32 {
        i32::try_from(self.store.data_mut().next(below)).unwrap()
    }

    /// One callback of a request, whichever comes.
    fn request(&mut self, context: i32) {
        let (one, end) = (self.next(50_000), self.next(2));
        match self.next(6) {
            4 => _ = self.call("proxy_on_request_body", &[context, one, end]),
            5 => _ = self.call("proxy_on_request_trailers", &[context, end]),
            0..=2 => {
                let before = self.store.data().answers;
                let name = "proxy_on_request_headers";
                let action = self.during(Now::RequestHeaders, name, &[context, one, end]);
                // What is answered goes no further, and nothing else is held back.
                let answered = self.store.data().answers > before;
                assert_eq!(action, Some(i32::from(answered)));
            }
            _ => {
                let name = "proxy_on_response_headers";
                self.during(Now::ResponseHeaders, name, &[context, one, end]);
            }
        }
    }

    /// One callback of the plugin.
    fn root(&mut self) {
        let size = [0, 1, 100, 70_000, 9_000_000][self.next(5) as usize];
        let host = self.store.data_mut();
        match host.next(4) {
            0 if !host.http_calls.is_empty() => {
                let at = host.next(host.http_calls.len() as u64) as usize;
                let token = host.http_calls.swap_remove(at);
                let name = "proxy_on_http_call_response";
                self.during(Now::CallResponse, name, &[ROOT, token, 3, size, 0]);
            }
            1 if !host.grpc_calls.is_empty() => {
                let at = host.next(host.grpc_calls.len() as u64) as usize;
                let token = host.grpc_calls.swap_remove(at);
                match self.next(2) {
                    0 => _ = self.call("proxy_on_grpc_receive", &[ROOT, token, size]),
                    _ => _ = self.call("proxy_on_grpc_close", &[ROOT, token, 14]),
                }
            }
            2 => _ = self.call("proxy_on_grpc_close", &[ROOT, 100_000, 3]),
            _ => _ = self.call("proxy_on_tick", &[ROOT]),
        }
    }

    fn memory_bytes(&self) -> usize {
        self.instance.get_memory(&self.store, "memory").unwrap().data(&self.store).len()
    }
}

const ROOT: i32 = 1;
/// Requests at once.
const CONTEXTS_MAX: usize = 16;

const EVERYTHING: &str = r#"{
    "trusted_hops": 1,
    "geo": {"from_header": "x-country", "deny": ["FR"], "header": true},
    "asn": {"from_header": "x-asn", "deny": [64496], "header": true},
    "address_lists": {"deny": ["10.0.0.0/8"], "feeds": [{"name": "f", "cluster": "feed", "path": "/f"}]},
    "bots": {"header": true, "signatures": [{"name": "a", "contains": "a/%", "action": "deny"}]},
    "virtual_patches": [{"id": "p", "cve": "CVE-1-1", "title": "t", "rule": 9100001, "when": [
        {"target": "query", "contains": "="}, {"target": "path", "regex": "/\\.\\.(?:/|\\z)"}]}],
    FIRST
    "pending_bodies": {"per_client": 2},
    "rate_limits": [
        {"name": "a", "requests": 3, "table_entries": 64, "key": ["client_address", "host", "country",
         "asn", {"header": "h"}, {"cookie": "c"}, {"path": ["/a/{b}", "/**"]}, {"jwt_claim": "sub"}]},
        {"name": "b", "requests": 600, "per_seconds": 60, "key": [{"header": "x-key"}],
         "lease": {"cluster": "lender", "limit": "api", "unleased": 5, "away": "local", "local_requests": 7}}
    ]
}"#;

const RULES: &str = r#""first_verdict": {"seclang": "SecRuleEngine On\nSecRequestBodyAccess On\nSecRule ARGS|REQUEST_HEADERS|REQUEST_URI \"@rx (?i)<script\" \"id:1,phase:1,deny\"\nSecRule REQUEST_COOKIES|ARGS_NAMES \"@pm a b clean\" \"id:2,phase:2,pass,log,t:urlDecodeUni,t:lowercase\""},"#;

#[track_caller]
fn play(file: &PathBuf, configuration: &str, random: u64, steps: usize) {
    let mut running = Running::start(file, configuration, random);
    let (mut live, mut context, mut early) = (Vec::new(), ROOT, 0);
    for step in 0..steps {
        match running.next(10) {
            0 | 1 if live.len() < CONTEXTS_MAX => {
                context += 1;
                running.call("proxy_on_context_create", &[context, ROOT]);
                live.push(context);
            }
            2 if !live.is_empty() => {
                let at = running.next(live.len() as u64) as usize;
                running.call("proxy_on_delete", &[live.swap_remove(at)]);
            }
            3 => running.root(),
            _ if !live.is_empty() => {
                let at = running.next(live.len() as u64) as usize;
                running.request(live[at]);
            }
            _ => {}
        }
        if step == steps / 2 {
            early = running.memory_bytes();
        }
    }
    let late = running.memory_bytes();
    assert!(late <= early + (4 << 20), "memory grows: {early} to {late}");
}

/// All that a host can call: Envoy makes every callback that is there, for each piece of a body too.
#[test]
fn only_callbacks_that_do_something_are_there() {
    let expected = [
        "proxy_on_configure",
        "proxy_on_context_create",
        "proxy_on_delete",
        "proxy_on_grpc_close",
        "proxy_on_grpc_receive",
        "proxy_on_http_call_response",
        "proxy_on_memory_allocate",
        "proxy_on_request_body",
        "proxy_on_request_headers",
        "proxy_on_request_trailers",
        "proxy_on_response_headers",
        "proxy_on_tick",
        "proxy_on_vm_start",
    ];
    for file in [settings::wasm().unwrap(), settings::wasm_with_engine().unwrap()] {
        let module = Module::new(&Engine::default(), fs::read(file).unwrap()).unwrap();
        let names = module.exports().map(|export| export.name().to_owned());
        let mut found: Vec<_> = names.filter(|name| name.starts_with("proxy_on_")).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn callbacks_in_any_order_trap_nowhere() {
    let (small, large) = (settings::wasm().unwrap(), settings::wasm_with_engine().unwrap());
    let plain = EVERYTHING.replace("FIRST", "");
    for random in 1..=3 {
        play(&small, &plain, random << 32 | 7, 4_000);
    }
    play(
        &small,
        r#"{"guard": {"clean": true, "routes": [{"name": "a", "missing": "allow"}]}}"#,
        77,
        4_000,
    );
    play(&large, &EVERYTHING.replace("FIRST", RULES), 99, 3_000);
}

/// A plugin that has refused its configuration lets nothing pass, and counts it.
#[test]
fn without_a_configuration_nothing_passes() {
    let file = settings::wasm().unwrap();
    let (mut running, accepted) = Running::configured(&file, r#"{"guard": 1}"#, 7);
    assert_eq!(accepted, Some(0));
    for context in ROOT + 1..ROOT + 4 {
        running.call("proxy_on_context_create", &[context, ROOT]);
        let name = "proxy_on_request_headers";
        let action = running.during(Now::RequestHeaders, name, &[context, 1, 1]);
        assert_eq!(action, Some(1), "it goes no further");
    }
    let expected =
        ["glacis_wasm_errors_total", "glacis_wasm_verdicts_total.error.no-configuration"];
    assert_eq!(running.store.data().metrics, expected.map(|name| (name.to_owned(), 3)));
    assert_eq!(running.store.data().answers, 3);
}

/// Everything that looks at a head, but patches; and as much of it as a configuration may reasonably have.
const LOOKS: &str = r#"{
    "geo": {"from_header": "x-country", "deny": ["FR"]},
    "asn": {"from_header": "x-asn", "deny": [64496]},
    "bots": {"scanners": "tag"},
    "pending_bodies": {},
    "rate_limits": [
        {"name": "a", "requests": 1000000000},
        {"name": "b", "requests": 1000000000, "key": ["host", "method", {"header": "authorization"},
         {"cookie": "session"}, {"header": "user-agent"}, {"header": "x-key"}]},
        {"name": "c", "requests": 1000000000, "match": {"hosts": ["a.example"]}},
        {"name": "d", "requests": 1000000000, "key": [{"path": ["/{a}/x", "/{a}/{b}/x", "/a/**"]}],
         "match": {"paths": ["/login", "/{a}", "/{a}/{b}/**", "/a/{b}/c", "/{a}/{b}/{c}/{d}"]}}
    ]
}"#;

/// The longest head that Envoy takes by default, 60 KiB, costs a bounded number of instructions. `cargo xtask bench
/// filter --checks` says what the same heads take under V8: a million of these instructions take some 120 µs.
#[test]
fn no_head_costs_a_worker_much() {
    const INSTRUCTIONS_MAX: u64 = 4_000_000;
    const LONGEST: usize = 58 << 10;
    // Up to so long a path or value is compared.
    const COMPARED: usize = 8 << 10;
    let filled = |text: &str, bytes: usize| text.repeat(bytes / text.len()).into_bytes();
    let mut running = Running::start(&settings::wasm().unwrap(), LOOKS, 7);
    let many = |name: &str| -> Vec<(String, Vec<u8>)> {
        (0..90).map(|i| (name.replace('#', &i.to_string()), vec![b'v'; 600])).collect()
    };
    let mut heads: Vec<(String, Vec<(String, Vec<u8>)>)> = vec![
        ("many fields".to_owned(), many("x-field-#")),
        ("one field".to_owned(), many("x_key")),
    ];
    let rows: &[(&str, &[&str])] = &[
        (
            ":path",
            &["a", "/", "/a", "%2f", "%2e/", "/../a", ";", "/;", "\\", "%ef%bc%8e", "/. ", "?a="],
        ),
        (":authority", &["a", "a.", ":", "["]),
        (":method", &["a"]),
        ("user-agent", &["a", "Mozilla/5.0 (", "sqlmap", "Chrome/1 ", ",", "(", "\\"]),
        (
            "cookie",
            &["a=b;", "session=a;", ";", ",", "session=%61,", "=", "%61=a;", "session=\"\\141"],
        ),
        ("authorization", &["Basic ", "QUJD", ",", "a,", "\"", " ", "%41", "="]),
        ("x-key", &["a", "a,", ",", "\"\\", "(", "%41"]),
        ("accept", &["text/htm"]),
        ("x-country", &["DE,", ",", "x"]),
        ("x-asn", &["7,", "AS"]),
    ];
    for (name, texts) in rows {
        for (text, bytes) in texts.iter().flat_map(|text| [(text, COMPARED), (text, LONGEST)]) {
            let agent = b"Mozilla/5.0 (X11) Chrome/130.0 Safari/537".to_vec();
            let long = ((*name).to_owned(), filled(text, bytes));
            let head = vec![long, ("user-agent".to_owned(), agent)];
            heads.push((format!("{bytes} bytes of {name}: {text:?}"), head));
        }
    }
    let (mut context, mut most) = (ROOT, (0, String::new()));
    for (shown, fields) in heads {
        running.store.data_mut().fixed = Some(fields);
        context += 1;
        let before = running.store.get_fuel().unwrap();
        running.call("proxy_on_context_create", &[context, ROOT]);
        running.during(Now::RequestHeaders, "proxy_on_request_headers", &[context, 3, 0]);
        running.call("proxy_on_delete", &[context]);
        let spent = before - running.store.get_fuel().unwrap();
        println!("{spent:>10} {shown}");
        most = most.max((spent, shown));
    }
    assert!(most.0 > 100_000, "nothing has looked at these heads: {most:?}");
    assert!(most.0 < INSTRUCTIONS_MAX, "{} instructions for {}", most.0, most.1);
}

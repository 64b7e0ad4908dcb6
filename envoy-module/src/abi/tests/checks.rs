//! Hooks of a filter that makes checks, and of its configuration.

use super::*;

/// A list that is fetched, a limit that is leased, and bodies that are counted: all that has ticks.
const CHECKS: &str = r#"{
    "address_lists": {"deny": ["192.0.2.0/24"], "feeds": [{"name": "f", "cluster": "feed", "path": "/f"}]},
    "geo": {"from_header": "x-country", "header": true},
    "pending_bodies": {"per_client": 2},
    "rate_limits": [{"name": "api", "requests": 1000000, "key": ["host"], "headers_on_allowed": true,
                     "lease": {"cluster": "lender"}}]
}"#;

fn checks(text: &str) -> *const c_void {
    let (name, config) = (Buf::of(b"checks"), Buf::of(text.as_bytes()));
    unsafe { module::envoy_dynamic_module_on_http_filter_config_new(ptr::null_mut(), name, config) }
}

/// The client of the fake host, 192.0.2.1, is on the list.
#[test]
fn a_client_on_a_list_is_denied() {
    let _guard = stubs();
    for (text, replies, state) in [
        (
            r#"{"address_lists": {"deny": ["192.0.2.0/24"]}}"#,
            vec![(403, "glacis_denied_list".to_owned())],
            "wasm.glacis.wasm=denied:list",
        ),
        (r#"{"address_lists": {"deny": ["192.0.2.2"]}}"#, Vec::new(), "wasm.glacis.wasm=passed"),
        (
            r#"{"guard": {}}"#,
            vec![(503, "glacis_guard".to_owned())],
            "wasm.glacis.guard=missing:denied",
        ),
    ] {
        let config = checks(text);
        assert!(!config.is_null(), "{text}");
        let mut fake = stream(config, &[(":method", "GET"), (":path", "/")]);
        let (envoy, filter): (Object, _) = (ptr::from_mut(&mut *fake).cast(), fake.filter);
        let status = unsafe {
            module::envoy_dynamic_module_on_http_filter_request_headers(envoy, filter, true)
        };
        assert_eq!(status, i32::from(!replies.is_empty()), "{text}");
        assert_eq!((fake.replies.clone(), fake.state.clone()), (replies, vec![state.to_owned()]));
        destroy(&mut fake);
        unsafe { module::envoy_dynamic_module_on_http_filter_config_destroy(config) };
    }
    assert!(checks(r#"{"address_list": {}}"#).is_null(), "it is refused");
    assert_eq!(*SCHEDULERS.lock().unwrap(), 0, "schedulers that were not deleted");
}

/// Ticks and answers of calls, with whatever Envoy may hand over.
fn any_hook_of_config(random: &mut Random, config: *const c_void) {
    let (fields, pieces) = (random.fields(), random.pieces());
    let pairs: Vec<Pair> = fields.iter().map(|(name, value)| Pair::of(name, value)).collect();
    let chunks: Vec<Buf> = pieces.iter().map(|piece| Buf::of(piece)).collect();
    let (number, result) = (random.below(9), i32::from(random.is(3)));
    unsafe {
        module::envoy_dynamic_module_on_http_filter_config_scheduled(ptr::null_mut(), config, 0);
        module::envoy_dynamic_module_on_http_filter_config_http_callout_done(
            ptr::null_mut(),
            config,
            number,
            result,
            pairs.as_ptr(),
            pairs.len(),
            chunks.as_ptr(),
            chunks.len(),
        );
        module::envoy_dynamic_module_on_http_filter_config_http_callout_done(
            ptr::null_mut(),
            config,
            number,
            1,
            ptr::null(),
            0,
            ptr::null(),
            0,
        );
    }
}

/// Any hooks in any order: no access to what is gone (which a sanitizer sees), no panic, no stream answered twice.
#[test]
fn hooks_of_checks_in_any_order() {
    let _guard = stubs();
    for seed in 1..=8_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let is_open = seed % 2 == 0;
        let config = checks(&if is_open {
            CHECKS.replace("192.0.2.0/24", "192.0.3.0/24")
        } else {
            CHECKS.to_owned()
        });
        assert!(!config.is_null());
        let mut streams: Vec<Box<Fake>> = (0..4).map(|_| Box::default()).collect();
        for _ in 0..500 {
            // The configuration wakes itself, by another number than any stream has.
            WOKEN.lock().unwrap().clear();
            if random.is(5) {
                any_hook_of_config(&mut random, config);
            }
            let at = random.below(4) as usize;
            let fake = &mut streams[at];
            if fake.filter.is_null() {
                assert!(fake.replies.len() <= 1, "answered twice: {:?}", fake.replies);
                **fake = Fake::default();
                let envoy = ptr::from_mut(&mut **fake).cast();
                fake.filter =
                    unsafe { module::envoy_dynamic_module_on_http_filter_new(config, envoy) };
            } else if random.is(12) {
                destroy(fake);
            } else {
                any_hook(&mut random, fake);
            }
        }
        streams.iter_mut().for_each(|fake| destroy(fake));
        unsafe { module::envoy_dynamic_module_on_http_filter_config_destroy(config) };
    }
    assert_eq!(*SCHEDULERS.lock().unwrap(), 0, "schedulers that were not deleted");
}

//! One limit for three Envoys, whose filters borrow its tokens of ext-authz, which counts in Redis: the wasm-filter, and
//! the native module.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use glacis_tests::filter::{Counted, Filter, Host, Setup};
use glacis_tests::http::Request;
use glacis_tests::lender::{Lender, TOKEN};
use glacis_tests::log::Folder;
use glacis_tests::redis::Redis;

use crate::support::{client, eventually, folder};

/// Ten in a second, and a hundred at once; sixty may be outstanding.
const LENT: &str = "leases: {limits: [{name: api, requests: 600, per_seconds: 60, burst: 100}]}\n";
const PER_SECOND: f64 = 10.0;
const BURST: f64 = 100.0;
const OUTSTANDING: f64 = 60.0;
const UNLEASED: usize = 5;
const LOCAL: usize = 7;
const ENVOYS: usize = 3;

/// The same limit three times, for paths with each of the policies.
fn plugin(token: &str) -> String {
    let limit = |away: &str| {
        format!(
            r#"{{"name": "{away}", "requests": 600, "per_seconds": 60, "burst": 100,
                "key": [{{"header": "x-key"}}], "match": {{"paths": ["/{away}"]}},
                "lease": {{"cluster": "lender", "token": "{token}", "limit": "api", "unleased": {UNLEASED},
                           "away": "{away}", "local_requests": {LOCAL}}}}}"#
        )
    };
    format!(r#"{{"rate_limits": [{}]}}"#, ["local", "allow", "deny"].map(limit).join(","))
}

fn start(host: Host, lender: &Lender) -> Vec<Filter> {
    let plugin = plugin(TOKEN);
    let start = |i: usize| {
        let setup = Setup { plugin: &plugin, ..Setup::default() };
        let folder = folder(&format!("leases-{host:?}-{i}").to_lowercase());
        Filter::start_in(host, &folder, setup, lender.port).unwrap()
    };
    (0..ENVOYS).map(start).collect()
}

fn passes(filter: &Filter, from: Ipv4Addr, away: &str, key: &str) -> bool {
    let request = Request::get(&format!("/{away}")).header("x-key", key);
    match filter.send(from, &request).unwrap().status {
        200 => true,
        429 => false,
        other => panic!("{other}"),
    }
}

fn stat(filter: &Filter, what: Counted) -> u64 {
    filter.counted(what).unwrap()
}

#[test]
fn one_limit_for_three_wasm_filters() {
    one_limit_for_three(Host::Wasm);
}

#[test]
fn one_limit_for_three_native_modules() {
    one_limit_for_three(Host::Native);
}

fn one_limit_for_three(host: Host) {
    let mut redis =
        Redis::start(&Folder::new(&folder(&format!("leases-redis-{host:?}"))).unwrap()).unwrap();
    let config = format!("{LENT}{}", redis.store());
    let mut lender =
        Lender::start_with_token(&folder(&format!("lender-{host:?}")), &config).unwrap();
    let envoys = start(host, &lender);
    hold_the_bound(&envoys, &redis);
    let before: u64 = envoys.iter().map(|envoy| stat(envoy, Counted::LeaseFailures)).sum();
    assert_eq!(before, 0, "the lender is there: {}", lender.folder.story());
    lender.process().kill();
    follow_the_policies(&envoys[0]);
    lender.restart().unwrap();
    lends(&envoys[1], "again");
    // What is not lent for want of Redis is refused as the policy says, and lent again afterwards.
    redis.process().freeze().unwrap();
    let from = client();
    eventually("nothing is lent", Duration::from_secs(20), || {
        (0..10).all(|_| !passes(&envoys[1], from, "deny", "frozen"))
    });
    redis.process().thaw().unwrap();
    lends(&envoys[1], "thawed");
}

#[test]
fn a_wrong_token_is_lent_nothing() {
    [Host::Wasm, Host::Native].into_iter().for_each(a_wrong_token);
}

/// The lender asks for a token: whoever has another one is lent nothing, and the policy decides.
fn a_wrong_token(host: Host) {
    let lender = Lender::start_with_token(&folder("lender-token"), LENT).unwrap();
    let plugin = plugin("another-token-of-somebody");
    let setup = Setup { plugin: &plugin, ..Setup::default() };
    let filter = Filter::start_in(host, &folder("leases-token"), setup, lender.port).unwrap();
    let from = client();
    let spent = || (0..UNLEASED + 1).all(|_| passes(&filter, from, "deny", "key"));
    assert!(!spent());
    eventually("calls are refused", Duration::from_secs(10), || {
        assert!(!spent());
        stat(&filter, Counted::LeaseFailures) > 0
    });
}

/// Waits until more passes than what needs no lease.
fn lends(envoy: &Filter, key: &str) {
    let from = client();
    eventually("it lends again", Duration::from_secs(20), || {
        (0..UNLEASED + 1).all(|_| passes(envoy, from, "deny", key))
    });
}

/// All three at once, as fast as they can: the sum is that of one limit, and no more than the bound.
fn hold_the_bound(envoys: &[Filter], redis: &Redis) {
    let scripts_before = redis.scripts().unwrap();
    let begun = Instant::now();
    let until = Duration::from_secs(5);
    let counts: Vec<(usize, usize)> = thread::scope(|scope| {
        let threads: Vec<_> = envoys
            .iter()
            .map(|envoy| {
                scope.spawn(move || {
                    let (from, mut sent, mut passed) = (client(), 0, 0);
                    while begun.elapsed() < until {
                        sent += 1;
                        passed += usize::from(passes(envoy, from, "deny", "busy"));
                        // Ten times what there is, over all.
                        thread::sleep(Duration::from_millis(20));
                    }
                    (sent, passed)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let sent: usize = counts.iter().map(|(sent, _)| sent).sum();
    let passed: usize = counts.iter().map(|(_, passed)| passed).sum();
    let allowed = BURST + PER_SECOND * begun.elapsed().as_secs_f64();
    let bound = allowed + OUTSTANDING + (ENVOYS * UNLEASED) as f64;
    let calls: u64 = envoys.iter().map(|envoy| stat(envoy, Counted::LeaseCalls)).sum();
    let scripts = redis.scripts().unwrap() - scripts_before;
    eprintln!(
        "{passed} of {sent} requests passed ({counts:?}) where the limit allows {allowed:.0} and \
         the bound is {bound:.0}; {calls} calls of the lender, {scripts} round trips to Redis"
    );
    assert!(sent as f64 > bound, "too few requests to tell: {sent}");
    assert!(passed as f64 <= bound, "{passed} of at most {bound}");
    assert!(passed as f64 >= 0.7 * allowed, "{passed} of {allowed}");
    assert!(calls < sent as u64 / 4, "{calls} calls for {sent} requests");
    // What comes back is a round trip of its own.
    assert!((1..=2 * calls).contains(&scripts), "{scripts} round trips to Redis for {calls} calls");
}

/// Without a lender each limit follows its policy, once its allowance is spent.
fn follow_the_policies(envoy: &Filter) {
    let from = client();
    let ten = |away: &str| (0..10).filter(|_| passes(envoy, from, away, "new")).count();
    let mut local = 0;
    eventually("what counts here alone is used up", Duration::from_secs(20), || {
        let passed = ten("local");
        local += passed;
        passed == 0 && local >= UNLEASED + LOCAL
    });
    assert_eq!(local, UNLEASED + LOCAL);
    eventually("all is let through", Duration::from_secs(20), || ten("allow") == 10);
    eventually("nothing is", Duration::from_secs(20), || ten("deny") == 0);
    eventually("the lender is asked again", Duration::from_secs(20), || {
        // Requests first: without them nobody asks.
        ten("allow") == 10 && stat(envoy, Counted::LeaseFailures) > 3
    });
    assert!(stat(envoy, Counted::LeaseAway) > 20);
    if envoy.host() == Host::Wasm {
        assert_eq!(envoy.envoy.vm_reloads().unwrap(), 0);
    }
}

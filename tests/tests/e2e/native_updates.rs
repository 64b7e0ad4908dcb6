//! The native module's configuration changes while Envoy serves: its main thread goes on, and no request is lost.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use glacis_tests::http::{self, Request};
use glacis_tests::native;
use glacis_tests::stack::{Ports, Stack};

use crate::support::{Own, client, eventually, folder};

const ATTACK: &str = "/echo?q=%3Cscript%3Ealert(1)%3C/script%3E";

/// The processor time that Envoy's main thread may take for a new configuration of the filter: a small part of what
/// compiling takes, also in a development build and on a busy machine, where everything takes three times as long.
const BLOCKED_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 150 } else { 50 });

fn status(stack: &Stack, target: &str) -> u16 {
    stack.send(client(), &Request::get(target).browser()).unwrap().status
}

fn updates(stack: &Stack) -> u64 {
    stack.envoy.stat("listener_manager.lds.update_success").unwrap()
}

/// The time that Envoy's main thread has had on a processor.
fn main_thread_time(process: u32) -> Duration {
    let path = format!("/proc/{process}/task/{process}/schedstat");
    let text = fs::read_to_string(path).unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The processor time that Envoy's main thread takes in some seconds, and its longest answer on the admin port.
fn watched(stack: &Stack, process: u32) -> (Duration, Duration) {
    let (before, begun) = (main_thread_time(process), Instant::now());
    let mut longest = Duration::ZERO;
    for _ in 0..500 {
        let asked = Instant::now();
        let ready = http::fetch(stack.envoy.admin(), "/ready").unwrap();
        assert_eq!(ready.status, 200);
        longest = longest.max(asked.elapsed());
        sleep(Duration::from_millis(2));
    }
    while begun.elapsed() < Duration::from_secs(3) {
        sleep(Duration::from_millis(20));
    }
    (main_thread_time(process) - before, longest)
}

/// Rules that have to be compiled arrive with a listener, again and again. Envoy's main thread answers on the admin port
/// meanwhile, and requests that arrive before the rules are ready wait for them.
#[test]
fn updates_of_listeners_block_nobody() {
    let ports = Ports::free().unwrap();
    let stack = native::start_with_listener(&folder("native-updates"), ports, &["paranoia: 1"]);
    let mut own = Own(stack.unwrap());
    let process = own.0.envoy.process().id();
    let stack = &own.0;
    assert_eq!((status(stack, "/echo"), status(stack, ATTACK)), (200, 403));
    let over = AtomicBool::new(false);
    let (mut cpu, mut waits) = (Vec::new(), Vec::new());
    scope(|scope| {
        let load = scope.spawn(|| {
            let mut others = Vec::new();
            while !over.load(Ordering::Relaxed) {
                for (target, expected) in [("/echo?q=winter", 200), (ATTACK, 403)] {
                    others.extend(Some(status(stack, target)).filter(|got| *got != expected));
                }
            }
            others
        });
        // Without an update: what answering takes.
        let (quiet, usual) = watched(stack, process);
        for number in 1..=6 {
            let before = updates(stack);
            // Thresholds that no rules had before: nothing is there to be shared.
            let threshold = format!("inbound_threshold: {}", 5 + number);
            native::set_listener(&stack.folder, &stack.ports, &["paranoia: 1", &threshold])
                .unwrap();
            let (took, longest) = watched(stack, process);
            assert_eq!(updates(stack), before + 1, "update {number} did not come");
            cpu.push(took.saturating_sub(quiet));
            waits.push(longest.saturating_sub(usual));
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(load.join().unwrap(), Vec::<u16>::new(), "other answers than expected");
    });
    eprintln!(
        "main thread: {cpu:?} of processor time for an update, longest answers {waits:?} longer than without"
    );
    // The least of several: other things that run on the machine make times longer, and never shorter.
    // A thread that waits for its turn, or for a lock, takes longer than its processor time.
    for (times, max) in [(cpu, BLOCKED_MAX), (waits, 3 * BLOCKED_MAX)] {
        assert!(*times.iter().min().unwrap() <= max, "{times:?}");
    }
}

/// Rules with an error in a listener that arrives later are rejected with the listener, and the old one stays.
#[test]
fn a_listener_with_broken_rules_is_rejected() {
    let ports = Ports::free().unwrap();
    let stack = native::start_with_listener(&folder("native-broken"), ports, &[]).unwrap();
    let own = Own(stack);
    let broken = r#"directives: "SecRule ARGUMENTS \"@rx a\" \"id:1,deny\"""#;
    native::set_listener(&own.0.folder, &own.0.ports, &[broken]).unwrap();
    eventually("the listener is rejected", Duration::from_secs(30), || {
        own.0.envoy.stat("listener_manager.lds.update_rejected").unwrap() == 1
    });
    assert_eq!((status(&own.0, "/echo"), status(&own.0, ATTACK)), (200, 403));
}

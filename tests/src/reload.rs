//! Reloads under load: clients send requests and attacks without a pause while the rules are replaced again and again,
//! in ext-proc or in the native module.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::http::{Connection, Request};
use crate::native;
use crate::stack::Stack;

/// Clients, each with a connection and an address of its own.
const CLIENTS: u8 = 4;

/// Compiling the CRS takes a while in an unoptimised build on a busy machine.
const RELOAD: Duration = Duration::from_secs(60);

/// Edits of the quickstart: no rate limit, as the clients here are faster than people, and no patience that
/// ends, as it is not the machine that is tested.
pub const PATIENT: &[(&str, &str)] = &[
    (
        r#""requests": 20, "per_seconds": 1, "burst": 100"#,
        r#""requests": 100000, "per_seconds": 1, "burst": 100000"#,
    ),
    ("message_timeout: 1s", "message_timeout: 15s"),
    ("{interval: 5s, timeout: 1s}", "{interval: 60s, timeout: 60s}"),
    ("- timeout: 0.25s\n      interval: 0.2s", "- timeout: 15s\n      interval: 0.2s"),
];

/// The same for ext-proc.
pub const PATIENT_KEYS: &str = "reload_seconds: 0\ndeadline_ms: 0\noverload: {lag_ms: 60000}\n";

/// Keys of the native module: it looks for changes often, and no deadline ends an evaluation.
pub const NATIVE_KEYS: [&str; 2] = ["reload_seconds: 1", "deadline_ms: 0"];

/// What was sent, and what came of it.
#[derive(Debug, Default)]
pub struct Tally {
    reloads: AtomicU64,
    passed: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    /// In words.
    pub fn words(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (reloads, passed, refused) =
            (count(&self.reloads), count(&self.passed), count(&self.refused));
        format!(
            "{reloads} reloads: {passed} requests were inspected and passed, {refused} attacks were refused, \
             none failed and none passed uninspected"
        )
    }
}

/// Replaces the rules of the stack `count` times while clients send requests to the route that fails
/// closed, where the guard turns a missing verdict into 503. A stack without ext-proc is one of
/// [`native::start_with_file`].
///
/// # Errors
///
/// If a request is not answered with 200, an attack not with 403, or a reload fails or does not come.
pub fn under_load(stack: &mut Stack, count: u32) -> Outcome<Tally> {
    let tally = Tally::default();
    let over = AtomicBool::new(false);
    let stack = &*stack;
    scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|number| {
                let (over, tally) = (&over, &tally);
                scope.spawn(move || client(stack, number, over, tally))
            })
            .collect();
        let reloaded = (0..count).try_for_each(|number| reload(stack, number, &over, &tally));
        over.store(true, Ordering::Relaxed);
        let mut results = clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|_| Err(Failure::new("a client panicked"))));
        results.try_for_each(|result| result)?;
        reloaded
    })?;
    Ok(tally)
}

/// Reloads so far that succeeded, and that failed.
fn reloads(stack: &Stack) -> Outcome<[u64; 2]> {
    let Some(ext_proc) = &stack.ext_proc else {
        let counted = stack.envoy.stats("dynamicmodulescustom.glacis_reloads")?;
        let name = |result| format!("dynamicmodulescustom.glacis_reloads.result.{result}");
        let count = |result| counted.get(&name(result)).copied().unwrap_or(0);
        return Ok(["success", "failure"].map(count));
    };
    let metrics = ext_proc.metrics()?;
    let count = |result| metrics.get(&format!("glacis_reloads_total{{result=\"{result}\"}}"));
    Ok(["success", "failure"].map(|result| count(result).map_or(0, |count| *count as u64)))
}

/// One reload: to the CRS at another paranoia level each time.
fn reload(stack: &Stack, number: u32, over: &AtomicBool, tally: &Tally) -> Outcome<()> {
    let before = reloads(stack)?;
    let paranoia = format!("paranoia: {}", 1 + number % 2);
    match &stack.ext_proc {
        Some(ext_proc) => {
            ext_proc.set_keys(&format!("{PATIENT_KEYS}{paranoia}\n"))?;
            ext_proc.hang_up()?;
        }
        None => {
            let keys: Vec<&str> = NATIVE_KEYS.into_iter().chain([&*paranoia]).collect();
            native::set_keys(&stack.folder, &keys)?;
        }
    }
    let begun = Instant::now();
    loop {
        let after = reloads(stack)?;
        if after[1] != before[1] {
            return Err(Failure::new(format!("reload {number} has failed")));
        }
        if after[0] != before[0] {
            tally.reloads.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        if begun.elapsed() > RELOAD || over.load(Ordering::Relaxed) {
            return Err(Failure::new(format!("reload {number} did not come")));
        }
        sleep(Duration::from_millis(10));
    }
}

/// Sends a request and an attack in turn until the reloads are over, or one is answered wrong.
fn client(stack: &Stack, number: u8, over: &AtomicBool, tally: &Tally) -> Outcome<()> {
    let from = Ipv4Addr::new(127, 2, 0, number);
    let mut connection = Connection::open(Some(from), stack.proxy())?;
    let json = "application/json";
    let rows = [
        (Request::get("/echo?q=winter+coat").browser(), 200, &tally.passed),
        (Request::get("/echo?q=%3Cscript%3Ealert(1)%3C/script%3E").browser(), 403, &tally.refused),
        (Request::post("/echo", json, r#"{"q": "winter coat"}"#).browser(), 200, &tally.passed),
        (
            Request::post(
                "/echo",
                json,
                r#"{"q": "1' UNION SELECT login, password FROM users-- -"}"#,
            )
            .browser(),
            403,
            &tally.refused,
        ),
    ];
    while !over.load(Ordering::Relaxed) {
        for (request, status, counter) in &rows {
            let answer =
                connection.send(request).inspect_err(|_| over.store(true, Ordering::Relaxed))?;
            if answer.status != *status {
                over.store(true, Ordering::Relaxed);
                let (target, got) = (&request.target, answer.status);
                return Err(Failure::new(format!(
                    "{target}: {got}, not {status}: {}",
                    answer.text()
                )));
            }
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

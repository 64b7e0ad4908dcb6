//! What the tests have in common: the stacks they run against and the clients they pose as.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{panicking, sleep};
use std::time::{Duration, Instant};

use glacis_tests::native;
use glacis_tests::stack::{Ports, Processor, Stack};
use serde_json::Value;

/// The folder of the logs of a stack, in cargo's folder for the files of tests.
pub(crate) fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("e2e").join(name)
}

/// A stack of one test. When the test fails, its logs are shown.
pub(crate) struct Own(pub(crate) Stack);

impl Own {
    pub(crate) fn start(name: &str, processor: Processor, edits: &[(&str, &str)]) -> Self {
        Self::on(name, Ports::free().unwrap(), processor, edits)
    }

    pub(crate) fn on(
        name: &str,
        ports: Ports,
        processor: Processor,
        edits: &[(&str, &str)],
    ) -> Self {
        Self(Stack::start(&folder(name), ports, processor, edits).unwrap())
    }
}

impl Own {
    /// Envoy with the native module, with these keys of its and edits of Envoy's configuration.
    pub(crate) fn native(name: &str, keys: &[&str], edits: &[(&str, &str)]) -> Self {
        Self(native::start(&folder(name), Ports::free().unwrap(), keys, edits).unwrap())
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if panicking() {
            eprintln!("{}", self.0.folder.story());
        }
    }
}

/// A client address nobody has used yet: each has a rate limit of its own.
pub(crate) fn client() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

/// Asks until the answer is yes; fails when the time is over.
#[track_caller]
pub(crate) fn eventually(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

/// A client that the deny list of the stacks names.
pub(crate) const DENIED: Ipv4Addr = Ipv4Addr::new(127, 66, 0, 1);

/// The quickstart's deny list is of addresses that nobody has; that of the stacks is of ours.
const DENY: (&str, &str) = ("192.0.2.0/24", "127.66.0.0/16");

/// The stack that most tests share: the quickstart with ext-proc. It runs until the process ends.
pub(crate) fn shared() -> &'static Stack {
    static SHARED: OnceLock<Result<Stack, String>> = OnceLock::new();
    let start = || {
        let ports = Ports::free().map_err(|failure| failure.to_string())?;
        Stack::start(&folder("shared"), ports, Processor::ExtProc, &[DENY])
            .map_err(|failure| failure.to_string())
    };
    match SHARED.get_or_init(start) {
        Ok(stack) => stack,
        Err(failure) => panic!("the shared stack does not start: {failure}"),
    }
}

/// Envoy with the native module, which tests of it share. It runs until the process ends.
pub(crate) fn native() -> &'static Stack {
    static NATIVE: OnceLock<Result<Stack, String>> = OnceLock::new();
    let start = || {
        let ports = Ports::free().map_err(|failure| failure.to_string())?;
        native::start(&folder("native"), ports, &[], &[]).map_err(|failure| failure.to_string())
    };
    match NATIVE.get_or_init(start) {
        Ok(stack) => stack,
        Err(failure) => panic!("the stack with the native module does not start: {failure}"),
    }
}

/// What Envoy has written about the request of each of these clients.
pub(crate) fn access_log(stack: &Stack, clients: &[Ipv4Addr]) -> Vec<Value> {
    let find = |lines: &[Value], from: &Ipv4Addr| {
        let from = from.to_string();
        lines.iter().find(|line| line["client"] == *from).cloned()
    };
    let mut found = Vec::new();
    eventually("a line for each request in the access log", Duration::from_secs(15), || {
        let lines = stack.access_log().unwrap();
        found = clients.iter().filter_map(|from| find(&lines, from)).collect();
        found.len() == clients.len()
    });
    found
}

/// A metric of the shared ext-proc.
#[track_caller]
pub(crate) fn metric(name: &str) -> f64 {
    let metrics = shared().ext_proc.as_ref().unwrap().metrics().unwrap();
    metrics.get(name).copied().unwrap_or_else(|| panic!("no {name} in {metrics:#?}"))
}

//! Our end of the line to Redis: a connection, a deadline, and a circuit.
//!
//! While the circuit is closed, requests are sent, each within the deadline. It opens when the
//! connection is lost, when the server says that it is no master any more, or after
//! `failures_max` failures one after the other; from then on nobody waits at all. One task looks
//! whether Redis is well again: it connects anew, and has the server do what requests have it do
//! (run a script that writes a key). Pauses between its looks double from a tenth of a second on,
//! and are cut short at random.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use sha1::Digest as _;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::config::{Node, RedisConfig, RedisConfigError, Topology};
use super::connect::{Connection, connect};
use crate::store::StoreError;

/// The first pause of the task that looks whether Redis is well again.
const RETRY_MIN: Duration = Duration::from_millis(100);

/// A Lua script, known to the server by its digest.
#[derive(Debug)]
pub struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub fn new(text: &'static str) -> Self {
        let digest = sha1::Sha1::digest(text.as_bytes());
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text, digest }
    }
}

/// A run of a [`Script`]: its keys, then its arguments. All keys are in one slot of a cluster.
#[derive(Clone, Debug)]
pub struct Call {
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    /// A run with these keys.
    pub fn new(keys: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self { keys: keys.into_iter().map(Into::into).collect(), arguments: Vec::new() }
    }

    /// Appends an argument.
    pub fn push(&mut self, argument: impl Into<Vec<u8>>) {
        self.arguments.push(argument.into());
    }

    /// Appends a number as an argument.
    pub fn push_number(&mut self, number: impl fmt::Display) {
        self.arguments.push(number.to_string().into_bytes());
    }

    fn command(&self, verb: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(script).arg(self.keys.len());
        for bytes in self.keys.iter().chain(&self.arguments) {
            command.arg(bytes.as_slice());
        }
        command
    }
}

/// What a script has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A number.
    Number(i64),
    /// Text or bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Self>),
    /// Nothing, or what scripts do not return.
    Nothing,
}

impl Reply {
    /// A list of numbers, if it is one.
    #[must_use]
    pub fn numbers(&self) -> Option<Vec<i64>> {
        let Self::List(items) = self else { return None };
        let number = |item: &Self| match item {
            Self::Number(number) => Some(*number),
            Self::Bytes(_) | Self::List(_) | Self::Nothing => None,
        };
        items.iter().map(number).collect()
    }
}

impl From<Value> for Reply {
    fn from(value: Value) -> Self {
        match value {
            Value::Int(number) => Self::Number(number),
            Value::BulkString(bytes) => Self::Bytes(bytes),
            Value::SimpleString(text) => Self::Bytes(text.into_bytes()),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            _ => Self::Nothing,
        }
    }
}

/// What happened on the line, counted since the start.
#[derive(Debug, Default)]
pub struct RedisCounters {
    /// Requests that were answered.
    pub answered: AtomicU64,
    /// Requests without an answer within the deadline.
    pub late: AtomicU64,
    /// Requests that the server answered with an error.
    pub refused: AtomicU64,
    /// Requests that found no connection, or lost it.
    pub unavailable: AtomicU64,
    /// Requests that found `in_flight_max` others under way.
    pub crowded: AtomicU64,
    /// How often the circuit has opened.
    pub opened: AtomicU64,
    /// Looks whether Redis is well again that found it is not.
    pub connects_failed: AtomicU64,
    /// Whether the circuit is closed.
    pub is_closed: AtomicBool,
}

impl RedisCounters {
    /// Requests by what became of them, under the names that metrics give it.
    #[must_use]
    pub fn by_result(&self) -> [(&'static str, u64); 5] {
        let counters = [
            ("answered", &self.answered),
            ("late", &self.late),
            ("refused", &self.refused),
            ("unavailable", &self.unavailable),
            ("crowded", &self.crowded),
        ];
        counters.map(|(result, counter)| (result, counter.load(Ordering::Relaxed)))
    }

    /// What can become of requests, as in [`Self::by_result`].
    #[must_use]
    pub fn results() -> [&'static str; 5] {
        Self::default().by_result().map(|(result, _)| result)
    }

    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The line to Redis. Cheap to clone; the last clone closes it.
#[derive(Clone)]
pub struct Redis {
    line: Arc<Line>,
    /// Ends the task that connects when nobody uses the line any more.
    _task: Arc<Task>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("config", &self.line.config).finish_non_exhaustive()
    }
}

struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Line {
    config: RedisConfig,
    nodes: Vec<Node>,
    probe: (Script, Call),
    counters: RedisCounters,
    in_flight: Semaphore,
    circuit: RwLock<Circuit>,
    failures: AtomicU32,
    opened: Notify,
}

#[derive(Default)]
struct Circuit {
    /// There while it is closed.
    connection: Option<Connection>,
    /// Of which connection a failure speaks: one of an earlier connection says nothing of this.
    generation: u64,
}

impl Redis {
    /// A line as `config` says, which opens in the background; needs a runtime of tokio.
    ///
    /// `probe` is what tells whether the server is well: it should write something.
    ///
    /// # Errors
    ///
    /// What makes no sense in `config`. That the server is not there is none.
    pub fn new(config: RedisConfig, probe: (Script, Call)) -> Result<Self, RedisConfigError> {
        let nodes = config.checked_nodes()?;
        let line = Arc::new(Line {
            nodes,
            probe,
            counters: RedisCounters::default(),
            in_flight: Semaphore::new(config.in_flight_max),
            circuit: RwLock::default(),
            failures: AtomicU32::new(0),
            opened: Notify::new(),
            config,
        });
        let task = Handle::current().spawn(keep_connected(Arc::clone(&line)));
        Ok(Self { line, _task: Arc::new(Task(task.abort_handle())) })
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> &RedisCounters {
        &self.line.counters
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &RedisConfig {
        &self.line.config
    }

    /// Whether keys of different slots need calls of their own.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.line.config.kind == Topology::Cluster
    }

    /// Whether the circuit is closed: requests are sent.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.line.counters.is_closed.load(Ordering::Acquire)
    }

    /// Waits until the circuit is closed, but no longer than `patience`. Says whether it is.
    pub async fn ready(&self, patience: Duration) -> bool {
        let closed = async {
            while !self.is_there() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(patience, closed).await.is_ok()
    }

    /// Runs a script, within the deadline.
    ///
    /// # Errors
    ///
    /// When Redis is not there, late, crowded, or answers with an error.
    pub async fn run(&self, script: &Script, call: &Call) -> Result<Reply, StoreError> {
        let counters = &self.line.counters;
        let Some((connection, generation)) = self.line.connection() else {
            RedisCounters::count(&counters.unavailable);
            return Err(StoreError::Unavailable);
        };
        let Ok(_permit) = self.line.in_flight.try_acquire() else {
            RedisCounters::count(&counters.crowded);
            return Err(StoreError::Crowded);
        };
        let deadline = self.line.config.deadline();
        match timeout(deadline, run(connection, script, call)).await {
            Ok(Ok(value)) => {
                RedisCounters::count(&counters.answered);
                self.line.failures.store(0, Ordering::Relaxed);
                Ok(value.into())
            }
            Ok(Err(error)) => Err(self.line.failed(&error, generation)),
            Err(_) => {
                RedisCounters::count(&counters.late);
                self.line.count_failure(generation);
                Err(StoreError::Late)
            }
        }
    }
}

/// The text of a script is sent only where the server does not know its digest, as after a restart.
async fn run(
    mut connection: Connection,
    script: &Script,
    call: &Call,
) -> Result<Value, RedisError> {
    let result = connection.send(&call.command("EVALSHA", &script.digest)).await;
    match result.map_err(|error| (error.kind(), error)) {
        Err((ErrorKind::Server(ServerErrorKind::NoScript), _)) => {
            connection.send(&call.command("EVAL", script.text)).await
        }
        result => result.map_err(|(_, error)| error),
    }
}

impl Line {
    fn connection(&self) -> Option<(Connection, u64)> {
        let circuit = self.circuit.read().unwrap_or_else(PoisonError::into_inner);
        circuit.connection.clone().map(|connection| (connection, circuit.generation))
    }

    fn generation(&self) -> u64 {
        self.circuit.read().unwrap_or_else(PoisonError::into_inner).generation
    }

    /// Counts a failure that the server, or the connection, has told.
    fn failed(&self, error: &RedisError, generation: u64) -> StoreError {
        let code = answered_code(error);
        let counter = match &code {
            Some(_) => &self.counters.refused,
            None => &self.counters.unavailable,
        };
        RedisCounters::count(counter);
        tracing::debug!(%error, "Redis has failed");
        // A lost connection stays lost, and what has become a replica stays one. The client of a
        // cluster sees to its nodes itself.
        let is_over = code.as_deref().is_none_or(|code| code == "READONLY");
        match is_over && self.config.kind != Topology::Cluster {
            true => self.open(generation),
            false => self.count_failure(generation),
        }
        code.map_or(StoreError::Unavailable, StoreError::Refused)
    }

    fn count_failure(&self, generation: u64) {
        if self.generation() != generation {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if failures >= self.config.failures_max {
            self.open(generation);
        }
    }

    fn open(&self, generation: u64) {
        let mut circuit = self.circuit.write().unwrap_or_else(PoisonError::into_inner);
        if circuit.generation != generation || circuit.connection.take().is_none() {
            return;
        }
        self.counters.is_closed.store(false, Ordering::Release);
        RedisCounters::count(&self.counters.opened);
        tracing::warn!(nodes = ?self.config.nodes, "Redis is away");
        self.opened.notify_one();
    }

    fn close(&self, connection: Connection) {
        let mut circuit = self.circuit.write().unwrap_or_else(PoisonError::into_inner);
        circuit.generation += 1;
        circuit.connection = Some(connection);
        self.failures.store(0, Ordering::Relaxed);
        self.counters.is_closed.store(true, Ordering::Release);
        tracing::info!(nodes = ?self.config.nodes, "Redis is there");
    }

    /// Connects, and has the server do what requests have it do.
    async fn connect(&self) -> Result<Connection, String> {
        // Sentinels are asked one after the other, then the server; nodes of a cluster likewise.
        let tries = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX).saturating_add(1);
        let patience = self.config.connect_timeout().saturating_mul(tries);
        let connecting = connect(&self.config, &self.nodes);
        let connection = match timeout(patience, connecting).await {
            Ok(result) => result.map_err(|error| error.to_string())?,
            Err(_) => return Err("it does not answer".to_owned()),
        };
        let (script, call) = &self.probe;
        match timeout(self.config.connect_timeout(), run(connection.clone(), script, call)).await {
            Ok(result) => result.map(|_| connection).map_err(|error| error.to_string()),
            Err(_) => Err("it does not answer".to_owned()),
        }
    }
}

/// The first word of an error that the server has answered.
fn answered_code(error: &RedisError) -> Option<String> {
    let code = error.code()?;
    // Before version 7, an error inside a script stands in the text.
    let detail = error.detail().unwrap_or_default();
    let inner = ["READONLY", "OOM", "LOADING", "MISCONF"];
    let inner = inner.iter().find(|inner| code == "ERR" && detail.contains(**inner));
    Some(inner.map_or_else(|| code.to_owned(), |inner| (*inner).to_owned()))
}

async fn keep_connected(line: Arc<Line>) {
    let random = RandomState::new();
    // The first time at once: a service that starts is not one of a herd that lost its server.
    let mut pause = Duration::ZERO;
    let mut tries = 0_u64;
    loop {
        sleep(cut_short(pause, random.hash_one(tries))).await;
        tries += 1;
        match line.connect().await {
            Ok(connection) => {
                line.close(connection);
                line.opened.notified().await;
                pause = RETRY_MIN;
            }
            Err(error) => {
                RedisCounters::count(&line.counters.connects_failed);
                if pause < Duration::from_millis(line.config.retry_max_ms) {
                    tracing::warn!(error, nodes = ?line.config.nodes, "cannot use Redis");
                }
                let doubled = (pause * 2).max(RETRY_MIN);
                pause = doubled.min(Duration::from_millis(line.config.retry_max_ms));
            }
        }
    }
}

/// A random time up to `pause`, but at least a tenth of it.
fn cut_short(pause: Duration, random: u64) -> Duration {
    let tenths = Duration::from_micros(random % 900_001);
    pause.mul_f64(0.1 + tenths.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_cut_short_at_random() {
        let second = Duration::from_secs(1);
        for random in [0, 1, 900_000, 900_001, u64::MAX] {
            let cut = cut_short(second, random);
            assert!(cut >= second / 10 && cut <= second, "{cut:?}");
        }
        assert_eq!(cut_short(Duration::ZERO, 7), Duration::ZERO);
        assert_ne!(cut_short(second, 1), cut_short(second, 500_000));
    }
}

//! Persistent collections in Redis: what one replica has counted, the others see.
//!
//! The engine does no I/O and knows a collection's key only when a rule opens it. So this process keeps
//! a copy of every collection used lately. A copy that is young enough (`fresh_ms`) is what rules see;
//! one that is half as old is asked for again without anybody waiting. Where there is none, or only an
//! old one, the evaluation waits for Redis, but no longer than its deadline, and goes on with what there
//! is. Changes are applied to the copy at once and handed to a queue; a thread of its own takes them to
//! Redis as what they are ("add 1"), and each answer is the whole collection, which renews the copy.

use core::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
    time::Instant,
};

use glacis_engine::{
    Change, Collection, CollectionLimits, CollectionStore, Member, Step, Variable,
};
use glacis_limit_store::{Call, Key, Redis, RedisConfig, Reply, Script};
use glacis_service::store::{StoreState, Stores};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio::{
    runtime::{Builder, Handle, Runtime, RuntimeFlavor},
    sync::mpsc,
    task::block_in_place,
    time::sleep,
};

use crate::{config::Collections, metrics::table};

/// Requests that are sent to Redis together.
const BATCH_MAX: usize = 64;

/// Changes of one collection that are remembered until Redis has answered them; of more the copy knows
/// nothing for a moment.
const UNANSWERED_MAX: usize = 256;

/// How often it is looked whether Redis is there again.
const AWAY_PAUSE: Duration = Duration::from_millis(20);

/// Collections in Redis, with copies in memory.
#[derive(Debug)]
pub(crate) struct SharedCollections {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Request>,
}

#[derive(Debug)]
struct Shared {
    redis: Redis,
    script: Script,
    limits: CollectionLimits,
    fresh: Duration,
    waits_max: usize,
    waits: AtomicUsize,
    copies: Mutex<Copies>,
    copies_max: usize,
    metrics: CollectionMetrics,
}

type CopyKey = (Variable, Box<[u8]>);

/// What was used lately, and what before. When the young are as many as there may be, they become the
/// old, and the old are forgotten.
#[derive(Debug, Default)]
struct Copies {
    young: HashMap<CopyKey, Kept>,
    old: HashMap<CopyKey, Kept>,
    /// Numbers requests, in the order in which Redis gets them.
    sent: u64,
}

/// What is known of a collection.
#[derive(Debug, Default)]
struct Kept {
    collection: Collection,
    /// When it goes, by the clock of the evaluations.
    expires: Duration,
    /// When Redis was asked for what it holds.
    asked: Option<Instant>,
    /// When Redis was last asked, whether or not it has answered.
    asking: Option<Instant>,
    /// The request whose answer the copy is.
    answered: u64,
    /// Changes that Redis has not answered yet.
    unanswered: Vec<(u64, Change)>,
}

/// A request to Redis: changes, or none to ask for a collection.
#[derive(Debug)]
struct Request {
    key: CopyKey,
    number: u64,
    changes: Vec<Change>,
    /// The time of the evaluation, and when that was.
    now: Duration,
    queued: Instant,
    timeout: Duration,
    /// Told when there is an answer, or none.
    done: Option<SyncSender<()>>,
}

impl Request {
    fn new(
        key: CopyKey,
        changes: Vec<Change>,
        now: Duration,
        timeout: Duration,
        done: Option<SyncSender<()>>,
    ) -> Self {
        Self { key, number: 0, changes, now, queued: Instant::now(), timeout, done }
    }
}

/// What became of collections, as metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectionMetrics {
    events: Family<EventLabel, Counter>,
    queued: Gauge,
    /// The line, once there is one.
    redis: Arc<OnceLock<Redis>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabel {
    event: &'static str,
}

const FETCHED: &str = "fetched";
const STALE: &str = "stale";
const WRITTEN: &str = "written";
const LOST: &str = "lost";

/// Under which name metrics tell of the line to Redis.
pub(crate) const STORE: &str = "collections";

/// What can become of collections, as labels.
pub(crate) const EVENTS: [&str; 4] = [FETCHED, STALE, WRITTEN, LOST];

impl CollectionMetrics {
    /// Registers them; `stores` learns of the line to Redis, if there is one.
    pub(crate) fn register(&self, registry: &mut Registry, stores: &Stores) {
        for event in EVENTS {
            drop(self.events.get_or_create(&EventLabel { event }));
        }
        table::COLLECTIONS.register(registry, self.events.clone());
        table::COLLECTIONS_QUEUED.register(registry, self.queued.clone());
        if let Some(redis) = self.redis.get().cloned() {
            stores.add(STORE, move || state(&redis));
        }
    }

    fn count(&self, event: &'static str) {
        self.events.get_or_create(&EventLabel { event }).inc();
    }
}

/// What metrics tell of the line. Without it nothing is decided: copies are used, and changes wait.
fn state(redis: &Redis) -> StoreState {
    StoreState {
        connected: redis.is_there(),
        requests: redis.counters().by_result().to_vec(),
        ..StoreState::default()
    }
}

impl Copies {
    /// What is kept under `key`, among the young from now on.
    fn entry(&mut self, key: &CopyKey, now: Duration, copies_max: usize) -> &mut Kept {
        let kept = self.young.remove(key).or_else(|| self.old.remove(key));
        let mut kept = kept.unwrap_or_default();
        if kept.expires <= now && kept.unanswered.is_empty() {
            kept.collection = Collection::default();
        }
        kept.collection.expire(now);
        if self.young.len() >= copies_max {
            self.old = core::mem::take(&mut self.young);
        }
        self.young.entry(key.clone()).or_insert(kept)
    }

    fn get_mut(&mut self, key: &CopyKey) -> Option<&mut Kept> {
        self.young.get_mut(key).or_else(|| self.old.get_mut(key))
    }
}

impl SharedCollections {
    /// Starts the thread that talks to Redis. At least `copies_max` collections used last are kept here.
    ///
    /// # Errors
    /// When the configuration makes no sense, or no thread can be started.
    pub(crate) fn start(
        redis: &RedisConfig,
        config: &Collections,
        copies_max: usize,
        limits: CollectionLimits,
        metrics: CollectionMetrics,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let redis = {
            let _entered = runtime.enter();
            Redis::new(redis.clone(), (script(), probe(redis))).map_err(io::Error::other)?
        };
        // It is empty: there is one line.
        drop(metrics.redis.set(redis.clone()));
        let shared = Arc::new(Shared {
            redis,
            script: script(),
            limits,
            fresh: config.fresh(),
            waits_max: config.waits_max,
            waits: AtomicUsize::new(0),
            copies: Mutex::default(),
            copies_max,
            metrics,
        });
        let (queue, requests) = mpsc::channel(config.queue_max);
        let talking = Arc::clone(&shared);
        thread::Builder::new()
            .name("collections".to_owned())
            .spawn(move || talk(&runtime, &talking, requests))?;
        Ok(Self { shared, queue })
    }

    /// Puts a request into the queue, if there is room, and gives its number.
    fn send(&self, copies: &mut Copies, request: Request) -> Option<u64> {
        let number = copies.sent + 1;
        self.queue.try_send(Request { number, ..request }).ok()?;
        copies.sent = number;
        self.shared.metrics.queued.inc();
        Some(number)
    }

    /// Asks Redis for a collection, and waits if somebody may.
    fn fetch(&self, key: &CopyKey, now: Duration, waits: bool) {
        let shared = &*self.shared;
        let (done, answered) = sync_channel(1);
        let done = waits.then_some(done);
        let sent = {
            // Numbers have to be in the order of the queue.
            let mut copies = shared.copies();
            copies.entry(key, now, shared.copies_max).asking = Some(Instant::now());
            let (key, timeout) = (key.clone(), Duration::ZERO);
            self.send(&mut copies, Request::new(key, Vec::new(), now, timeout, done)).is_some()
        };
        if !sent || !waits {
            return;
        }
        let patience = Duration::from_millis(shared.redis.config().deadline_ms);
        let wait = || {
            // Whether or not there was an answer: what is known by now is in the copy.
            let _ = answered.recv_timeout(patience);
        };
        // Where other exchanges wait for this thread, another one takes them on meanwhile.
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => block_in_place(wait),
            _ => wait(),
        }
    }

    /// Fetches and waits, unless too many do, or Redis is away.
    fn fetch_and_wait(&self, key: &CopyKey, now: Duration) {
        let shared = &*self.shared;
        let waits = shared.waits.fetch_add(1, Ordering::Relaxed);
        if waits < shared.waits_max && shared.is_there() {
            self.fetch(key, now, true);
        }
        shared.waits.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CollectionStore for SharedCollections {
    fn load(&self, collection: Variable, key: &[u8], now: Duration) -> Collection {
        let shared = &*self.shared;
        let key = (collection, key.into());
        let (age, asking) = {
            let mut copies = shared.copies();
            let kept = copies.entry(&key, now, shared.copies_max);
            let elapsed = |at: Option<Instant>| at.map(|at| at.elapsed());
            (elapsed(kept.asked), elapsed(kept.asking))
        };
        if age.is_none_or(|age| age >= shared.fresh) {
            self.fetch_and_wait(&key, now);
        } else if asking.is_none_or(|asking| asking >= shared.fresh / 2) && shared.is_there() {
            self.fetch(&key, now, false);
        }
        let mut copies = shared.copies();
        let kept = copies.entry(&key, now, shared.copies_max);
        if kept.asked.is_none_or(|asked| asked.elapsed() >= shared.fresh) {
            shared.metrics.count(STALE);
        }
        kept.collection.clone()
    }

    fn apply(
        &self,
        collection: Variable,
        key: &[u8],
        changes: &[Change],
        now: Duration,
        timeout: Duration,
    ) {
        let shared = &*self.shared;
        let key = (collection, key.into());
        // Numbers have to be in the order of the queue.
        let mut copies = shared.copies();
        let kept = copies.entry(&key, now, shared.copies_max);
        for change in changes {
            kept.collection.apply(change, shared.limits, now);
        }
        kept.expires = now.saturating_add(timeout);
        kept.asking = Some(Instant::now());
        let request = Request::new(key.clone(), changes.to_vec(), now, timeout, None);
        let Some(number) = self.send(&mut copies, request) else {
            shared.metrics.count(LOST);
            return;
        };
        let Some(kept) = copies.get_mut(&key) else { return };
        kept.unanswered.extend(changes.iter().map(|change| (number, change.clone())));
        let surplus = kept.unanswered.len().saturating_sub(UNANSWERED_MAX);
        kept.unanswered.drain(..surplus);
    }
}

impl Shared {
    fn copies(&self) -> MutexGuard<'_, Copies> {
        // Nothing that holds the lock can panic half-way through a change.
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_there(&self) -> bool {
        self.redis.is_there()
    }

    /// Sends a request, and renews the copy by its answer.
    async fn exchange(&self, request: Request) {
        let (variable, key) = &request.key;
        let mut call = Call::new([name(self.redis.config(), *variable, key)]);
        call.push_number(self.limits.members_max);
        call.push_number(self.limits.bytes_max);
        call.push_number(request.timeout.as_millis().max(1));
        for change in &request.changes {
            push_change(&mut call, change, request.now.saturating_add(request.queued.elapsed()));
        }
        let answer = self.redis.run(&self.script, &call).await.ok().and_then(read);
        match (&answer, request.changes.is_empty()) {
            (Some(_), true) => self.metrics.count(FETCHED),
            (Some(_), false) => self.metrics.count(WRITTEN),
            (None, false) => self.metrics.count(LOST),
            // Who reads the copy sees that it is old.
            (None, true) => {}
        }
        self.renew(&request, answer);
        if let Some(done) = request.done {
            // Who waited may have gone on without it.
            let _ = done.try_send(());
        }
    }

    fn renew(&self, request: &Request, answer: Option<Answered>) {
        let mut copies = self.copies();
        // One that was forgotten meanwhile is not wanted.
        let Some(kept) = copies.get_mut(&request.key) else { return };
        kept.unanswered.retain(|(number, _)| *number > request.number);
        let Some(answer) = answer.filter(|_| request.number > kept.answered) else { return };
        let now = request.now.saturating_add(request.queued.elapsed());
        kept.answered = request.number;
        let members = answer.members.into_iter().map(|answered| answered.member(now));
        kept.collection = Collection::new(members.collect());
        for (_, change) in &kept.unanswered {
            kept.collection.apply(change, self.limits, now);
        }
        kept.asked = Some(request.queued);
        if kept.unanswered.is_empty() {
            kept.expires = now.saturating_add(answer.left);
        }
    }
}

/// Takes requests to Redis, in their order, until nobody is left to make any.
fn talk(runtime: &Runtime, shared: &Shared, mut requests: mpsc::Receiver<Request>) {
    runtime.block_on(async {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while requests.recv_many(&mut batch, BATCH_MAX).await > 0 {
            // Changes wait for a Redis that is away, as many as fit into the queue.
            while !shared.is_there() && !requests.is_closed() {
                sleep(AWAY_PAUSE).await;
            }
            shared.metrics.queued.dec_by(i64::try_from(batch.len()).unwrap_or(i64::MAX));
            // They are put on one line in this order, and Redis does them in it.
            let exchanges = batch.drain(..).map(|request| shared.exchange(request));
            futures_util::future::join_all(exchanges).await;
        }
    });
}

fn script() -> Script {
    Script::new(include_str!("collections/changes.lua"))
}

/// A change of a collection that nobody uses: what tells whether Redis is well.
fn probe(redis: &RedisConfig) -> Call {
    let mut call = Call::new([format!("{}c:probe", redis.prefix)]);
    for argument in ["1", "64", "60000", "set", "probe", "1", ""] {
        call.push(argument);
    }
    call
}

fn name(redis: &RedisConfig, variable: Variable, key: &[u8]) -> String {
    let key = Key::new(variable.name().to_ascii_lowercase().as_bytes(), key);
    format!("{}c:{}", redis.prefix, key.as_str())
}

/// `now` is the time of the evaluation, as it would be by now.
fn push_change(call: &mut Call, change: &Change, now: Duration) {
    let (verb, first, second) = match &change.step {
        Step::Set(value) => ("set", value.clone(), String::new()),
        Step::Add(number) => ("add", number.to_string().into_bytes(), String::new()),
        Step::Unset => ("unset", Vec::new(), String::new()),
        Step::ExpireAt(time) => {
            let left = time.saturating_sub(now).as_millis();
            ("expire", left.to_string().into_bytes(), String::new())
        }
        Step::Decay { amount, period } => {
            ("decay", amount.to_string().into_bytes(), period.as_secs().to_string())
        }
    };
    call.push(verb);
    call.push(change.member.as_slice());
    call.push(first);
    call.push(second);
}

/// A collection as Redis tells it.
struct Answered {
    members: Vec<AnsweredMember>,
    /// How long it is kept.
    left: Duration,
}

/// A member as Redis tells it.
struct AnsweredMember {
    name: Vec<u8>,
    value: Vec<u8>,
    /// Nothing when it does not go.
    left: Option<Duration>,
    ago: Duration,
}

impl AnsweredMember {
    /// By the clock of the evaluations.
    fn member(self, now: Duration) -> Member {
        Member {
            name: self.name,
            value: self.value,
            expires: self.left.map(|left| now.saturating_add(left)),
            since: now.saturating_sub(self.ago),
        }
    }
}

fn read(reply: Reply) -> Option<Answered> {
    let Reply::List(items) = reply else { return None };
    let (Reply::Number(left), items) = items.split_first()? else { return None };
    let (rows, rest) = items.as_chunks::<4>();
    let left = Duration::from_millis(u64::try_from(*left).unwrap_or(0));
    let row = |row: &[Reply; 4]| match row {
        [Reply::Bytes(name), Reply::Bytes(value), Reply::Number(left), Reply::Number(ago)] => {
            Some(AnsweredMember {
                name: name.clone(),
                value: value.clone(),
                left: u64::try_from(*left).ok().map(Duration::from_millis),
                ago: Duration::from_millis(u64::try_from(*ago).ok()?),
            })
        }
        _ => None,
    };
    let members: Option<Vec<AnsweredMember>> = rows.iter().map(row).collect();
    members.filter(|_| rest.is_empty()).map(|members| Answered { members, left })
}

//! The callbacks of the plugin: its configuration, once for each worker.

use crate::config::{CONFIG_BYTES_MAX, Config};
use crate::feed::{Change, Feed, Source};
use crate::first_verdict::FirstVerdict;
use crate::guard::Found;
use crate::host::{self, Counter, Proxy, Tally};
use crate::http::Http;
use crate::lease::Lending;
use crate::policy::{Judgement, PASSED, Policy, Reason, Verdict};
use crate::seed;
use glacis_limits::network_list::NetworkList;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The plugin in one worker.
#[derive(Debug, Default)]
pub(crate) struct Root {
    plugin: Option<Rc<Plugin>>,
    /// Whether the next tick is the first one of a configuration.
    first_tick: bool,
    /// Made when the first request comes without a plugin, which hardly ever happens.
    unconfigured: OnceCell<Unconfigured>,
}

/// What all requests of a worker share.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) policy: Policy,
    pub(crate) counters: Counters,
    /// Never borrowed while the host is called back.
    pub(crate) feeds: RefCell<Vec<Feed>>,
    /// Nor is this.
    lendings: RefCell<Vec<Lending>>,
    pub(crate) first_verdict: Option<FirstVerdict>,
}

/// How many requests got which verdict.
#[derive(Debug)]
pub(crate) struct Counters {
    /// One for each verdict in words: no request makes one up, they come from the configuration and fetched patches.
    verdicts: RefCell<BTreeMap<String, Counter>>,
    denied: Counter,
    shadow_denied: Counter,
    limited: Counter,
    shadow_limited: Counter,
    passed: Tally,
    /// Of the verdicts in words, the one that most requests get.
    passed_in_words: Tally,
    errors: Counter,
    crowded: Counter,
    list_changes: Counter,
    list_failures: Counter,
    list_entries: Counter,
    lists_stale: Counter,
    lease_calls: Counter,
    lease_failures: Counter,
    lease_away: Counter,
    pending_bodies: Tally,
    bodies_cut: Counter,
    first_verdicts: [(&'static str, Tally); 3],
    guard: [(Found, Counter); 4],
}

/// What counts requests that Envoy sends to a plugin that has refused its configuration. They are one pair for all
/// of them: Envoy keeps another entry for each time that a metric is defined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unconfigured {
    errors: Counter,
    in_words: Counter,
}

const ERRORS: &str = "glacis_wasm_errors_total";

/// A quarter of the shortest refresh, which is what a list can be late by: with ticks as far apart as refreshes,
/// an answer that takes a moment would make the list miss every second tick. Statistics are late by as much.
const TICK: Duration = Duration::from_millis(250);
/// Often enough for the shortest leases, which live 100 ms: lenders are asked at a tick.
const LEASE_TICK: Duration = Duration::from_millis(20);
/// The first one: a list is to be there soon, but calls cannot be made while configuring.
const FIRST_TICK: Duration = Duration::from_millis(50);

impl Context for Root {
    fn on_http_call_response(&mut self, number: u32, _: usize, body_bytes: usize, _: usize) {
        if let Some(plugin) = &self.plugin {
            plugin.take_list(number, body_bytes);
        }
    }

    fn on_grpc_call_response(&mut self, number: u32, status: u32, bytes: usize) {
        if let Some(plugin) = &self.plugin {
            plugin.take_answer(number, status, bytes);
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _plugin_configuration_size: usize) -> bool {
        match configured() {
            Ok(plugin) => {
                host::tick_every(FIRST_TICK);
                self.first_tick = true;
                // Requests may keep the one before for long, and no tick comes to it any more.
                if let Some(before) = self.plugin.replace(Rc::new(plugin)) {
                    before.counters.tell();
                }
                true
            }
            Err(message) => {
                host::log_error(&message);
                false
            }
        }
    }

    fn on_tick(&mut self) {
        let Some(plugin) = &self.plugin else { return };
        // Envoy starts its timer anew after each tick, with the period that it was told last.
        if std::mem::take(&mut self.first_tick) {
            host::tick_every(if plugin.leases() { LEASE_TICK } else { TICK });
        }
        plugin.counters.tell();
        plugin.policy.confirm_pending(host::now_ns(), &Proxy);
        plugin.ask_for_lists();
        plugin.watch_lists();
        plugin.ask_lenders();
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        let unconfigured = || *self.unconfigured.get_or_init(Unconfigured::new);
        Some(Box::new(Http::new(self.plugin.clone().ok_or_else(unconfigured))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

fn configured() -> Result<Plugin, String> {
    // One byte more than is allowed, so that a longer text is seen to be longer.
    let text = host::plugin_configuration(CONFIG_BYTES_MAX + 1);
    let mut config = Config::parse(&text).map_err(|error| error.to_string())?;
    drop(text);
    let trusted_hops = config.trusted_hops;
    let first_verdict = config.first_verdict.take();
    let first_verdict =
        first_verdict.map(|first| FirstVerdict::new(first, trusted_hops)).transpose().map_err(
            |problem| format!("the configuration of the Glacis wasm filter is refused: {problem}"),
        )?;
    let seed = seed::agreed(&Proxy, host::random_bytes())
        .map_err(|_| "the host refuses shared data, without which workers cannot agree")?;
    let worker = host::random_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes);
    let policy = Policy::new(config, seed, worker);
    let restored = |source: &Source| Feed::restored(source.clone(), &Proxy);
    let feeds = RefCell::new(policy.sources().iter().map(restored).collect());
    let lendings = RefCell::new(policy.lendings());
    Ok(Plugin { policy, counters: Counters::new(), feeds, lendings, first_verdict })
}

impl Plugin {
    fn ask_for_lists(&self) {
        let Ok(mut feeds) = self.feeds.try_borrow_mut() else { return };
        if feeds.is_empty() {
            return;
        }
        let now_ns = host::now_ns();
        for feed in feeds.iter_mut().filter(|feed| feed.is_due(now_ns)) {
            let number = host::call(feed);
            if let Err(failure) = feed.called(number, now_ns) {
                self.counters.failed_list(feed, &failure);
            }
        }
    }

    /// Logs each list that has become stale, and counts those that are.
    fn watch_lists(&self) {
        let Ok(mut feeds) = self.feeds.try_borrow_mut() else { return };
        if feeds.iter().all(|feed| feed.source.max_age_seconds.is_none()) {
            return;
        }
        let now_ns = host::now_ns();
        for message in feeds.iter_mut().filter_map(|feed| feed.watch(now_ns)) {
            host::log_error(&message);
        }
        let stale = feeds.iter().filter(|feed| feed.is_stale()).count();
        self.counters.lists_stale.record(stale as u64);
    }

    fn take_list(&self, number: u32, body_bytes: usize) {
        let Ok(mut feeds) = self.feeds.try_borrow_mut() else { return };
        let Some(feed) = feeds.iter_mut().find(|feed| feed.awaits(number)) else { return };
        match feed.answered(&host::response(body_bytes), host::now_ns(), &Proxy) {
            Ok(Change::None) => {}
            Ok(Change::Replaced) => self.counters.list_changes.increment(),
            Err(failure) => self.counters.failed_list(feed, &failure),
        }
        let entries = feeds.iter().filter_map(Feed::list).map(NetworkList::entries).sum::<usize>();
        self.counters.list_entries.record(entries as u64);
    }
}

impl Plugin {
    /// Whether a limit is leased.
    fn leases(&self) -> bool {
        self.policy.lease_tables().iter().any(Option::is_some)
    }

    /// Leaves the wishes of a request for the next tick.
    pub(crate) fn wish(&self, judgement: &Judgement, now_ns: u64) {
        let Ok(mut lendings) = self.lendings.try_borrow_mut() else { return };
        for wished in &judgement.wishes {
            let limit = self.policy.rate_limits().get(wished.slot.limit);
            let lease = limit.and_then(|limit| limit.lease.as_ref());
            let cluster = lease.map_or("", |lease| lease.cluster.as_str());
            if let Some(own) = lendings.iter_mut().find(|lending| lending.cluster == cluster) {
                own.wish(wished, now_ns, self.policy.lease_tables());
            }
        }
    }

    fn ask_lenders(&self) {
        let Ok(mut lendings) = self.lendings.try_borrow_mut() else { return };
        if lendings.is_empty() {
            return;
        }
        let now_ns = host::now_ns();
        let tables = self.policy.lease_tables();
        for lending in lendings.iter_mut() {
            let Some(question) = lending.question(tables, &Proxy, now_ns) else { continue };
            let lender = (lending.cluster.as_str(), lending.token.as_deref());
            let number = host::lease_call(lender, &question, lending.timeout);
            self.counters.lease_calls.increment();
            lending.called(number, tables, &Proxy, now_ns);
            if number.is_none() {
                self.counters.lease_failures.increment();
                lending.news(false).iter().for_each(|message| host::log_error(message));
            }
        }
    }

    fn take_answer(&self, number: u32, status: u32, bytes: usize) {
        let Ok(mut lendings) = self.lendings.try_borrow_mut() else { return };
        let Some(own) = lendings.iter_mut().find(|lending| lending.awaits(number)) else { return };
        let response = if status == 0 { host::lease_response(bytes) } else { None };
        own.news(response.is_some()).iter().for_each(|message| host::log_error(message));
        let tables = self.policy.lease_tables();
        if !own.answered(response.as_deref(), tables, &Proxy, host::now_ns()) {
            self.counters.lease_failures.increment();
        }
    }
}

impl Counters {
    fn new() -> Self {
        Self {
            verdicts: RefCell::default(),
            denied: Counter::new("glacis_wasm_denied_total"),
            shadow_denied: Counter::new("glacis_wasm_shadow_denied_total"),
            limited: Counter::new("glacis_wasm_limited_total"),
            shadow_limited: Counter::new("glacis_wasm_shadow_limited_total"),
            passed: Tally::new("glacis_wasm_passed_total"),
            passed_in_words: Tally::new(&verdict_counter(PASSED)),
            errors: Counter::new(ERRORS),
            crowded: Counter::new("glacis_wasm_table_crowded_total"),
            list_changes: Counter::new("glacis_wasm_list_changes_total"),
            list_failures: Counter::new("glacis_wasm_list_failures_total"),
            list_entries: Counter::gauge("glacis_wasm_list_entries"),
            lists_stale: Counter::gauge("glacis_wasm_lists_stale"),
            lease_calls: Counter::new("glacis_wasm_lease_calls_total"),
            lease_failures: Counter::new("glacis_wasm_lease_failures_total"),
            lease_away: Counter::new("glacis_wasm_lease_away_total"),
            pending_bodies: Tally::gauge("glacis_wasm_pending_bodies"),
            bodies_cut: Counter::new("glacis_wasm_bodies_cut_total"),
            first_verdicts: ["clean", "body", "suspect"]
                .map(|name| (name, Tally::new(&format!("glacis_wasm_first_verdict_total.{name}")))),
            guard: [Found::Receipt, Found::Clean, Found::MissingAllowed, Found::MissingDenied].map(
                |found| {
                    let name = found.name().replace(':', "_");
                    (found, Counter::new(&format!("glacis_wasm_guard_total.{name}")))
                },
            ),
        }
    }

    /// Counts a request by its verdict in words, as filter state has it.
    pub(crate) fn count_verdict(&self, property: &str) {
        if property == PASSED {
            return self.passed_in_words.increment();
        }
        let Ok(mut verdicts) = self.verdicts.try_borrow_mut() else { return };
        if let Some(counter) = verdicts.get(property) {
            return counter.increment();
        }
        let counter = Counter::new(&verdict_counter(property));
        counter.increment();
        verdicts.insert(property.to_owned(), counter);
    }

    /// Tells Envoy what was counted since the last tick.
    fn tell(&self) {
        self.passed.tell();
        self.passed_in_words.tell();
        self.pending_bodies.tell();
        self.first_verdicts.iter().for_each(|(_, tally)| tally.tell());
    }

    /// So many more requests are pending, or fewer.
    pub(crate) fn pending(&self, more: i64) {
        self.pending_bodies.add(more);
    }

    /// Counts a request that was counted by its headers, and whose client holds too much of bodies now.
    pub(crate) fn body_cut(&self) {
        self.bodies_cut.increment();
    }

    /// Counts a list that could not be fetched, and logs why if that is not in the log.
    fn failed_list(&self, feed: &mut Feed, failure: &str) {
        self.list_failures.increment();
        if feed.is_news(failure) {
            host::log_error(failure);
        }
    }

    /// Counts a first verdict.
    pub(crate) fn count_first_verdict(&self, name: &str) {
        for (_, counter) in self.first_verdicts.iter().filter(|(known, _)| *known == name) {
            counter.increment();
        }
    }

    /// Counts what the guard has found.
    pub(crate) fn count_guard(&self, found: Found) {
        for (_, counter) in self.guard.iter().filter(|(known, _)| *known == found) {
            counter.increment();
        }
    }

    /// Counts a request.
    pub(crate) fn count(&self, judgement: &Judgement) {
        match judgement.verdict {
            Verdict::DeniedByList
            | Verdict::DeniedByCountry
            | Verdict::DeniedByAsn
            | Verdict::DeniedAsBot(_)
            | Verdict::DeniedByPatch(_)
            | Verdict::TooLong => self.denied.increment(),
            Verdict::ShadowDeniedByList
            | Verdict::ShadowDeniedByCountry
            | Verdict::ShadowDeniedByAsn
            | Verdict::ShadowDeniedAsBot(_)
            | Verdict::ShadowDeniedByPatch(_)
            | Verdict::ShadowTooLong => self.shadow_denied.increment(),
            Verdict::Limited(..) | Verdict::TooManyBodies => self.limited.increment(),
            Verdict::ShadowLimited(..) | Verdict::ShadowTooManyBodies => {
                self.shadow_limited.increment();
            }
            Verdict::AllowedByList | Verdict::Passed => self.passed.increment(),
            Verdict::Undecided(..) => self.errors.increment(),
        }
        if judgement.unrecorded {
            self.errors.increment();
        }
        if judgement.crowded {
            self.crowded.increment();
        }
        if judgement.away {
            self.lease_away.increment();
        }
    }
}

impl Unconfigured {
    fn new() -> Self {
        let in_words = verdict_counter(Reason::NoConfiguration.property());
        Self { errors: Counter::new(ERRORS), in_words: Counter::new(&in_words) }
    }

    /// Counts a request.
    pub(crate) fn count(self) {
        self.errors.increment();
        self.in_words.increment();
    }
}

/// The name of a verdict's counter: `denied:list` is `glacis_wasm_verdicts_total.denied.list`, of
/// which Envoy makes labels by regular expressions for tags (README.md). Colons would end a name in
/// statsd.
fn verdict_counter(property: &str) -> String {
    let name = match property.strip_prefix("shadow:") {
        Some(watched) => format!("shadow_{watched}"),
        None => property.to_owned(),
    };
    format!("glacis_wasm_verdicts_total.{}", name.replace(':', "."))
}

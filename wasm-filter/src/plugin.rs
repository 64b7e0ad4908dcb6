//! What all requests of a worker share: the policy, the lists that are fetched, the leases and the counters.

use crate::config::{CONFIG_BYTES_MAX, Config};
use crate::counters::Counters;
use crate::feed::{Change, Feed, Source};
use crate::first_verdict::FirstVerdict;
use crate::host::{self, Proxy};
use crate::lease::Lending;
use crate::policy::{Judgement, Policy};
use crate::seed;
use glacis_limits::network_list::NetworkList;
use std::cell::RefCell;

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

impl Plugin {
    /// The plugin that the configuration says, or why it is refused.
    pub(crate) fn configured() -> Result<Self, String> {
        // One byte more than is allowed, so that a longer text is seen to be longer.
        let text = host::plugin_configuration(CONFIG_BYTES_MAX + 1);
        let mut config = Config::parse(&text).map_err(|error| error.to_string())?;
        drop(text);
        let trusted_hops = config.trusted_hops;
        let first_verdict = config.first_verdict.take();
        let first_verdict = first_verdict
            .map(|first| FirstVerdict::new(first, trusted_hops))
            .transpose()
            .map_err(|problem| {
                format!("the configuration of the Glacis wasm filter is refused: {problem}")
            })?;
        let seed = seed::agreed(&Proxy, host::random_bytes())
            .map_err(|_| "the host refuses shared data, without which workers cannot agree")?;
        let worker = host::random_bytes().first_chunk().copied().map_or(0, u64::from_le_bytes);
        let policy = Policy::new(config, seed, worker);
        let restored = |source: &Source| Feed::restored(source.clone(), &Proxy);
        let feeds = RefCell::new(policy.sources().iter().map(restored).collect());
        let lendings = RefCell::new(policy.lendings());
        Ok(Self { policy, counters: Counters::new(), feeds, lendings, first_verdict })
    }

    pub(crate) fn ask_for_lists(&self) {
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
    pub(crate) fn watch_lists(&self) {
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

    pub(crate) fn take_list(&self, number: u32, body_bytes: usize) {
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

    /// Whether a limit is leased.
    pub(crate) fn leases(&self) -> bool {
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

    pub(crate) fn ask_lenders(&self) {
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

    pub(crate) fn take_answer(&self, number: u32, status: u32, bytes: usize) {
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

//! A configuration at work in a host: requests, bodies, and what is done between requests.

use crate::address;
use crate::answer::{Answer, Field, fields_on_allowed};
use crate::config::Config;
use crate::facts::{Facts, Request};
use crate::feed::{Change, Feed, Response, Source};
use crate::guard::Found;
use crate::lease::Lending;
use crate::pending::PendingBody;
use crate::policy::{Class, Judgement, Policy, Verdict};
use crate::seed;
use crate::shared::{HostError, SharedData};
use glacis_limits::network_list::NetworkList;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

mod notes;

pub use notes::Note;

/// What all requests share that a host judges by one configuration.
#[derive(Debug)]
pub struct Checks {
    policy: Policy,
    /// The lists, tables and patches as requests see them. No lock is held while one is parsed.
    feeds: RwLock<Arc<[Feed]>>,
    /// The state of fetching them. Never locked while a call is made: it may end at once.
    fetching: Mutex<Vec<Feed>>,
    /// Never locked while a call is made.
    lendings: Mutex<Vec<Lending>>,
}

/// What a host knows of a request beside its headers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Envoy's attribute `source.address`.
    pub source: Option<&'a [u8]>,
    /// Whether no body and no trailers follow.
    pub end_of_stream: bool,
    /// Since 1970.
    pub now_ns: u64,
}

/// What is to become of a request, and what a host writes down and counts.
#[derive(Debug)]
pub struct Judged<'r> {
    facts: Facts<'r>,
    /// The verdict in words, as filter state has it: `limited:login`.
    pub verdict: Cow<'static, str>,
    /// Which counter it belongs to.
    pub class: Class,
    /// The check that gave it.
    pub check: &'static str,
    /// For access logs, later filters and the upstream, in the order in which they are to be set.
    pub notes: Vec<Note>,
    /// The answer; `None` if the request goes on.
    pub answer: Option<Answer>,
    /// What the response of the upstream is to get.
    pub response_fields: Vec<Field>,
    /// What the host holds until the body is there: see [`Checks::end_pending`].
    pub pending: Option<PendingBody>,
    /// A limit was asked but what the request took could not be written down.
    pub unrecorded: bool,
    /// A table was too full to give the client a place of its own.
    pub crowded: bool,
    /// The lender of a limit that was asked is away.
    pub away: bool,
}

impl<'r> Judged<'r> {
    /// What is known of the request.
    pub const fn facts(&self) -> &Facts<'r> {
        &self.facts
    }

    /// Whether the request goes on to what is behind this filter.
    pub const fn goes_on(&self) -> bool {
        self.answer.is_none()
    }
}

/// What came of a further piece of a body, once for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// The verdict in words.
    pub verdict: Cow<'static, str>,
    /// `None` if the body goes on: in shadow mode.
    pub answer: Option<Answer>,
}

/// A call for a list.
#[derive(Debug)]
pub struct HttpCall<'a> {
    /// A cluster of Envoy's.
    pub cluster: &'a str,
    /// Header fields and pseudo-headers.
    pub fields: Vec<(&'a str, &'a str)>,
    /// The longest that the call may take.
    pub timeout: Duration,
}

/// A call to a lender, of gRPC: `glacis_limits::lease::wire` has the names of service and method.
#[derive(Debug)]
pub struct LeaseCall<'a> {
    /// A cluster of Envoy's.
    pub cluster: &'a str,
    /// The bearer's token that the lender asks for.
    pub token: Option<&'a str>,
    /// The message.
    pub question: &'a [u8],
    /// The longest that the call may take.
    pub timeout: Duration,
}

/// Something that happened between requests, to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A list has other content now.
    ListChanged,
    /// A list could not be fetched.
    ListFailed,
    /// So many entries are in all lists.
    ListEntries(u64),
    /// So many lists are older than they may be.
    ListsStale(u64),
    /// A lender was called.
    LeaseCalled,
    /// A lender gave no answer of use.
    LeaseFailed,
}

/// What a host does between requests.
pub trait Host {
    /// The wall clock, since 1970.
    fn now_ns(&self) -> u64;

    /// Makes a call; its number, if Envoy makes it.
    fn http_call(&mut self, call: &HttpCall<'_>) -> Option<u64>;

    /// Makes a call to a lender; its number, if Envoy makes it.
    fn lease_call(&mut self, call: &LeaseCall<'_>) -> Option<u64>;

    /// Writes to Envoy's log, at level error.
    fn log_error(&mut self, message: &str);

    /// Counts.
    fn happened(&mut self, event: Event);
}

impl Checks {
    /// The checks of a configuration. `random` is what a stranger cannot guess, `worker` a number that no other worker
    /// with the same store has.
    ///
    /// # Errors
    /// The host refuses shared data, without which workers cannot agree.
    pub fn new(
        config: Config,
        shared: &impl SharedData,
        random: [u8; 16],
        worker: u64,
    ) -> Result<Self, HostError> {
        let seed = seed::agreed(shared, random)?;
        let policy = Policy::new(config, seed, worker);
        let restored = |source: &Source| Feed::restored(source.clone(), shared);
        let feeds: Vec<Feed> = policy.sources().iter().map(restored).collect();
        let lendings = Mutex::new(policy.lendings());
        Ok(Self {
            policy,
            feeds: RwLock::new(Arc::from(&*feeds)),
            fetching: Mutex::new(feeds),
            lendings,
        })
    }

    /// What a guard finds of an inspection; `None` if this is none. `first` gives the first verdict, `route` the name of
    /// the route.
    pub fn guard(
        &self,
        request: &dyn Request,
        first: impl FnOnce() -> Option<Vec<u8>>,
        route: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Found> {
        self.policy.guard().map(|guard| guard.look(request, first, route))
    }

    /// Whether this is a guard, which looks at nothing else.
    pub fn is_guard(&self) -> bool {
        self.policy.guard().is_some()
    }

    /// Whether limits look at so many header fields, in nearly each request, that they had better be fetched at once.
    pub fn looks_at_many_fields(&self) -> bool {
        self.policy.looks_at_many_fields()
    }

    /// Whether header fields of requests are set here.
    pub fn changes_head(&self) -> bool {
        self.policy.changes_head()
    }

    /// Whether a limit is leased.
    pub fn leases(&self) -> bool {
        self.policy.lease_tables().iter().any(Option::is_some)
    }

    /// Whether there is something to do between requests: see [`Self::tick`].
    pub fn needs_ticks(&self) -> bool {
        self.leases() || !self.policy.sources().is_empty() || self.policy.counts_pending()
    }

    /// Decides about a request, and takes what it costs.
    pub fn judge<'r>(
        &self,
        request: &'r dyn Request,
        arrival: &Arrival<'_>,
        shared: &impl SharedData,
        request_id: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Judged<'r> {
        let trusted_hops = self.policy.trusted_hops();
        // Nobody asks for it without trusted proxies.
        let forwarded_for = if trusted_hops > 0 { request.header("x-forwarded-for") } else { None };
        let client = address::client(arrival.source, forwarded_for.as_deref(), trusted_hops);
        let mut facts = Facts::new(request, client);
        facts.awaits_body = !arrival.end_of_stream;
        let feeds = self.feeds();
        let judgement = self.policy.judge(&mut facts, &feeds, arrival.now_ns, shared);
        let verdict = self.policy.property(judgement.verdict, &feeds);
        self.wish(&judgement, arrival.now_ns);
        let limits = self.policy.rate_limits();
        let answer = Answer::new(&judgement, limits, request_id);
        let response_fields = match &answer {
            None => fields_on_allowed(&judgement, limits),
            Some(_) => Vec::new(),
        };
        Judged {
            class: judgement.verdict.class(),
            check: judgement.verdict.check(),
            notes: notes::of(&self.policy, &facts, &verdict),
            verdict,
            answer,
            response_fields,
            pending: judgement.pending.map(PendingBody::of),
            unrecorded: judgement.unrecorded,
            crowded: judgement.crowded,
            away: judgement.away,
            facts,
        }
    }

    /// So many further bytes of a body have come; what comes of that, if it is news.
    pub fn grow_pending(
        &self,
        pending: &mut PendingBody,
        bytes: usize,
        now_ns: u64,
        shared: &impl SharedData,
        request_id: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Grown> {
        let more = pending.take(bytes);
        if more == 0 {
            return None;
        }
        let beyond = self.policy.grow_pending(pending.client(), more, now_ns, shared);
        // What is beyond is counted in shadow mode only.
        if beyond.is_none_or(Verdict::goes_on) {
            pending.counted(more);
        }
        let verdict = beyond?;
        // In shadow mode the body goes on: it is counted once.
        if pending.was_beyond() {
            return None;
        }
        let answer = Answer::new(&verdict.into(), self.policy.rate_limits(), request_id);
        Some(Grown { verdict: self.policy.property(verdict, &[]), answer })
    }

    /// A request is pending no more: its body is there, its answer has begun, or it is over.
    pub fn end_pending(&self, pending: &PendingBody, now_ns: u64, shared: &impl SharedData) {
        self.policy.end_pending(pending.client(), pending.mib(), now_ns, shared);
    }

    /// Does what is due between requests: every 250 ms, and every 20 ms where a limit is leased.
    pub fn tick(&self, host: &mut impl Host, shared: &impl SharedData) {
        self.policy.confirm_pending(host.now_ns(), shared);
        self.ask_for_lists(host);
        self.watch_lists(host);
        self.ask_lenders(host, shared);
    }

    /// Whether a list is awaited from the call with this number.
    pub fn awaits_list(&self, number: u64) -> bool {
        self.fetching().iter().any(|feed| feed.awaits(number))
    }

    /// The answer to a call for a list. Returns whether that call was made here. A long list takes a while: on the thread
    /// that calls this, and on no other.
    pub fn take_list(
        &self,
        number: u64,
        response: impl FnOnce() -> Response,
        host: &mut impl Host,
        shared: &impl SharedData,
    ) -> bool {
        // Changed apart: to parse a long list takes a while, and other threads look at the feeds meanwhile.
        let found = {
            let feeds = self.fetching();
            let place = feeds.iter().position(|feed| feed.awaits(number));
            place.and_then(|place| Some((place, feeds.get(place)?.clone())))
        };
        let Some((place, mut feed)) = found else { return false };
        match feed.answered(&response(), host.now_ns(), shared) {
            Ok(Change::None) => {}
            Ok(Change::Replaced) => host.happened(Event::ListChanged),
            Err(failure) => failed_list(&mut feed, &failure, host),
        }
        let mut feeds = self.fetching();
        if let Some(known) = feeds.get_mut(place) {
            *known = feed;
        }
        let entries = feeds.iter().filter_map(Feed::list).map(NetworkList::entries).sum::<usize>();
        host.happened(Event::ListEntries(entries as u64));
        self.publish(&feeds);
        true
    }

    /// The answer of a lender; `None` is a failure. Returns whether that call was made here.
    pub fn take_answer(
        &self,
        number: u64,
        response: Option<&[u8]>,
        host: &mut impl Host,
        shared: &impl SharedData,
    ) -> bool {
        let mut lendings = self.lendings();
        let Some(own) = lendings.iter_mut().find(|lending| lending.awaits(number)) else {
            return false;
        };
        own.news(response.is_some()).iter().for_each(|message| host.log_error(message));
        if !own.answered(response, self.policy.lease_tables(), shared, host.now_ns()) {
            host.happened(Event::LeaseFailed);
        }
        true
    }

    fn feeds(&self) -> Arc<[Feed]> {
        Arc::clone(&self.feeds.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn fetching(&self) -> MutexGuard<'_, Vec<Feed>> {
        self.fetching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lendings(&self) -> MutexGuard<'_, Vec<Lending>> {
        self.lendings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has requests see the feeds as they are now.
    fn publish(&self, feeds: &[Feed]) {
        let feeds = Arc::from(feeds);
        let mut current = self.feeds.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, feeds);
        drop(current);
        // A long list takes a while to go.
        drop(before);
    }

    fn ask_for_lists(&self, host: &mut impl Host) {
        let due: Vec<(usize, Feed)> = {
            let (feeds, now_ns) = (self.fetching(), host.now_ns());
            let due = feeds.iter().enumerate().filter(|(_, feed)| feed.is_due(now_ns));
            due.map(|(place, feed)| (place, feed.clone())).collect()
        };
        for (place, feed) in due {
            let Source { cluster, timeout, .. } = &feed.source;
            let call = HttpCall { cluster, fields: feed.request(), timeout: *timeout };
            let number = host.http_call(&call);
            if let Some(feed) = self.fetching().get_mut(place)
                && let Err(failure) = feed.called(number, host.now_ns())
            {
                failed_list(feed, &failure, host);
            }
        }
    }

    /// Logs each list that has become stale, and counts those that are.
    fn watch_lists(&self, host: &mut impl Host) {
        let mut feeds = self.fetching();
        if feeds.iter().all(|feed| feed.source.max_age_seconds.is_none()) {
            return;
        }
        let now_ns = host.now_ns();
        let mut is_news = false;
        for feed in feeds.iter_mut() {
            let was_stale = feed.is_stale();
            feed.watch(now_ns).iter().for_each(|message| host.log_error(message));
            is_news |= was_stale != feed.is_stale();
        }
        let stale = feeds.iter().filter(|feed| feed.is_stale()).count();
        host.happened(Event::ListsStale(stale as u64));
        if is_news {
            self.publish(&feeds);
        }
    }

    /// Leaves the wishes of a request for the next tick.
    fn wish(&self, judgement: &Judgement, now_ns: u64) {
        if judgement.wishes.is_empty() {
            return;
        }
        let mut lendings = self.lendings();
        for wished in &judgement.wishes {
            let limit = self.policy.rate_limits().get(wished.slot.limit);
            let lease = limit.and_then(|limit| limit.lease.as_ref());
            let cluster = lease.map_or("", |lease| lease.cluster.as_str());
            if let Some(own) = lendings.iter_mut().find(|lending| lending.cluster == cluster) {
                own.wish(wished, now_ns, self.policy.lease_tables());
            }
        }
    }

    fn ask_lenders(&self, host: &mut impl Host, shared: &impl SharedData) {
        let tables = self.policy.lease_tables();
        let count = self.lendings().len();
        for place in 0..count {
            let now_ns = host.now_ns();
            let asked = {
                let mut lendings = self.lendings();
                let own = lendings.get_mut(place);
                own.and_then(|own| {
                    let question = own.question(tables, shared, now_ns)?;
                    Some((question, own.cluster.clone(), own.token.clone(), own.timeout))
                })
            };
            let Some((question, cluster, token, timeout)) = asked else { continue };
            let (question, token) = (question.as_slice(), token.as_deref());
            let number =
                host.lease_call(&LeaseCall { cluster: &cluster, token, question, timeout });
            host.happened(Event::LeaseCalled);
            if let Some(own) = self.lendings().get_mut(place) {
                own.called(number, tables, shared, now_ns);
                if number.is_none() {
                    host.happened(Event::LeaseFailed);
                    own.news(false).iter().for_each(|message| host.log_error(message));
                }
            }
        }
    }
}

/// Counts a list that could not be fetched, and logs why if that is not in the log.
fn failed_list(feed: &mut Feed, failure: &str, host: &mut impl Host) {
    host.happened(Event::ListFailed);
    if feed.is_news(failure) {
        host.log_error(failure);
    }
}

#[cfg(test)]
mod tests;

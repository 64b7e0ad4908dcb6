//! Where counters are kept: in memory or in Redis, and what is told of Redis.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use glacis_limit_store::{Guarded, GuardedCounters, MemoryStore, RedisCounters, RedisStore, Store};
use glacis_service::{command::Failure, metrics::Described};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::ConstGauge,
    },
    registry::Registry,
};

use crate::config::StoreConfig;

const CONNECTED: Described = Described::gauge(
    "glacis_store_connected",
    "0 or 1",
    &[],
    "Whether Redis is asked: 1, or 0 while it is away and on_store_failure of each limit decides",
);
const REQUESTS: Described = Described::counter(
    "glacis_store_requests",
    "requests",
    &["result"],
    "Requests to Redis by what became of them (bans are asked for four times a second); late: no answer within \
     deadline_ms, refused: an error for an answer, unavailable: no connection, crowded: in_flight_max others were \
     under way",
);
const DECIDED_ALONE: Described = Described::counter(
    "glacis_store_decided_alone",
    "decisions",
    &["policy"],
    "Decisions on limits for which Redis had no answer, by what on_store_failure says; those of leases and quota \
     are deny, those of bans local, and what rate_limit_service answers with an error is allow",
);
const RETURNS_LOST: Described = Described::counter(
    "glacis_store_returns_lost",
    "returns",
    &[],
    "Returns of lent tokens that Redis did not get: the limit is stricter by them",
);

/// All of them, for the documentation.
pub(crate) const FAMILIES: &[Described] = &[CONNECTED, REQUESTS, DECIDED_ALONE, RETURNS_LOST];

/// What can become of requests to Redis, as labels.
pub(crate) fn results() -> [&'static str; 5] {
    RedisCounters::default().by_result().map(|(result, _)| result)
}

/// What can decide without Redis, as labels.
pub(crate) fn policies() -> [&'static str; 3] {
    GuardedCounters::default().by_policy().map(|(policy, _)| policy)
}

/// A store, and the same again where it is Redis, with what answers when that is away.
type Opened = (Arc<dyn Store>, Option<Arc<Guarded<RedisStore>>>);

/// The store of a configuration. What is told of it is registered in `registry`. To be called within a runtime.
pub(crate) fn open(config: &StoreConfig, registry: &mut Registry) -> Result<Opened, Failure> {
    let memory = MemoryStore::new(config.counters_max);
    let Some(redis) = &config.redis else { return Ok((Arc::new(memory), None)) };
    let redis = RedisStore::new(redis.clone())?;
    let guarded = Arc::new(Guarded::new(redis, config.replicas, memory));
    registry.register_collector(Box::new(Told(Arc::clone(&guarded))));
    let store: Arc<dyn Store> = Arc::clone(&guarded) as Arc<dyn Store>;
    Ok((store, Some(guarded)))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPolicy {
    policy: &'static str,
}

/// The families. The store counts by itself, and is asked at each scrape.
#[derive(Debug)]
struct Told(Arc<Guarded<RedisStore>>);

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> core::fmt::Result {
        let (line, alone) = (self.0.store().redis().counters(), self.0.counters());
        let connected = i64::from(line.is_closed.load(Ordering::Relaxed));
        CONNECTED.encode(&mut encoder, &ConstGauge::new(connected))?;
        let requests = Family::<ByResult, Counter>::default();
        for (result, count) in line.by_result() {
            requests.get_or_create(&ByResult { result }).inc_by(count);
        }
        REQUESTS.encode(&mut encoder, &requests)?;
        let decided = Family::<ByPolicy, Counter>::default();
        for (policy, count) in alone.by_policy() {
            decided.get_or_create(&ByPolicy { policy }).inc_by(count);
        }
        DECIDED_ALONE.encode(&mut encoder, &decided)?;
        let lost = alone.returns_lost.load(Ordering::Relaxed);
        RETURNS_LOST.encode(&mut encoder, &ConstCounter::new(lost))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use glacis_limit_store::{Ask, Key, Limit, OnStoreFailure, RedisConfig, Return, Taking};
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn of_a_store_in_memory_nothing_is_told() {
        let mut registry = Registry::default();
        let (_, redis) = open(&StoreConfig::default(), &mut registry).unwrap();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(redis.is_none() && text == "# EOF\n", "{text}");
    }

    /// Nobody listens where Redis should be.
    #[tokio::test]
    async fn an_outage_is_told() {
        let redis = RedisConfig { nodes: vec!["127.0.0.1:1".to_owned()], ..RedisConfig::default() };
        let config = StoreConfig { redis: Some(redis), ..StoreConfig::default() };
        let mut registry = Registry::default();
        let (store, _) = open(&config, &mut registry).unwrap();
        let key = Key::new(b"few", b"a");
        let limit = Limit::gcra(1, Duration::from_secs(60), 4).unwrap();
        let ask = |on_store_failure| Ask { on_store_failure, ..Ask::new(key.clone(), limit, 1) };
        let asks = [OnStoreFailure::Deny, OnStoreFailure::Local, OnStoreFailure::Deny].map(ask);
        store.take(&asks, Taking::EachForItself).await.unwrap();
        store.take(&[ask(OnStoreFailure::Allow)], Taking::AllOrNothing).await.unwrap();
        let returned = Return { key, limit, tokens: 3, age: Duration::ZERO };
        store.give_back(&[returned]).await.unwrap_err();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "glacis_store_connected 0",
            "glacis_store_requests_total{result=\"answered\"} 0",
            "glacis_store_requests_total{result=\"unavailable\"} 3",
            "glacis_store_decided_alone_total{policy=\"allow\"} 1",
            "glacis_store_decided_alone_total{policy=\"deny\"} 2",
            "glacis_store_decided_alone_total{policy=\"local\"} 1",
            "glacis_store_returns_lost_total 1",
        ] {
            assert!(text.lines().any(|told| told == line), "no {line} in {text}");
        }
    }
}

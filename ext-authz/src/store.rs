//! Where counters are kept: in memory or in Redis, and what is told of Redis.

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use std::sync::Arc;

use glacis_limit_store::{Guarded, MemoryStore, OverLimitCache, RedisStore, Store};
use glacis_service::{
    command::Failure,
    metrics::Described,
    store::{StoreState, Stores},
};
use prometheus_client::{
    collector::Collector, encoding::DescriptorEncoder, metrics::counter::ConstCounter,
    registry::Registry,
};

use crate::config::{OverLimitCacheConfig, StoreConfig};

/// Under which name metrics tell of it.
pub(crate) const NAME: &str = "limits";

/// Asks that were answered by the cache of refusals.
pub(crate) const CACHE_HITS: Described = Described::counter(
    "glacis_over_limit_cache_hits",
    "asks",
    &[],
    "Asks of limits that the cache of refusals has answered: none of them reached Redis",
);

/// The count of [`CACHE_HITS`].
#[derive(Debug)]
struct CacheHits(Arc<AtomicU64>);

impl Collector for CacheHits {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        CACHE_HITS.encode(&mut encoder, &ConstCounter::new(self.0.load(Ordering::Relaxed)))
    }
}

/// A store.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// For limits of requests: before Redis, refusals are cached.
    pub(crate) limits: Arc<dyn Store>,
    /// The same without a cache: for bans, and for those who give tokens back.
    pub(crate) plain: Arc<dyn Store>,
    /// The same again where it is Redis, with what answers when that is down.
    pub(crate) redis: Option<Arc<Guarded<RedisStore>>>,
}

/// The store of a configuration. What is told of it is registered in `registry`. To be called within a runtime.
pub(crate) fn open(config: &StoreConfig, registry: &mut Registry) -> Result<Opened, Failure> {
    let memory = MemoryStore::new(config.counters_max);
    let Some(redis) = &config.redis else {
        let plain: Arc<dyn Store> = Arc::new(memory);
        return Ok(Opened { limits: Arc::clone(&plain), plain, redis: None });
    };
    let redis = RedisStore::new(redis.clone())?;
    let guarded = Arc::new(Guarded::new(redis, config.replicas, memory));
    let (stores, told) = (Stores::default(), Arc::clone(&guarded));
    stores.add(NAME, move || state(&told));
    stores.register(registry);
    let plain: Arc<dyn Store> = Arc::clone(&guarded) as Arc<dyn Store>;
    let limits = cached(&plain, config.over_limit_cache, registry);
    Ok(Opened { limits, plain, redis: Some(guarded) })
}

/// A store with its cache of refusals, if the configuration wants one.
fn cached(
    store: &Arc<dyn Store>,
    config: OverLimitCacheConfig,
    registry: &mut Registry,
) -> Arc<dyn Store> {
    if config.entries_max == 0 {
        return Arc::clone(store);
    }
    let time_max = Duration::from_millis(config.max_ms.into());
    let cache = OverLimitCache::new(Arc::clone(store), config.entries_max, time_max);
    registry.register_collector(Box::new(CacheHits(cache.hits())));
    Arc::new(cache)
}

/// What metrics tell of it.
fn state(store: &Guarded<RedisStore>) -> StoreState {
    let (redis, alone) = (store.store().redis(), store.counters());
    StoreState {
        connected: redis.is_there(),
        requests: redis.counters().by_result().to_vec(),
        decided_alone: alone.by_policy().to_vec(),
        returns_lost: Some(alone.returns_lost.load(Ordering::Relaxed)),
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
        let Opened { redis, .. } = open(&StoreConfig::default(), &mut registry).unwrap();
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
        let Opened { limits: store, .. } = open(&config, &mut registry).unwrap();
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
            "glacis_store_connected{store=\"limits\"} 0",
            "glacis_store_requests_total{store=\"limits\",result=\"answered\"} 0",
            "glacis_store_requests_total{store=\"limits\",result=\"unavailable\"} 3",
            "glacis_store_decided_alone_total{store=\"limits\",policy=\"allow\"} 1",
            "glacis_store_decided_alone_total{store=\"limits\",policy=\"deny\"} 2",
            "glacis_store_decided_alone_total{store=\"limits\",policy=\"local\"} 1",
            "glacis_store_returns_lost_total{store=\"limits\"} 1",
            "glacis_over_limit_cache_hits_total 0",
        ] {
            assert!(text.lines().any(|told| told == line), "no {line} in {text}");
        }
    }
}

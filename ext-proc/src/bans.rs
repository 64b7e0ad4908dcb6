//! Addresses of which too many requests were refused are banned: in Redis, where ext-authz and, through its
//! lists, the wasm-filters learn of it.
//!
//! This service only counts and says. Whoever is banned comes no further than the wasm-filter, or ext-authz.

use core::net::IpAddr;
use std::{io, sync::Arc};

use glacis_engine::Phase;
use glacis_inspector::Receipt;
use glacis_limit_store::{BanScenario, Bans, Guarded, MemoryStore, RedisStore, Store};
use glacis_service::{
    now,
    store::{StoreState, Stores},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tokio::sync::mpsc;

use crate::{config::BansConfig, metrics::table, rule_evidence::RuleEvidence};

/// Addresses that are counted here alone while Redis is away.
const COUNTERS_MAX: usize = 10_000;

/// Under which name metrics tell of the line to Redis.
pub(crate) const STORE: &str = "bans";

/// Where refusals go that may lead to a ban. Whoever hands one over never waits.
#[derive(Debug)]
pub(crate) struct BanQueue {
    queue: mpsc::Sender<IpAddr>,
    metrics: BanMetrics,
}

/// What is counted of bans.
#[derive(Clone, Debug, Default)]
pub(crate) struct BanMetrics {
    bans: Family<ScenarioLabel, Counter>,
    lost: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScenarioLabel {
    scenario: String,
}

impl BanMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        table::BANS.register(registry, self.bans.clone());
        table::BAN_REFUSALS_LOST.register(registry, self.lost.clone());
    }
}

impl BanQueue {
    /// One that counts as `config` says, if it asks for that; `stores` learns of its Redis. To be called within a
    /// runtime.
    ///
    /// # Errors
    /// When Redis cannot be used as `config` says.
    pub(crate) fn start(
        config: &BansConfig,
        metrics: BanMetrics,
        stores: &Stores,
        evidence: RuleEvidence,
    ) -> io::Result<Option<Self>> {
        let scenarios: Vec<BanScenario> =
            config.scenarios.iter().flat_map(|scenario| scenario.scenario()).collect();
        let Some(redis) = config.redis.clone().filter(|_| !scenarios.is_empty()) else {
            return Ok(None);
        };
        for scenario in &scenarios {
            let scenario = scenario.name().to_owned();
            drop(metrics.bans.get_or_create(&ScenarioLabel { scenario }));
        }
        let redis = RedisStore::new(redis).map_err(io::Error::other)?;
        let redis = Arc::new(Guarded::new(redis, 1, MemoryStore::new(COUNTERS_MAX)));
        let told = Arc::clone(&redis);
        stores.add(STORE, move || state(&told));
        let store: Arc<dyn Store> = Arc::clone(&redis) as Arc<dyn Store>;
        let bans = Arc::new(Bans::new(store, Some(redis)));
        tokio::spawn(Arc::clone(&bans).keep(now_seconds));
        let (queue, refusals) = mpsc::channel(config.queue_max);
        tokio::spawn(count(refusals, bans, scenarios, metrics.clone(), evidence));
        Ok(Some(Self { queue, metrics }))
    }

    /// Takes note of a request of this client that was refused.
    pub(crate) fn refused(&self, client: IpAddr) {
        if self.queue.try_send(client).is_err() {
            self.metrics.lost.inc();
        }
    }
}

/// What metrics tell of the line to Redis.
fn state(store: &Guarded<RedisStore>) -> StoreState {
    let redis = store.store().redis();
    StoreState {
        connected: redis.is_there(),
        requests: redis.counters().by_result().to_vec(),
        decided_alone: store.counters().by_policy().to_vec(),
        // Nothing is given back.
        returns_lost: None,
    }
}

/// Whether the request was refused; what a response gives away is not its client's doing.
pub(crate) fn refuses_request(receipt: &Receipt<'_>) -> bool {
    matches!(receipt.verdict, "deny" | "redirect" | "drop")
        && matches!(receipt.phase, Some(Phase::RequestHeaders | Phase::RequestBody))
}

/// Counts refusals as long as there are some to come.
async fn count(
    mut refusals: mpsc::Receiver<IpAddr>,
    bans: Arc<Bans>,
    scenarios: Vec<BanScenario>,
    metrics: BanMetrics,
    evidence: RuleEvidence,
) {
    let scenarios: Vec<&BanScenario> = scenarios.iter().collect();
    while let Some(address) = refusals.recv().await {
        let now_seconds = now_seconds();
        // What was under way when it was banned tells nothing new.
        if bans.of(address, now_seconds).is_some() {
            continue;
        }
        if let Some(by) = bans.refused(&scenarios, address, now_seconds).await {
            let scenario = by.name().to_owned();
            tracing::warn!(%address, scenario, "banned for a time");
            evidence.banned(address);
            metrics.bans.get_or_create(&ScenarioLabel { scenario }).inc();
        }
    }
}

fn now_seconds() -> u64 {
    now().as_secs()
}

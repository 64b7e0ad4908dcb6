//! What metrics tell of stores that a service asks over the network, such as Redis. A store counts by itself, and is
//! asked for its counts at each scrape.

use core::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use crate::{label, metric_family::Described};

const CONNECTED: Described = Described::gauge(
    "glacis_store_connected",
    "0 or 1",
    &["store"],
    "Whether Redis is asked: 1, or 0 while it is away",
);
const REQUESTS: Described = Described::counter(
    "glacis_store_requests",
    "requests",
    &["store", "result"],
    "Requests to Redis by what became of them (bans are asked for four times a second); late: no answer within \
     deadline_ms, refused: an error for an answer, unavailable: no connection, crowded: in_flight_max others were \
     under way",
);
const DECIDED_ALONE: Described = Described::counter(
    "glacis_store_decided_alone",
    "decisions",
    &["store", "policy"],
    "Decisions on limits for which Redis had no answer, by what on_store_failure says; those of leases and quota \
     are deny, those of bans local, and what rate_limit_service answers with an error is allow",
);
/// Of a store to which something is returned.
pub const RETURNS_LOST: Described = Described::counter(
    "glacis_store_returns_lost",
    "returns",
    &["store"],
    "Returns of lent tokens that Redis did not get: the limit is stricter by them",
);

/// Those of every store, for the documentation: they are there where the configuration has one.
pub const FAMILIES: [Described; 3] = [CONNECTED, REQUESTS, DECIDED_ALONE];

label!(StoreLabel, store: &'static str);
label!(ResultLabel, store: &'static str, result: &'static str);
label!(PolicyLabel, store: &'static str, policy: &'static str);

/// What a store tells of itself; counts are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Whether it is asked.
    pub connected: bool,
    /// Requests by what became of them.
    pub requests: Vec<(&'static str, u64)>,
    /// Decisions without an answer of its, by what decided; none where it decides nothing.
    pub decided_alone: Vec<(&'static str, u64)>,
    /// Returns that were lost, where something is returned.
    pub returns_lost: Option<u64>,
}

/// The stores of a service. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Stores(Arc<RwLock<Vec<Store>>>);

struct Store {
    name: &'static str,
    state: Box<dyn Fn() -> StoreState + Send + Sync>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Stores {
    /// Adds one; the label `store` has its name.
    pub fn add(&self, name: &'static str, state: impl Fn() -> StoreState + Send + Sync + 'static) {
        let store = Store { name, state: Box::new(state) };
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(store);
    }

    /// Registers the families; of stores that are added later they tell as well.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for Stores {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stores = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let states = stores.iter().map(|store| (store.name, (store.state)()));
        let states: Vec<(&'static str, StoreState)> = states.collect();
        drop(stores);
        let (mut connected, mut requests) = (Vec::new(), Vec::new());
        let (mut decided, mut lost) = (Vec::new(), Vec::new());
        for (store, state) in states {
            connected.push((StoreLabel { store }, ConstGauge::new(i64::from(state.connected))));
            for (result, count) in state.requests {
                requests.push((ResultLabel { store, result }, ConstCounter::new(count)));
            }
            for (policy, count) in state.decided_alone {
                decided.push((PolicyLabel { store, policy }, ConstCounter::new(count)));
            }
            if let Some(count) = state.returns_lost {
                lost.push((StoreLabel { store }, ConstCounter::new(count)));
            }
        }
        tell(&CONNECTED, &mut encoder, connected)?;
        tell(&REQUESTS, &mut encoder, requests)?;
        tell(&DECIDED_ALONE, &mut encoder, decided)?;
        tell(&RETURNS_LOST, &mut encoder, lost)
    }
}

/// Writes a family, if there is something to tell.
fn tell<L: EncodeLabelSet, M: EncodeMetric>(
    family: &Described,
    encoder: &mut DescriptorEncoder<'_>,
    samples: Vec<(L, M)>,
) -> fmt::Result {
    if samples.is_empty() {
        return Ok(());
    }
    let mut family = family.descriptor(encoder)?;
    for (label, metric) in samples {
        metric.encode(family.encode_family(&label)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn each_store_tells_of_itself() {
        let (mut registry, stores) = (Registry::default(), Stores::default());
        stores.register(&mut registry);
        let scraped = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text.lines().filter(|line| !line.starts_with("# HELP")).map(str::to_owned).collect()
        };
        let found: Vec<String> = scraped();
        assert_eq!(found, ["# EOF"]);
        stores.add("limits", || StoreState {
            connected: true,
            requests: vec![("answered", 7), ("late", 0)],
            decided_alone: vec![("deny", 2)],
            returns_lost: Some(1),
        });
        stores.add("collections", || StoreState {
            requests: vec![("answered", 3)],
            ..StoreState::default()
        });
        let found: Vec<String> = scraped();
        let expected = [
            "# TYPE glacis_store_connected gauge",
            "glacis_store_connected{store=\"limits\"} 1",
            "glacis_store_connected{store=\"collections\"} 0",
            "# TYPE glacis_store_requests counter",
            "glacis_store_requests_total{store=\"limits\",result=\"answered\"} 7",
            "glacis_store_requests_total{store=\"limits\",result=\"late\"} 0",
            "glacis_store_requests_total{store=\"collections\",result=\"answered\"} 3",
            "# TYPE glacis_store_decided_alone counter",
            "glacis_store_decided_alone_total{store=\"limits\",policy=\"deny\"} 2",
            "# TYPE glacis_store_returns_lost counter",
            "glacis_store_returns_lost_total{store=\"limits\"} 1",
            "# EOF",
        ];
        assert_eq!(found, expected);
    }
}

//! Bans on the admin port: listing them in pages, banning and unbanning by hand.

use std::sync::Arc;

use glacis_limit_store::{BAN_SECONDS_MAX, Bans, WIDEST_BANS};
use glacis_limits::cidr::Cidr;
use glacis_service::{
    admin::{AdminAnswer, AdminRequest, good, text},
    now,
};
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

/// Bans on one page at most, and unless another number is asked for.
const PAGE_MAX: usize = 1_000;
const PAGE: usize = 100;

/// Answers for `/bans` and `/bans/remove`.
#[derive(Debug)]
pub(crate) struct BanDesk {
    bans: Arc<Bans>,
    /// Where Redis is asked: the admin port's thread waits for it.
    runtime: Handle,
}

/// A page of bans.
#[derive(Serialize)]
struct Page {
    bans: Vec<Ban>,
    /// What to ask for next (`after`); nothing on the last page.
    next: Option<String>,
    /// How many there are on all pages.
    total: usize,
}

#[derive(Serialize)]
struct Ban {
    network: String,
    /// The end, in seconds since 1970.
    until: u64,
    /// Seconds that are left.
    seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    network: String,
    seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unwanted {
    network: String,
}

#[derive(Serialize)]
struct Added {
    network: String,
    until: u64,
    /// Whether all services that share a Redis know it now.
    shared: bool,
}

#[derive(Serialize)]
struct Removed {
    network: String,
    /// Whether it was banned.
    removed: bool,
}

/// What is wrong with a request: a sentence.
type Wrong = (StatusCode, String);

fn bad(why: impl Into<String>) -> Wrong {
    (StatusCode::BAD_REQUEST, why.into())
}

impl BanDesk {
    /// To be called within the runtime of the service.
    pub(crate) fn new(bans: Arc<Bans>) -> Self {
        Self { bans, runtime: Handle::current() }
    }

    /// Answers a request; `None` for another path. Waits for Redis up to its deadline.
    pub(crate) fn answer(&self, request: &AdminRequest) -> Option<AdminAnswer> {
        let answer = match (request.path.as_str(), &request.method) {
            ("/bans", &Method::GET) => self.list(&request.query),
            ("/bans", &Method::PUT) => self.add(&request.body),
            ("/bans/remove", &Method::POST) => self.remove(&request.body),
            ("/bans", _) => {
                Err((StatusCode::METHOD_NOT_ALLOWED, "GET to list, PUT to ban".to_owned()))
            }
            ("/bans/remove", _) => Err((StatusCode::METHOD_NOT_ALLOWED, "POST only".to_owned())),
            _ => return None,
        };
        Some(answer.unwrap_or_else(|(status, why)| text(status, format!("{why}\n"))))
    }

    fn list(&self, query: &str) -> Result<AdminAnswer, Wrong> {
        let (mut count, mut after) = (PAGE, None);
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => {
                    let wanted =
                        value.parse().ok().filter(|wanted| (1..=PAGE_MAX).contains(wanted));
                    count = wanted.ok_or_else(|| bad(format!("limit: write 1 to {PAGE_MAX}")))?;
                }
                "after" => after = Some(network(&value)?),
                _ => return Err(bad("write limit and after, or nothing")),
            }
        }
        let now_seconds = now().as_secs();
        let mut page = self.bans.page(after, count + 1, now_seconds);
        let is_last = page.len() <= count;
        page.truncate(count);
        let next = page.last().filter(|_| !is_last).map(|(network, _)| name(*network));
        let bans = page.into_iter().map(|(network, until)| Ban {
            network: name(network),
            until,
            seconds: until.saturating_sub(now_seconds),
        });
        let total = self.bans.page(None, usize::MAX, now_seconds).len();
        Ok(good(&Page { bans: bans.collect(), next, total }))
    }

    fn add(&self, body: &[u8]) -> Result<AdminAnswer, Wrong> {
        let Wanted { network: wanted, seconds } = serde_json::from_slice(body)
            .map_err(|_| bad("write {\"network\": \"192.0.2.0/24\", \"seconds\": 3600}"))?;
        let network = network(&wanted)?;
        let widest = if network.bounds().0.is_ipv4() { WIDEST_BANS.0 } else { WIDEST_BANS.1 };
        if network.prefix() < widest {
            return Err(bad(format!("network: write a prefix of at least {widest} bits")));
        }
        if !(1..=BAN_SECONDS_MAX).contains(&seconds) {
            return Err(bad(format!("seconds: write 1 to {BAN_SECONDS_MAX}")));
        }
        let now_seconds = now().as_secs();
        let until = now_seconds.saturating_add(seconds);
        let shared = self.runtime.block_on(self.bans.add(network, until, now_seconds));
        let network = name(network);
        tracing::warn!(network, seconds, shared, "banned through the admin port");
        Ok(good(&Added { network, until, shared }))
    }

    fn remove(&self, body: &[u8]) -> Result<AdminAnswer, Wrong> {
        let Unwanted { network: unwanted } = serde_json::from_slice(body)
            .map_err(|_| bad("write {\"network\": \"192.0.2.0/24\"}"))?;
        let network = network(&unwanted)?;
        let removed = self.runtime.block_on(self.bans.remove(network, now().as_secs()));
        let removed = removed.map_err(|error| {
            let why = format!("Redis does not answer ({error}): the ban holds, try again");
            (StatusCode::SERVICE_UNAVAILABLE, why)
        })?;
        let network = name(network);
        tracing::warn!(network, removed, "unbanned through the admin port");
        Ok(good(&Removed { network, removed }))
    }
}

fn network(text: &str) -> Result<Cidr, Wrong> {
    Cidr::parse(text).map_err(|error| bad(format!("network: {error}")))
}

/// A network as lists name it: an address by itself has no prefix.
fn name(network: Cidr) -> String {
    match network.is_one_address() {
        true => network.bounds().0.to_string(),
        false => network.to_string(),
    }
}

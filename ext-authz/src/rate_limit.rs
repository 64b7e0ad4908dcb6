//! Limits of requests: what is asked of the store, and what its answers come to.

use core::{fmt::Write as _, net::IpAddr, time::Duration};

use glacis_limit_store::{Answer, Ask, DecidedBy, Key, Limit, LimitError, OnStoreFailure};
use glacis_limits::{
    cidr::network_of,
    field::{self, Cookies, Given},
    path::Template,
    rate_headers::{PolicyName, rate_limit, rate_limit_policy, retry_after},
};

use crate::{
    api_key::Found,
    claim,
    config::{Absent, Algorithm, KeyPart, Rate, RateLimitConfig, StoreFailure},
    limit_name::OF_CLIENT,
    subject::{Filter, Subject},
};

/// Parts of a key.
const KEY_PARTS_MAX: usize = 8;

/// A limit.
#[derive(Clone, Debug)]
pub(crate) struct RateLimit {
    name: PolicyName,
    limit: Limit,
    cost: u32,
    requests: u32,
    per_seconds: u32,
    key: Vec<Part>,
    absent: Absent,
    filter: Filter,
    prefixes: (u8, u8),
    shadow: bool,
    headers_on_allowed: bool,
    on_store_failure: OnStoreFailure,
}

/// What tells clients apart.
#[derive(Clone, Debug)]
enum Part {
    Address,
    Host,
    Method,
    Country,
    Asn,
    ApiKey,
    Path(Vec<Template>),
    Header(String),
    Cookie(String),
    Claim(String),
}

type Wrong = (&'static str, String);

impl RateLimit {
    /// That of a configuration.
    pub(crate) fn new(config: &RateLimitConfig) -> Result<Self, Wrong> {
        let name = PolicyName::new(&config.name).map_err(|error| ("name", error.to_string()))?;
        let limit = limit(config.algorithm, config.requests, config.per_seconds, config.burst);
        let limit = limit.map_err(|error| ("requests", error.to_string()))?;
        if config.key.is_empty() || config.key.len() > KEY_PARTS_MAX {
            return Err(("key", format!("write 1 to {KEY_PARTS_MAX} parts")));
        }
        if config.burst.is_some() && config.algorithm != Algorithm::Gcra {
            return Err(("burst", "only gcra has one: remove it".to_owned()));
        }
        if config.cost == 0 || config.cost > limit.burst() {
            return Err(("cost", format!("write 1 to {}, the most at once", limit.burst())));
        }
        if config.ipv4_prefix > 32 || config.ipv6_prefix > 128 {
            return Err(("ipv4_prefix", "write at most 32 bits, and 128 for IPv6".to_owned()));
        }
        Ok(Self {
            name,
            limit,
            cost: config.cost,
            requests: config.requests,
            per_seconds: config.per_seconds,
            key: config.key.iter().map(Part::new).collect::<Result<_, _>>()?,
            absent: config.absent,
            filter: Filter::new(&config.matches)?,
            prefixes: (config.ipv4_prefix, config.ipv6_prefix),
            shadow: config.shadow,
            headers_on_allowed: config.headers_on_allowed,
            on_store_failure: match config.on_store_failure {
                StoreFailure::Allow => OnStoreFailure::Allow,
                StoreFailure::Deny => OnStoreFailure::Deny,
                StoreFailure::Local => OnStoreFailure::Local,
            },
        })
    }

    /// That of a client with an API key.
    pub(crate) fn of_client(client: &str, rate: &Rate) -> Result<Self, Wrong> {
        let Rate { requests, per_seconds, burst } = *rate;
        Self::new(&RateLimitConfig {
            name: format!("{OF_CLIENT}{client}"),
            requests,
            per_seconds,
            burst,
            cost: 1,
            algorithm: Algorithm::Gcra,
            key: vec![KeyPart::ApiKey],
            absent: Absent::Skip,
            matches: crate::config::Matches::default(),
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            shadow: false,
            headers_on_allowed: true,
            on_store_failure: StoreFailure::Local,
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Whether it only counts and tells.
    pub(crate) const fn is_shadow(&self) -> bool {
        self.shadow
    }

    /// What the store is asked for a request; `None` where the limit does not apply.
    pub(crate) fn ask(&self, subject: &Subject<'_>) -> Option<Ask> {
        if !self.filter.fits(subject) {
            return None;
        }
        let (mut name, mut whose) = (self.name().to_owned(), Vec::new());
        for (place, part) in self.key.iter().enumerate() {
            let value = match (part.read(subject, self.prefixes), self.absent) {
                (Given::One(value), _) => value,
                (Given::Nothing | Given::Several, Absent::Shared) => Vec::new(),
                (Given::Nothing, Absent::Skip) => return None,
                // With `skip`, too: to send a field twice, or a wrong key first, must not be a way around the limit.
                (Given::Nothing, Absent::Address) | (Given::Several, _) => {
                    // Counted apart: what a client writes into a header must not count for whoever has that
                    // address. No limit has an `@` in its name. Writing to a `String` cannot fail.
                    let _ = write!(name, "@{place}");
                    address(subject.address, self.prefixes)
                }
            };
            // With its length, no part can pass for two.
            if self.key.len() > 1 {
                whose.extend_from_slice(format!("{}:", value.len()).as_bytes());
            }
            whose.extend_from_slice(&value);
        }
        let key = Key::new(name.as_bytes(), &whose);
        let on_store_failure = self.on_store_failure;
        Some(Ask { on_store_failure, ..Ask::new(key, self.limit, self.cost) })
    }
}

fn limit(
    algorithm: Algorithm,
    requests: u32,
    per_seconds: u32,
    burst: Option<u32>,
) -> Result<Limit, LimitError> {
    let period = Duration::from_secs(per_seconds.into());
    match algorithm {
        Algorithm::Gcra => Limit::gcra(requests, period, burst.unwrap_or(requests)),
        Algorithm::SlidingWindow => Limit::sliding_window(requests, period),
        Algorithm::FixedWindow => Limit::fixed_window(requests, period),
    }
}

impl Part {
    fn new(part: &KeyPart) -> Result<Self, Wrong> {
        Ok(match part {
            KeyPart::ClientAddress => Self::Address,
            KeyPart::Host => Self::Host,
            KeyPart::Method => Self::Method,
            KeyPart::Country => Self::Country,
            KeyPart::Asn => Self::Asn,
            KeyPart::ApiKey => Self::ApiKey,
            KeyPart::Path(templates) if templates.is_empty() => {
                return Err((
                    "key",
                    "a path needs templates: write such as /users/{id}".to_owned(),
                ));
            }
            KeyPart::Path(templates) => {
                let read = templates.iter().map(|text| {
                    Template::parse(text).map_err(|error| ("key", format!("\"{text}\": {error}")))
                });
                Self::Path(read.collect::<Result<_, _>>()?)
            }
            KeyPart::Header(name) => Self::Header(name.to_ascii_lowercase()),
            KeyPart::Cookie(name) => Self::Cookie(name.clone()),
            KeyPart::JwtClaim(name) => Self::Claim(name.clone()),
        })
    }

    fn read(&self, subject: &Subject<'_>, prefixes: (u8, u8)) -> Given {
        let value = match self {
            Self::Header(name) => return field::header(name, fields(subject, name)),
            Self::Cookie(name) => {
                return Cookies::read(fields(subject, "cookie")).given(name.as_bytes());
            }
            Self::ApiKey => return api_key(subject),
            Self::Address => Some(address(subject.address, prefixes)),
            // One that is ambiguous has been rejected before.
            Self::Host => subject.host.name().map(<[u8]>::to_vec),
            Self::Method => Some(subject.method.clone()),
            Self::Country => Some(subject.country.as_str().as_bytes().to_vec()),
            Self::Asn => Some(subject.asn.to_string().into_bytes()),
            Self::Path(templates) => {
                let place = templates.iter().position(|template| template.matches(&subject.path));
                let place = place.map_or_else(|| "other".to_owned(), |place| place.to_string());
                Some(place.into_bytes())
            }
            Self::Claim(name) => {
                let claim = subject.claims.and_then(|claims| claim::named(claims, name));
                claim.map(String::into_bytes)
            }
        };
        // What is empty is as good as not there, and as cheap to send.
        value.filter(|value| !value.is_empty()).map_or(Given::Nothing, Given::One)
    }
}

/// Whose API key a request has. A wrong one, or several, may come with one that the upstream takes.
fn api_key(subject: &Subject<'_>) -> Given {
    match &subject.key {
        Found::Client(client, _) => Given::One(client.name.clone().into_bytes()),
        Found::Wrong | Found::Ambiguous => Given::Several,
        Found::Nothing => Given::Nothing,
    }
}

/// The values of all fields that servers may read under this name. Envoy sends each field on its own (with
/// `encode_raw_headers`).
fn fields<'r>(subject: &Subject<'r>, name: &str) -> impl Iterator<Item = &'r [u8]> {
    let named =
        |header: &&glacis_inspector::Header<'_>| field::is_same_name(header.name, name.as_bytes());
    subject.headers.iter().filter(named).map(|header| header.value)
}

/// The network of an address. Who has none shares what is left for such.
fn address(address: Option<IpAddr>, (ipv4, ipv6): (u8, u8)) -> Vec<u8> {
    let Some(address) = address else { return b"unknown".to_vec() };
    let prefix = if address.is_ipv4() { ipv4 } else { ipv6 };
    network_of(address, prefix).to_string().into_bytes()
}

/// What the answers of the store come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The first limit that refuses.
    pub(crate) refused: Option<String>,
    /// The first limit on trial that would.
    pub(crate) would_refuse: Option<String>,
    /// What the client is told.
    pub(crate) headers: Vec<(String, String)>,
}

/// Puts answers together, each with its limit.
pub(crate) fn outcome(asked: &[&RateLimit], answers: &[Answer]) -> Outcome {
    let mut outcome = Outcome::default();
    let (mut policies, mut states) = (Vec::new(), Vec::new());
    let mut wait = Duration::ZERO;
    for (limit, answer) in asked.iter().zip(answers) {
        let refuses = !answer.allowed;
        let place = if limit.shadow { &mut outcome.would_refuse } else { &mut outcome.refused };
        if refuses && place.is_none() {
            *place = Some(limit.name.as_str().to_owned());
        }
        if limit.shadow || answer.decided_by == DecidedBy::NotAsked {
            continue;
        }
        if refuses {
            wait = wait.max(answer.retry_after);
        }
        if refuses || limit.headers_on_allowed {
            policies.push(rate_limit_policy(
                &limit.name,
                limit.requests.into(),
                limit.per_seconds.into(),
            ));
            states.push(rate_limit(
                &limit.name,
                answer.remaining.into(),
                nanoseconds(answer.reset_after),
            ));
        }
    }
    if !policies.is_empty() {
        outcome.headers.push(("ratelimit-policy".to_owned(), policies.join(", ")));
        outcome.headers.push(("ratelimit".to_owned(), states.join(", ")));
    }
    if outcome.refused.is_some() {
        outcome.headers.push(("retry-after".to_owned(), retry_after(nanoseconds(wait))));
    }
    outcome
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

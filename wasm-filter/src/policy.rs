//! A configuration at work: what is known of a request in, a verdict out.

use crate::bots::Bots;
use crate::config::{Asn, AsnSource, Away, Config, FailureMode, Geo, GeoSource, RateLimit};
use crate::facts::{Facts, Fingerprint};
use crate::feed::{Feed, Source};
use crate::guard::Guard;
use crate::lease::{LeaseTable, LeaseTables, Lending, Wished};
use crate::seed::Seed;
use crate::shared::{HostError, SharedData};
use crate::table::{Table, Taken};
use glacis_limits::geo::Country;
use glacis_limits::lease::borrower::{RETRY_NS, Spent, Wish};
use glacis_limits::lease::desk::Slot;
use glacis_limits::lease::set;
use glacis_limits::network_list::Action;
use glacis_limits::patch::Patch;
use glacis_limits::token_bucket::Decision;
use std::borrow::Cow;
use std::net::IpAddr;

const SECOND_NS: u64 = 1_000_000_000;

/// The configuration with the state that is made of it once.
#[derive(Debug)]
pub(crate) struct Policy {
    config: Config,
    seed: Seed,
    /// One for each limit of the configuration, in its order.
    tables: Vec<Table>,
    /// The same, of limits that are leased.
    lease_tables: Vec<Option<LeaseTable>>,
}

/// What is to become of a request. Each one is counted under exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The address is on the allow list: neither the deny list nor a limit is asked.
    AllowedByList,
    /// The address is on the deny list.
    DeniedByList,
    /// Its country is not let in.
    DeniedByCountry,
    /// Its autonomous system is not let in.
    DeniedByAsn,
    /// It has this sign of a bot; see [`Bots::tag`].
    DeniedAsBot(usize),
    /// It has this one, but bots are only watched.
    ShadowDeniedAsBot(usize),
    /// It is what this virtual patch describes, by its place in [`Policy::patches`].
    DeniedByPatch(usize),
    /// Nothing speaks against it.
    Passed,
    /// The client has used up this limit, by its place in the configuration.
    Limited(usize),
    /// It has used up this one, but that only watches.
    ShadowLimited(usize),
    /// There is no decision, so the failure mode decides.
    Undecided(Reason, FailureMode),
}

impl Verdict {
    /// Whether the request goes on to what is behind this filter.
    pub(crate) const fn goes_on(self) -> bool {
        match self {
            Self::AllowedByList
            | Self::Passed
            | Self::ShadowDeniedAsBot(_)
            | Self::ShadowLimited(_)
            | Self::Undecided(_, FailureMode::Open) => true,
            Self::DeniedByList
            | Self::DeniedByCountry
            | Self::DeniedByAsn
            | Self::DeniedAsBot(_)
            | Self::DeniedByPatch(_)
            | Self::Limited(_)
            | Self::Undecided(_, FailureMode::Closed) => false,
        }
    }
}

/// Why there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The request has no address: it came over a Unix socket, say, or from another listener.
    NoAddress,
    /// A list that is required has not come yet.
    NoList,
    /// The host refused to read or write shared data.
    SharedData,
    /// The module has no configuration.
    NoConfiguration,
}

/// A verdict, and what an operator should know about how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// How the client stands with each limit that was asked.
    pub(crate) standings: Vec<Standing>,
    /// A limit was asked but what the request took could not be written down.
    pub(crate) unrecorded: bool,
    /// A table was too full to give the client a place of its own.
    pub(crate) crowded: bool,
    /// What lenders should be asked.
    pub(crate) wishes: Vec<Wished>,
    /// The lender of a limit that was asked is away.
    pub(crate) away: bool,
}

/// What one limit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    taken: Taken,
    wished: Option<Wished>,
    away: bool,
}

impl From<Taken> for Asked {
    fn from(taken: Taken) -> Self {
        Self { taken, wished: None, away: false }
    }
}

/// How a client stands with one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its place in the configuration.
    pub(crate) limit: usize,
    pub(crate) decision: Decision,
}

/// What was spent of a leased limit, and for whom.
struct Leased<'a> {
    taken: set::Taken,
    recorded: bool,
    limit: &'a RateLimit,
    index: usize,
    fingerprint: u64,
}

impl From<Verdict> for Judgement {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            standings: Vec::new(),
            unrecorded: false,
            crowded: false,
            wishes: Vec::new(),
            away: false,
        }
    }
}

impl Policy {
    pub(crate) fn new(config: Config, seed: Seed) -> Self {
        let table = |limit: &RateLimit| {
            Table::new(limit.name.as_str(), limit.table_entries, limit.algorithm)
        };
        let tables = config.rate_limits.iter().map(table).collect();
        let lease_tables = config.rate_limits.iter().map(LeaseTable::new).collect();
        Self { config, seed, tables, lease_tables }
    }

    /// The tables of leases, in the order of the limits.
    pub(crate) fn lease_tables(&self) -> &LeaseTables {
        &self.lease_tables
    }

    /// The lenders of its limits.
    pub(crate) fn lendings(&self) -> Vec<Lending> {
        Lending::all(&self.config.rate_limits, self.seed)
    }

    pub(crate) fn trusted_hops(&self) -> u8 {
        self.config.trusted_hops
    }

    pub(crate) fn rate_limits(&self) -> &[RateLimit] {
        &self.config.rate_limits
    }

    /// Decides about a request at `now_ns`, and takes what it costs.
    pub(crate) fn judge(
        &self,
        facts: &mut Facts<'_>,
        feeds: &[Feed],
        now_ns: u64,
        shared: &impl SharedData,
    ) -> Judgement {
        facts.country = self.country(facts, feeds);
        facts.asn = self.asn_of(facts, feeds);
        let listed =
            facts.client.and_then(|client| look_up(client, feeds, now_ns, &mut facts.tags));
        if let Some(verdict) = self.judge_address(facts.client, listed, feeds) {
            return verdict.into();
        }
        if self.refuses_country(facts.country) {
            return Verdict::DeniedByCountry.into();
        }
        if self.refuses_asn(facts.asn) {
            return Verdict::DeniedByAsn.into();
        }
        let bot = self.look_for_bots(facts);
        if let Some(sign) = bot.filter(|_| !self.config.bots.as_ref().is_some_and(Bots::shadow)) {
            return Verdict::DeniedAsBot(sign).into();
        }
        if let Some(patch) = facts.patch(self.patches(feeds), now_ns / SECOND_NS) {
            return Verdict::DeniedByPatch(patch).into();
        }
        let mut judgement = self.judge_limits(facts, now_ns, shared);
        if let (Verdict::Passed, Some(sign)) = (judgement.verdict, bot) {
            judgement.verdict = Verdict::ShadowDeniedAsBot(sign);
        }
        judgement
    }

    /// Adds the tags of a bot, and its score; the first sign for which it is to be refused.
    fn look_for_bots(&self, facts: &mut Facts<'_>) -> Option<usize> {
        let bots = self.config.bots.as_ref()?;
        let seen = bots.look(facts);
        for tag in seen.signs.iter().map(|sign| bots.tag(*sign)) {
            if !facts.tags.iter().any(|known| known == tag) {
                facts.tags.push(tag.to_owned());
            }
        }
        facts.bot_score = seen.score;
        seen.refused
    }

    /// What is looked for, and whether the upstream is to be told.
    pub(crate) fn bots(&self) -> Option<&Bots> {
        self.config.bots.as_ref()
    }

    /// Where the client is; unknown if nothing says so.
    fn country(&self, facts: &Facts<'_>, feeds: &[Feed]) -> Country {
        let table = match self.config.geo.as_ref().map(|geo| &geo.source) {
            Some(GeoSource::Table(table)) => Some(&**table),
            Some(GeoSource::Feed(_)) => feeds.iter().find_map(Feed::countries),
            Some(GeoSource::Header(name)) => return facts.country_of_header(name),
            None => None,
        };
        let found = table.zip(facts.client).map(|(table, client)| table.country(client));
        found.unwrap_or(Country::UNKNOWN)
    }

    /// The autonomous system of the client; 0 if nothing says so.
    fn asn_of(&self, facts: &Facts<'_>, feeds: &[Feed]) -> u32 {
        let table = match self.config.asn.as_ref().map(|asn| &asn.source) {
            Some(AsnSource::Table(table)) => Some(&**table),
            Some(AsnSource::Feed(_)) => feeds.iter().find_map(Feed::systems),
            Some(AsnSource::Header(name)) => return facts.asn_of_header(name),
            None => None,
        };
        table.zip(facts.client).map_or(0, |(table, client)| table.number(client))
    }

    /// The virtual patches of the configuration, then those that were fetched.
    fn patches<'a>(&'a self, feeds: &'a [Feed]) -> impl Iterator<Item = &'a Patch> {
        self.config.patches.iter().chain(feeds.iter().flat_map(Feed::patches))
    }

    fn refuses_asn(&self, number: u32) -> bool {
        self.config.asn.as_ref().is_some_and(|asn| {
            asn.deny.contains(&number) || !asn.allow.is_empty() && !asn.allow.contains(&number)
        })
    }

    /// Whether the autonomous system is worked out, and whether the upstream is to be told.
    pub(crate) fn asn(&self) -> Option<&Asn> {
        self.config.asn.as_ref()
    }

    fn refuses_country(&self, country: Country) -> bool {
        self.config.geo.as_ref().is_some_and(|geo| {
            geo.deny.contains(&country) || !geo.allow.is_empty() && !geo.allow.contains(&country)
        })
    }

    /// Whether the country is worked out, and whether the upstream is to be told.
    pub(crate) fn geo(&self) -> Option<&Geo> {
        self.config.geo.as_ref()
    }

    /// Whether header fields of requests are set here.
    pub(crate) fn changes_head(&self) -> bool {
        self.geo().is_some_and(|geo| geo.header)
            || self.asn().is_some_and(|asn| asn.header)
            || self.bots().is_some_and(Bots::header)
    }

    /// What is to be found of an inspection, if this is a guard.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.config.guard.as_ref()
    }

    /// What is to be fetched, and where from.
    pub(crate) fn sources(&self) -> &[Source] {
        &self.config.feeds
    }

    /// What the lists say; `None` if the limits are to be asked.
    fn judge_address(
        &self,
        client: Option<IpAddr>,
        listed: Option<Action>,
        feeds: &[Feed],
    ) -> Option<Verdict> {
        let lists = &self.config.lists;
        let Some(client) = client else {
            let has_list = !lists.deny.is_empty() || !lists.feeds.is_empty();
            return has_list.then(|| self.undecided(Reason::NoAddress));
        };
        if lists.allow.contains(client) || listed == Some(Action::Allow) {
            return Some(Verdict::AllowedByList);
        }
        if lists.deny.contains(client) || listed == Some(Action::Deny) {
            return Some(Verdict::DeniedByList);
        }
        let missing = feeds.iter().any(|feed| feed.source.required && feed.is_empty());
        missing.then(|| self.undecided(Reason::NoList))
    }

    /// Asks the limits in their order, up to the first that refuses.
    fn judge_limits(&self, facts: &Facts<'_>, now_ns: u64, shared: &impl SharedData) -> Judgement {
        let mut judgement = Judgement::from(Verdict::Passed);
        for (index, limit) in self.config.rate_limits.iter().enumerate() {
            let Asked { taken, wished, away } = match self.ask(index, limit, facts, now_ns, shared)
            {
                Ok(Some(asked)) => asked,
                Ok(None) => continue,
                Err(reason) => {
                    judgement.verdict = self.undecided(reason);
                    return judgement;
                }
            };
            judgement.standings.push(Standing { limit: index, decision: taken.decision });
            judgement.unrecorded |= !taken.recorded;
            judgement.crowded |= taken.crowded;
            judgement.away |= away;
            judgement.wishes.extend(wished);
            match (taken.decision.allowed, limit.shadow) {
                (true, _) => {}
                (false, false) => {
                    judgement.verdict = Verdict::Limited(index);
                    return judgement;
                }
                (false, true) if judgement.verdict == Verdict::Passed => {
                    judgement.verdict = Verdict::ShadowLimited(index);
                }
                (false, true) => {}
            }
        }
        judgement
    }

    /// What one limit says; `None` if it does not apply.
    fn ask(
        &self,
        index: usize,
        limit: &RateLimit,
        facts: &Facts<'_>,
        now_ns: u64,
        shared: &impl SharedData,
    ) -> Result<Option<Asked>, Reason> {
        if !facts.fits(&limit.applies) {
            return Ok(None);
        }
        let fingerprint = match facts.fingerprint(limit, self.seed) {
            Fingerprint::Skip => return Ok(None),
            Fingerprint::NoAddress => return Err(Reason::NoAddress),
            Fingerprint::Of(fingerprint) => fingerprint,
        };
        let asked = match self.lease_tables.get(index).and_then(Option::as_ref) {
            Some(leases) => {
                let key = || facts.lease_key(limit).unwrap_or_default();
                let slot = |key| Slot { limit: index, fingerprint, key };
                let taken = leases.spend(shared, fingerprint, now_ns, limit.cost);
                taken.and_then(|(taken, recorded)| {
                    let wished = (taken.wish != Wish::None)
                        .then(|| Wished { slot: slot(key()), wish: taken.wish });
                    let by = Leased { taken, recorded, limit, index, fingerprint };
                    let asked = self.leased(&by, now_ns, shared)?;
                    Ok(Asked { wished, ..asked })
                })
            }
            None => self.take_here(index, fingerprint, limit.cost, now_ns, shared).map(Asked::from),
        };
        asked.map(Some).map_err(|HostError| Reason::SharedData)
    }

    fn take_here(
        &self,
        index: usize,
        fingerprint: u64,
        cost: u32,
        now_ns: u64,
        shared: &impl SharedData,
    ) -> Result<Taken, HostError> {
        let table = self.tables.get(index).ok_or(HostError)?;
        table.take(shared, fingerprint, now_ns, cost)
    }

    /// What a leased limit says in the end: its policy decides while its lender is away.
    fn leased(
        &self,
        by: &Leased<'_>,
        now_ns: u64,
        shared: &impl SharedData,
    ) -> Result<Asked, HostError> {
        let crowded = by.taken.crowded;
        let told = |allowed, remaining, retry_after_ns| {
            let reset_ns = match allowed {
                true => by.limit.per_seconds.saturating_mul(SECOND_NS),
                false => retry_after_ns,
            };
            let decision = Decision { allowed, remaining, retry_after_ns, reset_ns };
            Taken { decision, recorded: by.recorded, crowded }
        };
        let away = by.limit.lease.as_ref().map_or(Away::Local, |lease| lease.away);
        let taken = match (by.taken.spent, away) {
            (Spent::Allowed { remaining }, _) => return Ok(told(true, remaining, 0).into()),
            (Spent::Refused { retry_after_ns }, _) => {
                return Ok(told(false, 0, retry_after_ns).into());
            }
            (Spent::Away, Away::Allow) => told(true, 0, 0),
            (Spent::Away, Away::Deny) => told(false, 0, RETRY_NS),
            (Spent::Away, Away::Local) => {
                self.take_here(by.index, by.fingerprint, by.limit.cost, now_ns, shared)?
            }
        };
        Ok(Asked { away: true, ..taken.into() })
    }

    fn undecided(&self, reason: Reason) -> Verdict {
        Verdict::Undecided(reason, self.config.failure_mode)
    }

    /// The verdict as access logs and later filters see it, in filter state `wasm.glacis.wasm`. The feeds are
    /// those by which it came about.
    pub(crate) fn property(&self, verdict: Verdict, feeds: &[Feed]) -> Cow<'static, str> {
        let name =
            |limit: usize| self.rate_limits().get(limit).map_or("", |limit| limit.name.as_str());
        match verdict {
            Verdict::AllowedByList => "allowed:list".into(),
            Verdict::DeniedByList => "denied:list".into(),
            Verdict::DeniedByCountry => "denied:country".into(),
            Verdict::DeniedByAsn => "denied:asn".into(),
            Verdict::DeniedAsBot(sign) => format!("denied:{}", self.bot_tag(sign)).into(),
            Verdict::ShadowDeniedAsBot(sign) => {
                format!("shadow:denied:{}", self.bot_tag(sign)).into()
            }
            Verdict::DeniedByPatch(patch) => {
                let id = self.patches(feeds).nth(patch).map_or("", |patch| patch.id.as_str());
                format!("denied:patch:{id}").into()
            }
            Verdict::Passed => "passed".into(),
            Verdict::Limited(limit) => format!("limited:{}", name(limit)).into(),
            Verdict::ShadowLimited(limit) => format!("shadow:limited:{}", name(limit)).into(),
            Verdict::Undecided(reason, _) => reason.property().into(),
        }
    }

    fn bot_tag(&self, sign: usize) -> &str {
        self.config.bots.as_ref().map_or("", |bots| bots.tag(sign))
    }
}

/// What the fetched lists say of an address: allow before deny, and all tags.
fn look_up(client: IpAddr, feeds: &[Feed], now_ns: u64, tags: &mut Vec<String>) -> Option<Action> {
    let mut action = None;
    for list in feeds.iter().filter_map(Feed::list) {
        let found = list.find(client, now_ns / SECOND_NS);
        action = match (action, found.action) {
            (Some(Action::Allow), _) | (_, Some(Action::Allow)) => Some(Action::Allow),
            (before, given) => given.or(before),
        };
        let mut bits = found.tag_bits;
        for tag in list.tags() {
            if bits & 1 == 1 && !tags.contains(tag) {
                tags.push(tag.clone());
            }
            bits >>= 1;
        }
    }
    action
}

impl Reason {
    /// The reason in filter state.
    pub(crate) fn property(self) -> &'static str {
        match self {
            Self::NoAddress => "error:no-address",
            Self::NoList => "error:no-list",
            Self::SharedData => "error:shared-data",
            Self::NoConfiguration => "error:no-configuration",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fake::Fake;
    use crate::shared::memory::Memory;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use glacis_limits::asn::AsnTable;
    use glacis_limits::geo::CountryTable;

    const T0: u64 = 1_700_000_000_000_000_000;

    fn policy(config: &str) -> Policy {
        Policy::new(Config::parse(config.as_bytes()).unwrap(), [7; 16])
    }

    fn judge(policy: &Policy, client: Option<&str>, fake: &Fake, shared: &Memory) -> Judgement {
        let client = client.map(|client| client.parse::<IpAddr>().unwrap().to_canonical());
        policy.judge(&mut Facts::new(fake, client), &[], T0, shared)
    }

    #[test]
    fn lets_in_by_autonomous_system() {
        let networks = [("10.0.0.0", "10.255.255.255", 64_496), ("11.0.0.0", "11.0.0.255", 7)];
        let network = |(first, last, number): (&str, &str, u32)| {
            (first.parse().unwrap(), last.parse().unwrap(), number)
        };
        let table = AsnTable::new(&networks.map(network));
        let table = STANDARD.encode(table.to_bytes());
        check(
            &format!(r#"{{"asn": {{"table": "{table}", "deny": [64496]}}}}"#),
            &[
                (Some("10.1.2.3"), "denied:asn"),
                (Some("::ffff:10.1.2.3"), "denied:asn"),
                (Some("11.0.0.1"), "passed"),
                (Some("12.0.0.1"), "passed"),
                (None, "passed"),
            ],
        );
        check(
            &format!(r#"{{"asn": {{"table": "{table}", "allow": [7]}}}}"#),
            &[
                (Some("11.0.0.1"), "passed"),
                (Some("10.1.2.3"), "denied:asn"),
                (Some("12.0.0.1"), "denied:asn"),
                (None, "denied:asn"),
            ],
        );
        // A bucket for a system, whatever the address.
        check(
            &format!(
                r#"{{"asn": {{"table": "{table}"}}, "rate_limits": [
                    {{"name": "each", "requests": 1, "key": ["asn"], "match": {{"asns": [7, 64496]}}}}
                ]}}"#
            ),
            &[
                (Some("10.0.0.1"), "passed"),
                (Some("10.9.9.9"), "limited:each"),
                (Some("11.0.0.1"), "passed"),
                (Some("11.0.0.2"), "limited:each"),
                (Some("12.0.0.1"), "passed"),
                (Some("12.0.0.1"), "passed"),
            ],
        );
        let config = policy(r#"{"asn": {"from_header": "X-Asn", "deny": [64496, 0]}}"#);
        let shared = Memory::default();
        for (value, expected) in [
            ("64496", "denied:asn"),
            ("AS64496", "denied:asn"),
            ("64497", "passed"),
            ("", "denied:asn"),
            ("64497x", "denied:asn"),
        ] {
            let fake = Fake { fields: vec![("x-asn", value)] };
            let judgement = judge(&config, Some("192.0.2.1"), &fake, &shared);
            assert_eq!(config.property(judgement.verdict, &[]), expected, "{value}");
        }
    }

    /// Requests in a row, and the property that each one gets.
    #[track_caller]
    fn check(config: &str, rows: &[(Option<&str>, &str)]) {
        let (policy, shared) = (policy(config), Memory::default());
        for (i, (client, expected)) in rows.iter().enumerate() {
            let judgement = judge(&policy, *client, &Fake::default(), &shared);
            assert_eq!(policy.property(judgement.verdict, &[]), *expected, "row {i} of {config}");
            assert!(!judgement.unrecorded);
        }
    }

    #[test]
    fn lists() {
        let config = r#"{"address_lists": {"allow": ["10.1.0.0/16"], "deny": ["10.0.0.0/8"]}}"#;
        check(
            config,
            &[
                (Some("10.2.0.1"), "denied:list"),
                (Some("::ffff:10.2.0.1"), "denied:list"),
                (Some("10.1.0.1"), "allowed:list"),
                (Some("192.0.2.1"), "passed"),
                (None, "error:no-address"),
            ],
        );
        check("{}", &[(None, "passed"), (Some("192.0.2.1"), "passed")]);
        check(r#"{"address_lists": {"allow": ["::1"]}}"#, &[(None, "passed")]);
    }

    #[test]
    fn limit() {
        let limit = r#"{
            "address_lists": {"allow": ["192.0.2.9"], "deny": ["192.0.2.8"]},
            "rate_limits": [{"requests": 2}]
        }"#;
        check(
            limit,
            &[
                (Some("192.0.2.1"), "passed"),
                // A denied request costs nothing, and an allowed one has no limit.
                (Some("192.0.2.8"), "denied:list"),
                (Some("192.0.2.9"), "allowed:list"),
                (Some("192.0.2.9"), "allowed:list"),
                (Some("192.0.2.9"), "allowed:list"),
                (Some("192.0.2.1"), "passed"),
                (Some("192.0.2.1"), "limited:per-address"),
                (Some("192.0.2.2"), "passed"),
                (None, "error:no-address"),
            ],
        );
        let shadow = r#"{"rate_limits": [{"requests": 1, "shadow": true}]}"#;
        let limited = "shadow:limited:per-address";
        check(shadow, &[(Some("192.0.2.1"), "passed"), (Some("192.0.2.1"), limited)]);
        let gcra = r#"{"rate_limits": [{"requests": 5, "cost": 3, "algorithm": "gcra"}]}"#;
        check(gcra, &[(Some("192.0.2.1"), "passed"), (Some("192.0.2.1"), "limited:per-address")]);
    }

    #[test]
    fn fetched_lists() {
        let policy = policy(
            r#"{
                "failure_mode": "closed",
                "address_lists": {"deny": ["192.0.2.0/24"], "feeds": [
                    {"name": "one", "cluster": "c", "path": "/", "required": true},
                    {"name": "two", "cluster": "c", "path": "/"}
                ]},
                "rate_limits": [{"requests": 1, "match": {"tags": ["cloud"]}}]
            }"#,
        );
        let shared = Memory::default();
        let feeds = |text: &[&str]| -> Vec<Feed> {
            for (source, text) in policy.sources().iter().zip(text) {
                let key = format!("glacis.wasm/2/feed/{}", source.name);
                shared.put(&key, format!("\n{text}").as_bytes()).unwrap();
            }
            let restored = |source: &Source| Feed::restored(source.clone(), &shared);
            policy.sources().iter().map(restored).collect()
        };
        let judge = |feeds: &[Feed], client: Option<&str>| {
            let (fake, client) = (Fake::default(), client.map(|client| client.parse().unwrap()));
            let mut facts = Facts::new(&fake, client);
            let verdict = policy.judge(&mut facts, feeds, T0, &shared).verdict;
            (policy.property(verdict, feeds).into_owned(), facts.tags)
        };
        let none = feeds(&[]);
        assert_eq!(judge(&none, Some("192.0.2.1")).0, "denied:list");
        assert_eq!(judge(&none, Some("10.0.0.1")).0, "error:no-list");
        assert_eq!(judge(&none, None).0, "error:no-address");
        let both = feeds(&[
            "10.0.0.0/8 deny\n192.0.2.7 allow\n198.51.100.0/24 tag=cloud tag=x",
            "10.0.0.1 allow\n10.0.0.2 deny until=7\n198.51.100.0/24 tag=x tag=y",
        ]);
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let rows: &[(&str, &str, &[&str])] = &[
            ("10.0.0.1", "allowed:list", &[]),
            ("10.0.0.2", "denied:list", &[]),
            ("192.0.2.7", "allowed:list", &[]),
            ("192.0.2.8", "denied:list", &[]),
            ("198.51.100.1", "passed", &["cloud", "x", "y"]),
            ("198.51.100.1", "limited:per-address", &["cloud", "x", "y"]),
            ("203.0.113.1", "passed", &[]),
            ("203.0.113.1", "passed", &[]),
        ];
        for (i, (client, expected, expected_tags)) in rows.iter().enumerate() {
            let told = judge(&both, Some(client));
            assert_eq!(told, ((*expected).to_owned(), tags(expected_tags)), "row {i}");
        }
    }

    /// A table of three networks, as a configuration has it.
    fn countries() -> String {
        let network = |(first, last, country): (&str, &str, &str)| {
            (first.parse().unwrap(), last.parse().unwrap(), Country::parse(country).unwrap())
        };
        let networks = [
            ("10.0.0.0", "10.255.255.255", "DE"),
            ("192.0.2.0", "192.0.2.255", "FR"),
            ("2001:db8::", "2001:db8::ffff", "FR"),
        ];
        let table = CountryTable::new(networks.map(network).to_vec());
        STANDARD.encode(table.to_bytes())
    }

    #[test]
    fn lets_in_by_country() {
        let table = countries();
        let geo = |rest: &str| format!(r#"{{"geo": {{"table": "{table}", {rest}}}}}"#);
        check(
            &geo(r#""deny": ["fr"]"#),
            &[
                (Some("10.0.0.1"), "passed"),
                (Some("192.0.2.1"), "denied:country"),
                (Some("::ffff:192.0.2.1"), "denied:country"),
                (Some("2001:db8::1"), "denied:country"),
                (Some("11.0.0.1"), "passed"),
                (None, "passed"),
            ],
        );
        check(
            &geo(r#""allow": ["DE"], "header": true"#),
            &[
                (Some("10.0.0.1"), "passed"),
                (Some("192.0.2.1"), "denied:country"),
                (Some("11.0.0.1"), "denied:country"),
                (None, "denied:country"),
            ],
        );
        let known = r#""allow": ["DE", "ZZ"], "deny": ["DE"]"#;
        let rows = [(Some("10.0.0.1"), "denied:country"), (Some("11.0.0.1"), "passed")];
        check(&geo(known), &rows);
        // One bucket for each country, and only for one of them.
        check(
            &format!(
                r#"{{"geo": {{"table": "{table}"}}, "rate_limits": [
                    {{"name": "each", "requests": 2, "key": ["country"]}},
                    {{"name": "fr", "requests": 1, "match": {{"countries": ["FR"]}}}}
                ]}}"#
            ),
            &[
                (Some("10.0.0.1"), "passed"),
                (Some("10.0.0.2"), "passed"),
                (Some("10.0.0.3"), "limited:each"),
                (Some("192.0.2.1"), "passed"),
                (Some("192.0.2.1"), "limited:fr"),
                (Some("11.0.0.1"), "passed"),
            ],
        );
    }

    #[test]
    fn virtual_patches() {
        let policy = policy(
            r#"{"virtual_patches": [
                {"id": "old", "cve": "CVE-1999-1", "title": "t", "rule": 9100001,
                 "expires": "2000-01-01", "when": [{"target": "path", "prefix": "/"}]},
                {"id": "new", "cve": "CVE-2099-1", "title": "t", "rule": 9100002, "when": [
                    {"target": "method", "equals": "post"}, {"target": "path", "suffix": "/x"},
                    {"target": "argument", "name": "a", "contains": "<"},
                    {"target": "header", "name": "X-H", "prefix": "h"}]}
            ], "rate_limits": [{"requests": 1}]}"#,
        );
        let shared = Memory::default();
        let rows: &[(&str, &str, &[&str], &str)] = &[
            ("POST", "/%2558?b=1&A=%3C", &["H"], "denied:patch:new"),
            ("POST", "/%2558?b=1&A=%3C", &["h2"], "denied:patch:new"),
            ("POST", "/%2558?b=1&A=%3C", &["no", "h"], "denied:patch:new"),
            ("POST", "/x?a=1&b=%3C", &["h"], "passed"),
            // What a patch refuses has cost nothing.
            ("GET", "/x?a=%3C", &["h"], "limited:per-address"),
        ];
        for (i, (method, path, values, expected)) in rows.iter().enumerate() {
            let mut fields = vec![(":method", *method), (":path", *path)];
            fields.extend(values.iter().map(|value| ("x-h", *value)));
            let judgement = judge(&policy, Some("192.0.2.1"), &Fake { fields }, &shared);
            assert_eq!(policy.property(judgement.verdict, &[]), *expected, "row {i}");
        }
    }

    const CURL: &[(&str, &str)] = &[("user-agent", "curl/8.5.0"), ("accept", "*/*")];
    const CHROME: &str =
        "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36";

    type Row<'a> = (&'a str, &'a [(&'static str, &'static str)], &'a str, &'a str);

    /// Each row: the client, what it sends, the verdict, and the tags.
    #[track_caller]
    fn check_bots(config: &str, rows: &[Row<'_>]) {
        let (policy, shared) = (policy(config), Memory::default());
        for (i, (client, fields, expected, tags)) in rows.iter().enumerate() {
            let fake = Fake { fields: fields.to_vec() };
            let mut facts = Facts::new(&fake, client.parse().ok());
            let verdict = policy.judge(&mut facts, &[], T0, &shared).verdict;
            let told = (policy.property(verdict, &[]), facts.tags.join(","));
            assert_eq!(told, ((*expected).into(), (*tags).to_owned()), "row {i} of {config}");
        }
    }

    #[test]
    fn bots() {
        let sqlmap: &[_] = &[("user-agent", "SQLMap/1.8#stable (https://sqlmap.org)")];
        let named_only: &[_] = &[("user-agent", CHROME)];
        let google: &[_] = &[("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1) curl/8")];
        let tagged = "bot.tool.curl";
        let both = "bot.claims.googlebot,bot.tool.curl";
        check_bots(
            r#"{"address_lists": {"allow": ["10.0.0.9"]}, "bots": {}}"#,
            &[
                ("10.0.0.1", sqlmap, "denied:bot.scanner.sqlmap", "bot.scanner.sqlmap"),
                ("10.0.0.9", sqlmap, "allowed:list", ""),
                ("10.0.0.1", CURL, "passed", tagged),
                ("10.0.0.1", named_only, "passed", "bot.headers"),
                ("10.0.0.1", google, "passed", both),
                ("10.0.0.1", &[], "passed", "bot.no-agent"),
            ],
        );
        check_bots(
            r#"{"bots": {
                "scanners": "tag", "tools": "off", "shadow": true,
                "signatures": [{"name": "nikto", "contains": "nikto", "action": "off"},
                               {"name": "mine", "contains": "mybot", "action": "deny"}],
                "crawlers": {"networks": {"googlebot": ["192.0.2.0/24"]}, "action": "deny"},
                "browser_score": {"threshold": 6}}, "rate_limits": [
                    {"requests": 1, "match": {"tags": ["bot.outside.googlebot"]}}]}"#,
            &[
                ("10.0.0.1", sqlmap, "passed", "bot.scanner.sqlmap"),
                ("10.0.0.1", &[("user-agent", "Nikto/2")], "passed", ""),
                ("10.0.0.1", CURL, "passed", ""),
                ("10.0.0.1", named_only, "passed", ""),
                (
                    "10.0.0.1",
                    &[("user-agent", "MyBot MYBOT")],
                    "shadow:denied:bot.signature.mine",
                    "bot.signature.mine",
                ),
                ("192.0.2.1", google, "passed", "bot.verified.googlebot"),
                // A tag of a bot is one for limits.
                (
                    "10.0.0.1",
                    google,
                    "shadow:denied:bot.outside.googlebot",
                    "bot.outside.googlebot",
                ),
                ("10.0.0.1", google, "limited:per-address", "bot.outside.googlebot"),
            ],
        );
        check_bots(
            r#"{"bots": {"browser_score": {"threshold": 5, "action": "deny"}, "tls_fingerprints": {
                "ja3": ["0123456789ABCDEF0123456789abcdef"], "ja4": ["t13d_b_C", "t13d_a_b"]}}}"#,
            &[
                ("10.0.0.1", named_only, "denied:bot.headers", "bot.headers"),
                ("10.0.0.1", &[("user-agent", "x"), ("glacis.ja4", "t13d_a_c")], "passed", ""),
                (
                    "10.0.0.1",
                    &[("user-agent", "x"), ("glacis.ja4", "t13d_b_c")],
                    "denied:bot.tls",
                    "bot.tls",
                ),
                (
                    "10.0.0.1",
                    &[("user-agent", "x"), ("glacis.ja3", "0123456789abcdef0123456789abcdef")],
                    "denied:bot.tls",
                    "bot.tls",
                ),
            ],
        );
    }

    /// Who browses or calls an API by ordinary means is not refused by what is there by default,
    /// nor is any of our own tools.
    #[test]
    fn ordinary_clients_are_not_refused_as_bots() {
        let policy = policy(r#"{"bots": {}}"#);
        let agents = [
            CHROME,
            "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.5 Safari/605.1.15",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Mobile/15E148",
            "Opera/9.80 (Windows NT 6.1) Presto/2.12 Version/12.18",
            "curl/8.5.0",
            "Wget/1.21.4",
            "Go-http-client/1.1",
            "Go-http-client/2.0",
            "Java/17.0.9",
            "Java-http-client/21.0.1",
            "Apache-HttpClient/5.2 (Java/17.0.9)",
            "okhttp/4.12.0",
            "python-requests/2.31.0",
            "Python-urllib/3.12",
            "python-httpx/0.27.0",
            "Python/3.11 aiohttp/3.9.5",
            "axios/1.7.2",
            "node",
            "undici",
            "aws-sdk-go-v2/1.30.0 os/linux lang/go#1.22",
            "Boto3/1.34.0 md/Botocore#1.34.0",
            "grpc-java-netty/1.64.0",
            "grpc-go/1.64.0",
            "PostmanRuntime/7.39.0",
            "kube-probe/1.30",
            "ELB-HealthChecker/2.0",
            "Prometheus/2.53.0",
            "Envoy/HC",
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "MyApp/3 CFNetwork/1494 Darwin/23.4.0",
            "Dalvik/2.1.0 (Linux; U; Android 13)",
            "",
        ];
        let accepts: [&[(&str, &str)]; 3] = [
            &[],
            &[("accept", "*/*")],
            &[("accept", "text/html"), ("accept-language", "en"), ("accept-encoding", "gzip")],
        ];
        for (agent, accept) in agents.iter().flat_map(|agent| accepts.map(|accept| (agent, accept)))
        {
            let fields = [accept, &[("user-agent", agent), (":scheme", "https")]].concat();
            let judgement = judge(&policy, Some("192.0.2.1"), &Fake { fields }, &Memory::default());
            assert_eq!(policy.property(judgement.verdict, &[]), "passed", "{agent} {accept:?}");
        }
    }

    /// Envoy's own geoip filter has said it.
    #[test]
    fn countries_of_a_header() {
        let policy = policy(r#"{"geo": {"from_header": "X-Country", "allow": ["DE"]}}"#);
        for (value, expected) in [
            ("DE", "passed"),
            ("de", "passed"),
            ("FR", "denied:country"),
            ("DE,FR", "denied:country"),
        ] {
            let fake = Fake { fields: vec![("x-country", value)] };
            let judgement = judge(&policy, Some("192.0.2.1"), &fake, &Memory::default());
            assert_eq!(policy.property(judgement.verdict, &[]), expected, "{value}");
        }
    }

    #[test]
    fn a_network_shares_a_bucket() {
        let config = r#"{"rate_limits": [{"requests": 1, "ipv4_prefix": 24, "ipv6_prefix": 48}]}"#;
        check(
            config,
            &[
                (Some("192.0.2.1"), "passed"),
                (Some("192.0.2.200"), "limited:per-address"),
                (Some("192.0.3.1"), "passed"),
                (Some("2001:db8:0:1::1"), "passed"),
                (Some("2001:db8:0:2::1"), "limited:per-address"),
                (Some("2001:db8:1::1"), "passed"),
            ],
        );
    }

    /// Several limits: each with its requests and its key, asked in their order.
    #[test]
    fn several_limits() {
        let policy = policy(
            r#"{"rate_limits": [
                {"name": "login", "requests": 2,
                 "match": {"methods": ["POST"], "paths": ["/login"], "hosts": ["shop.example"]}},
                {"name": "key", "requests": 3, "shadow": true,
                 "key": [{"header": "x-key", "absent": "skip"}]},
                {"name": "all", "requests": 4}
            ]}"#,
        );
        let shared = Memory::default();
        let post = &[(":method", "POST"), (":authority", "shop.example:80")];
        let login = [post as &[_], &[(":path", "/x/../LOGIN?a")]].concat();
        let elsewhere = [post as &[_], &[(":path", "/login/help")]].concat();
        let keyed = vec![("x-key", "a")];
        let rows: &[(&str, &Vec<_>, &str, usize)] = &[
            ("192.0.2.1", &login, "passed", 2),
            ("192.0.2.1", &login, "passed", 2),
            // What the first limit refuses costs nothing at the third.
            ("192.0.2.1", &login, "limited:login", 1),
            ("192.0.2.1", &login, "limited:login", 1),
            ("192.0.2.1", &elsewhere, "passed", 1),
            ("192.0.2.1", &elsewhere, "passed", 1),
            ("192.0.2.1", &elsewhere, "limited:all", 1),
            ("192.0.2.2", &keyed, "passed", 2),
            ("192.0.2.3", &keyed, "passed", 2),
            ("192.0.2.4", &keyed, "passed", 2),
            ("192.0.2.5", &keyed, "shadow:limited:key", 2),
            // A limit behind one that only watches still refuses.
            ("192.0.2.1", &keyed, "limited:all", 2),
        ];
        for (i, (client, fields, expected, asked)) in rows.iter().enumerate() {
            let fake = Fake { fields: fields.to_vec() };
            let judgement = judge(&policy, Some(client), &fake, &shared);
            assert_eq!(policy.property(judgement.verdict, &[]), *expected, "row {i}");
            assert_eq!(judgement.standings.len(), *asked, "row {i}");
        }
    }

    #[test]
    fn failure_modes() {
        for (word, mode) in [("open", FailureMode::Open), ("closed", FailureMode::Closed)] {
            let policy = policy(&format!(
                r#"{{"failure_mode": "{word}", "rate_limits": [{{"requests": 1}}]}}"#
            ));
            let (fake, shared) = (Fake::default(), Memory::default());
            let verdict = judge(&policy, None, &fake, &shared).verdict;
            assert_eq!(verdict, Verdict::Undecided(Reason::NoAddress, mode));
            shared.broken.set(true);
            let verdict = judge(&policy, Some("192.0.2.1"), &fake, &shared).verdict;
            assert_eq!(verdict, Verdict::Undecided(Reason::SharedData, mode));
        }
    }

    #[test]
    fn a_request_that_lost_every_race_is_told() {
        let policy = policy(r#"{"rate_limits": [{"requests": 1}]}"#);
        let shared = Memory::default();
        shared.lost_writes.set(u32::MAX);
        let judgement = judge(&policy, Some("192.0.2.1"), &Fake::default(), &shared);
        assert_eq!(judgement.verdict, Verdict::Passed);
        assert!(judgement.unrecorded);
    }

    /// A host and a client that send whatever they like, at any time of the clock.
    struct Hostile(std::cell::Cell<u64>);

    impl Hostile {
        fn next(&self) -> u64 {
            let mixed = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.0.set(mixed);
            mixed >> 33
        }

        /// Nothing, pieces of what has a meaning somewhere, or any bytes.
        fn bytes(&self) -> Option<Vec<u8>> {
            const PIECES: [&[u8]; 18] = [
                b"/",
                b"..",
                b"%2e",
                b"%",
                b"%%",
                b";",
                b"=",
                b"&",
                b"?",
                b"#",
                b"\\",
                b",",
                b":",
                b"]",
                b"[::1]",
                b"\xff\xfe",
                b"\0",
                b"a",
            ];
            let piece = |_| match self.next() % 4 {
                0 => vec![self.next().to_le_bytes()[0]],
                _ => PIECES[usize::try_from(self.next()).unwrap() % PIECES.len()].to_vec(),
            };
            let length = [0, 1, 7, 40, 3_000][usize::try_from(self.next()).unwrap() % 5];
            (!self.next().is_multiple_of(8)).then(|| (0..length).flat_map(piece).collect())
        }
    }

    impl crate::facts::Request for Hostile {
        fn header(&self, _name: &str) -> Option<Cow<'_, [u8]>> {
            self.bytes().map(Cow::Owned)
        }

        fn headers(&self, _name: &str) -> Vec<Vec<u8>> {
            [self.bytes(), self.bytes()].into_iter().flatten().collect()
        }

        fn metadata(&self, _keys: &[String]) -> Option<Vec<u8>> {
            self.bytes()
        }

        fn filter_state(&self, _name: &str) -> Option<Vec<u8>> {
            self.bytes()
        }
    }

    /// No bytes anywhere make the module panic, answer what is not to be said, or grow.
    #[test]
    fn hostile_heads_and_hosts() {
        let table = countries();
        let policy = policy(&format!(
            r#"{{
                "trusted_hops": 1, "geo": {{"table": "{table}", "deny": ["FR"]}},
                "address_lists": {{"deny": ["10.0.0.0/8"]}},
                "bots": {{"signatures": [{{"name": "a", "contains": "a/%", "action": "deny"}}],
                          "tls_fingerprints": {{"ja4": ["a_b_c"]}}}},
                "virtual_patches": [{{"id": "p", "cve": "CVE-1-1", "title": "t", "rule": 9100001,
                    "when": [{{"target": "path", "contains": "/../"}},
                             {{"target": "query", "contains": "="}}]}},
                    {{"id": "q", "cve": "CVE-1-1", "title": "t", "rule": 9100002, "when": [
                             {{"target": "argument", "name": "a", "contains": "a"}},
                             {{"target": "header", "name": "h", "suffix": "/"}}]}}],
                "rate_limits": [
                    {{"name": "a", "requests": 3, "table_entries": 64, "key": ["client_address",
                      "host", "method", "country", {{"header": "h"}}, {{"cookie": "c"}},
                      {{"path": ["/a/{{b}}", "/**"]}}, {{"jwt_claim": "sub"}}]}},
                    {{"name": "b", "requests": 3, "table_entries": 64, "algorithm": "gcra",
                      "match": {{"paths": ["/**"]}}}},
                    {{"name": "c", "requests": 1, "match": {{"hosts": ["a"], "methods": ["A"]}}}}
                ]
            }}"#
        ));
        let shared = Memory::default();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 1..=1_500u64 {
            let hostile = Hostile(std::cell::Cell::new(seed << 20));
            let (source, forwarded) = (hostile.bytes(), hostile.bytes());
            let source = match seed % 3 {
                0 => Some(format!("192.0.{}.{}:1", seed % 4, seed % 8).into_bytes()),
                _ => source,
            };
            let client = crate::address::client(source.as_deref(), forwarded.as_deref(), 1);
            let now_ns = [0, T0, u64::MAX, hostile.next() << 33, T0 + seed][(seed % 5) as usize];
            shared.broken.set(seed % 50 == 0);
            shared.lost_writes.set(u32::try_from(seed % 11).unwrap());
            if seed % 7 == 0 {
                let key =
                    format!("glacis.wasm/2/{}/{:x}", ["b/a", "g/b"][(seed % 2) as usize], seed % 8);
                let _ = shared.put(&key, &hostile.bytes().unwrap_or_default());
            }
            let judgement = policy.judge(&mut Facts::new(&hostile, client), &[], now_ns, &shared);
            seen.insert(policy.property(judgement.verdict, &[]).into_owned());
            let id = || hostile.bytes();
            if let Some(answer) = crate::answer::Answer::new(&judgement, policy.rate_limits(), id) {
                crate::json::parse(answer.body.as_bytes()).unwrap();
                let plain = |value: &str| value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
                assert!(answer.fields.iter().all(|(_, value)| plain(value)), "{answer:?}");
            }
        }
        assert!(shared.keys() <= 24, "{} keys", shared.keys());
        assert!(seen.len() >= 6, "it has to come everywhere: {seen:?}");
    }

    /// The seed decides where a client falls, so that nobody can work it out beforehand.
    #[test]
    fn the_seed_matters() {
        let policy = policy(r#"{"rate_limits": [{"requests": 1}]}"#);
        let fake = Fake::default();
        let facts = Facts::new(&fake, "192.0.2.1".parse().ok());
        let fingerprint = |seed| facts.fingerprint(&policy.rate_limits()[0], seed);
        assert_eq!(fingerprint([1; 16]), fingerprint([1; 16]));
        assert_ne!(fingerprint([1; 16]), fingerprint([2; 16]));
    }
}

//! A configuration at work: what is known of a request in, a verdict out.

use crate::bots::Bots;
use crate::config::{Asn, Away, Config, FailureMode, Geo, KeyPart, Origin, RateLimit};
use crate::facts::{Facts, Fingerprint, Patched};
use crate::feed::{Feed, Kind, Source};
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

/// The verdict of a request that nothing speaks for or against, in words.
pub(crate) const PASSED: &str = "passed";

/// The configuration with the state that is made of it once.
#[derive(Debug)]
pub(crate) struct Policy {
    config: Config,
    seed: Seed,
    /// One for each limit of the configuration, in its order.
    tables: Vec<Table>,
    /// The same, of limits that are leased.
    lease_tables: Vec<Option<LeaseTable>>,
    looks_at_many_fields: bool,
}

/// What is to become of a request. Each one is counted under exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The address is on the allow list: neither the deny list nor a limit is asked.
    AllowedByList,
    /// The address is on the deny list.
    DeniedByList,
    /// The address is on a deny list in shadow mode.
    ShadowDeniedByList,
    /// Its country is not let in.
    DeniedByCountry,
    /// Its country would not be let in, but countries are in shadow mode.
    ShadowDeniedByCountry,
    /// Its autonomous system is not let in.
    DeniedByAsn,
    /// Its autonomous system would not be let in, but systems are in shadow mode.
    ShadowDeniedByAsn,
    /// It has this sign of a bot; see [`Bots::tag`].
    DeniedAsBot(usize),
    /// It has this one, but bots are only watched.
    ShadowDeniedAsBot(usize),
    /// It is what this virtual patch describes, by its place in [`Policy::patches`].
    DeniedByPatch(usize),
    /// This virtual patch describes it, by its place in [`Policy::patches`], but is in shadow mode.
    ShadowDeniedByPatch(usize),
    /// Its path or query are longer than virtual patches look at, and there are some.
    TooLong,
    /// Its path or query are that long, but all virtual patches are in shadow mode.
    ShadowTooLong,
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
    /// Whether something would have refused the request that is in shadow mode.
    const fn is_shadow(self) -> bool {
        match self {
            Self::ShadowDeniedByList
            | Self::ShadowDeniedByCountry
            | Self::ShadowDeniedByAsn
            | Self::ShadowDeniedAsBot(_)
            | Self::ShadowDeniedByPatch(_)
            | Self::ShadowTooLong
            | Self::ShadowLimited(_) => true,
            Self::AllowedByList
            | Self::Passed
            | Self::DeniedByList
            | Self::DeniedByCountry
            | Self::DeniedByAsn
            | Self::DeniedAsBot(_)
            | Self::DeniedByPatch(_)
            | Self::TooLong
            | Self::Limited(_)
            | Self::Undecided(..) => false,
        }
    }

    /// Whether the request goes on to what is behind this filter.
    pub(crate) const fn goes_on(self) -> bool {
        match self {
            Self::AllowedByList
            | Self::Passed
            | Self::ShadowDeniedByList
            | Self::ShadowDeniedByCountry
            | Self::ShadowDeniedByAsn
            | Self::ShadowDeniedAsBot(_)
            | Self::ShadowDeniedByPatch(_)
            | Self::ShadowTooLong
            | Self::ShadowLimited(_)
            | Self::Undecided(_, FailureMode::Open) => true,
            Self::DeniedByList
            | Self::DeniedByCountry
            | Self::DeniedByAsn
            | Self::DeniedAsBot(_)
            | Self::DeniedByPatch(_)
            | Self::TooLong
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
    /// A list, table or patches that are required have not come yet.
    NoList,
    /// One that is required is older than it may be.
    StaleList,
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
        let looks_at_many_fields =
            config.bots.is_some() || config.rate_limits.iter().any(wants_whole_heads);
        Self { config, seed, tables, lease_tables, looks_at_many_fields }
    }

    /// Whether so many header fields are looked at, in nearly each request, that they had better be fetched at once.
    pub(crate) fn looks_at_many_fields(&self) -> bool {
        self.looks_at_many_fields
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
        let listed = facts.client.map(|client| look_up(client, feeds, now_ns, &mut facts.tags));
        let mut shadow = None;
        let checks: [Check; 5] = [
            Self::judge_address,
            Self::judge_country,
            Self::judge_asn,
            Self::judge_bots,
            Self::judge_patches,
        ];
        let asking = Asking { listed: listed.unwrap_or_default(), feeds, now_ns };
        for check in checks {
            match check(self, facts, &asking) {
                Some(verdict) if verdict.is_shadow() => shadow = shadow.or(Some(verdict)),
                Some(verdict) => return verdict.into(),
                None => {}
            }
        }
        let mut judgement = self.judge_limits(facts, now_ns, shared);
        // What would have refused first is what is noted.
        if let (Verdict::Passed | Verdict::ShadowLimited(_), Some(shadow)) =
            (judgement.verdict, shadow)
        {
            judgement.verdict = shadow;
        }
        judgement
    }

    fn judge_country(&self, facts: &mut Facts<'_>, _: &Asking<'_>) -> Option<Verdict> {
        let geo = self.config.geo.as_ref()?;
        let allows = geo.allow.is_empty() || geo.allow.contains(&facts.country);
        (geo.deny.contains(&facts.country) || !allows).then_some(match geo.shadow {
            false => Verdict::DeniedByCountry,
            true => Verdict::ShadowDeniedByCountry,
        })
    }

    fn judge_asn(&self, facts: &mut Facts<'_>, _: &Asking<'_>) -> Option<Verdict> {
        let asn = self.config.asn.as_ref()?;
        let allows = asn.allow.is_empty() || asn.allow.contains(&facts.asn);
        (asn.deny.contains(&facts.asn) || !allows).then_some(match asn.shadow {
            false => Verdict::DeniedByAsn,
            true => Verdict::ShadowDeniedByAsn,
        })
    }

    fn judge_bots(&self, facts: &mut Facts<'_>, _: &Asking<'_>) -> Option<Verdict> {
        let sign = self.look_for_bots(facts)?;
        Some(match self.config.bots.as_ref().is_some_and(Bots::shadow) {
            false => Verdict::DeniedAsBot(sign),
            true => Verdict::ShadowDeniedAsBot(sign),
        })
    }

    fn judge_patches(&self, facts: &mut Facts<'_>, asking: &Asking<'_>) -> Option<Verdict> {
        let all = self.config.patch_shadow;
        let patches = self.patches(asking.feeds);
        Some(match facts.patch(patches, all, asking.now_ns / SECOND_NS)? {
            Patched::By(patch) => Verdict::DeniedByPatch(patch),
            Patched::ShadowBy(patch) => Verdict::ShadowDeniedByPatch(patch),
            Patched::TooLong => Verdict::TooLong,
            Patched::ShadowTooLong => Verdict::ShadowTooLong,
        })
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
            Some(Origin::Table(table)) => Some(&**table),
            Some(Origin::Feed(_)) => feeds.iter().find_map(Feed::countries),
            Some(Origin::Header(name)) => return facts.country_of_header(name),
            None => None,
        };
        let found = table.zip(facts.client).map(|(table, client)| table.country(client));
        found.unwrap_or(Country::UNKNOWN)
    }

    /// The autonomous system of the client; 0 if nothing says so.
    fn asn_of(&self, facts: &Facts<'_>, feeds: &[Feed]) -> u32 {
        let table = match self.config.asn.as_ref().map(|asn| &asn.source) {
            Some(Origin::Table(table)) => Some(&**table),
            Some(Origin::Feed(_)) => feeds.iter().find_map(Feed::systems),
            Some(Origin::Header(name)) => return facts.asn_of_header(name),
            None => None,
        };
        table.zip(facts.client).map_or(0, |(table, client)| table.number(client))
    }

    /// The virtual patches of the configuration, then those that were fetched.
    fn patches<'a>(&'a self, feeds: &'a [Feed]) -> impl Iterator<Item = &'a Patch> {
        self.config.patches.iter().chain(feeds.iter().flat_map(Feed::patches))
    }

    /// Whether the autonomous system is worked out, and whether the upstream is to be told.
    pub(crate) fn asn(&self) -> Option<&Asn> {
        self.config.asn.as_ref()
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
    fn judge_address(&self, facts: &mut Facts<'_>, asking: &Asking<'_>) -> Option<Verdict> {
        let (lists, listed) = (&self.config.lists, asking.listed);
        let mut shadow = None;
        match facts.client {
            Some(client) if lists.allow.contains(client) || listed.allowed => {
                return Some(Verdict::AllowedByList);
            }
            Some(client) => {
                let denied = lists.deny.contains(client) || listed.denied;
                if denied && !lists.shadow {
                    return Some(Verdict::DeniedByList);
                }
                shadow = (denied || listed.shadow_denied).then_some(Verdict::ShadowDeniedByList);
            }
            None if !lists.shadow && (!lists.deny.is_empty() || lists.has_enforced_feeds()) => {
                return Some(self.undecided(Reason::NoAddress));
            }
            None => {}
        }
        // Patches may be missing, too, and they are for requests without an address as well.
        let missing = asking.feeds.iter().find_map(|feed| self.missing(feed));
        missing.map(|reason| self.undecided(reason)).or(shadow)
    }

    /// Why a feed that is required is no help.
    fn missing(&self, feed: &Feed) -> Option<Reason> {
        let shadow = match feed.source.kind {
            Kind::List => self.config.lists.shadow,
            Kind::Patches => self.config.patch_shadow,
            // Limits may count by them.
            Kind::Countries | Kind::Systems => false,
        };
        match feed.source.required && !shadow && !feed.source.shadow {
            true if feed.is_empty() => Some(Reason::NoList),
            true if feed.is_stale() => Some(Reason::StaleList),
            _ => None,
        }
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
        let patch_id = |place| self.patches(feeds).nth(place).map_or("", |patch| patch.id.as_str());
        match verdict {
            Verdict::AllowedByList => "allowed:list".into(),
            Verdict::DeniedByList => "denied:list".into(),
            Verdict::ShadowDeniedByList => "shadow:denied:list".into(),
            Verdict::DeniedByCountry => "denied:country".into(),
            Verdict::ShadowDeniedByCountry => "shadow:denied:country".into(),
            Verdict::DeniedByAsn => "denied:asn".into(),
            Verdict::ShadowDeniedByAsn => "shadow:denied:asn".into(),
            Verdict::DeniedAsBot(sign) => format!("denied:{}", self.bot_tag(sign)).into(),
            Verdict::ShadowDeniedAsBot(sign) => {
                format!("shadow:denied:{}", self.bot_tag(sign)).into()
            }
            Verdict::DeniedByPatch(patch) => format!("denied:patch:{}", patch_id(patch)).into(),
            Verdict::ShadowDeniedByPatch(patch) => {
                format!("shadow:denied:patch:{}", patch_id(patch)).into()
            }
            Verdict::TooLong => "denied:uri-too-long".into(),
            Verdict::ShadowTooLong => "shadow:denied:uri-too-long".into(),
            Verdict::Passed => PASSED.into(),
            Verdict::Limited(limit) => format!("limited:{}", name(limit)).into(),
            Verdict::ShadowLimited(limit) => format!("shadow:limited:{}", name(limit)).into(),
            Verdict::Undecided(reason, _) => reason.property().into(),
        }
    }

    fn bot_tag(&self, sign: usize) -> &str {
        self.config.bots.as_ref().map_or("", |bots| bots.tag(sign))
    }
}

/// A check before the limits; `None` if nothing speaks against the request.
type Check = fn(&Policy, &mut Facts<'_>, &Asking<'_>) -> Option<Verdict>;

/// What checks go by, besides the request.
struct Asking<'a> {
    listed: Listed,
    feeds: &'a [Feed],
    now_ns: u64,
}

/// What fetched lists say of an address. Allow beats deny.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    allowed: bool,
    denied: bool,
    /// By a list in shadow mode.
    shadow_denied: bool,
}

/// Whether each request that comes to this limit is looked at as a whole: for a header field in its key all fields of
/// that name are wanted, which a host gives with all others only, and it asks for none before.
fn wants_whole_heads(limit: &RateLimit) -> bool {
    let applies = &limit.applies;
    let asks_before =
        !applies.methods.is_empty() || !applies.paths.is_empty() || !applies.hosts.is_empty();
    !asks_before && limit.key.iter().any(|part| matches!(part, KeyPart::Header(..)))
}

/// What the fetched lists say of an address, and all tags.
fn look_up(client: IpAddr, feeds: &[Feed], now_ns: u64, tags: &mut Vec<String>) -> Listed {
    let mut listed = Listed::default();
    let lists = feeds.iter().filter_map(|feed| Some((feed.list()?, feed.source.shadow)));
    for (list, shadow) in lists {
        let found = list.find(client, now_ns / SECOND_NS);
        match (found.action, shadow) {
            (Some(Action::Allow), _) => listed.allowed = true,
            (Some(Action::Deny), false) => listed.denied = true,
            (Some(Action::Deny), true) => listed.shadow_denied = true,
            (None, _) => {}
        }
        let mut bits = found.tag_bits;
        for tag in list.tags() {
            if bits & 1 == 1 && !tags.contains(tag) {
                tags.push(tag.clone());
            }
            bits >>= 1;
        }
    }
    listed
}

impl Reason {
    /// The reason in filter state.
    pub(crate) fn property(self) -> &'static str {
        match self {
            Self::NoAddress => "error:no-address",
            Self::NoList => "error:no-list",
            Self::StaleList => "error:stale-list",
            Self::SharedData => "error:shared-data",
            Self::NoConfiguration => "error:no-configuration",
        }
    }
}

#[cfg(test)]
mod tests;

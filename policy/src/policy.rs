//! A configuration at work: what is known of a request in, a verdict out.

use crate::bots::Bots;
use crate::config::{Asn, Config, FailureMode, Geo, Origin, PENDING_BODIES};
use crate::facts::{Facts, Patched};
use crate::feed::{Feed, Source};
use crate::guard::Guard;
use crate::lease::{LeaseTable, LeaseTables, Lending, Wished};
use crate::pending::PendingBodies;
use crate::rate_limit::RateLimit;
use crate::seed::Seed;
use crate::shared::SharedData;
use crate::table::Table;
use glacis_limits::geo::Country;
use glacis_limits::patch::Patch;
use glacis_limits::token_bucket::Decision;
use std::borrow::Cow;

mod limits;
mod lists;

const SECOND_NS: u64 = 1_000_000_000;

/// The verdict of a request that nothing speaks for or against, in words.
pub const PASSED: &str = "passed";

/// The verdict in words of a request that its host cannot judge, having no configuration.
pub const NO_CONFIGURATION: &str = "error:no-configuration";

/// Which counter a verdict belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing speaks against the request.
    Passed,
    /// It is denied.
    Denied,
    /// It would be, but the check only watches.
    ShadowDenied,
    /// It is beyond a limit.
    Limited,
    /// It is beyond one that only watches.
    ShadowLimited,
    /// There was no decision, so the failure mode decided.
    Error,
}

impl Class {
    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Denied => "denied",
            Self::ShadowDenied => "shadow_denied",
            Self::Limited => "limited",
            Self::ShadowLimited => "shadow_limited",
            Self::Error => "error",
        }
    }
}

/// One check of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Lists,
    Limits,
    PendingBodies,
    Country,
    Asn,
    Bots,
    Patches,
}

/// The checks in the order in which they are made, up to the first that ends them.
///
/// A client over its limit is rejected before anything looks at its headers at length: otherwise the limit
/// would protect the upstream and not the worker. The price is that requests which a later check denies have
/// spent their tokens. Lists come first, since who is on one has no limit. Verdicts of rules come after all.
pub(crate) const ORDER: [Check; 7] = [
    Check::Lists,
    Check::Limits,
    Check::PendingBodies,
    Check::Country,
    Check::Asn,
    Check::Bots,
    Check::Patches,
];

/// What the tags of bots begin with.
const BOT_TAGS: &str = "bot.";

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
    pending: Option<PendingBodies>,
    /// Whether a limit applies by a tag that only a look for bots gives.
    limits_by_bots: bool,
}

/// A request under way through the checks.
struct Case<'c, 'f, S> {
    facts: &'c mut Facts<'f>,
    feeds: &'c [Feed],
    now_ns: u64,
    shared: &'c S,
    /// The sign of a bot for which the request is to be denied, once somebody has looked.
    bot: Option<Option<usize>>,
    judgement: Judgement,
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
    /// The client has as many requests under way as it may whose bodies are awaited.
    TooManyBodies,
    /// It has more, but that only watches.
    ShadowTooManyBodies,
    /// There is no decision, so the failure mode decides.
    Undecided(Reason, FailureMode),
}

impl Verdict {
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
            | Self::ShadowTooManyBodies
            | Self::Undecided(_, FailureMode::Open) => true,
            Self::DeniedByList
            | Self::DeniedByCountry
            | Self::DeniedByAsn
            | Self::DeniedAsBot(_)
            | Self::DeniedByPatch(_)
            | Self::TooLong
            | Self::Limited(_)
            | Self::TooManyBodies
            | Self::Undecided(_, FailureMode::Closed) => false,
        }
    }

    /// Which counter it belongs to.
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::DeniedByList
            | Self::DeniedByCountry
            | Self::DeniedByAsn
            | Self::DeniedAsBot(_)
            | Self::DeniedByPatch(_)
            | Self::TooLong => Class::Denied,
            Self::ShadowDeniedByList
            | Self::ShadowDeniedByCountry
            | Self::ShadowDeniedByAsn
            | Self::ShadowDeniedAsBot(_)
            | Self::ShadowDeniedByPatch(_)
            | Self::ShadowTooLong => Class::ShadowDenied,
            Self::Limited(_) | Self::TooManyBodies => Class::Limited,
            Self::ShadowLimited(_) | Self::ShadowTooManyBodies => Class::ShadowLimited,
            Self::AllowedByList | Self::Passed => Class::Passed,
            Self::Undecided(..) => Class::Error,
        }
    }

    /// The check that gave it, as metrics name it.
    pub(crate) const fn check(self) -> &'static str {
        match self {
            Self::AllowedByList | Self::DeniedByList | Self::ShadowDeniedByList => "lists",
            Self::DeniedByCountry | Self::ShadowDeniedByCountry => "country",
            Self::DeniedByAsn | Self::ShadowDeniedByAsn => "asn",
            Self::DeniedAsBot(_) | Self::ShadowDeniedAsBot(_) => "bots",
            Self::DeniedByPatch(_)
            | Self::ShadowDeniedByPatch(_)
            | Self::TooLong
            | Self::ShadowTooLong => "patches",
            Self::Limited(_) | Self::ShadowLimited(_) => "limits",
            Self::TooManyBodies | Self::ShadowTooManyBodies => "pending_bodies",
            // Most requests: no check has anything to say.
            Self::Passed => "all",
            Self::Undecided(reason, _) => reason.check(),
        }
    }

    /// Whether no further check is made. What only watches, and a check that cannot decide and lets pass, does not
    /// take the place of those that follow.
    const fn is_final(self) -> bool {
        matches!(self, Self::AllowedByList) || !self.goes_on()
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
    /// The client under which the request is pending, until [`Policy::end_pending`].
    pub(crate) pending: Option<u64>,
}

/// How a client stands with one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its place in the configuration.
    pub(crate) limit: usize,
    pub(crate) decision: Decision,
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
            pending: None,
        }
    }
}

impl Judgement {
    /// Adds the verdict of one check: the first that ends the checks stands, otherwise the first that is not
    /// [`Verdict::Passed`].
    fn add(&mut self, verdict: Verdict) {
        if verdict.is_final() || self.verdict == Verdict::Passed {
            self.verdict = verdict;
        }
    }
}

impl Policy {
    /// The policy of a worker, with a number that no other worker has.
    pub(crate) fn new(config: Config, seed: Seed, worker: u64) -> Self {
        let table = |limit: &RateLimit| {
            Table::new(limit.name.as_str(), limit.table_entries, limit.algorithm)
        };
        let tables = config.rate_limits.iter().map(table).collect();
        let lease_tables = config.rate_limits.iter().map(LeaseTable::new).collect();
        let by_bots =
            |limit: &RateLimit| limit.applies.tags.iter().any(|tag| tag.starts_with(BOT_TAGS));
        let limits_by_bots = config.rate_limits.iter().any(by_bots);
        let looks_at_many_fields =
            limits_by_bots || config.rate_limits.iter().any(limits::wants_whole_heads);
        let pending = config.pending_bodies.map(|settings| PendingBodies::new(settings, worker));
        Self { config, seed, tables, lease_tables, pending, looks_at_many_fields, limits_by_bots }
    }

    /// Whether limits look at so many header fields, in nearly each request, that they had better be fetched at once.
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
        let judgement = Judgement::from(Verdict::Passed);
        let mut case = Case { facts, feeds, now_ns, shared, bot: None, judgement };
        for check in ORDER {
            let verdict = self.check(check, &mut case);
            case.judgement.add(verdict);
            if case.judgement.verdict.is_final() {
                break;
            }
        }
        // What is answered here waits for nothing.
        if !case.judgement.verdict.goes_on()
            && let Some(client) = case.judgement.pending.take()
        {
            self.end_pending(client, 0, now_ns, shared);
        }
        case.judgement
    }

    fn check(&self, check: Check, case: &mut Case<'_, '_, impl SharedData>) -> Verdict {
        match check {
            Check::Lists => self.judge_address(case),
            Check::Limits => self.judge_limits(case),
            Check::PendingBodies => self.judge_pending(case),
            Check::Country => self.judge_country(case.facts.country),
            Check::Asn => self.judge_asn(case.facts.asn),
            Check::Bots => match (self.bot(case), self.config.bots.as_ref().map(Bots::shadow)) {
                (None, _) => Verdict::Passed,
                (Some(sign), Some(true)) => Verdict::ShadowDeniedAsBot(sign),
                (Some(sign), _) => Verdict::DeniedAsBot(sign),
            },
            Check::Patches => self.judge_patches(case),
        }
    }

    /// Counts a request whose body is awaited.
    fn judge_pending(&self, case: &mut Case<'_, '_, impl SharedData>) -> Verdict {
        let Some(pending) = self.pending.as_ref().filter(|_| case.facts.awaits_body) else {
            return Verdict::Passed;
        };
        let Some(client) = case.facts.client_fingerprint(self.seed) else {
            return self.undecided(Reason::NoAddress);
        };
        let beyond = pending.begin(case.shared, client, case.now_ns);
        let shadow = pending.settings().shadow;
        case.judgement.pending = (!beyond || shadow).then_some(client);
        match (beyond, shadow) {
            (false, _) => Verdict::Passed,
            (true, true) => Verdict::ShadowTooManyBodies,
            (true, false) => Verdict::TooManyBodies,
        }
    }

    /// So many further MiB of a body have come, of a request that was counted under this client; the verdict if that
    /// is more than the client may hold. In shadow mode, and where there is no such verdict, they are counted.
    pub(crate) fn grow_pending(
        &self,
        client: u64,
        mib: u32,
        now_ns: u64,
        shared: &impl SharedData,
    ) -> Option<Verdict> {
        let pending = self.pending.as_ref()?;
        let beyond = pending.grow(shared, client, mib, now_ns);
        beyond.then_some(match pending.settings().shadow {
            true => Verdict::ShadowTooManyBodies,
            false => Verdict::TooManyBodies,
        })
    }

    /// A request that was counted under this client has its body, or never will; so many MiB of it were counted.
    pub(crate) fn end_pending(&self, client: u64, mib: u32, now_ns: u64, shared: &impl SharedData) {
        if let Some(pending) = &self.pending {
            pending.end(shared, client, mib, now_ns);
        }
    }

    /// Whether requests are counted whose bodies are awaited.
    pub(crate) fn counts_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Confirms what is pending. For ticks.
    pub(crate) fn confirm_pending(&self, now_ns: u64, shared: &impl SharedData) {
        if let Some(pending) = &self.pending {
            pending.confirm(shared, now_ns);
        }
    }

    /// The sign of a bot for which a request is to be denied. Looks for it once.
    fn bot(&self, case: &mut Case<'_, '_, impl SharedData>) -> Option<usize> {
        *case.bot.get_or_insert_with(|| self.look_for_bots(case.facts))
    }

    /// Adds the tags of a bot, and its score; the first sign for which it is to be refused.
    fn look_for_bots(&self, facts: &mut Facts<'_>) -> Option<usize> {
        let bots = self.config.bots.as_ref()?;
        facts.expect_many_fields();
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

    fn judge_patches(&self, case: &Case<'_, '_, impl SharedData>) -> Verdict {
        let patches = self.patches(case.feeds);
        match case.facts.patch(patches, self.config.patch_shadow, case.now_ns / SECOND_NS) {
            None => Verdict::Passed,
            Some(Patched::By(patch)) => Verdict::DeniedByPatch(patch),
            Some(Patched::ShadowBy(patch)) => Verdict::ShadowDeniedByPatch(patch),
            Some(Patched::TooLong) => Verdict::TooLong,
            Some(Patched::ShadowTooLong) => Verdict::ShadowTooLong,
        }
    }

    fn judge_asn(&self, number: u32) -> Verdict {
        let Some(asn) = &self.config.asn else { return Verdict::Passed };
        let allowed = asn.allow.is_empty() || asn.allow.contains(&number);
        match (asn.deny.contains(&number) || !allowed, asn.shadow) {
            (false, _) => Verdict::Passed,
            (true, false) => Verdict::DeniedByAsn,
            (true, true) => Verdict::ShadowDeniedByAsn,
        }
    }

    /// Whether the autonomous system is worked out, and whether the upstream is to be told.
    pub(crate) fn asn(&self) -> Option<&Asn> {
        self.config.asn.as_ref()
    }

    fn judge_country(&self, country: Country) -> Verdict {
        let Some(geo) = &self.config.geo else { return Verdict::Passed };
        let allowed = geo.allow.is_empty() || geo.allow.contains(&country);
        match (geo.deny.contains(&country) || !allowed, geo.shadow) {
            (false, _) => Verdict::Passed,
            (true, false) => Verdict::DeniedByCountry,
            (true, true) => Verdict::ShadowDeniedByCountry,
        }
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
            Verdict::TooManyBodies => format!("limited:{PENDING_BODIES}").into(),
            Verdict::ShadowTooManyBodies => format!("shadow:limited:{PENDING_BODIES}").into(),
            Verdict::Undecided(reason, _) => reason.property().into(),
        }
    }

    fn bot_tag(&self, sign: usize) -> &str {
        self.config.bots.as_ref().map_or("", |bots| bots.tag(sign))
    }
}

impl Reason {
    /// What cannot decide.
    const fn check(self) -> &'static str {
        match self {
            Self::NoAddress => "address",
            Self::NoList | Self::StaleList => "feeds",
            Self::SharedData => "limits",
        }
    }

    /// The reason in filter state.
    pub(crate) fn property(self) -> &'static str {
        match self {
            Self::NoAddress => "error:no-address",
            Self::NoList => "error:no-list",
            Self::StaleList => "error:stale-list",
            Self::SharedData => "error:shared-data",
        }
    }
}

#[cfg(test)]
mod tests;

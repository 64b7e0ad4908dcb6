//! The limits among the checks: which apply, and what each says.

use super::{Case, Judgement, Policy, Reason, SECOND_NS, Standing, Verdict};
use crate::facts::{Facts, Fingerprint};
use crate::lease::Wished;
use crate::rate_limit::{Away, KeyPart, RateLimit};
use crate::shared::{HostError, SharedData};
use crate::table::Taken;
use glacis_limits::lease::borrower::{RETRY_NS, Spent, Wish};
use glacis_limits::lease::desk::Slot;
use glacis_limits::lease::set;
use glacis_limits::token_bucket::Decision;

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

/// What was spent of a leased limit, and for whom.
struct Leased<'a> {
    taken: set::Taken,
    recorded: bool,
    limit: &'a RateLimit,
    index: usize,
    fingerprint: u64,
}

impl Judgement {
    /// Notes what a limit says, and returns its verdict.
    fn count(&mut self, index: usize, limit: &RateLimit, asked: Asked) -> Verdict {
        let Asked { taken, wished, away } = asked;
        self.standings.push(Standing { limit: index, decision: taken.decision });
        self.unrecorded |= !taken.recorded;
        self.crowded |= taken.crowded;
        self.away |= away;
        self.wishes.extend(wished);
        match (taken.decision.allowed, limit.shadow) {
            (true, _) => Verdict::Passed,
            (false, false) => Verdict::Limited(index),
            (false, true) => Verdict::ShadowLimited(index),
        }
    }
}

impl Policy {
    /// Asks the limits in their order, up to the first that refuses.
    pub(super) fn judge_limits(&self, case: &mut Case<'_, '_, impl SharedData>) -> Verdict {
        if self.limits_by_bots {
            self.bot(case);
        }
        let mut verdicts = Judgement::from(Verdict::Passed);
        for (index, limit) in self.config.rate_limits.iter().enumerate() {
            let verdict = match self.ask(index, limit, case.facts, case.now_ns, case.shared) {
                Ok(Some(asked)) => case.judgement.count(index, limit, asked),
                Ok(None) => continue,
                Err(reason) => self.undecided(reason),
            };
            verdicts.add(verdict);
            if verdict.is_final() {
                break;
            }
        }
        verdicts.verdict
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
}

/// Whether each request that comes to this limit is looked at as a whole: for a header field or a cookie in its key all fields of
/// that name are wanted, which a host gives with all others only, and it asks for none before.
pub(super) fn wants_whole_heads(limit: &RateLimit) -> bool {
    let applies = &limit.applies;
    let asks_before =
        !applies.methods.is_empty() || !applies.paths.is_empty() || !applies.hosts.is_empty();
    let is_of_fields = |part: &KeyPart| matches!(part, KeyPart::Header(..) | KeyPart::Cookie(..));
    !asks_before && limit.key.iter().any(is_of_fields)
}

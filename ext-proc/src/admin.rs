//! What the admin port returns of rules and requests, besides what every service returns: JSON for tools, and a
//! page for people, which shows the same.

mod activity;
mod assets;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use glacis_engine::{LoadedRule, Parts, RuleId, Transaction};
use glacis_explain::{Explanation, Occasion, Show, explain, read};
use glacis_inspector::{Redaction, SECRET_NAMES};
use glacis_service::{
    Readiness,
    admin::{AdminAnswer, AdminHandler, AdminRequest, Handled, good, json, text},
    now,
};
use http::{Method, StatusCode};
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    category,
    doctor::Doctor,
    document::{Document, mask},
    event::Verdict,
    history::{SLOT_SECONDS, SLOTS},
    profile::Profile,
    proposal::Proposal,
    proposals::{Needs, ProposalsAnswer},
    recipe::{TimeOver, Timed},
    rule_evidence::Evidence,
    ruleset::Rulesets,
    shared::Shared,
    status::with_status,
};

use activity::{Activity, Listed, Messages, REQUESTS, REQUESTS_MAX, Wanted};
use assets::asset;

/// The longest time that `/activity` shows.
const MINUTES_MAX: u64 = SLOTS * SLOT_SECONDS / 60;

/// How long a search for an exclusion may take: it builds rules again and again.
const SEARCH_TIME: Duration = Duration::from_secs(20);

/// Rules in one answer, and where no number is given.
const RULES_MAX: usize = 1_000;
const RULES: usize = 100;

/// Warnings in one answer.
const WARNINGS_MAX: usize = 100;

/// What is known here besides `/recent/NUMBER` and the files of the page.
const PATHS: [&str; 9] = [
    "/status",
    "/config",
    "/rules",
    "/recent",
    "/activity",
    "/warnings",
    "/explain",
    "/proposals",
    "/doctor",
];

/// Answers on the admin port.
#[derive(Debug)]
pub struct Admin {
    shared: Arc<Shared>,
    readiness: Readiness,
    doctor: Arc<Doctor>,
}

impl Admin {
    pub(crate) fn new(shared: Arc<Shared>, document: Document, readiness: Readiness) -> Self {
        shared.in_use(document);
        let doctor = Arc::new(Doctor::new(Arc::clone(&shared), readiness.clone()));
        Self { shared, readiness, doctor }
    }

    /// Has the service check itself again and again, by the metrics of `registry` among others, for as long as the runtime
    /// runs. To be called within a runtime.
    pub fn watch(&self, registry: &Arc<Registry>) {
        self.doctor.start(registry);
    }
}

impl AdminHandler for Admin {
    fn handle(&self, request: &AdminRequest) -> Option<Handled> {
        let path = request.path.as_str();
        let number = path.strip_prefix("/recent/");
        let page = asset(path);
        if number.is_none() && page.is_none() && !PATHS.contains(&path) {
            return None;
        }
        let method = if path == "/explain" { Method::POST } else { Method::GET };
        let answer = match (path, page) {
            _ if request.method != method => {
                Err(refused(StatusCode::METHOD_NOT_ALLOWED, &format!("{method} only")))
            }
            (_, Some(page)) => Ok(page),
            (path, None) => match self.answer(path, request) {
                Ok(Handled::Now(answer)) => Ok(answer),
                Ok(long) => return Some(long),
                Err(refusal) => Err(refusal),
            },
        };
        Some(Handled::Now(answer.unwrap_or_else(AdminAnswer::from)))
    }

    fn paths(&self) -> &'static str {
        "/, /status, /config, /rules, /recent, /activity, /warnings, /explain, /proposals, /doctor"
    }
}

impl Admin {
    fn answer(&self, path: &str, request: &AdminRequest) -> Result<Handled, Refusal> {
        let answer = match path {
            "/status" => Ok(self.status()),
            "/config" => self.config(request),
            "/rules" => self.rules(request),
            "/recent" => self.recent(request),
            "/activity" => self.activity(request),
            "/warnings" => self.warnings(request),
            "/proposals" => return self.proposals(request).map(Handled::Long),
            "/explain" => return Ok(Handled::Long(self.explain(request))),
            "/doctor" => return Ok(self.checks(request)),
            path => self.one_recent(path.strip_prefix("/recent/").unwrap_or_default()),
        };
        answer.map(Handled::Now)
    }
}

/// Why something is not told.
#[derive(Debug)]
struct Refusal(StatusCode, String);

impl From<Refusal> for AdminAnswer {
    fn from(Refusal(status, why): Refusal) -> Self {
        text(status, format!("{why}\n"))
    }
}

fn refused(status: StatusCode, why: &str) -> Refusal {
    Refusal(status, why.to_owned())
}

/// One value of a query; an empty one is none.
fn parameter(request: &AdminRequest, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(request.query.as_bytes());
    let value = pairs.find_map(|(key, value)| (key == name).then_some(value))?;
    (!value.is_empty()).then(|| value.into_owned())
}

fn number<N: core::str::FromStr>(request: &AdminRequest, name: &str) -> Result<Option<N>, Refusal> {
    let why = || refused(StatusCode::BAD_REQUEST, &format!("{name}: write a number"));
    parameter(request, name).map(|text| text.parse().map_err(|_| why())).transpose()
}

impl Admin {
    fn status(&self) -> AdminAnswer {
        with_status(&self.shared, &self.readiness, |status| good(status))
    }

    /// The configuration in effect, without secrets.
    fn config(&self, request: &AdminRequest) -> Result<AdminAnswer, Refusal> {
        let profile = parameter(request, "profile");
        let shown = self.shared.document().effective(profile.as_deref());
        let mut shown = shown.ok_or_else(unknown_profile)?;
        mask(&mut shown, &Redaction::new(true, SECRET_NAMES, []));
        Ok(good(&shown))
    }
}

#[derive(Serialize)]
struct WarningsAnswer<'a> {
    profile: &'a str,
    total: usize,
    warnings: Vec<&'a str>,
}

fn unknown_profile() -> Refusal {
    refused(StatusCode::NOT_FOUND, "there is no such profile")
}

#[derive(Serialize)]
struct RulesAnswer<'a> {
    profile: &'a str,
    ruleset: &'a str,
    /// How many there are that were asked for.
    total: usize,
    offset: usize,
    /// Over which exchanges costs were counted.
    cost_sample: Option<SampleAnswer>,
    rules: Vec<RuleAnswer<'a>>,
}

#[derive(Serialize)]
struct SampleAnswer {
    /// One of how many is counted.
    one_of: u32,
    exchanges: u64,
    time_us: u64,
}

#[derive(Serialize)]
struct CostAnswer {
    /// How often it was its turn, in the exchanges that were counted.
    visited: u64,
    /// How often it ran on at least one value.
    run: u64,
    time_us: u64,
    /// Its part of the time of all rules.
    percent: f64,
}

#[derive(Serialize)]
struct RuleAnswer<'a> {
    id: u32,
    phase: u8,
    file: &'a str,
    line: u32,
    msg: &'a str,
    /// The paranoia level, where its tags name one.
    paranoia: Option<u8>,
    tags: Vec<&'a str>,
    links: u32,
    /// Requests in which it has matched since it was loaded; none for rules that do not log.
    hits: Option<u64>,
    /// What became of those requests, in all profiles.
    evidence: EvidenceAnswer,
    /// What it has cost; none where nothing was counted.
    cost: Option<CostAnswer>,
}

/// Requests that were answered with 2xx, and clients that were banned.
#[derive(Serialize)]
struct EvidenceAnswer {
    served: u64,
    banned: u64,
}

/// Which rules are asked for.
struct Filter {
    id: Option<u32>,
    phase: Option<u8>,
    tag: Option<String>,
    words: Option<String>,
    matched: bool,
}

impl Filter {
    fn has(&self, rule: &LoadedRule<'_>, hits: Option<u64>) -> bool {
        self.id.is_none_or(|id| id == rule.id.0)
            && self.phase.is_none_or(|phase| phase == rule.phase.number())
            && self.tag.as_ref().is_none_or(|tag| rule.tags.iter().any(|known| **known == **tag))
            && self.words.as_ref().is_none_or(|words| {
                let contains = |text: &str| text.to_lowercase().contains(words.as_str());
                contains(rule.msg) || contains(rule.file)
            })
            && (!self.matched || hits.is_some_and(|hits| hits > 0))
    }
}

/// The paranoia level in CRS's tag for it.
fn paranoia(tags: &[Arc<str>]) -> Option<u8> {
    tags.iter().find_map(|tag| tag.strip_prefix("paranoia-level/")?.parse().ok())
}

impl Admin {
    fn rules(&self, request: &AdminRequest) -> Result<AdminAnswer, Refusal> {
        let name = parameter(request, "profile");
        let profile = profile(&self.shared.rulesets(), name.as_deref())?;
        let filter = Filter {
            id: number(request, "id")?,
            phase: number(request, "phase")?,
            tag: parameter(request, "tag"),
            words: parameter(request, "text").map(|words| words.to_lowercase()),
            matched: parameter(request, "matched").is_some_and(|value| value == "true"),
        };
        let offset = number(request, "offset")?.unwrap_or(0);
        let limit: usize = number(request, "limit")?.unwrap_or(RULES).min(RULES_MAX);
        let rules = profile.program.rules().map(|rule| (profile.counts.of(rule.id), rule));
        let mut rules: Vec<_> = rules.filter(|(hits, rule)| filter.has(rule, *hits)).collect();
        let sample = profile.costs.so_far();
        let cost = |rule: RuleId| sample.as_ref().and_then(|(_, costs)| costs.of(rule));
        match parameter(request, "sort").as_deref() {
            Some("hits") => {
                rules.sort_by_key(|(hits, rule)| (core::cmp::Reverse(*hits), rule.id));
            }
            Some("cost") => rules.sort_by_key(|(_, rule)| {
                (core::cmp::Reverse(cost(rule.id).map(|cost| cost.time_ns)), rule.id)
            }),
            Some(_) => {
                return Err(refused(StatusCode::BAD_REQUEST, "sort: write hits or cost"));
            }
            None => {}
        }
        let cost_answer = |rule: RuleId| {
            let (_, costs) = sample.as_ref()?;
            let cost = costs.of(rule)?;
            let percent = (costs.percent(cost) * 100.0).round() / 100.0;
            let (visited, run, time_us) = (cost.visited, cost.run, cost.time_ns / 1_000);
            Some(CostAnswer { visited, run, time_us, percent })
        };
        let page = rules.iter().skip(offset).take(limit).map(|(hits, rule)| RuleAnswer {
            id: rule.id.0,
            phase: rule.phase.number(),
            file: rule.file,
            line: rule.line,
            msg: rule.msg,
            paranoia: paranoia(rule.tags),
            tags: rule.tags.iter().map(|tag| &**tag).collect(),
            links: rule.links,
            hits: *hits,
            evidence: {
                let Evidence { served, banned } = self.shared.metrics.rule_evidence.of(rule.id.0);
                EvidenceAnswer { served, banned }
            },
            cost: cost_answer(rule.id),
        });
        let cost_sample = sample.as_ref().map(|(one_of, costs)| SampleAnswer {
            one_of: *one_of,
            exchanges: costs.exchanges,
            time_us: costs.time_ns / 1_000,
        });
        Ok(good(&RulesAnswer {
            profile: &profile.settings.profile,
            ruleset: profile.program.hash(),
            total: rules.len(),
            offset,
            cost_sample,
            rules: page.collect(),
        }))
    }
}

#[derive(Serialize)]
struct RecentAnswer<'a> {
    /// The number of the last one, to ask for those after it.
    last: u64,
    requests: Vec<Listed<'a>>,
}

impl Admin {
    /// Blocked requests with a record, the oldest first.
    fn recent(&self, request: &AdminRequest) -> Result<AdminAnswer, Refusal> {
        let after = number(request, "after")?.unwrap_or(0);
        let (last, events) = self.shared.recent.after(after);
        let named = events.iter().filter_map(|event| event.rules.first().copied()).collect();
        let messages = Messages::of(&self.shared.rulesets(), named);
        let requests = events.iter().map(|event| Listed::new(event, &messages, true)).collect();
        Ok(good(&RecentAnswer { last, requests }))
    }

    /// What the page for people shows.
    fn activity(&self, request: &AdminRequest) -> Result<AdminAnswer, Refusal> {
        let unknown = |name: &str| refused(StatusCode::BAD_REQUEST, &format!("{name}: unknown"));
        let verdict = |name: String| {
            let found = Verdict::ALL.iter().find(|(_, known)| *known == name);
            found.map(|(verdict, _)| *verdict).ok_or_else(|| unknown("verdict"))
        };
        let of_category = |name: String| category::named(&name).ok_or_else(|| unknown("category"));
        let minutes: Option<u64> = number(request, "minutes")?;
        if minutes.is_some_and(|minutes| minutes == 0 || minutes > MINUTES_MAX) {
            let why = format!("minutes: write a number from 1 to {MINUTES_MAX}");
            return Err(refused(StatusCode::BAD_REQUEST, &why));
        }
        let wanted = Wanted {
            minutes,
            verdict: parameter(request, "verdict").map(verdict).transpose()?,
            category: parameter(request, "category").map(of_category).transpose()?,
            rule: number(request, "rule")?,
            client: parameter(request, "client"),
            host: parameter(request, "host"),
            path: parameter(request, "path"),
            user_agent: parameter(request, "user_agent"),
            profile: parameter(request, "profile"),
            text: parameter(request, "text").map(|text| text.to_lowercase()),
            limit: number(request, "limit")?.unwrap_or(REQUESTS).min(REQUESTS_MAX),
        };
        Ok(good(&Activity::of(&self.shared, &wanted, now())))
    }

    /// The findings of the last examination, or of one that runs now.
    fn checks(&self, request: &AdminRequest) -> Handled {
        let wants_now = parameter(request, "now").is_some_and(|value| value == "true");
        match self.doctor.last().filter(|_| !wants_now) {
            Some(last) => Handled::Now(last),
            None => {
                let doctor = Arc::clone(&self.doctor);
                Handled::Long(Box::new(move || doctor.examine()))
            }
        }
    }

    /// What was noticed when the rules of a profile were loaded.
    fn warnings(&self, request: &AdminRequest) -> Result<AdminAnswer, Refusal> {
        let name = parameter(request, "profile");
        let profile = profile(&self.shared.rulesets(), name.as_deref())?;
        let all = profile.program.warnings();
        let warnings = all.iter().take(WARNINGS_MAX).map(String::as_str).collect();
        Ok(good(&WarningsAnswer { profile: &profile.settings.profile, total: all.len(), warnings }))
    }

    fn one_recent(&self, number: &str) -> Result<AdminAnswer, Refusal> {
        let found = number.parse().ok().and_then(|number| self.shared.recent.get(number));
        let record = found.ok_or_else(|| {
            refused(StatusCode::NOT_FOUND, "there is none of this number, or no more")
        })?;
        Ok(json(StatusCode::OK, record.to_string()))
    }

    /// What becomes of a request, or of that of an audit record, and why.
    fn explain(&self, request: &AdminRequest) -> Box<dyn FnOnce() -> AdminAnswer + Send> {
        let rulesets = self.shared.rulesets();
        let named = parameter(request, "profile");
        let all = parameter(request, "all").is_some_and(|value| value == "true");
        let (line, wants_text) = (request.body.clone(), request.wants_text);
        Box::new(move || {
            let told = profile_of(&line, named, &rulesets).and_then(|profile| {
                let stale = rulesets.have_changed_on_disk();
                let (told, proposal) = tell(&profile, &line, stale, all)?;
                Ok(answer(&profile, &told, &proposal, wants_text))
            });
            told.unwrap_or_else(AdminAnswer::from)
        })
    }
}

impl Admin {
    /// Exclusions for what a profile in detection mode would have blocked.
    fn proposals(
        &self,
        request: &AdminRequest,
    ) -> Result<Box<dyn FnOnce() -> AdminAnswer + Send>, Refusal> {
        let needs = Needs {
            requests: number(request, "requests")?,
            clients: number(request, "clients")?,
            days: number(request, "days")?,
        };
        let rulesets = self.shared.rulesets();
        let profile = profile(&rulesets, parameter(request, "profile").as_deref())?;
        let shared = Arc::clone(&self.shared);
        Ok(Box::new(move || {
            if rulesets.have_changed_on_disk() {
                let why = "files of the rules are not as they were when these were loaded";
                return refused(StatusCode::CONFLICT, why).into();
            }
            let until = Instant::now() + SEARCH_TIME;
            match ProposalsAnswer::learn(&shared.evidence, &profile, needs, until) {
                Ok(answer) => good(&answer),
                Err(TimeOver) => {
                    let seconds = SEARCH_TIME.as_secs();
                    let why = format!("it takes longer than {seconds} s: try `glacis learn`");
                    refused(StatusCode::SERVICE_UNAVAILABLE, &why).into()
                }
            }
        }))
    }
}

/// The profile that is named, or that of the audit record.
fn profile_of(
    line: &[u8],
    named: Option<String>,
    rulesets: &Rulesets,
) -> Result<Arc<Profile>, Refusal> {
    #[derive(Deserialize)]
    struct Named {
        profile: Option<String>,
    }
    let of_record = serde_json::from_slice::<Named>(line).map_err(|error| {
        let why = format!("a request as for `glacis eval`, or an audit record: {error}");
        refused(StatusCode::BAD_REQUEST, &why)
    })?;
    profile(rulesets, named.or(of_record.profile).as_deref())
}

/// The profile of this name, or the default one.
fn profile(rulesets: &Rulesets, name: Option<&str>) -> Result<Arc<Profile>, Refusal> {
    let found = match name {
        Some(name) => rulesets.profiles.get(name).ok_or_else(unknown_profile)?,
        None => rulesets.profiles.default_profile(),
    };
    Ok(Arc::clone(found))
}

#[derive(Serialize)]
struct ExplainAnswer<'a> {
    profile: &'a str,
    ruleset: &'a str,
    /// As `glacis explain` prints it.
    text: String,
    explanation: Box<RawValue>,
    /// The exclusion in the typed form of the configuration.
    typed: &'a Proposal,
}

fn answer(
    profile: &Profile,
    told: &Explanation,
    proposal: &Proposal,
    wants_text: bool,
) -> AdminAnswer {
    let page = format!("{}{}", told.text(), proposal.text());
    if wants_text {
        return text(StatusCode::OK, page);
    }
    let Ok(explanation) = serde_json::value::to_raw_value(told) else {
        return refused(StatusCode::INTERNAL_SERVER_ERROR, "a bug: this cannot be written").into();
    };
    let (profile, ruleset) = (profile.settings.profile.as_str(), profile.program.hash());
    good(&ExplainAnswer { profile, ruleset, text: page, explanation, typed: proposal })
}

/// What is said of a request, as long as the time lasts.
fn tell(
    profile: &Profile,
    line: &[u8],
    stale: bool,
    all: bool,
) -> Result<(Explanation, Proposal), Refusal> {
    let read = || read(line).map_err(|error| refused(StatusCode::BAD_REQUEST, &error.message));
    let rule_engine = profile.settings.rule_engine;
    let occasion = Occasion { rule_engine, ..Occasion::at(now()) };
    let mut transaction = Transaction::new(Arc::clone(&profile.program)).with_trace();
    let mut timed = Timed {
        recipe: &profile.recipe,
        until: Instant::now() + SEARCH_TIME,
        parts: Parts::default(),
    };
    let (request, record) = read()?;
    let rules = (!stale).then_some(&mut timed);
    let weights = profile.settings.second_opinion.as_ref().map(|opinion| &*opinion.weights);
    let show = Show { all, second_opinion: weights };
    let told = explain(rules, &mut transaction, request, record, &occasion, show);
    if let Ok(mut told) = told {
        if stale && told.is_refused() {
            told.note(
                "no exclusion was looked for: files of the rules are not as they were when these were loaded",
            );
        }
        let (request, _) = read()?;
        let proposal = Proposal::of(&told, now(), |rules| timed.pass(rules, &request, &occasion));
        return Ok((told, proposal));
    }
    let (request, record) = read()?;
    let told = explain::<Timed<'_>>(None, &mut transaction, request, record, &occasion, show);
    let mut told = told.map_err(|_| {
        refused(StatusCode::INTERNAL_SERVER_ERROR, "a bug: nothing was to be built")
    })?;
    let seconds = SEARCH_TIME.as_secs();
    told.note(&format!(
        "the search for an exclusion took longer than {seconds} s and was given up: try `glacis explain`"
    ));
    Ok((told, Proposal::default()))
}

//! One request and its response, looked at phase by phase.
//!
//! A host feeds what it knows, evaluates a phase, and obeys the [`Verdict`]:
//!
//! ```text
//! start → request_line, request_header… → evaluate_request_headers      (phase 1)
//!       → request_body…                 → evaluate_request_body         (phase 2)
//!       → response_line, response_header… → evaluate_response_headers   (phase 3)
//!       → response_body…                → evaluate_response_body        (phase 4)
//!       → finish                                                        (phase 5)
//! ```
//!
//! Phases can be left out, not repeated or reordered: a call that comes too late is ignored, so that
//! no order of a host's messages can bring the engine out of step. A transaction that has been
//! refused evaluates no further phase but the last.
//!
//! A transaction keeps its memory when it is started again: reuse it, one per worker.

mod bodies;
mod budget;
mod collections;
mod decoding;
mod deferred;
mod evaluate;
mod expansion;
mod flags;
mod matched;
mod patterns;
mod profile;
mod recalled;
mod record;
mod request;
mod sanitise;
mod scans;
mod trace;
mod transforms;
mod tx;
mod values;

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use crate::{
    audit::AuditParts,
    body::{BodyScratch, Processor, graphql::Measures},
    collection::CollectionStore,
    id::{Phase, RuleIndex, RuleSet},
    lookup::Lookup,
    operator::Capture,
    program::{AuditEngine, Program, RuleEngine},
    store::{Slice, Store},
    variable::Variable,
    verdict::{Refusal, Verdict},
};
pub use bodies::{BodyRoom, GrpcMessages};
use budget::Budget;
pub use budget::Deadline;
pub(crate) use collections::PERSISTENT;
use collections::PersistentCollection;
pub use flags::Flags;
pub use matched::{Match, MatchedRule, Scores};
pub use profile::{LaneCost, PhaseCost, Profile, ProfiledLane, ProfiledRule, RuleCost, ScanCost};
pub use record::Upload;
pub use sanitise::Hidden;
use scans::Scans;
pub use trace::{
    Excerpt, TraceEvent, TraceStep, TracedCapture, TracedChange, TracedMatch, TracedOutcome,
    TracedRule, TracedStage,
};
use tx::TxCollection;
use values::ValueRef;
pub(crate) use values::{is_short, is_stable, lists, selects};

/// What the host knows of a transaction before its first byte.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// A name for the request, unique as far as the host can tell (`UNIQUE_ID`).
    pub unique_id: &'a str,
    /// Time since 1970, UTC.
    pub time: Duration,
    /// The client's address.
    pub client: Endpoint,
    /// The address that the request came in on.
    pub server: Endpoint,
}

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port; 0 when unknown.
    pub port: u16,
}

/// How far a transaction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    RequestHeaders,
    RequestBody,
    ResponseHeaders,
    ResponseBody,
    Logging,
    Finished,
}

/// How far an `allow` reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Allowed {
    #[default]
    No,
    Phase(Phase),
    Request,
    All,
}

/// Settings that `ctl` can change for one transaction.
#[derive(Clone, Debug)]
struct Control {
    rule_engine: RuleEngine,
    audit_engine: Option<AuditEngine>,
    audit_parts: AuditParts,
    request_body_access: bool,
    response_body_access: bool,
    force_request_body: bool,
    processor: Option<Processor>,
    /// Whether the path is one on which GraphQL is served.
    graphql: bool,
    /// What the GraphQL documents of the query string come to.
    graphql_queried: Measures,
    /// Whether a content coding of the body could not be undone.
    body_undecoded: bool,
    /// Bytes of values that may still be added because others hold them.
    nested_bytes_left: usize,
    request_body_bytes_max: usize,
    response_body_bytes_max: usize,
    /// The response's body is a message, and inspected whatever its media type is.
    request_is_message: bool,
    response_is_message: bool,
}

impl Control {
    fn new(program: &Program) -> Self {
        Self {
            rule_engine: program.settings.rule_engine,
            audit_engine: program.settings.audit_engine,
            audit_parts: program.settings.audit_log_parts,
            request_body_access: program.settings.request_body_access,
            response_body_access: program.settings.response_body_access,
            force_request_body: false,
            processor: None,
            graphql: false,
            graphql_queried: Measures::default(),
            body_undecoded: false,
            nested_bytes_left: program.limits.nested_bytes_max,
            request_body_bytes_max: program.limits.request_body_bytes_max,
            response_body_bytes_max: program.limits.response_body_bytes_max,
            request_is_message: false,
            response_is_message: false,
        }
    }
}

/// Buffers that evaluation works in; they hold nothing between rules.
#[derive(Debug, Default)]
struct Scratch {
    values: Vec<ValueRef>,
    stages: Vec<Slice>,
    parameter: Vec<u8>,
    expansion: Vec<u8>,
    name: Vec<u8>,
    transform_in: Vec<u8>,
    transform_out: Vec<u8>,
    decoded: Vec<u8>,
    capture: Capture,
    body: BodyScratch,
}

/// A request and its response under inspection.
///
/// A host hands over what comes, asks what else rules have to see, and obeys the [`Verdict`]. This
/// is a request with a body, whose pieces may end anywhere:
///
/// ```
/// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
/// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
/// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
/// # let time = Duration::from_secs(1_700_000_000);
/// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
/// let text = r#"SecRuleEngine On
///     SecRequestBodyAccess On
///     SecRule ARGS "@rx (?i)union\s+select" "id:1,phase:2,deny,\
///         msg:'SQL in %{MATCHED_VAR_NAME}',setvar:tx.blocking_inbound_anomaly_score=+5""#;
/// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
/// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
/// let mut transaction = Transaction::new(Arc::new(program));
/// transaction.start(&start);
/// transaction.request_line(b"POST", b"/login", b"HTTP/1.1");
/// transaction.request_header(b"Content-Type", b"application/x-www-form-urlencoded");
/// transaction.evaluate_request_headers();
/// if transaction.wants_request_body() {
///     for piece in ["id=1+UNI", "ON+SEL", "ECT+2"] {
///         transaction.request_body(piece.as_bytes());
///     }
/// }
/// assert_eq!(transaction.evaluate_request_body().name(), "deny");
/// // For logs: which rule, where, and how bad it is.
/// let rule = transaction.matched_rules().next().expect("a rule has matched");
/// assert_eq!(rule.msg, "SQL in ARGS:id");
/// assert_eq!(rule.matches[0].value, b"1 UNION SELECT 2");
/// assert_eq!(transaction.scores().inbound, 5);
/// ```
#[derive(Debug)]
pub struct Transaction {
    program: Arc<Program>,
    stage: Stage,
    verdict: Verdict,
    control: Control,
    allowed: Allowed,
    flags: Flags,
    store: Store,
    /// Where the value of each scalar lies, by [`Variable`].
    scalars: Vec<Slice>,
    /// Transformed values by lane and value.
    transformed: Vec<Vec<Slice>>,
    scans: Scans,
    tx: TxCollection,
    /// `ENV`.
    env: TxCollection,
    /// `REMOTE_USER`, where the host knows.
    remote_user: Option<Box<[u8]>>,
    /// Where values stood that are not to be seen in logs.
    sanitised: sanitise::Sanitised,
    /// The persistent collections, in the order of [`PERSISTENT`].
    persistent: [PersistentCollection; PERSISTENT.len()],
    removed_rules: RuleSet,
    /// The `ctl` actions that took targets away: rule and position of the action.
    removed_targets: Vec<(RuleIndex, usize)>,
    /// The rules whose `ctl` has removed rules or targets; a rule that did so several times may be there several times.
    excluding: Vec<RuleIndex>,
    matches: matched::Matches,
    matched_ids: record::MatchedIds,
    trace: Option<Box<trace::Trace>>,
    profile: Option<Box<Profile>>,
    highest_severity: u8,
    current_rule: Option<RuleIndex>,
    start_time: Duration,
    collections: Option<Arc<dyn CollectionStore>>,
    lookup: Option<Arc<dyn Lookup>>,
    /// Look-ups that the host may still be asked for.
    lookups_left: usize,
    /// Work that rules may still do.
    budget: Budget,
    /// Texts that were added to what is known.
    learned: usize,
    /// The values of which something may be known from earlier transactions, by their ids.
    met: recalled::MetTexts,
    /// Whether phase 1 began with what was evaluated when rules were loaded.
    folded: bool,
    /// Whether the request's body was read, as its headers describe it.
    body_read: bool,
    patterns: patterns::ExpandedPatterns,
    scratch: Scratch,
}

/// Marks a cell of the cache of transformed values that has not been computed.
const UNKNOWN: Slice =
    Slice { region: crate::store::Region::Transformed, start: u32::MAX, end: u32::MAX };

impl Transaction {
    /// A transaction of `program`, to be [started](Self::start).
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        let mut transaction = Self {
            stage: Stage::Finished,
            verdict: Verdict::Allow,
            control: Control::new(&program),
            allowed: Allowed::No,
            flags: Flags::default(),
            store: Store::new(program.limits.kept_members_max),
            scalars: vec![Slice::EMPTY; Variable::ALL.len()],
            transformed: vec![Vec::new(); program.lanes.len()],
            scans: Scans::new(&program),
            tx: TxCollection::new(program.tx_names.len()),
            env: TxCollection::new(0),
            remote_user: None,
            sanitised: sanitise::Sanitised::default(),
            persistent: Default::default(),
            removed_rules: RuleSet::default(),
            removed_targets: Vec::new(),
            excluding: Vec::new(),
            matches: matched::Matches::default(),
            matched_ids: record::MatchedIds::default(),
            trace: None,
            profile: None,
            highest_severity: 255,
            current_rule: None,
            start_time: Duration::ZERO,
            collections: None,
            lookup: None,
            lookups_left: 0,
            budget: Budget::default(),
            learned: 0,
            met: recalled::MetTexts::default(),
            folded: false,
            body_read: false,
            patterns: patterns::ExpandedPatterns::default(),
            scratch: Scratch::default(),
            program,
        };
        transaction.clear();
        transaction
    }

    /// Has `lookup` answer `@geoLookup` and `@rbl`; without it neither ever matches.
    #[must_use]
    pub fn with_lookup(mut self, lookup: Arc<dyn Lookup>) -> Self {
        self.lookup = Some(lookup);
        self
    }

    fn clear(&mut self) {
        self.stage = Stage::RequestHeaders;
        self.verdict = Verdict::Allow;
        self.control = Control::new(&self.program);
        self.allowed = Allowed::No;
        self.flags = Flags::default();
        self.store.clear();
        self.scalars.fill(Slice::EMPTY);
        for lane in &mut self.transformed {
            lane.clear();
            lane.shrink_to(scans::VIEWS_KEPT);
        }
        self.scans.clear();
        self.tx.clear();
        self.env.clear();
        self.remote_user = None;
        self.sanitised.clear();
        for collection in &mut self.persistent {
            *collection = PersistentCollection::default();
        }
        self.removed_rules.clear();
        self.removed_targets.clear();
        self.excluding.clear();
        self.matches.clear();
        self.matched_ids.clear();
        if let Some(trace) = &mut self.trace {
            trace.clear();
        }
        self.highest_severity = 255;
        self.current_rule = None;
        self.patterns.clear();
        self.lookups_left = self.program.limits.lookups_max;
        self.budget = Budget::new(self.program.limits.rule_steps_max);
        self.learned = 0;
        self.met.clear();
        self.folded = false;
        self.body_read = false;
    }

    /// Begins a new request, whatever became of the one before.
    ///
    /// Nothing of that one is left, but for its memory: a worker needs one transaction for all of
    /// its requests.
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// # let text = r#"SecRuleEngine On
    /// #     SecRule ARGS "@contains attack" "id:1,phase:1,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// let mut transaction = Transaction::new(Arc::new(program));
    /// for (uri, expected) in [("/?q=attack", "deny"), ("/?q=tea", "allow")] {
    ///     transaction.start(&start);
    ///     transaction.request_line(b"GET", uri.as_bytes(), b"HTTP/1.1");
    ///     assert_eq!(transaction.evaluate_request_headers().name(), expected);
    ///     // What comes too late is ignored.
    ///     transaction.request_line(b"GET", b"/?q=attack", b"HTTP/1.1");
    ///     assert_eq!(transaction.evaluate_request_headers().name(), expected);
    /// }
    /// ```
    pub fn start(&mut self, start: &Start<'_>) {
        self.clear();
        if let Some(profile) = &mut self.profile {
            profile.begin();
        }
        self.start_time = start.time;
        self.set_start(start);
    }

    /// Gives back the memory of what can be found out again, some hundred kilobytes with CRS: for hosts with many
    /// transactions that wait for something, such as a body. No verdict changes, the next phase takes longer; what it
    /// finds out again counts as [steps](Self::rule_steps) again.
    pub fn rest(&mut self) {
        self.transformed.fill(Vec::new());
        self.store.rest();
        self.scans.rest();
        self.patterns.rest();
        self.scratch = Scratch::default();
    }

    /// Sets the mode of this transaction, instead of what `SecRuleEngine` says: one program then serves
    /// hosts that block and hosts that only look on. `ctl:ruleEngine` can still change it.
    ///
    /// It holds until the next [`Self::start`].
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, RuleEngine, Start};
    /// # use glacis_engine::{Transaction, Verdict};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// # let text = r#"SecRuleEngine On
    /// #     SecRule ARGS "@contains attack" "id:1,phase:1,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// # let mut transaction = Transaction::new(Arc::new(program));
    /// transaction.start(&start);
    /// transaction.set_rule_engine(RuleEngine::DetectionOnly);
    /// transaction.request_line(b"GET", b"/?q=attack", b"HTTP/1.1");
    /// // It matches, and nobody is refused.
    /// assert_eq!(*transaction.evaluate_request_headers(), Verdict::Allow);
    /// assert_eq!(transaction.matched_rules().count(), 1);
    /// ```
    pub const fn set_rule_engine(&mut self, mode: RuleEngine) {
        self.control.rule_engine = mode;
    }

    /// Gives `ENV` a member. Of the process's environment the engine sees nothing but this.
    pub fn environment(&mut self, name: &[u8], value: &[u8]) {
        let members_max = self.program.limits.tx_members_max;
        let kept = self.env.set_other(None, &name.to_ascii_lowercase(), value, members_max);
        self.flags.tx_members_dropped |= !kept;
    }

    /// Names the user whom the host, or a filter before it, has authenticated (`REMOTE_USER`).
    pub fn remote_user(&mut self, user: &[u8]) {
        self.remote_user = Some(user.into());
    }

    /// The program that this transaction runs.
    #[must_use]
    pub const fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The decision so far. In `DetectionOnly` it is always [`Verdict::Allow`].
    #[must_use]
    pub const fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The limits that were hit so far.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        let values_cut = self.flags.values_cut || self.store.is_cut();
        Flags { values_cut, patterns_gave_up: self.budget.gave_up(), ..self.flags }
    }

    /// Steps that rules have taken so far, as [`Limits::rule_steps_max`](crate::Limits) counts them.
    #[must_use]
    pub const fn rule_steps(&self) -> u64 {
        self.budget.spent()
    }

    /// The mode in force: `SecRuleEngine`, as changed by `ctl:ruleEngine`.
    #[must_use]
    pub const fn rule_engine(&self) -> RuleEngine {
        self.control.rule_engine
    }

    /// Evaluates phase 1. The request line and headers must have been given.
    pub fn evaluate_request_headers(&mut self) -> &Verdict {
        if self.advance(Stage::RequestHeaders, Stage::RequestBody) {
            self.set_request_headers();
            if self.inspecting() {
                self.run(Phase::RequestHeaders);
            }
        }
        &self.verdict
    }

    /// Ends each further phase of this request, phase 5 excepted, when `deadline` has passed: no further rule runs, the
    /// flag `deadline_passed` is set, and where rules may block the request is refused with 503, whatever
    /// `SecRuleStepsLimitAction` says. [`start`](Self::start) takes the deadline back.
    ///
    /// A verdict is then no longer a function of the rules and the request alone; a host that sets none has that.
    ///
    /// ```
    /// # use glacis_engine::{Deadline, Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// # let text = r#"SecRuleEngine On
    /// #     SecRule ARGS "@contains attack" "id:1,phase:2,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// let mut transaction = Transaction::new(Arc::new(program));
    /// transaction.start(&start);
    /// transaction.set_deadline(Some(Deadline::new(|| 20, 10)));
    /// transaction.request_line(b"GET", b"/?q=tea", b"HTTP/1.1");
    /// transaction.evaluate_request_headers();
    /// let refusal = transaction.evaluate_request_body().refusal().copied();
    /// assert_eq!(refusal.map(|refusal| (refusal.status, refusal.rule)), Some((503, None)));
    /// assert_eq!(transaction.flags().names().collect::<Vec<_>>(), ["deadline"]);
    /// ```
    pub const fn set_deadline(&mut self, deadline: Option<Deadline>) {
        self.budget.set_deadline(deadline);
    }

    /// Evaluates phase 2 with the body given so far.
    pub fn evaluate_request_body(&mut self) -> &Verdict {
        if self.advance(Stage::RequestBody, Stage::ResponseHeaders) {
            // What is late is not read either.
            if !self.budget.look() {
                self.read_request_body();
            }
            if self.inspecting() {
                self.run(Phase::RequestBody);
            }
            self.rest_after_large_body();
        }
        &self.verdict
    }

    /// Evaluates phase 2 on the request's head while its body has not come. `true` when a rule refuses the request, as
    /// rules would with any body; the verdict stands then. After `false` nothing can be said without the body, and the
    /// transaction is of no use: the request has to be [started](Self::start) again.
    ///
    /// Some rulesets allow no verdict without the body: see [`Program::can_refuse_before_body`].
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// let text = r#"SecRuleEngine On
    ///     SecRequestBodyAccess On
    ///     SecRule ARGS "@contains /etc/passwd" "id:1,phase:2,deny"
    ///     SecRule &ARGS "@eq 0" "id:2,phase:2,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Arc::new(Program::build(&rules, &NoFiles, Limits::default()).unwrap());
    /// let refused = |uri: &str| {
    ///     let mut transaction = Transaction::new(Arc::clone(&program));
    ///     transaction.start(&start);
    ///     transaction.request_line(b"POST", uri.as_bytes(), b"HTTP/1.1");
    ///     transaction.evaluate_request_headers();
    ///     transaction.refuses_before_body()
    /// };
    /// assert!(refused("/?file=/etc/passwd"));
    /// // The body may bring the argument that rule 2 misses.
    /// assert!(!refused("/"));
    /// ```
    pub fn refuses_before_body(&mut self) -> bool {
        let program = Arc::clone(&self.program);
        let Some(unknown) = &program.unknown_before_body else { return false };
        if !self.wants_request_body() || !self.store.request_body.is_empty() {
            return false;
        }
        self.removed_rules.extend(unknown);
        self.evaluate_request_body().refusal().is_some_and(|refusal| refusal.rule.is_some())
    }

    /// Reads the request's body, once.
    fn read_request_body(&mut self) {
        if !self.body_read {
            self.body_read = true;
            self.set_request_body();
            self.compare_with_api();
        }
    }

    /// Evaluates phase 3. The response line and headers must have been given.
    pub fn evaluate_response_headers(&mut self) -> &Verdict {
        if self.advance(Stage::ResponseHeaders, Stage::ResponseBody) {
            self.set_response_headers();
            self.run(Phase::ResponseHeaders);
        }
        &self.verdict
    }

    /// Evaluates phase 4 with the body given so far.
    pub fn evaluate_response_body(&mut self) -> &Verdict {
        if self.advance(Stage::ResponseBody, Stage::Logging) {
            self.set_response_body();
            // A limit may have refused the response.
            if self.inspecting() {
                self.run(Phase::ResponseBody);
            }
        }
        &self.verdict
    }

    /// Evaluates phase 5, which always runs and changes no verdict, and hands the changes of persistent
    /// collections to their store.
    pub fn finish(&mut self, now: Duration) -> &Verdict {
        if self.stage < Stage::Finished {
            self.stage = Stage::Finished;
            self.set_duration(now.saturating_sub(self.start_time));
            if self.control.rule_engine != RuleEngine::Off {
                // Phase 5 counts what was done before; it must see the requests that cost most, too.
                self.budget.renew(self.program.limits.rule_steps_max);
                self.run(Phase::Logging);
            }
            self.save_collections();
        }
        &self.verdict
    }

    /// Whether rules run and nothing has been decided yet.
    fn inspecting(&self) -> bool {
        self.control.rule_engine != RuleEngine::Off
            && self.verdict == Verdict::Allow
            && self.allowed != Allowed::All
    }

    /// Goes on from `stage` (or one before it that was left out) to `next`; says whether to evaluate.
    fn advance(&mut self, stage: Stage, next: Stage) -> bool {
        if self.stage > stage {
            return false;
        }
        self.stage = next;
        self.inspecting()
    }

    fn refuse_for_limit(&mut self, status: u16, phase: Phase) {
        if self.control.rule_engine == RuleEngine::On && self.verdict == Verdict::Allow {
            self.verdict = Verdict::Deny(Refusal { status, rule: None, phase });
        }
    }
}

//! The program: rules compiled to plain data, immutable and shared.
//!
//! Invariant: everything that does not depend on a request is decided here, once. A transaction looks
//! up no name and compiles nothing.

mod fast_path;

use std::sync::Arc;

use crate::{
    audit::PartsChange,
    compile::{Folded, UnseenChains},
    expand::Expression,
    id::{LaneId, Phase, RuleId, RuleIndex, RuleSet, TxSlot},
    limits::Limits,
    operator::{Capture, Comparison, Operator},
    pattern::NamePattern,
    plan::{Cell, PhasePlan},
    recall::Recall,
    scan::{ByteSet, Indexes, Marks, sieve::Sieve},
    settings::Settings,
    transform::Transformation,
    variable::Variable,
    xpath::XPath,
};
pub use fast_path::{GateKind, GatedRule};

/// A compiled ruleset. `Send + Sync`; share it with `Arc`.
///
/// Before the first request it says which rules do nothing, and what the host need not bring:
///
/// ```
/// use glacis_engine::{GateKind, Input, Limits, NoFiles, Program};
///
/// let text = r#"SecRuleEngine On
///     SecRule ARGS_GET "@contains /etc/passwd" "id:1,phase:1,deny"
///     SecRule ARGS_POST "@contains /etc/passwd" "id:2,phase:2,deny""#;
/// let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
/// let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
/// assert!(program.warnings()[0].starts_with("SecRequestBodyAccess is Off"));
/// assert!(!program.inspects_request_body() && !program.inspects_response());
/// // A request without the texts that rules need costs a scan, and runs no rule.
/// assert!(program.fast_path().all(|rule| rule.gate == GateKind::Texts));
/// ```
#[derive(Debug)]
pub struct Program {
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    /// All rules; the links of a chain follow their starter.
    pub(crate) rules: Vec<Rule>,
    /// The starters of each phase in the order written.
    pub(crate) phases: [Vec<RuleIndex>; 5],
    /// For each marker, the position in each phase's list at which evaluation goes on.
    pub(crate) markers: Vec<[u32; 5]>,
    /// The chains of transformations.
    pub(crate) lanes: Vec<Lane>,
    /// Tells which rules may match, by the texts they need.
    pub(crate) index: Indexes,
    /// Tell which of the other rules match.
    pub(crate) sieves: Vec<Arc<Sieve>>,
    /// What gates are asked about.
    pub(crate) cells: Vec<Cell>,
    /// What is looked at before the rules of each phase.
    pub(crate) plans: [PhasePlan; 5],
    /// The same without the rules whose outcome does not depend on the request.
    pub(crate) folded: Option<Folded>,
    /// What gates look at.
    pub(crate) sources: Vec<Source>,
    /// What is known of texts that came before.
    pub(crate) recall: Option<Recall>,
    /// The price of each text of which something may be known, in steps: see
    /// [`crate::transaction::Transaction::meet_texts`].
    pub(crate) known_text_steps: u64,
    /// The chains that need not run where they would leave nothing behind.
    pub(crate) unseen: UnseenChains,
    /// The rules of phase 2 that are left out while the request's body has not come; `None` where rules allow no
    /// verdict without it.
    pub(crate) unknown_before_body: Option<RuleSet>,
    /// Names of the members of `TX` that have a slot, in lower case.
    pub(crate) tx_names: Vec<Box<str>>,
    /// The slots of the named members, sorted by name: for names that come up at run time.
    pub(crate) tx_index: Vec<(Box<str>, TxSlot)>,
    /// The paths for which XML bodies are searched.
    pub(crate) xpaths: Vec<XPath>,
    /// The slots of `TX:0` to `TX:9`.
    pub(crate) captures: [TxSlot; Capture::GROUPS],
    /// Where scores are kept.
    pub(crate) scores: ScoreSlots,
    pub(crate) warnings: Vec<String>,
    pub(crate) hash: String,
    pub(crate) request_body_rules: bool,
    /// Whether a rule may switch from looking on to blocking (`ctl:ruleEngine=On`).
    pub(crate) may_switch_on: bool,
    pub(crate) names_remote_user: bool,
    pub(crate) response_rules: bool,
    pub(crate) response_body_rules: bool,
}

/// The members of `TX` in which CRS keeps its anomaly scores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreSlots {
    /// `blocking_inbound_anomaly_score` (CRS 4).
    pub(crate) inbound: TxSlot,
    /// `anomaly_score` (CRS 3).
    pub(crate) inbound_crs3: TxSlot,
    /// `blocking_outbound_anomaly_score` (CRS 4).
    pub(crate) outbound: TxSlot,
    /// `outbound_anomaly_score` (CRS 3).
    pub(crate) outbound_crs3: TxSlot,
}

/// One `SecRule` or `SecAction`.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Its own id; that of the starter for the links of a chain.
    pub(crate) id: RuleId,
    pub(crate) phase: Phase,
    /// How many links follow. 0 for a rule alone, and for links.
    pub(crate) links: u32,
    /// What is looked at. Empty for `SecAction`.
    pub(crate) targets: Box<[Target]>,
    pub(crate) lane: LaneId,
    /// What must be so for the rule to match; for starters only.
    pub(crate) gate: Gate,
    /// Whether it matches where its gate says so, and then does nothing but change the order of evaluation:
    /// most rules that choose a paranoia level.
    pub(crate) only_flows: bool,
    pub(crate) capture: bool,
    pub(crate) negated: bool,
    /// `None` for `SecAction`, which always matches.
    pub(crate) operator: Option<Operator>,
    /// What is done at each match, in the order written.
    pub(crate) on_match: Box<[MatchAction]>,
    /// What is done when the whole chain has matched; of the starter only.
    pub(crate) disruptive: Disruptive,
    pub(crate) flow: Flow,
    pub(crate) log: bool,
    pub(crate) audit_log: bool,
    pub(crate) meta: Meta,
}

/// A cheap test that can say "this rule cannot match".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nothing is known: the rule runs.
    #[default]
    Open,
    /// One of the cells must hold a value of which is not known that it does not match: see
    /// [`crate::recall`].
    Unknown { cells: Box<[CellId]> },
    /// One of the cells must hold a text that the rule needs.
    Texts { cells: Box<[CellId]> },
    /// One of the cells must hold one of these bytes.
    Bytes { bytes: ByteSet, cells: Box<[CellId]> },
    /// The sieve must name the pattern of this number in one of the cells.
    Sieve { sieve: u16, pattern: u8, cells: Box<[CellId]> },
    /// The operator, which costs little, must hold for the value of this scalar.
    Scalar { variable: Variable },
    /// A number in `TX` must compare so, or not so.
    Number { slot: TxSlot, comparison: Comparison, number: i64, negated: bool },
    /// The number of such members, 0 or 1, must compare so, or not so.
    Count { slot: TxSlot, comparison: Comparison, number: i64, negated: bool },
    /// The number of values of a source must compare so, or not so.
    Values { source: SourceId, comparison: Comparison, number: i64, negated: bool },
}

impl Rule {
    /// What [`Self::only_flows`] says.
    pub(crate) fn finds_only_flow(&self) -> bool {
        matches!(self.gate, Gate::Number { .. } | Gate::Count { .. } | Gate::Values { .. })
            && self.links == 0
            && self.on_match.is_empty()
            && !self.capture
            && !self.log
            && !self.audit_log
            && matches!(self.disruptive, Disruptive::Pass)
            && self.meta.severity.is_none()
    }
}

impl Gate {
    /// Where the values of each target are asked about.
    pub(crate) const fn cells(&self) -> Option<&[CellId]> {
        match self {
            Self::Unknown { cells }
            | Self::Texts { cells }
            | Self::Bytes { cells, .. }
            | Self::Sieve { cells, .. } => Some(cells),
            Self::Open
            | Self::Scalar { .. }
            | Self::Number { .. }
            | Self::Count { .. }
            | Self::Values { .. } => None,
        }
    }
}

/// A chain of transformations, and what is known of it.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) steps: Box<[Step]>,
    /// The bytes without which it changes nothing but case.
    pub(crate) triggers: ByteSet,
    /// Whether rules look at the value and each stage of it (`multiMatch`), not at the last alone.
    pub(crate) each_stage: bool,
    /// What the gates of its rules ask of a value.
    pub(crate) asks: Asks,
}

/// What the gates of a lane's rules ask of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    /// Bytes of the shortest text that one of them needs; 0 when one of them asks for anything else.
    pub(crate) text_min: usize,
    /// Whether one of them asks for bytes.
    pub(crate) bytes: bool,
}

impl Default for Asks {
    /// Nothing is asked.
    fn default() -> Self {
        Self { text_min: usize::MAX, bytes: false }
    }
}

impl Asks {
    /// A rule that needs texts, of which the shortest has so many bytes.
    pub(crate) fn add_text(&mut self, bytes: usize) {
        self.text_min = self.text_min.min(bytes);
    }

    pub(crate) fn add_bytes(&mut self) {
        *self = Self { text_min: 0, bytes: true };
    }

    pub(crate) fn add_pattern(&mut self) {
        self.text_min = 0;
    }
}

/// A transformation in a chain.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) transformation: Transformation,
    /// The bytes without which it changes nothing but case.
    pub(crate) triggers: ByteSet,
}

impl Lane {
    pub(crate) fn new(chain: &[Transformation], each_stage: bool) -> Self {
        let step = |&transformation: &Transformation| Step {
            transformation,
            triggers: transformation.triggers(),
        };
        let steps: Box<[Step]> = chain.iter().map(step).collect();
        let triggers = steps.iter().fold(ByteSet::EMPTY, |all, step| all.union(step.triggers));
        Self { steps, triggers, each_stage, asks: Asks::default() }
    }

    /// Whether some value passes it unchanged but for separators, and all of its rules ask for texts.
    pub(crate) fn is_told_by_stripped(&self) -> bool {
        (1..usize::MAX).contains(&self.asks.text_min) && self.keeps_stripped(Marks::default())
    }

    /// Whether what it makes of a value with these marks is the value itself, once both are stripped, but for case.
    pub(crate) fn keeps_stripped(&self, marks: Marks) -> bool {
        self.steps.iter().all(|step| step.transformation.keeps_stripped(marks))
    }

    /// Whether a value of so many bytes, at any stage, is too short for what the gates ask for.
    pub(crate) fn is_too_short(&self, bytes: usize) -> bool {
        bytes < self.asks.text_min && self.steps.iter().all(|step| !step.transformation.lengthens())
    }

    /// Whether it is that chain.
    pub(crate) fn is(&self, chain: &[Transformation], each_stage: bool) -> bool {
        self.each_stage == each_stage
            && self.steps.iter().map(|step| step.transformation).eq(chain.iter().copied())
    }
}

/// Position of a source in [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceId(pub(crate) u16);

/// Position of a cell in [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellId(pub(crate) u32);

impl CellId {
    pub(crate) fn from_usize(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Values that gates look at together: those of a variable, or of some of its members.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) variable: Variable,
    pub(crate) select: Select,
}

/// What a rule says about itself.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    pub(crate) msg: Option<Expression>,
    /// `msg` as written, for directives that select rules by it.
    pub(crate) msg_text: Arc<str>,
    pub(crate) logdata: Option<Expression>,
    pub(crate) severity: Option<u8>,
    pub(crate) tags: Vec<Arc<str>>,
    pub(crate) rev: Arc<str>,
    pub(crate) ver: Arc<str>,
    pub(crate) maturity: Option<u8>,
    pub(crate) accuracy: Option<u8>,
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
}

/// Which values of which variable.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) variable: Variable,
    pub(crate) select: Select,
    /// `&`: the number of values instead of the values.
    pub(crate) count: bool,
    /// Members that are left out.
    pub(crate) except: Vec<Select>,
}

impl Target {
    /// Whether a pattern that selects or excludes members needs back-tracking.
    pub(crate) fn backtracks(&self) -> bool {
        core::iter::once(&self.select).chain(&self.except).any(Select::backtracks)
    }
}

impl Select {
    /// Whether it is a pattern that needs back-tracking.
    pub(crate) const fn backtracks(&self) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.backtracks(),
            Self::All
            | Self::Key(_)
            | Self::Prefix(_)
            | Self::Slot(_)
            | Self::XmlText
            | Self::XmlAttributes
            | Self::XPath(_) => false,
        }
    }
}

/// Members of a collection.
#[derive(Clone, Debug)]
pub(crate) enum Select {
    /// All of them, or the one value of a scalar.
    All,
    /// Those of this name, in lower case; compared without regard to case.
    Key(Box<[u8]>),
    /// Those whose name matches.
    Pattern(NamePattern),
    /// Those whose name begins so, in lower case; compared without regard to case. A pattern that is
    /// no more than `^name`.
    Prefix(Box<[u8]>),
    /// The member of `TX` with a known place.
    Slot(TxSlot),
    /// `XML:/*`.
    XmlText,
    /// `XML://@*`.
    XmlAttributes,
    /// `XML:/a/b` and its like: what the body processor has found for this expression.
    XPath(Box<[u8]>),
}

/// An action that is done at each match.
#[derive(Clone, Debug)]
pub(crate) enum MatchAction {
    SetVar(SetVar),
    Ctl(Ctl),
    /// `initcol`: opens a persistent collection under a key.
    InitCol(Variable, Expression),
    /// `sanitiseArg` and its like: this member is not to be seen in logs.
    Sanitise(Variable, Expression),
    /// `sanitiseMatched`: nor is what has just matched.
    SanitiseMatched,
}

/// `setvar`.
#[derive(Clone, Debug)]
pub(crate) struct SetVar {
    /// `TX`, `ENV` or one of the persistent collections.
    pub(crate) collection: Variable,
    pub(crate) key: TxKey,
    pub(crate) change: Change,
}

/// The member that is meant.
#[derive(Clone, Debug)]
pub(crate) enum TxKey {
    Slot(TxSlot),
    /// The name has macros, or the collection no slots.
    Expression(Expression),
}

/// What becomes of it.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Set(Expression),
    Add(Expression),
    Subtract(Expression),
    Unset,
    /// `expirevar`: it goes after this many seconds. Of persistent collections only.
    ExpireAfter(Expression),
    /// `deprecatevar`: it loses `amount` each `period`. Of persistent collections only.
    Decay {
        amount: i64,
        period: core::time::Duration,
    },
}

/// `ctl`: a change of settings for the rest of this transaction.
#[derive(Clone, Debug)]
pub(crate) enum Ctl {
    RuleEngine(RuleEngine),
    AuditEngine(AuditEngine),
    AuditParts(PartsChange),
    /// One that is accepted and changes nothing.
    NoEffect,
    RequestBodyAccess(bool),
    ResponseBodyAccess(bool),
    ForceRequestBodyVariable(bool),
    RequestBodyProcessor(crate::body::Processor),
    RequestBodyLimit(usize),
    ResponseBodyLimit(usize),
    RemoveRules(RuleSet),
    RemoveTargets(RuleSet, Variable, Select),
}

/// What a rule does to the transaction.
#[derive(Clone, Debug, Default)]
pub(crate) enum Disruptive {
    #[default]
    Pass,
    Deny(u16),
    Drop,
    Redirect(u16, Expression),
    Allow(AllowScope),
}

/// How far `allow` reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowScope {
    /// The rest of the transaction but for logging.
    All,
    /// The rest of the current phase.
    Phase,
    /// The rest of the request phases.
    Request,
}

/// What a rule does to the order of evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flow {
    #[default]
    Next,
    /// `skip:N`.
    Skip(u32),
    /// `skipAfter:MARKER`, an index into the markers.
    SkipAfter(u32),
    /// `skipAfter` to a marker that does not exist: the rest of the phase.
    SkipPhase,
}

/// `SecRuleEngine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleEngine {
    /// Rules run and may block.
    On,
    /// Rules run and may not block.
    DetectionOnly,
    /// Rules do not run. The default of ModSecurity.
    #[default]
    Off,
}

/// `SecAuditEngine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditEngine {
    /// Every transaction has a record.
    On,
    /// No transaction has one.
    #[default]
    Off,
    /// Those with a matched rule that logs, or a relevant status.
    RelevantOnly,
}

impl Program {
    /// The number of rules, links of chains not counted.
    #[must_use]
    pub fn rule_count(&self) -> usize {
        self.phases.iter().map(Vec::len).sum()
    }

    /// Whether a request can be refused before its body has come:
    /// [`crate::Transaction::refuses_before_body`]. Not where a rule of phase 2 that looks at the body changes which
    /// other rules run (`ctl`, `skip`, `skipAfter`), or allows the request, nor where rules keep persistent
    /// collections.
    #[must_use]
    pub const fn can_refuse_before_body(&self) -> bool {
        self.unknown_before_body.is_some()
    }

    /// Where evaluation of a phase goes on behind a marker: rules from this index on.
    pub(crate) fn behind_marker(&self, marker: u32, phase: Phase) -> Option<usize> {
        let position = *self.markers.get(marker as usize)?.get(phase.index())? as usize;
        self.phases.get(phase.index())?.get(position).map(|rule| rule.get())
    }

    /// The slot of a member of `TX` whose name, in lower case, came up at run time.
    pub(crate) fn slot_of(&self, name: &[u8]) -> Option<TxSlot> {
        let found = self.tx_index.binary_search_by(|(known, _)| known.as_bytes().cmp(name)).ok()?;
        self.tx_index.get(found).map(|(_, slot)| *slot)
    }

    /// The same program with every gate of its fast path open, so that each rule is evaluated: slower, with
    /// the same answers. For tests of that.
    #[must_use]
    pub fn without_gates(mut self) -> Self {
        for rule in &mut self.rules {
            rule.gate = Gate::Open;
            rule.only_flows = false;
        }
        self.folded = None;
        self.recall = None;
        self.unseen = UnseenChains::default();
        let (rules, phases) = (&self.rules, &self.phases);
        self.plans =
            crate::plan::plans(rules, phases, phases, &self.markers, &self.cells, &self.lanes);
        self
    }

    /// The same program with nothing remembered of earlier transactions' texts: each costs what it costs when
    /// it comes for the first time. For tests and for measuring.
    #[must_use]
    pub fn without_recall(mut self) -> Self {
        self.recall = None;
        self
    }

    /// The same program with larger tables of the fast path, for hosts that evaluate many different texts and have the
    /// memory: `bytes` (4 MiB by default) for each of its automata and each transaction at work. No verdict changes.
    #[must_use]
    pub fn with_scan_tables(self, bytes: usize) -> Self {
        self.sieves.iter().for_each(|sieve| sieve.set_table_bytes_max(bytes));
        self
    }

    /// Whether a rule is run for all of its values once it may match one of them.
    pub(crate) fn runs_whole(&self, rule: RuleIndex) -> bool {
        self.unseen.rules.contains(rule)
    }

    /// The mode that `SecRuleEngine` set.
    #[must_use]
    pub const fn rule_engine(&self) -> RuleEngine {
        self.settings.rule_engine
    }

    /// The limits in force.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The SHA-1 of all that the program was built from, in hexadecimal: a name for it in logs.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// What was accepted though it has no effect here, with file and line.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether the rules may read `REMOTE_USER`, which not every host knows: they name it somewhere, be it in a comment.
    #[must_use]
    pub const fn names_remote_user(&self) -> bool {
        self.names_remote_user
    }

    /// Whether requests are compared with a description of the API.
    #[must_use]
    pub const fn describes_api(&self) -> bool {
        self.settings.api.is_some()
    }

    /// Whether any rule of any phase can look at a request body.
    #[must_use]
    pub const fn inspects_request_body(&self) -> bool {
        self.request_body_rules && self.settings.request_body_access
    }

    /// Whether any rule has to see the response's status and headers.
    #[must_use]
    pub const fn inspects_response(&self) -> bool {
        self.response_rules
    }

    /// Whether any rule looks at response bodies, and `SecResponseBodyAccess` is on.
    #[must_use]
    pub const fn inspects_response_body(&self) -> bool {
        self.response_body_rules && self.settings.response_body_access
    }
}

//! AST → program, in passes.
//!
//! 1. [`load`]: read the inputs, parse them, follow `Include`.
//! 2. [`collect`](Compiler::collect): apply settings, gather rules with the defaults then in force.
//! 3. [`updates`]: `SecRuleRemove…` and `SecRuleUpdate…`, on the gathered rules.
//! 4. [`lower`]: each rule to plain data; names become slots, lanes, sets; [`gates`] that can tell
//!    cheaply that it cannot match.
//! 5. [`Compiler::finish`]: order by phase, resolve markers, note what the program needs; [`placebo`] warns
//!    of what does nothing; [`fold`] and [`settle`] do beforehand what does not depend on the request, and
//!    [`unseen`] finds the chains that leave nothing behind; all three go by [`effects`], the one description
//!    of what a rule reads and writes. [`before_body`] finds the rules that may refuse a request whose body has
//!    not come.
//!
//! No pass stops at its first error: all that is wrong is reported together.

mod actions;
mod before_body;
mod effects;
mod fold;
mod gates;
mod load;
mod lower;
mod operators;
mod placebo;
mod settings_order;
mod settle;
mod targets;
mod unseen;
mod updates;

pub(crate) use actions::SEVERITIES;
pub(crate) use fold::Folded;
use fold::Foresight;
pub(crate) use unseen::{Unseen, UnseenChains};

use std::collections::HashMap;

use seclang::{Action, Directive, DirectiveKind, LineIndex, Operator, Snippet, Span, Target, Text};

use crate::{
    error::{BuildError, BuildErrors},
    id::{LaneId, Phase, RuleIndex, TxSlot},
    limits::Limits,
    parts::Parts,
    plan::{self, Cell},
    program::{Ctl, Lane, MatchAction, Program, Rule, RuleEngine, ScoreSlots},
    recall::Recall,
    scan::IndexBuilders,
    settings::{Settings, Treatment},
    source::{Input, Source},
    transform::Transformation,
    xpath::XPath,
};

/// Errors reported of one ruleset. The others are left out: more help nobody.
const ERRORS_MAX: usize = 100;

/// How the names of directives begin that a program writes for any ruleset: they are not warned of.
const GENERATED: &str = "glacis:";

/// Members of `TX` that rules can name. A ruleset that names more is refused.
const TX_SLOTS_MAX: usize = 16_384;

/// Chains of transformations, each counted once. A ruleset with more is refused.
const LANES_MAX: usize = 4_096;

impl Program {
    /// Compiles a ruleset.
    ///
    /// `limits` are those in force where the rules set none.
    ///
    /// # Errors
    /// Everything that is malformed, unknown or not supported, each with file, line and excerpt.
    ///
    /// ```
    /// use glacis_engine::{BuildErrors, Input, Limits, NoFiles, Program};
    ///
    /// let text = r#"SecRuleEngine On
    /// SecRule ARGZ "@rx a" "id:1,phase:1,deny"
    /// SecFoo On"#;
    /// let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// let refused: BuildErrors = Program::build(&rules, &NoFiles, Limits::default())
    ///     .expect_err("there is no variable ARGZ, and no directive SecFoo");
    /// // All that is wrong is told at once.
    /// let lines: Vec<u32> = refused.errors().iter().map(|error| error.line()).collect();
    /// assert_eq!(lines, [2, 3]);
    /// assert_eq!(refused.errors()[0].message(), "ARGZ: there is no such variable: did you mean ARGS?");
    /// // For people, with place, line and caret.
    /// assert!(refused.to_string().starts_with("own.conf:2:9: ARGZ: there is no such variable"));
    /// ```
    pub fn build(
        inputs: &[Input],
        source: &dyn Source,
        limits: Limits,
    ) -> Result<Self, BuildErrors> {
        Self::build_with(inputs, source, limits, &mut Parts::default())
    }

    /// As [`Self::build`]; what `parts` hold of earlier programs is not compiled again and not kept twice.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn build_with(
        inputs: &[Input],
        source: &dyn Source,
        limits: Limits,
        parts: &mut Parts,
    ) -> Result<Self, BuildErrors> {
        let mut compiler = Compiler::new(source, limits, parts);
        compiler.load(inputs);
        compiler.collect();
        compiler.apply_updates();
        compiler.finish()
    }

    /// Finds what is malformed, unknown or not supported in a ruleset, in a fraction of the time that [`Self::build`]
    /// takes: no automaton is built. A ruleset that passes may still be refused for the size of an automaton.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn check(inputs: &[Input], source: &dyn Source, limits: Limits) -> Result<(), BuildErrors> {
        let mut parts = Parts::default();
        let mut compiler = Compiler::new(source, limits, &mut parts);
        compiler.checks_only = true;
        compiler.load(inputs);
        compiler.collect();
        compiler.apply_updates();
        compiler.lower_rules();
        match compiler.errors.is_empty() {
            true => Ok(()),
            false => Err(BuildErrors::new(compiler.errors)),
        }
    }
}

/// A source text and what is needed to show places in it.
struct LoadedFile {
    name: std::sync::Arc<str>,
    text: String,
    lines: LineIndex,
}

/// A rule as gathered, before it is lowered.
struct Draft {
    id: u32,
    phase: Phase,
    span: Span,
    /// The draft that starts the chain this one belongs to: itself for a starter.
    starter: usize,
    targets: Vec<Target>,
    operator: Option<Operator>,
    /// The default actions of its phase, then its own.
    defaults: Vec<Action>,
    actions: Vec<Action>,
    removed: bool,
}

struct Compiler<'s> {
    source: &'s dyn Source,
    parts: &'s mut Parts,
    files: Vec<LoadedFile>,
    directives: Vec<Directive>,
    settings: Settings,
    limits: Limits,
    drafts: Vec<Draft>,
    ids: HashMap<u32, usize>,
    defaults: [Option<Vec<Action>>; 5],
    /// Markers by name, with the number of drafts that precede each.
    markers: Vec<(String, usize)>,
    tx_names: Vec<Box<str>>,
    tx_slots: HashMap<String, TxSlot>,
    lanes: Vec<Lane>,
    index: IndexBuilders,
    sources: Vec<crate::program::Source>,
    sieves: Vec<gates::SieveDraft>,
    cells: Vec<Cell>,
    xpaths: Vec<XPath>,
    errors: Vec<BuildError>,
    warnings: Vec<String>,
    digest: sha1::Sha1,
    /// Whether errors are all that is wanted, and no program: patterns and phrases are not compiled.
    checks_only: bool,
}

impl<'s> Compiler<'s> {
    fn new(source: &'s dyn Source, limits: Limits, parts: &'s mut Parts) -> Self {
        Self {
            source,
            parts,
            files: Vec::new(),
            directives: Vec::new(),
            settings: Settings::default(),
            limits,
            drafts: Vec::new(),
            ids: HashMap::new(),
            defaults: Default::default(),
            markers: Vec::new(),
            tx_names: Vec::new(),
            tx_slots: HashMap::new(),
            lanes: vec![Lane::default()],
            index: IndexBuilders::default(),
            sources: Vec::new(),
            sieves: Vec::new(),
            cells: Vec::new(),
            xpaths: Vec::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
            digest: sha1::Digest::new(),
            checks_only: false,
        }
    }

    fn error(&mut self, span: Span, message: &str) {
        let Some(file) = self.files.get(span.source.0 as usize) else { return };
        let rendered = Snippet::new(&file.name, &file.text, &file.lines, span, message).to_string();
        let (line, _) = file.lines.line_column(span.start);
        let order = (span.source.0 as usize, span.start);
        let error = BuildError::new(order, rendered, &file.name, line, message);
        self.keep_error(error);
    }

    fn keep_error(&mut self, error: BuildError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    fn warn(&mut self, span: Span, message: &str) {
        let Some(file) = self.files.get(span.source.0 as usize) else { return };
        if file.name.starts_with(GENERATED) {
            return;
        }
        let (line, _) = file.lines.line_column(span.start);
        self.warnings.push(format!("{}:{line}: {message}", file.name));
    }

    /// The place in `TX` of the member `name`.
    fn slot(&mut self, name: &str) -> Result<TxSlot, String> {
        let name = name.to_ascii_lowercase();
        if let Some(&slot) = self.tx_slots.get(&name) {
            return Ok(slot);
        }
        if self.tx_names.len() >= TX_SLOTS_MAX {
            return Err(format!("the rules name more than {TX_SLOTS_MAX} members of TX"));
        }
        let slot = TxSlot(u16::try_from(self.tx_names.len()).unwrap_or(u16::MAX));
        self.tx_names.push(name.clone().into());
        self.tx_slots.insert(name, slot);
        Ok(slot)
    }

    /// The lane of a chain of transformations.
    fn lane(&mut self, chain: &[Transformation], multi_match: bool) -> Result<LaneId, String> {
        let each_stage = multi_match && !chain.is_empty();
        let known = self.lanes.iter().position(|lane| lane.is(chain, each_stage));
        let index = known.unwrap_or(self.lanes.len());
        if index >= LANES_MAX {
            return Err(format!("the rules have more than {LANES_MAX} chains of transformations"));
        }
        if known.is_none() {
            self.lanes.push(Lane::new(chain, each_stage));
        }
        Ok(LaneId(u16::try_from(index).unwrap_or(u16::MAX)))
    }

    /// Pass 2: directives in their order.
    fn collect(&mut self) {
        let directives = core::mem::take(&mut self.directives);
        let mut open_chain = None;
        let mut source = None;
        for directive in &directives {
            let continues =
                matches!(directive.kind, DirectiveKind::Rule(_) | DirectiveKind::Action(_));
            let is_new_file = source.replace(directive.span.source) != Some(directive.span.source);
            if is_new_file && !is_link(directive) {
                open_chain.take().into_iter().for_each(|starter| self.close_chain(starter));
            }
            if !continues && let Some(starter) = open_chain.take() {
                self.broken_chain(starter);
            }
            match &directive.kind {
                DirectiveKind::Rule(rule) => {
                    open_chain = self.draft(
                        directive,
                        open_chain,
                        &rule.targets,
                        Some(&rule.operator),
                        &rule.actions,
                    );
                }
                DirectiveKind::Action(actions) => {
                    open_chain = self.draft(directive, open_chain, &[], None, actions);
                }
                DirectiveKind::DefaultAction(actions) => self.default_action(directive, actions),
                DirectiveKind::Marker(name) => {
                    self.markers.push((name.text.clone(), self.drafts.len()));
                }
                DirectiveKind::Setting(arguments) => self.setting(directive, arguments),
                _ => {}
            }
        }
        open_chain.into_iter().for_each(|starter| self.close_chain(starter));
        self.directives = directives;
    }

    /// Ends a chain that ends with its file: as in ModSecurity it never matches as a whole, so a link that matches
    /// nothing takes the place of the missing one.
    fn close_chain(&mut self, starter: usize) {
        let Some(draft) = self.drafts.get(starter) else { return };
        let Draft { id, phase, span, .. } = *draft;
        self.warn(
            span,
            "the chain is not finished at the end of the file: it never matches as a whole, and blocks nothing",
        );
        let text = |text: &str| Text { text: text.to_owned(), span };
        let operator = Operator { span, negated: false, name: text("noMatch"), argument: text("") };
        self.drafts.push(Draft {
            id,
            phase,
            span,
            starter,
            targets: Vec::new(),
            operator: Some(operator),
            defaults: Vec::new(),
            actions: Vec::new(),
            removed: false,
        });
    }

    fn broken_chain(&mut self, starter: usize) {
        if let Some(span) = self.drafts.get(starter).map(|draft| draft.span) {
            self.error(span, "the chain is not finished: a SecRule must follow the last `chain`");
        }
    }

    /// Gathers one rule. Returns the starter of the chain that the next rule continues, if any.
    fn draft(
        &mut self,
        directive: &Directive,
        chain: Option<usize>,
        targets: &[Target],
        operator: Option<&Operator>,
        actions: &[Action],
    ) -> Option<usize> {
        let index = self.drafts.len();
        let starter = chain.unwrap_or(index);
        let (id, phase) = match self.drafts.get(starter) {
            Some(starter) => (starter.id, starter.phase),
            None => (self.rule_id(directive, actions, index), self.rule_phase(actions)),
        };
        let defaults = self.defaults.get(phase.index()).cloned().flatten();
        self.drafts.push(Draft {
            id,
            phase,
            span: directive.span,
            starter,
            targets: targets.to_vec(),
            operator: operator.cloned(),
            defaults: defaults.unwrap_or_default(),
            actions: actions.to_vec(),
            removed: false,
        });
        let chained = actions.iter().any(|action| is(action, "chain"));
        chained.then_some(starter)
    }

    fn rule_id(&mut self, directive: &Directive, actions: &[Action], index: usize) -> u32 {
        let Some(action) = actions.iter().find(|action| is(action, "id")) else {
            // ModSecurity 3 asks rules for an id, and no SecAction.
            match directive.kind {
                DirectiveKind::Action(_) => self.warn(
                    directive.name.span,
                    "the SecAction has no id: logs name it 0, and nothing can remove it",
                ),
                _ => self.error(
                    directive.name.span,
                    "the rule has no id; write id:NUMBER among its actions",
                ),
            }
            return 0;
        };
        let id = value_text(action).parse::<u32>().unwrap_or(0);
        if id == 0 {
            self.error(action.span, "a rule id is a number from 1 to 4294967295");
        } else if let Some(first) = self.ids.insert(id, index).and_then(|at| self.drafts.get(at)) {
            let place = self.place(first.span);
            self.error(action.span, &format!("rule id {id} is already used at {place}"));
        }
        id
    }

    fn rule_phase(&mut self, actions: &[Action]) -> Phase {
        let Some(action) = actions.iter().rfind(|action| is(action, "phase")) else {
            return Phase::RequestBody;
        };
        Phase::from_name(value_text(action)).unwrap_or_else(|| {
            self.error(action.span, "a phase is 1 to 5, request, response or logging");
            Phase::RequestBody
        })
    }

    fn place(&self, span: Span) -> String {
        match self.files.get(span.source.0 as usize) {
            Some(file) => format!("{}:{}", file.name, file.lines.line_column(span.start).0),
            None => String::new(),
        }
    }

    fn default_action(&mut self, directive: &Directive, actions: &[Action]) {
        let phase = self.rule_phase(actions);
        // `block` would mean itself.
        if !actions.iter().any(|action| actions::is_disruptive(action) && !is(action, "block")) {
            self.error(
                directive.span,
                "SecDefaultAction must say what `block` means: add pass, deny, drop, allow or redirect",
            );
        }
        for action in actions {
            if ["id", "chain", "skip", "skipafter", "capture", "setvar", "ctl"]
                .iter()
                .any(|name| is(action, name))
            {
                let message = format!("SecDefaultAction cannot carry {}", action.name.text);
                self.error(action.span, &message);
            }
        }
        if let Some(slot) = self.defaults.get_mut(phase.index()) {
            *slot = Some(actions.to_vec());
        }
    }

    fn setting(&mut self, directive: &Directive, arguments: &[Text]) {
        let name = &directive.name;
        if name.text.eq_ignore_ascii_case("SecUnicodeMapFile") {
            if let Err(message) = self.unicode_map(directive, arguments) {
                self.error(directive.span, &message);
            }
            return;
        }
        if name.text.eq_ignore_ascii_case("SecGrpcDescriptorSet") {
            if let Err(message) = self.grpc_descriptors(directive, arguments) {
                self.error(directive.span, &message);
            }
            return;
        }
        if name.text.eq_ignore_ascii_case("SecOpenApiDocument") {
            if let Err(message) = self.openapi_document(directive, arguments) {
                self.error(directive.span, &message);
            }
            return;
        }
        match self.settings.apply(&mut self.limits, &name.text, arguments) {
            Ok(Treatment::Done) => {}
            Ok(Treatment::NoEffect(reason)) => {
                self.warn(name.span, &format!("{} has no effect: {reason}", name.text));
            }
            Err((argument, message)) => {
                let span =
                    argument.and_then(|at| arguments.get(at)).map_or(name.span, |text| text.span);
                self.error(span, &message);
            }
        }
    }

    /// Whether the rules name `REMOTE_USER` anywhere. Macros may read it in any action, so the texts are searched.
    fn names_remote_user(&self) -> bool {
        let names = |file: &LoadedFile| file.text.to_ascii_lowercase().contains("remote_user");
        self.files.iter().any(names)
    }

    /// Passes 4 and 5.
    fn finish(mut self) -> Result<Program, BuildErrors> {
        let scores = self.score_slots();
        let captures =
            core::array::from_fn(|group| self.slot(&group.to_string()).unwrap_or(TxSlot(u16::MAX)));
        let mut rules = self.lower_rules();
        let (phases, markers) = self.order();
        if !self.errors.is_empty() {
            return Err(BuildErrors::new(self.errors));
        }
        self.placebo(&rules, &phases, &markers);
        let sieves = self.build_sieves(&mut rules);
        let chains: Vec<_> = self.lanes.iter().map(Lane::is_told_by_stripped).collect();
        gates::open_where_removals_backtrack(&mut rules);
        let Foresight { folded, unseen, unknown_before_body } =
            self.foresee(&rules, &phases, &markers, &captures);
        gates::group_patterns(&rules, folded.as_ref().map(|folded| &folded.plans), &sieves);
        let looks_at_request_body = self.looks_at_request_body_later(&rules);
        let names_remote_user = self.names_remote_user();
        let response_body_rules = self.looks_at_response_body(&rules);
        let logs_response = self.logs_response(&rules);
        let recall = Recall::new(&rules);
        let mut tx_index: Vec<(Box<str>, TxSlot)> =
            self.tx_slots.into_iter().map(|(name, slot)| (name.into(), slot)).collect();
        tx_index.sort_unstable();
        let [_, body, response_headers, response_body, _] = &phases;
        Ok(Program {
            request_body_rules: !body.is_empty() || looks_at_request_body,
            may_switch_on: may_switch_on(&rules),
            names_remote_user,
            response_rules: !response_headers.is_empty()
                || !response_body.is_empty()
                || logs_response,
            response_body_rules,
            settings: self.settings,
            limits: self.limits,
            folded,
            plans: plan::plans(&rules, &phases, &phases, &markers, &self.cells, &self.lanes),
            rules,
            phases,
            markers,
            sieves,
            cells: self.cells,
            index: self.index.build(&chains, self.parts),
            lanes: self.lanes,
            sources: self.sources,
            known_text_steps: recall.as_ref().map_or(0, Recall::steps),
            recall,
            unseen,
            unknown_before_body,
            xpaths: self.xpaths,
            tx_names: self.tx_names,
            tx_index,
            captures,
            scores,
            warnings: self.warnings,
            hash: load::hexadecimal(sha1::Digest::finalize(self.digest).as_slice()),
        })
    }

    /// The starters of each phase in the order written, and where each marker stands among them.
    fn order(&self) -> ([Vec<RuleIndex>; 5], Vec<[u32; 5]>) {
        let mut phases: [Vec<RuleIndex>; 5] = Default::default();
        let mut markers = vec![[0; 5]; self.markers.len()];
        let mut next_marker = 0;
        for (index, draft) in self.drafts.iter().enumerate() {
            while self.markers.get(next_marker).is_some_and(|(_, before)| *before <= index) {
                mark(&mut markers, next_marker, &phases);
                next_marker += 1;
            }
            if draft.starter == index
                && !draft.removed
                && let Some(list) = phases.get_mut(draft.phase.index())
            {
                list.push(RuleIndex::from_usize(index));
            }
        }
        for marker in next_marker..self.markers.len() {
            mark(&mut markers, marker, &phases);
        }
        (phases, markers)
    }

    fn score_slots(&mut self) -> ScoreSlots {
        let mut slot = |name| self.slot(name).unwrap_or(TxSlot(0));
        ScoreSlots {
            inbound: slot("blocking_inbound_anomaly_score"),
            inbound_crs3: slot("anomaly_score"),
            outbound: slot("blocking_outbound_anomaly_score"),
            outbound_crs3: slot("outbound_anomaly_score"),
        }
    }
}

/// Whether one of the rules has `ctl:ruleEngine=On`.
fn may_switch_on(rules: &[Rule]) -> bool {
    let on =
        |action: &MatchAction| matches!(action, MatchAction::Ctl(Ctl::RuleEngine(RuleEngine::On)));
    rules.iter().any(|rule| rule.on_match.iter().any(on))
}

/// A marker stands, in each phase, before the rules that are yet to come.
fn mark(markers: &mut [[u32; 5]], marker: usize, phases: &[Vec<RuleIndex>; 5]) {
    if let Some(positions) = markers.get_mut(marker) {
        for (position, list) in positions.iter_mut().zip(phases) {
            *position = u32::try_from(list.len()).unwrap_or(u32::MAX);
        }
    }
}

/// Whether a directive may continue the chain of another file.
fn is_link(directive: &Directive) -> bool {
    let (DirectiveKind::Rule(seclang::Rule { actions, .. }) | DirectiveKind::Action(actions)) =
        &directive.kind
    else {
        return false;
    };
    !actions.iter().any(|action| is(action, "id"))
}

fn is(action: &Action, name: &str) -> bool {
    action.name.text.eq_ignore_ascii_case(name)
}

fn value_text(action: &Action) -> &str {
    action.value.as_ref().map_or("", |value| value.text.trim())
}

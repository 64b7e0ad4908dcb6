//! The syntax tree: plain values, every node with its [`Span`].
//!
//! The tree says what was written, not whether it makes sense: names of variables, operators,
//! transformations and actions are text here. What they mean, and whether they are known, is decided
//! by the engine that compiles the tree.

use crate::span::{Span, Text};

/// One directive of a source, in the order written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// From the first byte of the name to the last of the last argument.
    pub span: Span,
    /// The name as written, for example `SecRule`. SecLang compares it without regard to case.
    pub name: Text,
    /// What follows the name.
    pub kind: DirectiveKind,
}

/// The shapes a directive can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectiveKind {
    /// `SecRule TARGETS "OPERATOR" "ACTIONS"`.
    Rule(Rule),
    /// `SecAction "ACTIONS"`.
    Action(Vec<Action>),
    /// `SecDefaultAction "ACTIONS"`.
    DefaultAction(Vec<Action>),
    /// `SecMarker NAME`.
    Marker(Text),
    /// `Include PATH`; `optional` for `IncludeOptional`.
    Include {
        /// The path or glob pattern as written.
        path: Text,
        /// Whether a pattern that matches nothing is accepted.
        optional: bool,
    },
    /// `SecRuleRemoveById ID|FROM-TO …`.
    RemoveById(Vec<IdRange>),
    /// `SecRuleRemoveByTag PATTERN`.
    RemoveByTag(Text),
    /// `SecRuleRemoveByMsg PATTERN`.
    RemoveByMsg(Text),
    /// `SecRuleUpdateTargetById ID|FROM-TO TARGETS`.
    UpdateTargetById {
        /// The rules meant.
        ids: Vec<IdRange>,
        /// The targets to add (or, negated, to take away).
        targets: Vec<Target>,
    },
    /// `SecRuleUpdateTargetByTag PATTERN TARGETS`.
    UpdateTargetByTag {
        /// The rules meant: those with a tag that matches.
        pattern: Text,
        /// The targets to add (or, negated, to take away).
        targets: Vec<Target>,
    },
    /// `SecRuleUpdateTargetByMsg PATTERN TARGETS`.
    UpdateTargetByMsg {
        /// The rules meant: those whose message matches.
        pattern: Text,
        /// The targets to add (or, negated, to take away).
        targets: Vec<Target>,
    },
    /// `SecRuleUpdateActionById ID ACTIONS`; `offset` for `ID:N`, the Nth rule of a chain.
    UpdateActionById {
        /// The rule meant.
        id: IdRange,
        /// Which rule of the chain, the starter being 0.
        offset: u32,
        /// The actions to add or replace.
        actions: Vec<Action>,
    },
    /// Everything else: a name and its arguments, for example `SecRuleEngine On`.
    Setting(Vec<Text>),
}

/// A `SecRule`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What is looked at, in the order written. Never empty.
    pub targets: Vec<Target>,
    /// How it is looked at.
    pub operator: Operator,
    /// What is done on a match. Empty when the third argument is absent.
    pub actions: Vec<Action>,
}

/// One target of a rule, such as `&ARGS`, `!REQUEST_COOKIES:/__utm/` or `XML:/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The whole target.
    pub span: Span,
    /// `!`: not this.
    pub exclude: bool,
    /// `&`: how many there are.
    pub count: bool,
    /// The variable's name as written, for example `REQUEST_HEADERS`.
    pub variable: Text,
    /// What follows the colon.
    pub selector: Option<Selector>,
}

/// Which members of a collection a target means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `ARGS:name` or `ARGS:'name'`.
    Key(Text),
    /// `ARGS:/pattern/` or `ARGS:'/pattern/'`; `text` without the slashes.
    Pattern(Text),
}

/// The operator of a rule. A text without `@` means `rx`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The whole argument, without its quotes.
    pub span: Span,
    /// `!`: the rule matches when the operator does not.
    pub negated: bool,
    /// The name as written, without `@`; `rx` when none is written.
    pub name: Text,
    /// What follows the name, with surrounding white space removed.
    pub argument: Text,
}

/// One action, such as `deny`, `id:1` or `setvar:'tx.score=+%{tx.critical_anomaly_score}'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The whole action.
    pub span: Span,
    /// The name as written.
    pub name: Text,
    /// What follows the colon, without the quotes around it.
    pub value: Option<Text>,
}

/// One rule id, or an inclusive range of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// As written.
    pub span: Span,
    /// The first id.
    pub first: u32,
    /// The last id; equal to `first` for a single one.
    pub last: u32,
}

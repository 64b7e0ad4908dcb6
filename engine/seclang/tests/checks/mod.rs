//! What holds for every text, whatever it is.
#![allow(dead_code, reason = "not every test binary uses all of it")]

use std::fmt::Write as _;

use seclang::{
    Action, Directive, DirectiveKind, IdRange, Parse, Selector, SourceId, Span, Target, Text, parse,
};

/// A source number other than the default, so that a span made from nothing is noticed.
pub(crate) const SOURCE: SourceId = SourceId(7);

/// Parses, and checks the laws of the crate.
#[track_caller]
pub(crate) fn parse_lawfully(text: &str) -> Parse {
    let parse = parse(SOURCE, text);
    for error in &parse.errors {
        check_span(text, error.span);
        assert!(error.message.contains(':'), "what to write instead? {}", error.message);
    }
    let mut end = 0;
    for directive in &parse.directives {
        assert!(directive.span.start >= end, "directives overlap in {text:?}");
        end = directive.span.end;
        let nodes = nodes(directive);
        for node in &nodes {
            check_span(text, node.span);
            let inside = directive.span.start <= node.span.start
                && node.span.end <= directive.span.end.max(node.span.start);
            assert!(inside, "{node:?} is not inside of its directive in {text:?}");
            check_text(text, node);
        }
    }
    check_round_trip(&parse);
    parse
}

#[track_caller]
fn check_span(text: &str, span: Span) {
    assert_eq!(span.source, SOURCE);
    let written = text.get(span.start as usize..span.end as usize);
    assert!(written.is_some(), "{span:?} is no range of {text:?}");
}

/// A text without escapes, continuations and lines of a block is what stands in its span.
#[track_caller]
fn check_text(text: &str, node: &Node) {
    let Some(meant) = &node.text else { return };
    let written = &text[node.span.start as usize..node.span.end as usize];
    let is_resolved = written.contains(['\\', '\n']);
    let is_implicit = written.is_empty() && meant == "rx";
    assert!(is_resolved || is_implicit || written == meant, "{written:?} is {meant:?}");
}

#[track_caller]
fn check_round_trip(parsed: &Parse) {
    let printed = print(parsed);
    let again = parse(SOURCE, &printed);
    assert_eq!(again.errors, [], "the printed text is not SecLang:\n{printed}");
    assert_eq!(shape(&again), shape(parsed), "the printed text means something else:\n{printed}");
    assert_eq!(print(&again), printed);
}

pub(crate) fn print(parse: &Parse) -> String {
    parse.directives.iter().fold(String::new(), |text, directive| format!("{text}{directive}\n"))
}

/// The tree without spans, and without the case of the names of known directives.
fn shape(parse: &Parse) -> String {
    let mut shape = String::new();
    for directive in &parse.directives {
        let _ = writeln!(shape, "{:?}", std::mem::discriminant(&directive.kind));
        for node in nodes(directive).iter().skip(1) {
            let _ = writeln!(shape, "{} {:?}", node.label, node.text);
        }
    }
    shape
}

/// The tree with spans, one node a line.
pub(crate) fn dump(parse: &Parse) -> String {
    let mut dump = String::new();
    for directive in &parse.directives {
        let Span { start, end, .. } = directive.span;
        let _ = writeln!(dump, "directive {start}..{end}");
        for node in nodes(directive) {
            let Span { start, end, .. } = node.span;
            let text = node.text.map(|text| format!(" {text:?}")).unwrap_or_default();
            let _ = writeln!(dump, "  {}{text} {start}..{end}", node.label);
        }
    }
    dump
}

#[derive(Debug)]
struct Node {
    label: String,
    text: Option<String>,
    span: Span,
}

fn text_node(label: &str, text: &Text) -> Node {
    Node { label: label.to_owned(), text: Some(text.text.clone()), span: text.span }
}

fn nodes(directive: &Directive) -> Vec<Node> {
    let mut nodes = vec![text_node("name", &directive.name)];
    match &directive.kind {
        DirectiveKind::Rule(rule) => {
            nodes.extend(rule.targets.iter().flat_map(target_nodes));
            let label = format!("operator{}", if rule.operator.negated { " negated" } else { "" });
            nodes.push(Node { label, text: None, span: rule.operator.span });
            nodes.push(text_node("  name", &rule.operator.name));
            nodes.push(text_node("  argument", &rule.operator.argument));
            nodes.extend(rule.actions.iter().flat_map(action_nodes));
        }
        DirectiveKind::Action(actions) | DirectiveKind::DefaultAction(actions) => {
            nodes.extend(actions.iter().flat_map(action_nodes));
        }
        DirectiveKind::Marker(text) => nodes.push(text_node("marker", text)),
        DirectiveKind::Include { path, optional } => {
            nodes.push(text_node(if *optional { "optional path" } else { "path" }, path));
        }
        DirectiveKind::RemoveById(ids) => nodes.extend(ids.iter().map(id_node)),
        DirectiveKind::RemoveByTag(text) | DirectiveKind::RemoveByMsg(text) => {
            nodes.push(text_node("pattern", text));
        }
        DirectiveKind::UpdateTargetById { ids, targets } => {
            nodes.extend(ids.iter().map(id_node));
            nodes.extend(targets.iter().flat_map(target_nodes));
        }
        DirectiveKind::UpdateTargetByTag { pattern, targets }
        | DirectiveKind::UpdateTargetByMsg { pattern, targets } => {
            nodes.push(text_node("pattern", pattern));
            nodes.extend(targets.iter().flat_map(target_nodes));
        }
        DirectiveKind::UpdateActionById { id, offset, actions } => {
            nodes.push(id_node(id));
            nodes.push(Node { label: format!("offset {offset}"), text: None, span: id.span });
            nodes.extend(actions.iter().flat_map(action_nodes));
        }
        DirectiveKind::Setting(arguments) => {
            nodes.extend(arguments.iter().map(|text| text_node("argument", text)));
        }
    }
    nodes
}

fn target_nodes(target: &Target) -> Vec<Node> {
    let flag = |set: bool, label: &'static str| if set { label } else { "" };
    let label =
        format!("target{}{}", flag(target.exclude, " exclude"), flag(target.count, " count"));
    let mut nodes = vec![
        Node { label, text: None, span: target.span },
        text_node("  variable", &target.variable),
    ];
    nodes.extend(target.selector.as_ref().map(|selector| match selector {
        Selector::Key(text) => text_node("  key", text),
        Selector::Pattern(text) => text_node("  pattern", text),
    }));
    nodes
}

fn action_nodes(action: &Action) -> Vec<Node> {
    let mut nodes = vec![
        Node { label: "action".to_owned(), text: None, span: action.span },
        text_node("  name", &action.name),
    ];
    nodes.extend(action.value.as_ref().map(|value| text_node("  value", value)));
    nodes
}

fn id_node(id: &IdRange) -> Node {
    Node { label: format!("id {}-{}", id.first, id.last), text: None, span: id.span }
}

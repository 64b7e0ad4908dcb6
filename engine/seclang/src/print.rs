//! The tree as canonical SecLang.
//!
//! Law: printing a parsed tree and parsing the text gives the same tree, apart from spans. A tree
//! that was built by hand can hold what no SecLang can say, such as a target named `a b`; it is
//! printed as well as possible.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::ast::{Action, Directive, DirectiveKind, IdRange, Operator, Rule, Selector, Target};
use crate::traced::is_blank_char;

impl Display for Directive {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            DirectiveKind::Rule(rule) => write!(f, "SecRule {rule}"),
            DirectiveKind::Action(actions) => write!(f, "SecAction {}", action_list(actions)),
            DirectiveKind::DefaultAction(actions) => {
                write!(f, "SecDefaultAction {}", action_list(actions))
            }
            DirectiveKind::Marker(name) => write!(f, "SecMarker {}", quoted(&name.text)),
            DirectiveKind::Include { path, optional } => {
                let name = if *optional { "IncludeOptional" } else { "Include" };
                write!(f, "{name} {}", bare(&path.text))
            }
            DirectiveKind::RemoveById(ids) => write!(f, "SecRuleRemoveById {}", joined(ids, " ")),
            DirectiveKind::RemoveByTag(tag) => {
                write!(f, "SecRuleRemoveByTag {}", quoted(&tag.text))
            }
            DirectiveKind::RemoveByMsg(msg) => {
                write!(f, "SecRuleRemoveByMsg {}", quoted(&msg.text))
            }
            DirectiveKind::UpdateTargetById { ids, targets } => {
                let (ids, targets) = (bare(&joined(ids, " ")), quoted_list(targets, "|"));
                write!(f, "SecRuleUpdateTargetById {ids} {targets}")
            }
            DirectiveKind::UpdateTargetByTag { pattern, targets } => {
                let (pattern, targets) = (quoted(&pattern.text), quoted_list(targets, "|"));
                write!(f, "SecRuleUpdateTargetByTag {pattern} {targets}")
            }
            DirectiveKind::UpdateTargetByMsg { pattern, targets } => {
                let (pattern, targets) = (quoted(&pattern.text), quoted_list(targets, "|"));
                write!(f, "SecRuleUpdateTargetByMsg {pattern} {targets}")
            }
            DirectiveKind::UpdateActionById { id, offset, actions } => {
                write!(f, "SecRuleUpdateActionById {id}")?;
                if *offset != 0 {
                    write!(f, ":{offset}")?;
                }
                write!(f, " {}", action_list(actions))
            }
            DirectiveKind::Setting(arguments) => {
                f.write_str(&self.name.text)?;
                let Some((last, others)) = arguments.split_last() else { return Ok(()) };
                others.iter().try_for_each(|argument| write!(f, " {}", bare(&argument.text)))?;
                write!(f, " {}", bare_or_block(&last.text))
            }
        }
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let targets = joined(&self.targets, "|");
        let targets = if is_plain(&targets) { targets } else { quoted_list(&self.targets, "|") };
        write!(f, "{targets} {}", operator_argument(&self.operator))?;
        if self.actions.is_empty() {
            return Ok(());
        }
        write!(f, " {}", action_list(&self.actions))
    }
}

/// How much of a list is put in single quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// What a reader expects: values that are more than one word.
    Usual,
    /// Only what has another meaning without them. Quotes in quotes cannot always be written.
    Fewest,
}

/// A member of a list that is one argument of a directive.
trait Member: Display {
    fn write(&self, text: &mut String, quotes: Quotes) -> fmt::Result;
}

/// A list as an argument in quotes.
fn quoted_list(members: &[impl Member], separator: &str) -> String {
    let list = |quotes| {
        let mut text = String::new();
        for (i, member) in members.iter().enumerate() {
            text.push_str(if i == 0 { "" } else { separator });
            // Writing to a string does not fail.
            let _ = member.write(&mut text, quotes);
        }
        ending_in_blank(text)
    };
    in_quotes(&list(Quotes::Usual))
        .or_else(|| in_quotes(&list(Quotes::Fewest)))
        .unwrap_or_else(|| list(Quotes::Fewest))
}

fn display(member: &impl Member, f: &mut Formatter<'_>) -> fmt::Result {
    let mut text = String::new();
    member.write(&mut text, Quotes::Usual)?;
    f.write_str(&text)
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        display(self, f)
    }
}

impl Member for Target {
    fn write(&self, text: &mut String, quotes: Quotes) -> fmt::Result {
        text.push_str(if self.exclude { "!" } else { "" });
        text.push_str(if self.count { "&" } else { "" });
        text.push_str(&self.variable.text);
        match &self.selector {
            None => Ok(()),
            Some(Selector::Pattern(pattern)) => {
                write!(text, ":/{}/", pattern.text.replace('/', "\\/"))
            }
            Some(Selector::Key(key)) => {
                let is_xpath = self.variable.text.eq_ignore_ascii_case("XML");
                write!(text, ":{}", selector_key(&key.text, is_xpath, quotes))
            }
        }
    }
}

fn selector_key(key: &str, is_xpath: bool, quotes: Quotes) -> String {
    let can_be_bare = !key.is_empty()
        && !key.starts_with('\'')
        && (is_xpath || !key.starts_with('/'))
        && !key.contains(['|', ',', '"'])
        && key.trim_matches(is_blank_char) == key;
    let is_usual = quotes == Quotes::Fewest || !key.contains(is_blank_char);
    in_single_quotes_unless(can_be_bare && is_usual, key)
}

/// `text` in single quotes if they are needed and can be written.
fn in_single_quotes_unless(is_plain: bool, text: &str) -> String {
    match escaped(text, '\'') {
        Some(quoted) if !is_plain => quoted,
        _ => text.to_owned(),
    }
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.negated { "!" } else { "" })?;
        write!(f, "@{}", self.name.text)?;
        if self.argument.text.is_empty() {
            return Ok(());
        }
        write!(f, " {}", self.argument.text)
    }
}

/// The operator in quotes.
fn operator_argument(operator: &Operator) -> String {
    let text = ending_in_blank(operator.to_string());
    if let Some(quoted) = in_quotes(&text) {
        return quoted;
    }
    // Only an argument without quotes can have been this, and it has no name written.
    let negation = if operator.negated { "!" } else { "" };
    format!("{negation}{}", operator.argument.text)
}

impl Display for Action {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        display(self, f)
    }
}

impl Member for Action {
    fn write(&self, text: &mut String, quotes: Quotes) -> fmt::Result {
        text.push_str(&self.name.text);
        let Some(value) = &self.value else { return Ok(()) };
        write!(text, ":{}", action_value(&value.text, quotes))
    }
}

fn action_value(value: &str, quotes: Quotes) -> String {
    let can_be_bare = !value.is_empty()
        && !value.starts_with('\'')
        && !value.contains(',')
        && value.trim_matches(is_blank_char) == value;
    let is_one_word = !value.contains(|c: char| c == '\\' || is_blank_char(c));
    in_single_quotes_unless(can_be_bare && (quotes == Quotes::Fewest || is_one_word), value)
}

fn action_list(actions: &[Action]) -> String {
    quoted_list(actions, ",")
}

impl Display for IdRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

fn joined(items: &[impl Display], separator: &str) -> String {
    let mut text = String::new();
    for (i, item) in items.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{item}", if i == 0 { "" } else { separator });
    }
    text
}

/// A last backslash would escape the closing quote, unless another one escapes it; white space
/// after it changes nothing where the text is trimmed when it is read.
fn ending_in_blank(mut text: String) -> String {
    let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if backslashes % 2 == 1 {
        text.push(' ');
    }
    text
}

/// An argument, without quotes if that is possible.
fn bare(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

fn is_plain(text: &str) -> bool {
    can_be_bare(text) && !text.contains('"') && !text.ends_with('\\')
}

fn can_be_bare(text: &str) -> bool {
    !text.is_empty() && !text.starts_with(['"', '\'', '`']) && !text.contains(is_blank_char)
}

/// The last argument of a setting, the only one that can be a block.
fn bare_or_block(text: &str) -> String {
    let fits_a_line = !text.contains('\n')
        && ((can_be_bare(text) && !text.ends_with('\\')) || in_quotes(text).is_some());
    if fits_a_line { bare(text) } else { format!("`\n{text}\n`") }
}

/// An argument in double quotes, or in the first other form that can say it.
fn quoted(text: &str) -> String {
    in_quotes(text).unwrap_or_else(|| text.to_owned())
}

fn in_quotes(text: &str) -> Option<String> {
    let in_backticks = || (!text.contains('`')).then(|| format!("`{text}`"));
    escaped(text, '"').or_else(|| escaped(text, '\'')).or_else(in_backticks)
}

/// `text` in quotes, those inside escaped. A quote that follows an odd number of backslashes
/// cannot be written, nor can an odd number of them at the end: both would be read as an escape.
fn escaped(text: &str, quote: char) -> Option<String> {
    let mut escaped = String::with_capacity(text.len() + 2);
    escaped.push(quote);
    let mut after_odd_backslashes = false;
    for character in text.chars() {
        if character == quote {
            if after_odd_backslashes {
                return None;
            }
            escaped.push('\\');
        }
        escaped.push(character);
        after_odd_backslashes = character == '\\' && !after_odd_backslashes;
    }
    escaped.push(quote);
    (!after_odd_backslashes).then_some(escaped)
}

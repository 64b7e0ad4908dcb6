//! The explanation as a page of plain text.

use std::fmt::{self, Write as _};

use glacis_second_opinion::Opinion;

use crate::{
    Explanation,
    exclusion::Exclusion,
    story::{Refused, RuleStory, ScoreChange, Story, Text, ValueStory},
};

/// Characters of a value that are shown.
const SHOWN_MAX: usize = 200;

/// Values of one rule that are shown.
const VALUES_MAX: usize = 16;

/// The whole page.
pub(crate) fn page(explanation: &Explanation) -> String {
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = write_page(&mut out, explanation);
    out
}

fn write_page(out: &mut String, explanation: &Explanation) -> fmt::Result {
    let story = &explanation.story;
    writeln!(out, "{}  {}", shown(explanation.id.get()), shown(&story.request))?;
    for note in &explanation.notes {
        writeln!(out, "note: {}", shown(note))?;
    }
    writeln!(out, "{}", outcome(story))?;
    write_rules(out, story)?;
    write_scores(out, story)?;
    if let Some(opinion) = &explanation.second_opinion {
        write_opinion(out, opinion)?;
    }
    if let Some(exclusion) = &explanation.exclusion {
        write_exclusion(out, exclusion)?;
    }
    Ok(())
}

fn outcome(story: &Story) -> String {
    let by = |refused: &Refused| match refused.rule {
        Some(rule) => format!("rule {rule}"),
        None => "a limit of the engine".to_owned(),
    };
    match &story.refusal {
        None => format!("It passes (SecRuleEngine {}).", story.mode),
        Some(refused) if refused.enforced => format!(
            "It is refused by {} in phase {}: {}, status {}.",
            by(refused),
            refused.phase,
            refused.action,
            refused.status
        ),
        Some(refused) => format!(
            "It passes, as SecRuleEngine is {}; {} would refuse it in phase {}: {}, status {}.",
            story.mode,
            by(refused),
            refused.phase,
            refused.action,
            refused.status
        ),
    }
}

fn write_rules(out: &mut String, story: &Story) -> fmt::Result {
    writeln!(out, "\nMatched rules")?;
    let (kept, collapsed): (Vec<_>, Vec<_>) =
        story.rules.iter().partition(|rule| !story.is_collapsed(rule));
    if kept.is_empty() {
        writeln!(out, "  none that logs or changes a score")?;
    }
    for rule in kept {
        let refuses = story.refusal.as_ref().is_some_and(|refused| refused.rule == Some(rule.id));
        write_rule(out, rule, refuses)?;
    }
    let count = story.rules_left_out + collapsed.len();
    if count > 0 {
        let ids: Vec<String> = collapsed.iter().map(|rule| rule.id.to_string()).collect();
        let named =
            if ids.is_empty() { String::new() } else { format!(", such as {}", ids.join(" ")) };
        writeln!(out, "  bookkeeping rules not shown: {count}{named} (--all shows them)")?;
    }
    if story.cut {
        writeln!(out, "  and more: the limit of what is recorded was reached")?;
    }
    Ok(())
}

fn write_rule(out: &mut String, rule: &RuleStory, refuses: bool) -> fmt::Result {
    let mark = match (refuses, rule.complete) {
        (true, _) => "  <- refuses",
        (false, true) if rule.excludes => "  (takes rules or targets away)",
        (false, true) => "",
        (false, false) => "  (its chain did not match to the end)",
    };
    writeln!(out, "  {}  phase {}  {}:{}{mark}", rule.id, rule.phase, rule.file, rule.line)?;
    if !rule.msg.is_empty() {
        writeln!(out, "    msg      {}", shown(&rule.msg))?;
    }
    if !rule.logdata.is_empty() {
        writeln!(out, "    logdata  {}", shown(&rule.logdata))?;
    }
    for value in rule.matches.iter().take(VALUES_MAX) {
        write_value(out, value)?;
    }
    if let Some(more) = rule.matches.len().checked_sub(VALUES_MAX).filter(|&more| more > 0) {
        writeln!(out, "    and {more} more values")?;
    }
    Ok(())
}

fn write_value(out: &mut String, value: &ValueStory) -> fmt::Result {
    let link = if value.link > 0 { format!(" (link {})", value.link) } else { String::new() };
    writeln!(out, "    {}{link}", shown(&value.variable))?;
    writeln!(out, "      {:<16} {}", "value", cut(&value.value))?;
    for stage in &value.transformed {
        let name = format!("t:{}", stage.transformation);
        writeln!(out, "      {name:<16} {}", cut(&stage.value))?;
    }
    let parameter = value.parameter.as_ref().map(|text| format!(" {}", cut(text)));
    write!(out, "      {}{}", value.operator, parameter.unwrap_or_default())?;
    if !value.fingerprint.is_empty() {
        write!(out, ": fingerprint {}", shown(&value.fingerprint))?;
    }
    for found in &value.found {
        let what = match found.group {
            0 => ":".to_owned(),
            group => format!(", group {group}:"),
        };
        write!(out, "{what} bytes {}..{} {}", found.start, found.end, cut(&found.text))?;
    }
    writeln!(out)
}

/// The scores as sums, a line for each member of `TX`. With bookkeeping, each change.
fn write_scores(out: &mut String, story: &Story) -> fmt::Result {
    if story.scores.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nScores")?;
    let is_collapsed = |change: &ScoreChange| {
        let mut rules = story.rules.iter();
        rules.any(|rule| rule.id == change.rule && story.is_collapsed(rule))
    };
    let shown_changes: Vec<&ScoreChange> =
        story.scores.iter().filter(|change| !is_collapsed(change)).collect();
    let mut members: Vec<&str> = Vec::new();
    for change in &shown_changes {
        if !members.contains(&change.member.as_str()) {
            members.push(&change.member);
        }
    }
    let width = members.iter().map(|member| member.len()).max().unwrap_or_default();
    for member in members {
        let of_member = shown_changes.iter().filter(|change| change.member == member);
        let (mut sum, mut from, mut to) = (String::new(), None, 0);
        for change in of_member {
            let by = change.to.saturating_sub(change.from);
            from.get_or_insert(change.from);
            to = change.to;
            write!(sum, "  {by:+} ({})", change.rule)?;
        }
        let from = from.unwrap_or_default();
        let begin = if from == 0 { String::new() } else { format!("{from} ") };
        writeln!(out, "  tx.{:<width$}  {begin}{} = {to}", shown(member), sum.trim_start())?;
    }
    for threshold in &story.thresholds {
        writeln!(out, "  threshold of {}: {}", shown(&threshold.member), threshold.value)?;
    }
    Ok(())
}

fn write_opinion(out: &mut String, opinion: &Opinion) -> fmt::Result {
    let word = if opinion.is_attack() { "attack" } else { "no attack" };
    let [score, threshold] = [opinion.score, opinion.threshold].map(|it| f64::from(it) / 1_000.0);
    writeln!(out, "\nSecond opinion")?;
    writeln!(out, "  {word}: {score} points, threshold {threshold}")?;
    if !opinion.reasons.is_empty() {
        let value = if opinion.value.is_empty() { "the whole request" } else { &opinion.value };
        writeln!(out, "  {}: {}", shown(value), opinion.sum())?;
    }
    Ok(())
}

fn write_exclusion(out: &mut String, exclusion: &Exclusion) -> fmt::Result {
    writeln!(out, "\nWhat would let it pass")?;
    for remark in &exclusion.remarks {
        writeln!(out, "  {remark}")?;
    }
    for way in exclusion.everywhere.iter().chain(&exclusion.on_this_path) {
        let tried = match (way.passes, &way.fault) {
            (true, _) => "Tried: the request passes.".to_owned(),
            (false, Some(fault)) => format!("Tried: {fault}"),
            (false, None) => "Tried: the request is still refused.".to_owned(),
        };
        writeln!(out, "  {} {tried}", way.place)?;
        for line in way.directives.lines() {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

fn cut(text: &Text) -> String {
    let mut line = shown(&text.text);
    if let Some(length) = text.length {
        let _ = write!(line, " (of {length} bytes)");
    }
    line
}

/// A text on one line, without what could command a terminal or reorder the line.
fn shown(text: &str) -> String {
    let mut line = String::new();
    for (at, character) in text.chars().enumerate() {
        if at >= SHOWN_MAX {
            line.push('…');
            break;
        }
        let directs = matches!(
            character,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        );
        if character.is_control() || directs {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use crate::{
        Explanation,
        story::{ScoreChange, Story},
    };

    /// Wherever it stands: names of requests, too, are what somebody else has sent.
    #[test]
    fn what_commands_a_terminal_is_escaped() {
        for text in ["\u{7f}", "\u{9b}2J", "\u{61c}", "\u{202e}", "\u{2066}"] {
            let change = ScoreChange { rule: 1, member: format!("{text}_score"), from: 0, to: 1 };
            let story = Story {
                request: format!("GET /{text} HTTP/1.1"),
                mode: "On",
                refusal: None,
                rules: Vec::new(),
                rules_left_out: 0,
                scores: vec![change],
                thresholds: Vec::new(),
                cut: false,
                all: false,
            };
            let id = RawValue::from_string(format!("\"{text}\"")).unwrap();
            let notes = vec![text.to_owned()];
            let page =
                Explanation { id, story, second_opinion: None, notes, exclusion: None }.text();
            assert_eq!(page.matches("\\u{").count(), 4, "{page}");
            assert!(!page.contains(text), "{}", page.escape_unicode());
        }
    }
}

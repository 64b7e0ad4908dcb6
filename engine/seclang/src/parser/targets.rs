//! `TARGET|TARGET…`, the first argument of a rule.

use super::cursor::{Cursor, unescaped};
use crate::ast::{Selector, Target};
use crate::error::SyntaxError;
use crate::span::Text;
use crate::traced::{Traced, is_blank, trimmed};

/// Reads a list of targets. ModSecurity separates them by `|`, and by `,` too; neither separates
/// inside of `/…/` and `'…'`. Never empty.
pub(super) fn targets(argument: &Traced) -> Result<Vec<Target>, SyntaxError> {
    let mut cursor = Cursor::new(argument);
    let mut found = Vec::new();
    loop {
        found.push(target(&mut cursor)?);
        if cursor.peek().is_none() {
            return Ok(found);
        }
        if !cursor.eat(b'|') && !cursor.eat(b',') {
            return Err(unexpected(&cursor));
        }
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'|' | b',')
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn target(cursor: &mut Cursor<'_>) -> Result<Target, SyntaxError> {
    cursor.skip_blank();
    let start = cursor.at;
    let mut exclude = false;
    let mut count = false;
    loop {
        if !exclude && cursor.eat(b'!') {
            exclude = true;
        } else if !count && cursor.eat(b'&') {
            count = true;
        } else {
            break;
        }
    }
    let variable = cursor.take_while(is_name);
    if variable.is_empty() {
        return Err(no_variable(cursor, start));
    }
    let variable = cursor.text.text(variable);
    let selector = if cursor.eat(b':') { Some(selector(cursor, &variable.text)?) } else { None };
    let span = cursor.text.span(start..cursor.at);
    cursor.skip_blank();
    Ok(Target { span, exclude, count, variable, selector })
}

fn no_variable(cursor: &Cursor<'_>, start: usize) -> SyntaxError {
    match cursor.peek() {
        Some(byte) if !is_separator(byte) => cursor.error(
            cursor.character(),
            "the name of a variable, such as ARGS, is expected here: write `!` and `&` once and \
             before it",
        ),
        _ => cursor.error(
            start..cursor.at,
            "a target is missing here: write a variable such as ARGS, or remove the separator",
        ),
    }
}

fn unexpected(cursor: &Cursor<'_>) -> SyntaxError {
    let message = match cursor.peek() {
        Some(b'.') => "a member of a collection is selected with a colon: write `ARGS:name`",
        _ => {
            "the target should end here: separate targets by `|`, and write a selector with other \
             characters in single quotes, as in `ARGS:'a|b'`"
        }
    };
    cursor.error(cursor.character(), message)
}

fn selector(cursor: &mut Cursor<'_>, variable: &str) -> Result<Selector, SyntaxError> {
    // For XML the selector is an XPath, and those begin with a slash.
    let is_xpath = variable.eq_ignore_ascii_case("XML");
    cursor.skip_blank();
    match cursor.peek() {
        Some(b'\'') => quoted(cursor, is_xpath),
        Some(b'/') if !is_xpath => pattern(cursor),
        _ => key(cursor).map(Selector::Key),
    }
}

fn key(cursor: &mut Cursor<'_>) -> Result<Text, SyntaxError> {
    let written = cursor.take_while(|byte| !is_separator(byte));
    let key = trimmed(cursor.text.as_str(), written);
    cursor.at = key.end;
    if key.is_empty() {
        return Err(cursor.error(
            key,
            "a selector is missing after the colon: write `ARGS:name`, or no colon for all members",
        ));
    }
    let text = cursor.text.text(key.clone());
    if let Some(at) = text.text.find('"') {
        return Err(cursor.error(
            key.start + at..key.start + at + 1,
            "a double quote stands in a selector: quote a selector with single quotes",
        ));
    }
    Ok(text)
}

/// `/pattern/`, up to the next slash that is not escaped.
fn pattern(cursor: &mut Cursor<'_>) -> Result<Selector, SyntaxError> {
    let start = cursor.at;
    cursor.at += 1;
    let Some(pattern) = cursor.take_quoted(b'/') else {
        return Err(cursor.error(
            start..cursor.text.len(),
            "the pattern is not closed: end it with `/`, put the targets in double quotes if it has \
             white space, and write a name that begins with a slash as `ARGS:'/name'`",
        ));
    };
    if cursor.peek().is_some_and(|byte| !is_separator(byte) && !is_blank(byte)) {
        return Err(cursor.error(
            cursor.character(),
            "text follows the slash that ends the pattern: write `\\/` for a slash inside it",
        ));
    }
    non_empty(cursor, start, pattern)
}

fn non_empty(cursor: &Cursor<'_>, start: usize, pattern: Text) -> Result<Selector, SyntaxError> {
    if pattern.text.is_empty() {
        return Err(cursor.error(
            start..cursor.at,
            "the pattern is empty: write one, or no selector for all members",
        ));
    }
    Ok(Selector::Pattern(pattern))
}

/// `'name'` or `'/pattern/'`.
fn quoted(cursor: &mut Cursor<'_>, is_xpath: bool) -> Result<Selector, SyntaxError> {
    let start = cursor.at;
    cursor.at += 1;
    let Some(text) = cursor.take_quoted(b'\'') else {
        return Err(cursor.error(
            start..cursor.text.len(),
            "the single quote is not closed: end the selector with `'`, and put the targets in \
             double quotes if it has white space",
        ));
    };
    match pattern_between_slashes(&text.text).filter(|_| !is_xpath) {
        Some(pattern) => {
            let pattern = unescaped(pattern, '/');
            let mut span = text.span;
            span.start += 1;
            span.end -= 1;
            non_empty(cursor, start, Text { text: pattern, span })
        }
        None => Ok(Selector::Key(text)),
    }
}

/// What stands between the slashes, if the last one is not escaped.
fn pattern_between_slashes(text: &str) -> Option<&str> {
    let pattern = text.strip_prefix('/')?.strip_suffix('/')?;
    let backslashes = pattern.bytes().rev().take_while(|byte| *byte == b'\\').count();
    (backslashes % 2 == 0).then_some(pattern)
}

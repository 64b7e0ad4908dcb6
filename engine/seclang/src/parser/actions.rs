//! `name,name:value,name:'value'`, the last argument of a rule.

use std::ops::Range;

use super::cursor::Cursor;
use crate::ast::Action;
use crate::error::SyntaxError;
use crate::span::Text;
use crate::traced::{Traced, is_blank, trimmed};

/// Reads a list of actions. An argument that is empty or white space has none.
pub(super) fn actions(argument: &Traced) -> Result<Vec<Action>, SyntaxError> {
    let mut cursor = Cursor::new(argument);
    let mut found = Vec::new();
    cursor.skip_blank();
    if cursor.peek().is_none() {
        return Ok(found);
    }
    loop {
        found.push(action(&mut cursor)?);
        if !cursor.eat(b',') {
            return Ok(found);
        }
    }
}

/// [`actions`] where there must be one.
pub(super) fn non_empty(argument: &Traced) -> Result<Vec<Action>, SyntaxError> {
    let found = actions(argument)?;
    if found.is_empty() {
        return Err(SyntaxError::new(
            argument.span(argument.whole()),
            "the list of actions is empty: write at least one, such as `phase:1`",
        ));
    }
    Ok(found)
}

/// One action, and the white space around it.
fn action(cursor: &mut Cursor<'_>) -> Result<Action, SyntaxError> {
    cursor.skip_blank();
    let name = cursor.take_while(|byte| !matches!(byte, b':' | b','));
    let name = trimmed(cursor.text.as_str(), name);
    expect_name(cursor, name.clone())?;
    let mut end = name.end;
    let value = if cursor.eat(b':') {
        let value = value(cursor)?;
        end = value.1;
        Some(value.0)
    } else {
        None
    };
    Ok(Action { span: cursor.text.span(name.start..end), name: cursor.text.text(name), value })
}

fn expect_name(cursor: &Cursor<'_>, name: Range<usize>) -> Result<(), SyntaxError> {
    let text = cursor.text.as_str().get(name.clone()).unwrap_or_default();
    if text.is_empty() {
        return Err(cursor
            .error(name, "the name of an action is missing here: write one, or remove the comma"));
    }
    if text.bytes().any(is_blank) {
        return Err(cursor.error(
            name,
            "the name of an action has no white space: separate actions by commas, and put a value \
             that has commas in single quotes",
        ));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !text.bytes().all(is_name) {
        return Err(cursor.error(
            name,
            "this is not the name of an action: names have letters and digits only; put a value \
             that has commas in single quotes",
        ));
    }
    Ok(())
}

/// The value after a colon, and where it ends in the argument. The position is then before a
/// comma or at the end.
fn value(cursor: &mut Cursor<'_>) -> Result<(Text, usize), SyntaxError> {
    cursor.skip_blank();
    if cursor.peek() == Some(b'\'') {
        return quoted(cursor);
    }
    let written = cursor.take_while(|byte| byte != b',');
    let value = trimmed(cursor.text.as_str(), written);
    Ok((cursor.text.text(value.clone()), value.end))
}

fn quoted(cursor: &mut Cursor<'_>) -> Result<(Text, usize), SyntaxError> {
    let start = cursor.at;
    cursor.at += 1;
    let Some(text) = cursor.take_quoted(b'\'') else {
        return Err(cursor.error(
            start..cursor.text.len(),
            "the single quote is not closed: end the value with `'`, and write `\\'` for a quote \
             inside it",
        ));
    };
    let end = cursor.at;
    cursor.skip_blank();
    if cursor.peek().is_some_and(|byte| byte != b',') {
        return Err(cursor.error(
            cursor.character(),
            "text follows the quote that ends the value: write a comma before the next action, and \
             `\\'` for a quote inside the value",
        ));
    }
    Ok((text, end))
}

//! Rule ids: `1`, `1-5`, `"1 2 3-5"`.

use std::ops::Range;

use super::cursor::Cursor;
use crate::ast::IdRange;
use crate::error::SyntaxError;
use crate::lexer::Argument;
use crate::span::Span;
use crate::traced::{Traced, is_blank, trimmed};

/// Whether an argument is meant as ids rather than as targets.
pub(super) fn begins_id(argument: &Traced) -> bool {
    argument.as_str().bytes().find(|byte| !is_blank(*byte)).is_some_and(|b| b.is_ascii_digit())
}

/// Reads the ids of several arguments, each of which has one or more of them, separated by white
/// space.
pub(super) fn lists(arguments: &[Argument]) -> Result<Vec<IdRange>, SyntaxError> {
    let mut found = Vec::new();
    for argument in arguments {
        let mut cursor = Cursor::new(&argument.text);
        cursor.skip_blank();
        if cursor.peek().is_none() {
            return Err(SyntaxError::new(
                argument.span,
                "a rule id is missing here: write a number, or a range such as 1000-1999",
            ));
        }
        while cursor.peek().is_some() {
            let written = cursor.take_while(|byte| !is_blank(byte));
            found.push(range(&argument.text, written)?);
            cursor.skip_blank();
        }
    }
    Ok(found)
}

/// Reads `ID` or `ID:OFFSET`.
pub(super) fn with_offset(argument: &Traced) -> Result<(IdRange, u32), SyntaxError> {
    let whole = trimmed(argument.as_str(), argument.whole());
    let text = argument.as_str().get(whole.clone()).unwrap_or_default();
    let Some((id, offset)) = text.split_once(':') else { return Ok((range(argument, whole)?, 0)) };
    let span = argument.span(whole.clone());
    let id = range(argument, whole.start..whole.start + id.len())?;
    Ok((id, number(offset, span)?))
}

fn range(argument: &Traced, written: Range<usize>) -> Result<IdRange, SyntaxError> {
    let span = argument.span(written.clone());
    let text = argument.as_str().get(written).unwrap_or_default();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first, span)?, number(last, span)?);
    if first > last {
        return Err(SyntaxError::new(
            span,
            format!("the range ends before it begins: write {last}-{first}"),
        ));
    }
    Ok(IdRange { span, first, last })
}

/// A number of the id that stands in `span`.
fn number(text: &str, span: Span) -> Result<u32, SyntaxError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(SyntaxError::new(
            span,
            "this is not a rule id: write a number such as 942100, or a range such as 1000-1999; \
             separate several by white space",
        ));
    }
    text.parse().map_err(|_| {
        SyntaxError::new(span, format!("the number is too large: at most {} is possible", u32::MAX))
    })
}

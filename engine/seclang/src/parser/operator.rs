//! `!@name argument`, the second argument of a rule.

use super::cursor::Cursor;
use crate::ast::Operator;
use crate::error::SyntaxError;
use crate::span::Text;
use crate::traced::{Traced, is_blank, trimmed};

/// Reads an operator. A text without `@` is a regular expression, the argument of `rx`.
///
/// White space before `!` and `@` is overlooked, as ModSecurity does: Coraza would take
/// `" @eq 0"` for a regular expression that never matches.
pub(super) fn operator(argument: &Traced) -> Result<Operator, SyntaxError> {
    let mut cursor = Cursor::new(argument);
    cursor.skip_blank();
    let negated = cursor.eat(b'!');
    cursor.skip_blank();
    let name = if cursor.peek() == Some(b'@') {
        explicit_name(&mut cursor)?
    } else {
        Text { text: "rx".to_owned(), ..argument.text(cursor.at..cursor.at) }
    };
    let rest = trimmed(argument.as_str(), cursor.at..argument.len());
    Ok(Operator {
        span: argument.span(argument.whole()),
        negated,
        name,
        argument: argument.text(rest),
    })
}

fn explicit_name(cursor: &mut Cursor<'_>) -> Result<Text, SyntaxError> {
    let at_sign = cursor.at;
    cursor.at += 1;
    let name = cursor.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || cursor.peek().is_some_and(|byte| !is_blank(byte)) {
        cursor.take_while(|byte| !is_blank(byte));
        return Err(cursor.error(
            at_sign..cursor.at,
            "this is not the name of an operator: write a name such as `@rx` and white space after \
             it, and `@rx @…` for a regular expression that begins with @",
        ));
    }
    Ok(cursor.text.text(name))
}

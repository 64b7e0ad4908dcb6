//! Macro expansion: `%{tx.score}` and its like, split into segments when rules are compiled.

use crate::{id::TxSlot, variable::Variable};

/// A piece of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Text as written.
    Literal(Box<[u8]>),
    /// `%{tx.name}`.
    Tx(TxSlot),
    /// `%{VARIABLE}`.
    Scalar(Variable),
    /// `%{COLLECTION.name}`, the name in lower case.
    Member(Variable, Box<[u8]>),
}

/// A text with macros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expression {
    segments: Box<[Segment]>,
}

impl Expression {
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The whole text when it has no macro.
    pub(crate) fn literal(&self) -> Option<&[u8]> {
        match &*self.segments {
            [] => Some(&[]),
            [Segment::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Splits `text` at its macros. `slot` gives each name of `TX` its place.
    ///
    /// # Errors
    /// Names a macro whose variable is unknown. An unterminated `%{` is literal, as in ModSecurity.
    pub(crate) fn parse(
        text: &str,
        slot: &mut dyn FnMut(&str) -> Result<TxSlot, String>,
    ) -> Result<Self, String> {
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("%{") {
            let (before, macro_on) = rest.split_at(start);
            let Some(end) = macro_on.find('}') else { break };
            literal.push_str(before);
            let name = macro_on.get(2..end).unwrap_or_default();
            if !literal.is_empty() {
                segments.push(Segment::Literal(core::mem::take(&mut literal).into_bytes().into()));
            }
            segments.push(parse_macro(name, slot)?);
            rest = macro_on.get(end + 1..).unwrap_or_default();
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            segments.push(Segment::Literal(literal.into_bytes().into()));
        }
        Ok(Self { segments: segments.into() })
    }
}

fn parse_macro(
    name: &str,
    slot: &mut dyn FnMut(&str) -> Result<TxSlot, String>,
) -> Result<Segment, String> {
    // ModSecurity accepts both `ARGS.x` and `ARGS:x`.
    let (variable_name, key) = match name.find(['.', ':']) {
        Some(at) => {
            let (variable, key) = name.split_at(at);
            (variable, Some(key.get(1..).unwrap_or_default()))
        }
        None => (name, None),
    };
    let Some(variable) = Variable::from_name(variable_name) else {
        let hint = "; macros are written %{VARIABLE} or %{COLLECTION.name}";
        return Err(format!("%{{{name}}}: {}", Variable::unknown(variable_name, hint)));
    };
    let is_pattern = |key: &str| key.len() > 1 && key.starts_with('/') && key.ends_with('/');
    if variable != Variable::Xml && key.is_some_and(is_pattern) {
        return Err(format!("%{{{name}}}: a macro names one member, and no pattern"));
    }
    Ok(match (variable, key) {
        (Variable::Tx, Some(key)) => Segment::Tx(slot(key)?),
        (_, Some(key)) => Segment::Member(variable, key.to_ascii_lowercase().into_bytes().into()),
        (_, None) => Segment::Scalar(variable),
    })
}

impl Expression {
    /// `%{COLLECTION.key}`.
    pub(crate) fn member(variable: Variable, key: &str) -> Self {
        Self { segments: Box::new([Segment::Member(variable, key.as_bytes().into())]) }
    }
}

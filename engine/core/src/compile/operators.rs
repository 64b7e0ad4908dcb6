//! Operators: name and argument → compiled operator.

use regex_syntax::hir::Hir;
use seclang::{Operator as Written, SourceId};

use super::Compiler;
use crate::{
    ascii::hex_pair,
    expand::Expression,
    operator::{
        self, ByteRange, CheckDigit, Comparison, Deferred, IpSet, Operator, Phrases, TextTest,
    },
    pattern::Pattern,
    reference::{self, Support},
    scan::{self, ByteSet},
};

/// Texts that are looked for.
pub(super) type Texts = Vec<Vec<u8>>;

/// What must be so for an operator to match a value.
#[derive(Debug)]
pub(super) enum Needs {
    /// Nothing is known.
    Nothing,
    /// The value holds one of these texts, in one case or another.
    OneOf(Texts),
    /// The value holds one of these bytes, in one case or another.
    OneByteOf(ByteSet),
    /// The value matches this pattern.
    Pattern(Hir),
}

/// The warning of each pattern that is matched under a limit of steps, of operators and of selectors.
pub(super) const NEEDS_BACKTRACKING: &str = "the pattern needs back-tracking (look-around, back-references or \
     possessive repetition); it is matched under a limit of steps";

/// The engine cannot know when rules are loaded whether the host will answer.
const NEEDS_LOOKUP: &str =
    "asks the host; it does not match where the host has no answer, and by default it has none";

impl Compiler<'_> {
    /// Lowers an operator, with what must be so for it to match. An error is reported and gives an
    /// operator that never matches.
    pub(super) fn lower_operator(&mut self, written: &Written) -> (Operator, Needs) {
        self.operator(written).unwrap_or_else(|message| {
            let argument_wrong = !written.argument.text.is_empty();
            let span = if argument_wrong { written.argument.span } else { written.name.span };
            self.error(span, &message);
            (Operator::NoMatch, Needs::Nothing)
        })
    }

    fn operator(&mut self, written: &Written) -> Result<(Operator, Needs), String> {
        let argument = written.argument.text.as_str();
        let source = written.span.source;
        let lower = written.name.text.to_ascii_lowercase();
        let operator = match lower.as_str() {
            "rx" | "rxglobal" if has_macro(argument) => {
                self.warn(
                    written.span,
                    "the pattern has macros: it is compiled while requests are evaluated, and does \
                     not match where it does not compile",
                );
                Operator::Deferred(Deferred::Rx(self.parameter(argument)?, lower == "rxglobal"))
            }
            "rx" => {
                return Ok((Operator::Rx(self.rx(written, argument)?), self.needs(argument)));
            }
            "rxglobal" => {
                return Ok((Operator::RxGlobal(self.rx(written, argument)?), self.needs(argument)));
            }
            "pm" => return self.phrases(&words(argument)?, written.negated),
            "pmf" | "pmfromfile" => {
                let list = self.phrases_from_files(argument, source)?;
                return self.phrases(&list, written.negated);
            }
            "eq" => Operator::Number(Comparison::Eq, self.parameter(argument)?),
            "ge" => Operator::Number(Comparison::Ge, self.parameter(argument)?),
            "gt" => Operator::Number(Comparison::Gt, self.parameter(argument)?),
            "le" => Operator::Number(Comparison::Le, self.parameter(argument)?),
            "lt" => Operator::Number(Comparison::Lt, self.parameter(argument)?),
            "beginswith" => Operator::Text(TextTest::BeginsWith, self.parameter(argument)?),
            "contains" | "strmatch" => {
                Operator::Text(TextTest::Contains, self.parameter(argument)?)
            }
            "containsword" => Operator::Text(TextTest::ContainsWord, self.parameter(argument)?),
            "endswith" => Operator::Text(TextTest::EndsWith, self.parameter(argument)?),
            "streq" => Operator::Text(TextTest::Streq, self.parameter(argument)?),
            "within" => Operator::Text(TextTest::Within, self.parameter(argument)?),
            "ipmatch" => Operator::IpMatch(IpSet::parse(argument)?),
            "ipmatchf" | "ipmatchfromfile" => Operator::IpMatch(self.addresses(argument, source)?),
            "validatebyterange" => Operator::ValidateByteRange(ByteRange::parse(argument)?),
            "validateurlencoding" => Operator::ValidateUrlEncoding,
            "validateutf8encoding" => Operator::ValidateUtf8Encoding,
            "detectsqli" => Operator::DetectSqli,
            "detectxss" => Operator::DetectXss,
            "verifycc" => Operator::Verify(CheckDigit::CreditCard, self.rx(written, argument)?),
            "verifycpf" => Operator::Verify(CheckDigit::Cpf, self.rx(written, argument)?),
            "verifyssn" => Operator::Verify(CheckDigit::Ssn, self.rx(written, argument)?),
            "verifysvnr" => Operator::Verify(CheckDigit::Svnr, self.rx(written, argument)?),
            "validatenid" => {
                let (check, pattern) = nid(argument)?;
                Operator::Verify(check, self.rx(written, pattern)?)
            }
            "geolookup" => Operator::Deferred(self.geo_lookup(written)),
            "rbl" => Operator::Deferred(self.rbl(written, argument)?),
            "unconditionalmatch" => Operator::UnconditionalMatch,
            "nomatch" => Operator::NoMatch,
            _ => return Err(unknown(&written.name.text)),
        };
        let needs = operator_needs(&operator);
        Ok((operator, needs))
    }

    fn rx(&mut self, written: &Written, argument: &str) -> Result<Pattern, String> {
        let pattern = self.pattern(argument)?.with_steps_max(self.limits.backtrack_steps_max);
        if pattern.backtracks() {
            self.warn(written.span, NEEDS_BACKTRACKING);
        }
        Ok(pattern)
    }

    fn pattern(&mut self, argument: &str) -> Result<Pattern, String> {
        if has_macro(argument) {
            return Err("macros are supported in the patterns of @rx and @rxGlobal only".to_owned());
        }
        if self.checks_only {
            Pattern::check(argument)?;
            return self.parts.pattern("");
        }
        self.parts.pattern(argument)
    }

    fn needs(&self, pattern: &str) -> Needs {
        if self.checks_only { Needs::Nothing } else { needs(pattern) }
    }

    /// `@pm`: a value that matches holds one of the phrases.
    fn phrases(&mut self, list: &[Vec<u8>], negated: bool) -> Result<(Operator, Needs), String> {
        if list.is_empty() {
            return Err("there is no phrase to look for".to_owned());
        }
        if self.checks_only {
            return Ok((Operator::NoMatch, Needs::Nothing));
        }
        let automaton = self.parts.phrases(list)?;
        let mut texts: Texts = list.iter().map(|phrase| phrase.to_ascii_lowercase()).collect();
        texts.sort_unstable();
        texts.dedup();
        let is_searchable = negated && texts.iter().all(|text| !text.is_empty());
        let table = is_searchable.then(|| {
            let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            self.parts.table_of(&texts)
        });
        let phrases = Phrases { automaton, table: table.flatten() };
        Ok((Operator::Pm(phrases), Needs::OneOf(texts)))
    }

    fn geo_lookup(&mut self, written: &Written) -> Deferred {
        self.warn(written.span, &format!("@geoLookup {NEEDS_LOOKUP}"));
        Deferred::GeoLookup
    }

    fn rbl(&mut self, written: &Written, zone: &str) -> Result<Deferred, String> {
        if zone.is_empty() {
            return Err("@rbl needs the zone of a block list, such as bl.example".to_owned());
        }
        self.warn(written.span, &format!("@rbl {NEEDS_LOOKUP}"));
        Ok(Deferred::Rbl(self.parameter(zone)?))
    }

    fn parameter(&mut self, argument: &str) -> Result<Expression, String> {
        Expression::parse(argument, &mut |name| self.slot(name))
    }

    fn phrases_from_files(&mut self, names: &str, source: SourceId) -> Result<Texts, String> {
        let mut list = Vec::new();
        for name in names.split_ascii_whitespace() {
            let bytes = self.read_data(name, source)?;
            list.extend(data_lines(&bytes).map(<[u8]>::to_vec));
        }
        if list.is_empty() {
            return Err("the file holds no phrase".to_owned());
        }
        Ok(list)
    }

    fn addresses(&mut self, names: &str, source: SourceId) -> Result<IpSet, String> {
        let mut list = Vec::new();
        for name in names.split_ascii_whitespace() {
            let bytes = self.read_data(name, source)?;
            for line in data_lines(&bytes) {
                list.push(String::from_utf8_lossy(line).into_owned());
            }
        }
        IpSet::parse(&list.join(","))
    }
}

/// The country of `@validateNid`, and its pattern.
fn nid(argument: &str) -> Result<(CheckDigit, &str), String> {
    match argument.split_once(char::is_whitespace) {
        Some(("cl", pattern)) => Ok((CheckDigit::Rut, pattern.trim_start())),
        Some(("us", pattern)) => Ok((CheckDigit::Ssn, pattern.trim_start())),
        _ => Err("write @validateNid cl PATTERN, or us instead of cl".to_owned()),
    }
}

fn unknown(name: &str) -> String {
    match reference::find(reference::OPERATORS, name).map(|entry| entry.support) {
        Some(Support::Refused(why)) => format!("@{name} is refused: {why}"),
        _ => {
            let meant = reference::did_you_mean(reference::OPERATORS, "@", name);
            format!("there is no operator @{name}{meant}")
        }
    }
}

/// Whether `%{NAME}` stands in a pattern. `%{2}` does not mean a macro but two per cent signs.
fn has_macro(pattern: &str) -> bool {
    let mut macros = pattern.match_indices("%{").filter_map(|(at, _)| pattern.get(at + 2..));
    macros.any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()) && rest.contains('}'))
}

fn operator_needs(operator: &Operator) -> Needs {
    match operator {
        Operator::Text(test, parameter) if *test != TextTest::Within => match parameter.literal() {
            Some([byte]) => Needs::OneByteOf(ByteSet::of(&[*byte]).folded()),
            Some(text) if !text.is_empty() => Needs::OneOf(vec![text.to_ascii_lowercase()]),
            _ => Needs::Nothing,
        },
        Operator::ValidateByteRange(range) => Needs::OneByteOf(range.outside()),
        Operator::DetectXss => Needs::OneByteOf(operator::XSS_NEEDS),
        _ => Needs::Nothing,
    }
}

fn needs(pattern: &str) -> Needs {
    let Some(tree) = Pattern::syntax_tree(pattern) else { return Needs::Nothing };
    match scan::required(&tree) {
        Some(texts) => Needs::OneOf(texts),
        None => Needs::Pattern(tree),
    }
}

/// Lines of a data file without comments, surrounding white space and blank lines.
fn data_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
}

/// The phrases of `@pm`: separated by white space, with `|41 42|` for bytes in hexadecimal.
fn words(argument: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut list = Vec::new();
    let mut word = Vec::new();
    let mut rest = argument.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'|' if hexadecimal_block(tail).is_some() => {
                let (bytes, after) = hexadecimal_block(tail).unwrap_or_default();
                word.extend(bytes);
                rest = after;
            }
            _ if byte.is_ascii_whitespace() => {
                if !word.is_empty() {
                    list.push(core::mem::take(&mut word));
                }
            }
            _ => word.push(byte),
        }
    }
    if !word.is_empty() {
        list.push(word);
    }
    if list.is_empty() {
        return Err("@pm needs at least one phrase".to_owned());
    }
    Ok(list)
}

/// `41 42|…` → the bytes and what follows the closing bar.
fn hexadecimal_block(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let end = text.iter().position(|&byte| byte == b'|')?;
    let pairs = text.get(..end)?.split(u8::is_ascii_whitespace).filter(|pair| !pair.is_empty());
    let bytes: Option<Vec<u8>> = pairs
        .map(|pair| match pair {
            [high, low] => hex_pair(*high, *low),
            _ => None,
        })
        .collect();
    let bytes = bytes.filter(|bytes| !bytes.is_empty())?;
    Some((bytes, text.get(end + 1..)?))
}

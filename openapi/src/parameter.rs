//! Parameters: how their values are written in a request, by `style` and `explode`.
//!
//! Sources: OpenAPI 3.1.1, "Parameter Object", "Style Values"; RFC 6570.

use serde_json::Value;

use crate::{
    path::percent_decode,
    shape::{Shape, Types, object},
};

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    Path,
    Query,
    Header,
    Cookie,
}

impl Location {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Path, Self::Query, Self::Header, Self::Cookie]
            .into_iter()
            .find(|it| it.name() == text)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    pub(crate) const fn default_style(self) -> Style {
        match self {
            Self::Path | Self::Header => Style::Simple,
            Self::Query | Self::Cookie => Style::Form,
        }
    }

    pub(crate) const fn allows(self, style: Style) -> bool {
        match self {
            Self::Path => matches!(style, Style::Simple | Style::Label | Style::Matrix),
            Self::Header => matches!(style, Style::Simple),
            Self::Cookie => matches!(style, Style::Form),
            Self::Query => matches!(
                style,
                Style::Form | Style::SpaceDelimited | Style::PipeDelimited | Style::DeepObject
            ),
        }
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

impl Style {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "simple" => Self::Simple,
            "label" => Self::Label,
            "matrix" => Self::Matrix,
            "form" => Self::Form,
            "spaceDelimited" => Self::SpaceDelimited,
            "pipeDelimited" => Self::PipeDelimited,
            "deepObject" => Self::DeepObject,
            _ => return None,
        })
    }
}

/// A value of a request, by name, that is written by a style.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) style: Style,
    pub(crate) explode: bool,
    pub(crate) shape: Shape,
}

/// A pair of a query string or of a form, its name decoded.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) name: String,
    /// The value, not decoded where it comes from a query string or a form.
    pub(crate) raw: Vec<u8>,
    /// Whether a parameter of this name is declared.
    pub(crate) is_known: bool,
}

/// Texts of a parameter, before they are read as values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Texts {
    One(String),
    Many(Vec<String>),
    Named(Vec<(String, String)>),
}

/// Why the texts of a parameter cannot be read.
pub(crate) type Unreadable = &'static str;

const TWICE: Unreadable = "it is sent more than once";

impl Texts {
    /// The value; texts that may stay texts do with `as_text`.
    pub(crate) fn value(&self, shape: &Shape, as_text: bool) -> Value {
        match self {
            Self::One(text) => shape.read(text, as_text),
            Self::Many(texts) => {
                let element = shape.element();
                Value::Array(texts.iter().map(|text| element.read(text, as_text)).collect())
            }
            Self::Named(members) => object(shape, members.iter(), as_text),
        }
    }
}

/// Splits the pairs of a query string or of a form.
///
/// # Errors
/// When servers could read them differently, or there are more than `pairs_max`.
pub(crate) fn pairs(text: &[u8], pairs_max: usize) -> Result<Vec<Pair>, Unreadable> {
    let mut pairs = Vec::new();
    for part in text.split(|&byte| byte == b'&').filter(|part| !part.is_empty()) {
        if pairs.len() >= pairs_max {
            return Err("there are too many parameters");
        }
        let at = part.iter().position(|&byte| byte == b'=');
        let (name, raw) = match at {
            Some(at) => part.split_at(at),
            None => (part, &b""[..]),
        };
        let raw = raw.strip_prefix(b"=").unwrap_or(raw).to_vec();
        pairs.push(Pair { name: decoded(name)?, raw, is_known: false });
    }
    Ok(pairs)
}

/// A text of a query string or of a form.
pub(crate) fn decoded(raw: &[u8]) -> Result<String, Unreadable> {
    let spaced: Vec<u8> = raw.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    decoded_path(&spaced)
}

/// A text of a path.
pub(crate) fn decoded_path(raw: &[u8]) -> Result<String, Unreadable> {
    let bytes = percent_decode(raw).ok_or("it has an invalid escape")?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8")
}

fn split(raw: &[u8], separator: u8) -> Vec<&[u8]> {
    raw.split(|&byte| byte == separator).collect()
}

/// The elements of a list, which are separated as sent, not as decoded.
fn delimited(raw: &[u8], style: Style) -> Vec<Vec<u8>> {
    let (escape, plain): (&[u8], u8) = match style {
        Style::SpaceDelimited => (b"%20", b'+'),
        Style::PipeDelimited => (b"%7c", b'|'),
        Style::Simple | Style::Label | Style::Matrix | Style::Form | Style::DeepObject => {
            return split(raw, b',').into_iter().map(<[u8]>::to_vec).collect();
        }
    };
    let mut unified = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, behind)) = rest.split_first() {
        match rest.get(..3).filter(|start| start.eq_ignore_ascii_case(escape)) {
            Some(_) => {
                unified.push(plain);
                rest = rest.get(3..).unwrap_or_default();
            }
            None => {
                unified.push(byte);
                rest = behind;
            }
        }
    }
    split(&unified, plain).into_iter().map(<[u8]>::to_vec).collect()
}

/// Pairs as names and values: `a,1,b,2`.
fn alternating(texts: Vec<String>) -> Result<Texts, Unreadable> {
    if texts.len() % 2 == 1 {
        return Err("a member has no value");
    }
    let mut members = Vec::new();
    let mut texts = texts.into_iter();
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        add(&mut members, name, value)?;
    }
    Ok(Texts::Named(members))
}

fn add(members: &mut Vec<(String, String)>, name: String, value: String) -> Result<(), Unreadable> {
    if members.iter().any(|(known, _)| *known == name) {
        return Err("it has a member twice");
    }
    members.push((name, value));
    Ok(())
}

impl Written {
    fn is_array(&self) -> bool {
        self.shape.types.has(Types::ARRAY)
    }

    fn is_object(&self) -> bool {
        self.shape.types.has(Types::OBJECT)
    }

    /// The texts in a query string, a form or cookies; marks the pairs that are meant as known.
    ///
    /// # Errors
    /// When they are written by another style, or servers could read them differently.
    pub(crate) fn of_pairs(
        &self,
        pairs: &mut [Pair],
        decode: fn(&[u8]) -> Result<String, Unreadable>,
    ) -> Result<Option<Texts>, Unreadable> {
        if self.is_object() && self.style == Style::DeepObject {
            return self.deep_object(pairs, decode);
        }
        if self.is_object() && self.style == Style::Form && self.explode {
            return self.members(pairs, decode);
        }
        let mut found: Vec<Vec<u8>> = Vec::new();
        for pair in pairs.iter_mut().filter(|pair| pair.name == self.name) {
            pair.is_known = true;
            found.push(pair.raw.clone());
        }
        let [raw] = found.as_slice() else {
            let is_list = self.is_array() && self.explode;
            return match found.is_empty() {
                true => Ok(None),
                false if !is_list => Err(TWICE),
                false => {
                    let texts = found.iter().map(|raw| decode(raw)).collect::<Result<_, _>>();
                    texts.map(|texts| Some(Texts::Many(texts)))
                }
            };
        };
        if !self.is_array() && !self.is_object() {
            return decode(raw).map(|text| Some(Texts::One(text)));
        }
        if self.is_array() && self.explode {
            return Ok(Some(Texts::Many(vec![decode(raw)?])));
        }
        let texts: Vec<String> =
            delimited(raw, self.style).iter().map(|raw| decode(raw)).collect::<Result<_, _>>()?;
        match self.is_array() {
            true => Ok(Some(Texts::Many(texts))),
            false => alternating(texts).map(Some),
        }
    }

    /// `name[member]=value`.
    fn deep_object(
        &self,
        pairs: &mut [Pair],
        decode: fn(&[u8]) -> Result<String, Unreadable>,
    ) -> Result<Option<Texts>, Unreadable> {
        let mut members = Vec::new();
        for pair in pairs {
            let member = pair.name.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix('['));
            let Some(member) = member.and_then(|rest| rest.strip_suffix(']')) else { continue };
            if member.is_empty() || member.contains(['[', ']']) {
                continue;
            }
            pair.is_known = true;
            add(&mut members, member.to_owned(), decode(&pair.raw)?)?;
        }
        Ok((!members.is_empty()).then_some(Texts::Named(members)))
    }

    /// Members of an object as parameters of their own.
    fn members(
        &self,
        pairs: &mut [Pair],
        decode: fn(&[u8]) -> Result<String, Unreadable>,
    ) -> Result<Option<Texts>, Unreadable> {
        let mut members = Vec::new();
        for pair in pairs.iter_mut().filter(|pair| !pair.is_known) {
            if self.shape.additional.is_some() || self.shape.properties.contains_key(&pair.name) {
                pair.is_known = true;
                add(&mut members, pair.name.clone(), decode(&pair.raw)?)?;
            }
        }
        Ok((!members.is_empty()).then_some(Texts::Named(members)))
    }

    /// The texts of one value: a segment of a path, or a header field.
    ///
    /// # Errors
    /// As [`Self::of_pairs`].
    pub(crate) fn of_text(
        &self,
        raw: &[u8],
        decode: fn(&[u8]) -> Result<String, Unreadable>,
    ) -> Result<Texts, Unreadable> {
        const OTHER: Unreadable = "it is written in another style";
        let raw = match self.style {
            Style::Label => raw.strip_prefix(b".").ok_or(OTHER)?,
            Style::Matrix => raw.strip_prefix(b";").ok_or(OTHER)?,
            Style::Simple
            | Style::Form
            | Style::SpaceDelimited
            | Style::PipeDelimited
            | Style::DeepObject => raw,
        };
        let is_list = self.is_array() || self.is_object();
        let separator = match (self.style, self.explode) {
            (Style::Matrix, true) => b';',
            (Style::Label, true) => b'.',
            _ => b',',
        };
        let named = |raw: &[u8]| -> Result<Vec<u8>, Unreadable> {
            let rest =
                raw.strip_prefix(self.name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            rest.map(<[u8]>::to_vec).ok_or(OTHER)
        };
        let is_matrix = self.style == Style::Matrix;
        if !is_list {
            let raw = if is_matrix { named(raw)? } else { raw.to_vec() };
            return decode(&raw).map(Texts::One);
        }
        let raw = if is_matrix && !self.explode { named(raw)? } else { raw.to_vec() };
        let parts = split(&raw, separator);
        if self.is_array() {
            let text = |part: &&[u8]| match is_matrix && self.explode {
                true => decode(&named(part)?),
                false => decode(part),
            };
            return parts.iter().map(text).collect::<Result<_, _>>().map(Texts::Many);
        }
        if !self.explode {
            return alternating(parts.into_iter().map(decode).collect::<Result<_, _>>()?);
        }
        let mut members = Vec::new();
        for part in parts {
            let at = part.iter().position(|&byte| byte == b'=').ok_or(OTHER)?;
            let (name, value) = part.split_at(at);
            add(&mut members, decode(name)?, decode(value.get(1..).unwrap_or_default())?)?;
        }
        Ok(Texts::Named(members))
    }
}

//! Path templates, and the paths of requests.
//!
//! A template is matched segment by segment, concrete segments before templated ones (OpenAPI 3.1, "Paths Object").
//! A path that servers could take for another one matches nothing: one with empty or dot segments, with encoded
//! slashes, backslashes, control characters or invalid escapes, or with parameters after `;` where no template declares
//! them.

use std::collections::BTreeMap;

/// A segment of a template: `{id}`, `report.{format}` or a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Text(String),
    Template(Vec<Piece>),
}

/// A part of a templated segment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Piece {
    Text(String),
    Name(String),
}

/// A template of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    segments: Vec<Segment>,
}

impl Template {
    /// Reads a template such as `/pets/{id}`, its texts decoded.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix('/').ok_or("a path begins with a slash")?;
        if text.contains(['?', '#']) {
            return Err("a path has no query and no fragment".to_owned());
        }
        let segments: Vec<Segment> = rest.split('/').map(segment).collect::<Result<_, _>>()?;
        let template = Self { segments };
        let mut names = template.names();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair.first() == pair.last()) {
            Some(pair) => Err(format!("the path has the parameter {pair:?} twice")),
            None => Ok(template),
        }
    }

    /// The names of its parameters.
    pub(crate) fn names(&self) -> Vec<&str> {
        let pieces = self.segments.iter().filter_map(|segment| match segment {
            Segment::Text(_) => None,
            Segment::Template(pieces) => Some(pieces),
        });
        let name = |piece: &'_ Piece| matches!(piece, Piece::Name(_));
        let names = pieces.flatten().filter(|piece| name(piece));
        names
            .map(|piece| match piece {
                Piece::Name(text) | Piece::Text(text) => text.as_str(),
            })
            .collect()
    }
}

fn segment(text: &str) -> Result<Segment, String> {
    let literal =
        |text: &str| decode(text.as_bytes()).map_err(|why| format!("the path is ambiguous: {why}"));
    if !text.contains(['{', '}']) {
        return literal(text).map(Segment::Text);
    }
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').ok_or("a brace of the path is not closed")?;
        if !before.is_empty() {
            pieces.push(Piece::Text(literal(before)?));
        } else if matches!(pieces.last(), Some(Piece::Name(_))) {
            return Err("two parameters of a path need a text between them".to_owned());
        }
        if name.is_empty() || name.contains('{') {
            return Err("a parameter of the path has no name".to_owned());
        }
        pieces.push(Piece::Name(name.to_owned()));
        rest = behind;
    }
    if rest.contains('}') {
        return Err("a brace of the path is not opened".to_owned());
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(literal(rest)?));
    }
    Ok(Segment::Template(pieces))
}

/// Why a path matches nothing whatever the templates are.
pub(crate) type Ambiguity = &'static str;

/// Decodes `%XX` of a segment; refuses what servers could read as more than one segment, or as none.
fn decode(segment: &[u8]) -> Result<String, Ambiguity> {
    let bytes = percent_decode(segment).ok_or("it has an invalid escape")?;
    if bytes.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
        return Err("it has an encoded slash or a backslash");
    }
    if bytes.iter().any(u8::is_ascii_control) {
        return Err("it has a control character");
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    // Some servers cut parameters off before they look for dots.
    let name = text.split(';').next().unwrap_or_default();
    match name {
        "." | ".." => Err("it has a dot segment"),
        _ => Ok(text),
    }
}

/// Undoes `%XX`; `None` where an escape is invalid.
pub(crate) fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>()?;
        let digit =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let [high, low] = *digits;
        decoded.push(digit(high)? * 16 + digit(low)?);
        rest = behind;
    }
    Some(decoded)
}

/// A segment of the path of a request: as sent, and decoded.
#[derive(Clone, Debug)]
struct Sent<'s> {
    raw: &'s [u8],
    text: String,
}

/// Splits the path of a request.
fn split(path: &[u8]) -> Result<Vec<Sent<'_>>, Ambiguity> {
    let Some((b'/', rest)) = path.split_first() else {
        return Err("it does not begin with a slash");
    };
    let mut segments = Vec::new();
    let count = rest.split(|&byte| byte == b'/').count();
    if count > SEGMENTS_MAX {
        return Err("it has too many segments");
    }
    for (position, raw) in rest.split(|&byte| byte == b'/').enumerate() {
        if raw.is_empty() && position + 1 < count {
            return Err("it has an empty segment");
        }
        segments.push(Sent { raw, text: decode(raw)? });
    }
    Ok(segments)
}

/// Segments of a path that are matched. Longer paths match nothing.
pub(crate) const SEGMENTS_MAX: usize = 128;

/// Templates, each with a number, to be found by paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Templates {
    texts: BTreeMap<String, Self>,
    templates: Vec<(Vec<Piece>, Self)>,
    end: Option<usize>,
}

/// A template that matches a path, and the values of its parameters as they were sent, in the order of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathMatch {
    pub(crate) number: usize,
    pub(crate) values: Vec<Vec<u8>>,
    /// Segments with parameters after `;`, as they were sent.
    pub(crate) with_parameters: Vec<Vec<u8>>,
}

impl Templates {
    /// Adds a template under a base path. `false` if another one matches the same paths.
    pub(crate) fn insert(&mut self, base: &Template, template: &Template, number: usize) -> bool {
        let mut node = self;
        // The base path `/` is one empty segment.
        let base = base.segments.iter().filter(|segment| **segment != Segment::Text(String::new()));
        for segment in base.chain(&template.segments) {
            node = match segment {
                Segment::Text(text) => node.texts.entry(text.clone()).or_default(),
                Segment::Template(pieces) => node.template(pieces),
            };
        }
        let is_new = node.end.is_none();
        node.end.get_or_insert(number);
        is_new
    }

    fn template(&mut self, pieces: &[Piece]) -> &mut Self {
        let same = |(known, _): &(Vec<Piece>, Self)| {
            known.len() == pieces.len()
                && known.iter().zip(pieces).all(|pair| match pair {
                    (Piece::Text(a), Piece::Text(b)) => a == b,
                    (Piece::Name(_), Piece::Name(_)) => true,
                    (Piece::Text(_), Piece::Name(_)) | (Piece::Name(_), Piece::Text(_)) => false,
                })
        };
        let at = self.templates.iter().position(same).unwrap_or_else(|| {
            self.templates.push((pieces.to_vec(), Self::default()));
            // Those with more text are the more concrete ones.
            self.templates.len() - 1
        });
        &mut self.templates[at].1
    }

    /// Orders templated segments: the ones with the most text first.
    pub(crate) fn order(&mut self) {
        let text = |pieces: &[Piece]| -> usize {
            let lengths = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::Name(_) => 0,
            });
            lengths.sum()
        };
        self.templates.sort_by_key(|(pieces, _)| core::cmp::Reverse(text(pieces)));
        self.templates.iter_mut().for_each(|(_, node)| node.order());
        self.texts.values_mut().for_each(Self::order);
    }

    /// Finds the template of a path, which is without query.
    ///
    /// # Errors
    /// Why the path is ambiguous.
    pub(crate) fn find(&self, path: &[u8]) -> Result<Option<PathMatch>, Ambiguity> {
        let segments = split(path)?;
        let mut values = Vec::new();
        // Each node of the tree is visited at most once.
        let Some(number) = self.walk(&segments, &mut values) else { return Ok(None) };
        let with_parameters = segments.iter().filter(|segment| segment.raw.contains(&b';'));
        let with_parameters = with_parameters.map(|segment| segment.raw.to_vec()).collect();
        Ok(Some(PathMatch { number, values, with_parameters }))
    }

    fn walk(&self, segments: &[Sent<'_>], values: &mut Vec<Vec<u8>>) -> Option<usize> {
        let Some((segment, rest)) = segments.split_first() else { return self.end };
        let concrete = self.texts.get(&segment.text);
        if let Some(number) = concrete.and_then(|node| node.walk(rest, values)) {
            return Some(number);
        }
        let before = values.len();
        for (pieces, node) in &self.templates {
            if capture(pieces, segment, values)
                && let Some(number) = node.walk(rest, values)
            {
                return Some(number);
            }
            values.truncate(before);
        }
        None
    }
}

/// Matches a templated segment: each parameter takes at least one byte, and as few as the text after it allows.
fn capture(pieces: &[Piece], sent: &Sent<'_>, values: &mut Vec<Vec<u8>>) -> bool {
    if let [Piece::Name(_)] = pieces {
        values.push(sent.raw.to_vec());
        return !sent.raw.is_empty();
    }
    // With text around it a parameter is matched as decoded, and its percent signs are encoded for the next reader.
    let mut rest = sent.text.as_str();
    let mut pieces = pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Text(text) => match rest.strip_prefix(text.as_str()) {
                Some(behind) => rest = behind,
                None => return false,
            },
            Piece::Name(_) => {
                let is_last = pieces.len() == 1;
                let end = match pieces.peek() {
                    None => rest.len(),
                    // The last parameter before the end takes what the final text leaves.
                    Some(Piece::Text(text)) if is_last => match rest.strip_suffix(text.as_str()) {
                        Some(value) => value.len(),
                        None => return false,
                    },
                    Some(Piece::Text(text) | Piece::Name(text)) => {
                        let first = rest.chars().next().map_or(0, char::len_utf8);
                        match rest.get(first..).and_then(|behind| behind.find(text.as_str())) {
                            Some(at) => first + at,
                            None => return false,
                        }
                    }
                };
                let Some((value, behind)) = rest.split_at_checked(end) else { return false };
                if value.is_empty() {
                    return false;
                }
                values.push(value.replace('%', "%25").into_bytes());
                rest = behind;
            }
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(templates: &[&str], path: &str) -> String {
        let root = Template::parse("/v1").expect("a base path");
        let mut tree = Templates::default();
        for (number, text) in templates.iter().enumerate() {
            let template = Template::parse(text).expect("a template");
            assert!(tree.insert(&root, &template, number), "{text}");
        }
        tree.order();
        match tree.find(path.as_bytes()) {
            Err(why) => why.to_owned(),
            Ok(None) => "none".to_owned(),
            Ok(Some(found)) => {
                let text = templates.get(found.number).copied().unwrap_or_default();
                let template = Template::parse(text).expect("a template");
                let names = template.names();
                let values = names
                    .iter()
                    .zip(&found.values)
                    .map(|(name, value)| format!(" {name}={}", String::from_utf8_lossy(value)));
                text.to_owned() + &values.collect::<String>()
            }
        }
    }

    #[test]
    fn paths_match_the_most_concrete_template() {
        let templates = [
            "/pets",
            "/pets/{id}",
            "/pets/mine",
            "/pets/{id}/toys/{toy}",
            "/{kind}/mine/toys/x",
            "/report.{format}",
            "/{any}",
            "/dir/",
            "/caf%C3%A9",
            "/a{x}b{y}c",
        ];
        for (path, expected) in [
            ("/v1/pets", "/pets"),
            ("/v1/p%65ts", "/pets"),
            ("/v1/pets/mine", "/pets/mine"),
            ("/v1/pets/m%69ne", "/pets/mine"),
            ("/v1/pets/7", "/pets/{id} id=7"),
            ("/v1/pets/a%20b", "/pets/{id} id=a%20b"),
            ("/v1/pets/mine/toys/x", "/pets/{id}/toys/{toy} id=mine toy=x"),
            ("/v1/cats/mine/toys/x", "/{kind}/mine/toys/x kind=cats"),
            ("/v1/pets/", "none"),
            ("/v1/PETS", "/{any} any=PETS"),
            ("/v1/dir/", "/dir/"),
            ("/v1/dir", "/{any} any=dir"),
            ("/v1/caf%c3%a9", "/caf%C3%A9"),
            ("/v1/report.pdf", "/report.{format} format=pdf"),
            ("/v1/report.", "/{any} any=report."),
            ("/v1/a1b2c", "/a{x}b{y}c x=1 y=2"),
            ("/v1/abbbc", "/a{x}b{y}c x=b y=b"),
            ("/pets", "none"),
            ("/v1", "none"),
            ("/v1//pets", "it has an empty segment"),
            ("//v1/pets", "it has an empty segment"),
            ("/v1/./pets", "it has a dot segment"),
            ("/v1/x/%2e%2E/pets", "it has a dot segment"),
            ("/v1/x/..;a/pets", "it has a dot segment"),
            ("/v1/pets%2F7", "it has an encoded slash or a backslash"),
            ("/v1/pets\\7", "it has an encoded slash or a backslash"),
            ("/v1/pets/%5c", "it has an encoded slash or a backslash"),
            ("/v1/pets/%00", "it has a control character"),
            ("/v1/pets/%zz", "it has an invalid escape"),
            ("/v1/pets/%4", "it has an invalid escape"),
            ("/v1/pets/%ff", "it is not UTF-8"),
            ("v1/pets", "it does not begin with a slash"),
            ("", "it does not begin with a slash"),
            ("*", "it does not begin with a slash"),
        ] {
            assert_eq!(found(&templates, path), expected, "{path}");
        }
    }

    #[test]
    fn paths_have_a_largest_number_of_segments() {
        let path = |count: usize| "/v1".to_owned() + &"/a".repeat(count - 1);
        assert_eq!(found(&["/{any}"], &path(SEGMENTS_MAX)), "none");
        assert_eq!(found(&["/{any}"], &path(SEGMENTS_MAX + 1)), "it has too many segments");
    }

    #[test]
    fn templates_that_make_no_sense_are_rejected() {
        for (text, expected) in [
            ("pets", "a path begins with a slash"),
            ("/pets?a=b", "a path has no query and no fragment"),
            ("/{a", "a brace of the path is not closed"),
            ("/a}", "a brace of the path is not opened"),
            ("/{}", "a parameter of the path has no name"),
            ("/{a}{b}", "two parameters of a path need a text between them"),
            ("/{a}/{a}", "the path has the parameter [\"a\", \"a\"] twice"),
            ("/../a", "the path is ambiguous: it has a dot segment"),
        ] {
            assert_eq!(Template::parse(text).err().as_deref(), Some(expected), "{text}");
        }
    }
}

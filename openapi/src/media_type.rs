//! Media types: those that a document declares, and that of a request.
//!
//! Source: RFC 9110, section 8.3.1; OpenAPI 3.1, "Request Body Object".

/// A media type with its parameters, in lower case but for the values of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaType {
    pub(crate) kind: String,
    pub(crate) subtype: String,
    pub(crate) parameters: Vec<(String, String)>,
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

impl MediaType {
    /// Reads a media type; `None` where servers could read it differently.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (essence, mut rest) = match text.find(';') {
            Some(at) => (text.get(..at)?, text.get(at..)?),
            None => (text, ""),
        };
        let (kind, subtype) = essence.trim_matches([' ', '\t']).split_once('/')?;
        if !is_token(kind) || !is_token(subtype) {
            return None;
        }
        let mut parameters: Vec<(String, String)> = Vec::new();
        while let Some(parameter) = rest.strip_prefix(';') {
            let parameter = parameter.trim_start_matches([' ', '\t']);
            let (name, value) = parameter.split_once('=')?;
            let (value, behind) = value_of(value)?;
            let name = name.to_ascii_lowercase();
            if !is_token(&name) || parameters.iter().any(|(known, _)| *known == name) {
                return None;
            }
            parameters.push((name, value));
            rest = behind.trim_start_matches([' ', '\t']);
        }
        rest.is_empty().then(|| Self {
            kind: kind.to_ascii_lowercase(),
            subtype: subtype.to_ascii_lowercase(),
            parameters,
        })
    }

    /// The rank at which a declared media type, which may have wildcards, is that of a request: a lower one goes
    /// first. `None` where it is another.
    pub(crate) fn rank(&self, of_request: &Self) -> Option<u8> {
        let has = |(name, value): &(String, String)| {
            let mut parameters = of_request.parameters.iter();
            parameters.any(|(known, given)| known == name && given.eq_ignore_ascii_case(value))
        };
        if !self.parameters.iter().all(has) {
            return None;
        }
        let without_parameters = u8::from(self.parameters.is_empty());
        if self.kind == "*" {
            return (self.subtype == "*").then_some(6 + without_parameters);
        }
        if self.kind != of_request.kind {
            return None;
        }
        match self.subtype.as_str() {
            "*" => Some(4 + without_parameters),
            subtype if subtype == of_request.subtype => Some(without_parameters),
            subtype => {
                let suffix = subtype.strip_prefix('*').filter(|suffix| suffix.starts_with('+'))?;
                of_request.subtype.ends_with(suffix).then_some(2 + without_parameters)
            }
        }
    }

    fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind == kind && self.subtype == subtype
    }

    pub(crate) fn is_json(&self) -> bool {
        self.is("application", "json") || self.is("text", "json") || self.subtype.ends_with("+json")
    }

    pub(crate) fn is_form(&self) -> bool {
        self.is("application", "x-www-form-urlencoded")
    }

    pub(crate) fn is_multipart(&self) -> bool {
        self.is("multipart", "form-data")
    }

    pub(crate) fn is_text(&self) -> bool {
        self.kind == "text" && !self.subtype.ends_with("xml")
    }

    /// Whether the text is UTF-8 or ASCII, by its parameter.
    pub(crate) fn is_utf8(&self) -> bool {
        let mut parameters = self.parameters.iter();
        parameters.all(|(name, value)| {
            name != "charset"
                || ["utf-8", "utf8", "us-ascii"]
                    .iter()
                    .any(|known| value.eq_ignore_ascii_case(known))
        })
    }
}

/// The value of a parameter, a token or a quoted string, and what follows it.
fn value_of(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ' ', '\t']).unwrap_or(text.len());
        let (value, behind) = text.split_at_checked(end)?;
        return is_token(value).then(|| (value.to_owned(), behind));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(characters.next()?.1),
            other if other.is_control() && other != '\t' => return None,
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_media_type_that_fits_best() {
        for (declared, sent, expected) in [
            ("application/json", "application/json", Some(1)),
            ("application/json", "Application/JSON; charset=utf-8", Some(1)),
            ("application/json;charset=utf-8", "application/json; Charset=\"UTF-8\"", Some(0)),
            ("application/json;charset=utf-8", "application/json", None),
            ("application/*+json", "application/vnd.a+json", Some(3)),
            ("application/json", "application/vnd.a+json", None),
            ("application/*", "application/vnd.a+json", Some(5)),
            ("*/*", "text/plain", Some(7)),
            ("*/plain", "text/plain", None),
            ("text/*", "application/json", None),
        ] {
            let parse = |text| MediaType::parse(text).expect("a media type");
            assert_eq!(parse(declared).rank(&parse(sent)), expected, "{declared} {sent}");
        }
    }

    #[test]
    fn ambiguous_media_types_are_none() {
        for text in [
            "",
            "json",
            "a/",
            "/b",
            "a b/c",
            "a/b;",
            "a/b; c",
            "a/b; c=",
            "a/b; c=\"d",
            "a/b, c/d",
            "a/b; c=1; C=2",
            "a/b; c=\"d\"e",
            "a/b;; c=d",
            "a/b\u{e9}",
            "a/b; c=d e",
        ] {
            assert_eq!(MediaType::parse(text), None, "{text}");
        }
    }
}

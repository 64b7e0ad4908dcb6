//! The part of XPath that rules need: paths of elements, matched while a body is read.
//!
//! `/a/b`, `//b`, `/a//b`, `*` for any element, and at the end `text()` or an attribute (`@x`, `@*`).
//! Names are compared without their prefixes, since a prefix is the sender's choice: `soap:Body` and
//! `Body` mean the same. Predicates, functions and axes are refused.
//!
//! A path to an element means every text at or below it, each by itself; one that ends in `text()` only
//! the texts between its own tags. (libxml2, behind ModSecurity, joins the texts below an element.)
//!
//! Source: XML Path Language 1.0, section 2.5 (abbreviated syntax).

/// Steps of the longest path: each is a bit of [`State::pending`].
const STEPS_MAX: usize = 31;

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XPath {
    expression: Box<str>,
    steps: Vec<Step>,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// `//` stands before it: it may be any number of levels further down.
    descendant: bool,
    name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Any,
    Local(Box<[u8]>),
}

impl Name {
    fn new(text: &str) -> Result<Self, String> {
        let local = text.rsplit_once(':').map_or(text, |(_, local)| local);
        let allowed = |c: char| c.is_alphanumeric() || "-_.".contains(c);
        match local {
            "*" => Ok(Self::Any),
            "" => Err("a step is empty".to_owned()),
            _ if !text.contains("::")
                && local.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && local.chars().all(allowed) =>
            {
                Ok(Self::Local(local.as_bytes().into()))
            }
            _ => Err(format!("`{text}` is neither the name of an element nor *")),
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Local(local) => name.rsplit(|&byte| byte == b':').next() == Some(local),
        }
    }
}

/// What of the elements that the steps lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// All texts at or below them.
    Subtree,
    /// Their own texts.
    Text,
    /// Their attributes of that name, or also those of elements below them.
    Attribute { name: Name, descendant: bool },
}

/// How far a path has been followed down to an open element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The steps that a child of the element may take, as bits.
    pending: u32,
    /// Whether the whole path leads to this element.
    exact: bool,
    /// Whether it leads to this element or to one around it.
    inside: bool,
}

impl XPath {
    /// Reads a path.
    ///
    /// # Errors
    /// What in it is not supported.
    pub(crate) fn parse(expression: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            format!(
                "the XPath expression {expression} is not supported ({why}); write XML:/* for all \
                 text, XML://@* for all attributes, or a path such as /a/b, //b/text() or //b/@c"
            )
        };
        let mut steps = Vec::new();
        let mut end = End::Subtree;
        let mut rest = expression.strip_prefix('/').unwrap_or(expression);
        loop {
            let (descendant, path) = match rest.strip_prefix('/') {
                Some(path) => (true, path),
                None => (false, rest),
            };
            let (step, behind) = path.split_once('/').map_or((path, None), |(a, b)| (a, Some(b)));
            match (step, step.strip_prefix('@'), behind) {
                ("text()", _, None) => end = if descendant { End::Subtree } else { End::Text },
                (_, Some(name), None) => {
                    let name = Name::new(name).map_err(|why| refused(&why))?;
                    end = End::Attribute { name, descendant };
                }
                _ => {
                    let name = Name::new(step).map_err(|why| refused(&why))?;
                    steps.push(Step { descendant, name });
                }
            }
            match behind {
                Some(behind) => rest = behind,
                None => break,
            }
        }
        if steps.len() > STEPS_MAX {
            return Err(refused(&format!("it has more than {STEPS_MAX} steps")));
        }
        Ok(Self { expression: expression.into(), steps, end })
    }

    /// The path as written.
    pub(crate) fn expression(&self) -> &str {
        &self.expression
    }

    /// The state around the root element.
    pub(crate) const fn start(&self) -> State {
        State { pending: 1, exact: false, inside: self.steps.is_empty() }
    }

    /// The state in an element inside of one with `outer`.
    pub(crate) fn enter(&self, outer: State, element: &[u8]) -> State {
        let mut state = State { pending: 0, exact: false, inside: outer.inside };
        for (at, step) in self.steps.iter().enumerate() {
            if outer.pending & (1 << at) == 0 {
                continue;
            }
            if step.descendant {
                state.pending |= 1 << at;
            }
            if step.name.matches(element) {
                state.pending |= 1 << (at + 1);
                state.exact |= at + 1 == self.steps.len();
            }
        }
        state.inside |= state.exact;
        state
    }

    /// Whether the texts of an element are meant.
    pub(crate) const fn takes_text(&self, state: State) -> bool {
        match self.end {
            End::Subtree => state.inside,
            End::Text => state.exact,
            End::Attribute { .. } => false,
        }
    }

    /// Whether an attribute of an element is meant.
    pub(crate) fn takes_attribute(&self, state: State, attribute: &[u8]) -> bool {
        match &self.end {
            End::Attribute { name, descendant } => {
                (state.exact || *descendant && state.inside) && name.matches(attribute)
            }
            End::Subtree | End::Text => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the path takes what `place` names: elements, then perhaps `@attribute`.
    fn takes(path: &XPath, place: &str) -> bool {
        let (elements, attribute) = match place.split_once('@') {
            Some((elements, attribute)) => (elements, Some(attribute)),
            None => (place, None),
        };
        let mut state = path.start();
        for element in elements.split_whitespace() {
            state = path.enter(state, element.as_bytes());
        }
        match attribute {
            Some(attribute) => path.takes_attribute(state, attribute.as_bytes()),
            None => path.takes_text(state),
        }
    }

    #[test]
    fn paths_take_texts_and_attributes() {
        for (path, taken, left) in [
            ("/a/b", &["a b", "a b c", "s:a t:b"][..], &["a", "b", "a c b", "a b @x", "A b"][..]),
            ("a/b", &["a b"], &["b"]),
            ("//b", &["b", "a b", "a c b d"], &["a", "a c"]),
            ("/a/b/text()", &["a b"], &["a b c", "a"]),
            ("/a//text()", &["a", "a b c"], &["b"]),
            ("//text()", &["a", "a b"], &["a @x"]),
            ("/a/*/c", &["a b c", "a x c d"], &["a c", "a b d c"]),
            ("/soap:Envelope/soap:Body//x", &["e:Envelope Body y x", "Envelope Body x z"], &["x"]),
            ("//a/b//c", &["a a b c", "a b a b x c", "x a b c c"], &["a c", "a x b c"]),
            ("//a/@x", &["a @x", "b a @n:x"], &["a @y", "a b @x", "a"]),
            ("/a//@x", &["a @x", "a b c @x"], &["b @x"]),
            ("//@x", &["a @x", "a b @x"], &["a @y"]),
            ("/a/@*", &["a @x"], &["a b @x"]),
        ] {
            let path = XPath::parse(path).unwrap();
            for place in taken {
                assert!(takes(&path, place), "{} {place}", path.expression());
            }
            for place in left {
                assert!(!takes(&path, place), "{} {place}", path.expression());
            }
        }
    }

    #[test]
    fn what_is_more_than_a_path_is_refused() {
        let long = "/a".repeat(STEPS_MAX + 1);
        for path in [
            "",
            "/",
            "/a/",
            "//",
            "/a[1]",
            "/a/..",
            "/a/./b/",
            "count(//a)",
            "//a|//b",
            "/@x/a",
            "/text()/a",
            "child::a",
            "/a/child::b",
            "/a///b",
            &long,
        ] {
            assert!(XPath::parse(path).is_err(), "{path}");
        }
        assert!(XPath::parse(&"/a".repeat(STEPS_MAX)).is_ok());
    }
}

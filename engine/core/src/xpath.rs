//! The part of XPath that rules need: paths of elements, matched while a body is read.
//!
//! `/a/b`, `//b`, `/a//b`, `*` for any element, and at the end `text()` or an attribute (`@x`, `@*`).
//! Names are compared without their prefixes, since a prefix is the sender's choice: `soap:Body` and
//! `Body` mean the same. Other functions and axes are refused.
//!
//! A path to an element means every text at or below it, each by itself; one that ends in `text()` only
//! the texts between its own tags. (libxml2, behind ModSecurity, joins the texts below an element.)
//!
//! A step may have predicates: `[2]` for the second such child of its parent, `[@x]`, `[@x='v']`,
//! `[local-name()='b']` (also `name()`, without a prefix), and `[text()]`. The last is always taken to hold: whether an
//! element has a text of its own is known only behind its first texts, and what is looked at in vain hides nothing. For
//! the same reason `a[@x]/@y` also takes a `y` that stands before a missing `x`.
//!
//! Source: XML Path Language 1.0, sections 2.4 and 2.5 (abbreviated syntax).

/// Steps of the longest path: each is a bit of [`State::pending`].
const STEPS_MAX: usize = 31;

/// Steps of one path that may count their children: each is a number in every [`State`].
const POSITIONS_MAX: usize = 4;

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
    /// `[local-name()='x']`.
    named: Option<Name>,
    /// `[2]`: which counter of [`State::counts`], and what it must say.
    position: Option<(usize, u16)>,
    /// `[@x]`, `[@x='v']`.
    attribute: Option<AttributeTest>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AttributeTest {
    name: Name,
    value: Option<Box<[u8]>>,
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
    /// The steps that lead to this element if its attributes are as they ask, as bits.
    waiting: u32,
    /// How many children each step with a position has met.
    counts: [u16; POSITIONS_MAX],
}

impl State {
    /// Around the root element.
    const OUTSIDE: Self =
        Self { pending: 1, exact: false, inside: false, waiting: 0, counts: [0; POSITIONS_MAX] };
}

impl AttributeTest {
    fn holds(&self, name: &[u8], value: &[u8]) -> bool {
        self.name.matches(name) && self.value.as_deref().is_none_or(|wanted| wanted == value)
    }
}

impl Step {
    /// Reads a step with its predicates; `positions` counts those of the path.
    fn new(text: &str, descendant: bool, positions: &mut usize) -> Result<Self, String> {
        let (name, mut rest) = text.split_at(text.find('[').unwrap_or(text.len()));
        let name = Name::new(name)?;
        let mut step = Self { descendant, name, named: None, position: None, attribute: None };
        let mut is_first = true;
        while !rest.is_empty() {
            let end = closing_bracket(rest).ok_or_else(|| format!("`{rest}` is not closed"))?;
            let (predicate, behind) = rest.split_at(end);
            step.add_predicate(predicate.get(1..).unwrap_or_default().trim(), is_first, positions)?;
            rest = behind.get(1..).unwrap_or_default();
            is_first = false;
        }
        Ok(step)
    }

    fn add_predicate(
        &mut self,
        text: &str,
        is_first: bool,
        positions: &mut usize,
    ) -> Result<(), String> {
        let refused = || format!("the predicate [{text}] is not supported");
        let (left, right) = match text.split_once('=') {
            Some((left, right)) => (left.trim_end(), Some(literal(right).ok_or_else(refused)?)),
            None => (text, None),
        };
        match (left, left.strip_prefix('@'), right) {
            ("text()", _, None) => {}
            ("local-name()" | "name()", _, Some(name)) if self.named.is_none() => {
                self.named = Some(Name::new(name)?);
            }
            (_, Some(name), value) if self.attribute.is_none() => {
                let value = value.map(|value| value.as_bytes().into());
                self.attribute = Some(AttributeTest { name: Name::new(name.trim())?, value });
            }
            _ => {
                let position = text.parse::<u16>().ok().filter(|&at| at > 0 && is_first);
                self.position = Some((*positions, position.ok_or_else(refused)?));
                *positions += 1;
            }
        }
        Ok(())
    }

    /// Whether it takes a child of that name, apart from what it asks of attributes. The child is counted.
    fn takes(&self, element: &[u8], counts: &mut [u16; POSITIONS_MAX]) -> bool {
        if !self.name.matches(element) {
            return false;
        }
        if let Some((counter, wanted)) = self.position {
            let Some(count) = counts.get_mut(counter) else { return false };
            *count = count.saturating_add(1);
            // A count that has reached its end says no more which child it is.
            if *count != wanted && *count != u16::MAX {
                return false;
            }
        }
        self.named.as_ref().is_none_or(|name| name.matches(element))
    }
}

/// The text of `'x'` or `"x"`.
fn literal(text: &str) -> Option<&str> {
    let text = text.trim();
    let quote = text.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    let inside = text.get(1..)?.strip_suffix(quote)?;
    (!inside.contains(quote)).then_some(inside)
}

/// Where the bracket that opens `text` is closed.
fn closing_bracket(text: &str) -> Option<usize> {
    outside_quotes(text).find(|&(_, c)| c == ']').map(|(at, _)| at)
}

/// What stands before the first `/` that is in no predicate, and what behind it.
fn first_step(path: &str) -> (&str, Option<&str>) {
    let mut is_inside = false;
    for (at, c) in outside_quotes(path) {
        match c {
            '[' => is_inside = true,
            ']' => is_inside = false,
            '/' if !is_inside => {
                return (path.get(..at).unwrap_or_default(), path.get(at + 1..));
            }
            _ => {}
        }
    }
    (path, None)
}

/// Characters that are in no quotes, with their places.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut open = None;
    text.char_indices().filter(move |&(_, c)| match open {
        Some(quote) => {
            if c == quote {
                open = None;
            }
            false
        }
        None if matches!(c, '\'' | '"') => {
            open = Some(c);
            false
        }
        None => true,
    })
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
        let mut positions = 0;
        let mut rest = expression.strip_prefix('/').unwrap_or(expression);
        loop {
            let (descendant, path) = match rest.strip_prefix('/') {
                Some(path) => (true, path),
                None => (false, rest),
            };
            let (step, behind) = first_step(path);
            match (step, step.strip_prefix('@'), behind) {
                ("text()", _, None) => end = if descendant { End::Subtree } else { End::Text },
                (_, Some(name), None) => {
                    let name = Name::new(name).map_err(|why| refused(&why))?;
                    end = End::Attribute { name, descendant };
                }
                _ => {
                    let step = Step::new(step, descendant, &mut positions);
                    steps.push(step.map_err(|why| refused(&why))?);
                }
            }
            match behind {
                Some(behind) => rest = behind,
                None => break,
            }
        }
        if positions > POSITIONS_MAX {
            return Err(refused(&format!("it has more than {POSITIONS_MAX} positions")));
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
        State { inside: self.steps.is_empty(), ..State::OUTSIDE }
    }

    /// The state in an element inside of one with `outer`.
    pub(crate) fn enter(&self, outer: &mut State, element: &[u8]) -> State {
        let mut state = State { pending: 0, inside: outer.inside, ..State::OUTSIDE };
        for (at, step) in self.steps.iter().enumerate() {
            if outer.pending & (1 << at) == 0 {
                continue;
            }
            if step.descendant {
                state.pending |= 1 << at;
            }
            if !step.takes(element, &mut outer.counts) {
                continue;
            }
            if step.attribute.is_none() {
                self.reach(at, &mut state);
            } else {
                state.waiting |= 1 << at;
            }
        }
        state
    }

    /// The step `at` leads to the element.
    const fn reach(&self, at: usize, state: &mut State) {
        state.pending |= 1 << (at + 1);
        if at + 1 == self.steps.len() {
            state.exact = true;
            state.inside = true;
        }
    }

    /// Takes note of an attribute of the element.
    pub(crate) fn note_attribute(&self, state: &mut State, name: &[u8], value: &[u8]) {
        if state.waiting == 0 {
            return;
        }
        for (at, step) in self.steps.iter().enumerate() {
            let is_waiting = state.waiting & (1 << at) != 0;
            if is_waiting && step.attribute.as_ref().is_some_and(|test| test.holds(name, value)) {
                self.reach(at, state);
            }
        }
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
                let last = self.steps.len().saturating_sub(1);
                let may_be = state.exact || state.waiting & (1 << last) != 0;
                (may_be || *descendant && state.inside) && name.matches(attribute)
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
            // `b#2` is the second child of that name, `b{x=v}` one with that attribute.
            let (element, with) = element.split_once('{').unwrap_or((element, ""));
            let (element, at) = element.split_once('#').unwrap_or((element, "1"));
            let mut entered = path.enter(&mut state, element.as_bytes());
            for _ in 1..at.parse().unwrap() {
                entered = path.enter(&mut state, element.as_bytes());
            }
            for (name, value) in
                with.trim_end_matches('}').split(',').filter_map(|a| a.split_once('='))
            {
                path.note_attribute(&mut entered, name.as_bytes(), value.as_bytes());
            }
            state = entered;
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
            ("/a/b[text()]", &["a b", "a b c"], &["a"]),
            ("//*[local-name()='b']", &["b", "a s:b", "a b c"], &["a"]),
            ("//a/*[ name() = \"b\" ]/c", &["a b c"], &["a d c"]),
            ("/a/b[2]", &["a b#2", "a b#2 c"], &["a b", "a b#3"]),
            ("//b[2]/c[1]", &["a b#2 c", "x y b#2 c"], &["a b c", "a b#2 c#2"]),
            ("/a/*[3]", &["a b#3"], &["a b#2"]),
            ("/a/b[@x]/c", &["a b{x=1} c", "a b{y=2,n:x=} c"], &["a b c", "a b{y=1} c"]),
            ("//b[@x='1/2]']", &["a b{x=1/2]}", "b{x=1/2]} c"], &["a b{x=2}", "b"]),
            ("//b[1][@x='1']/text()", &["a b{x=1}"], &["a b#2{x=1}", "a b{x=2}", "a b{x=1} c"]),
            ("/a[@x]/@y", &["a{x=1} @y"], &["a{x=1} @x", "b{x=1} @y"]),
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
            "/a[0]",
            "/a[last()]",
            "/a[1",
            "/a[b]",
            "/a[@x][1]",
            "/a[@x][@y]",
            "/a[@x='1' or @y]",
            "/a[@x=1]",
            "/a[text()='b']",
            "/a[1]b",
            "/a[1]/b[1]/c[1]/d[1]/e[1]",
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

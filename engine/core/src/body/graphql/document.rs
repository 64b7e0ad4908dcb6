//! One GraphQL document: its values as arguments, its size as measures.
//!
//! The reader goes through the document once, with a stack for open selection sets, lists and objects. A second time
//! is needed where variables have defaults: a fragment may stand before the operation that says them.
//!
//! Source: GraphQL specification (September 2025), section 2 "Language".
#![deny(clippy::indexing_slicing)]

use super::{
    lexer::{Lexer, Malformed, Token, read_block_string, read_string},
    measure::{Definition, HIGHEST, Measures, Spread, Totals, sum},
    numbers::{Numbers, integer, is_page},
};
use crate::{
    body::{BodySink, NameBudget, Room, json},
    limits::Limits,
};

/// Why the reading of a document has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is not GraphQL.
    Malformed,
    /// It is nested too deep.
    Depth,
    /// It has too many tokens, with those before it in the same request.
    Tokens,
    /// Names of fields and arguments are too long, for how often they are repeated.
    Names,
    /// No more arguments are kept.
    Full,
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// State shared by all documents of one request: limits, budgets and the sink.
pub(super) struct Context<'c> {
    pub(super) limits: &'c Limits,
    pub(super) names: &'c mut NameBudget,
    /// Tokens that may still be read.
    pub(super) tokens_left: usize,
    pub(super) sink: &'c mut dyn BodySink,
}

/// Reports the values of a document as arguments whose names begin with `name`, and measures it. `numbers` are those
/// of the variables that came with it.
pub(super) fn read(
    name: &[u8],
    document: &[u8],
    numbers: &Numbers,
    element: usize,
    context: &mut Context<'_>,
) -> (Measures, Result<(), Stop>) {
    let has_defaults = memchr::memchr(b'$', document)
        .is_some_and(|at| memchr::memchr(b'=', document.get(at..).unwrap_or_default()).is_some());
    let mut defaults = Numbers::default();
    if has_defaults {
        let mut first = Reader::new(name, document, numbers, element, context, false);
        // An error comes again, and is reported then.
        let _ = first.document();
        defaults = first.defaults;
    }
    let mut reader = Reader::new(name, document, numbers, element, context, true);
    reader.defaults = defaults;
    let mut result = reader.document();
    let mut measures = reader.measures;
    measures.tokens = reader.lexer.count as u64;
    let comments = core::mem::take(&mut reader.lexer.comments);
    if !comments.is_empty() {
        // A document that could not be read is reported as it is, comments included.
        reader.name.truncate(name.len());
        reader.name.extend_from_slice(b".comment");
        result = result.and_then(|()| reader.argument(comments.trim_ascii()));
    }
    let count = reader.lexer.count;
    let (totals, in_order) = sum(reader.definitions, &reader.spreads);
    context.tokens_left = context.tokens_left.saturating_sub(count);
    measures.depth = totals.depth;
    measures.aliases = totals.aliases;
    measures.root_fields = totals.root_fields;
    measures.cost = totals.cost;
    match result {
        Err(Stop::Depth) => measures.depth = HIGHEST,
        Err(Stop::Tokens) => measures.tokens = HIGHEST,
        Err(Stop::Malformed | Stop::Names | Stop::Full) | Ok(()) => {}
    }
    measures.malformed = result.is_err() || !in_order;
    (measures, result)
}

/// An open selection set.
#[derive(Clone, Copy, Debug)]
struct Selection {
    /// Fields that it is within.
    depth: u64,
    /// How often a server may have to resolve each of its fields.
    weight: u64,
    /// Whether its fields are those of the definition itself.
    is_root: bool,
    is_empty: bool,
}

/// An open list or object of a value.
#[derive(Clone, Copy, Debug)]
struct Container {
    name_len: usize,
    /// Index of the next element; nothing in an object.
    next_index: Option<usize>,
    is_empty: bool,
    /// Whether an integer in it says how long a list is.
    is_page: bool,
}

/// Where the numbers of a value count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use<'d> {
    /// They say how many elements a field has.
    Field,
    /// They are the default of a variable.
    Default(&'d [u8]),
    Directive,
}

struct Reader<'r, 'd, 'c> {
    lexer: Lexer<'d>,
    ahead: Option<Token<'d>>,
    /// Bytes that the names of arguments begin with.
    prefix: usize,
    name: Vec<u8>,
    value: Vec<u8>,
    selections: Vec<Selection>,
    containers: Vec<Container>,
    definitions: Vec<Definition<'d>>,
    spreads: Vec<Spread<'d>>,
    totals: Totals,
    measures: Measures,
    numbers: &'r Numbers,
    element: usize,
    defaults: Numbers,
    context: &'r mut Context<'c>,
    reports: bool,
}

type Step<T = ()> = Result<T, Stop>;

impl<'r, 'd, 'c> Reader<'r, 'd, 'c> {
    fn new(
        prefix: &[u8],
        document: &'d [u8],
        numbers: &'r Numbers,
        element: usize,
        context: &'r mut Context<'c>,
        reports: bool,
    ) -> Self {
        Self {
            lexer: Lexer::new(document),
            ahead: None,
            prefix: prefix.len(),
            name: prefix.to_vec(),
            value: Vec::new(),
            selections: Vec::new(),
            containers: Vec::new(),
            definitions: Vec::new(),
            spreads: Vec::new(),
            totals: Totals::default(),
            measures: Measures::default(),
            numbers,
            element,
            defaults: Numbers::default(),
            context,
            reports,
        }
    }

    fn next(&mut self) -> Step<Token<'d>> {
        if let Some(token) = self.ahead.take() {
            return Ok(token);
        }
        let token = self.lexer.next()?;
        if self.lexer.count > self.context.tokens_left {
            return Err(Stop::Tokens);
        }
        Ok(token)
    }

    fn peek(&mut self) -> Step<Token<'d>> {
        let token = self.next()?;
        self.ahead = Some(token);
        Ok(token)
    }

    /// Takes a punctuator if it is the next token.
    fn takes(&mut self, punctuator: u8) -> Step<bool> {
        let is_next = self.peek()? == Token::Punctuator(punctuator);
        if is_next {
            self.ahead = None;
        }
        Ok(is_next)
    }

    fn expect(&mut self, punctuator: u8) -> Step {
        if self.takes(punctuator)? { Ok(()) } else { Err(Stop::Malformed) }
    }

    fn expect_name(&mut self) -> Step<&'d [u8]> {
        match self.next()? {
            Token::Name(name) => Ok(name),
            _ => Err(Stop::Malformed),
        }
    }

    fn document(&mut self) -> Step {
        let mut is_empty = true;
        loop {
            let described = self.description()?;
            match self.next()? {
                Token::End if !described && !is_empty => return Ok(()),
                Token::Punctuator(b'{') if !described => self.definition(None)?,
                Token::Name(b"query" | b"mutation" | b"subscription") => self.operation()?,
                Token::Name(b"fragment") => {
                    let name = self.expect_name()?;
                    if name == b"on" || self.expect_name()? != b"on" {
                        return Err(Stop::Malformed);
                    }
                    self.expect_name()?;
                    self.directives()?;
                    self.expect(b'{')?;
                    self.definition(Some(name))?;
                }
                _ => return Err(Stop::Malformed),
            }
            is_empty = false;
        }
    }

    /// A string that says what follows is for (section 2.2, "Descriptions").
    fn description(&mut self) -> Step<bool> {
        let is_there = matches!(self.peek()?, Token::String(_) | Token::BlockString(_));
        if is_there {
            let token = self.next()?;
            self.begin_name(b"description");
            self.leaf(token)?;
        }
        Ok(is_there)
    }

    /// Reads an operation from behind `query`, `mutation` or `subscription`.
    fn operation(&mut self) -> Step {
        if let Token::Name(name) = self.peek()? {
            self.ahead = None;
            self.begin_name(b"operation");
            self.argument(name)?;
        }
        if self.takes(b'(')? {
            self.variable_definitions()?;
        }
        self.directives()?;
        self.expect(b'{')?;
        self.definition(None)
    }

    fn variable_definitions(&mut self) -> Step {
        let mut is_empty = true;
        while !self.takes(b')')? {
            self.description()?;
            self.expect(b'$')?;
            let name = self.expect_name()?;
            self.expect(b':')?;
            self.type_reference()?;
            if self.takes(b'=')? {
                self.begin_name(b"variables");
                self.push_name(name);
                self.value(Use::Default(name), false)?;
            }
            self.directives()?;
            is_empty = false;
        }
        if is_empty { Err(Stop::Malformed) } else { Ok(()) }
    }

    fn type_reference(&mut self) -> Step {
        let mut open = 0;
        while self.takes(b'[')? {
            open += 1;
            if open > self.context.limits.graphql_depth_max {
                return Err(Stop::Depth);
            }
        }
        self.expect_name()?;
        self.takes(b'!')?;
        for _ in 0..open {
            self.expect(b']')?;
            self.takes(b'!')?;
        }
        Ok(())
    }

    fn directives(&mut self) -> Step {
        while self.takes(b'@')? {
            self.measures.directives += 1;
            let name = self.expect_name()?;
            if self.takes(b'(')? {
                self.arguments(name, Use::Directive)?;
            }
        }
        Ok(())
    }

    /// The selection set of an operation or a fragment, whose brace is open.
    fn definition(&mut self, fragment: Option<&'d [u8]>) -> Step {
        let first_spread = self.spreads.len();
        self.totals = Totals::default();
        let result = self.selection_set();
        // Of a document that cannot be read to its end, what there is counts.
        let spreads = first_spread..self.spreads.len();
        self.definitions.push(Definition { fragment, totals: self.totals, spreads });
        result
    }

    fn selection_set(&mut self) -> Step {
        self.selections.clear();
        self.open(Selection { depth: 0, weight: 1, is_root: true, is_empty: true })?;
        while let Some(selection) = self.selections.last_mut() {
            let current = *selection;
            selection.is_empty = false;
            match self.next()? {
                Token::Punctuator(b'}') if !current.is_empty => _ = self.selections.pop(),
                Token::Spread => self.spread(current)?,
                Token::Name(name) => self.field(name, current)?,
                _ => return Err(Stop::Malformed),
            }
        }
        Ok(())
    }

    fn open(&mut self, selection: Selection) -> Step {
        if self.selections.len() >= self.context.limits.graphql_depth_max {
            return Err(Stop::Depth);
        }
        self.selections.push(selection);
        Ok(())
    }

    /// A fragment's name, or a fragment without one.
    fn spread(&mut self, within: Selection) -> Step {
        match self.peek()? {
            Token::Name(name) if name != b"on" => {
                self.ahead = None;
                let Selection { depth, weight, is_root, .. } = within;
                self.spreads.push(Spread { fragment: name, depth, weight, is_root });
                return self.directives();
            }
            Token::Name(_) => {
                self.ahead = None;
                self.expect_name()?;
            }
            _ => {}
        }
        self.directives()?;
        self.expect(b'{')?;
        self.open(Selection { is_empty: true, ..within })
    }

    fn field(&mut self, name: &'d [u8], within: Selection) -> Step {
        let mut name = name;
        if self.takes(b':')? {
            self.totals.aliases += 1;
            name = self.expect_name()?;
        }
        self.totals.root_fields += u64::from(within.is_root);
        self.totals.depth = self.totals.depth.max(within.depth + 1);
        self.totals.cost = self.totals.cost.saturating_add(within.weight);
        self.measures.introspection += u64::from(name == b"__schema" || name == b"__type");
        let elements = if self.takes(b'(')? { self.arguments(name, Use::Field)? } else { 1 };
        self.directives()?;
        if !self.takes(b'{')? {
            return Ok(());
        }
        self.open(Selection {
            depth: within.depth + 1,
            weight: within.weight.saturating_mul(elements),
            is_root: false,
            is_empty: true,
        })
    }

    /// The arguments of a field or a directive. Returns how many elements they ask for.
    fn arguments(&mut self, of: &[u8], counts: Use<'d>) -> Step<u64> {
        let mut elements = 1;
        let mut is_empty = true;
        while !self.takes(b')')? {
            let name = self.expect_name()?;
            self.expect(b':')?;
            self.begin_name(of);
            self.push_name(name);
            elements = self.value(counts, is_page(name))?.max(elements);
            is_empty = false;
        }
        if is_empty { Err(Stop::Malformed) } else { Ok(elements) }
    }

    /// A value, whose name has been pushed. Returns the highest number of elements that it asks for.
    fn value(&mut self, counts: Use<'d>, is_page_name: bool) -> Step<u64> {
        let mut elements = 1;
        self.containers.clear();
        let mut is_current_page = is_page_name;
        loop {
            let token = self.next()?;
            let opened = match token {
                Token::Punctuator(b'[') => Some(Some(0)),
                Token::Punctuator(b'{') => Some(None),
                Token::Punctuator(b'$') => {
                    let variable = self.expect_name()?;
                    elements = elements.max(self.variable(variable, counts, is_current_page));
                    None
                }
                Token::Int(text) => {
                    elements = elements.max(self.number(text, counts, is_current_page));
                    self.leaf(token)?;
                    None
                }
                Token::Float(_) | Token::String(_) | Token::BlockString(_) | Token::Name(_) => {
                    self.leaf(token)?;
                    None
                }
                Token::Punctuator(_) | Token::Spread | Token::End => return Err(Stop::Malformed),
            };
            if let Some(next_index) = opened {
                if self.containers.len() >= self.context.limits.graphql_depth_max {
                    return Err(Stop::Depth);
                }
                let name_len = self.name.len();
                let is_page = is_current_page;
                let container = Container { name_len, next_index, is_empty: true, is_page };
                self.containers.push(container);
            }
            match self.next_member()? {
                Some(is_page) => is_current_page = is_page,
                None => return Ok(elements),
            }
        }
    }

    /// Goes on to the next element or field within what is open, and closes what ends. Returns whether an integer there
    /// says how long a list is; nothing where the whole value has ended.
    fn next_member(&mut self) -> Step<Option<bool>> {
        while let Some(&container) = self.containers.last() {
            let end = if container.next_index.is_some() { b']' } else { b'}' };
            self.name.truncate(container.name_len);
            if self.takes(end)? {
                self.containers.pop();
                if container.is_empty {
                    self.argument(b"")?;
                }
                continue;
            }
            let mut is_page_name = container.is_page;
            match container.next_index {
                Some(index) => {
                    self.name.extend_from_slice(b".array_");
                    json::push_decimal(index, &mut self.name);
                }
                None => {
                    let name = self.expect_name()?;
                    self.expect(b':')?;
                    self.push_name(name);
                    is_page_name = is_page(name);
                }
            }
            if let Some(container) = self.containers.last_mut() {
                container.is_empty = false;
                container.next_index = container.next_index.map(|index| index + 1);
            }
            return Ok(Some(is_page_name));
        }
        Ok(None)
    }

    /// An integer. Returns the number of elements that it asks for.
    fn number(&mut self, text: &[u8], counts: Use<'d>, is_page: bool) -> u64 {
        match counts {
            Use::Default(variable) => {
                self.defaults.note(0, variable, integer(text), self.containers.is_empty(), is_page);
                1
            }
            Use::Field if is_page => integer(text),
            Use::Field | Use::Directive => 1,
        }
    }

    /// The number of elements that the value of a variable asks for.
    fn variable(&self, name: &[u8], counts: Use<'d>, is_page: bool) -> u64 {
        match counts {
            Use::Field => {
                let sent = self.numbers.elements(self.element, name, is_page);
                sent.or_else(|| self.defaults.elements(0, name, is_page)).unwrap_or(1)
            }
            Use::Default(_) | Use::Directive => 1,
        }
    }

    /// Reports a value that is no list and no object, as it is or with escapes undone.
    fn leaf(&mut self, token: Token<'d>) -> Step {
        let mut value = core::mem::take(&mut self.value);
        value.clear();
        let result = match token {
            Token::String(content) => read_string(content, &mut value).map_err(Stop::from),
            Token::BlockString(content) => {
                read_block_string(content, &mut value);
                Ok(())
            }
            // Empty, as in JSON.
            Token::Name(b"null") => Ok(()),
            Token::Int(text) | Token::Float(text) | Token::Name(text) => {
                value.extend_from_slice(text);
                Ok(())
            }
            Token::Punctuator(_) | Token::Spread | Token::End => Err(Stop::Malformed),
        };
        let result = result.and_then(|()| self.argument(&value));
        self.value = value;
        result
    }

    fn begin_name(&mut self, name: &[u8]) {
        self.name.truncate(self.prefix);
        self.push_name(name);
    }

    fn push_name(&mut self, name: &[u8]) {
        self.name.push(b'.');
        self.name.extend_from_slice(name);
    }

    fn argument(&mut self, value: &[u8]) -> Step {
        if !self.reports {
            return Ok(());
        }
        if !self.context.names.take(&self.name) {
            return Err(Stop::Names);
        }
        match self.context.sink.argument(&self.name, value) {
            Room::Left => Ok(()),
            Room::Full => Err(Stop::Full),
        }
    }
}

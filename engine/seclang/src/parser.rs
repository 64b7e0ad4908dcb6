//! Logical lines → directives.
//!
//! One directive at a time: its line is split into arguments, its name selects the grammar of the
//! arguments. A directive with an error is left out of the tree, its errors are recorded, and
//! reading goes on with the next line.

mod actions;
mod cursor;
mod ids;
mod operator;
mod targets;

use std::ops::Range;

use crate::ast::{Directive, DirectiveKind, Rule, Target};
use crate::error::SyntaxError;
use crate::lexer::{self, Argument, DIRECTIVE_BYTES_MAX, Lines, LogicalLine};
use crate::span::{SourceId, Span, Text};
use crate::traced::{Traced, is_blank, offset_of};

/// The longest source that is read, in bytes: 64 MiB. A longer one is refused as a whole.
pub const SOURCE_BYTES_MAX: usize = 64 << 20;

/// How many errors of one source are recorded: 100. Reading goes on after that, so that the tree
/// does not depend on the limit.
pub const ERRORS_MAX: usize = 100;

/// What [`parse`] made of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parse {
    /// The directives without an error, in the order written.
    pub directives: Vec<Directive>,
    /// What could not be read, in the order written; at most [`ERRORS_MAX`]. A caller that wants a
    /// whole rule set refuses the source when this is not empty.
    pub errors: Vec<SyntaxError>,
}

/// Reads a list of targets that stands inside of another text, such as the one behind the semicolon of
/// `ctl:ruleRemoveTargetById=1;ARGS:x`. Spans begin at `span`'s start.
///
/// # Errors
/// What is malformed, as for the first argument of a rule.
pub fn parse_targets(text: &str, span: Span) -> Result<Vec<Target>, String> {
    let mut traced = Traced::new(span.source, span.start);
    traced.push(text, span.start);
    targets::targets(&traced).map_err(|error| error.message)
}

/// Reads SecLang.
///
/// Total and linear in the length of `text`: it never panics, does no I/O and has no recursion.
/// Limits: [`SOURCE_BYTES_MAX`], [`DIRECTIVE_BYTES_MAX`], [`ERRORS_MAX`].
///
/// `source` is copied into every span. Names are not interpreted, and `Include` is not followed.
///
/// The syntax is that of ModSecurity's reference manual as Apache, ModSecurity 3 and Coraza read
/// it; where they differ, the module `lexer` says which one is followed.
#[must_use]
pub fn parse(source: SourceId, text: &str) -> Parse {
    let mut parser =
        Parser { source, lines: Lines::new(source, text), parse: Parse::default(), containers: 0 };
    if text.len() > SOURCE_BYTES_MAX {
        parser.error(SyntaxError::new(
            parser.span(&(0..0)),
            format!(
                "the source has {} bytes, more than the {SOURCE_BYTES_MAX} allowed: split it into \
                 several files",
                text.len()
            ),
        ));
        return parser.parse;
    }
    while let Some(line) = parser.lines.logical() {
        if let Err(error) = parser.line(&line) {
            parser.error(error);
        }
    }
    parser.parse
}

struct Parser<'t> {
    source: SourceId,
    lines: Lines<'t>,
    parse: Parse,
    /// How many `<Container>`s are open, so that their ends are not errors of their own.
    containers: u32,
}

impl Parser<'_> {
    fn error(&mut self, error: SyntaxError) {
        if self.parse.errors.len() < ERRORS_MAX {
            self.parse.errors.push(error);
        }
    }

    fn span(&self, range: &Range<usize>) -> Span {
        let (start, end) = (offset_of(range.start), offset_of(range.end));
        Span { source: self.source, start, end }
    }

    fn line(&mut self, line: &LogicalLine) -> Result<(), SyntaxError> {
        let text = &line.text;
        if text.as_str().starts_with('<') {
            return self.container(text);
        }
        if line.too_long {
            return Err(too_long(text.span(0..first_word_len(text))));
        }
        let name = name(text)?;
        if let Some(backslash) = &line.dangling {
            return Err(SyntaxError::new(
                self.span(backslash),
                "nothing follows the backslash that continues the line: remove it, or write the rest \
                 of the directive",
            ));
        }
        let mut arguments = lexer::arguments(text, name.text.len())?;
        let has_block = arguments.last().is_some_and(|last| last.opens_block);
        if has_block {
            self.block(&mut arguments)?;
        }
        let call = Call { name, arguments: &arguments };
        let kind = self.kind(&call)?;
        if has_block && !matches!(kind, DirectiveKind::Setting(_)) {
            return Err(SyntaxError::new(
                call.name.span,
                format!(
                    "`{}` takes no block in backticks: write its arguments in double quotes, with \
                     `\\` at the end of each line but the last",
                    call.name.text
                ),
            ));
        }
        let mut span = call.name.span;
        span.end = call.arguments.last().map_or(span.end, |last| last.span.end);
        self.parse.directives.push(Directive { span, name: call.name, kind });
        Ok(())
    }

    /// Replaces the backtick that opens a block, the last argument, by the block.
    fn block(&mut self, arguments: &mut [Argument]) -> Result<(), SyntaxError> {
        let Some(last) = arguments.last_mut() else { return Ok(()) };
        let Ok(block) = self.lines.block() else {
            return Err(SyntaxError::new(
                last.span,
                "the block is not closed: begin a later line with a backtick",
            ));
        };
        if block.too_long {
            return Err(too_long(last.span));
        }
        if !block.extra.is_empty() {
            return Err(SyntaxError::new(
                self.span(&block.extra),
                "text follows the backtick that closes the block: put it on a line of its own",
            ));
        }
        last.span.end = block.end;
        last.text = block.text;
        Ok(())
    }

    fn container(&mut self, text: &Traced) -> Result<(), SyntaxError> {
        let is_end = text.as_str().starts_with("</");
        if is_end && self.containers > 0 {
            self.containers -= 1;
            return Ok(());
        }
        self.containers += u32::from(!is_end);
        Err(SyntaxError::new(
            text.span(text.whole()),
            "Apache's containers such as `<IfModule>` and `<Location>` are not supported: remove \
             the line and the one that closes it, and select requests with a rule on REQUEST_FILENAME",
        ))
    }

    /// The grammar of each directive.
    fn kind(&mut self, call: &Call<'_>) -> Result<DirectiveKind, SyntaxError> {
        let text = |argument: &Argument| argument.text.to_text();
        Ok(match call.name.text.to_ascii_lowercase().as_str() {
            "secrule" => DirectiveKind::Rule(self.rule(call)?),
            "secaction" => DirectiveKind::Action(call.action_list("SecAction \"ACTIONS\"")?),
            "secdefaultaction" => {
                DirectiveKind::DefaultAction(call.action_list("SecDefaultAction \"ACTIONS\"")?)
            }
            "secmarker" => {
                let [name] = call.exactly("SecMarker NAME")?;
                DirectiveKind::Marker(text(name))
            }
            "include" => {
                let [path] = call.exactly("Include PATH")?;
                DirectiveKind::Include { path: text(path), optional: false }
            }
            "includeoptional" => {
                let [path] = call.exactly("IncludeOptional PATH")?;
                DirectiveKind::Include { path: text(path), optional: true }
            }
            "secruleremovebyid" => {
                call.at_least(1, "SecRuleRemoveById ID|FROM-TO …")?;
                DirectiveKind::RemoveById(ids::lists(call.arguments)?)
            }
            "secruleremovebytag" => {
                let [pattern] = call.exactly("SecRuleRemoveByTag PATTERN")?;
                DirectiveKind::RemoveByTag(text(pattern))
            }
            "secruleremovebymsg" => {
                let [pattern] = call.exactly("SecRuleRemoveByMsg PATTERN")?;
                DirectiveKind::RemoveByMsg(text(pattern))
            }
            "secruleupdatetargetbyid" => update_target_by_id(call)?,
            "secruleupdatetargetbytag" => {
                let (pattern, targets) = call.pattern_and_targets("SecRuleUpdateTargetByTag")?;
                DirectiveKind::UpdateTargetByTag { pattern, targets }
            }
            "secruleupdatetargetbymsg" => {
                let (pattern, targets) = call.pattern_and_targets("SecRuleUpdateTargetByMsg")?;
                DirectiveKind::UpdateTargetByMsg { pattern, targets }
            }
            "secruleupdateactionbyid" => {
                let [id, actions] = call.exactly("SecRuleUpdateActionById ID \"ACTIONS\"")?;
                let (id, offset) = ids::with_offset(&id.text)?;
                let actions = actions::non_empty(&actions.text)?;
                DirectiveKind::UpdateActionById { id, offset, actions }
            }
            _ => DirectiveKind::Setting(call.arguments.iter().map(text).collect()),
        })
    }

    /// A rule. Each of its arguments is read even if another one is wrong, to show all errors.
    fn rule(&mut self, call: &Call<'_>) -> Result<Rule, SyntaxError> {
        const USAGE: &str = "SecRule TARGETS \"OPERATOR\" \"ACTIONS\"";
        call.at_least(2, USAGE)?;
        call.at_most(3, USAGE)?;
        let [first, second, rest @ ..] = call.arguments else {
            return Err(call.missing(2, USAGE));
        };
        let mut errors = Vec::new();
        let targets = targets::targets(&first.text).map_err(|error| errors.push(error));
        let operator = operator::operator(&second.text).map_err(|error| errors.push(error));
        let actions = match rest.first() {
            Some(third) => actions::actions(&third.text).map_err(|error| errors.push(error)),
            None => Ok(Vec::new()),
        };
        if let (Ok(targets), Ok(operator), Ok(actions)) = (targets, operator, actions) {
            return Ok(Rule { targets, operator, actions });
        }
        let Some(last) = errors.pop() else { return Err(call.missing(2, USAGE)) };
        for error in errors {
            self.error(error);
        }
        Err(last)
    }
}

fn first_word_len(line: &Traced) -> usize {
    line.as_str().bytes().take_while(|byte| !is_blank(*byte)).count()
}

/// The name a line begins with.
fn name(line: &Traced) -> Result<Text, SyntaxError> {
    let bytes = line.as_str().as_bytes();
    let len = first_word_len(line);
    let first = bytes.first().copied().unwrap_or_default();
    if matches!(first, b'"' | b'\'' | b'`') {
        return Err(SyntaxError::new(
            line.span(0..len),
            "a line cannot begin with a quote: if it belongs to the line before, end that one with \
             `\\`",
        ));
    }
    let is_name = first.is_ascii_alphabetic()
        && bytes.iter().take(len).all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if !is_name {
        return Err(SyntaxError::new(
            line.span(0..len),
            "this is not the name of a directive: a line begins with a name such as `SecRule`, \
             or with `#` for a comment; a continued line needs `\\` at the end of the one before",
        ));
    }
    Ok(line.text(0..len))
}

fn too_long(span: Span) -> SyntaxError {
    SyntaxError::new(
        span,
        format!(
            "the directive is longer than {DIRECTIVE_BYTES_MAX} bytes: split it, or move its data \
             to a file for `@pmFromFile`"
        ),
    )
}

/// A directive's name with its arguments, before they are understood.
struct Call<'a> {
    name: Text,
    arguments: &'a [Argument],
}

impl<'a> Call<'a> {
    fn missing(&self, count: usize, usage: &str) -> SyntaxError {
        let name = &self.name.text;
        let plural = if count == 1 { "" } else { "s" };
        SyntaxError::new(
            self.name.span,
            format!(
                "`{name}` needs {count} argument{plural} but has {}: write `{usage}`",
                self.arguments.len()
            ),
        )
    }

    fn at_least(&self, count: usize, usage: &str) -> Result<(), SyntaxError> {
        if self.arguments.len() < count { Err(self.missing(count, usage)) } else { Ok(()) }
    }

    fn at_most(&self, count: usize, usage: &str) -> Result<(), SyntaxError> {
        let Some(extra) = self.arguments.get(count) else { return Ok(()) };
        Err(SyntaxError::new(
            extra.span,
            format!(
                "this is one argument too many for `{}`: write `{usage}`, and put an argument with \
                 white space in double quotes",
                self.name.text
            ),
        ))
    }

    fn exactly<const N: usize>(&self, usage: &str) -> Result<&'a [Argument; N], SyntaxError> {
        self.at_most(N, usage)?;
        self.arguments.try_into().map_err(|_| self.missing(N, usage))
    }

    fn action_list(&self, usage: &str) -> Result<Vec<crate::ast::Action>, SyntaxError> {
        let [actions] = self.exactly(usage)?;
        actions::non_empty(&actions.text)
    }

    fn pattern_and_targets(&self, name: &str) -> Result<(Text, Vec<Target>), SyntaxError> {
        self.no_replaced_target(2)?;
        let [pattern, targets] = self.exactly(&format!("{name} PATTERN TARGETS"))?;
        Ok((pattern.text.to_text(), targets::targets(&targets.text)?))
    }

    /// ModSecurity 2 has a third argument with which the targets are replaced. ModSecurity 3 and
    /// Coraza have not, and neither do we: to overlook it would leave the rule unchanged.
    fn no_replaced_target(&self, position: usize) -> Result<(), SyntaxError> {
        let Some(replaced) = self.arguments.get(position) else { return Ok(()) };
        Err(SyntaxError::new(
            replaced.span,
            format!(
                "`{}` takes no third argument (REPLACED_TARGET of ModSecurity 2): take a target \
                 away with `!TARGET`, and add another one with a directive of its own",
                self.name.text
            ),
        ))
    }
}

/// `SecRuleUpdateTargetById`: all arguments but the last are ids, as Coraza has it.
fn update_target_by_id(call: &Call<'_>) -> Result<DirectiveKind, SyntaxError> {
    const USAGE: &str = "SecRuleUpdateTargetById ID|FROM-TO TARGETS";
    call.at_least(2, USAGE)?;
    let Some((targets, ids)) = call.arguments.split_last() else {
        return Err(call.missing(2, USAGE));
    };
    // The first argument is in the place of ids whatever it looks like; from the second one on,
    // what does not look like an id is the targets, and what follows it their replacement.
    let more_ids = ids.get(1..).unwrap_or_default();
    if let Some(i) = more_ids.iter().position(|argument| !ids::begins_id(&argument.text)) {
        call.no_replaced_target(i + 2)?;
    }
    let ids = ids::lists(ids)?;
    Ok(DirectiveKind::UpdateTargetById { ids, targets: targets::targets(&targets.text)? })
}

//! SecLang text → syntax tree.
//!
//! The one entry is [`parse`]. It is total: whatever the text, it returns what it could read and a
//! list of errors, each with the place where it stands; it never panics and does no I/O.
//! `Include` is a node of the tree: following it is the caller's affair.
//!
//! Every node has the [`Span`] it was written in, exact to the byte also where lines are continued
//! and quotes escaped. Nodes print as canonical SecLang (`Display`); parsing that again gives the
//! same tree apart from spans.
//!
//! ```
//! use seclang::{DirectiveKind, SourceId, parse};
//!
//! let text = "SecRule ARGS|!ARGS:token \"@rx select\" \\\n    \"id:1,phase:2,deny\"\n";
//! let parse = parse(SourceId(0), text);
//! assert!(parse.errors.is_empty());
//! let DirectiveKind::Rule(rule) = &parse.directives[0].kind else { unreachable!() };
//! assert_eq!(rule.targets.len(), 2);
//! assert_eq!(rule.operator.argument.text, "select");
//! assert_eq!(
//!     parse.directives[0].to_string(),
//!     "SecRule ARGS|!ARGS:token \"@rx select\" \"id:1,phase:2,deny\""
//! );
//! ```
//!
//! A directive with an error is left out, and the others are read all the same:
//!
//! ```
//! use seclang::{LineIndex, SourceId, parse};
//!
//! let text = "SecRule ARGS|  \"@rx x\" \"id:1\"\nSecMarker END\n";
//! let parse = parse(SourceId(0), text);
//! assert_eq!(parse.directives.len(), 1);
//! assert_eq!(parse.directives[0].name.text, "SecMarker");
//! // Where it stands, as line and column; a `Snippet` shows it to people.
//! assert_eq!(LineIndex::new(text).line_column(parse.errors[0].span.start), (1, 14));
//! ```

mod ast;
mod error;
mod lexer;
mod parser;
mod print;
mod span;
mod traced;

pub use ast::{Action, Directive, DirectiveKind, IdRange, Operator, Rule, Selector, Target};
pub use error::{LineIndex, Snippet, SyntaxError};
pub use lexer::DIRECTIVE_BYTES_MAX;
pub use parser::{ERRORS_MAX, Parse, SOURCE_BYTES_MAX, parse, parse_targets};
pub use span::{SourceId, Span, Text};

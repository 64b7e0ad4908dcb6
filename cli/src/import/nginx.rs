//! nginx's own configuration: where it switches ModSecurity on, and for whom.

use std::path::Path;

use glacis_engine::Source as _;
use glacis_rules::FileSource;

use super::{Given, Piece};

/// Blocks within blocks, and files within files.
const DEPTH_MAX: usize = 32;

/// Files that one configuration may include.
const FILES_MAX: usize = 10_000;

/// Whether a text is nginx's: it says something to the module of ModSecurity, or has blocks of servers.
pub(super) fn is_nginx(text: &str) -> bool {
    let first_word = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let mut words = text.lines().map(first_word);
    words.any(|word| {
        matches!(
            word.trim_end_matches('{'),
            "modsecurity"
                | "modsecurity_rules"
                | "modsecurity_rules_file"
                | "http"
                | "server"
                | "location"
        )
    })
}

/// One directive: its words, its block, and where it is.
#[derive(Debug)]
struct Directive {
    words: Vec<String>,
    block: Vec<Self>,
    file: String,
    line: usize,
}

/// What is set for a part of the traffic.
#[derive(Debug, Default)]
struct Context {
    is_on: Option<bool>,
    pieces: Vec<Piece>,
    lost: Vec<String>,
}

/// The rulesets that an nginx.conf uses: that of everything, and those of servers and locations.
pub(super) fn rulesets(text: &str, file: &Path) -> Vec<Given> {
    let file = file.display().to_string();
    let mut files = 0;
    let directives = Parser::new(text, &file).block(0, &mut files, &file);
    let mut contexts = Vec::new();
    collect(&directives, &[], &mut contexts, 0);
    rulesets_of(&contexts)
}

/// A place in the configuration, as the servers and locations that it is in.
type Place = Vec<String>;

fn collect(
    directives: &[Directive],
    place: &[String],
    contexts: &mut Vec<(Place, Context)>,
    depth: usize,
) {
    let mut context = Context::default();
    let mut inner = Vec::new();
    for directive in directives {
        let word = |index: usize| directive.words.get(index).map_or("", String::as_str);
        let by = &directive.file;
        let text = || format!("{} ({by}:{})", directive.words.join(" "), directive.line);
        match word(0) {
            "modsecurity" => context.is_on = Some(word(1) == "on"),
            "modsecurity_rules" => context.pieces.push(Piece::Text {
                text: word(1).to_owned(),
                file: by.clone(),
                line: directive.line,
            }),
            "modsecurity_rules_file" => {
                context.pieces.push(Piece::File { path: word(1).to_owned(), by: by.clone() });
            }
            "modsecurity_rules_remote" => {
                context.lost.push(format!("{}: rules are files; fetch them beforehand", text()));
            }
            "modsecurity_transaction_id" => {
                let why = "requests go by the name that Envoy gives them, x-request-id";
                context.lost.push(format!("{}: {why}", text()));
            }
            "modsecurity_use_error_log" => {
                context.lost.push(format!("{}: logs are configured in ext-proc", text()));
            }
            "http" | "stream" if !directive.block.is_empty() => {
                inner.push((place.to_vec(), directive))
            }
            "server" | "location" | "if" | "limit_except" if !directive.block.is_empty() => {
                inner.push(([place, &[name_of(directive)]].concat(), directive));
            }
            _ => {}
        }
    }
    let is_used = context.is_on.is_some() || !context.pieces.is_empty() || !context.lost.is_empty();
    if is_used {
        contexts.push((place.to_vec(), context));
    }
    for (place, directive) in inner.into_iter().filter(|_| depth < DEPTH_MAX) {
        collect(&directive.block, &place, contexts, depth + 1);
    }
}

/// How a block is called: its host, or its path.
fn name_of(directive: &Directive) -> String {
    let server_name = || {
        let named = directive
            .block
            .iter()
            .find(|it| it.words.first().is_some_and(|word| word == "server_name"));
        named.and_then(|it| it.words.get(1)).cloned().unwrap_or_else(|| "server".to_owned())
    };
    match directive.words.first().map(String::as_str) {
        Some("server") => server_name(),
        Some("location") => directive.words.get(1..).unwrap_or_default().join(" "),
        _ => directive.words.join(" "),
    }
}

/// Each context as a ruleset: libmodsecurity adds the rules of the contexts around it behind its own.
fn rulesets_of(contexts: &[(Place, Context)]) -> Vec<Given> {
    let mut given = Vec::new();
    for (index, (place, context)) in contexts.iter().enumerate() {
        let around = contexts.get(..index).unwrap_or_default().iter().rev();
        let around: Vec<&Context> = around
            .filter(|(other, _)| other.len() < place.len() && place.starts_with(other))
            .map(|(_, context)| context)
            .collect();
        let above = around.iter().find_map(|context| context.is_on);
        let is_on = context.is_on.or(above).unwrap_or(false);
        let mut pieces = context.pieces.clone();
        // What is switched off has the rules of the default profile, which are not run.
        if is_on || !pieces.is_empty() {
            pieces.extend(around.iter().flat_map(|context| context.pieces.clone()));
        }
        let used_by = if place.is_empty() { "everything".to_owned() } else { place.join(" ") };
        given.push(Given {
            name: (!place.is_empty()).then(|| place.join("")),
            used_by: vec![used_by],
            mode: (!is_on).then_some("off"),
            pieces,
            lost: context.lost.clone(),
            first_wins: true,
            removals_apply_anywhere: true,
            is_local: true,
            ..Given::default()
        });
    }
    given
}

/// Reads nginx's syntax: words, quotes, `;`, blocks and comments.
struct Parser<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    file: String,
    line: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str, file: &str) -> Self {
        Self { rest: text.chars().peekable(), file: file.to_owned(), line: 1 }
    }

    fn next(&mut self) -> Option<char> {
        let char = self.rest.next()?;
        self.line += usize::from(char == '\n');
        Some(char)
    }

    /// Directives up to the end of the block. What is included is among them; `main` is the file that paths are relative to.
    fn block(&mut self, depth: usize, files: &mut usize, main: &str) -> Vec<Directive> {
        let mut directives = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut line = self.line;
        while let Some(char) = self.next() {
            if words.is_empty() {
                line = self.line;
            }
            match char {
                '#' => while self.next().is_some_and(|char| char != '\n') {},
                ';' => {
                    let directive = Directive {
                        words: std::mem::take(&mut words),
                        block: Vec::new(),
                        file: self.file.clone(),
                        line,
                    };
                    self.finish(directive, &mut directives, depth, files, main);
                }
                '{' if depth < DEPTH_MAX => {
                    let block = self.block(depth + 1, files, main);
                    let words = std::mem::take(&mut words);
                    directives.push(Directive { words, block, file: self.file.clone(), line });
                }
                '}' => return directives,
                '"' | '\'' => words.push(self.quoted(char)),
                char if char.is_whitespace() => {}
                char => words.push(self.word(char)),
            }
        }
        directives
    }

    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(char) = self.next() {
            match char {
                // nginx takes the backslash away before a quote and before another one only.
                '\\' if self.rest.peek().is_some_and(|next| *next == quote) => {
                    text.extend(self.next());
                }
                char if char == quote => break,
                char => text.push(char),
            }
        }
        text
    }

    fn word(&mut self, first: char) -> String {
        let mut word = String::from(first);
        while let Some(next) = self.rest.peek().copied() {
            let is_variable = next == '{' && word.ends_with('$');
            if (next.is_whitespace() || matches!(next, ';' | '{')) && !is_variable {
                break;
            }
            word.extend(self.next());
            if is_variable {
                while let Some(char) = self.next() {
                    word.push(char);
                    if char == '}' {
                        break;
                    }
                }
            }
        }
        word
    }

    /// Adds a directive, or those of the files that it includes.
    fn finish(
        &self,
        directive: Directive,
        directives: &mut Vec<Directive>,
        depth: usize,
        files: &mut usize,
        main: &str,
    ) {
        let path = directive
            .words
            .get(1)
            .filter(|_| directive.words.first().is_some_and(|it| it == "include"));
        let Some(path) = path else { return directives.push(directive) };
        let source = FileSource::new();
        for file in source.list(path, main).unwrap_or_default() {
            *files += 1;
            if depth >= DEPTH_MAX || *files > FILES_MAX {
                break;
            }
            let Ok(read) = source.read(&file, "") else { continue };
            let text = String::from_utf8_lossy(&read.bytes);
            directives.extend(Parser::new(&text, &file).block(depth + 1, files, main));
        }
    }
}

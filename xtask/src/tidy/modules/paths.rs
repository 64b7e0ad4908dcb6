//! What a source says of modules: those it declares, what it imports, and the paths in its code.

/// A module as it is written in a file: the file itself, or `mod name { … }` in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written<'c> {
    /// Its name behind those of the inline modules around it; empty for the file.
    pub(super) inline: Vec<&'c str>,
    /// The modules it declares that have a file of their own.
    pub(super) declared: Vec<&'c str>,
    pub(super) imports: Vec<Import<'c>>,
    /// Paths of two words and more in its code, other than imports.
    pub(super) paths: Vec<Path<'c>>,
}

/// A path as it is written, with its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path<'c> {
    pub(super) words: Vec<&'c str>,
    pub(super) line: usize,
}

/// One name of a `use`, whether it is `pub` or not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import<'c> {
    pub(super) path: Path<'c>,
    /// What the module calls it; `*` for all names of the path.
    pub(super) name: &'c str,
}

/// The modules of code without literals, comments and tests. The first is the file.
pub(super) fn written(code: &str) -> Vec<Written<'_>> {
    let mut reader = Reader { tokens: tokens(code), at: 0 };
    let mut modules = vec![Written::default()];
    // The modules around the code, innermost last, each with the braces that are open outside of it.
    let mut around = vec![(0, 0)];
    let mut braces = 0_usize;
    while let Some(token) = reader.next() {
        let (current, outside) = around.last().copied().unwrap_or_default();
        match token.text {
            "{" => braces += 1,
            "}" => {
                braces = braces.saturating_sub(1);
                if braces == outside && around.len() > 1 {
                    around.pop();
                }
            }
            "mod" if reader.text(1) == ";" => modules[current].declared.push(reader.text(0)),
            "mod" if reader.text(1) == "{" => {
                let mut inline = modules[current].inline.clone();
                inline.push(reader.text(0));
                around.push((modules.len(), braces));
                modules.push(Written { inline, ..Written::default() });
            }
            // `use<'a>` in a type lists the lifetimes that it captures.
            "use" if reader.text(0) != "<" => {
                reader.imports(&[], token.line, &mut modules[current].imports);
            }
            // Behind `::` is a path into another crate, or what a type has.
            "::" => reader.at += usize::from(is_word(reader.text(0))),
            word if is_word(word) => {
                let path = reader.path(token);
                if path.words.len() > 1 {
                    modules[current].paths.push(path);
                }
            }
            _ => {}
        }
    }
    modules
}

/// A word, `::`, or one character that is neither.
#[derive(Clone, Copy)]
struct Token<'c> {
    text: &'c str,
    line: usize,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|char| !is_of_word(char)).unwrap_or(rest.len());
        let length = match first {
            _ if word > 0 => word,
            ':' if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let (text, behind) = rest.split_at(length);
        if first == '\n' {
            line += 1;
        }
        if !first.is_whitespace() {
            tokens.push(Token { text, line });
        }
        rest = behind;
    }
    tokens
}

fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn is_word(text: &str) -> bool {
    text.starts_with(is_of_word)
}

struct Reader<'c> {
    tokens: Vec<Token<'c>>,
    /// The token that comes next.
    at: usize,
}

impl<'c> Reader<'c> {
    fn next(&mut self) -> Option<Token<'c>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    /// A token that is not read yet, `ahead` of the next one; empty behind the end.
    fn text(&self, ahead: usize) -> &'c str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    /// The path whose first word was read, up to what is no word: generic arguments, a macro's mark, a group.
    fn path(&mut self, first: Token<'c>) -> Path<'c> {
        let mut words = vec![first.text];
        while self.text(0) == "::" && is_word(self.text(1)) {
            words.push(self.text(1));
            self.at += 2;
        }
        Path { words, line: first.line }
    }

    /// Reads one tree of a `use` behind `prefix`, up to the comma, brace or semicolon that ends it.
    fn imports(&mut self, prefix: &[&'c str], line: usize, imports: &mut Vec<Import<'c>>) {
        let mut words = prefix.to_vec();
        let mut name = None;
        while let Some(token) = self.tokens.get(self.at).copied() {
            match token.text {
                "," | "}" | ";" => break,
                "{" => return self.group(&words, imports),
                // `::name` is a crate, whatever modules there are; no module has an empty name.
                "::" if words.is_empty() => words.push(""),
                "::" => {}
                "as" => {
                    name = Some(self.text(1));
                    self.at += 1;
                }
                word => words.push(word),
            }
            self.at += 1;
        }
        // Nothing stands behind the last comma of a group.
        if words.len() > prefix.len() {
            if words.len() > 1 && words.last() == Some(&"self") {
                words.pop();
            }
            let is_glob = words.last() == Some(&"*");
            let name = name.or_else(|| words.last().copied()).unwrap_or_default();
            words.truncate(words.len() - usize::from(is_glob));
            imports.push(Import { path: Path { words, line }, name });
        }
    }

    /// Reads the trees in braces, and the closing one.
    fn group(&mut self, prefix: &[&'c str], imports: &mut Vec<Import<'c>>) {
        // The opening brace, then the comma behind each tree; at last the closing brace.
        while matches!(self.text(0), "{" | ",") {
            self.at += 1;
            let line = self.tokens.get(self.at).map_or(0, |token| token.line);
            self.imports(prefix, line, imports);
        }
        self.at += 1;
    }
}

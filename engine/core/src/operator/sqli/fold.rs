//! Folding: removes from a stream of tokens what does not change its meaning as an attack, such as
//! arithmetic between numbers, until five tokens stand.

use super::token::{Lexer, Token, VALUE_MAX, kind};
use super::{TOKENS_MAX, keyword};

/// Room for the tokens of a fingerprint, and one more that tells the kind of the last.
pub(super) const ROOM: usize = TOKENS_MAX + 1;

/// Names of functions that are common names of columns too: functions only before `(`.
const FUNCTIONS_BEFORE_PAREN: &[&[u8]] = &[
    b"USER_ID",
    b"USER_NAME",
    b"DATABASE",
    b"PASSWORD",
    b"USER",
    b"CURRENT_USER",
    b"CURRENT_DATE",
    b"CURRENT_TIME",
    b"CURRENT_TIMESTAMP",
    b"LOCALTIME",
    b"LOCALTIMESTAMP",
];

/// What a rule decided.
enum Step {
    /// Nothing to fold here.
    Keep,
    /// Folded; look at the same tokens again.
    Again,
    /// The rest cannot be judged; this many tokens stand.
    Stop(usize),
}

/// The tokens being folded: those before `left` are settled, those from `left` to `end` are read.
struct Folder<'t, 'l, 'a> {
    tokens: &'t mut [Token; ROOM],
    lexer: &'l mut Lexer<'a>,
    left: usize,
    end: usize,
    more: bool,
    /// A comment with nothing after it.
    last_comment: Option<Token>,
}

/// Fills `tokens` from `lexer` and returns how many stand: at most [`TOKENS_MAX`], or one more if
/// the last is evil.
pub(super) fn fold(lexer: &mut Lexer<'_>, tokens: &mut [Token; ROOM]) -> usize {
    let Some(first) = first_token(lexer) else { return 0 };
    if let Some(place) = tokens.first_mut() {
        *place = first;
    }
    let mut folder = Folder { tokens, lexer, left: 0, end: 1, more: true, last_comment: None };
    folder.run()
}

/// The first token that is no comment, no `(`, no type and no unary operator.
fn first_token(lexer: &mut Lexer<'_>) -> Option<Token> {
    loop {
        let token = lexer.next_token()?;
        let skipped = matches!(token.kind, kind::COMMENT | kind::LEFT_PAREN | kind::SQL_TYPE);
        if !skipped && !token.is_unary() {
            return Some(token);
        }
    }
}

impl Folder<'_, '_, '_> {
    fn run(&mut self) -> usize {
        loop {
            self.restart_after_list();
            if !self.more || self.left >= TOKENS_MAX {
                self.left = self.end;
                break;
            }
            if !self.read(2) {
                self.left = self.end;
                continue;
            }
            match self.fold_two() {
                Step::Again => continue,
                Step::Stop(len) => return len,
                Step::Keep => {}
            }
            if !self.read(3) {
                self.left = self.end;
                continue;
            }
            if !self.fold_three() {
                self.left += 1;
            }
        }
        self.finish()
    }

    /// Puts a comment at the end back if there is room.
    fn finish(&mut self) -> usize {
        if self.left < TOKENS_MAX
            && let Some(comment) = self.last_comment
            && let Some(place) = self.tokens.get_mut(self.left)
        {
            *place = comment;
            self.left += 1;
        }
        self.left.min(TOKENS_MAX)
    }

    /// Reads until `n` tokens stand from `left` on, as far as there is room; false if they do not.
    fn read(&mut self, n: usize) -> bool {
        while self.more && self.end <= TOKENS_MAX && self.end - self.left < n {
            match self.lexer.next_token() {
                None => self.more = false,
                Some(token) if token.kind == kind::COMMENT => self.last_comment = Some(token),
                Some(token) => {
                    self.last_comment = None;
                    if let Some(place) = self.tokens.get_mut(self.end) {
                        *place = token;
                    }
                    self.end += 1;
                }
            }
        }
        self.end - self.left >= n
    }

    fn token(&self, offset: usize) -> Token {
        self.tokens.get(self.left + offset).copied().unwrap_or(Token::EMPTY)
    }

    fn set_kind(&mut self, offset: usize, kind: u8) {
        if let Some(token) = self.tokens.get_mut(self.left + offset) {
            token.kind = kind;
        }
    }

    fn overwrite(&mut self, offset: usize, token: Token) {
        if let Some(place) = self.tokens.get_mut(self.left + offset) {
            *place = token;
        }
    }

    /// Drops the last `n` tokens and starts over from the first.
    fn drop_and_restart(&mut self, n: usize) -> Step {
        self.end = self.end.saturating_sub(n);
        self.left = 0;
        Step::Again
    }

    /// Drops the last token and goes one token back.
    fn drop_and_back(&mut self) -> Step {
        self.end -= 1;
        self.left = self.left.saturating_sub(1);
        Step::Again
    }

    /// Five tokens that are a value in parentheses say nothing; the stream starts anew after them.
    fn restart_after_list(&mut self) {
        if self.end < TOKENS_MAX {
            return;
        }
        let [a, b, c, d, e, sixth] = &*self.tokens;
        let list = matches!(
            [a.kind, b.kind, c.kind, d.kind, e.kind],
            [b'1', b'o' | b',', b'(', b'1', b')']
                | [b'n', b'o', b'(', b'n' | b'1', b')']
                | [b'1', b')', b',', b'(', b'1']
                | [b'n', b')', b'o', b'(', b'n']
        );
        if !list {
            return;
        }
        let sixth = *sixth;
        self.left = 0;
        if self.end > TOKENS_MAX {
            self.overwrite(1, sixth);
            self.end = 2;
        } else {
            self.end = 1;
        }
    }

    /// The rules for two tokens; their order matters.
    fn fold_two(&mut self) -> Step {
        let (a, b) = (self.token(0), self.token(1));
        match (a.kind, b.kind) {
            // Adjacent texts are one text; repeated semicolons one semicolon.
            (kind::STRING, kind::STRING) | (kind::SEMICOLON, kind::SEMICOLON) => {
                self.end -= 1;
                Step::Again
            }
            (kind::OPERATOR | kind::LOGIC, _) if b.is_unary() || b.kind == kind::SQL_TYPE => {
                self.drop_and_restart(1)
            }
            (kind::LEFT_PAREN, _) if b.is_unary() => self.drop_and_back(),
            _ => match merged(&a, &b) {
                Some(phrase) => {
                    self.overwrite(0, phrase);
                    self.drop_and_back()
                }
                None => self.fold_two_by_meaning(&a, &b),
            },
        }
    }

    /// The rules for two tokens that look at words.
    fn fold_two_by_meaning(&mut self, a: &Token, b: &Token) -> Step {
        let before_paren = b.kind == kind::LEFT_PAREN;
        match a.kind {
            // IF is a function, but after a semicolon a statement of Transact-SQL.
            kind::SEMICOLON
                if b.kind == kind::FUNCTION
                    && b.value().get(..2).is_some_and(|v| v.eq_ignore_ascii_case(b"IF")) =>
            {
                self.set_kind(1, kind::TSQL);
                Step::Again
            }
            kind::BAREWORD | kind::VARIABLE
                if before_paren && FUNCTIONS_BEFORE_PAREN.iter().any(|name| a.is_word(name)) =>
            {
                self.set_kind(0, kind::FUNCTION);
                Step::Again
            }
            // IN is an operator before a list and a word otherwise.
            kind::KEYWORD if a.is_word(b"IN") || a.is_word(b"NOT IN") => {
                self.set_kind(0, if before_paren { kind::OPERATOR } else { kind::BAREWORD });
                Step::Again
            }
            kind::OPERATOR if a.is_word(b"LIKE") || a.is_word(b"NOT LIKE") => {
                if before_paren {
                    self.set_kind(0, kind::FUNCTION);
                }
                Step::Keep
            }
            kind::SQL_TYPE if matches!(b.kind, b'n' | b'1' | b't' | b'(' | b'f' | b'v' | b's') => {
                self.overwrite(0, *b);
                self.drop_and_restart(1)
            }
            // Names of collations have an underscore and are too many to list.
            kind::COLLATE if b.kind == kind::BAREWORD => {
                let name = b.value().split(|&byte| byte == 0).next().unwrap_or_default();
                if name.contains(&b'_') {
                    self.set_kind(1, kind::SQL_TYPE);
                    self.left = 0;
                }
                Step::Keep
            }
            // Transact-SQL reads `\%1` as `0 % 1` and ignores other backslashes.
            kind::BACKSLASH if b.is_arithmetic() => {
                self.set_kind(0, kind::NUMBER);
                self.drop_and_restart(0)
            }
            kind::BACKSLASH => {
                self.overwrite(0, *b);
                self.drop_and_restart(1)
            }
            kind::LEFT_PAREN | kind::RIGHT_PAREN if a.kind == b.kind => self.drop_and_restart(1),
            // `{ word expression }` is the expression; with an empty name MySQL is too strange.
            kind::LEFT_BRACE if b.kind == kind::BAREWORD => {
                if b.len() == 0 {
                    self.set_kind(1, kind::EVIL);
                    return Step::Stop(self.left + 2);
                }
                self.drop_and_restart(2)
            }
            _ if b.kind == kind::RIGHT_BRACE => self.drop_and_restart(1),
            _ => Step::Keep,
        }
    }

    /// The rules for three tokens; true if one applied.
    fn fold_three(&mut self) -> bool {
        let (a, b, c) = (self.token(0), self.token(1), self.token(2));
        let operand = matches!(c.kind, b'1' | b'n' | b's' | b'v');
        let joined = match (a.kind, b.kind, c.kind) {
            (b'1' | b'n', b'o', b'1' | b'n') | (b'v', b'o', b'v' | b'1' | b'n') => true,
            (b'o', middle, b'o') => middle != b'(',
            (b'&', _, b'&') | (b'n', b'.', b'n') => true,
            (b'n' | b'1' | b'v' | b's', b'o', b't') => b.value() == b"::",
            (b'n' | b'1' | b's' | b'v', b',', _) => operand,
            _ => false,
        };
        if joined {
            self.drop_and_restart(2);
            return true;
        }
        let unary = b.is_unary();
        let drop = match a.kind {
            kind::EXPRESSION | kind::GROUP if unary && c.kind == b'(' => 1,
            kind::COMMA if unary && matches!(c.kind, b'(' | b'f') => 1,
            kind::KEYWORD | kind::EXPRESSION | kind::GROUP
                if unary && (operand || c.kind == b'f') =>
            {
                1
            }
            // `1,-1`: without the sign, one token further back folds as well.
            kind::COMMA if unary && operand => 3,
            kind::EXPRESSION if b.kind == b'.' && c.kind == b'n' => 1,
            _ => 0,
        };
        if drop > 0 {
            self.overwrite(1, c);
            self.drop_and_restart(drop);
            return true;
        }
        // USER has no arguments; with some it is a name.
        if a.kind == b'f' && b.kind == b'(' && c.kind != b')' && a.is_word(b"USER") {
            self.set_kind(0, kind::BAREWORD);
        }
        false
    }
}

/// Two words that are one phrase of the dictionary, such as `UNION ALL`.
fn merged(a: &Token, b: &Token) -> Option<Token> {
    let word = |kind: u8| matches!(kind, b'k' | b'n' | b'o' | b'U' | b'f' | b'E' | b'T' | b't');
    let len = a.len() + 1 + b.len();
    if !word(a.kind) || !(word(b.kind) || b.kind == kind::LOGIC) || len > VALUE_MAX {
        return None;
    }
    let mut phrase = [b' '; VALUE_MAX];
    for (place, byte) in phrase.iter_mut().zip(a.value().iter().chain(b" ").chain(b.value())) {
        *place = *byte;
    }
    let phrase = phrase.get(..len)?;
    let mut token = *a;
    token.assign(keyword(phrase)?, phrase);
    Some(token)
}

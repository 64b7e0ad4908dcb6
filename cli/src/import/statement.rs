//! SecLang as other firewalls' files have it, cut into statements. Their texts stay as they were written.

/// A directive, or a chain of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Statement {
    /// As it was written, without white space around it.
    pub(super) text: String,
    /// The name of the directive in lower case; of a chain, that of its first rule.
    pub(super) name: String,
    /// The file.
    pub(super) file: String,
    /// The line in the file, counted from 1.
    pub(super) line: usize,
}

impl Statement {
    /// Everything after the name of the directive, without quotes around it.
    pub(super) fn value(&self) -> &str {
        let value = self.text.split_once(char::is_whitespace).map_or("", |(_, value)| value).trim();
        value.trim_matches('"').trim_matches('\'')
    }

    /// The file and the line, for a comment.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }

    /// Whether the name is one that SecLang or a web server's file has for such a file.
    pub(super) fn is_known(&self) -> bool {
        self.name.starts_with("sec") || self.is_include() || self.name.starts_with('<')
    }

    pub(super) fn is_include(&self) -> bool {
        matches!(self.name.as_str(), "include" | "includeoptional")
    }

    pub(super) fn is_rule(&self) -> bool {
        matches!(self.name.as_str(), "secrule" | "secaction" | "secrulescript")
    }

    /// The id of a rule.
    pub(super) fn id(&self) -> Option<u64> {
        let lower = self.text.to_ascii_lowercase();
        let is_name = |at: usize| {
            let before = lower.get(..at).and_then(|text| text.chars().next_back());
            before.is_none_or(|char| !char.is_ascii_alphanumeric() && char != '_')
        };
        let found = lower.match_indices("id:").filter(|(at, _)| is_name(*at));
        found.filter_map(|(at, _)| lower.get(at + 3..)).find_map(|rest| {
            let rest = rest.trim_start_matches([' ', '\'']);
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            rest.get(..digits)?.parse().ok()
        })
    }

    /// Whether it sets something for the rules after it, wherever it is: neither a rule nor a marker.
    pub(super) fn is_setting(&self) -> bool {
        !self.is_rule()
            && !self.changes_rules()
            && !matches!(self.name.as_str(), "secdefaultaction" | "secmarker")
    }

    /// Whether it takes away or changes rules when they are loaded.
    pub(super) fn changes_rules(&self) -> bool {
        self.name.starts_with("secruleremove") || self.name.starts_with("secruleupdate")
    }

    /// Whether it means something only together with others: rules that it changes, markers it jumps to.
    pub(super) fn needs_others(&self) -> bool {
        self.changes_rules() || self.text.to_ascii_lowercase().contains("skipafter:")
    }
}

/// Cuts a text into statements in their order. Comments go.
///
/// `first_line` is the number of the text's first line in `file`.
pub(super) fn statements(text: &str, file: &str, first_line: usize) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    let mut chain_is_open = false;
    for (line, text) in logical_lines(text) {
        let name = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let is_rule = name == "secrule" || name == "secaction";
        let continues = is_rule && continues(&text);
        match statements.last_mut().filter(|_| chain_is_open && is_rule) {
            Some(chain) => {
                chain.text.push('\n');
                chain.text.push_str(&text);
            }
            None => {
                let line = first_line + line;
                statements.push(Statement { text, name, file: file.to_owned(), line });
            }
        }
        chain_is_open = continues;
    }
    statements
}

/// Lines, with those joined that belong together, each with the index of its first; without comments and empty ones.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    #[derive(PartialEq)]
    enum Open {
        No,
        /// After a backslash.
        Line,
        /// In a block between backticks.
        Block,
    }
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut open = Open::No;
    for (index, raw) in text.split('\n').enumerate() {
        let raw = raw.strip_suffix('\r').unwrap_or(raw);
        let trimmed = raw.trim();
        if open == Open::No && (trimmed.is_empty() || trimmed.starts_with('#')) {
            continue;
        }
        match lines.last_mut().filter(|_| open != Open::No) {
            Some((_, last)) => {
                last.push('\n');
                last.push_str(raw.trim_end());
            }
            None => lines.push((index, trimmed.to_owned())),
        }
        open = match open {
            Open::Block if trimmed.starts_with('`') => Open::No,
            Open::Block => Open::Block,
            Open::No | Open::Line if trimmed.ends_with('\\') => Open::Line,
            Open::No | Open::Line
                if trimmed.ends_with('`') && trimmed.matches('`').count() % 2 == 1 =>
            {
                Open::Block
            }
            Open::No | Open::Line => Open::No,
        };
    }
    // A text that ends within a statement: the engine's own words for it are the reason.
    lines
}

/// Whether the actions of a rule have `chain`.
fn continues(text: &str) -> bool {
    let actions = text.trim_end().trim_end_matches(['"', '`']);
    let actions = actions.rsplit(['"', '`']).next().unwrap_or_default();
    let is_chain = |action: &str| {
        action
            .trim_matches(|char: char| char.is_whitespace() || char == '\\')
            .eq_ignore_ascii_case("chain")
    };
    actions.split(',').any(is_chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_directives_begin() {
        let text = "# a comment\nSecRuleEngine DetectionOnly\n\
                    SecRule ARGS \"@rx a\" \\\n  \"id:1,deny,\\\n  chain\"\nSecRule ARGS \"@rx b\"\n\
                    SecAction `\n  id:4,\n  # not a comment\n`\nSecMarker END\nSecRule A \"@rx grid:7\" \"phase:1,id:'5'\"";
        let expected = [
            ("secruleengine", 2, "SecRuleEngine DetectionOnly", None),
            (
                "secrule",
                3,
                "SecRule ARGS \"@rx a\" \\\n  \"id:1,deny,\\\n  chain\"\nSecRule ARGS \"@rx b\"",
                Some(1),
            ),
            ("secaction", 7, "SecAction `\n  id:4,\n  # not a comment\n`", Some(4)),
            ("secmarker", 11, "SecMarker END", None),
            ("secrule", 12, "SecRule A \"@rx grid:7\" \"phase:1,id:'5'\"", Some(5)),
        ];
        let found = statements(text, "f", 1);
        let found: Vec<_> =
            found.iter().map(|it| (it.name.as_str(), it.line, it.text.as_str(), it.id())).collect();
        assert_eq!(found, expected);
    }
}

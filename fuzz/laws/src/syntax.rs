//! Laws of `seclang`: text to syntax tree. The input is the text.

use seclang::{DirectiveKind, LineIndex, Snippet, Span, Target, parse_targets};

// The laws of the crate's own tests, in its own words.
#[path = "../../../engine/seclang/tests/checks/mod.rs"]
mod checks;

use checks::{parse_lawfully, print};

/// Any text gives a tree and errors, with spans inside of the text, and each error can be shown.
pub fn seclang_parse(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let parse = parse_lawfully(&text);
    let index = LineIndex::new(&text);
    for error in &parse.errors {
        let snippet = Snippet::new("f", &text, &index, error.span, &error.message).to_string();
        assert!(snippet.contains('^'), "no place is shown for {error:?}");
    }
}

/// What is printed means what was parsed: of the whole text, of each directive by itself and of each
/// target.
pub fn seclang_roundtrip(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let whole = parse_lawfully(&text);
    for directive in &whole.directives {
        let printed = directive.to_string();
        let alone = parse_lawfully(&printed);
        assert_eq!(alone.errors, [], "{printed:?} is not SecLang by itself");
        assert_eq!(print(&alone).trim_end_matches('\n'), printed.trim_end_matches('\n'));
        assert_eq!(alone.directives.len(), 1, "{printed:?} is not one directive");
        if let DirectiveKind::Rule(rule) = &directive.kind {
            targets_come_back(&rule.targets);
        }
    }
}

fn targets_come_back(targets: &[Target]) {
    for target in targets {
        let printed = target.to_string();
        let again = parse_targets(&printed, Span::default());
        let again = again.unwrap_or_else(|error| panic!("{printed:?} is no target: {error}"));
        let again: Vec<String> = again.iter().map(ToString::to_string).collect();
        assert_eq!(again, [printed]);
    }
}

//! How places are shown to a person.

use seclang::{LineIndex, Snippet, SourceId, Span};

#[track_caller]
fn check(text: &str, start: u32, end: u32, expected: &str) {
    let span = Span { source: SourceId(0), start, end };
    let index = LineIndex::new(text);
    assert_eq!(Snippet::new("f", text, &index, span, "m").to_string(), expected);
}

#[test]
fn a_snippet_marks_the_span() {
    check("abc def\n", 4, 7, "f:1:5: m\n    abc def\n        ^^^");
    check("abc\ndef\nghi", 5, 6, "f:2:2: m\n    def\n     ^");
    // An empty span still has a caret, also at the end of the line and of the text.
    check("abc\ndef", 3, 3, "f:1:4: m\n    abc\n       ^");
    check("abc\n", 4, 4, "f:2:1: m\n    \n    ^");
    check("", 0, 0, "f:1:1: m\n    \n    ^");
    // Several lines: the first one.
    check("abc\ndef", 1, 6, "f:1:2: m\n    abc\n     ^^");
    // Columns and carets count characters, not bytes.
    check("äö x\n", 5, 6, "f:1:4: m\n    äö x\n       ^");
    check("äö x\n", 2, 4, "f:1:2: m\n    äö x\n     ^");
    // Control characters do not reach the terminal.
    check("\ta\u{1b}b\r\n", 1, 2, "f:1:2: m\n     a b\n     ^");
}

#[test]
fn a_span_outside_of_the_text_is_shown_at_its_end() {
    check("abc", 90, 95, "f:1:4: m\n    abc\n       ^");
    check("abc", 2, 1, "f:1:3: m\n    abc\n      ^");
    // Inside of a character: at that character.
    check("ä", 1, 1, "f:1:1: m\n    ä\n    ^");
}

#[test]
fn a_long_line_is_cut_around_the_span() {
    let line = "x".repeat(5000);
    let shown =
        |left: &str, count: usize, right: &str| format!("{left}{}{right}", "x".repeat(count));
    check(&line, 0, 2, &format!("f:1:1: m\n    {}\n    ^^", shown("", 100, "…")));
    let caret = " ".repeat(41);
    check(&line, 2500, 2501, &format!("f:1:2501: m\n    {}\n    {caret}^", shown("…", 100, "…")));
    let caret = " ".repeat(100);
    check(&line, 4999, 5000, &format!("f:1:5000: m\n    {}\n    {caret}^", shown("…", 100, "")));
    // A span longer than the window is marked as far as it is shown.
    let carets = "^".repeat(100);
    check(&line, 0, 5000, &format!("f:1:1: m\n    {}\n    {carets}", shown("", 100, "…")));
}

#[test]
fn line_and_column_are_counted_from_one() {
    let text = "a\n\u{20ac}uro\n\n";
    let index = LineIndex::new(text);
    let rows = [
        (0, (1, 1)),
        (1, (1, 2)),
        (2, (2, 1)),
        (3, (2, 1)),
        (4, (2, 1)),
        (5, (2, 2)),
        (8, (2, 5)),
        (9, (3, 1)),
        (10, (4, 1)),
        (u32::MAX, (4, 1)),
    ];
    for (offset, expected) in rows {
        assert_eq!(index.line_column(offset), expected, "offset {offset}");
    }
}

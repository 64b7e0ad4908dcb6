//! A test case of GoTestWAF: as much YAML as its files use.

/// Payloads, and how each of them is sent.
#[derive(Default)]
pub(super) struct Case {
    pub(super) payloads: Vec<String>,
    pub(super) encoders: Vec<String>,
    pub(super) placeholders: Vec<Placeholder>,
    /// What it is about; empty where the file does not say.
    pub(super) kind: String,
}

/// Where a payload goes.
#[derive(Default)]
pub(super) struct Placeholder {
    pub(super) name: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// Reads a file.
pub(super) fn parse(text: &str) -> Option<Case> {
    let lines: Vec<&str> = text.lines().collect();
    let mut case = Case::default();
    let mut at = 0;
    let mut section = "";
    while let Some(&line) = lines.get(at) {
        at += 1;
        if let Some(item) = line.strip_prefix("  - ").filter(|_| !section.is_empty()) {
            match section {
                "payload" => case.payloads.push(scalar(item, &lines, &mut at)),
                "encoder" => case.encoders.push(scalar(item, &lines, &mut at)),
                _ => case.placeholders.push(placeholder(item, &lines, &mut at)),
            }
        } else if let Some(kind) = line.strip_prefix("type: ") {
            case.kind = scalar(kind, &lines, &mut at);
        } else if !line.starts_with(' ') && line.ends_with(':') {
            section = line.trim_end_matches(':');
        }
    }
    let is_whole = !case.payloads.is_empty() && !case.placeholders.is_empty();
    is_whole.then_some(case)
}

/// A scalar that begins on this line: quoted, of several lines, or plain.
fn scalar(begin: &str, lines: &[&str], at: &mut usize) -> String {
    let begin = begin.trim();
    if let Some(rest) = begin.strip_prefix('"') {
        let mut text = rest.to_owned();
        while !is_closed(&text) {
            let Some(next) = lines.get(*at) else { break };
            *at += 1;
            // A backslash at the end of a line joins it with the next one.
            match text.strip_suffix('\\') {
                Some(joined) => text = joined.to_owned() + next.trim_start(),
                None => text = text + " " + next.trim(),
            }
        }
        return unescaped(text.trim_end().strip_suffix('"').unwrap_or(&text));
    }
    if let Some(rest) = begin.strip_prefix('\'') {
        return rest.strip_suffix('\'').unwrap_or(rest).replace("''", "'");
    }
    match begin.trim_start_matches("!!str ") {
        "|" => block(lines, at),
        plain => plain.to_owned(),
    }
}

/// Whether a text of double quotes has its closing one.
fn is_closed(text: &str) -> bool {
    let mut escaped = false;
    text.chars().any(|letter| {
        let closes = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        closes
    })
}

fn unescaped(text: &str) -> String {
    let (mut plain, mut letters) = (String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some('t') => plain.push('\t'),
                Some('0') => plain.push('\0'),
                Some(kind @ ('x' | 'u')) => {
                    let digits = if kind == 'x' { 2 } else { 4 };
                    let code: String = letters.by_ref().take(digits).collect();
                    let code = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                    plain.extend(code);
                }
                Some(other) => plain.push(other),
                None => {}
            },
            (letter, false) => plain.push(letter),
        }
    }
    plain
}

/// The lines that are indented further than the first of them is not.
fn block(lines: &[&str], at: &mut usize) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let depth = lines.get(*at).map_or(0, |line| indent(line));
    let mut text = String::new();
    while let Some(line) = lines.get(*at).filter(|line| line.is_empty() || indent(line) >= depth) {
        text += line.get(depth..).unwrap_or_default();
        text.push('\n');
        *at += 1;
    }
    text
}

fn placeholder(item: &str, lines: &[&str], at: &mut usize) -> Placeholder {
    let name = item.trim_end_matches(':').to_owned();
    let mut made = Placeholder { name, path: "/".to_owned(), ..Placeholder::default() };
    while let Some(line) = lines.get(*at).filter(|line| line.starts_with("      ")) {
        *at += 1;
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let in_headers = line.starts_with("        ");
        if key == "headers" {
            continue;
        }
        let value = scalar(value, lines, at);
        match key {
            _ if in_headers => made.headers.push((key.to_owned(), value)),
            "method" => made.method = value,
            "path" => made.path = value,
            "body" => made.body = value,
            _ => {}
        }
    }
    made
}

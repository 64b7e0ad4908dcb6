//! Texts out of files: payload lists, tables, JSON, prose.

use serde_json::Value;

/// One text a line; comments of lists are left out.
pub(super) fn lines(text: &str) -> Vec<String> {
    let is_text = |line: &&str| {
        !line.trim().is_empty() && !line.starts_with("# ") && !line.starts_with("Exploit ")
    };
    let whole = |line: &str| {
        line.strip_prefix("Exploit String: ").unwrap_or(line).replace("{FILE}", "etc/passwd")
    };
    let described = |line: &&str| line.starts_with("Exploit String: ");
    text.lines().filter(|line| is_text(line) || described(line)).map(whole).collect()
}

/// The first column of a CSV file whose last one is `label`.
fn csv(text: &str, label: &str) -> Vec<String> {
    let tail = format!("\"{label}\"");
    let payload = |line: &str| {
        let columns = line.trim_end().strip_suffix(&tail)?.trim_end_matches(',');
        let columns = columns.rsplitn(3, ',').nth(2)?;
        Some(columns.strip_prefix('"')?.strip_suffix('"')?.replace("\"\"", "\""))
    };
    text.lines().filter_map(payload).collect()
}

/// Attacks of `HttpParamsDataset`.
pub(super) fn csv_attacks(text: &str) -> Vec<String> {
    csv(text, "anom")
}

/// Ordinary values of `HttpParamsDataset`.
pub(super) fn csv_ordinary(text: &str) -> Vec<String> {
    csv(text, "norm")
}

/// A JSON array of forms with one parameter, `["p=%27…"]`.
pub(super) fn json_forms(text: &str) -> Vec<String> {
    let list: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    list.iter().filter_map(|form| form.split_once('=')).map(|(_, value)| decoded(value)).collect()
}

fn decoded(form: &str) -> String {
    let bytes = form.as_bytes();
    let (mut decoded, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| core::str::from_utf8(hex).ok());
        match (byte, hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// The values of `code` anywhere in JSON.
pub(super) fn json_code(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    strings(&serde_json::from_str(text).unwrap_or_default(), Some("code"), false, &mut found);
    found
}

/// All strings in JSON.
pub(super) fn json_strings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    strings(&serde_json::from_str(text).unwrap_or_default(), None, true, &mut found);
    found
}

fn strings(value: &Value, wanted: Option<&str>, is_wanted: bool, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_wanted => found.push(text.clone()),
        Value::Array(items) => {
            items.iter().for_each(|item| strings(item, wanted, is_wanted, found));
        }
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            strings(member, wanted, wanted.is_none_or(|wanted| wanted == name), found);
        }),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// What waf-bypass sends and expects to be blocked.
pub(super) fn bypass_attacks(text: &str) -> Vec<String> {
    bypass(text, true)
}

/// What waf-bypass sends and expects to pass.
pub(super) fn bypass_ordinary(text: &str) -> Vec<String> {
    bypass(text, false)
}

fn bypass(text: &str, blocked: bool) -> Vec<String> {
    let file: Value = serde_json::from_str(text).unwrap_or_default();
    let payloads = file["payload"].as_array().into_iter().flatten();
    let of_kind = payloads.filter(|payload| payload["BLOCKED"].as_bool() == Some(blocked));
    let value = |payload: &Value| {
        let places = ["ARGS", "BODY", "URL", "COOKIE", "HEADER", "REFERER", "USER-AGENT"];
        let text = places.into_iter().find_map(|place| payload[place].as_str())?;
        let text = text.replace("%RND%", "x");
        let of_parameter = text.split_once('=').filter(|(name, _)| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        });
        Some(of_parameter.map_or(text.as_str(), |(_, value)| value).to_owned())
    };
    of_kind.filter_map(value).collect()
}

/// A part of a Markdown file.
enum Part {
    /// A block of code.
    Code(String),
    /// A line of anything else.
    Line(String),
}

fn parts(text: &str) -> Vec<Part> {
    let (mut found, mut code) = (Vec::new(), None::<String>);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        match (&mut code, is_fence) {
            (Some(_), true) => found.extend(code.take().map(Part::Code)),
            (Some(code), false) => {
                code.push_str(line);
                code.push('\n');
            }
            (None, true) => code = Some(String::new()),
            (None, false) => found.push(Part::Line(line.trim().to_owned())),
        }
    }
    found
}

/// Paragraphs, headings, list items and code of a Markdown file, each by itself.
pub(super) fn markdown(text: &str) -> Vec<String> {
    let texts = parts(text).into_iter().map(|part| match part {
        Part::Code(text) | Part::Line(text) => text,
    });
    texts.filter(|text| text.len() > 1).collect()
}

/// Values of `user_agent` and of names in a YAML list of ours: what stands behind the first colon of each line.
pub(super) fn yaml_values(text: &str) -> Vec<String> {
    let value =
        |line: &str| line.split_once(": ").map(|(_, value)| value.trim_matches('"').to_owned());
    text.lines().filter_map(value).filter(|value| !value.is_empty()).collect()
}

/// Lines of code in a Markdown file, each by itself.
pub(super) fn code_lines(text: &str) -> Vec<String> {
    let blocks = code_blocks(text);
    blocks
        .iter()
        .flat_map(|block| block.lines())
        .map(|line| line.trim().to_owned())
        .filter(|line| is_payload(line))
        .collect()
}

/// Lines of code whose angle brackets and quotes are written as entities.
pub(super) fn code_lines_html(text: &str) -> Vec<String> {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    let read = |line: String| {
        entities.iter().fold(line, |line, (entity, text)| line.replace(entity, text))
    };
    code_lines(text).into_iter().map(read).collect()
}

/// Whether a line of code is one to send: no remark, and more than a word.
fn is_payload(line: &str) -> bool {
    let remarks =
        ["#", "//", "$ ", "root@", "import ", "python", "curl ", "git ", "sudo ", "docker "];
    line.len() > 3
        && !remarks.iter().any(|remark| line.starts_with(remark))
        && line.bytes().any(|byte| byte.is_ascii_punctuation())
}

/// Blocks of code in a Markdown file.
pub(super) fn code_blocks(text: &str) -> Vec<String> {
    let code = parts(text).into_iter().filter_map(|part| match part {
        Part::Code(code) => Some(code),
        Part::Line(_) => None,
    });
    code.collect()
}

//! A document as YAML: plain where that is unambiguous, quoted as in JSON anywhere else.

use serde_json::Value;

/// Writes a document.
pub(super) fn yaml(document: &Value) -> String {
    let mut text = String::new();
    write(document, 0, &mut text);
    text
}

fn write(value: &Value, indent: usize, text: &mut String) {
    let margin = "  ".repeat(indent);
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                text.push_str(&format!("{margin}{}:", scalar(&Value::from(name.as_str()))));
                nested(value, indent, text);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for element in elements {
                text.push_str(&format!("{margin}-"));
                nested(element, indent, text);
            }
        }
        other => text.push_str(&format!("{margin}{}\n", scalar(other))),
    }
}

fn nested(value: &Value, indent: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if is_block {
        text.push('\n');
        write(value, indent + 1, text);
    } else {
        text.push_str(&format!(" {}\n", scalar(value)));
    }
}

fn scalar(value: &Value) -> String {
    const RESERVED: &[&str] = &["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    match value {
        Value::String(text)
            if text.starts_with(|first: char| first.is_ascii_alphabetic())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
                && !RESERVED.contains(&text.to_ascii_lowercase().as_str()) =>
        {
            text.clone()
        }
        other => other.to_string(),
    }
}

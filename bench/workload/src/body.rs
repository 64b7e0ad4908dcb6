//! Bodies of a given size.

use serde_json::{Map, Value, json};

use crate::{random::Random, words};

/// Fields of a form, or members of a JSON body, at most: well below the engines' default limit of
/// 1000 arguments, since a body that is refused for its number of arguments measures nothing.
const ARGUMENTS_MAX: usize = 400;

/// The length of a value such that `bytes` take no more than [`ARGUMENTS_MAX`] of them.
fn value_bytes(bytes: usize) -> usize {
    (bytes / ARGUMENTS_MAX).max(60)
}

/// Name and value pairs, as a form sends them.
pub(crate) fn form(random: &mut Random, bytes: usize) -> Vec<u8> {
    let value_bytes = value_bytes(bytes);
    let mut form = String::with_capacity(bytes + value_bytes);
    let mut number = 0;
    while form.len() < bytes {
        if number > 0 {
            form.push('&');
        }
        let left = bytes - form.len();
        form += &format!("{}_{number}=", words::word(random));
        form += &encoded(&words::prose(random, value_bytes.min(left)));
        number += 1;
    }
    form.into_bytes()
}

/// All of it in one field.
pub(crate) fn prose_form(random: &mut Random, bytes: usize) -> Vec<u8> {
    let mut form = "comment=".to_owned();
    form += &encoded(&words::prose(random, bytes.saturating_sub(form.len())));
    form.into_bytes()
}

/// As `application/x-www-form-urlencoded` (WHATWG URL, section 5.2).
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => {
                encoded.push(char::from(byte));
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

/// An order: objects in lists in objects, numbers, texts, and a few `true` and `null`.
pub(crate) fn json(random: &mut Random, bytes: usize) -> Vec<u8> {
    // An item has four arguments.
    let note_bytes = (bytes / (ARGUMENTS_MAX / 4)).saturating_sub(80).max(30);
    let mut items: Vec<Value> = Vec::new();
    let mut size = 200;
    while size < bytes {
        let item = json!({
            "sku": format!("{}-{}", random.hex(4), random.between(100, 999)),
            "name": words::words(random, 2, 4),
            "quantity": random.between(1, 9),
            "note": words::prose(random, note_bytes),
        });
        size += item.to_string().len() + 1;
        items.push(item);
    }
    let mut order = Map::new();
    order.insert(
        "customer".to_owned(),
        json!({
            "id": random.between(10_000, 99_999),
            "email": format!("{}@example.org", words::word(random)),
            "newsletter": random.chance(50),
            "voucher": null,
        }),
    );
    order.insert("items".to_owned(), Value::Array(items));
    order.insert("total".to_owned(), json!(random.between(100, 99_999)));
    Value::Object(order).to_string().into_bytes()
}

/// Two fields and a picture that fills the rest; the content type, with the boundary, and the body.
pub(crate) fn multipart(random: &mut Random, bytes: usize) -> (String, Vec<u8>) {
    let boundary = format!("----WebKitFormBoundary{}", random.hex(16));
    let mut body = Vec::with_capacity(bytes + 1024);
    for (name, value) in [("title", words::words(random, 2, 5)), ("text", words::sentence(random))]
    {
        let part = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
        body.extend(part.bytes());
    }
    let file = format!("{}.jpg", words::slug(random));
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"{file}\"\r\n\
         Content-Type: image/jpeg\r\n\r\n"
    );
    let end = format!("\r\n--{boundary}--\r\n");
    body.extend(head.bytes());
    let left = bytes.saturating_sub(body.len() + end.len());
    body.extend(random.bytes(left));
    body.extend(end.bytes());
    (format!("multipart/form-data; boundary={boundary}"), body)
}

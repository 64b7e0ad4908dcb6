//! Requests as GoTestWAF's Go client makes them of a test case.

use serde_json::{Value, json};

use super::cases::{Case, Placeholder};

/// The header fields that it sends unless told otherwise.
const HEADERS: [(&str, &str); 14] = [
    ("Host", "localhost"),
    ("Connection", "close"),
    ("Pragma", "no-cache"),
    ("Cache-Control", "no-cache"),
    ("Sec-CH-UA", "\"Chromium\";v=\"122\", \"Not(A:Brand\";v=\"24\", \"Google Chrome\";v=\"122\""),
    ("Sec-CH-UA-Mobile", "?0"),
    ("Sec-CH-UA-Platform", "\"Windows\""),
    ("Upgrade-Insecure-Requests", "1"),
    (
        "User-Agent",
        "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0 Safari/537.36",
    ),
    (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    ),
    ("Sec-Fetch-Site", "none"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Accept-Language", "en-US;q=0.8,en;q=0.7"),
];

/// The name of parameters and fields, which is random there.
const NAME: &str = "5a8d3c";

/// A request for each payload, encoder and placeholder; `None` for what cannot be made here.
pub(super) fn of(case: &Case) -> Vec<Option<Value>> {
    let mut made = Vec::new();
    for payload in &case.payloads {
        for encoder in &case.encoders {
            for place in &case.placeholders {
                made.push(request(place, &encoded(encoder, payload)));
            }
        }
    }
    made
}

fn encoded(encoder: &str, payload: &str) -> String {
    match encoder {
        "Base64" => base64(payload.as_bytes()),
        "Base64Flat" => base64(payload.as_bytes()).replace('=', ""),
        "JSUnicode" => js_unicode(payload),
        "URL" => {
            percent(payload, |byte| byte.is_ascii_alphanumeric() || b"-_.~$&+=:@".contains(&byte))
        }
        "XMLEntity" => format!("<string>{}</string>", xml(payload)),
        _ => payload.to_owned(),
    }
}

fn request(place: &Placeholder, payload: &str) -> Option<Value> {
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let json_type = ("Content-Type", "application/json");
    Some(match place.name.as_str() {
        "URLParam" => get(&format!("/?{NAME}={}", sent(payload)), &[]),
        "URLPath" => get(&format!("/{}", sent(payload)), &[]),
        "Header" => get("/", &[(&format!("X-{NAME}"), payload)]),
        "UserAgent" => get("/", &[("User-Agent", payload)]),
        "RequestBody" => post("POST", "/", &[], payload),
        "JSONBody" => post("POST", "/", &[json_type], payload),
        "XMLBody" => post("POST", "/", &[("Content-Type", "application/xml")], payload),
        "HTMLForm" => post("POST", "/", &[form], &format!("{NAME}={payload}")),
        "JSONRequest" => {
            let body = format!("{{\"test\": true, \"{NAME}\": \"{}\"}}", js_unicode(payload));
            post("POST", "/", &[json_type], &body)
        }
        "HTMLMultipartForm" => {
            let head = format!("Content-Disposition: form-data; name=\"{NAME}\"");
            let body = format!("--b0undary\r\n{head}\r\n\r\n{payload}\r\n--b0undary--\r\n");
            post("POST", "/", &[("Content-Type", "multipart/form-data; boundary=b0undary")], &body)
        }
        "SOAPBody" => soap(payload),
        "GraphQL" if place.method == "GET" => {
            get(&format!("/?query={}", percent(payload, |byte| byte.is_ascii_alphanumeric())), &[])
        }
        "GraphQL" => post("POST", "/", &[], payload),
        "RawRequest" => {
            let fill = |text: &String| text.replace("{{payload}}", payload);
            let headers: Vec<(&str, String)> =
                place.headers.iter().map(|(name, value)| (name.as_str(), fill(value))).collect();
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            post(&place.method, &fill(&place.path), &headers, &fill(&place.body))
        }
        _ => return None,
    })
}

fn soap(payload: &str) -> Value {
    let entity = format!("<string>{}</string>", xml(payload));
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Body><filterStatement><ab{NAME}>{entity}</ab{NAME}></filterStatement></soapenv:Body></soapenv:Envelope>"
    );
    let action = ("SOAPAction", "\"http://schemas.xmlsoap.org/soap/actor/next\"");
    post("POST", "/", &[action, ("Content-Type", "text/xml")], &body)
}

fn get(uri: &str, more: &[(&str, &str)]) -> Value {
    json!({"id": 0, "method": "GET", "uri": uri, "protocol": "HTTP/1.1", "headers": headers(more)})
}

fn post(method: &str, uri: &str, more: &[(&str, &str)], body: &str) -> Value {
    let length = body.len().to_string();
    let more = [more, &[("Content-Length", length.as_str())]].concat();
    json!({"id": 0, "method": method, "uri": uri, "protocol": "HTTP/1.1",
        "headers": headers(&more), "body": body})
}

fn headers(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let is_replaced = |name: &str| more.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let usual = HEADERS.iter().filter(|(name, _)| !is_replaced(name));
    usual.chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What a client sends of a URL: what may not stand there is encoded, and a fragment is not sent.
fn sent(payload: &str) -> String {
    let payload = payload.split('#').next().unwrap_or_default();
    percent(payload, |byte| (b'!'..=b'~').contains(&byte) && !b"\"<>\\^`{|}".contains(&byte))
}

fn percent(text: &str, stays: impl Fn(u8) -> bool) -> String {
    let encode = |byte: u8| match stays(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

fn js_unicode(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

fn xml(text: &str) -> String {
    let entities = [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&#34;"), ('\'', "&#39;")];
    entities.iter().fold(text.to_owned(), |text, (letter, entity)| text.replace(*letter, entity))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let index = (bits >> (18 - 6 * position) & 63) as usize;
            let letter = LETTERS.get(index).copied().unwrap_or(b'=');
            text.push(char::from(if position <= chunk.len() { letter } else { b'=' }));
        }
    }
    text
}

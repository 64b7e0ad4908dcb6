//! Puts a text into a request: the same ways for attacks and for ordinary texts, so that the carrier says nothing of
//! the label.

use serde_json::{Value, json};

/// Ways of carrying a text.
pub(super) struct Carriers {
    /// Requests of browsers that have a query.
    recorded: Vec<Value>,
}

const HOSTS: [&str; 6] = [
    "www.example.com",
    "shop.example.org",
    "api.example.net",
    "forum.example.com",
    "blog.example.org",
    "intranet.example.net",
];
const NAMES: [&str; 24] = [
    "q", "id", "name", "search", "comment", "message", "text", "title", "page", "category", "user",
    "email", "url", "ref", "filter", "sort", "lang", "content", "subject", "address", "note",
    "token", "file", "data",
];
const PATHS: [&str; 10] = [
    "/",
    "/search",
    "/index.php",
    "/products",
    "/api/v1/items",
    "/blog/post",
    "/login",
    "/comments",
    "/contact",
    "/app/view.aspx",
];
const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Safari/605.1.15",
    "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1",
    "okhttp/4.12.0",
];

/// Numbers drawn from a hash, one after the other.
struct Draw(u64);

impl Draw {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % end.max(1) as u64).unwrap_or_default()
    }

    fn of<'t>(&mut self, choice: &[&'t str]) -> &'t str {
        choice.get(self.below(choice.len())).copied().unwrap_or_default()
    }
}

impl Carriers {
    pub(super) fn new(recorded: Vec<Value>) -> Self {
        let has_query =
            |request: &Value| request["uri"].as_str().is_some_and(|uri| uri.contains('='));
        Self { recorded: recorded.into_iter().filter(has_query).collect() }
    }

    /// A request with the text, drawn by its hash; `nth` draws others for the same text.
    pub(super) fn carry(&self, text: &str, hash: u64, nth: u64) -> Value {
        let mut draw = Draw(hash.wrapping_add(nth.wrapping_mul(0x1234_5678_9ABC_DEF1)));
        let carried = self.carried(&mut draw, text);
        self.dressed(&mut draw, carried)
    }

    /// The request with the cookies and the referer of a recorded one, every third time: their characters are those
    /// of real traffic, whatever the label.
    fn dressed(&self, draw: &mut Draw, mut request: Value) -> Value {
        let recorded = self.recorded.get(draw.below(self.recorded.len()));
        let (Some(recorded), 0) = (recorded, draw.below(3)) else { return request };
        for name in ["cookie", "referer"] {
            let is_it = |header: &&Value| {
                header[0].as_str().is_some_and(|known| known.eq_ignore_ascii_case(name))
            };
            let found = recorded["headers"].as_array().into_iter().flatten().find(is_it).cloned();
            let headers = request["headers"].as_array_mut();
            if let (Some(found), Some(headers)) = (found, headers) {
                match headers.iter_mut().find(|header| is_it(&&**header)) {
                    // What carries the text stays.
                    Some(own) if name == "cookie" => {
                        let both =
                            [&*own, &found].map(|cookie| cookie[1].as_str().unwrap_or_default());
                        own[1] = Value::from(both.join("; "));
                    }
                    Some(own) => *own = found,
                    None => headers.push(found),
                }
            }
        }
        request
    }

    fn carried(&self, draw: &mut Draw, text: &str) -> Value {
        let header_safe = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        match draw.below(20) {
            0..=5 => plain(draw, text),
            6..=8 => form(draw, text),
            9..=11 => json_body(draw, text),
            12 => multipart(draw, text),
            13 => cookie(draw, text),
            14 if header_safe => header(draw, text),
            15 => path(draw, text),
            16..=18 if !self.recorded.is_empty() => self.in_recorded(draw, text),
            _ => plain(draw, text),
        }
    }

    /// A recorded request with the text as the value of one of its parameters.
    fn in_recorded(&self, draw: &mut Draw, text: &str) -> Value {
        let Some(recorded) = self.recorded.get(draw.below(self.recorded.len())) else {
            return plain(draw, text);
        };
        let mut request = recorded.clone();
        let uri = request["uri"].as_str().unwrap_or("/?a=b").to_owned();
        let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
        let mut pairs: Vec<String> = query.split('&').map(str::to_owned).collect();
        let at = draw.below(pairs.len());
        if let Some(pair) = pairs.get_mut(at) {
            let name = pair.split('=').next().unwrap_or("q");
            *pair = format!("{name}={}", encoded(draw, text));
        }
        request["uri"] = Value::from(format!("{path}?{}", pairs.join("&")));
        request
    }
}

fn request(draw: &mut Draw, method: &str, uri: &str, more: &[(&str, &str)], body: &str) -> Value {
    let host = draw.of(&HOSTS);
    let accept =
        draw.of(&["*/*", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"]);
    let referer = format!("https://{host}/");
    let mut headers: Vec<(String, String)> = [
        ("Host", host),
        ("User-Agent", draw.of(&AGENTS)),
        ("Accept", accept),
        ("Accept-Language", "en-US,en;q=0.9"),
        ("Accept-Encoding", "gzip, deflate, br"),
        ("Referer", &referer),
    ]
    .iter()
    .chain(more)
    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
    .collect();
    if draw.below(3) == 0 && !more.iter().any(|(name, _)| *name == "Cookie") {
        headers.push(("Cookie".to_owned(), "session=4f0d8a1be2c94d51; theme=dark".to_owned()));
    }
    let mut request = json!({"id": "", "method": method, "uri": uri, "protocol": "HTTP/1.1"});
    if method == "POST" {
        headers.push(("Content-Length".to_owned(), body.len().to_string()));
        request["body"] = Value::from(body);
    }
    request["headers"] = json!(headers);
    request
}

/// Names and ordinary values around the text.
fn pairs(draw: &mut Draw, text: &str) -> String {
    let name = draw.of(&NAMES);
    let text = encoded(draw, text);
    match draw.below(4) {
        0 => format!("{name}={text}"),
        1 => format!("page=2&{name}={text}"),
        2 => format!("{name}={text}&lang=en"),
        _ => format!("id=1042&{name}={text}&submit=Send"),
    }
}

fn plain(draw: &mut Draw, text: &str) -> Value {
    let uri = format!("{}?{}", draw.of(&PATHS), pairs(draw, text));
    request(draw, "GET", &uri, &[], "")
}

fn form(draw: &mut Draw, text: &str) -> Value {
    let (path, body) = (draw.of(&PATHS), pairs(draw, text));
    request(draw, "POST", path, &[("Content-Type", "application/x-www-form-urlencoded")], &body)
}

fn json_body(draw: &mut Draw, text: &str) -> Value {
    let name = draw.of(&NAMES);
    let body = match draw.below(3) {
        0 => json!({ name: text }),
        1 => json!({"id": 1042, name: text, "active": true, "tags": ["new", "sale"]}),
        _ => json!({"data": {"type": "items", "attributes": {name: text, "price": 19.9}}}),
    };
    request(
        draw,
        "POST",
        "/api/v1/items",
        &[("Content-Type", "application/json")],
        &body.to_string(),
    )
}

fn multipart(draw: &mut Draw, text: &str) -> Value {
    let (path, name) = (draw.of(&PATHS), draw.of(&NAMES));
    let part = format!("Content-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}");
    let body = format!("--XqZ8aB4cD\r\n{part}\r\n--XqZ8aB4cD--\r\n");
    request(
        draw,
        "POST",
        path,
        &[("Content-Type", "multipart/form-data; boundary=XqZ8aB4cD")],
        &body,
    )
}

fn cookie(draw: &mut Draw, text: &str) -> Value {
    let cookie = format!("session=4f0d8a1be2c94d51; {}={}", draw.of(&NAMES), strict(text, "%20"));
    let path = draw.of(&PATHS);
    request(draw, "GET", path, &[("Cookie", &cookie)], "")
}

fn header(draw: &mut Draw, text: &str) -> Value {
    let (path, name) =
        (draw.of(&PATHS), draw.of(&["X-Query", "X-Comment", "X-Custom-Filter", "X-Title"]));
    request(draw, "GET", path, &[(name, text)], "")
}

fn path(draw: &mut Draw, text: &str) -> Value {
    let uri = format!("/{}/{}", draw.of(&NAMES), strict(text, "%20"));
    request(draw, "GET", &uri, &[], "")
}

/// A request with the text in its query, always the same.
pub(super) fn in_query(text: &str) -> Value {
    let uri = format!("/search?q={}", strict(text, "+"));
    request(&mut Draw(0), "GET", &uri, &[], "")
}

/// The text as a value of a query or a form: as a browser writes it, or with as little encoded as a client gets away
/// with. What is percent-encoded already mostly stays as it is.
fn encoded(draw: &mut Draw, text: &str) -> String {
    let is_encoded = text.as_bytes().windows(3).any(|three| {
        three.first() == Some(&b'%') && three.iter().skip(1).all(u8::is_ascii_hexdigit)
    });
    match draw.below(4) {
        0 => sparing(text, is_encoded),
        1 | 2 if is_encoded => sparing(text, true),
        _ => strict(text, "+"),
    }
}

fn strict(text: &str, space: &str) -> String {
    encode(text, space, |byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte))
}

fn sparing(text: &str, keeps_percent: bool) -> String {
    encode(text, "%20", |byte| match byte {
        b'%' => keeps_percent,
        b'#' | b'&' | b'+' | b'\\' | b'"' | b'<' | b'>' => false,
        _ => (b'!'..=b'~').contains(&byte),
    })
}

fn encode(text: &str, space: &str, stays: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push_str(space),
            byte if stays(byte) => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

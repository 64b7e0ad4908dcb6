//! Whole requests from recordings: HAR files, lists of URLs, logs of web servers, bodies of APIs.

use serde_json::{Value, json};

/// The longest URI that is taken: longer ones are limits of a server, not content.
const URI_BYTES_MAX: usize = 8_192;

/// The requests of a HAR file, with their headers and bodies.
pub(super) fn of_har(text: &str) -> Vec<Value> {
    let har: Value = serde_json::from_str(text).unwrap_or_default();
    let entries = har["log"]["entries"].as_array().into_iter().flatten();
    entries.filter_map(|entry| of_entry(&entry["request"])).collect()
}

fn of_entry(request: &Value) -> Option<Value> {
    let (host, uri) = split(request["url"].as_str()?)?;
    let mut headers: Vec<(String, String)> = vec![("Host".to_owned(), host.to_owned())];
    for header in request["headers"].as_array()? {
        let (name, value) = (header["name"].as_str()?, header["value"].as_str()?);
        let left_out = ["host", "content-length", "connection"];
        let is_plain =
            !name.starts_with(':') && !left_out.contains(&name.to_ascii_lowercase().as_str());
        if is_plain && !value.contains(['\r', '\n']) {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
    let method = request["method"].as_str()?;
    let mut made = json!({"id": "", "method": method, "uri": uri, "protocol": "HTTP/1.1"});
    if let Some(body) = request["postData"]["text"].as_str() {
        headers.push(("Content-Length".to_owned(), body.len().to_string()));
        made["body"] = Value::from(body);
    }
    made["headers"] = json!(headers);
    Some(made)
}

/// Requests for URLs, one a line or as the `url` of objects in a JSON array.
pub(super) fn of_urls(text: &str) -> Vec<Value> {
    let list: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    let in_json = list.iter().filter_map(|entry| entry["url"].as_str());
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with("http"));
    in_json.chain(lines).filter_map(|url| of_url(url, "https://www.example.com/")).collect()
}

fn of_url(url: &str, referer: &str) -> Option<Value> {
    let (host, uri) = split(url)?;
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0";
    Some(json!({"id": "", "method": "GET", "uri": uri, "protocol": "HTTP/1.1", "headers": [
        ["Host", host], ["User-Agent", agent], ["Accept", "*/*"], ["Accept-Language", "en-US,en;q=0.5"],
        ["Accept-Encoding", "gzip, deflate, br"], ["Referer", referer],
    ]}))
}

/// Requests from a log in Apache's combined format that were answered well.
pub(super) fn of_log(text: &str) -> Vec<Value> {
    let of_line = |line: &str| {
        let mut quoted = line.split('"').skip(1).step_by(2);
        let status = line.split("\" ").nth(1)?.split(' ').next()?;
        let (request, referer) = (quoted.next()?, quoted.next()?);
        let mut words = request.split(' ');
        let (method, uri) = (words.next()?, words.next()?);
        let is_good = status.starts_with(['2', '3']) && method == "GET" && uri.starts_with('/');
        is_good.then(|| of_url(&format!("http://www.example.com{uri}"), referer))?
    };
    text.lines().filter_map(of_line).collect()
}

/// A request with this JSON as its body.
pub(super) fn of_json_body(text: &str) -> Vec<Value> {
    let body: Option<Value> = serde_json::from_str(text).ok();
    let body = body.map(|body| body.to_string()).filter(|body| body.len() <= 65_536);
    let request = body.map(|body| {
        json!({"id": "", "method": "POST", "uri": "/api/v1/import", "protocol": "HTTP/1.1", "headers": [
            ["Host", "api.example.com"], ["User-Agent", "okhttp/4.12.0"], ["Accept", "application/json"],
            ["Content-Type", "application/json"], ["Content-Length", body.len().to_string()],
        ], "body": body})
    });
    request.into_iter().collect()
}

/// The host, and path with query, of a URL, as a browser sends them.
fn split(url: &str) -> Option<(&str, String)> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let rest = rest.split('#').next()?;
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, uri) = rest.split_at_checked(at)?;
    let uri = if uri.starts_with('/') { uri.to_owned() } else { format!("/{uri}") };
    let sent: String = uri
        .bytes()
        .map(|byte| match byte {
            b'!'..=b'~' if !b"\"<>`".contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    (sent.len() <= URI_BYTES_MAX).then_some((host, sent))
}

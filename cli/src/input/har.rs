//! HAR 1.2 (HTTP Archive), as browsers and proxies export it: its requests as lines of `glacis eval`.

use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: Option<String>,
    request: HarRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    http_version: String,
    #[serde(default)]
    headers: Vec<Pair>,
    #[serde(default)]
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    encoding: Option<String>,
}

/// The requests of a file, each as a line of JSON, or why it is none.
///
/// # Errors
/// When the file is no HAR.
pub(crate) fn requests(text: &[u8]) -> Result<Vec<Result<Vec<u8>, String>>, String> {
    let har: Har = serde_json::from_slice(text).map_err(|error| format!("no HAR: {error}"))?;
    Ok(har.log.entries.into_iter().enumerate().map(|(at, entry)| line(at, entry)).collect())
}

fn line(at: usize, entry: Entry) -> Result<Vec<u8>, String> {
    let HarRequest { method, url, http_version, headers, post_data } = entry.request;
    let (host, uri) = split(&url).ok_or_else(|| format!("{url:?} is no URL of HTTP"))?;
    // Browsers write the pseudo-headers of HTTP/2 among the others.
    let fields = headers.into_iter().filter(|Pair { name, .. }| !name.starts_with(':'));
    let mut headers: Vec<(String, String)> =
        fields.map(|Pair { name, value }| (name, value)).collect();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.insert(0, ("Host".to_owned(), host.to_owned()));
    }
    let protocol = match http_version.to_ascii_lowercase().as_str() {
        "h2" | "http/2" | "http/2.0" => "HTTP/2.0",
        "h3" | "http/3" | "http/3.0" => "HTTP/3.0",
        "http/1.0" => "HTTP/1.0",
        _ => "HTTP/1.1",
    };
    let mut request = json!({
        "id": format!("har-{}", at + 1),
        "method": method,
        "uri": uri,
        "protocol": protocol,
        "headers": headers,
    });
    if let Some(time) = entry.started_date_time {
        request["time"] = time.into();
    }
    if let Some(PostData { text: Some(text), encoding }) = post_data {
        let is_base64 = encoding.is_some_and(|encoding| encoding == "base64");
        request[if is_base64 { "body_base64" } else { "body" }] = text.into();
    }
    serde_json::to_vec(&request).map_err(|error| error.to_string())
}

/// The authority of a URL, and its path with the query.
fn split(url: &str) -> Option<(&str, String)> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let rest = rest.split('#').next()?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let host = authority.rsplit('@').next().filter(|host| !host.is_empty())?;
    Some((host, if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }))
}

//! What a client is shown of a refusal: its name, so that somebody can look it up, and nothing of the rules.

use crate::{
    grpc,
    json::push_string,
    request::{Header, find, has_grpc_headers},
    status::title,
};

/// Bytes of `Accept` that are looked at.
const ACCEPT_BYTES_MAX: usize = 1 << 10;

/// The page that people are shown where no other is given.
const HTML: &str = "\
<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width\">
<meta name=\"robots\" content=\"noindex\">
<title>{status} {title}</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}code{overflow-wrap:anywhere}</style>
<h1>{title}</h1>
<p>This request was refused. If you think that it should not have been, tell the site's operator this number:</p>
<p><code>{request_id}</code></p>
</html>
";

/// The type of HTML pages.
const HTML_TYPE: &str = "text/html; charset=utf-8";

/// The answer to refused requests, by what the client accepts. In every text `{request_id}`, `{status}` and
/// `{title}` stand for the name of the request, the status and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPage {
    /// What clients are shown that prefer HTML, instead of a plain page.
    pub html: Option<String>,
    /// Content type and text for all others, instead of problem details (RFC 9457); without `html` for
    /// everyone.
    pub other: Option<(String, String)>,
}

/// A body, and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) content_type: String,
    pub(crate) text: String,
}

impl BlockPage {
    /// What a client is answered with `status`.
    pub(crate) fn body(&self, wants_html: bool, status: u16, request_id: &str) -> Body {
        let fill = |text: &str| {
            // The name of the request has no braces in it: it cannot bring a placeholder along.
            let text = text.replace("{request_id}", &escaped(request_id));
            text.replace("{status}", &status.to_string()).replace("{title}", title(status))
        };
        let page = |content_type: &str, text| Body { content_type: content_type.to_owned(), text };
        match (&self.html, &self.other) {
            (Some(html), _) if wants_html => page(HTML_TYPE, fill(html)),
            (_, Some((content_type, text))) => page(content_type, fill(text)),
            (None, None) if wants_html => page(HTML_TYPE, fill(HTML)),
            _ => page("application/problem+json", problem(status, request_id)),
        }
    }
}

/// What a refused client is shown, whoever has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; for a call of gRPC the message of its status.
    pub body: String,
    /// The code of gRPC, for a call of gRPC.
    pub grpc_status: Option<u32>,
}

impl Shown {
    /// What the client of the request with these headers is shown with `status`.
    #[must_use]
    pub fn new(page: &BlockPage, status: u16, request: &[Header<'_>], request_id: &str) -> Self {
        let wants_html = find(request, b"accept").is_some_and(prefers_html);
        Self::to(page, status, (wants_html, has_grpc_headers(request)), request_id)
    }

    /// The same, for a client that wants HTML, or calls gRPC.
    pub(crate) fn to(
        page: &BlockPage,
        status: u16,
        (wants_html, is_grpc): (bool, bool),
        request_id: &str,
    ) -> Self {
        let mut headers = vec![("cache-control", "no-store".to_owned())];
        if is_grpc {
            let body = grpc::message(status, request_id);
            return Self { headers, body, grpc_status: Some(grpc::code(status)) };
        }
        let body = page.body(wants_html, status, request_id);
        // Caches must not store it at all; those that do all the same must not mix the two.
        headers.push(("vary", "accept".to_owned()));
        headers.push(("content-type", body.content_type));
        Self { headers, body: body.text, grpc_status: None }
    }
}

/// Names of requests have none of these, wherever they come from; it is a page all the same.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Whether a client prefers HTML to JSON, by its `Accept` (RFC 9110, 12.5.1): it names HTML, and either
/// gives it more weight than JSON, or the same and does not name JSON.
pub(crate) fn prefers_html(accept: &[u8]) -> bool {
    let accept = accept.get(..accept.len().min(ACCEPT_BYTES_MAX)).unwrap_or_default();
    let html = Weight::of(accept, &["text/html", "application/xhtml+xml"], "text/*");
    let json =
        Weight::of(accept, &["application/problem+json", "application/json"], "application/*");
    let ahead =
        html.thousandths > json.thousandths || html.thousandths == json.thousandths && !json.named;
    html.named && html.thousandths > 0 && ahead
}

/// How much a client wants one of some media types.
struct Weight {
    /// `q`, from 0 to 1000.
    thousandths: u16,
    /// Whether one of the types stands there, and not only a pattern that stands for it.
    named: bool,
}

impl Weight {
    /// The most specific entry counts.
    fn of(accept: &[u8], types: &[&str], pattern: &str) -> Self {
        let mut best = (0_u8, 0_u16);
        for entry in accept.split(|&byte| byte == b',') {
            let mut parameters = entry.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let media = parameters.next().unwrap_or_default();
            let is = |name: &str| media.eq_ignore_ascii_case(name.as_bytes());
            let specific = match () {
                () if types.iter().any(|name| is(name)) => 3,
                () if is(pattern) => 2,
                () if is("*/*") => 1,
                () => continue,
            };
            best = best.max((specific, thousandths(parameters)));
        }
        Self { thousandths: best.1, named: best.0 == 3 }
    }
}

/// The value of `q` among the parameters of an entry; 1 where there is none, or none that can be read.
fn thousandths<'a>(mut parameters: impl Iterator<Item = &'a [u8]>) -> u16 {
    let quality = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(2)?;
        name.eq_ignore_ascii_case(b"q=").then_some(value)
    });
    let value = quality.and_then(|value| core::str::from_utf8(value).ok()?.parse::<f32>().ok());
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 1000"
    )]
    let thousandths = (value.unwrap_or(1.0).clamp(0.0, 1.0) * 1_000.0) as u16;
    thousandths
}

/// The body of a refusal: RFC 9457, without a word on the rules.
fn problem(status: u16, request_id: &str) -> String {
    let mut out = String::with_capacity(128);
    out.push_str("{\"type\":\"about:blank\",\"title\":");
    push_string(&mut out, title(status));
    out.push_str(",\"status\":");
    out.push_str(&status.to_string());
    out.push_str(",\"request_id\":");
    push_string(&mut out, request_id);
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_prefer() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", true),
            ("text/html, */*", true),
            ("text/html", true),
            ("TEXT/HTML;level=1;Q=0.5, application/json;q=0.4", true),
            ("application/xhtml+xml", true),
            ("", false),
            ("*/*", false),
            ("text/*", false),
            ("application/json", false),
            ("application/json, text/html", false),
            ("application/problem+json;q=0.9, text/html;q=0.8", false),
            ("text/html;q=0", false),
            ("text/html;q=0, */*", false),
            ("text/html;q=0.1, */*", false),
            ("text/html;q=nonsense", true),
            ("text/html;q=NaN, application/json;q=2", false),
            (",,;;q=,", false),
        ] {
            assert_eq!(prefers_html(accept.as_bytes()), expected, "{accept}");
        }
        assert!(!prefers_html(b"\xff\xfe"));
        assert!(!prefers_html(format!("{}text/html", "a/b,".repeat(300)).as_bytes()));
    }

    #[test]
    fn pages() {
        let other = Some(("text/plain".to_owned(), "{status} {request_id}".to_owned()));
        let html = Some("<p>{request_id} {title}".to_owned());
        let both = BlockPage { html: html.clone(), other: other.clone() };
        let plain = BlockPage { html: None, other };
        let people = BlockPage { html, other: None };
        let json = r#"{"type":"about:blank","title":"Forbidden","status":403,"request_id":"a"}"#;
        for (page, wants_html, content_type, text) in [
            (&both, true, HTML_TYPE, "<p>a Forbidden"),
            (&both, false, "text/plain", "403 a"),
            (&plain, true, "text/plain", "403 a"),
            (&plain, false, "text/plain", "403 a"),
            (&people, true, HTML_TYPE, "<p>a Forbidden"),
            (&people, false, "application/problem+json", json),
            (&BlockPage::default(), false, "application/problem+json", json),
        ] {
            let body = page.body(wants_html, 403, "a");
            assert_eq!((&*body.content_type, &*body.text), (content_type, text));
        }
        let body = BlockPage::default().body(true, 413, "a<b");
        assert_eq!(body.content_type, HTML_TYPE);
        assert!(body.text.contains("413 Content Too Large") && body.text.contains("a&lt;b"));
        assert!(!body.text.contains('{') || body.text.contains("body{font"), "{}", body.text);
    }
}

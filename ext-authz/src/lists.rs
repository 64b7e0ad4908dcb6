//! The lists for wasm-filters, over HTTP on a listener of their own: `GET /lists/NAME`, with an entity tag and a
//! digest, as wasm-filter asks for them.

use core::{fmt::Write as _, time::Duration};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use glacis_limit_store::Bans;
use glacis_service::files::{self, Bounds};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use ring::digest;
use tokio::net::TcpListener;

/// What filters may take of the listener.
const BOUNDS: Bounds = Bounds { connections: 256, connection_time: Duration::from_secs(300) };

/// The list of bans.
pub(crate) const BANS: &str = "bans";

/// A text that is served.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    body: Bytes,
    etag: String,
    digest: String,
}

impl Text {
    pub(crate) fn new(body: impl Into<Bytes>) -> Self {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let body = body.into();
        let hash = digest::digest(&digest::SHA256, &body);
        let mut etag = String::from('"');
        for byte in hash.as_ref().iter().take(16) {
            // Writing to a `String` cannot fail.
            let _ = write!(etag, "{byte:02x}");
        }
        etag.push('"');
        Self { body, etag, digest: format!("sha-256=:{}:", STANDARD.encode(hash.as_ref())) }
    }
}

/// The list of bans as it was served last: a fleet of filters asks for the same one again and again.
#[derive(Debug, Default)]
pub(crate) struct BanList(Mutex<Option<Kept>>);

/// A list of bans, and what it was made of: their changes, and the second at which some were over.
#[derive(Debug)]
struct Kept {
    made_of: (u64, u64),
    text: Text,
}

impl BanList {
    /// The list as it is now.
    pub(crate) fn text(&self, bans: &Bans, now_seconds: u64) -> Text {
        let made_of = (bans.changes(), now_seconds);
        // Held while it is made, so that it is made once.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept.as_ref().filter(|kept| kept.made_of == made_of) {
            return kept.text.clone();
        }
        let text = Text::new(bans.list(now_seconds));
        *kept = Some(Kept { made_of, text: text.clone() });
        text
    }
}

/// The texts of a configuration, by name.
pub(crate) type Texts = BTreeMap<String, Text>;

/// Serves until the process ends. `find` knows the texts.
pub(crate) async fn serve<F>(listener: TcpListener, find: F)
where
    F: Fn(&str) -> Option<Text> + Send + Sync + 'static,
{
    let answer = move |request: &Request<Incoming>| {
        answer(request.method(), request.uri().path(), request.headers(), &find)
    };
    files::serve(listener, "lists", BOUNDS, answer).await;
}

fn answer(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    find: &dyn Fn(&str) -> Option<Text>,
) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    let text = path.strip_prefix("/lists/").and_then(find);
    let (Some(text), true) = (text, *method == Method::GET) else {
        let is_get = *method == Method::GET;
        *answer.status_mut() =
            if is_get { StatusCode::NOT_FOUND } else { StatusCode::METHOD_NOT_ALLOWED };
        return answer;
    };
    let same = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|tag| tag.as_bytes() == text.etag.as_bytes());
    for (name, value) in [
        ("etag", text.etag.as_str()),
        ("repr-digest", &text.digest),
        ("content-type", "text/plain; charset=utf-8"),
        ("cache-control", "no-cache"),
    ] {
        if let Ok(value) = value.parse() {
            answer.headers_mut().insert(name, value);
        }
    }
    if same {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    } else {
        *answer.body_mut() = Full::new(text.body);
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use glacis_limit_store::{BanScenario, MemoryStore};

    use super::*;

    #[tokio::test]
    async fn a_list_is_kept_while_it_is_the_same() {
        let bans = Bans::new(Arc::new(MemoryStore::new(10)), None);
        let list = BanList::default();
        let of = |now_seconds| String::from_utf8(list.text(&bans, now_seconds).body.to_vec());
        assert_eq!(of(100).unwrap(), "");
        let (leak, time) = (Duration::from_secs(3_600), Duration::from_secs(60));
        let scenario = BanScenario::new("a", 1, leak, time).unwrap();
        for _ in 0..2 {
            bans.refused(&[&scenario], "192.0.2.1".parse().unwrap(), 100).await;
        }
        // In the same second, and until it is over.
        assert_eq!(of(100).unwrap(), "192.0.2.1 deny until=159\n");
        assert_eq!(of(159).unwrap(), "192.0.2.1 deny until=159\n");
        assert_eq!(of(160).unwrap(), "");
        let one = list.text(&bans, 160);
        assert_eq!(list.text(&bans, 160).etag, one.etag);
    }

    #[test]
    fn what_is_asked_for() {
        let text = Text::new("x");
        // SHA-256 of "x": what wasm-filter computes of the body.
        assert_eq!(text.digest, "sha-256=:LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE=:");
        let find = |name: &str| (name == "a").then(|| text.clone());
        let mut known = HeaderMap::new();
        known.insert(header::IF_NONE_MATCH, text.etag.parse().unwrap());
        let none = HeaderMap::new();
        for (method, path, headers, expected) in [
            (Method::GET, "/lists/a", &none, 200),
            (Method::GET, "/lists/a", &known, 304),
            (Method::GET, "/lists/b", &none, 404),
            (Method::GET, "/a", &none, 404),
            (Method::POST, "/lists/a", &none, 405),
        ] {
            let answer = answer(&method, path, headers, &find);
            assert_eq!(answer.status().as_u16(), expected, "{method} {path}");
        }
    }
}

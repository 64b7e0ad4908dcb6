//! Bearer tokens for listeners: a shared secret from a file, reloaded when the file changes.
//!
//! A token authenticates whoever knows it. It does not encrypt anything: on a network that others can read it needs
//! TLS as well.

use core::{fmt, time::Duration};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use axum::{
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, header};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use subtle::ConstantTimeEq as _;
use tonic::{Status, body::Body, service::Routes};

use crate::{
    alarm::AlarmLog,
    metric_family::{RESULTS, result},
    reload::{self, Reload, attempt},
};

/// Bytes of a token, without white space around it.
pub const TOKEN_BYTES: core::ops::RangeInclusive<usize> = 16..=4_096;

/// Bytes of a file with a token.
const FILE_BYTES_MAX: u64 = 8_192;

/// A token that cannot be used, and why.
#[derive(Debug)]
pub struct TokenError {
    path: PathBuf,
    message: String,
}

impl TokenError {
    fn new(path: &Path, message: impl fmt::Display) -> Self {
        Self { path: path.to_owned(), message: message.to_string() }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token_file: {}: {}", self.path.display(), self.message)
    }
}

impl core::error::Error for TokenError {}

/// Counters of authentication by token, to be registered.
#[derive(Clone, Debug)]
pub struct TokenMetrics {
    /// Requests and calls that were rejected for want of the token, by listener.
    pub rejected: Family<ListenerLabel, Counter>,
    /// Token files that were reloaded, by listener and result: `success`, or `failure` (the token before stays in
    /// use).
    pub reloads: Family<ReloadLabel, Counter>,
}

/// The label of a listener: `grpc` or `admin`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ListenerLabel {
    listener: &'static str,
}

/// The labels of reloads.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReloadLabel {
    listener: &'static str,
    result: &'static str,
}

impl Default for TokenMetrics {
    /// All counters, at 0.
    fn default() -> Self {
        let (rejected, reloads) = (Family::default(), Family::default());
        for listener in crate::tls::TlsMetrics::LISTENERS {
            drop(rejected.get_or_create(&ListenerLabel { listener }));
            for result in RESULTS {
                drop(reloads.get_or_create(&ReloadLabel { listener, result }));
            }
        }
        Self { rejected, reloads }
    }
}

/// The token of a listener. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    listener: &'static str,
    path: Arc<Path>,
    current: Arc<RwLock<Secret>>,
    metrics: TokenMetrics,
    alarms: Arc<AlarmLog>,
}

/// A token's bytes, which no log shows.
struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Token {
    /// Reads the token of the listener `listener` from a file.
    ///
    /// # Errors
    /// When the file cannot be read, or holds what is no token.
    pub(crate) fn load(listener: &'static str, path: &Path) -> Result<Self, TokenError> {
        let current = Arc::new(RwLock::new(read(path)?));
        let (metrics, alarms) = (TokenMetrics::default(), Arc::default());
        Ok(Self { listener, path: path.into(), current, metrics, alarms })
    }

    /// Counts in `metrics` from now on.
    pub(crate) fn count_in(&mut self, metrics: &TokenMetrics) {
        self.metrics = metrics.clone();
    }

    /// Reloads the file when it changes, as long as the runtime runs, see [`reload::watch`].
    pub(crate) fn watch(&self, interval: Option<Duration>) -> io::Result<()> {
        let read = digest(&self.path);
        reload::watch(&self.what(), Reloader { token: self.clone(), read }, interval)
    }

    fn what(&self) -> String {
        format!("the token of {}", self.listener)
    }

    /// Whether a request brings the token: in its one `Authorization` field, as `Bearer TOKEN`, or as the password
    /// of `Basic`, which is what browsers can send. A request that does not is counted and, once a minute, logged.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let mut fields = headers.get_all(header::AUTHORIZATION).iter();
        let given = fields.next().and_then(credential).filter(|_| fields.next().is_none());
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let admitted = given.is_some_and(|given| bool::from(given.ct_eq(&current.0)));
        if !admitted {
            let label = ListenerLabel { listener: self.listener };
            self.metrics.rejected.get_or_create(&label).inc();
            self.alarms.say(
                self.listener,
                "requests without the token of this listener's token_file are rejected",
            );
        }
        admitted
    }
}

/// The secret in a field `Authorization` (RFC 6750, 2.1; RFC 7617).
fn credential(field: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, value) = field.to_str().ok()?.trim().split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = STANDARD.decode(value).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

/// Rejects calls of gRPC without the token. Services that are added afterwards are exempt.
pub(crate) fn guarded(routes: Routes, token: Token) -> Routes {
    async fn check(State(token): State<Token>, request: Request, next: Next) -> Response {
        if token.admits(request.headers()) {
            return next.run(request).await;
        }
        let status = Status::unauthenticated("this port needs the token of listen.token_file");
        status.into_http::<Body>().map(axum::body::Body::new)
    }
    routes.into_axum_router().layer(from_fn_with_state(token, check)).into()
}

fn read(path: &Path) -> Result<Secret, TokenError> {
    let length = std::fs::metadata(path).map_err(|error| TokenError::new(path, error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(TokenError::new(path, "the file is too large: at most 8 KiB"));
    }
    let text = std::fs::read(path).map_err(|error| TokenError::new(path, error))?;
    let token = text.trim_ascii();
    let good = TOKEN_BYTES.contains(&token.len()) && token.iter().all(u8::is_ascii_graphic);
    if !good {
        let message = "write 16 to 4096 visible characters of ASCII into it, without blanks";
        return Err(TokenError::new(path, message));
    }
    Ok(Secret(token.to_vec()))
}

/// A number that stands for what the file holds now.
fn digest(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    read(path).map(|secret| secret.0).map_err(|error| error.to_string()).hash(&mut hasher);
    hasher.finish()
}

/// Reloads a token.
struct Reloader {
    token: Token,
    /// What the file held when it was last read.
    read: u64,
}

impl Reload for Reloader {
    fn as_read(&self) -> u64 {
        self.read
    }

    fn now(&self) -> u64 {
        digest(&self.token.path)
    }

    fn reload(&mut self) {
        let now = self.now();
        // SIGHUP reloads everything that can be reloaded.
        if now == self.read {
            return;
        }
        self.read = now;
        let Token { listener, path, current, metrics, .. } = &self.token;
        let last = attempt(&self.token.what(), || {
            let secret = read(path)?;
            *current.write().unwrap_or_else(PoisonError::into_inner) = secret;
            Ok(())
        });
        let result = result(last.error.is_none());
        metrics.reloads.get_or_create(&ReloadLabel { listener, result }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn file(name: &str, content: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("glacis-{name}-{}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        path
    }

    #[test]
    fn tokens_in_files() {
        let long = "a".repeat(*TOKEN_BYTES.end());
        let path = file("token-lengths", b"");
        for (content, good) in [
            (TOKEN, true),
            (" 0123456789abcdef\r\n", true),
            ("0123456789abcde", false),
            ("0123456789abcde\n", false),
            ("", false),
            ("01234567 9abcdef0", false),
            ("0123456789abcde\u{e9}", false),
            (&long, true),
            (&format!("{long}a"), false),
            (&format!("{long}{}", " ".repeat(5_000)), false),
        ] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(read(&path).is_ok(), good, "{content:?}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = Token::load("grpc", &path).unwrap_err().to_string();
        assert!(error.contains("token_file") && error.contains("token-lengths"), "{error}");
    }

    #[test]
    fn credentials_of_requests() {
        let path = file("token-credentials", TOKEN.as_bytes());
        let token = Token::load("admin", &path).unwrap();
        assert!(!format!("{token:?}").contains(TOKEN), "no log shows it");
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        let bearer = format!("Bearer {TOKEN}");
        for (fields, admitted) in [
            (vec![], false),
            (vec![bearer.clone()], true),
            (vec![format!("bearer  {TOKEN} ")], true),
            (vec![TOKEN.to_owned()], false),
            (vec![format!("Digest {TOKEN}")], false),
            (vec![format!("Bearer {TOKEN}0")], false),
            (vec!["Bearer 0123456789abcde".to_owned()], false),
            (vec!["Bearer ".to_owned()], false),
            (vec![basic(&format!("anybody:{TOKEN}"))], true),
            (vec![basic(&format!(":{TOKEN}"))], true),
            (vec![basic(TOKEN)], false),
            (vec![basic(&format!("{TOKEN}:"))], false),
            (vec!["Basic %%%".to_owned()], false),
            // Nobody knows which of two counts.
            (vec![bearer.clone(), bearer.clone()], false),
            (vec![bearer, "Basic x".to_owned()], false),
        ] {
            let mut headers = HeaderMap::new();
            for field in &fields {
                headers.append(header::AUTHORIZATION, field.parse().unwrap());
            }
            let label = ListenerLabel { listener: "admin" };
            let rejected = token.metrics.rejected.get_or_create(&label).get();
            assert_eq!(token.admits(&headers), admitted, "{fields:?}");
            let counted = token.metrics.rejected.get_or_create(&label).get() - rejected;
            assert_eq!(counted, u64::from(!admitted), "{fields:?}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_token_that_is_no_good_leaves_the_one_before() {
        let path = file("token-reload", TOKEN.as_bytes());
        let token = Token::load("grpc", &path).unwrap();
        let mut reloader = Reloader { token: token.clone(), read: digest(&path) };
        let mut reload = |content: &str, given: &str| {
            std::fs::write(&path, content).unwrap();
            reloader.reload();
            let field = format!("Bearer {given}").parse().unwrap();
            token.admits(&HeaderMap::from_iter([(header::AUTHORIZATION, field)]))
        };
        assert!(reload("short", TOKEN));
        assert!(reload("fedcba9876543210", "fedcba9876543210"));
        assert!(!reload("fedcba9876543210\n", TOKEN), "what was before is over");
        for (result, expected) in [("success", 1), ("failure", 1)] {
            let label = ReloadLabel { listener: "grpc", result };
            assert_eq!(token.metrics.reloads.get_or_create(&label).get(), expected, "{result}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

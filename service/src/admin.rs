//! The admin port: HTTP/1.1 for operators and their tools.
//!
//! `/metrics`, `/livez` and `/healthz` (the process runs), `/readyz` (it takes requests; if not, why) and `/log-level`
//! are here; what a service has besides, an [`AdminHandler`] of its own answers. Which requests are answered at
//! all is decided in `guard`, and by the token of the port in `access`.

mod access;
mod guard;

use core::{convert::Infallible, fmt, panic::AssertUnwindSafe, time::Duration};
use std::{
    io,
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use serde::Serialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{Semaphore, oneshot, watch},
    time::timeout,
};

use crate::{
    accept::not_accepted,
    evaluators::{Evaluators, Priority},
    priority::give_way,
    readiness::Causes,
    telemetry::LogLevel,
    tls::Gate,
};
pub(crate) use access::Access;
use access::METRICS;

/// What requests to the port may take.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Connections served at once; more have to wait.
    connections: usize,
    /// How long a client may take to send the head of a request, and then its body.
    head: Duration,
    body: Duration,
    /// Bytes of a request's body.
    body_bytes: usize,
    /// How long a connection is kept: then what is under way on it has `last` to finish. So nobody who does
    /// not read what he asked for keeps one for ever.
    connection: Duration,
    last: Duration,
}

const BOUNDS: Bounds = Bounds {
    connections: 64,
    head: Duration::from_secs(5),
    body: Duration::from_secs(5),
    body_bytes: 1 << 20,
    connection: Duration::from_secs(60),
    last: Duration::from_secs(40),
};

/// An answer.
pub type AdminAnswer = Response<Bytes>;

/// A request that is to be answered.
#[derive(Debug)]
pub struct AdminRequest {
    /// `GET` (also for HEAD), `POST` or `PUT`.
    pub method: Method,
    /// The path.
    pub path: String,
    /// What follows the question mark, as sent.
    pub query: String,
    /// Whether the client asks for plain text.
    pub wants_text: bool,
    /// The body; of the type `application/json`.
    pub body: Bytes,
}

/// What becomes of a request.
pub enum Handled {
    /// It is answered.
    Now(AdminAnswer),
    /// It takes long: it is answered on a thread of its own that gives way to those that serve, one at a
    /// time.
    Long(Box<dyn FnOnce() -> AdminAnswer + Send>),
}

impl fmt::Debug for Handled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handled").finish_non_exhaustive()
    }
}

/// What a service answers on its admin port besides what every service does.
pub trait AdminHandler: Send + Sync + 'static {
    /// Answers a request; `None` for a path that it does not know.
    fn handle(&self, request: &AdminRequest) -> Option<Handled>;

    /// The paths it knows, for whoever asks for another.
    fn paths(&self) -> &'static str;
}

/// What the admin port tells.
#[derive(Clone)]
pub struct AdminPort {
    /// For `/metrics`.
    pub registry: Arc<Registry>,
    /// For `/log-level`.
    pub log_level: LogLevel,
    /// For everything else.
    pub handler: Arc<dyn AdminHandler>,
}

impl fmt::Debug for AdminPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminPort").finish_non_exhaustive()
    }
}

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Admin {
    port: AdminPort,
    causes: watch::Receiver<Causes>,
    access: Access,
    /// Whether only what is open to everybody is answered.
    probes_only: bool,
    /// The thread that answers, away from those that serve Envoy.
    desk: Arc<Evaluators>,
    /// Whether something that takes long is under way.
    busy: Arc<AtomicBool>,
    bounds: Bounds,
}

impl Admin {
    /// # Errors
    /// When the thread that answers cannot be started.
    pub(crate) fn new(
        port: AdminPort,
        causes: watch::Receiver<Causes>,
        access: Access,
    ) -> io::Result<Arc<Self>> {
        // A connection has one request at a time, so that all of them fit: those of probes as well.
        let desk = Arc::new(Evaluators::start(1, 2 * BOUNDS.connections, Priority::Admin)?);
        let (busy, bounds) = (Arc::default(), BOUNDS);
        Ok(Arc::new(Self { port, causes, access, probes_only: false, desk, busy, bounds }))
    }

    /// The same for a listener that answers probes alone.
    pub(crate) fn for_probes(&self) -> Arc<Self> {
        Arc::new(Self { probes_only: true, ..self.clone() })
    }
}

/// Serves until the process ends.
pub(crate) async fn serve(listener: TcpListener, gate: Option<Gate>, admin: Arc<Admin>) {
    let room = Arc::new(Semaphore::new(admin.bounds.connections));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                not_accepted("the admin port", &error).await;
                continue;
            }
        };
        let (admin, gate) = (Arc::clone(&admin), gate.clone());
        tokio::spawn(async move {
            match &gate {
                None => connection(stream, admin).await,
                Some(gate) => {
                    if let Some(secured) = gate.enter(stream).await {
                        connection(secured, admin).await;
                    }
                }
            }
            drop(permit);
        });
    }
}

/// Serves one connection until it ends, at the latest when its time is over.
pub(crate) async fn connection<S>(stream: S, admin: Arc<Admin>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let bounds = admin.bounds;
    let answer = service_fn(move |request: Request<Incoming>| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(answer(request, &admin).await.map(Full::new)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.head)
        .serve_connection(TokioIo::new(stream), answer);
    let mut served = core::pin::pin!(served);
    // A client that goes away is no event worth a log line.
    if timeout(bounds.connection, &mut served).await.is_err() {
        served.as_mut().graceful_shutdown();
        let _ = timeout(bounds.last, served).await;
    }
}

async fn answer(request: Request<Incoming>, admin: &Arc<Admin>) -> AdminAnswer {
    let (head, body) = request.into_parts();
    let mut answer = match admin.access.refuse(&head, admin.probes_only) {
        Some(answer) => answer,
        None => match read(body, &head.method, &admin.bounds).await {
            Err((status, why)) => text(status, why.to_owned()),
            Ok(body) => {
                let accept = head.headers.get(header::ACCEPT);
                let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or_default();
                let is_head = head.method == Method::HEAD;
                let request = AdminRequest {
                    method: if is_head { Method::GET } else { head.method },
                    path: head.uri.path().to_owned(),
                    query: head.uri.query().unwrap_or_default().to_owned(),
                    wants_text: accept.starts_with("text/plain"),
                    body,
                };
                handled(request, admin).await
            }
        },
    };
    protect(&mut answer);
    answer
}

/// What browsers are told with every answer, so that nothing of it is run, kept or shown elsewhere.
fn protect(answer: &mut AdminAnswer) {
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

async fn read(
    body: Incoming,
    method: &Method,
    bounds: &Bounds,
) -> Result<Bytes, (StatusCode, &'static str)> {
    if *method == Method::GET || *method == Method::HEAD {
        return Ok(Bytes::new());
    }
    match timeout(bounds.body, Limited::new(body, bounds.body_bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => Err((StatusCode::PAYLOAD_TOO_LARGE, "at most 1 MiB\n")),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body did not come\n")),
    }
}

/// Answers a request, away from the threads that serve Envoy: what there is to tell may be megabytes. Only
/// probes are answered here: they are short, and come when nothing else works.
async fn handled(request: AdminRequest, admin: &Arc<Admin>) -> AdminAnswer {
    if let Some(answer) = probe(&request, admin) {
        return answer;
    }
    let work = |(request, admin): (AdminRequest, Arc<Admin>)| route(&request, &admin);
    let Ok(told) = admin.desk.submit((request, Arc::clone(admin)), work) else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once\n".to_owned());
    };
    match told.await {
        Ok(Handled::Now(answer)) => answer,
        Ok(Handled::Long(work)) => long(work, &admin.busy).await,
        Err(_) => bug(),
    }
}

/// What is asked to learn whether the process is well.
fn probe(request: &AdminRequest, admin: &Admin) -> Option<AdminAnswer> {
    match request.path.as_str() {
        "/livez" | "/healthz" | "/readyz" if request.method != Method::GET => Some(get_only()),
        "/livez" | "/healthz" => Some(text(StatusCode::OK, "ok\n".to_owned())),
        "/readyz" => Some(ready(&admin.causes.borrow())),
        _ => None,
    }
}

fn get_only() -> AdminAnswer {
    text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned())
}

fn route(request: &AdminRequest, admin: &Admin) -> Handled {
    if let Some(answer) = own(request, admin) {
        return Handled::Now(answer);
    }
    let handler = &admin.port.handler;
    handler.handle(request).unwrap_or_else(|| {
        let paths =
            format!("try /metrics, /livez, /healthz, /readyz, /log-level, {}\n", handler.paths());
        Handled::Now(text(StatusCode::NOT_FOUND, paths))
    })
}

fn bug() -> AdminAnswer {
    text(StatusCode::INTERNAL_SERVER_ERROR, "a bug: see the log\n".to_owned())
}

/// What every service answers besides probes.
fn own(request: &AdminRequest, admin: &Admin) -> Option<AdminAnswer> {
    let is_get = request.method == Method::GET;
    let answer = match request.path.as_str() {
        "/log-level" if request.method == Method::PUT => set_level(request, &admin.port.log_level),
        METRICS | "/log-level" if !is_get => get_only(),
        METRICS => metrics(&admin.port.registry),
        "/log-level" => level(&admin.port.log_level),
        _ => return None,
    };
    Some(answer)
}

/// Whether the process takes requests; if not, why.
pub(crate) fn ready(causes: &Causes) -> AdminAnswer {
    if causes.is_empty() {
        return text(StatusCode::OK, "ready\n".to_owned());
    }
    let lines = causes.iter().map(|(cause, why)| format!("{cause}: {why}\n"));
    text(StatusCode::SERVICE_UNAVAILABLE, lines.collect())
}

fn level(level: &LogLevel) -> AdminAnswer {
    json(StatusCode::OK, format!("{{\"level\":\"{}\"}}\n", level.name().unwrap_or("unknown")))
}

fn set_level(request: &AdminRequest, log_level: &LogLevel) -> AdminAnswer {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        level: String,
    }
    let Ok(Wanted { level: wanted }) = serde_json::from_slice(&request.body) else {
        return text(StatusCode::BAD_REQUEST, "write {\"level\": \"debug\"}\n".to_owned());
    };
    match log_level.set(&wanted) {
        Ok(()) => {
            tracing::warn!(level = wanted, "the log level was set through the admin port");
            level(log_level)
        }
        Err(why) => text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    }
}

/// Has work done on a thread that gives way to those that serve.
async fn long(
    work: Box<dyn FnOnce() -> AdminAnswer + Send>,
    busy: &Arc<AtomicBool>,
) -> AdminAnswer {
    if busy.swap(true, Ordering::AcqRel) {
        let why = "another one is under way: ask again in a moment\n".to_owned();
        let mut answer = text(StatusCode::TOO_MANY_REQUESTS, why);
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return answer;
    }
    let (done, answer) = oneshot::channel();
    let free = Free(Arc::clone(busy));
    let thread = thread::Builder::new().name("admin".to_owned()).spawn(move || {
        let free = free;
        give_way();
        let answer = catch_unwind(AssertUnwindSafe(work));
        drop(free);
        // Who asked may have gone.
        if let Ok(answer) = answer {
            drop(done.send(answer));
        }
    });
    match (thread, answer.await) {
        (Ok(_), Ok(answer)) => answer,
        (Ok(_), Err(_)) => bug(),
        (Err(error), _) => {
            let why = format!("no thread for it: {error}\n");
            text(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }
}

/// Gives the place for long work back, however the work ends.
struct Free(Arc<AtomicBool>);

impl Drop for Free {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn metrics(registry: &Registry) -> AdminAnswer {
    let mut out = String::new();
    if prometheus_client::encoding::text::encode(&mut out, registry).is_err() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written\n".to_owned());
    }
    typed(StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", out)
}

/// An answer of a media type.
pub fn typed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> AdminAnswer {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// A good answer: what is told, in JSON.
pub fn good(value: &impl Serialize) -> AdminAnswer {
    match serde_json::to_string(value) {
        Ok(text) => json(StatusCode::OK, text),
        // Plain data can be written.
        Err(error) => {
            tracing::error!(%error, "an answer of the admin port cannot be written: a bug");
            bug()
        }
    }
}

/// An answer in plain text.
#[must_use]
pub fn text(status: StatusCode, body: String) -> AdminAnswer {
    typed(status, "text/plain; charset=utf-8", body)
}

/// An answer in JSON.
#[must_use]
pub fn json(status: StatusCode, body: String) -> AdminAnswer {
    typed(status, "application/json", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers `/mine`, and sleeps for `/slow`.
    struct Mine;

    impl AdminHandler for Mine {
        fn handle(&self, request: &AdminRequest) -> Option<Handled> {
            match request.path.as_str() {
                "/mine" => Some(Handled::Now(text(StatusCode::OK, request.query.clone()))),
                "/slow" => Some(Handled::Long(Box::new(|| {
                    thread::sleep(Duration::from_millis(200));
                    text(StatusCode::OK, "slept\n".to_owned())
                }))),
                "/bug" => Some(Handled::Long(Box::new(|| panic!("a bug")))),
                _ => None,
            }
        }

        fn paths(&self) -> &'static str {
            "/mine"
        }
    }

    /// Short times, little room.
    const SMALL: Bounds = Bounds {
        connections: 1,
        head: Duration::from_millis(300),
        body: Duration::from_millis(100),
        body_bytes: 4,
        connection: Duration::from_millis(600),
        last: Duration::from_millis(50),
    };

    /// What comes back on a connection until it ends, and when that was.
    async fn talk(address: std::net::SocketAddr, sent: &'static str) -> (String, Duration) {
        use std::io::{Read as _, Write as _};
        let talk = move || {
            let begun = std::time::Instant::now();
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(sent.as_bytes()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            (answer, begun.elapsed())
        };
        tokio::task::spawn_blocking(talk).await.unwrap()
    }

    #[tokio::test]
    async fn what_a_client_may_take_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let small = Admin { bounds: SMALL, ..Arc::into_inner(admin(Causes::new())).unwrap() };
        tokio::spawn(serve(listener, None, Arc::new(small)));
        for (sent, answer) in [
            // Nothing is sent, or not all of a head.
            ("", ""),
            ("GET /healthz HTTP/1.1\r\n", ""),
            // Nothing more is sent on a connection that could go on.
            ("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", "HTTP/1.1 200"),
            // A body does not come, or is too large.
            (
                "POST /mine HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n\
                 content-length: 3\r\n\r\nab",
                "HTTP/1.1 408",
            ),
            (
                "POST /mine HTTP/1.1\r\nhost: [::1]\r\ncontent-type: application/json\r\n\
                 content-length: 5\r\n\r\nabcde",
                "HTTP/1.1 413",
            ),
        ] {
            let (found, time) = talk(address, sent).await;
            assert!(found.starts_with(answer) && time < Duration::from_secs(10), "{sent}: {found}");
        }
        // There is room for one: the other waits until it has gone.
        let close = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let (first, (second, time)) = tokio::join!(talk(address, ""), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            talk(address, close).await
        });
        assert!(first.0.is_empty() && second.starts_with("HTTP/1.1 200"), "{second}");
        assert!(time > Duration::from_millis(150), "{time:?}");
    }

    fn admin(causes: Causes) -> Arc<Admin> {
        let port = AdminPort {
            registry: Arc::default(),
            log_level: crate::telemetry::init(tracing::Level::INFO),
            handler: Arc::new(Mine),
        };
        let (_, causes) = watch::channel(causes);
        Admin::new(port, causes, Access::default()).unwrap()
    }

    fn request(method: &str, path: &str, body: &'static str) -> AdminRequest {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        AdminRequest {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            query: query.to_owned(),
            wants_text: false,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    #[tokio::test]
    async fn paths() {
        let others = "try /metrics, /livez, /healthz, /readyz, /log-level, /mine\n";
        for (method, path, ready, status, body) in [
            ("GET", "/metrics", true, 200, "# EOF\n"),
            ("GET", "/livez", false, 200, "ok\n"),
            ("PUT", "/livez", true, 405, "GET only\n"),
            ("GET", "/healthz", false, 200, "ok\n"),
            ("GET", "/readyz", true, 200, "ready\n"),
            ("GET", "/readyz", false, 503, "canary: it sang\ndraining: it ends\n"),
            ("POST", "/metrics", true, 405, "GET only\n"),
            ("PUT", "/readyz", true, 405, "GET only\n"),
            ("POST", "/log-level", true, 405, "GET only\n"),
            ("PUT", "/log-level", true, 400, "write {\"level\": \"debug\"}\n"),
            ("GET", "/mine?a=b", true, 200, "a=b"),
            ("GET", "/", true, 404, others),
        ] {
            let causes = [("draining", "it ends"), ("canary", "it sang")];
            let causes = causes.map(|(cause, why)| (cause, why.to_owned()));
            let causes = if ready { Causes::new() } else { causes.into() };
            let answer = handled(request(method, path, ""), &admin(causes)).await;
            let found = core::str::from_utf8(answer.body()).unwrap();
            assert_eq!((answer.status().as_u16(), found), (status, body), "{method} {path}");
        }
    }

    #[tokio::test]
    async fn one_long_answer_at_a_time() {
        let admin = admin(Causes::new());
        let slow = || handled(request("GET", "/slow", ""), &admin);
        let (first, second) = tokio::join!(slow(), slow());
        let mut found = [first.status().as_u16(), second.status().as_u16()];
        found.sort_unstable();
        assert_eq!(found, [200, 429]);
        // A bug leaves the place free.
        assert_eq!(handled(request("GET", "/bug", ""), &admin).await.status(), 500);
        assert_eq!(slow().await.status(), 200);
    }
}

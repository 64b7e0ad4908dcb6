//! The canary through Envoy: every few seconds a known attack is sent to Envoy as a client would send it. When it
//! passes, rules may be as good as they are: Envoy does not have requests inspected, or not by us.

use core::time::Duration;
use std::sync::Arc;

use glacis_service::Readiness;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{config::EnvoyCanary, metrics::table, shared::Shared};

/// What holds readiness back.
const CAUSE: &str = "canary_envoy";

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of an answer in which its head has to end.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Looks for which readiness is held back before it is tried again. While it is, Envoy does not ask us, so that the
/// canary can say nothing of us.
const HELD_LOOKS: u32 = 6;

/// What became of the attack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was answered as ext-proc refuses.
    Refused,
    /// It was answered by somebody behind.
    Passed(u16),
    /// It cannot be told, and why.
    Unknown(String),
}

impl Seen {
    pub(crate) const NAMES: [&str; 3] = ["refused", "passed", "unknown"];

    const fn name(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Passed(_) => "passed",
            Self::Unknown(_) => "unknown",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

/// The metric of the canary through Envoy.
#[derive(Debug, Default)]
pub(crate) struct EnvoyCanaryMetrics {
    sent: Family<ResultLabel, Counter>,
}

impl EnvoyCanaryMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        for result in Seen::NAMES {
            drop(self.sent.get_or_create(&ResultLabel { result }));
        }
        table::CANARY_ENVOY.register(registry, self.sent.clone());
    }
}

/// Sends the attack again and again for as long as the runtime runs.
pub(crate) fn start(
    shared: &Arc<Shared>,
    readiness: &Readiness,
    canary: Option<&EnvoyCanary>,
    interval: Duration,
) {
    let Some(canary) = canary.cloned().filter(|_| !interval.is_zero()) else { return };
    let (shared, mut latch) = (Arc::clone(shared), Latch::new(readiness.clone()));
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(interval).await;
            let seen = send(&canary).await;
            let label = ResultLabel { result: seen.name() };
            shared.metrics().canary_envoy.sent.get_or_create(&label).inc();
            latch.look(&seen);
        }
    });
}

/// Holds readiness back, and lets it go.
struct Latch {
    readiness: Readiness,
    /// Looks since it is held back.
    held: Option<u32>,
    last: Option<Seen>,
}

impl Latch {
    const fn new(readiness: Readiness) -> Self {
        Self { readiness, held: None, last: None }
    }

    fn look(&mut self, seen: &Seen) {
        let is_news = self.last.replace(seen.clone()).as_ref() != Some(seen);
        let looks = self.held.map(|looks| looks.saturating_add(1));
        match (seen, looks) {
            (Seen::Refused, None) => {}
            (Seen::Refused, Some(_)) => self.release("the canary through Envoy is refused again"),
            (_, Some(looks)) if looks >= HELD_LOOKS => {
                self.release("ready again, to see whether the canary through Envoy is refused now");
            }
            (_, Some(looks)) => self.held = Some(looks),
            (Seen::Passed(status), None) => self.hold(*status),
            (Seen::Unknown(why), None) if is_news => {
                tracing::warn!(why, "the canary through Envoy says nothing");
            }
            (Seen::Unknown(_), None) => {}
        }
    }

    fn hold(&mut self, status: u16) {
        self.held = Some(0);
        let why = format!("a known attack passes Envoy: it was answered with {status}");
        self.readiness.hold(CAUSE, &why);
        tracing::error!(
            status,
            "not ready: a known attack passes Envoy. Is the filter on the route of canary_envoy, and does it \
             call this service?"
        );
    }

    fn release(&mut self, why: &str) {
        self.held = None;
        self.readiness.release(CAUSE);
        tracing::info!("{why}");
    }
}

/// Sends the attack once.
async fn send(canary: &EnvoyCanary) -> Seen {
    match timeout(PATIENCE, exchange(canary)).await {
        Ok(Ok(head)) => judge(&head),
        Ok(Err(error)) => Seen::Unknown(error.to_string()),
        Err(_) => Seen::Unknown("no answer in time".to_owned()),
    }
}

/// The head of the answer. Redirections are not followed, and no name is looked up.
async fn exchange(canary: &EnvoyCanary) -> std::io::Result<Vec<u8>> {
    let EnvoyCanary { address, host, uri, .. } = canary;
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET {uri} HTTP/1.1\r\nhost: {host}\r\nuser-agent: glacis-canary\r\naccept: */*\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    head_of(stream).await
}

/// What is read until the head has ended, or is too long.
async fn head_of(mut stream: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while head.len() < HEAD_BYTES_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(head)
}

/// What an answer says. Refusals of ext-proc are told by two fields that they all have; other errors are Envoy's, of
/// another filter's, or the upstream's, and say nothing.
fn judge(head: &[u8]) -> Seen {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let mut lines = text.lines();
    let status =
        lines.next().and_then(|line| line.strip_prefix("http/1.1 ")?.get(..3)?.parse().ok());
    let Some(status) = status else {
        return Seen::Unknown("the answer is not HTTP/1.1".to_owned());
    };
    let fields: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let has = |field: &str| fields.contains(&field);
    match status {
        300..=599 if has("cache-control: no-store") && has("vary: accept") => Seen::Refused,
        200..=399 => Seen::Passed(status),
        _ => Seen::Unknown(format!("somebody else has answered with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let ours = "cache-control: no-store\r\nvary: accept\r\ncontent-type: text/html\r\n\r\n";
        let unknown = |status| Seen::Unknown(format!("somebody else has answered with {status}"));
        for (head, expected) in [
            (format!("HTTP/1.1 403 Forbidden\r\n{ours}"), Seen::Refused),
            (format!("HTTP/1.1 302 Found\r\nlocation: /\r\n{ours}"), Seen::Refused),
            (format!("HTTP/1.1 200 OK\r\n{ours}"), Seen::Passed(200)),
            // One of the two fields is anybody's.
            ("HTTP/1.1 403 Forbidden\r\ncache-control: no-store\r\n\r\n".to_owned(), unknown(403)),
            ("HTTP/1.1 403 Forbidden\r\nvary: accept\r\n\r\n".to_owned(), unknown(403)),
            ("HTTP/1.1 302 Found\r\nvary: accept\r\n\r\n".to_owned(), Seen::Passed(302)),
            ("HTTP/1.1 200 OK\r\n\r\nhello".to_owned(), Seen::Passed(200)),
            ("HTTP/1.1 301 Moved\r\nlocation: /\r\n\r\n".to_owned(), Seen::Passed(301)),
            ("HTTP/1.1 404 Not Found\r\n\r\ncache-control: no-store".to_owned(), unknown(404)),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n".to_owned(), unknown(503)),
            ("HTTP/1.1 429 Too Many Requests\r\n\r\n".to_owned(), unknown(429)),
            ("SSH-2.0".to_owned(), Seen::Unknown("the answer is not HTTP/1.1".to_owned())),
            (String::new(), Seen::Unknown("the answer is not HTTP/1.1".to_owned())),
        ] {
            assert_eq!(judge(head.as_bytes()), expected, "{head}");
        }
    }

    #[tokio::test]
    async fn as_much_is_read_as_is_looked_at() {
        let (first, rest): (&[u8], &[u8]) = (b"HTTP/1.1 403 F", b"orbidden\r\n\r\n");
        let whole = [first, rest].concat();
        // Until the head has ended or the connection, however it comes.
        let more: &[u8] = b"never read";
        assert_eq!(head_of(first.chain(rest).chain(more)).await.unwrap(), whole);
        assert_eq!(head_of(first.chain(more)).await.unwrap(), [first, more].concat());
        let long = vec![b'a'; 4 * HEAD_BYTES_MAX];
        let read = head_of(long.as_slice()).await.unwrap().len();
        assert!((HEAD_BYTES_MAX..2 * HEAD_BYTES_MAX).contains(&read), "{read}");
    }

    #[test]
    fn readiness_is_held_and_tried_again() {
        let mut latch = Latch::new(Readiness::new());
        let unknown = Seen::Unknown("nobody".to_owned());
        latch.look(&unknown);
        latch.look(&Seen::Refused);
        assert_eq!(latch.held, None);
        latch.look(&Seen::Passed(200));
        assert_eq!(latch.held, Some(0));
        // Envoy does not ask us now: whatever it answers is no news.
        for _ in 1..HELD_LOOKS {
            latch.look(&unknown);
        }
        assert_eq!(latch.held, Some(HELD_LOOKS - 1));
        latch.look(&Seen::Passed(200));
        assert_eq!(latch.held, None, "tried again");
        latch.look(&Seen::Passed(200));
        assert_eq!(latch.held, Some(0));
        latch.look(&Seen::Refused);
        assert_eq!(latch.held, None);
        // What was held is released, or the cause would still be news.
        assert!(!latch.readiness.release(CAUSE));
    }
}

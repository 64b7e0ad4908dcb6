//! Lists, tables and patches that are fetched again and again, over HTTP calls of the proxy, without a new
//! configuration.
//!
//! Each is taken whole, and only if its digest is right and all of it can be read;
//! otherwise the one before stays. The last good text is also kept in shared data, so that a new
//! configuration, or a VM that had to be started again, does not begin without it.

use crate::shared::SharedData;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::asn::AsnTable;
pub use glacis_limits::feed::BYTES_MAX as BODY_BYTES_MAX;
use glacis_limits::feed::Content;
pub(crate) use glacis_limits::feed::Kind;
use glacis_limits::geo::CountryTable;
use glacis_limits::network_list::NetworkList;
use glacis_limits::patch::Patch;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest entity tag that is repeated, in bytes; a longer one is as good as none.
const ETAG_BYTES_MAX: usize = 256;
/// After a failure a list is asked for again after so long, or sooner if it is refreshed sooner.
const RETRY_SECONDS: u64 = 10;

const SECOND_NS: u64 = 1_000_000_000;

/// How a list is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Networks with what is said of them, and tables and patches in their own forms: with a digest.
    Own,
    /// A network in each line, of which this mark says the same; no digest is needed.
    Plain(String),
}

/// Where a list, or something else, comes from, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// A cluster of Envoy's.
    pub(crate) cluster: String,
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) refresh_seconds: u64,
    pub(crate) timeout: Duration,
    /// Whether requests cannot be decided while there is nothing yet.
    pub(crate) required: bool,
    /// Whether a list refuses nothing, but what it would is counted and noted.
    pub(crate) shadow: bool,
    pub(crate) format: Format,
    /// How long after the last good answer it is stale, if ever.
    pub(crate) max_age_seconds: Option<u64>,
}

/// What was fetched, and the state of fetching it. A copy shares what was fetched.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    pub(crate) source: Source,
    content: Option<Arc<Content>>,
    etag: String,
    due_ns: u64,
    /// The call that is under way, by its number, and when it is given up.
    waiting: Option<(u64, u64)>,
    /// The failure that is in the log, until there is an answer of use.
    logged: Option<String>,
    /// When the last good answer came; without one, since when it is missed.
    good_ns: Option<u64>,
    stale: bool,
}

/// What came back. `Debug` leaves out the body.
pub struct Response {
    /// Empty if there was no answer.
    pub status: Vec<u8>,
    /// The field `etag`.
    pub etag: Vec<u8>,
    /// `repr-digest` (RFC 9530).
    pub digest: Vec<u8>,
    /// `None` if it could not be read.
    pub body: Option<Vec<u8>>,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// What a response changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is what we have.
    None,
    /// There is something new.
    Replaced,
}

impl Feed {
    /// A feed with what another worker, or this one before it was started again, has left.
    pub(crate) fn restored(source: Source, shared: &impl SharedData) -> Self {
        let kept = shared.read(&key(&source)).map(|stored| stored.value).unwrap_or_default();
        let (content, etag) = match unpacked(&source, &kept)
            .and_then(|(etag, text)| Some((parsed(&source, text).ok()?, etag.to_owned())))
        {
            Some((content, etag)) => (Some(Arc::new(content)), etag),
            None => (None, String::new()),
        };
        let read = || shared.read(&fetched_key(&source)).ok().map(|stored| stored.value);
        let good_ns = content.as_ref().and_then(|_| str::from_utf8(&read()?).ok()?.parse().ok());
        Self {
            source,
            content,
            etag,
            due_ns: 0,
            waiting: None,
            logged: None,
            good_ns,
            stale: false,
        }
    }

    /// Whether the last good answer is longer ago than is allowed, as [`Self::watch`] has found.
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// Looks how old the last good answer is; what to log when it becomes stale.
    pub(crate) fn watch(&mut self, now_ns: u64) -> Option<String> {
        let max_age_seconds = self.source.max_age_seconds?;
        // Without an answer yet it is missed from now on; if the clock was set back, too.
        let good_ns = self.good_ns.filter(|good_ns| *good_ns <= now_ns).unwrap_or(now_ns);
        self.good_ns = Some(good_ns);
        let was_stale = self.stale;
        let age_ns = now_ns.saturating_sub(good_ns);
        self.stale = age_ns > max_age_seconds.saturating_mul(SECOND_NS);
        (self.stale && !was_stale).then(|| {
            let (kind, name) = (self.source.kind.name(), &self.source.name);
            let effect = match self.source.required {
                true => "it is required, so requests are answered with 503",
                false => "it applies as it is",
            };
            format!(
                "the {kind} {name:?} is stale: there was no good answer for {} s \
                 (max_age_seconds: {max_age_seconds}); {effect}",
                age_ns / SECOND_NS
            )
        })
    }

    /// Whether there has been nothing good yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.content.is_none()
    }

    /// The list, if it is one, and there has been a good one.
    pub(crate) fn list(&self) -> Option<&NetworkList> {
        match self.content.as_deref() {
            Some(Content::List(list)) => Some(list),
            _ => None,
        }
    }

    /// The table of countries; as [`Self::list`].
    pub(crate) fn countries(&self) -> Option<&CountryTable> {
        match self.content.as_deref() {
            Some(Content::Countries(table)) => Some(table),
            _ => None,
        }
    }

    /// The table of autonomous systems; as [`Self::list`].
    pub(crate) fn systems(&self) -> Option<&AsnTable> {
        match self.content.as_deref() {
            Some(Content::Systems(table)) => Some(table),
            _ => None,
        }
    }

    /// The virtual patches; none, if it is something else.
    pub(crate) fn patches(&self) -> &[Patch] {
        match self.content.as_deref() {
            Some(Content::Patches(patches)) => patches,
            _ => &[],
        }
    }

    /// Whether it is time to ask for it.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let refresh_ns = (self.source.refresh_seconds + RETRY_SECONDS) * SECOND_NS;
        let waits = |(_, until_ns)| is_to_come(until_ns, now_ns, self.given_up_after_ns());
        !self.waiting.is_some_and(waits) && !is_to_come(self.due_ns, now_ns, refresh_ns)
    }

    /// The fields of the request.
    pub(crate) fn request(&self) -> Vec<(&str, &str)> {
        let mut fields = vec![
            (":method", "GET"),
            (":scheme", "http"),
            (":path", self.source.path.as_str()),
            (":authority", self.source.authority.as_str()),
            ("accept", "text/plain"),
        ];
        if !self.etag.is_empty() && !self.is_empty() {
            fields.push(("if-none-match", &self.etag));
        }
        fields
    }

    /// Notes that the call is under way, or could not be made, which is an error.
    pub(crate) fn called(&mut self, number: Option<u64>, now_ns: u64) -> Result<(), String> {
        let until_ns = now_ns.saturating_add(self.given_up_after_ns());
        self.waiting = number.map(|number| (number, until_ns));
        if number.is_some() {
            return Ok(());
        }
        self.retry(now_ns);
        Err(self.failure("Envoy makes no call"))
    }

    /// Whether a failure is not in the log yet. The next one is, once there has been an answer of use.
    pub(crate) fn is_news(&mut self, failure: &str) -> bool {
        if self.logged.as_deref() == Some(failure) {
            return false;
        }
        self.logged = Some(failure.to_owned());
        true
    }

    /// A failure in words: what it is, what it means for requests, and what to do about it.
    fn failure(&self, reason: &str) -> String {
        let Source { kind, name, cluster, required, .. } = &self.source;
        let kind = kind.name();
        let meaning = match (self.is_empty(), required) {
            (false, _) => "stays as it was",
            (true, true) => "has never been fetched, and requests are answered 503 until it is",
            (true, false) => "has never been fetched, and requests pass without it until it is",
        };
        format!(
            "the {kind} {name:?} {meaning}: {reason}; check that Envoy has a cluster {cluster:?} with an \
             endpoint that serves it"
        )
    }

    /// Whether the answer with this number is for this feed.
    pub(crate) fn awaits(&self, number: u64) -> bool {
        self.waiting.is_some_and(|(awaited, _)| awaited == number)
    }

    /// Takes an answer. An error leaves the list as it was, and says why.
    pub(crate) fn answered(
        &mut self,
        response: &Response,
        now_ns: u64,
        shared: &impl SharedData,
    ) -> Result<Change, String> {
        self.waiting = None;
        match self.change(response, shared) {
            Ok(change) => {
                self.logged = None;
                self.due_ns = now_ns.saturating_add(self.source.refresh_seconds * SECOND_NS);
                (self.good_ns, self.stale) = (Some(now_ns), false);
                if self.source.max_age_seconds.is_some() {
                    // A new VM goes on from it; without it, from its own start.
                    let _ = shared.put(&fetched_key(&self.source), now_ns.to_string().as_bytes());
                }
                Ok(change)
            }
            Err(reason) => {
                self.retry(now_ns);
                Err(self.failure(&reason))
            }
        }
    }

    fn change(&mut self, response: &Response, shared: &impl SharedData) -> Result<Change, String> {
        match response.status.as_slice() {
            b"304" if !self.is_empty() => return Ok(Change::None),
            b"200" => {}
            b"" => return Err("there was no answer".to_owned()),
            other => {
                return Err(format!("the answer was {:?}", String::from_utf8_lossy(other)));
            }
        }
        let body = response.body.as_deref().ok_or("its body could not be read, or is too long")?;
        let needs_digest = self.source.format == Format::Own || !response.digest.is_empty();
        if needs_digest && !is_digest_of(&response.digest, body) {
            return Err("the field repr-digest has no right sha-256 of its body".to_owned());
        }
        let text = str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
        let content = parsed(&self.source, text)?;
        self.etag = plain_etag(&response.etag);
        self.content = Some(Arc::new(content));
        // Without it the list is of use, too; only a new VM begins without.
        let _ = shared.put(&key(&self.source), &packed(&self.source, &self.etag, text));
        Ok(Change::Replaced)
    }

    /// Envoy ends a call at its timeout; should its answer be lost, another is made.
    fn given_up_after_ns(&self) -> u64 {
        let timeout_ns = u64::try_from(self.source.timeout.as_nanos()).unwrap_or(u64::MAX);
        timeout_ns.saturating_add(RETRY_SECONDS * SECOND_NS)
    }

    fn retry(&mut self, now_ns: u64) {
        let seconds = self.source.refresh_seconds.min(RETRY_SECONDS);
        self.due_ns = now_ns.saturating_add(seconds * SECOND_NS);
    }
}

fn parsed(source: &Source, text: &str) -> Result<Content, String> {
    match &source.format {
        Format::Own => Content::parse(source.kind, text),
        Format::Plain(mark) => Content::parse_plain(text, mark),
    }
}

fn key(source: &Source) -> String {
    format!("glacis.wasm/2/{}/{}", short_name(source.kind), source.name)
}

/// Where the time of the last good answer is.
fn fetched_key(source: &Source) -> String {
    format!("glacis.wasm/2/fetched/{}/{}", short_name(source.kind), source.name)
}

const fn short_name(kind: Kind) -> &'static str {
    match kind {
        Kind::List => "feed",
        Kind::Countries => "countries",
        Kind::Systems => "asn",
        Kind::Patches => "patches",
    }
}

/// Whether a time is still to come. One that is further away than it was ever set is none: the clock was set back
/// since, and that must not stop the list.
const fn is_to_come(then_ns: u64, now_ns: u64, most_ns: u64) -> bool {
    let left_ns = then_ns.saturating_sub(now_ns);
    left_ns > 0 && left_ns <= most_ns
}

/// Where it was fetched and the entity tag, in a line of their own each, then the text.
fn packed(source: &Source, etag: &str, text: &str) -> Vec<u8> {
    [place(source).as_str(), "\n", etag, "\n", text].concat().into_bytes()
}

/// The entity tag and the text, if they are from the same place: another one may give another text the same tag,
/// and would say for ever that nothing has changed.
fn unpacked<'a>(source: &Source, kept: &'a [u8]) -> Option<(&'a str, &'a str)> {
    let (from, rest) = str::from_utf8(kept).ok()?.split_once('\n')?;
    if from == place(source) { rest.split_once('\n') } else { None }
}

/// The server and the path, and what a plain list says: none of them has a space.
fn place(source: &Source) -> String {
    let place = format!("{} {} {}", source.cluster, source.authority, source.path);
    match &source.format {
        Format::Own => place,
        Format::Plain(mark) => format!("{place} plain {mark}"),
    }
}

/// The tag, if it can stand in a header field.
fn plain_etag(etag: &[u8]) -> String {
    let plain = etag.len() <= ETAG_BYTES_MAX && etag.iter().all(u8::is_ascii_graphic);
    let etag = if plain { etag } else { b"" };
    String::from_utf8_lossy(etag).into_owned()
}

/// Whether the field has the right `sha-256=:…:` among its items.
fn is_digest_of(field: &[u8], body: &[u8]) -> bool {
    let expected = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
    field.split(|byte| *byte == b',').any(|item| item.trim_ascii() == expected.as_bytes())
}

#[cfg(test)]
mod tests;

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
pub(crate) use glacis_limits::feed::BYTES_MAX as BODY_BYTES_MAX;
use glacis_limits::feed::Content;
pub(crate) use glacis_limits::feed::Kind;
use glacis_limits::geo::CountryTable;
use glacis_limits::network_list::NetworkList;
use glacis_limits::patch::Patch;
use sha2::{Digest as _, Sha256};
use std::fmt;
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

/// What was fetched, and the state of fetching it.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) source: Source,
    content: Option<Content>,
    etag: String,
    due_ns: u64,
    /// The call that is under way, by its number, and when it is given up.
    waiting: Option<(u32, u64)>,
    /// The failure that is in the log, until there is an answer of use.
    logged: Option<String>,
    /// When the last good answer came; without one, since when it is missed.
    good_ns: Option<u64>,
    stale: bool,
}

/// What came back. `Debug` leaves out the body.
pub(crate) struct Response {
    /// Empty if there was no answer.
    pub(crate) status: Vec<u8>,
    pub(crate) etag: Vec<u8>,
    /// `repr-digest` (RFC 9530).
    pub(crate) digest: Vec<u8>,
    /// `None` if it could not be read.
    pub(crate) body: Option<Vec<u8>>,
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
            Some((content, etag)) => (Some(content), etag),
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
        match &self.content {
            Some(Content::List(list)) => Some(list),
            _ => None,
        }
    }

    /// The table of countries; as [`Self::list`].
    pub(crate) fn countries(&self) -> Option<&CountryTable> {
        match &self.content {
            Some(Content::Countries(table)) => Some(table),
            _ => None,
        }
    }

    /// The table of autonomous systems; as [`Self::list`].
    pub(crate) fn systems(&self) -> Option<&AsnTable> {
        match &self.content {
            Some(Content::Systems(table)) => Some(table),
            _ => None,
        }
    }

    /// The virtual patches; none, if it is something else.
    pub(crate) fn patches(&self) -> &[Patch] {
        match &self.content {
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
    pub(crate) fn called(&mut self, number: Option<u32>, now_ns: u64) -> Result<(), String> {
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
    pub(crate) fn awaits(&self, number: u32) -> bool {
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
        self.content = Some(content);
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
mod tests {
    mod plain;

    use super::*;
    use crate::shared::memory::Memory;
    use glacis_limits::geo::Country;

    const T0: u64 = 1_700_000_000 * SECOND_NS;

    fn source() -> Source {
        Source {
            kind: Kind::List,
            name: "block".to_owned(),
            cluster: "lists".to_owned(),
            authority: "lists.example".to_owned(),
            path: "/block.txt".to_owned(),
            refresh_seconds: 60,
            timeout: Duration::from_secs(1),
            required: false,
            shadow: false,
            format: Format::Own,
            max_age_seconds: None,
        }
    }

    fn plain(mark: &str) -> Source {
        Source { format: Format::Plain(mark.to_owned()), ..source() }
    }

    fn good(body: &str, etag: &str) -> Response {
        let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
        response("200", body, etag, &digest)
    }

    fn response(status: &str, body: &str, etag: &str, digest: &str) -> Response {
        Response {
            status: status.into(),
            etag: etag.into(),
            digest: digest.into(),
            body: Some(body.into()),
        }
    }

    fn denies(feed: &Feed, address: &str) -> bool {
        let found = |list: &NetworkList| list.find(address.parse().unwrap(), 0).action.is_some();
        feed.list().is_some_and(found)
    }

    /// A failure is in the log once, until there was an answer of use; another one is as well.
    #[test]
    fn failures_are_news_once() {
        let shared = Memory::default();
        for (required, meaning) in
            [(true, "requests are answered 503"), (false, "requests pass without")]
        {
            let mut feed = Feed::restored(Source { required, ..source() }, &shared);
            let unreachable = feed.called(None, T0).unwrap_err();
            for part in ["the list \"block\"", meaning, "no call", "a cluster \"lists\""] {
                assert!(unreachable.contains(part), "{part} in {unreachable}");
            }
            assert!(feed.is_news(&unreachable) && !feed.is_news(&unreachable));
            assert!(feed.called(Some(7), T0).is_ok());
            let silent = feed.answered(&response("", "", "", ""), T0, &shared).unwrap_err();
            assert!(feed.is_news(&silent) && !feed.is_news(&silent));
        }
        let mut feed = Feed::restored(source(), &shared);
        let before = feed.called(None, T0).unwrap_err();
        assert!(feed.is_news(&before));
        feed.answered(&good("10.0.0.0/8 deny", "\"a\""), T0, &shared).unwrap();
        let after = feed.called(None, T0).unwrap_err();
        assert!(after.contains("stays as it was") && feed.is_news(&after) && !feed.is_news(&after));
        feed.answered(&response("304", "", "", ""), T0, &shared).unwrap();
        assert!(feed.is_news(&after), "it had recovered");
    }

    #[test]
    fn the_last_good_list_stays() {
        let shared = Memory::default();
        let mut feed = Feed::restored(source(), &shared);
        assert!(feed.is_due(T0) && feed.list().is_none());
        let change = feed.answered(&good("10.0.0.0/8 deny", "\"a\""), T0, &shared);
        assert_eq!(change, Ok(Change::Replaced));
        assert!(feed.request().contains(&("if-none-match", "\"a\"")));
        let wrong = good("11.0.0.0/8 deny", "");
        let rows = [
            (response("", "", "", ""), "there was no answer"),
            (response("503", "", "", ""), "the answer was \"503\""),
            (response("2000", "", "", ""), "the answer was"),
            (response("200", "11.0.0.0/8 deny", "", ""), "no right sha-256"),
            (Response { body: Some(b"12.0.0.0/8 deny".to_vec()), ..wrong }, "no right sha-256"),
            (Response { body: None, ..good("", "") }, "could not be read, or is too long"),
            (good("11.0.0.0/8 deny\n12.0.0.1/8 deny", ""), "line 2: \"12.0.0.1/8\""),
        ];
        for (response, expected) in rows {
            let told = feed.answered(&response, T0, &shared).unwrap_err();
            assert!(told.contains(expected) && told.contains("\"block\" stays as"), "{told}");
            assert!(denies(&feed, "10.1.1.1") && !denies(&feed, "11.1.1.1"));
            assert!(!feed.is_due(T0 + 9 * SECOND_NS) && feed.is_due(T0 + 10 * SECOND_NS));
        }
        assert_eq!(feed.answered(&response("304", "", "", ""), T0, &shared), Ok(Change::None));
        assert!(!feed.is_due(T0 + 59 * SECOND_NS) && feed.is_due(T0 + 60 * SECOND_NS));
        // A new VM begins with it, and asks whether it has changed.
        let next = Feed::restored(source(), &shared);
        assert!(denies(&next, "10.1.1.1") && next.is_due(T0));
        assert!(next.request().contains(&("if-none-match", "\"a\"")));
        // An empty list is a list.
        assert_eq!(feed.answered(&good("", ""), T0, &shared), Ok(Change::Replaced));
        assert_eq!(feed.list().map(NetworkList::entries), Some(0));
        assert!(!denies(&feed, "10.1.1.1"));
        assert!(!feed.request().iter().any(|(name, _)| *name == "if-none-match"));
    }

    /// Tables and patches: what is good takes the place of what was there, and what is not does not.
    #[test]
    fn what_else_is_fetched() {
        let address = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
        let countries = |country: &str| {
            let network = ("192.0.2.0", "192.0.2.255");
            let country = Country::parse(country).unwrap();
            let network = (address(network.0), address(network.1), country);
            STANDARD.encode(CountryTable::new(vec![network]).to_bytes())
        };
        let systems = |number: u32| {
            let network = (address("192.0.2.0"), address("192.0.2.255"), number);
            STANDARD.encode(AsnTable::new(&[network]).to_bytes())
        };
        let patch = |id: &str| {
            format!(
                r#"{{"id": "{id}", "cve": "CVE-2099-1", "title": "t", "rule": 9100001,
                    "when": [{{"target": "path", "equals": "/a"}}]}}"#
            )
        };
        let many = format!("[{}]", vec![patch("a"); 501].join(","));
        let rows = [
            (Kind::Countries, countries("DE"), countries("FR"), "AAAA".to_owned()),
            (Kind::Systems, systems(7), systems(8), "not base64".to_owned()),
            (Kind::Patches, format!("[{}]", patch("a")), "[]".to_owned(), many),
            (Kind::Patches, format!("[{}]", patch("a")), "[]".to_owned(), "[{}]".to_owned()),
            (Kind::Patches, format!("[{}]", patch("a")), "[]".to_owned(), "{}".to_owned()),
        ];
        for (kind, one, other, wrong) in rows {
            let shared = Memory::default();
            let source = || Source { kind, ..source() };
            let mut feed = Feed::restored(source(), &shared);
            assert!(feed.is_empty() && feed.list().is_none() && feed.patches().is_empty());
            let seen = |feed: &Feed| {
                let country = feed.countries().map(|table| table.country(address("192.0.2.1")));
                let system = feed.systems().map(|table| table.number(address("192.0.2.1")));
                (country, system, feed.patches().len())
            };
            assert_eq!(feed.answered(&good(&one, "\"1\""), T0, &shared), Ok(Change::Replaced));
            let first = seen(&feed);
            let told = feed.answered(&good(&wrong, ""), T0, &shared).unwrap_err();
            assert!(told.contains(kind.name()), "{told}");
            assert_eq!(seen(&feed), first, "the last good one stays");
            assert_eq!(seen(&Feed::restored(source(), &shared)), first, "for a new VM too");
            assert_eq!(feed.answered(&good(&other, ""), T0, &shared), Ok(Change::Replaced));
            assert_ne!(seen(&feed), first);
        }
    }

    #[test]
    fn digests() {
        let (body, empty) =
            (b"x".as_slice(), "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
        let right = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
        let rows = [
            (right.clone(), true),
            (format!("sha-512=:AAAA:, {right}"), true),
            (right.replace(':', ""), false),
            (right.to_uppercase(), false),
            (empty.to_owned(), false),
            (String::new(), false),
        ];
        for (field, expected) in rows {
            assert_eq!(is_digest_of(field.as_bytes(), body), expected, "{field}");
        }
        assert!(is_digest_of(empty.as_bytes(), b""));
    }

    #[test]
    fn one_call_at_a_time_and_not_for_ever() {
        let shared = Memory::default();
        let mut feed = Feed::restored(source(), &shared);
        let _ = feed.called(Some(7), T0);
        assert!(feed.awaits(7) && !feed.awaits(8) && !feed.is_due(T0 + SECOND_NS));
        assert!(feed.is_due(T0 + 12 * SECOND_NS), "an answer that never comes");
        assert!(!feed.is_due(T0) && feed.is_due(T0 - SECOND_NS), "and the clock was set back");
        let _ = feed.called(None, T0);
        assert!(!feed.is_due(T0 + 9 * SECOND_NS) && feed.is_due(T0 + 10 * SECOND_NS));
        assert!(feed.is_due(T0 - 1_000 * SECOND_NS), "the clock was set back");
        let slow = Source { refresh_seconds: 1, timeout: Duration::from_secs(60), ..source() };
        let mut feed = Feed::restored(slow, &shared);
        let _ = feed.called(Some(7), T0);
        assert!(!feed.is_due(T0) && !feed.is_due(T0 + 69 * SECOND_NS), "one call at a time");
        // Nothing is there that could not have changed.
        let told = feed.answered(&response("304", "", "", ""), T0, &shared).unwrap_err();
        assert!(told.contains("the answer was \"304\"") && feed.is_empty(), "{told}");
    }

    /// A time that is over, and one further away than it was ever set, are no reason to wait.
    #[test]
    fn times_to_come() {
        for (then_ns, now_ns, most_ns, expected) in [
            (10, 0, 10, true),
            (11, 0, 10, false),
            (1, 0, 10, true),
            (10, 10, 10, false),
            (0, 10, 10, false),
        ] {
            assert_eq!(is_to_come(then_ns, now_ns, most_ns), expected, "{then_ns} {now_ns}");
        }
    }

    /// A tag that is repeated stands in a header field as it came.
    #[test]
    fn tags_that_are_repeated() {
        let long = "a".repeat(ETAG_BYTES_MAX);
        for (etag, is_plain) in [
            ("\"a\"", true),
            ("", true),
            ("a b", false),
            ("a\r\nb: c", false),
            ("\u{e4}", false),
            (long.as_str(), true),
            (&format!("{long}a"), false),
        ] {
            assert_eq!(plain_etag(etag.as_bytes()), if is_plain { etag } else { "" });
        }
    }

    #[test]
    fn what_others_left_in_shared_data() {
        let place = "lists lists.example /block.txt\n";
        let rows = [
            (format!("{place}\n10.0.0.0/8 deny"), true),
            (format!("{place}etag\nnonsense"), false),
            (format!("{place}no line"), false),
            ("etag\n10.0.0.0/8 deny".to_owned(), false),
            ("no line".to_owned(), false),
            (String::new(), false),
        ];
        for (kept, expected) in rows {
            let shared = Memory::default();
            shared.put("glacis.wasm/2/feed/block", kept.as_bytes()).unwrap();
            assert_eq!(!Feed::restored(source(), &shared).is_empty(), expected, "{kept:?}");
        }
        let shared = Memory::default();
        shared.put("glacis.wasm/2/feed/block", b"\xFF\n").unwrap();
        assert!(Feed::restored(source(), &shared).is_empty());
    }

    /// What another server or path has given under the same name is not begun with, nor is its tag repeated.
    #[test]
    fn another_place_begins_anew() {
        let shared = Memory::default();
        let mut feed = Feed::restored(source(), &shared);
        feed.answered(&good("10.0.0.0/8 deny", "\"a\""), T0, &shared).unwrap();
        let other = || "other".to_owned();
        let rows = [
            (Source { refresh_seconds: 7, required: true, ..source() }, true),
            (Source { cluster: other(), ..source() }, false),
            (Source { authority: other(), ..source() }, false),
            (Source { path: "/other".to_owned(), ..source() }, false),
            (Source { name: other(), ..source() }, false),
        ];
        for (source, expected) in rows {
            let next = Feed::restored(source.clone(), &shared);
            assert_eq!(denies(&next, "10.1.1.1"), expected, "{source:?}");
            let asks = next.request().iter().any(|(name, _)| *name == "if-none-match");
            assert_eq!(asks, expected, "{source:?}");
        }
    }
}

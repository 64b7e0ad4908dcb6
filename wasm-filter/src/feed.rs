//! Lists that are fetched again and again, over HTTP calls of the proxy, without a new configuration.
//!
//! A list is taken whole, and only if its digest is right and every line of it can be read;
//! otherwise the one before stays. The last good text is also kept in shared data, so that a new
//! configuration, or a VM that had to be started again, does not begin without it.

use crate::shared::SharedData;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::network_list::NetworkList;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::time::Duration;

/// The longest text of a list, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 8 << 20;
/// The most entries of a list.
pub(crate) const ENTRIES_MAX: usize = 200_000;
/// The longest entity tag that is repeated, in bytes; a longer one is as good as none.
const ETAG_BYTES_MAX: usize = 256;
/// After a failure a list is asked for again after so long, or sooner if it is refreshed sooner.
const RETRY_SECONDS: u64 = 10;

const SECOND_NS: u64 = 1_000_000_000;

/// Where a list comes from, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    /// A cluster of Envoy's.
    pub(crate) cluster: String,
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) refresh_seconds: u64,
    pub(crate) timeout: Duration,
    /// Whether requests cannot be decided while there is no list.
    pub(crate) required: bool,
}

/// A list and the state of fetching it.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) source: Source,
    list: Option<NetworkList>,
    etag: String,
    due_ns: u64,
    /// The call that is under way, by its number, and when it is given up.
    waiting: Option<(u32, u64)>,
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
    /// The list is the one that we have.
    None,
    /// There is a new one, with so many entries.
    Replaced(usize),
}

impl Feed {
    /// A feed with what another worker, or this one before it was started again, has left.
    pub(crate) fn restored(source: Source, shared: &impl SharedData) -> Self {
        let kept = shared.read(&key(&source.name)).map(|stored| stored.value).unwrap_or_default();
        let (list, etag) = match unpacked(&kept).and_then(|(etag, text)| {
            Some((NetworkList::parse(text, ENTRIES_MAX).ok()?, etag.to_owned()))
        }) {
            Some((list, etag)) => (Some(list), etag),
            None => (None, String::new()),
        };
        Self { source, list, etag, due_ns: 0, waiting: None }
    }

    /// The list, if there has been a good one.
    pub(crate) fn list(&self) -> Option<&NetworkList> {
        self.list.as_ref()
    }

    /// Whether it is time to ask for it.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let free = self.waiting.is_none_or(|(_, until_ns)| now_ns > until_ns);
        // A clock that was set back by more than a refresh must not stop the list.
        let far_ns = (self.source.refresh_seconds + RETRY_SECONDS) * SECOND_NS;
        free && (now_ns >= self.due_ns || self.due_ns - now_ns > far_ns)
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
        if !self.etag.is_empty() && self.list.is_some() {
            fields.push(("if-none-match", &self.etag));
        }
        fields
    }

    /// Notes that the call is under way, or could not be made.
    pub(crate) fn called(&mut self, number: Option<u32>, now_ns: u64) {
        let timeout_ns = u64::try_from(self.source.timeout.as_nanos()).unwrap_or(u64::MAX);
        // Envoy ends a call at its timeout; should its answer be lost, another is made.
        let until_ns = now_ns.saturating_add(timeout_ns).saturating_add(RETRY_SECONDS * SECOND_NS);
        self.waiting = number.map(|number| (number, until_ns));
        if number.is_none() {
            self.retry(now_ns);
        }
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
                self.due_ns = now_ns.saturating_add(self.source.refresh_seconds * SECOND_NS);
                Ok(change)
            }
            Err(reason) => {
                self.retry(now_ns);
                Err(format!("the list {:?} stays as it was: {reason}", self.source.name))
            }
        }
    }

    fn change(&mut self, response: &Response, shared: &impl SharedData) -> Result<Change, String> {
        match response.status.as_slice() {
            b"304" if self.list.is_some() => return Ok(Change::None),
            b"200" => {}
            b"" => return Err("there was no answer".to_owned()),
            other => {
                return Err(format!("the answer was {:?}", String::from_utf8_lossy(other)));
            }
        }
        let body = response.body.as_deref().ok_or("its body could not be read, or is too long")?;
        if !is_digest_of(&response.digest, body) {
            return Err("the field repr-digest has no right sha-256 of its body".to_owned());
        }
        let text = str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
        let list = NetworkList::parse(text, ENTRIES_MAX).map_err(|error| error.to_string())?;
        let entries = list.entries();
        self.etag = plain_etag(&response.etag);
        self.list = Some(list);
        // Without it the list is of use, too; only a new VM begins without.
        let _ = shared.put(&key(&self.source.name), &packed(&self.etag, text));
        Ok(Change::Replaced(entries))
    }

    fn retry(&mut self, now_ns: u64) {
        let seconds = self.source.refresh_seconds.min(RETRY_SECONDS);
        self.due_ns = now_ns.saturating_add(seconds * SECOND_NS);
    }
}

fn key(name: &str) -> String {
    format!("glacis.wasm/2/feed/{name}")
}

/// The entity tag in a line of its own, then the text.
fn packed(etag: &str, text: &str) -> Vec<u8> {
    [etag, "\n", text].concat().into_bytes()
}

fn unpacked(kept: &[u8]) -> Option<(&str, &str)> {
    str::from_utf8(kept).ok()?.split_once('\n')
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
    use super::*;
    use crate::shared::memory::Memory;

    const T0: u64 = 1_700_000_000 * SECOND_NS;

    fn source() -> Source {
        Source {
            name: "block".to_owned(),
            cluster: "lists".to_owned(),
            authority: "lists.example".to_owned(),
            path: "/block.txt".to_owned(),
            refresh_seconds: 60,
            timeout: Duration::from_secs(1),
            required: false,
        }
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

    #[test]
    fn the_last_good_list_stays() {
        let shared = Memory::default();
        let mut feed = Feed::restored(source(), &shared);
        assert!(feed.is_due(T0) && feed.list().is_none());
        let change = feed.answered(&good("10.0.0.0/8 deny", "\"a\""), T0, &shared);
        assert_eq!(change, Ok(Change::Replaced(1)));
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
        assert_eq!(feed.answered(&good("", ""), T0, &shared), Ok(Change::Replaced(0)));
        assert!(!denies(&feed, "10.1.1.1"));
        assert!(!feed.request().iter().any(|(name, _)| *name == "if-none-match"));
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
        feed.called(Some(7), T0);
        assert!(feed.awaits(7) && !feed.awaits(8) && !feed.is_due(T0 + SECOND_NS));
        assert!(feed.is_due(T0 + 12 * SECOND_NS), "an answer that never comes");
        feed.called(None, T0);
        assert!(!feed.is_due(T0 + 9 * SECOND_NS) && feed.is_due(T0 + 10 * SECOND_NS));
        assert!(feed.is_due(T0 - 1_000 * SECOND_NS), "the clock was set back");
    }

    #[test]
    fn what_others_left_in_shared_data() {
        for kept in [&b""[..], b"\xFF\n", b"no line", b"etag\nnonsense"] {
            let shared = Memory::default();
            shared.put("glacis.wasm/2/feed/block", kept).unwrap();
            assert!(Feed::restored(source(), &shared).list().is_none());
        }
    }
}

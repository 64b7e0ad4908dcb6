//! How unlike a browser a request is that says it comes from one.
//!
//! Browsers of today send `accept`, `accept-language` and `accept-encoding` with all requests of
//! pages, and over TLS the fields of Fetch Metadata and, those of Chromium's family only, User-Agent
//! Client Hints (W3C drafts of those names). A program that only copies a user-agent does not.
//! Whoever does not say that it is a browser is not looked at: the score of `curl` is 0.

use crate::facts::Facts;
use std::borrow::Cow;

/// The highest score.
pub(crate) const SCORE_MAX: u8 = 10;

/// The versions from which on all requests over TLS have these fields.
const CHROMIUM_CLIENT_HINTS: u32 = 90;
const CHROMIUM_FETCH_METADATA: u32 = 80;
const FIREFOX_FETCH_METADATA: u32 = 90;

/// Texts in user-agents that tell browsers and platforms. Case matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Compatible,
    Firefox,
    Chrome,
    Safari,
    WebView,
    Mobile,
    Windows,
    Macintosh,
    Linux,
    ChromeOs,
    Android,
}

/// Each [`Mark`] in its place.
pub(super) const MARKS: [&str; 11] = [
    "compatible;",
    "Firefox/",
    "Chrome/",
    " Safari/",
    "; wv)",
    "Mobile",
    "Windows NT",
    "Macintosh",
    "Linux",
    "CrOS",
    "Android",
];

/// A user-agent, and the marks that were found in it.
#[derive(Debug)]
pub(super) struct Agent<'a> {
    text: &'a [u8],
    /// Where each mark ends first.
    ends: [Option<usize>; MARKS.len()],
}

impl<'a> Agent<'a> {
    pub(super) const fn new(text: &'a [u8]) -> Self {
        Self { text, ends: [None; MARKS.len()] }
    }

    pub(super) const fn text(&self) -> &'a [u8] {
        self.text
    }

    /// One of [`MARKS`] ends here, in one case or another. To be told in the order of the text.
    pub(super) fn note(&mut self, mark: usize, end: usize) {
        let before = self.text.get(..end).unwrap_or_default();
        if let (Some(place), Some(mark)) = (self.ends.get_mut(mark), MARKS.get(mark))
            && place.is_none()
            && before.ends_with(mark.as_bytes())
        {
            *place = Some(end);
        }
    }

    fn end(&self, mark: Mark) -> Option<usize> {
        self.ends.get(mark as usize).copied().flatten()
    }

    fn has(&self, mark: Mark) -> bool {
        self.end(mark).is_some()
    }

    /// The whole number behind a mark; 0 if there is none, or too large a one.
    fn version(&self, mark: Mark) -> Option<u32> {
        let rest = self.text.get(self.end(mark)?..).unwrap_or_default();
        let digits = rest.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
        Some(str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0))
    }
}

/// Which browser it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// With its version, 0 if it names none.
    Chromium(u32),
    Firefox(u32),
    WebKit,
}

/// What a browser would have sent with this request.
struct Sent<'a> {
    agent: &'a Agent<'a>,
    family: Family,
    https: bool,
    accept: Field<'a>,
    language: Field<'a>,
    encoding: Field<'a>,
    hints: Field<'a>,
    platform: Field<'a>,
    mobile: Field<'a>,
    destination: Field<'a>,
}

/// A header field that is not empty.
type Field<'a> = Option<Cow<'a, [u8]>>;

/// How much it counts, and whether it is so.
type Check = (u8, fn(&Sent<'_>) -> bool);

const HTML: &[u8] = b"text/html";

/// What can be wrong, and how much each counts.
const CHECKS: &[Check] = &[
    (2, |sent| sent.accept.is_none()),
    (2, |sent| sent.language.is_none()),
    // Less, because proxies take it away.
    (1, |sent| sent.encoding.is_none()),
    (2, lacks_hints),
    (1, lacks_fetch_metadata),
    // Only Chromium has these hints.
    (3, |sent| sent.hints.is_some() && !matches!(sent.family, Family::Chromium(_))),
    (3, is_of_another_platform),
    (2, |sent| sent.mobile.as_deref() == Some(b"?1") && !sent.agent.has(Mark::Mobile)),
    // A page is asked for by what can show pages.
    (2, |sent| {
        let accept = sent.accept.as_deref().unwrap_or(b"text/html");
        sent.destination.as_deref() == Some(b"document")
            && !accept.windows(HTML.len()).any(|text| text == HTML)
    }),
];

/// 0 for a request like a browser's, and for one that does not say that it is a browser's.
pub(super) fn score(agent: &Agent<'_>, facts: &Facts<'_>) -> u8 {
    let Some(family) = family(agent) else { return 0 };
    // Handshakes of WebSockets and preflights have fields of their own.
    if facts.field("upgrade").is_some() || facts.method() == b"OPTIONS" {
        return 0;
    }
    let field = |name| facts.field(name).filter(|value| !value.is_empty());
    let sent = Sent {
        agent,
        family,
        https: field(":scheme").as_deref() == Some(b"https"),
        accept: field("accept"),
        language: field("accept-language"),
        encoding: field("accept-encoding"),
        hints: field("sec-ch-ua"),
        platform: field("sec-ch-ua-platform"),
        mobile: field("sec-ch-ua-mobile"),
        destination: field("sec-fetch-dest"),
    };
    let wrong = CHECKS.iter().filter(|(_, is_wrong)| is_wrong(&sent));
    wrong.map(|(weight, _)| *weight).sum::<u8>().min(SCORE_MAX)
}

/// Crawlers and old programs begin with `Mozilla/`, too, and name no browser, or say `compatible`.
fn family(agent: &Agent<'_>) -> Option<Family> {
    if !agent.text.starts_with(b"Mozilla/5.0 (") || agent.has(Mark::Compatible) {
        return None;
    }
    let firefox = agent.version(Mark::Firefox).map(Family::Firefox);
    let chromium = || agent.version(Mark::Chrome).map(Family::Chromium);
    let web_kit = || agent.has(Mark::Safari).then_some(Family::WebKit);
    firefox.or_else(chromium).or_else(web_kit)
}

fn lacks_hints(sent: &Sent<'_>) -> bool {
    let sends = matches!(sent.family, Family::Chromium(CHROMIUM_CLIENT_HINTS..));
    // The view inside of an Android app ("wv") has begun to send them much later.
    sent.https && sends && sent.hints.is_none() && !sent.agent.has(Mark::WebView)
}

fn lacks_fetch_metadata(sent: &Sent<'_>) -> bool {
    let sends = match sent.family {
        Family::Chromium(version) => version >= CHROMIUM_FETCH_METADATA,
        Family::Firefox(version) => version >= FIREFOX_FETCH_METADATA,
        Family::WebKit => false,
    };
    sent.https && sends && sent.destination.is_none()
}

/// What a platform of the hints is called in user-agents.
const PLATFORMS: &[(&[u8], &[Mark])] = &[
    (b"\"Windows\"", &[Mark::Windows]),
    (b"\"macOS\"", &[Mark::Macintosh]),
    (b"\"Linux\"", &[Mark::Linux]),
    (b"\"Chrome OS\"", &[Mark::ChromeOs]),
    // As a desktop, if the user asks for pages as a desktop gets them.
    (b"\"Android\"", &[Mark::Android, Mark::Linux]),
];

fn is_of_another_platform(sent: &Sent<'_>) -> bool {
    let Some(platform) = &sent.platform else { return false };
    let known = PLATFORMS.iter().find(|(name, _)| *name == platform.as_ref());
    known.is_some_and(|(_, marks)| !marks.iter().any(|mark| sent.agent.has(*mark)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fake::Fake;

    const CHROME: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, \
                          like Gecko) Chrome/130.0.0.0 Safari/537.36";
    const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
    const SAFARI: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605 \
                          (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1";
    const WEBVIEW: &str = "Mozilla/5.0 (Linux; Android 13; Pixel; wv) AppleWebKit/537.36 (KHTML, \
                           like Gecko) Version/4.0 Chrome/114.0.0.0 Mobile Safari/537.36";
    const GOOGLEBOT: &str = "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) Chrome/130.0.0.0 Mobile \
                             Safari/537.36 (compatible; Googlebot/2.1)";

    type Fields = &'static [(&'static str, &'static str)];
    const HTML: (&str, &str) = ("accept", "text/html,*/*;q=0.8");
    const LANGUAGE: (&str, &str) = ("accept-language", "de");
    const ENCODING: (&str, &str) = ("accept-encoding", "gzip, br");
    const TLS: (&str, &str) = (":scheme", "https");
    const HINTS: (&str, &str) = ("sec-ch-ua", "\"Chromium\";v=\"130\"");
    const PAGE: (&str, &str) = ("sec-fetch-dest", "document");
    const SCRIPT: (&str, &str) = ("sec-fetch-dest", "empty");
    const ANY: (&str, &str) = ("accept", "*/*");
    const WINDOWS: (&str, &str) = ("sec-ch-ua-platform", "\"Windows\"");

    /// With the marks that are in it, in whatever case.
    fn agent(text: &str) -> Agent<'_> {
        let mut agent = Agent::new(text.as_bytes());
        for end in 0..=text.len() {
            let before = text[..end].to_lowercase();
            for (place, mark) in MARKS.iter().enumerate() {
                if before.ends_with(&mark.to_lowercase()) {
                    agent.note(place, end);
                }
            }
        }
        agent
    }

    #[test]
    fn scores() {
        let rows: &[(&str, Fields, u8)] = &[
            // Browsers: pages, scripts, without TLS, handshakes.
            (CHROME, &[HTML, LANGUAGE, ENCODING], 0),
            (CHROME, &[HTML, LANGUAGE, ENCODING, TLS, HINTS, PAGE, WINDOWS], 0),
            (CHROME, &[ANY, LANGUAGE, ENCODING, TLS, HINTS, SCRIPT], 0),
            (CHROME, &[("upgrade", "websocket"), LANGUAGE, ENCODING], 0),
            (CHROME, &[(":method", "OPTIONS"), ANY], 0),
            (FIREFOX, &[HTML, LANGUAGE, ENCODING, TLS, PAGE], 0),
            (SAFARI, &[HTML, LANGUAGE, ENCODING, TLS], 0),
            (WEBVIEW, &[HTML, LANGUAGE, ENCODING, TLS, PAGE], 0),
            // No browser at all, and none that says so.
            ("curl/8.5.0", &[ANY], 0),
            ("Go-http-client/1.1", &[ENCODING], 0),
            ("", &[], 0),
            (GOOGLEBOT, &[ANY], 0),
            ("Mozilla/5.0 (X11)", &[], 0),
            ("Mozilla/4.0 (compatible; MSIE 6.0) Chrome/1", &[], 0),
            // Only the name of a browser.
            (CHROME, &[], 5),
            (CHROME, &[ANY, ENCODING], 2),
            (CHROME, &[ANY, ENCODING, TLS], 5),
            (FIREFOX, &[ANY, LANGUAGE, ENCODING, TLS], 1),
            (CHROME, &[("accept", ""), LANGUAGE, ENCODING], 2),
            // Contradictions.
            (FIREFOX, &[HTML, LANGUAGE, ENCODING, TLS, PAGE, HINTS], 3),
            (SAFARI, &[HTML, LANGUAGE, ENCODING, HINTS, WINDOWS], 6),
            (CHROME, &[HTML, LANGUAGE, ENCODING, ("sec-ch-ua-platform", "\"Linux\"")], 3),
            (CHROME, &[HTML, LANGUAGE, ENCODING, ("sec-ch-ua-platform", "\"Amiga\"")], 0),
            (CHROME, &[HTML, LANGUAGE, ENCODING, ("sec-ch-ua-mobile", "?1")], 2),
            (WEBVIEW, &[HTML, LANGUAGE, ENCODING, ("sec-ch-ua-mobile", "?1")], 0),
            (CHROME, &[ANY, LANGUAGE, ENCODING, PAGE], 2),
            // Never more than the most.
            (SAFARI, &[HINTS, WINDOWS, PAGE], SCORE_MAX),
        ];
        for (agent, fields, expected) in rows {
            let fake = Fake { fields: fields.to_vec() };
            let scored = score(&self::agent(agent), &Facts::new(&fake, None));
            assert_eq!(scored, *expected, "{agent}: {fields:?}");
        }
        let all: u8 = CHECKS.iter().map(|(weight, _)| weight).sum();
        assert!(all > SCORE_MAX, "the bound is reached");
    }

    #[test]
    fn families() {
        let rows = [
            (CHROME, Some(Family::Chromium(130))),
            (FIREFOX, Some(Family::Firefox(128))),
            (SAFARI, Some(Family::WebKit)),
            ("Mozilla/5.0 (X) Chrome/", Some(Family::Chromium(0))),
            ("Mozilla/5.0 (X) Chrome/99999999999", Some(Family::Chromium(0))),
            ("Mozilla/5.0 (X)", None),
            ("Mozilla/5.0 (X) chrome/130 Chrome/7 Chrome/8", Some(Family::Chromium(7))),
            ("Mozilla/5.0 (X) chrome/130", None),
        ];
        for (agent, expected) in rows {
            assert_eq!(family(&self::agent(agent)), expected, "{agent}");
        }
    }
}

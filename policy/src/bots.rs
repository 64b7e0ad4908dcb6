//! What speaks for a bot: its name, what it lacks of the browser that it says it is, and how it
//! speaks TLS.
//!
//! A client writes its own user-agent, so a scanner that wants to hide does. These checks keep out
//! what does not bother to, and mark the rest for limits and rules.

mod browser;
mod known;

use crate::facts::Facts;
use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError};
pub(crate) use browser::SCORE_MAX;
use browser::{Agent, MARKS};
use glacis_limits::cidr::CidrSet;
pub(crate) use known::{CRAWLERS, SCANNERS, TOOLS};
use std::borrow::Cow;
use std::net::IpAddr;

/// How much of a user-agent is looked at from each of its ends, in bytes; those of browsers have less than 300.
const AGENT_BYTES_MAX: usize = 2_048;
/// Bytes of all that is sought in user-agents, up to which a faster table is made for it.
const DFA_BYTES_MAX: usize = 2_048;
/// Where a filter before ours leaves the fingerprints that Envoy's TLS inspector has made.
const JA3_STATE: &str = "glacis.ja3";
const JA4_STATE: &str = "glacis.ja4";

/// What becomes of a request with a sign of a bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Deny,
    Tag,
}

/// What to look for, as the configuration has it.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) signatures: Vec<Signature>,
    /// Of crawlers whose networks are known: the name, as in [`CRAWLERS`].
    pub(crate) networks: Vec<(String, CidrSet)>,
    /// For who says that it is such a crawler and comes from elsewhere.
    pub(crate) outside: Action,
    pub(crate) threshold: u8,
    /// From the threshold on.
    pub(crate) browser: Action,
    /// Sorted, in lower case.
    pub(crate) ja3: Vec<String>,
    /// Sorted, in lower case.
    pub(crate) ja4: Vec<String>,
    pub(crate) tls: Action,
    pub(crate) shadow: bool,
    pub(crate) header: bool,
    /// For a user-agent of which the middle is not looked at.
    pub(crate) long_agent: Action,
}

/// A text in user-agents, and what it says of those who send it.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) tag: String,
    pub(crate) contains: String,
    /// Whether a name has to begin with it.
    pub(crate) begins_name: bool,
    pub(crate) action: Action,
}

/// The checks, ready for requests.
#[derive(Debug)]
pub(crate) struct Bots {
    settings: Settings,
    /// Finds signatures, crawlers, and the marks of browsers: whatever is sought in a user-agent, at one go.
    agents: AhoCorasick,
    signs: Vec<Sign>,
    crawlers: Vec<Crawler>,
}

/// A sign of a bot.
#[derive(Debug)]
struct Sign {
    tag: String,
    action: Action,
}

/// The places of a crawler's signs.
#[derive(Debug)]
struct Crawler {
    name: &'static str,
    claims: usize,
    verified: usize,
    outside: usize,
}

/// The places of the signs that are always there.
const HEADERS: usize = 0;
const TLS: usize = 1;
const NO_AGENT: usize = 2;
const LONG_AGENT: usize = 3;
/// Signs of signatures follow.
const SIGNATURES: usize = 4;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The first sign that is to be refused; see [`Bots::tag`].
    pub(crate) refused: Option<usize>,
    /// All signs.
    pub(crate) signs: Vec<usize>,
    /// How unlike its browser it is, up to [`SCORE_MAX`].
    pub(crate) score: u8,
}

impl Bots {
    /// # Errors
    ///
    /// If the signatures are more than a table can hold, which their limits exclude.
    pub(crate) fn new(settings: Settings) -> Result<Self, BuildError> {
        let sign = |tag: &str, action| Sign { tag: tag.to_owned(), action };
        let mut signs = vec![
            sign("bot.headers", settings.browser),
            sign("bot.tls", settings.tls),
            sign("bot.no-agent", Action::Tag),
            sign("bot.long-agent", settings.long_agent),
        ];
        signs.extend(settings.signatures.iter().map(|one| sign(&one.tag, one.action)));
        let mut crawlers = Vec::with_capacity(CRAWLERS.len());
        for (name, _) in CRAWLERS {
            let claims = signs.len();
            signs.push(sign(&format!("bot.claims.{name}"), Action::Tag));
            signs.push(sign(&format!("bot.verified.{name}"), Action::Tag));
            signs.push(sign(&format!("bot.outside.{name}"), settings.outside));
            crawlers.push(Crawler { name, claims, verified: claims + 1, outside: claims + 2 });
        }
        let own = settings.signatures.iter().map(|one| one.contains.as_str());
        let crawlers_named = CRAWLERS.iter().map(|(_, contains)| *contains);
        let sought: Vec<&str> = own.chain(crawlers_named).chain(MARKS).collect();
        // A DFA takes half a kilobyte for each byte that is sought, in each worker.
        let kind = match sought.iter().map(|text| text.len()).sum::<usize>() {
            0..=DFA_BYTES_MAX => AhoCorasickKind::DFA,
            _ => AhoCorasickKind::ContiguousNFA,
        };
        let agents =
            AhoCorasick::builder().ascii_case_insensitive(true).kind(Some(kind)).build(sought)?;
        Ok(Self { settings, agents, signs, crawlers })
    }

    /// Looks for all signs in a request. Linear in the length of its user-agent, of which it takes
    /// the first and the last 2,048 bytes.
    pub(crate) fn look(&self, facts: &Facts<'_>) -> Seen {
        let agent = facts.field("user-agent").unwrap_or_default();
        let ends = ends_of(&agent);
        let mut seen = Seen::default();
        if ends.as_ref().unwrap_or(&agent).trim_ascii().is_empty() {
            seen.signs.push(NO_AGENT);
        }
        // Nobody knows what is in its middle, and no browser has so long a one.
        if ends.is_some() {
            seen.signs.push(LONG_AGENT);
        }
        let mut agent = Agent::new(ends.as_ref().unwrap_or(&agent));
        let verified = self.look_at_agent(&mut agent, facts.client, &mut seen.signs);
        if !verified {
            seen.score = browser::score(&agent, facts);
        }
        if seen.score >= self.settings.threshold {
            seen.signs.push(HEADERS);
        }
        if self.knows_fingerprint(facts) {
            seen.signs.push(TLS);
        }
        let denies = |sign: &&usize| self.sign(**sign).is_some_and(|s| s.action == Action::Deny);
        seen.refused = seen.signs.iter().find(denies).copied();
        seen
    }

    /// Whether it is a crawler in a network of its own.
    fn look_at_agent(
        &self,
        agent: &mut Agent<'_>,
        from: Option<IpAddr>,
        signs: &mut Vec<usize>,
    ) -> bool {
        let mut verified = false;
        for found in self.agents.find_overlapping_iter(agent.text()) {
            let place = found.pattern().as_usize();
            let of_crawler = place.checked_sub(self.settings.signatures.len());
            let of_mark = of_crawler.and_then(|place| place.checked_sub(self.crawlers.len()));
            if let Some(mark) = of_mark {
                agent.note(mark, found.end());
                continue;
            }
            let sign = match of_crawler.and_then(|place| self.crawlers.get(place)) {
                Some(crawler) => self.claim(crawler, from),
                None if self.is_within_name(place, agent.text(), found.start()) => continue,
                None => SIGNATURES + place,
            };
            verified |= self.crawlers.iter().any(|crawler| crawler.verified == sign);
            // No more than there are signatures, however often one stands there.
            if !signs.contains(&sign) {
                signs.push(sign);
            }
        }
        verified
    }

    /// Whether what was found is only the end of a longer name.
    fn is_within_name(&self, signature: usize, agent: &[u8], start: usize) -> bool {
        let begins = self.settings.signatures.get(signature).is_some_and(|one| one.begins_name);
        let before = start.checked_sub(1).and_then(|before| agent.get(before));
        let is_of_name =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        begins && before.is_some_and(is_of_name)
    }

    /// What to make of who says that it is this crawler.
    fn claim(&self, crawler: &Crawler, from: Option<IpAddr>) -> usize {
        let own = self.settings.networks.iter().find(|(name, _)| name == crawler.name);
        match own {
            None => crawler.claims,
            Some((_, networks)) if from.is_some_and(|from| networks.contains(from)) => {
                crawler.verified
            }
            Some(_) => crawler.outside,
        }
    }

    fn knows_fingerprint(&self, facts: &Facts<'_>) -> bool {
        let knows = |known: &[String], name: &str| {
            // Nobody asks for it without a list.
            let given = (!known.is_empty()).then(|| facts.filter_state(name)).flatten();
            let given = given.and_then(|bytes| String::from_utf8(bytes).ok());
            given.is_some_and(|given| known.binary_search(&given.to_ascii_lowercase()).is_ok())
        };
        knows(&self.settings.ja3, JA3_STATE) || knows(&self.settings.ja4, JA4_STATE)
    }

    fn sign(&self, place: usize) -> Option<&Sign> {
        self.signs.get(place)
    }

    /// The tag of a sign, such as `bot.scanner.nikto`.
    pub(crate) fn tag(&self, sign: usize) -> &str {
        self.sign(sign).map_or("", |sign| &sign.tag)
    }

    /// Whether nothing is refused.
    pub(crate) fn shadow(&self) -> bool {
        self.settings.shadow
    }

    /// Whether the upstream gets `x-glacis-bot-score`.
    pub(crate) fn header(&self) -> bool {
        self.settings.header
    }
}

/// The two ends of a user-agent, if there is anything between them.
fn ends_of(agent: &[u8]) -> Option<Cow<'_, [u8]>> {
    let middle = agent.len().checked_sub(2 * AGENT_BYTES_MAX).filter(|middle| *middle > 0)?;
    let (first, rest) = agent.split_at_checked(AGENT_BYTES_MAX)?;
    // A byte that is in no name keeps them apart.
    Some(Cow::Owned([first, b"\n", rest.get(middle..)?].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bots(signatures: Vec<Signature>) -> Bots {
        Bots::new(Settings {
            signatures,
            networks: Vec::new(),
            outside: Action::Tag,
            threshold: SCORE_MAX,
            browser: Action::Tag,
            ja3: Vec::new(),
            ja4: Vec::new(),
            tls: Action::Tag,
            shadow: false,
            header: false,
            long_agent: Action::Deny,
        })
        .expect("few signatures")
    }

    #[test]
    fn the_table_for_user_agents_takes_a_mebibyte_at_most() {
        let shipped = SCANNERS.iter().chain(TOOLS).map(|(_, contains)| (*contains).to_owned());
        // With what is sought besides, as many bytes as a DFA is made for, or nearly.
        let of_others = CRAWLERS.iter().map(|(_, contains)| contains.len()).sum::<usize>()
            + MARKS.iter().map(|mark| mark.len()).sum::<usize>();
        let most =
            (0..(DFA_BYTES_MAX - of_others) / 32).map(|place| format!("{place:02}/{:x<29}", ""));
        for contained in [shipped.collect::<Vec<_>>(), most.collect()] {
            let one = |contains| Signature {
                tag: String::new(),
                contains,
                begins_name: false,
                action: Action::Tag,
            };
            let bots = bots(contained.into_iter().map(one).collect());
            assert_eq!(bots.agents.kind(), AhoCorasickKind::DFA);
            let bytes = bots.agents.memory_usage();
            assert!(bytes <= 1 << 20, "{bytes}");
        }
    }
}

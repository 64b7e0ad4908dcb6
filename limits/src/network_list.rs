//! Lists of networks with what is to be done about them: allow, deny, tags, and until when.
//!
//! The text has one entry in a line, and `#` begins a comment:
//!
//! ```text
//! 192.0.2.0/24    deny
//! 198.51.100.7    allow until=2027-01-31
//! 2001:db8::/32   tag=scanner tag=cloud until=1798761599
//! ```
//!
//! `until` is the last day (of UTC) or the last second since 1970 in which the entry holds. An
//! address has the marks of all networks that it is in. A text is taken whole or not at all.
//!
//! Lists of others have one network or address in a line and nothing else that matters
//! ([`NetworkList::parse_plain`]): all of them say the same.
//!
//! # Memory
//!
//! What [`network_map`](crate::network_map) says, with two cuts for a network at most, and a few
//! bytes for each different mark: 100,000 entries take less than 2 MiB.
//!
//! ```
//! use glacis_limits::network_list::{Action, NetworkList};
//!
//! let list = NetworkList::parse("10.0.0.0/8 deny\n10.1.0.0/16 allow until=1000", 100)?;
//! let at = |seconds| list.find("10.1.2.3".parse().unwrap(), seconds).action;
//! assert_eq!(at(1000), Some(Action::Allow));
//! assert_eq!(at(1001), Some(Action::Deny));
//! # Ok::<(), glacis_limits::network_list::ListError>(())
//! ```

use crate::cidr::{Cidr, CidrError};
use crate::day;
use crate::network_map::{NetworkMap, VALUE_MAX};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most different tags of one list: they are one bit each.
pub const TAGS_MAX: usize = 64;
/// The longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 64;
/// The most marks that one address can have.
const MARKS_OF_ADDRESS_MAX: usize = 64;
/// How much of a wrong word an error repeats, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// A list, made for looking up.
#[derive(Clone, Debug, Default)]
pub struct NetworkList {
    map: NetworkMap,
    /// What a value of the map stands for, from 1: places in `marks`.
    sets: Vec<Vec<u16>>,
    marks: Vec<Mark>,
    tags: Vec<String>,
    entries: usize,
}

/// What is to be done about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Let it pass. Beats `Deny`.
    Allow,
    /// Refuse it.
    Deny,
}

/// What an entry says about its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark {
    action: Option<Action>,
    /// One bit for each tag.
    tags: u64,
    /// The last second in which it holds.
    until_seconds: u64,
}

/// What a list says about an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What is to be done; `Allow` if both stand there.
    pub action: Option<Action>,
    /// One bit for each tag; see [`NetworkList::tags`].
    pub tag_bits: u64,
}

/// Why a text is no list: the line, from 1, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListError {
    line: usize,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    Network(String, CidrError),
    Word(String),
    Nothing,
    Everything,
    Empty,
    Entries(usize),
    Tags,
    Marks,
}

impl fmt::Display for ListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.problem {
            Problem::Network(text, error) => write!(f, "{text:?}: {error}"),
            Problem::Word(word) => write!(
                f,
                "{word:?}: write allow, deny, tag=NAME (letters, digits, '-', '_' and '.'), \
                 until=YYYY-MM-DD or until=SECONDS"
            ),
            Problem::Nothing => f.write_str("it says nothing of its network; write allow, deny …"),
            Problem::Everything => f.write_str("it is all addresses; write its parts"),
            Problem::Empty => f.write_str("there is no network in the whole list"),
            Problem::Entries(max) => write!(f, "there are more than {max} entries"),
            Problem::Tags => write!(f, "there are more than {TAGS_MAX} different tags"),
            Problem::Marks => f.write_str("there are too many different marks in this list"),
        }
    }
}

impl std::error::Error for ListError {}

impl NetworkList {
    /// Reads a list of at most `entries_max` entries. Linear in the text, but for sorting.
    ///
    /// # Errors
    ///
    /// At the first line that is wrong.
    pub fn parse(text: &str, entries_max: usize) -> Result<Self, ListError> {
        let mut reader = Reader::default();
        for (index, line) in text.lines().enumerate() {
            let at = |problem| ListError { line: index + 1, problem };
            reader.line(line, entries_max).map_err(at)?;
        }
        // What is found only in the whole is told of its last line.
        let last = text.lines().count().max(1);
        reader.finish().map_err(|problem| ListError { line: last, problem })
    }

    /// Reads a list of one network or address in each line, of which `mark` says the same each time: `deny`, `allow`
    /// or `tag=NAME`. A `#` or `;` begins a comment, and so does a blank behind the network.
    ///
    /// # Errors
    ///
    /// At the first line that is wrong, that is all addresses of a kind, or above `entries_max`, and if there is no
    /// entry at all: without a digest an empty answer is more often a fault than a list.
    pub fn parse_plain(text: &str, mark: &str, entries_max: usize) -> Result<Self, ListError> {
        let mut reader = Reader::default();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let at = |problem| ListError { line: index + 1, problem };
            reader.plain_line(line, mark, entries_max).map_err(at)?;
        }
        let last = text.lines().count().max(1);
        let at = |problem| ListError { line: last, problem };
        if reader.entries == 0 {
            return Err(at(Problem::Empty));
        }
        reader.finish().map_err(at)
    }

    /// What the list says about an address in this second.
    #[must_use]
    pub fn find(&self, address: IpAddr, now_seconds: u64) -> Found {
        let set = self.map.get(address).and_then(|value| usize::from(value).checked_sub(1));
        let set = set.and_then(|set| self.sets.get(set));
        let mut found = Found::default();
        for mark in set.into_iter().flatten() {
            let Some(mark) = self.marks.get(usize::from(*mark)) else { continue };
            if mark.until_seconds >= now_seconds {
                found.tag_bits |= mark.tags;
                found.action = match (found.action, mark.action) {
                    (Some(Action::Allow), _) | (_, Some(Action::Allow)) => Some(Action::Allow),
                    (before, given) => given.or(before),
                };
            }
        }
        found
    }

    /// The tags, in the order of their bits.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// How many entries it was made of.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let sets: usize = self.sets.iter().map(|set| set.capacity() * 2 + 24).sum();
        self.map.memory_bytes() + sets + self.marks.capacity() * size_of::<Mark>()
    }
}

/// The entries so far: networks as first and last address, with the place of their mark.
#[derive(Default)]
struct Reader {
    v4: Vec<(u128, u128, u16)>,
    v6: Vec<(u128, u128, u16)>,
    marks: Vec<Mark>,
    place_of: HashMap<Mark, u16>,
    tags: Vec<String>,
    entries: usize,
}

impl Reader {
    fn line(&mut self, line: &str, entries_max: usize) -> Result<(), Problem> {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let Some(network) = words.next() else { return Ok(()) };
        let cidr = self.network(network, entries_max)?;
        self.entry(&cidr, words)
    }

    fn plain_line(&mut self, line: &str, mark: &str, entries_max: usize) -> Result<(), Problem> {
        let text = line.split(['#', ';']).next().unwrap_or_default();
        let Some(network) = text.split_ascii_whitespace().next() else { return Ok(()) };
        let cidr = self.network(network, entries_max)?;
        let (first, last) = cidr.bounds();
        if last == Ipv4Addr::BROADCAST && first == Ipv4Addr::UNSPECIFIED
            || first == Ipv6Addr::UNSPECIFIED && bits(last) == u128::MAX
        {
            return Err(Problem::Everything);
        }
        self.entry(&cidr, std::iter::once(mark))
    }

    fn network(&self, network: &str, entries_max: usize) -> Result<Cidr, Problem> {
        if self.entries >= entries_max {
            return Err(Problem::Entries(entries_max));
        }
        Cidr::parse(network).map_err(|error| Problem::Network(shown(network), error))
    }

    fn entry<'a>(
        &mut self,
        cidr: &Cidr,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<(), Problem> {
        let mut mark = Mark { action: None, tags: 0, until_seconds: u64::MAX };
        for word in words {
            self.word(word, &mut mark)?;
        }
        if mark.action.is_none() && mark.tags == 0 {
            return Err(Problem::Nothing);
        }
        let place = self.place(mark)?;
        let (first, last) = cidr.bounds();
        let range = match first {
            IpAddr::V4(_) => &mut self.v4,
            IpAddr::V6(_) => &mut self.v6,
        };
        range.push((bits(first), bits(last), place));
        self.entries += 1;
        Ok(())
    }

    fn word(&mut self, word: &str, mark: &mut Mark) -> Result<(), Problem> {
        let wrong = || Problem::Word(shown(word));
        match (word, word.split_once('=')) {
            ("allow", _) if mark.action.is_none() => mark.action = Some(Action::Allow),
            ("deny", _) if mark.action.is_none() => mark.action = Some(Action::Deny),
            (_, Some(("until", time))) if mark.until_seconds == u64::MAX => {
                mark.until_seconds = last_second(time).ok_or_else(wrong)?;
            }
            (_, Some(("tag", name))) if is_tag(name) => mark.tags |= self.tag(name)?,
            _ => return Err(wrong()),
        }
        Ok(())
    }

    fn tag(&mut self, name: &str) -> Result<u64, Problem> {
        let known = self.tags.iter().position(|known| known == name);
        let place = known.unwrap_or(self.tags.len());
        if place >= TAGS_MAX {
            return Err(Problem::Tags);
        }
        if known.is_none() {
            self.tags.push(name.to_owned());
        }
        Ok(1 << place)
    }

    fn place(&mut self, mark: Mark) -> Result<u16, Problem> {
        if let Some(place) = self.place_of.get(&mark) {
            return Ok(*place);
        }
        let place = u16::try_from(self.marks.len()).map_err(|_| Problem::Marks)?;
        self.marks.push(mark);
        self.place_of.insert(mark, place);
        Ok(place)
    }

    fn finish(self) -> Result<NetworkList, Problem> {
        let mut sets = Sets::default();
        let v4 = flattened(self.v4, u128::from(u32::MAX), &mut sets)?;
        let v6 = flattened(self.v6, u128::MAX, &mut sets)?;
        // The bits of IPv4 fit; nothing is dropped here.
        let narrow = |(start, value)| Some((u32::try_from(start).ok()?, value));
        let map = NetworkMap::new(v4.into_iter().filter_map(narrow).collect(), v6);
        let Self { mut marks, mut tags, entries, .. } = self;
        marks.shrink_to_fit();
        tags.shrink_to_fit();
        sets.sets.shrink_to_fit();
        Ok(NetworkList { map, sets: sets.sets, marks, tags, entries })
    }
}

/// The sets of marks that occur, numbered from 1; 0 is the empty one.
#[derive(Default)]
struct Sets {
    sets: Vec<Vec<u16>>,
    /// From a set and one more mark to the set with it.
    with: HashMap<(u16, u16), u16>,
}

impl Sets {
    fn with(&mut self, set: u16, mark: u16) -> Result<u16, Problem> {
        if let Some(next) = self.with.get(&(set, mark)) {
            return Ok(*next);
        }
        let before = usize::from(set).checked_sub(1).and_then(|set| self.sets.get(set));
        let mut marks = before.cloned().unwrap_or_default();
        let next = if marks.contains(&mark) {
            set
        } else {
            marks.push(mark);
            marks.shrink_to_fit();
            let next = u16::try_from(self.sets.len() + 1).map_err(|_| Problem::Marks)?;
            if next > VALUE_MAX || marks.len() > MARKS_OF_ADDRESS_MAX {
                return Err(Problem::Marks);
            }
            self.sets.push(marks);
            next
        };
        self.with.insert((set, mark), next);
        Ok(next)
    }
}

/// Where the set of marks changes. Networks lie in each other or apart, so a stack is enough.
fn flattened(
    mut ranges: Vec<(u128, u128, u16)>,
    highest: u128,
    sets: &mut Sets,
) -> Result<Vec<(u128, u16)>, Problem> {
    ranges.sort_unstable_by_key(|(first, last, _)| (*first, u128::MAX - *last));
    let mut cuts = Vec::with_capacity(2 * ranges.len());
    let mut open: Vec<(u128, u16)> = Vec::new();
    let close = |open: &mut Vec<(u128, u16)>, cuts: &mut Vec<(u128, u16)>, before: Option<u128>| {
        while let Some((last, _)) = open.last().copied() {
            if before.is_some_and(|before| last >= before) {
                break;
            }
            open.pop();
            if last < highest {
                cuts.push((last + 1, open.last().map_or(0, |(_, set)| *set)));
            }
        }
    };
    for (first, last, mark) in ranges {
        close(&mut open, &mut cuts, Some(first));
        let set = sets.with(open.last().map_or(0, |(_, set)| *set), mark)?;
        cuts.push((first, set));
        open.push((last, set));
    }
    close(&mut open, &mut cuts, None);
    Ok(cuts)
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn is_tag(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=TAG_BYTES_MAX).contains(&name.len()) && name.bytes().all(plain)
}

/// The last second of a day of UTC, or a second as a number.
fn last_second(text: &str) -> Option<u64> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => day::since_1970(text).map(day::last_second),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    mod plain;

    use super::*;
    use crate::xorshift::Xorshift;

    #[track_caller]
    fn check(text: &str, rows: &[(&str, u64, Option<Action>, &[&str])]) {
        let list = NetworkList::parse(text, 100).unwrap();
        for (address, now_seconds, action, tags) in rows {
            let found = list.find(address.parse().unwrap(), *now_seconds);
            let bit = |i: usize| found.tag_bits & 1 << i != 0;
            let given: Vec<_> = (0..list.tags().len()).filter(|i| bit(*i)).collect();
            let given: Vec<_> = given.iter().map(|i| list.tags()[*i].as_str()).collect();
            assert_eq!((found.action, &given[..]), (*action, *tags), "{address} {now_seconds}");
        }
    }

    #[test]
    fn marks() {
        let (allow, deny) = (Some(Action::Allow), Some(Action::Deny));
        check(
            "# a list\n\n10.0.0.0/8 deny tag=wide # all\n10.1.0.0/16 allow until=1970-01-02\n\
             10.1.1.0/24 tag=narrow\n10.1.1.0/24 deny tag=wide\n2001:db8::/32 deny until=99\n\
             2001:db8::7 allow\n::ffff:192.0.2.1 deny\n255.255.255.255 deny",
            &[
                ("9.255.255.255", 0, None, &[]),
                ("10.0.0.0", 0, deny, &["wide"]),
                ("10.1.0.1", 172_799, allow, &["wide"]),
                ("10.1.0.1", 172_800, deny, &["wide"]),
                ("10.1.1.1", 0, allow, &["wide", "narrow"]),
                ("10.1.2.0", 0, allow, &["wide"]),
                ("10.255.255.255", 0, deny, &["wide"]),
                ("11.0.0.0", 0, None, &[]),
                ("2001:db8::1", 99, deny, &[]),
                ("2001:db8::1", 100, None, &[]),
                ("2001:db8::7", 100, allow, &[]),
                ("2001:db9::", 0, None, &[]),
                ("192.0.2.1", 0, deny, &[]),
                ("::ffff:10.0.0.1", 0, deny, &["wide"]),
                ("255.255.255.255", 0, deny, &[]),
            ],
        );
    }

    /// Networks that begin or end with another, or with all addresses.
    #[test]
    fn marks_at_the_ends() {
        let (allow, deny) = (Some(Action::Allow), Some(Action::Deny));
        check(
            "10.0.0.0/30 deny\n10.0.0.3 allow\n10.0.0.3 tag=a tag=a\n2001:db8::/64 tag=a-b_c.d\n\
             2001:db8::/32 deny\nffff::/16 allow",
            &[
                ("10.0.0.2", 0, deny, &[]),
                ("10.0.0.3", 0, allow, &["a"]),
                ("10.0.0.4", 0, None, &[]),
                ("2001:db8::1", 0, deny, &["a-b_c.d"]),
                ("2001:db8:0:1::", 0, deny, &[]),
                ("2001:db9::", 0, None, &[]),
                ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 0, allow, &[]),
            ],
        );
    }

    #[test]
    fn wrong_lines() {
        let tag = |bytes: usize| format!("::1 tag={}", "a".repeat(bytes));
        let long = tag(TAG_BYTES_MAX + 1);
        assert!(NetworkList::parse(&tag(TAG_BYTES_MAX), 1).is_ok());
        let many: String = (0..=TAGS_MAX).map(|i| format!("::1 tag=t{i}\n")).collect();
        let rows = [
            ("\n10.0.0.1/8 deny", "line 2: \"10.0.0.1/8\": it has bits set"),
            ("10.0.0.0/8", "line 1: it says nothing of its network"),
            ("10.0.0.0/8 until=7", "line 1: it says nothing"),
            ("10.0.0.0/8 drop", "line 1: \"drop\": write allow, deny"),
            ("10.0.0.0/8 deny allow", "line 1: \"allow\": write"),
            ("10.0.0.0/8 allow deny", "line 1: \"deny\": write"),
            ("10.0.0.0/8 deny until=tomorrow", "\"until=tomorrow\": write"),
            ("10.0.0.0/8 deny until=2027-02-29", "\"until=2027-02-29\": write"),
            ("10.0.0.0/8 deny until=2027-1-31", "\"until=2027-1-31\""),
            ("10.0.0.0/8 deny until=-1", "\"until=-1\""),
            ("10.0.0.0/8 deny until=+1", "\"until=+1\""),
            ("10.0.0.0/8 deny until=", "\"until=\""),
            ("10.0.0.0/8 deny until=7 until=8", "\"until=8\""),
            ("10.0.0.0/8 deny tag=", "\"tag=\""),
            ("10.0.0.0/8 deny tag=a/b", "\"tag=a/b\""),
            (&long, "write allow, deny, tag=NAME"),
            ("::1 deny\n::2 deny\n::3 deny\n::4 deny\n", "line 4: there are more than 3 entries"),
            (&many, "line 65: there are more than 64 different tags"),
        ];
        for (text, expected) in rows {
            let max = if text == many { 100 } else { 3 };
            let told = NetworkList::parse(text, max).unwrap_err().to_string();
            assert!(told.contains(expected), "{text:?}: {told}");
        }
    }

    /// The most marks that one address can have, and the most sets of them that a map can hold.
    #[test]
    fn so_many_marks_and_no_more() {
        let nested = |count: u32| -> String {
            (0..count).map(|i| format!("::/{i} deny until={i}\n")).collect()
        };
        let apart = |count: u32| -> String {
            let line = |i: u32| format!("{} deny until={i}\n", Ipv4Addr::from(i));
            (0..count).map(line).collect()
        };
        for (most, more) in [
            (nested(64), nested(65)),
            (apart(u32::from(VALUE_MAX)), apart(u32::from(VALUE_MAX) + 1)),
        ] {
            assert!(NetworkList::parse(&most, 100_000).is_ok());
            let told = NetworkList::parse(&more, 100_000).unwrap_err().to_string();
            let line = more.lines().count();
            assert_eq!(
                told,
                format!("line {line}: there are too many different marks in this list")
            );
        }
    }

    /// Random nested networks against a search through all of them.
    #[test]
    fn agrees_with_the_entries() {
        for seed in 1..=100 {
            let mut random = Xorshift::new(seed);
            let mut entries = Vec::new();
            for _ in 0..random.below(40) {
                let prefix = 24 + u8::try_from(random.below(9)).unwrap();
                let address = IpAddr::V4((0x0a00_0000 + random.below(512) as u32).into());
                let network = crate::cidr::network_of(address, prefix);
                let word = ["deny", "allow", "tag=x"][random.below(3) as usize];
                entries.push((network, prefix, word, random.below(4)));
            }
            let line = |(network, prefix, word, until): &(IpAddr, u8, &str, u64)| {
                format!("{network}/{prefix} {word} until={until}\n")
            };
            let text: String = entries.iter().map(line).collect();
            let list = NetworkList::parse(&text, 1_000).unwrap();
            for offset in 0..520u32 {
                let address = IpAddr::V4((0x0a00_0000 + offset).into());
                let has = |wanted: &str| {
                    entries.iter().any(|(network, prefix, word, until)| {
                        crate::cidr::network_of(address, *prefix) == *network
                            && *word == wanted
                            && *until >= 2
                    })
                };
                let action = match (has("allow"), has("deny")) {
                    (true, _) => Some(Action::Allow),
                    (false, true) => Some(Action::Deny),
                    (false, false) => None,
                };
                let expected = Found { action, tag_bits: u64::from(has("tag=x")) };
                assert_eq!(list.find(address, 2), expected, "seed {seed}: {address}\n{text}");
            }
        }
    }

    /// 100,000 entries in less than 2 MiB, as lists of attackers are: half single addresses, half
    /// networks, some with tags and days; IPv4, or IPv6 down to /64.
    #[test]
    fn memory_of_a_long_list() {
        let mut random = Xorshift::new(7);
        let mut mark =
            || ["deny", "deny tag=scanner", "deny until=2027-01-01"][random.below(3) as usize];
        let v4: String = (0..100_000u32)
            .map(|i| match i % 2 {
                0 => format!("{} {}\n", Ipv4Addr::from(i.wrapping_mul(42_949)), mark()),
                _ => {
                    format!("{}.{}.{}.0/24 {}\n", 100 + i / 65_536, i / 256 % 256, i % 256, mark())
                }
            })
            .collect();
        let v6: String = (0..100_000u64)
            .map(|i| {
                format!("2001:{:x}:{:x}:{:x}::/64 {}\n", i % 7 * 512, i / 300, i % 300, mark())
            })
            .collect();
        for text in [v4, v6] {
            let list = NetworkList::parse(&text, 100_000).unwrap();
            assert_eq!(list.entries(), 100_000);
            assert!(list.memory_bytes() < 2 << 20, "{} bytes", list.memory_bytes());
            // Three marks, and their sets.
            let beside = list.memory_bytes() - list.map.memory_bytes();
            assert!((100..1_024).contains(&beside), "{beside} bytes");
        }
    }
}

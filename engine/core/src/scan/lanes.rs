//! An index for each chain of transformations.
//!
//! A value that a chain has changed is looked at by the rules of that chain only. Most chains have few rules: CRS at
//! paranoia level 4 has 41, of which 30 have one to six. Their texts are a small automaton, which finds less, and
//! stays in the processor's cache. Of a value of random characters nearly all chains make another one, and scanning
//! these for the texts of all rules was a third of what the value cost.
//!
//! The law of [`super`] holds for each index: it names every rule of its chain that may match.

use super::{
    index::{Index, IndexBuilder},
    stripped::{Stripped, StrippedBuilder},
};
use crate::{
    id::{LaneId, RuleIndex},
    parts::Parts,
};

/// Collects the texts of rules, of all and by chain.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilders {
    all: IndexBuilder,
    lanes: Vec<IndexBuilder>,
    stripped: StrippedBuilder,
}

impl IndexBuilders {
    /// Adds a rule that needs one of `texts` in what a chain of transformations makes of a value. Says whether it
    /// could.
    pub(crate) fn add(&mut self, rule: RuleIndex, lane: LaneId, texts: &[Vec<u8>]) -> bool {
        if !self.all.add(rule, texts) {
            return false;
        }
        if lane == LaneId::NONE {
            return true;
        }
        self.stripped.add(rule, lane, texts);
        if self.lanes.len() <= lane.get() {
            self.lanes.resize_with(lane.get() + 1, IndexBuilder::default);
        }
        self.lanes.get_mut(lane.get()).is_some_and(|builder| builder.add(rule, texts))
    }

    /// Compiles the automata, or takes known ones. `chains` says of each chain whether a stripped
    /// value tells of it.
    pub(crate) fn build(self, chains: &[bool], parts: &mut Parts) -> Indexes {
        let stripped = self.stripped.build(chains, parts);
        let texts = self.all.len();
        let all = self.all.build(parts);
        let mut of_lane = |builder: IndexBuilder| match builder.len() {
            0 => OfLane::Nothing,
            // Of more than half of the texts, the automaton is hardly smaller, and memory is.
            own if own <= texts / 2 => OfLane::Own(builder.build(parts)),
            _ => OfLane::All,
        };
        Indexes { lanes: self.lanes.into_iter().map(&mut of_lane).collect(), all, stripped }
    }
}

/// Which rules may match a value, by the texts they need.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    all: Index,
    lanes: Vec<OfLane>,
    /// What is asked of long values before a chain changes them.
    pub(crate) stripped: Stripped,
}

/// How the rules of a chain are found.
#[derive(Debug)]
enum OfLane {
    /// They need no text.
    Nothing,
    /// By texts of theirs alone.
    Own(Index),
    /// With those of all chains.
    All,
}

impl Indexes {
    /// Adds to `set`, bits over rules, those of all chains that may match in `value`. Says whether there are any.
    pub(crate) fn scan(&self, value: &[u8], set: &mut [u64]) -> bool {
        self.all.scan(value, set)
    }

    /// Adds those of one chain that may match in `value`, which that chain has changed, and perhaps others. Says
    /// whether there are any.
    pub(crate) fn scan_changed(&self, lane: LaneId, value: &[u8], set: &mut [u64]) -> bool {
        match self.of_lane(lane) {
            OfLane::Nothing => false,
            OfLane::Own(index) => index.scan(value, set),
            OfLane::All => self.all.scan(value, set),
        }
    }

    /// Whether a chain's rules need texts at all.
    pub(crate) fn has_texts(&self, lane: LaneId) -> bool {
        !matches!(self.of_lane(lane), OfLane::Nothing)
    }

    /// Of a chain behind the last that has a rule with a text there is none.
    fn of_lane(&self, lane: LaneId) -> &OfLane {
        self.lanes.get(lane.get()).unwrap_or(&OfLane::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 0 of the first chain needs one of three texts, rules 1 and 2 of the second and third one each, and the
    /// fourth has none. The first has more than half of the texts, and so the index of all.
    #[test]
    fn each_chain_has_its_rules() {
        let mut builders = IndexBuilders::default();
        let texts = |texts: &[&str]| -> Vec<Vec<u8>> {
            texts.iter().map(|text| text.as_bytes().to_vec()).collect()
        };
        assert!(builders.add(RuleIndex(0), LaneId(1), &texts(&["select", "union", "insert"])));
        assert!(builders.add(RuleIndex(1), LaneId(2), &texts(&["passwd"])));
        assert!(builders.add(RuleIndex(2), LaneId(3), &texts(&["UNION"])));
        assert!(!builders.add(RuleIndex(3), LaneId(4), &texts(&[""])), "no text is empty");
        assert!(builders.add(RuleIndex(4), LaneId::NONE, &texts(&["exec"])));
        let indexes = builders.build(&[], &mut Parts::default());
        for (value, all, lanes) in [
            ("a union b", 0b101, [0b101, 0, 0b100, 0]),
            ("Select", 0b1, [0b1, 0, 0, 0]),
            ("/etc/passwd", 0b10, [0b10, 0b10, 0, 0]),
            ("exec", 0b1_0000, [0b1_0000, 0, 0, 0]),
            ("", 0, [0, 0, 0, 0]),
        ] {
            let mut set = [0];
            assert_eq!(indexes.scan(value.as_bytes(), &mut set), all != 0, "{value}");
            assert_eq!(set, [all], "{value}");
            for (lane, expected) in (1..).zip(lanes) {
                let mut set = [0];
                let named = indexes.scan_changed(LaneId(lane), value.as_bytes(), &mut set);
                assert_eq!((set, named), ([expected], expected != 0), "{value} {lane}");
            }
        }
        let has_texts = [1, 2, 3, 4].map(|lane| indexes.has_texts(LaneId(lane)));
        assert_eq!(has_texts, [true, true, true, false]);
    }
}

//! Patterns that no finite automaton can match: look-around, back-references, atomic groups and
//! possessive repetition, under a limit of steps. Those with nothing but look-around are matched in linear time
//! ([`threads`]), the others by back-tracking.
//!
//! Both are the exception: they are used for a pattern only when [`super::translate`] finds one of those
//! constructs in it, and each such rule is named in a warning. Their time is bounded by the limit, which
//! counts every instruction of every attempt; a search that reaches it gives up and says so.
//!
//! Semantics are PCRE's in byte mode with the dot matching every byte and `$` only the very end, as in
//! [`super`]. Not supported, and refused: recursion, conditionals, branch reset, control verbs, `\K`,
//! Unicode properties, and look-behind of variable length.

mod parse;
mod threads;

use crate::scan::ByteSet;
pub(super) use parse::Node;
use parse::{Look, Parser};

/// The pattern as a tree.
///
/// # Errors
/// What is malformed or not supported, with its place.
pub(super) fn tree(pcre: &[u8]) -> Result<Node, String> {
    Parser::new(pcre).parse()
}

/// One instruction. Those that are not jumps go on with the next.
#[derive(Clone, Debug)]
enum Op {
    Set(ByteSet),
    /// Try the first, then the second.
    Split(usize, usize),
    Jump(usize),
    /// Note the position in a slot.
    Save(usize),
    /// What group N has matched, in either case if so said.
    BackReference(usize, bool),
    StartOfText,
    EndOfText,
    StartOfLine,
    EndOfLine,
    WordBoundary(bool),
    /// Try the program up to the matching `Match` at this place (`back` bytes before it for look-behind);
    /// then go on behind it.
    Look {
        negative: bool,
        back: usize,
        next: usize,
    },
    /// The same, going on where that ended.
    Atomic {
        next: usize,
    },
    /// Fails when a repetition of something that can be empty has not moved since the slot was saved.
    Moved(usize),
    Match,
}

/// A pattern compiled for back-tracking.
#[derive(Clone, Debug)]
pub(super) struct Backtracker {
    ops: Vec<Op>,
    /// Slots of groups, then those that notice repetitions which do not move.
    slots: usize,
    groups: usize,
}

/// Instructions that one pattern may compile to, if the bytes it may take allow for as many.
const OPS_MAX: usize = 1 << 16;

/// Slots that are copied or emptied in one step.
const SLOTS_PER_STEP: usize = 64;

/// Positions kept to return to. A search that needs more gives up.
const STACK_MAX: usize = 1 << 16;

/// How deep look-around and atomic groups may nest.
const NESTING_MAX: usize = 64;

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Yes,
    No,
    /// The limit of steps was reached before it was known.
    GaveUp,
}

impl From<bool> for Found {
    fn from(found: bool) -> Self {
        if found { Self::Yes } else { Self::No }
    }
}

impl Backtracker {
    /// Compiles a PCRE pattern to instructions of `bytes_max` bytes at most.
    ///
    /// # Errors
    /// What is malformed or not supported, with its place.
    pub(super) fn new(pcre: &[u8], bytes_max: usize) -> Result<Self, String> {
        let mut parser = Parser::new(pcre);
        let node = parser.parse()?;
        let groups = parser.groups();
        let ops_max = OPS_MAX.min(bytes_max / size_of::<Op>());
        let mut compiler = Compiler { ops: Vec::new(), ops_max, slots: 2 * groups };
        compiler.push(Op::Save(0))?;
        compiler.node(&node)?;
        compiler.push(Op::Save(1))?;
        compiler.push(Op::Match)?;
        Ok(Self { ops: compiler.ops, slots: compiler.slots, groups })
    }

    /// How many instructions it has.
    pub(super) const fn instructions(&self) -> usize {
        self.ops.len()
    }

    /// Searches for the leftmost match and gives the groups' ranges. Each instruction takes one of
    /// `steps_left`, and more where there are many slots; without any the search gives up.
    ///
    /// `next_start` names the next place at which a match may begin, from a place on, and takes its own steps.
    pub(super) fn search(
        &self,
        haystack: &[u8],
        from: usize,
        steps_left: &mut usize,
        groups: &mut [Option<(usize, usize)>],
        mut next_start: impl FnMut(usize, &mut usize) -> Option<usize>,
    ) -> Found {
        let mut at = from;
        while at <= haystack.len() {
            let Some(start) = next_start(at, steps_left) else { return Found::No };
            match self.search_at(haystack, start, steps_left, groups) {
                Found::No => at = start + 1,
                found => return found,
            }
        }
        Found::No
    }

    /// The match that begins at `start`, as [`Self::search`].
    pub(super) fn search_at(
        &self,
        haystack: &[u8],
        start: usize,
        steps_left: &mut usize,
        groups: &mut [Option<(usize, usize)>],
    ) -> Found {
        let mut run = Run { program: self, haystack, steps_left };
        let mut slots: Vec<Option<usize>> = vec![None; self.slots];
        let paid = run.pay(slots.len() / SLOTS_PER_STEP);
        match paid.and_then(|()| run.attempt(0, start, &mut slots, 0)) {
            Ok(Some(_)) => {
                for (group, pair) in groups.iter_mut().zip(slots.chunks_exact(2).take(self.groups))
                {
                    *group = match *pair {
                        [Some(start), Some(end)] => Some((start, end)),
                        _ => None,
                    };
                }
                Found::Yes
            }
            Ok(None) => Found::No,
            Err(OutOfSteps) => Found::GaveUp,
        }
    }
}

struct Compiler {
    ops: Vec<Op>,
    ops_max: usize,
    slots: usize,
}

impl Compiler {
    fn push(&mut self, op: Op) -> Result<usize, String> {
        if self.ops.len() >= self.ops_max {
            let max = self.ops_max;
            return Err(format!("the pattern takes more than {max} instructions"));
        }
        self.ops.push(op);
        Ok(self.ops.len() - 1)
    }

    fn patch(&mut self, at: usize, op: Op) {
        if let Some(place) = self.ops.get_mut(at) {
            *place = op;
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Set(set) => drop(self.push(Op::Set(*set))?),
            Node::Concat(nodes) => {
                for node in nodes {
                    self.node(node)?;
                }
            }
            Node::Alternate(nodes) => self.alternate(nodes)?,
            Node::Group(index, node) => {
                self.push(Op::Save(2 * index))?;
                self.node(node)?;
                self.push(Op::Save(2 * index + 1))?;
            }
            Node::Repeat { node, min, max, greedy, possessive } => {
                if *possessive {
                    let repeat = Node::Repeat {
                        node: node.clone(),
                        min: *min,
                        max: *max,
                        greedy: true,
                        possessive: false,
                    };
                    return self.node(&Node::Atomic(Box::new(repeat)));
                }
                self.repeat(node, *min, *max, *greedy)?;
            }
            Node::Look(look, node) => self.look(*look, node)?,
            Node::Atomic(node) => {
                let at = self.push(Op::Match)?;
                self.node(node)?;
                self.push(Op::Match)?;
                self.patch(at, Op::Atomic { next: self.ops.len() });
            }
            Node::BackReference(group, fold) => drop(self.push(Op::BackReference(*group, *fold))?),
            Node::StartOfText => drop(self.push(Op::StartOfText)?),
            Node::EndOfText => drop(self.push(Op::EndOfText)?),
            Node::StartOfLine => drop(self.push(Op::StartOfLine)?),
            Node::EndOfLine => drop(self.push(Op::EndOfLine)?),
            Node::WordBoundary(there) => drop(self.push(Op::WordBoundary(*there))?),
        }
        Ok(())
    }

    fn alternate(&mut self, nodes: &[Node]) -> Result<(), String> {
        let mut ends = Vec::new();
        for (position, node) in nodes.iter().enumerate() {
            if position + 1 == nodes.len() {
                self.node(node)?;
                break;
            }
            let split = self.push(Op::Match)?;
            self.node(node)?;
            ends.push(self.push(Op::Match)?);
            self.patch(split, Op::Split(split + 1, self.ops.len()));
        }
        for end in ends {
            self.patch(end, Op::Jump(self.ops.len()));
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        node: &Node,
        min: u32,
        max: Option<u32>,
        greedy: bool,
    ) -> Result<(), String> {
        for _ in 0..min {
            let before = self.ops.len();
            self.node(node)?;
            if self.ops.len() == before {
                // What compiles to nothing can be repeated at no cost, but not at no time.
                return Ok(());
            }
        }
        let split = |into: usize, past: usize| {
            if greedy { Op::Split(into, past) } else { Op::Split(past, into) }
        };
        let Some(max) = max else {
            let slot = self.slots;
            self.slots += 1;
            let start = self.push(Op::Match)?;
            self.push(Op::Save(slot))?;
            self.node(node)?;
            self.push(Op::Moved(slot))?;
            self.push(Op::Jump(start))?;
            self.patch(start, split(start + 1, self.ops.len()));
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.push(Op::Match)?);
            self.node(node)?;
        }
        for at in splits {
            self.patch(at, split(at + 1, self.ops.len()));
        }
        Ok(())
    }

    fn look(&mut self, look: Look, node: &Node) -> Result<(), String> {
        let branches = match (look.behind, node) {
            (true, Node::Alternate(nodes)) => nodes.as_slice(),
            _ => core::slice::from_ref(node),
        };
        // Look-behind with alternatives of different lengths: one look-behind for each.
        let mut ends = Vec::new();
        let lengths: Result<Vec<usize>, String> = branches
            .iter()
            .map(|node| if look.behind { node.fixed_length() } else { Ok(0) })
            .collect();
        let count = branches.len();
        for (position, (node, back)) in branches.iter().zip(lengths?).enumerate() {
            let last = position + 1 == count;
            let split = if last || look.negative { None } else { Some(self.push(Op::Match)?) };
            let at = self.push(Op::Match)?;
            self.node(node)?;
            self.push(Op::Match)?;
            self.patch(at, Op::Look { negative: look.negative, back, next: self.ops.len() });
            if let Some(split) = split {
                ends.push(self.push(Op::Match)?);
                self.patch(split, Op::Split(split + 1, self.ops.len()));
            }
        }
        for end in ends {
            self.patch(end, Op::Jump(self.ops.len()));
        }
        Ok(())
    }
}

struct OutOfSteps;

struct Run<'r> {
    program: &'r Backtracker,
    haystack: &'r [u8],
    steps_left: &'r mut usize,
}

/// Where to go on when an attempt fails.
enum Frame {
    Branch {
        op: usize,
        at: usize,
    },
    /// A slot gets back what it held.
    Slot {
        slot: usize,
        value: Option<usize>,
    },
}

impl Run<'_> {
    fn pay(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        *self.steps_left = self.steps_left.checked_sub(steps).ok_or(OutOfSteps)?;
        Ok(())
    }

    /// A copy of the slots, for an attempt within an attempt.
    fn copied(&mut self, slots: &[Option<usize>]) -> Result<Vec<Option<usize>>, OutOfSteps> {
        self.pay(slots.len() / SLOTS_PER_STEP)?;
        Ok(slots.to_vec())
    }

    /// Runs from instruction `op` at `at` to a `Match`; gives where that was reached.
    fn attempt(
        &mut self,
        op: usize,
        at: usize,
        slots: &mut [Option<usize>],
        nesting: usize,
    ) -> Result<Option<usize>, OutOfSteps> {
        let mut stack = Vec::new();
        let (mut op, mut at) = (op, at);
        loop {
            self.pay(1)?;
            if stack.len() >= STACK_MAX || nesting >= NESTING_MAX {
                return Err(OutOfSteps);
            }
            let next = match self.program.ops.get(op) {
                None => None,
                Some(Op::Match) => return Ok(Some(at)),
                Some(Op::Jump(to)) => Some((*to, at)),
                Some(Op::Split(first, second)) => {
                    stack.push(Frame::Branch { op: *second, at });
                    Some((*first, at))
                }
                Some(Op::Save(slot)) => {
                    if let Some(place) = slots.get_mut(*slot) {
                        stack.push(Frame::Slot { slot: *slot, value: *place });
                        *place = Some(at);
                    }
                    Some((op + 1, at))
                }
                Some(Op::Look { negative, back, next }) => {
                    let mut inner = self.copied(slots)?;
                    let found = match at.checked_sub(*back) {
                        Some(start) => self.attempt(op + 1, start, &mut inner, nesting + 1)?,
                        None => None,
                    };
                    if found.is_some() && !negative {
                        note(&mut stack, slots, &inner);
                    }
                    (found.is_some() != *negative).then_some((*next, at))
                }
                Some(Op::Atomic { next }) => {
                    let mut inner = self.copied(slots)?;
                    let found = self.attempt(op + 1, at, &mut inner, nesting + 1)?;
                    found.map(|end| {
                        note(&mut stack, slots, &inner);
                        (*next, end)
                    })
                }
                Some(simple) => self.step(simple, at, slots).map(|at| (op + 1, at)),
            };
            match next.or_else(|| resume(&mut stack, slots)) {
                Some(place) => (op, at) = place,
                None => return Ok(None),
            }
        }
    }

    /// An instruction that either fails or goes on at another position.
    fn step(&self, op: &Op, at: usize, slots: &[Option<usize>]) -> Option<usize> {
        let byte = |at: usize| self.haystack.get(at).copied();
        let before = at.checked_sub(1).and_then(byte);
        let holds = match op {
            Op::Set(set) => return byte(at).filter(|&byte| set.contains(byte)).map(|_| at + 1),
            Op::BackReference(group, fold) => return self.repeated(*group, *fold, at, slots),
            Op::StartOfText => at == 0,
            Op::EndOfText => at == self.haystack.len(),
            Op::StartOfLine => before.is_none_or(|byte| byte == b'\n'),
            Op::EndOfLine => byte(at).is_none_or(|byte| byte == b'\n'),
            Op::WordBoundary(there) => (is_word(before) != is_word(byte(at))) == *there,
            Op::Moved(slot) => slots.get(*slot).copied().flatten() != Some(at),
            _ => false,
        };
        holds.then_some(at)
    }

    fn repeated(
        &self,
        group: usize,
        fold: bool,
        at: usize,
        slots: &[Option<usize>],
    ) -> Option<usize> {
        let slot = |slot: usize| slots.get(slot).copied().flatten();
        let text = self.haystack.get(slot(2 * group)?..slot(2 * group + 1)?)?;
        let there = self.haystack.get(at..at + text.len())?;
        let same = if fold { there.eq_ignore_ascii_case(text) } else { there == text };
        same.then_some(at + text.len())
    }
}

fn is_word(byte: Option<u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Takes over the slots of an inner attempt, so that they can be given back.
fn note(stack: &mut Vec<Frame>, slots: &mut [Option<usize>], inner: &[Option<usize>]) {
    for (slot, (mine, theirs)) in slots.iter_mut().zip(inner).enumerate() {
        if mine != theirs {
            stack.push(Frame::Slot { slot, value: *mine });
            *mine = *theirs;
        }
    }
}

/// Undoes slots up to the last branch, and takes it.
fn resume(stack: &mut Vec<Frame>, slots: &mut [Option<usize>]) -> Option<(usize, usize)> {
    loop {
        match stack.pop()? {
            Frame::Branch { op, at } => return Some((op, at)),
            Frame::Slot { slot, value } => {
                if let Some(place) = slots.get_mut(slot) {
                    *place = value;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

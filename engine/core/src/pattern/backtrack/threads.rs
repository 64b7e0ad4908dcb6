//! Patterns with look-around and nothing else that an automaton cannot do, in linear time: all attempts advance
//! together, a byte at a time, and each instruction is run once at each place however many ways lead there.
//!
//! A look-around is such a search of its own, from the place where it is asked. One of bounded length takes bounded
//! time; one without a bound may take as long as the text, and is under the limit of steps like all the rest.
//!
//! The order of threads is that in which back-tracking tries them, so that the match is the same.
//! Source: Pike's algorithm, as in Russ Cox, "Regular Expression Matching: the Virtual Machine Approach".

use super::{Backtracker, Found, NESTING_MAX, Op, OutOfSteps, is_word};

/// Attempts that are under way at one place.
#[derive(Debug, Default)]
struct Threads {
    /// Instructions that wait for a byte, or have matched, with the place where their attempt began.
    list: Vec<(usize, usize)>,
    /// For each instruction, whether it was run at this place.
    seen: Vec<bool>,
    /// Instructions to run, the next one last.
    todo: Vec<usize>,
}

impl Threads {
    fn clear(&mut self, ops: usize) {
        self.list.clear();
        self.seen.clear();
        self.seen.resize(ops, false);
    }
}

/// The threads of a search: here, and behind the next byte.
type Pair = [Threads; 2];

struct Search<'s> {
    program: &'s Backtracker,
    haystack: &'s [u8],
    steps_left: &'s mut usize,
    /// Of look-around, by how deep it is nested.
    spare: Vec<Pair>,
}

impl Backtracker {
    /// Whether look-around is all that it has and an automaton has not.
    pub(in crate::pattern) fn is_regular(&self) -> bool {
        !self.ops.iter().any(|op| matches!(op, Op::BackReference(..) | Op::Atomic { .. }))
    }

    /// The range of the leftmost match that begins at `from` or later. `next_start` names the next place at which one
    /// may begin, from a place on, and takes its own steps.
    pub(in crate::pattern) fn search_threads(
        &self,
        haystack: &[u8],
        from: usize,
        steps_left: &mut usize,
        mut next_start: impl FnMut(usize, &mut usize) -> Option<usize>,
    ) -> (Found, Option<(usize, usize)>) {
        let mut search = Search { program: self, haystack, steps_left, spare: Vec::new() };
        match search.run(from, &mut next_start) {
            Ok(Some(range)) => (Found::Yes, Some(range)),
            Ok(None) => (Found::No, None),
            Err(OutOfSteps) => (Found::GaveUp, None),
        }
    }
}

impl Search<'_> {
    fn pay(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        *self.steps_left = self.steps_left.checked_sub(steps).ok_or(OutOfSteps)?;
        Ok(())
    }

    fn run(
        &mut self,
        from: usize,
        next_start: &mut impl FnMut(usize, &mut usize) -> Option<usize>,
    ) -> Result<Option<(usize, usize)>, OutOfSteps> {
        let ops = self.program.ops.len();
        let [mut here, mut next] = Pair::default();
        here.clear(ops);
        let (mut at, mut found) = (from, None);
        loop {
            if here.list.is_empty() {
                if found.is_some() {
                    return Ok(found);
                }
                match next_start(at, self.steps_left) {
                    Some(start) if start > at => {
                        at = start;
                        here.clear(ops);
                    }
                    Some(_) => {}
                    None => return Ok(None),
                }
            }
            if found.is_none() {
                self.add(&mut here, 0, at, at, 0)?;
            }
            next.clear(ops);
            if let Some(matched) = self.advance(&here, &mut next, at, 0)? {
                found = Some((matched, at));
            }
            if at >= self.haystack.len() {
                return Ok(found);
            }
            core::mem::swap(&mut here, &mut next);
            at += 1;
        }
    }

    /// Moves the threads over the byte at `at`. Gives where the first of them that has matched began: those behind it
    /// end.
    fn advance(
        &mut self,
        here: &Threads,
        next: &mut Threads,
        at: usize,
        nesting: usize,
    ) -> Result<Option<usize>, OutOfSteps> {
        let byte = self.haystack.get(at).copied();
        for &(op, start) in &here.list {
            self.pay(1)?;
            match self.program.ops.get(op) {
                Some(Op::Set(set)) => {
                    if byte.is_some_and(|byte| set.contains(byte)) {
                        self.add(next, op + 1, start, at + 1, nesting)?;
                    }
                }
                _ => return Ok(Some(start)),
            }
        }
        Ok(None)
    }

    /// Runs all that can be run at `at` from an instruction on.
    fn add(
        &mut self,
        threads: &mut Threads,
        op: usize,
        start: usize,
        at: usize,
        nesting: usize,
    ) -> Result<(), OutOfSteps> {
        let mut todo = core::mem::take(&mut threads.todo);
        todo.clear();
        todo.push(op);
        while let Some(op) = todo.pop() {
            let Some(seen) = threads.seen.get_mut(op) else { continue };
            if core::mem::replace(seen, true) {
                continue;
            }
            self.pay(1)?;
            match self.program.ops.get(op) {
                None => {}
                Some(Op::Set(_) | Op::Match) => threads.list.push((op, start)),
                Some(Op::Jump(to)) => todo.push(*to),
                Some(Op::Split(first, second)) => todo.extend([*second, *first]),
                // A repetition that has not moved comes to an instruction that was run.
                Some(Op::Save(_) | Op::Moved(_)) => todo.push(op + 1),
                Some(Op::Look { negative, back, next }) => {
                    let found = match at.checked_sub(*back) {
                        Some(from) => self.matches_at(op + 1, from, nesting + 1)?,
                        None => false,
                    };
                    if found != *negative {
                        todo.push(*next);
                    }
                }
                Some(simple) if self.holds(simple, at) => todo.push(op + 1),
                Some(_) => {}
            }
        }
        threads.todo = todo;
        Ok(())
    }

    /// Whether the instructions from `op` on match at `from`.
    fn matches_at(&mut self, op: usize, from: usize, nesting: usize) -> Result<bool, OutOfSteps> {
        if nesting >= NESTING_MAX {
            return Err(OutOfSteps);
        }
        let ops = self.program.ops.len();
        let [mut here, mut next] = self.spare.pop().unwrap_or_default();
        self.pay(ops / 64)?;
        here.clear(ops);
        let mut at = from;
        self.add(&mut here, op, from, at, nesting)?;
        let mut found = false;
        while !here.list.is_empty() && !found && at <= self.haystack.len() {
            self.pay(ops / 64)?;
            next.clear(ops);
            found = self.advance(&here, &mut next, at, nesting)?.is_some();
            core::mem::swap(&mut here, &mut next);
            at += 1;
        }
        self.spare.push([here, next]);
        Ok(found)
    }

    /// Whether an assertion that looks at no more than the bytes beside it holds.
    fn holds(&self, op: &Op, at: usize) -> bool {
        let byte = |at: usize| self.haystack.get(at).copied();
        let before = at.checked_sub(1).and_then(byte);
        match op {
            Op::StartOfText => at == 0,
            Op::EndOfText => at == self.haystack.len(),
            Op::StartOfLine => before.is_none_or(|byte| byte == b'\n'),
            Op::EndOfLine => byte(at).is_none_or(|byte| byte == b'\n'),
            Op::WordBoundary(there) => (is_word(before) != is_word(byte(at))) == *there,
            // None of these is an assertion, or is regular.
            Op::Set(_)
            | Op::Split(..)
            | Op::Jump(_)
            | Op::Save(_)
            | Op::BackReference(..)
            | Op::Look { .. }
            | Op::Atomic { .. }
            | Op::Moved(_)
            | Op::Match => false,
        }
    }
}

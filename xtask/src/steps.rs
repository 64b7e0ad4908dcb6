//! A sequence of named steps: a header before each, its time after it, a table at the end.

use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};

/// The steps of one command that were run so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration)>,
    remarks: Vec<String>,
}

impl Steps {
    /// Runs one step. On failure the table is printed and the last line names the step.
    pub(crate) fn run<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> Outcome<T>,
    ) -> Outcome<T> {
        println!("\n==> {name}");
        let begun = Instant::now();
        let outcome = work();
        self.done.push((name, begun.elapsed()));
        outcome.map_err(|failure| {
            println!("{}", self.table());
            Failure::new(format!("{failure}\nFAILED in step `{name}`"))
        })
    }

    /// Has a remark printed at the very end: of what was left out, nobody would learn in between.
    pub(crate) fn remark(&mut self, remark: Option<String>) {
        self.remarks.extend(remark);
    }

    /// Prints the table of a sequence that went well.
    pub(crate) fn finish(&self, command: &str) {
        println!("{}\n{command}: all {} steps ok", self.table(), self.done.len());
        self.remarks.iter().for_each(|remark| println!("{remark}"));
    }

    fn table(&self) -> String {
        let total = self.done.iter().map(|(_, time)| *time).sum();
        let rows = self.done.iter().copied().chain(std::iter::once(("total", total)));
        rows.map(|(name, time)| format!("\n  {name:<8} {:>7.1} s", time.as_secs_f64())).collect()
    }
}

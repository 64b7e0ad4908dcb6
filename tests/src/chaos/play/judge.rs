//! What is thought of all that clients have seen.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Play;
use crate::chaos::scenario::Phase;
use crate::envoy;
use crate::traffic::{Kind, Record, Route, Row};

/// Faults of one kind that are told in full.
const TOLD: usize = 5;
/// Longer than Envoy takes to write down what it has answered, on a machine that has other things to do.
const LOGGED: Duration = Duration::from_secs(10);

impl Play<'_> {
    /// Holds what clients have seen, and what the access log says, against the phases.
    pub(super) fn judge(&mut self) {
        let records = self.traffic.finish();
        self.verdict.requests = records.len();
        let mut wrong = Vec::new();
        for record in &records {
            let Some(row) = self.rows.get(record.row) else { continue };
            if row.kind == Kind::Clean {
                self.verdict.failed += usize::from(record.status == 0 || record.status >= 500);
                self.verdict.blocked_wrongly += usize::from((400..500).contains(&record.status));
            }
            if let Err(phases) = self.allowed(record, row) {
                let (Record { status, .. }, at) = (record, record.sent);
                let (route, name) = (record.route, row.name);
                wrong.push(format!(
                    "{at:.2?}: {name} on {route:?} was answered {status} ({phases})"
                ));
            }
        }
        self.tell(wrong, "requests were not answered as they should have been");
        self.verdict.uninspected = 0;
        let (mut closed, mut open) = (0, 0);
        let answered = records.iter().filter(|record| record.status != 0).count();
        for line in self.log(answered) {
            let inspected = line["glacis"]["verdict"] == "allow";
            if line["details"] != "via_upstream" || inspected {
                continue;
            }
            let is_open = line["route"].as_str().is_some_and(|route| route.starts_with("open"));
            *(if is_open { &mut open } else { &mut closed }) += 1;
        }
        self.verdict.uninspected = open + closed;
        if closed > 0 {
            self.fault(format!(
                "{closed} requests without a verdict reached an upstream by the closed route"
            ));
        }
        if open > 0 && !self.scenario.fails_open {
            self.fault(format!(
                "{open} requests without a verdict reached an upstream by the open route"
            ));
        }
        if self.verdict.blocked_wrongly > 0 {
            self.fault(format!("{} clean requests were refused", self.verdict.blocked_wrongly));
        }
    }

    fn tell(&mut self, mut wrong: Vec<String>, what: &str) {
        let count = wrong.len();
        wrong.truncate(TOLD);
        if count > 0 {
            self.fault(format!("{count} {what}:\n    {}", wrong.join("\n    ")));
        }
    }

    /// What the access log says of our clients, once it has a line for each of so many requests that were answered.
    /// A line that is not there is not judged, which is said: Envoy writes its warnings into the same file, and may
    /// do so in the middle of a line.
    fn log(&mut self, answered: usize) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let _ = self.fleet.envoy.reopen_logs();
            let log = self.fleet.folder.read(envoy::LOG);
            let new = log.get(self.log_begins..).unwrap_or_default();
            let lines = new.lines().flat_map(serde_json::from_str::<Value>);
            let found: Vec<Value> = lines.filter(is_of_a_client).collect();
            let missing = answered.saturating_sub(found.len());
            if missing == 0 {
                return found;
            }
            if begun.elapsed() > LOGGED {
                let note = format!("{missing} of {answered} answers are not in the access log");
                self.verdict.notes.push(note);
                return found;
            }
            sleep(Duration::from_millis(20));
        }
    }

    /// Whether a request may have ended so; otherwise the names of the phases it lay in.
    fn allowed(&self, record: &Record, row: &Row) -> Result<(), String> {
        let ends = self.phases.iter().skip(1).map(|(begun, _)| *begun);
        let ends = ends.chain(std::iter::once(Duration::MAX));
        let within: Vec<&Phase> = { self.phases.iter().zip(ends) }
            .filter(|((begun, _), end)| *begun <= record.done && record.sent <= *end)
            .map(|((_, phase), _)| phase)
            .collect();
        let names =
            || within.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>().join(", ");
        if let ([phase], Kind::Clean) = (within.as_slice(), row.kind)
            && let Some(must) = phase.must.get(&record.route)
        {
            return if record.status == *must { Ok(()) } else { Err(names()) };
        }
        let also = |phase: &&&Phase| match record.route {
            Route::Closed => phase.closed.contains(&record.status),
            Route::Open => phase.open.contains(&record.status),
        };
        match record.status == row.status || within.iter().any(|phase| also(&phase)) {
            true => Ok(()),
            false => Err(names()),
        }
    }
}

/// Whether a line of the access log is about a request of the traffic.
fn is_of_a_client(line: &Value) -> bool {
    line["client"].as_str().is_some_and(|client| client.starts_with("127.3."))
}

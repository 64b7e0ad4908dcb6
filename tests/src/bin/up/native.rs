//! The native module beside ext-proc: the listener of `envoy-configs/native/`, in the Envoy of the quickstart.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use glacis_tests::failure::Outcome;
use glacis_tests::http;
use glacis_tests::native;
use glacis_tests::ports;
use glacis_tests::stack::{Ports, Stack};
use serde_json::Value;

use crate::rows::{self, Finding, UPSTREAM};

/// The host that answers, in the table.
const MODULE: &str = "native module";
/// Its audit records, in the folder of the run.
const RECORDS: &str = "native-audit.jsonl";
/// The port of `envoy-configs/native/` is that of the quickstart: this is the next one that no example has.
const PORT: u16 = 10002;
/// The rows that are sent to this listener too, with what it answers.
const ROWS: [(&str, &str); 4] = [
    ("a page", "native: a page"),
    ("an upload", "native: an upload"),
    ("SQL injection", "native: SQL injection"),
    ("command injection", "native: command injection"),
];

/// The listener.
#[derive(Clone, Debug)]
pub(crate) struct Native {
    /// Its port.
    pub(crate) proxy: u16,
    /// The listener, as it stands in Envoy's configuration.
    listener: String,
}

impl Native {
    /// The shipped listener on its usual port, or on a free one where that is taken or the others are not the usual.
    pub(crate) fn new(others: Ports, folder: &Path) -> Outcome<Self> {
        let is_usual = others == Ports::QUICKSTART && ports::is_free(PORT);
        let proxy = if is_usual { PORT } else { ports::free::<1>()?[0] };
        let listener = native::listener(&Ports { proxy, ..others }, &folder.join(RECORDS))?;
        Ok(Self { proxy, listener })
    }

    /// The quickstart's listeners with this one behind them.
    pub(crate) fn edit(&self) -> (&'static str, String) {
        ("\n  clusters:\n", format!("\n{}\n  clusters:\n", self.listener))
    }

    /// Sends rows to the listener, and looks up in the logs what became of each.
    pub(crate) fn send_all(&self, stack: &Stack) -> Outcome<Vec<Finding>> {
        let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, self.proxy));
        let sent = rows::rows().into_iter().filter_map(|row| {
            let (_, name) = ROWS.into_iter().find(|(known, _)| *known == row.name)?;
            Some((name, row))
        });
        let sent: Vec<_> =
            sent.zip(1..).map(|(row, last)| (row, Ipv4Addr::new(127, 0, 4, last))).collect();
        let mut statuses = Vec::new();
        for ((_, row), from) in &sent {
            statuses.push(http::send(Some(*from), proxy, &row.request)?.status);
        }
        let clients: Vec<_> = sent.iter().map(|(_, from)| *from).collect();
        let lines = rows::logged(stack, &clients)?;
        let records = stack.folder.read(RECORDS);
        let records: Vec<Value> = records.lines().flat_map(serde_json::from_str).collect();
        let results = sent.into_iter().zip(statuses).zip(&lines);
        Ok(results
            .map(|((((name, row), from), status), line)| {
                let record = rows::record(&records, from);
                finding(name, &row, status, line, record.unwrap_or(&Value::Null))
            })
            .collect())
    }
}

/// What became of one request; the receipt is in the line of the access log.
fn finding(
    name: &'static str,
    row: &rows::Row,
    status: u16,
    line: &Value,
    record: &Value,
) -> Finding {
    let verdict = line["glacis"]["verdict"].as_str().unwrap_or_default();
    let (by, why) = match verdict {
        "allow" => (UPSTREAM, "nothing found".to_owned()),
        "deny" => (MODULE, rows::rules(record)),
        other => ("envoy", format!("verdict {other:?}")),
    };
    let is_inspected = matches!((row.status, verdict), (200, "allow") | (403, "deny"));
    Finding::new(name, row.sent, status, by, why, is_inspected && status == row.status)
}

//! GraphQL in the body of a request, and what all of its documents come to (`GRAPHQL`).

use crate::{
    body::{
        self, BodyError, BodyScratch, BodySink, Outcome, Processor,
        graphql::{Measures, Numbers, Requests, is_document},
    },
    limits::Limits,
    store::List,
    transaction::{Transaction, request::decimal},
};

/// How a body is read.
pub(super) struct Reading<'r> {
    pub(super) processor: Processor,
    pub(super) content_type: &'r [u8],
    pub(super) separator: u8,
    /// Numbers in the variables of the query string: servers take those where the body has none.
    pub(super) numbers: Numbers,
    /// The body is a message of a protocol that has requests in `payload`.
    pub(super) in_payload: bool,
}

/// Runs a body processor and takes apart the documents that it finds.
pub(super) fn process(
    reading: Reading<'_>,
    body: &[u8],
    limits: &Limits,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> (Outcome, Measures) {
    let Reading { processor, content_type, separator, numbers, in_payload } = reading;
    let mut requests = Requests::new(limits, numbers, sink);
    if in_payload {
        requests = requests.in_payload();
    }
    let mut outcome = if is_document(content_type) && !body.is_empty() {
        requests.document(body);
        Outcome { bytes_without_files: body.len(), ..Outcome::default() }
    } else {
        body::process(processor, content_type, body, limits, separator, scratch, &mut requests)
    };
    let (measures, error) = requests.finish(limits, scratch);
    let error = error.map(|kind| BodyError { kind, offset: 0 });
    outcome.error = outcome.error.or(error);
    (outcome, measures)
}

impl Transaction {
    /// Numbers in the GraphQL variables of the query string.
    pub(super) fn queried_numbers(&self) -> Numbers {
        let mut numbers = Numbers::default();
        let arguments = self.store.list(List::ArgsGet).iter().filter(|_| self.control.graphql);
        for pair in arguments {
            if let Some(path) = self.store.bytes(pair.name).strip_prefix(b"variables.") {
                numbers.note_path(0, path, self.store.bytes(pair.value));
            }
        }
        numbers
    }

    /// Sets `GRAPHQL` from the documents of the query string and those of the body.
    pub(super) fn set_graphql(&mut self, posted: &Measures) {
        if !self.control.graphql {
            return;
        }
        let mut measures = self.control.graphql_queried;
        // Servers differ in whether such a document is read, and with which variables.
        let is_ambiguous = measures.batch > 0 && !self.store.request_body.is_empty();
        measures.add(posted);
        measures.malformed |= is_ambiguous;
        for (name, number) in measures.members() {
            let mut digits = [0; 20];
            let number = decimal(number, &mut digits);
            self.store.add_pair(List::Graphql, name.as_bytes(), number);
        }
    }
}

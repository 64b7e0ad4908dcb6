//! Bodies, as hosts hand them over: whether they are wanted, and how much of them.

use super::{Stage, Transaction};
use crate::{
    body::{Outcome, Processor},
    id::Phase,
    program::RuleEngine,
    settings::LimitAction,
    store::List,
    variable::Variable,
};

/// Bytes of a request body from which on what chains of transformations made of it is not kept for later phases.
const LARGE_BODY_BYTES: usize = 128 << 10;

/// What the host has to do with body bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRoom {
    /// They were taken, more are welcome.
    Left,
    /// The limit is reached: further bytes will not be looked at.
    Full,
}

/// How many messages a client sends in a call of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrpcMessages {
    /// One, by the descriptor of the method.
    One,
    /// One or more: it is not known, or the client streams.
    Any,
}

impl Transaction {
    /// Whether the host should collect the request's body, known after phase 1.
    #[must_use]
    pub fn wants_request_body(&self) -> bool {
        self.inspecting()
            && self.stage == Stage::RequestBody
            && self.program.request_body_rules
            && self.control.request_body_access
    }

    /// How the body of a request is to be handed over if it is one of gRPC, known after phase 1. `None` where rules do
    /// not have it read as one (`ctl:requestBodyProcessor=GRPC`), or it is compressed as a whole.
    #[must_use]
    pub fn grpc_messages(&self) -> Option<GrpcMessages> {
        let is_read = self.control.processor == Some(Processor::Grpc);
        if !is_read || self.store.find(List::RequestHeaders, b"content-encoding").is_some() {
            return None;
        }
        let is_one = self.grpc_method().is_some_and(|method| !method.client_streaming);
        Some(if is_one { GrpcMessages::One } else { GrpcMessages::Any })
    }

    /// Takes a piece of the request body.
    ///
    /// Bytes beyond the limit are not kept. With `SecRequestBodyLimitAction Reject` they make
    /// [`Self::verdict`] a refusal with status 413.
    ///
    /// ```
    /// # use glacis_engine::{BodyRoom, Endpoint, Input, Limits, NoFiles, Phase, Program, Refusal};
    /// # use glacis_engine::{Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// let text = r#"SecRuleEngine On
    ///     SecRequestBodyAccess On
    ///     SecRequestBodyLimit 8
    ///     SecRule ARGS "@contains attack" "id:1,phase:2,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// # let mut transaction = Transaction::new(Arc::new(program));
    /// # transaction.start(&start);
    /// # transaction.request_line(b"POST", b"/", b"HTTP/1.1");
    /// # transaction.evaluate_request_headers();
    /// assert_eq!(transaction.request_body(b"name=a"), BodyRoom::Left);
    /// assert_eq!(transaction.request_body(b"&b=c"), BodyRoom::Full);
    /// // A limit has refused it, no rule has; and that the limit was hit can be seen.
    /// let refusal = Refusal { status: 413, rule: None, phase: Phase::RequestBody };
    /// assert_eq!(transaction.verdict().refusal(), Some(&refusal));
    /// assert_eq!(transaction.flags().names().collect::<Vec<_>>(), ["request_body"]);
    /// ```
    pub fn request_body(&mut self, chunk: &[u8]) -> BodyRoom {
        if self.stage != Stage::RequestBody || !self.control.request_body_access {
            return BodyRoom::Full;
        }
        let max = self.control.request_body_bytes_max;
        if !append_up_to(&mut self.store.request_body, chunk, max) {
            return BodyRoom::Left;
        }
        self.request_body_cut();
        if self.program.settings.request_body_limit_action == LimitAction::Reject {
            self.refuse_for_limit(413, Phase::RequestBody);
        }
        BodyRoom::Full
    }

    /// Says that the body goes on beyond what the host could hand over, so that rules can tell
    /// (`INBOUND_DATA_ERROR`). What then becomes of the request is for rules, or the host, to decide.
    pub fn request_body_cut(&mut self) {
        if !self.flags.request_body_truncated {
            self.flags.request_body_truncated = true;
            self.set_flag(Variable::InboundDataError, true);
        }
    }

    /// Gives back what was made of a large body once its phase is over. The transaction may wait long for a response:
    /// only requests that are being evaluated take such memory. Whether it does depends on the body alone, so that
    /// the steps of later phases do not depend on what came before.
    pub(super) fn rest_after_large_body(&mut self) {
        if self.store.request_body.len() > LARGE_BODY_BYTES {
            self.rest();
        }
    }

    /// Has the request's body read as text of any kind (`TEXT`), whatever the headers say: it is a message of a protocol
    /// that has no media types. On paths of `SecGraphqlPath`, the `payload` of a JSON message is a GraphQL request, as in
    /// `graphql-transport-ws`. To be called after phase 1; rules see the body even where they do not ask for bodies
    /// (`SecRequestBodyAccess Off`).
    pub fn request_is_message(&mut self) {
        if self.stage == Stage::RequestBody {
            self.control.request_body_access = true;
            self.control.request_is_message = true;
            self.control.processor = Some(Processor::Text);
            self.set_processor();
        }
    }

    /// Has the response's body inspected whatever its media type is, even where rules do not ask for bodies
    /// (`SecResponseBodyAccess Off`): it is a message of a protocol that has no media types. To be called before the
    /// body.
    pub fn response_is_message(&mut self) {
        self.control.response_body_access = true;
        self.control.response_is_message = true;
    }

    /// Whether the host should collect the response's body, known after phase 3: rules look at it,
    /// and its media type is one of `SecResponseBodyMimeType`.
    ///
    /// ```
    /// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
    /// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
    /// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    /// # let time = Duration::from_secs(1_700_000_000);
    /// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
    /// let text = r#"SecRuleEngine On
    ///     SecResponseBodyAccess On
    ///     SecRule RESPONSE_BODY "@contains ORA-00933" "id:1,phase:4,deny""#;
    /// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
    /// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
    /// # let mut transaction = Transaction::new(Arc::new(program));
    /// let responses = [("text/html; charset=utf-8", "deny"), ("image/png", "allow")];
    /// for (media_type, expected) in responses {
    ///     transaction.start(&start);
    ///     transaction.request_line(b"GET", b"/", b"HTTP/1.1");
    ///     transaction.evaluate_request_headers();
    ///     transaction.evaluate_request_body();
    ///     transaction.response_line(200, b"HTTP/1.1");
    ///     transaction.response_header(b"Content-Type", media_type.as_bytes());
    ///     transaction.evaluate_response_headers();
    ///     if transaction.wants_response_body() {
    ///         transaction.response_body(b"<p>ORA-00933: SQL command not properly ended</p>");
    ///     }
    ///     assert_eq!(transaction.evaluate_response_body().name(), expected);
    ///     transaction.finish(start.time);
    /// }
    /// ```
    #[must_use]
    pub fn wants_response_body(&self) -> bool {
        self.inspecting()
            && self.stage == Stage::ResponseBody
            && self.program.response_body_rules
            && self.control.response_body_access
            && (self.control.response_is_message || self.inspects_media_type())
    }

    /// Takes a piece of the response body.
    pub fn response_body(&mut self, chunk: &[u8]) -> BodyRoom {
        if !self.wants_response_body() {
            return BodyRoom::Full;
        }
        let max = self.control.response_body_bytes_max;
        if !append_up_to(&mut self.store.response_body, chunk, max) {
            return BodyRoom::Left;
        }
        if !self.flags.response_body_truncated {
            self.flags.response_body_truncated = true;
            self.set_flag(Variable::OutboundDataError, true);
        }
        if self.program.settings.response_body_limit_action == LimitAction::Reject {
            self.refuse_for_limit(500, Phase::ResponseBody);
        }
        BodyRoom::Full
    }
}

/// A body of which only the first part is inspected, because nothing is refused anyway.
#[derive(Clone, Copy, Debug)]
pub(super) struct CutBody {
    /// Bytes of all of it.
    bytes: usize,
    /// Bytes that are inspected.
    inspected: usize,
}

impl CutBody {
    /// The outcome for the whole body: it is as long as it was, and no error that it ends too early.
    pub(super) fn outcome(self, outcome: Outcome) -> Outcome {
        let error = outcome.error.filter(|error| error.offset < self.inspected);
        Outcome { bytes_without_files: self.bytes, error, ..outcome }
    }
}

impl Transaction {
    /// Bytes without files of which a body is inspected where rules look on and cannot block; `None` where they may.
    ///
    /// Where they may block, all of a body is inspected: within the limit without files by every rule, beyond it until
    /// the rule of the base configuration that refuses such bodies. Where they look on, the verdict is the same whatever
    /// the rest of a body holds, which takes seconds at 13 MB.
    pub(super) fn observed_bytes_max(&self) -> Option<usize> {
        let observes = match self.control.rule_engine {
            RuleEngine::DetectionOnly => !self.program.may_switch_on,
            RuleEngine::On | RuleEngine::Off => false,
        };
        let limits = &self.program.limits;
        let bytes_max = limits.observed_body_bytes_max.min(limits.request_body_no_files_bytes_max);
        observes.then_some(bytes_max)
    }

    /// Cuts a body where rules look on, unless it holds files: the parts of such a body are cut one by one.
    pub(super) fn cut_observed_body(
        &mut self,
        processor: Option<Processor>,
        is_variable: bool,
    ) -> Option<CutBody> {
        let inspected = self.observed_bytes_max()?;
        let bytes = self.store.request_body.len();
        let is_whole = match processor {
            Some(Processor::Multipart) => true,
            Some(
                Processor::UrlEncoded
                | Processor::Json
                | Processor::JsonLines
                | Processor::Xml
                | Processor::Text
                | Processor::Grpc
                | Processor::Protobuf
                | Processor::Raw,
            ) => false,
            None => !is_variable,
        };
        if is_whole || bytes <= inspected {
            return None;
        }
        self.store.request_body.truncate(inspected);
        self.store.request_body.shrink_to_fit();
        self.flags.request_body_truncated = true;
        Some(CutBody { bytes, inspected })
    }
}

/// Appends what fits; says whether something did not.
fn append_up_to(buffer: &mut Vec<u8>, chunk: &[u8], max: usize) -> bool {
    let room = max.saturating_sub(buffer.len());
    buffer.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or_default());
    chunk.len() > room
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, sync::Arc, time::Duration};

    use super::*;
    use crate::{Endpoint, Input, Limits, NoFiles, Program, Start};

    /// Of a large body nothing is kept that can be made again; of one at the limit it is.
    #[test]
    fn what_was_made_of_a_large_body_is_given_back() {
        let text = "SecRuleEngine On\nSecRequestBodyAccess On\n\
                    SecRule ARGS_POST \"@contains never\" \"id:1,phase:2,deny,t:hexEncode\"\n\
                    SecRule ARGS_POST \"@endsWith 7a\" \"id:2,phase:4,pass,t:hexEncode\"";
        let input = Input::Text { name: "rules".to_owned(), text: text.to_owned() };
        let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
        let mut transaction = Transaction::new(Arc::new(program));
        let client = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
        for (bytes, keeps) in
            [(LARGE_BODY_BYTES, true), (LARGE_BODY_BYTES + 1, false), (LARGE_BODY_BYTES, true)]
        {
            let time = Duration::from_secs(1);
            transaction.start(&Start { unique_id: "", time, client, server: client });
            transaction.request_line(b"POST", b"/", b"HTTP/1.1");
            let form = b"application/x-www-form-urlencoded";
            transaction.request_header(b"Content-Type", form);
            transaction.evaluate_request_headers();
            transaction.request_body(format!("a={}", "z".repeat(bytes - 2)).as_bytes());
            transaction.evaluate_request_body();
            assert_eq!(transaction.store.transformed_bytes() > 0, keeps, "{bytes}");
            transaction.evaluate_response_headers();
            transaction.evaluate_response_body();
            assert_eq!(transaction.matched_rules().count(), 1, "{bytes}");
        }
    }
}

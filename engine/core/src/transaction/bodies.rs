//! Bodies, as hosts hand them over: whether they are wanted, and how much of them.

use super::{Stage, Transaction};
use crate::{id::Phase, settings::LimitAction, variable::Variable};

/// What the host has to do with body bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRoom {
    /// They were taken, more are welcome.
    Left,
    /// The limit is reached: further bytes will not be looked at.
    Full,
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
            && self.inspects_media_type()
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

/// Appends what fits; says whether something did not.
fn append_up_to(buffer: &mut Vec<u8>, chunk: &[u8], max: usize) -> bool {
    let room = max.saturating_sub(buffer.len());
    buffer.extend_from_slice(chunk.get(..chunk.len().min(room)).unwrap_or_default());
    chunk.len() > room
}

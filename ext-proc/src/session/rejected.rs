//! Requests that are answered for a limit they have reached, and not by a rule.
//!
//! A client chooses what it sends, how much of it, and when. What comes of that is a verdict: where rules may block it
//! is an answer with a 5xx or 4xx of this service, whatever the route's failure mode is. `late: fail` leaves what could
//! not be evaluated in time to the failure mode.

use std::{sync::Arc, time::Instant};

use glacis_inspector::{
    Decision, Inspector, LatePolicy, REJECT, Rejection, RequestHead, Uninspected, client_of,
    request_id,
};
use glacis_service::{Client, chance, now};
use tonic::Status;

use super::{Half, Session, hints, part};
use crate::{
    metrics::{ErrorKind, Metrics},
    profile::Profile,
    reply::{self, Answer, Answered, Part},
    wire::{Head, Incoming, Message},
};

/// The answer if there will be no verdict in time.
#[derive(Debug)]
pub(crate) struct Fallback {
    pub(crate) answer: Answer,
    /// The verdict of the receipt in it.
    pub(crate) verdict: &'static str,
}

impl Fallback {
    /// The answer, which is counted as it is given: mostly the verdict comes in time, with a receipt of its own.
    pub(crate) fn given(self, metrics: &Metrics) -> Answer {
        metrics.receipt(self.verdict);
        self.answer
    }
}

impl Session {
    /// The client, for its share of what all clients use; `None` where Envoy does not say.
    pub(crate) fn client(&self, message: &Message) -> Option<Client> {
        let address = match (message, &self.inspector) {
            (Message::RequestHeaders(head), None) => {
                let hops = self.foreseen(head)?.settings.trusted_hops;
                client_of(head.source, &head.headers(), hops).map(|client| client.address)
            }
            (_, inspector) => inspector.as_ref()?.client(),
        };
        address.map(Client::from)
    }

    fn foreseen(&self, head: &Head) -> Option<Arc<Profile>> {
        self.shared.foresee(hints(self.named.as_deref(), head))
    }

    /// Answers a message that finds no place among those that wait to be evaluated.
    pub(crate) fn turn_away(&mut self, message: Incoming, rejection: Rejection) -> Answered {
        let part = part(&message.message);
        if part == Part::RequestHeaders {
            self.turned_down = Some(rejection);
            return self.answer(message);
        }
        let decision =
            self.inspector.as_deref_mut().and_then(|inspector| inspector.reject(rejection));
        if let Some(decision) = decision {
            let answer = self.follow(&decision, part, Vec::new());
            return self.or_fail(vec![answer]);
        }
        let Some(fallback) = self.without_verdict(&message.message) else {
            // In full duplex the body has to be given back, which an answer to the message does: its evaluation ends
            // before the first rule.
            self.due = Some(Instant::now());
            return self.answer(message);
        };
        self.give_up();
        self.shared.metrics.uninspected(Uninspected::Late);
        Ok(vec![fallback.given(self.shared.metrics())])
    }

    /// The answers, unless the request was not evaluated in time and its profile leaves that to Envoy's failure mode.
    pub(super) fn or_fail(&mut self, answers: Vec<Answer>) -> Answered {
        // `body_overflow` decides about bodies that find no memory.
        let is_of_memory = |inspector: &&Inspector| {
            inspector.receipt().uninspected == Some(Uninspected::BodyOverflow)
        };
        let inspector = self.inspector.as_deref().filter(|_| self.refused);
        let rejection = inspector.filter(|it| !is_of_memory(it)).and_then(Inspector::rejection);
        match rejection.filter(|rejection| rejection.is_of_load()) {
            Some(rejection) if self.late_policy() == LatePolicy::Fail => {
                self.give_up();
                Err(self.failure(rejection))
            }
            _ => Ok(answers),
        }
    }

    fn failure(&self, rejection: Rejection) -> Status {
        if rejection == Rejection::Late {
            self.shared.metrics.error(ErrorKind::Deadline);
            Status::deadline_exceeded("the evaluation took longer than deadline_ms")
        } else {
            self.shared.metrics.error(ErrorKind::Overload);
            Status::resource_exhausted(rejection.name())
        }
    }

    fn late_policy(&self) -> LatePolicy {
        self.profile.as_ref().map(|profile| profile.settings.late).unwrap_or_default()
    }

    /// The answer to a message whose verdict does not come in time. `None` where Envoy's failure mode is to decide.
    pub(crate) fn without_verdict(&self, message: &Message) -> Option<Fallback> {
        if let Message::RequestHeaders(head) = message {
            return self.headers_without_verdict(head);
        }
        if let Some((answer, verdict)) = self.messages_without_verdict(Rejection::Late) {
            return Some(Fallback { answer, verdict });
        }
        let inspector = self.inspector.as_deref()?;
        if let Some((reply, receipt)) = inspector.late_reply() {
            if self.late_policy() == LatePolicy::Fail {
                return None;
            }
            let mut answer = reply::immediate(&reply);
            answer.dynamic_metadata = reply::metadata(&receipt);
            return Some(Fallback { answer, verdict: REJECT });
        }
        // The end of the stream would be the end of the body.
        if self.is_duplex() {
            return None;
        }
        let receipt = inspector.receipt_without_verdict()?;
        let mut answer = reply::pass(part(message), Vec::new());
        answer.dynamic_metadata = reply::metadata(&receipt);
        Some(Fallback { answer, verdict: receipt.verdict })
    }

    /// The answer to a piece of a socket, or of a stream of events, that is not judged.
    fn messages_without_verdict(&self, rejection: Rejection) -> Option<(Answer, &'static str)> {
        let of_socket = self.socket_without_verdict(rejection);
        of_socket.or_else(|| self.events_without_verdict(rejection))
    }

    /// The same for headers, of which no inspector knows yet.
    fn headers_without_verdict(&self, head: &Head) -> Option<Fallback> {
        let profile = self.foreseen(head)?;
        if profile.settings.late == LatePolicy::Fail {
            return None;
        }
        let headers = head.headers();
        let id = request_id(&headers).map_or_else(chance::random_id, str::to_owned);
        let mut inspector = profile.inspector();
        let head = RequestHead {
            headers: &headers,
            protocol: head.protocol.as_deref(),
            end_of_stream: head.end_of_stream,
            id: &id,
            time: now(),
            source: head.source,
            destination: head.destination,
            user: head.user.as_deref(),
            lot: 0,
            audit_lot: 0,
        };
        let mut answer = match inspector.turn_down(&head, Rejection::Late) {
            Decision::Reply(reply) => reply::immediate(&reply),
            Decision::Continue | Decision::NeedBody => {
                reply::pass(Part::RequestHeaders, Vec::new())
            }
        };
        let receipt = inspector.receipt();
        let verdict = receipt.verdict;
        answer.dynamic_metadata = reply::metadata(&receipt);
        profile.keep(inspector);
        Some(Fallback { answer, verdict })
    }

    /// The answer to a message that is larger than `max_message_bytes`, and so was never read; `None` where nothing is
    /// inspected.
    pub(crate) fn body_too_large(&mut self) -> Option<Answer> {
        if let Some((answer, _)) = self.messages_without_verdict(Rejection::BodyTooLarge) {
            return Some(answer);
        }
        let of_request = matches!(self.request, Half::Body(_) | Half::Messages(_));
        let decision = self.inspector.as_deref_mut()?.reject(Rejection::BodyTooLarge)?;
        let part = if of_request { Part::RequestBody } else { Part::ResponseBody };
        Some(self.follow(&decision, part, Vec::new()))
    }
}

//! How a request is refused: by a rule, or for a limit that it has reached.

use glacis_engine::{Phase, Refusal, RuleId, Verdict};

use super::{Inspector, Stage};
use crate::{
    block_page::{Shown, prefers_html},
    decision::{Decision, Mode, Reply, Uninspected},
    rejection::Rejection,
    request::RequestHead,
};

impl Inspector {
    /// The refusal: by the engine, by the second opinion, or for a limit of the host.
    #[must_use]
    pub fn refused(&self) -> Option<Refusal> {
        let rejected = || {
            let (rejection, phase) = self.rejected?;
            Some(Refusal { status: rejection.status(), rule: None, phase })
        };
        let by_rules = self.transaction.verdict().refusal().copied();
        by_rules.or_else(|| self.refused_by_opinion()).or_else(rejected)
    }

    /// The limit for which the request was rejected, if it was not refused for what it is.
    #[must_use]
    pub fn rejection(&self) -> Option<Rejection> {
        match self.transaction.verdict().refusal() {
            Some(refusal) => match refusal.rule {
                Some(id) => {
                    let rule = self.transaction.matched_rules().find(|rule| rule.id == id)?;
                    Rejection::by_rule(&rule, self.transaction.flags())
                }
                None => Some(Rejection::of(refusal, self.transaction.flags())),
            },
            None if self.refused_by_opinion().is_some() => None,
            None => self.rejected.map(|(rejection, _)| rejection),
        }
    }

    /// Rejects the request for a limit, where rules may block and there is no verdict that refuses it already; `None`
    /// where rules may not block.
    pub fn reject(&mut self, rejection: Rejection) -> Option<Decision> {
        if self.mode() != Mode::Blocking || self.stage == Stage::Refused {
            return None;
        }
        let is_response = matches!(self.stage, Stage::ResponseBody | Stage::ResponseDone);
        let phase = match self.stage {
            _ if is_response => Phase::ResponseBody,
            Stage::Idle => Phase::RequestHeaders,
            _ => Phase::RequestBody,
        };
        self.rejected = Some((rejection, phase));
        self.refusal()
    }

    /// Ends the wait for the request's body for a limit of the host: rejects the request where rules may block, and
    /// evaluates what there is of it elsewhere.
    pub fn body_not_awaited(&mut self, rejection: Rejection) -> Decision {
        self.reject(rejection).unwrap_or_else(|| {
            self.uninspected = Some(Uninspected::Overload);
            self.evaluate_request()
        })
    }

    /// Begins a new exchange that the host has no room to evaluate: rejects it where rules may block, and lets it pass
    /// elsewhere. No rule runs.
    pub fn turn_down(&mut self, head: &RequestHead<'_>, rejection: Rejection) -> Decision {
        self.begin(head);
        self.set_mode(head.lot);
        self.reject(rejection).unwrap_or_else(|| {
            self.uninspected = Some(match rejection {
                Rejection::Late => Uninspected::Late,
                _ => Uninspected::Overload,
            });
            self.stage = Stage::RequestDone;
            self.request_evaluated = true;
            Decision::Continue
        })
    }

    /// The verdict on a request for a WebSocket that is no handshake. Its body has no end to wait for, and Envoy passes on
    /// whatever follows its headers.
    pub(super) fn malformed_websocket(&mut self) -> Decision {
        self.uninspected = Some(Uninspected::WebSocket);
        match self.evaluate_request() {
            Decision::Continue => {
                self.reject(Rejection::MalformedUpgrade).unwrap_or(Decision::Continue)
            }
            decision => decision,
        }
    }

    /// The answer to give if the verdict is a refusal.
    pub(super) fn refusal(&mut self) -> Option<Decision> {
        let refusal = self.refused()?;
        let rejection = self.rejection();
        let location = match self.transaction.verdict() {
            Verdict::Redirect { location, .. } => Some(header_value(location)),
            _ => None,
        };
        self.stage = Stage::Refused;
        // A page that says "blocked" with a status of its own is for attacks.
        let status = match (&location, self.settings.block_status) {
            (None, Some(status)) if rejection.is_none() => status,
            _ => refusal.status,
        };
        self.request.status = status;
        let reply = self.reply(self.verdict_name(), status, location, refusal.rule, rejection);
        Some(Decision::Reply(Box::new(reply)))
    }

    pub(super) fn reply(
        &self,
        action: &'static str,
        status: u16,
        location: Option<String>,
        rule: Option<RuleId>,
        rejection: Option<Rejection>,
    ) -> Reply {
        let details = match (rule, rejection) {
            (Some(rule), _) => format!("glacis_{action}_rule_{rule}"),
            (None, Some(rejection)) => format!("glacis_{action}_{}", rejection.name()),
            (None, None) => format!("glacis_{action}"),
        };
        let request = &self.request;
        let wants = (prefers_html(&request.accept), request.is_grpc);
        let shown = Shown::to(&self.settings.block_page, status, wants, &request.id);
        let Shown { mut headers, body, grpc_status } = shown;
        if grpc_status.is_none() {
            headers.extend(location.map(|location| ("location", location)));
            headers.extend((status == 503).then(|| ("retry-after", "1".to_owned())));
        }
        Reply { status, action, headers, body, grpc_status, rule, details }
    }
}

/// A value that cannot break out of its header: macros in `redirect` may carry what a client sent.
fn header_value(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).collect()
}

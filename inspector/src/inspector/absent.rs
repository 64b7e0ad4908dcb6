//! Bodies, or what is behind their beginning, that the host cannot bring.

use super::{Inspector, Stage};
use crate::{
    decision::{Decision, Uninspected},
    rejection::Rejection,
    settings::{BodyOverflow, TruncatedBody},
};

impl Inspector {
    /// Says that the host has no room for (the rest of) the request's body: none at all, or none for this client.
    pub fn request_body_overflow(&mut self, rejection: Rejection) -> Decision {
        if self.stage != Stage::RequestBody {
            return Decision::Continue;
        }
        self.uninspected = Some(Uninspected::BodyOverflow);
        if self.settings.body_overflow == BodyOverflow::Reject
            && let Some(rejected) = self.reject(rejection)
        {
            return rejected;
        }
        if self.body_seen {
            self.transaction.request_body_cut();
        }
        self.evaluate_request()
    }

    /// Says that the host has no room for (the rest of) the response's body.
    pub fn response_body_overflow(&mut self) -> Decision {
        if self.stage != Stage::ResponseBody {
            return Decision::Continue;
        }
        self.uninspected = Some(Uninspected::ResponseTruncated);
        self.evaluate_response()
    }

    /// Says that the host cannot bring the request's body: the rest of the request is evaluated.
    pub fn request_body_absent(&mut self) -> Decision {
        if self.stage != Stage::RequestBody || self.body_seen {
            return Decision::Continue;
        }
        self.uninspected = Some(Uninspected::BodyNotSent);
        self.evaluate_request()
    }

    /// What becomes of a request when nothing was found in the beginning of its body.
    pub(super) fn cut_off(&mut self) -> Decision {
        let rejects = self.settings.truncated_body == TruncatedBody::Reject;
        let rejected = if rejects { self.reject(Rejection::BodyTooLarge) } else { None };
        rejected.unwrap_or(Decision::Continue)
    }
}

//! Authentication on the admin port: which paths are open, and what the others need.

use http::{HeaderValue, StatusCode, header, request};

use super::{AdminAnswer, guard, text};
use crate::token::Token;

/// The path of metrics.
pub(super) const METRICS: &str = "/metrics";

/// Who may ask what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// Names of the port besides addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// What a request has to bring, except for probes.
    pub(crate) token: Option<Token>,
    /// Whether `/metrics` needs no token.
    pub(crate) open_metrics: bool,
}

impl Access {
    /// The answer to a request that may not be answered otherwise; `None` if it may. With `probes_only` just what is
    /// open to everybody is answered.
    pub(super) fn refuse(&self, head: &request::Parts, probes_only: bool) -> Option<AdminAnswer> {
        let path = head.uri.path();
        let seen = guard::Seen { method: &head.method, path, headers: &head.headers };
        if let Err((status, why)) = guard::check(&seen, &self.hosts) {
            return Some(text(status, why.to_owned()));
        }
        if self.is_open(path) {
            return None;
        }
        if probes_only {
            return Some(text(StatusCode::NOT_FOUND, "probes only\n".to_owned()));
        }
        let token = self.token.as_ref()?;
        (!token.admits(&head.headers)).then(unauthorized)
    }

    /// Whether everybody may ask for a path.
    fn is_open(&self, path: &str) -> bool {
        guard::OPEN.contains(&path) || self.open_metrics && path == METRICS
    }
}

/// The answer to a request without the token. Browsers ask for a password then.
fn unauthorized() -> AdminAnswer {
    let why = "the token of admin.token_file is needed\n".to_owned();
    let mut answer = text(StatusCode::UNAUTHORIZED, why);
    for challenge in ["Bearer", "Basic realm=\"glacis\""] {
        let challenge = HeaderValue::from_static(challenge);
        answer.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
    }
    answer
}

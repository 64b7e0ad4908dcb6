//! What comes of a Check.

use glacis_inspector::{BlockPage, Header, Shown};
use glacis_service::chance::random_id;

/// What Envoy is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The request passes.
    Pass(Passed, Facts),
    /// The client is answered instead.
    Refuse(Refused, Facts),
}

impl Answer {
    /// A refusal of a request of which nothing is known.
    pub(crate) fn without_request(reason: Reason, status: u16) -> Self {
        let request_id = random_id();
        let refused = Refused::new(status, Vec::new(), &[], &request_id);
        Self::Refuse(refused, Facts { reason: Some(reason), request_id, ..Facts::default() })
    }

    /// What is told of it.
    pub(crate) const fn facts(&self) -> &Facts {
        let (Self::Pass(_, facts) | Self::Refuse(_, facts)) = self;
        facts
    }
}

/// How a request passes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Headers for the upstream, instead of those of these names.
    pub(crate) set: Vec<(String, String)>,
    /// Headers that the upstream does not get.
    pub(crate) remove: Vec<String>,
    /// Parameters of the query that it does not get.
    pub(crate) remove_query: Vec<String>,
    /// Headers that the client gets besides those of the upstream.
    pub(crate) response: Vec<(String, String)>,
}

/// What a client is answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Refused {
    /// A refusal with this status. `more` are headers that go with it.
    pub(crate) fn new(
        status: u16,
        more: Vec<(String, String)>,
        request: &[Header<'_>],
        request_id: &str,
    ) -> Self {
        let shown = Shown::new(&BlockPage::default(), status, request, request_id);
        let mut headers = more;
        headers.extend(shown.headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
        Self { status, headers, body: shown.body }
    }
}

/// Why a request was refused, as it stands in metrics and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The authority is not a plain `host[:port]`, so that it could mean another host.
    AmbiguousHost,
    /// The path could mean another one.
    AmbiguousPath,
    /// The name of an API key's parameter is spelled in another way than Envoy would remove it.
    AmbiguousKey,
    /// The client is banned for a time.
    Banned,
    /// A list denies the network of the client.
    Network,
    /// The country of the client is denied.
    Country,
    /// The autonomous system of the client is denied.
    Asn,
    /// A policy denies whoever asks.
    Policy,
    /// No policy is for the request.
    NoPolicy,
    /// A policy wants another network.
    WrongNetwork,
    /// A policy wants an API key, and there is none.
    NoKey,
    /// The API key is nobody's, or not of this time.
    WrongKey,
    /// The client of the API key may not do this.
    KeyScope,
    /// A policy wants a token, and Envoy has found none.
    NoToken,
    /// The token does not say what it has to.
    WrongClaim,
    /// A limit is reached.
    RateLimit,
    /// A rule of the engine, or a limit of it.
    Rule,
    /// Rules that may block could not look at the body: too many others waited.
    Crowded,
    /// Rules that may block have not decided before Envoy would give up.
    Late,
    /// What Envoy sends of the request is too large, or no message.
    Unreadable,
    /// A defect of this service, which the request has found.
    Fault,
}

impl Reason {
    pub(crate) const ALL: [Self; 21] = [
        Self::AmbiguousHost,
        Self::AmbiguousPath,
        Self::AmbiguousKey,
        Self::Banned,
        Self::Network,
        Self::Country,
        Self::Asn,
        Self::Policy,
        Self::NoPolicy,
        Self::WrongNetwork,
        Self::NoKey,
        Self::WrongKey,
        Self::KeyScope,
        Self::NoToken,
        Self::WrongClaim,
        Self::RateLimit,
        Self::Rule,
        Self::Crowded,
        Self::Late,
        Self::Unreadable,
        Self::Fault,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AmbiguousHost => "ambiguous_host",
            Self::AmbiguousPath => "ambiguous_path",
            Self::AmbiguousKey => "ambiguous_key",
            Self::Banned => "banned",
            Self::Network => "network",
            Self::Country => "country",
            Self::Asn => "asn",
            Self::Policy => "policy",
            Self::NoPolicy => "no_policy",
            Self::WrongNetwork => "wrong_network",
            Self::NoKey => "no_key",
            Self::WrongKey => "wrong_key",
            Self::KeyScope => "key_scope",
            Self::NoToken => "no_token",
            Self::WrongClaim => "wrong_claim",
            Self::RateLimit => "rate_limit",
            Self::Rule => "rule",
            Self::Crowded => "crowded",
            Self::Late => "late",
            Self::Unreadable => "unreadable",
            Self::Fault => "fault",
        }
    }

    /// Whether such a refusal may be a reason for a ban: load that others cause, and our own faults, are none.
    pub(crate) const fn counts_for_bans(self) -> bool {
        !matches!(self, Self::Banned | Self::Crowded | Self::Late | Self::Unreadable | Self::Fault)
    }

    /// What a client is answered.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::AmbiguousHost | Self::AmbiguousPath | Self::AmbiguousKey => 400,
            Self::NoKey | Self::WrongKey | Self::NoToken => 401,
            Self::RateLimit => 429,
            Self::Crowded | Self::Late => 503,
            // 413 where it is too large.
            Self::Unreadable => 400,
            Self::Fault => 500,
            Self::Banned
            | Self::Network
            | Self::Country
            | Self::Asn
            | Self::Policy
            | Self::NoPolicy
            | Self::WrongNetwork
            | Self::KeyScope
            | Self::WrongClaim
            | Self::Rule => 403,
        }
    }
}

/// What Envoy's access log, and filters behind, are told of a Check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) reason: Option<Reason>,
    pub(crate) request_id: String,
    /// The client whose API key it was.
    pub(crate) client: Option<String>,
    pub(crate) policy: Option<String>,
    /// The limit that refused, or would have.
    pub(crate) limit: Option<String>,
    /// What limits on trial would have refused.
    pub(crate) shadow: bool,
    /// The profile of rules.
    pub(crate) profile: Option<String>,
    /// The ids of rules that matched and log.
    pub(crate) rules: Option<String>,
    /// The rule that would refuse, in a profile in detection mode.
    pub(crate) would_deny: Option<String>,
    /// What rules have seen.
    pub(crate) inspected: Option<&'static str>,
    /// Why rules have not seen all.
    pub(crate) uninspected: Option<&'static str>,
}

impl Facts {
    pub(crate) const fn verdict(&self) -> &'static str {
        if self.reason.is_some() { "deny" } else { "allow" }
    }

    /// Names and values; those that there are.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("verdict", Some(self.verdict())),
            ("reason", self.reason.map(Reason::name)),
            ("request_id", Some(self.request_id.as_str())),
            ("client", self.client.as_deref()),
            ("policy", self.policy.as_deref()),
            ("limit", self.limit.as_deref()),
            ("shadow", self.shadow.then_some("limited")),
            ("profile", self.profile.as_deref()),
            ("rules", self.rules.as_deref()),
            ("would_deny", self.would_deny.as_deref()),
            ("inspected", self.inspected),
            ("uninspected", self.uninspected),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        for reason in Reason::ALL {
            let expected = match reason.name() {
                "ambiguous_host" | "ambiguous_path" | "ambiguous_key" => 400,
                "no_key" | "wrong_key" | "no_token" => 401,
                "rate_limit" => 429,
                "crowded" | "late" => 503,
                "unreadable" => 400,
                "fault" => 500,
                _ => 403,
            };
            assert_eq!(reason.status(), expected, "{reason:?}");
        }
    }
}

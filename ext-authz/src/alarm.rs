//! What is wrong with the way Envoy is set up, as far as it can be seen from here: counted each time, and
//! said in the log once in a while.

/// A setting of Envoy's under which something is not seen as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// Headers come as text in a map: several of one name are joined, and bytes beyond UTF-8 are lost.
    NoRawHeaders,
    /// The client's address is not there.
    NoClientAddress,
}

impl Alarm {
    pub(crate) const ALL: [Self; 2] = [Self::NoRawHeaders, Self::NoClientAddress];

    /// As it stands in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoRawHeaders => "no_raw_headers",
            Self::NoClientAddress => "no_client_address",
        }
    }

    /// What it means, and what to do.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::NoRawHeaders => {
                "headers come joined and as text: what is not UTF-8 in them is lost. Set encode_raw_headers: \
                 true in Envoy's ext_authz"
            }
            Self::NoClientAddress => {
                "a request came without the address of its client: lists and limits by address do not see it"
            }
        }
    }
}

//! What is wrong with the way Envoy is set up, as far as it can be seen from here: counted each time, and
//! said in the log once in a while.

/// A setting of Envoy's under which something is not inspected, or not in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// A body was asked for, and the response came without it; or several in a row have not come.
    ModeOverrideIgnored,
    /// Envoy does not wait for answers, and the profile means to block.
    ObservabilityMode,
    /// Pieces of request bodies go on before the verdict.
    StreamedBody,
    /// Pieces of response bodies go on before the verdict.
    StreamedResponse,
    /// Bodies come in a mode that is not supported.
    UnsupportedBodyMode,
    /// The first message does not say in which modes bodies come.
    NoProtocolConfig,
    /// The client's address is not among the attributes.
    NoClientAddress,
}

impl Alarm {
    pub(crate) const ALL: [Self; 7] = [
        Self::ModeOverrideIgnored,
        Self::ObservabilityMode,
        Self::StreamedBody,
        Self::StreamedResponse,
        Self::UnsupportedBodyMode,
        Self::NoProtocolConfig,
        Self::NoClientAddress,
    ];

    /// As it stands in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ModeOverrideIgnored => "mode_override_ignored",
            Self::ObservabilityMode => "observability_mode",
            Self::StreamedBody => "streamed_body",
            Self::StreamedResponse => "streamed_response",
            Self::UnsupportedBodyMode => "unsupported_body_mode",
            Self::NoProtocolConfig => "no_protocol_config",
            Self::NoClientAddress => "no_client_address",
        }
    }

    /// What it means, and what to do.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::ModeOverrideIgnored => {
                "a body was asked for and not sent: bodies pass uninspected. Set allow_mode_override: \
                 true and no allowed_override_modes"
            }
            Self::ObservabilityMode => {
                "Envoy does not wait for verdicts: nothing is refused. Set observability_mode: false, \
                 or the profile's mode to detection"
            }
            Self::StreamedBody => {
                "pieces of request bodies reach the upstream before the verdict. Set request_body_mode: \
                 NONE and allow_mode_override: true"
            }
            Self::StreamedResponse => {
                "pieces of response bodies reach the client before the verdict. Set response_body_mode: \
                 NONE and allow_mode_override: true"
            }
            Self::UnsupportedBodyMode => {
                "the body mode GRPC is not supported. Set request_body_mode and response_body_mode: NONE \
                 and allow_mode_override: true"
            }
            Self::NoProtocolConfig => {
                "Envoy does not say in which mode bodies come (before 1.34?): taken for NONE"
            }
            Self::NoClientAddress => {
                "rules see no client address. Set request_attributes: [source.address, \
                 destination.address, request.protocol]"
            }
        }
    }
}

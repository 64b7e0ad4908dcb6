//! What is to be made, as written in `bench/definitions.yaml`.

use serde::Deserialize;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definitions {
    pub(crate) seed: u64,
    pub(crate) classes: Vec<Class>,
    /// How many requests of the mix get a response, for the set `mix_response`.
    pub(crate) responses: usize,
    /// Bytes of the bodies of the curves.
    pub(crate) curve_bytes: Vec<usize>,
    /// Requests for each point of a curve.
    pub(crate) curve_requests: usize,
    pub(crate) attacks: Vec<Attack>,
}

/// A class of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Class {
    pub(crate) name: Kind,
    /// All that are made.
    pub(crate) requests: usize,
    /// How many of them are in the mix; the others make the class large enough to stand alone.
    pub(crate) in_mix: usize,
}

/// What a request is like.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    GetPage,
    GetStatic,
    Json,
    LoginForm,
    Upload,
    Attack,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GetPage => "get_page",
            Self::GetStatic => "get_static",
            Self::Json => "json",
            Self::LoginForm => "login_form",
            Self::Upload => "upload",
            Self::Attack => "attack",
        }
    }
}

/// A request that has to be refused.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attack {
    pub(crate) name: String,
    /// A rule that has to be among those that matched, so that it is refused for what it is.
    pub(crate) rule: u32,
    pub(crate) uri: String,
    /// With a body it is a POST.
    #[serde(default)]
    pub(crate) body: Option<String>,
    #[serde(default)]
    pub(crate) content_type: Option<String>,
    /// A header in place of the browser's, or one more.
    #[serde(default)]
    pub(crate) header: Option<(String, String)>,
}

/// How a request has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Deny,
}

impl Verdict {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

impl Definitions {
    /// Reads the file's text.
    ///
    /// # Errors
    /// When it is not of this form, with the place.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_saphyr::from_str(text).map_err(|error| error.to_string())
    }
}

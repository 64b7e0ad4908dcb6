//! What the user may want of each command.

use std::{path::PathBuf, time::Duration};

use crate::{quantify::Form, ruleset::Rules};

/// `glacis status`.
#[derive(Debug)]
pub(crate) struct StatusOptions {
    /// `host:port` of Envoy's admin port.
    pub(crate) admin: String,
    /// A file with a bearer token, where something before that port wants one.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) json: bool,
}

/// What is done with bans.
#[derive(Debug)]
pub(crate) enum BanAction {
    List,
    Add { network: String, seconds: u64 },
    Remove { network: String },
}

/// `glacis bans`.
#[derive(Debug)]
pub(crate) struct BansOptions {
    pub(crate) action: BanAction,
    /// `host:port` of the admin port of ext-authz.
    pub(crate) admin: String,
    /// A file with the token of that port.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) json: bool,
}

/// Whose configuration is imported.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ImportForm {
    IngressNginx,
    CorazaProxyWasm,
    CorazaCaddy,
    ModSecurity,
    Nginx,
}

impl ImportForm {
    pub(super) const ALL: [Self; 5] = [
        Self::IngressNginx,
        Self::CorazaProxyWasm,
        Self::CorazaCaddy,
        Self::ModSecurity,
        Self::Nginx,
    ];

    /// As it is called on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::IngressNginx => "ingress-nginx",
            Self::CorazaProxyWasm => "coraza-proxy-wasm",
            Self::CorazaCaddy => "coraza-caddy",
            Self::ModSecurity => "modsecurity",
            Self::Nginx => "nginx",
        }
    }
}

/// `glacis import`.
#[derive(Debug)]
pub(crate) struct ImportOptions {
    pub(crate) form: ImportForm,
    pub(crate) files: Vec<PathBuf>,
    /// The folder of CRS on this machine.
    pub(crate) crs: Option<PathBuf>,
}

/// `glacis bundle`.
#[derive(Debug, Default)]
pub(crate) struct BundleOptions {
    pub(crate) rules: Vec<Rules>,
    pub(crate) quiet: bool,
}

/// What virtual patches are printed as.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PatchForm {
    Seclang,
    Filter,
}

/// `glacis patches`.
#[derive(Debug)]
pub(crate) struct PatchesOptions {
    pub(crate) form: PatchForm,
    pub(crate) files: Vec<PathBuf>,
}

/// `glacis geo build`.
#[derive(Debug)]
pub(crate) struct GeoOptions {
    pub(crate) database: PathBuf,
    /// Autonomous systems instead of countries.
    pub(crate) asn: bool,
    /// Only these, if there are any.
    pub(crate) only: Vec<u32>,
    pub(crate) quiet: bool,
}

/// `glacis lint`.
#[derive(Debug, Default)]
pub(crate) struct LintOptions {
    pub(crate) rules: Vec<Rules>,
    pub(crate) quiet: bool,
    /// Whether a warning counts as an error.
    pub(crate) strict: bool,
}

/// `glacis eval`.
#[derive(Debug, Default)]
pub(crate) struct EvalOptions {
    pub(crate) rules: Vec<Rules>,
    /// A file of requests; `None` for standard input.
    pub(crate) requests: Option<PathBuf>,
    /// Threads; one at least.
    pub(crate) jobs: usize,
    /// Bytes of a body given to the engine at a time; `None` for all at once.
    pub(crate) body_chunk: Option<usize>,
    /// How long to measure, if that is what is wanted.
    pub(crate) bench: Option<Duration>,
    /// Measure with one transaction reused, as a host does, instead of one made for each request.
    pub(crate) reuse: bool,
    /// Measure, and print each request with its verdict instead of classes.
    pub(crate) each: bool,
    /// Weights of a second opinion, if one is wanted.
    pub(crate) second_opinion: Option<WeightsFile>,
    pub(crate) quiet: bool,
}

/// Which weights a second opinion has.
#[derive(Clone, Debug)]
pub(crate) enum WeightsFile {
    /// Those that Glacis ships.
    BuiltIn,
    /// Those of this file.
    File(PathBuf),
}

/// `glacis train`.
#[derive(Debug, Default)]
pub(crate) struct TrainOptions {
    pub(crate) rules: Vec<Rules>,
    /// A file of labelled requests; `None` for standard input.
    pub(crate) requests: Option<PathBuf>,
    /// The name of the weights.
    pub(crate) name: String,
    /// The day that the file of weights carries.
    pub(crate) date: String,
    /// The strength of regularisation.
    pub(crate) l2: f64,
    /// False alarms that the threshold allows, as a share of held-out requests.
    pub(crate) false_alarms: f64,
    /// Threads; one at least.
    pub(crate) jobs: usize,
    pub(crate) quiet: bool,
}

/// `glacis explain`.
#[derive(Debug, Default)]
pub(crate) struct ExplainOptions {
    pub(crate) rules: Vec<Rules>,
    /// A file of requests or audit records; `None` for standard input.
    pub(crate) requests: Option<PathBuf>,
    /// Only the request of this name.
    pub(crate) id: Option<String>,
    /// Show every rule that matched.
    pub(crate) all: bool,
    /// Weights of a second opinion, if one is wanted.
    pub(crate) second_opinion: Option<WeightsFile>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

/// The format of the input of `glacis learn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LearnFormat {
    /// Lines or HAR, by what the file begins with.
    #[default]
    Auto,
    /// Requests as for `glacis eval`, or audit records.
    Lines,
    Har,
}

/// `glacis learn`.
#[derive(Debug, Default)]
pub(crate) struct LearnOptions {
    pub(crate) rules: Vec<Rules>,
    /// Files of requests; none for standard input.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) format: LearnFormat,
    pub(crate) min_requests: Option<u64>,
    pub(crate) min_clients: Option<u64>,
    pub(crate) min_days: Option<u64>,
    /// Days for which exclusions hold.
    pub(crate) expires_days: u64,
    /// A file with an attack in each line.
    pub(crate) attacks: Option<PathBuf>,
    /// Where to write what was declined, instead of standard error.
    pub(crate) report: Option<PathBuf>,
    pub(crate) quiet: bool,
}

/// `glacis profile`.
#[derive(Debug, Default)]
pub(crate) struct ProfileOptions {
    pub(crate) rules: Vec<Rules>,
    /// A file of requests; `None` for standard input.
    pub(crate) requests: Option<PathBuf>,
    /// Rules and lanes that are shown; `None` for as many as suit the form.
    pub(crate) top: Option<usize>,
    /// How often the requests are evaluated.
    pub(crate) passes: usize,
    /// Count, and read no clock.
    pub(crate) counts: bool,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

/// `glacis quantify`.
#[derive(Debug, Default)]
pub(crate) struct QuantifyOptions {
    pub(crate) rules: Vec<Rules>,
    /// Another folder of CRS to compare with.
    pub(crate) against: Option<PathBuf>,
    /// A file of sentences or requests; `None` for standard input.
    pub(crate) input: Option<PathBuf>,
    /// The format of the lines; `None` to tell it from the first line.
    pub(crate) form: Option<Form>,
    /// The highest paranoia level.
    pub(crate) paranoia: u8,
    /// Threads.
    pub(crate) jobs: usize,
    pub(crate) json: bool,
}

/// `glacis ftw`.
#[derive(Debug, Default)]
pub(crate) struct FtwOptions {
    pub(crate) rules: Vec<Rules>,
    pub(crate) tests: Vec<PathBuf>,
    pub(crate) overrides: Option<PathBuf>,
    /// Only tests whose id begins with one of these.
    pub(crate) only: Vec<String>,
    /// `host:port` of a proxy to send to.
    pub(crate) url: Option<String>,
    pub(crate) audit_log: Option<PathBuf>,
    /// Threads; 0 counts as 1.
    pub(crate) jobs: usize,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

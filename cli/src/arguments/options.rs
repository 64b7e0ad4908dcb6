//! What the user may want of each command.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};

use super::{
    help,
    rules::{LintRules, RulesOptions},
    values::{self, WeightsFile},
};

/// The state of breakers of a running Envoy.
#[derive(Debug, Args)]
#[command(after_help = help::STATUS)]
pub(crate) struct StatusOptions {
    /// Envoy's admin port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9901")]
    pub(crate) admin: String,
    /// A file with a bearer token, for a proxy before that port that wants one
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The format of findings of `glacis doctor`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoctorFormat {
    /// A paragraph for each finding, with its remedy
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// Checks of an installation.
#[derive(Debug, Default, Args)]
#[command(after_help = help::DOCTOR)]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// The configuration of ext-proc; the rules that it names are loaded
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Envoy's configuration: YAML, or the JSON of /config_dump; repeat it for several files
    #[arg(long, value_name = "FILE")]
    pub(crate) envoy: Vec<PathBuf>,
    /// Envoy's admin port, for the configuration of a running Envoy
    #[arg(long, value_name = "HOST:PORT", value_parser = values::port)]
    pub(crate) envoy_admin: Option<String>,
    /// The admin port of a running ext-proc; repeat it to compare replicas
    #[arg(long, value_name = "HOST:PORT", value_parser = values::port)]
    pub(crate) admin: Vec<String>,
    /// The token of these ports
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Checks to leave out, such as GD113,GD303
    #[arg(long, value_name = "ID,ID,…", value_delimiter = ',', value_parser = values::check)]
    pub(crate) ignore: Vec<String>,
    /// The format of findings
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: DoctorFormat,
}

/// What is done with bans.
#[derive(Debug, Subcommand)]
pub(crate) enum BanAction {
    /// List the bans
    List,
    /// Ban a network
    Add {
        /// An address (192.0.2.1) or a network (192.0.2.0/24, 2001:db8::/64)
        network: String,
        /// How long the ban lasts, at most 31622400 (366 days)
        #[arg(long, value_name = "N")]
        seconds: u64,
    },
    /// Remove the ban of a network
    Remove {
        /// The network, as it was banned
        network: String,
    },
}

/// Bans of a running ext-authz, through its admin port.
#[derive(Debug, Args)]
#[command(after_help = help::BANS)]
pub(crate) struct BansOptions {
    #[command(subcommand)]
    pub(crate) action: BanAction,
    /// The admin port of ext-authz, in plain HTTP
    #[arg(long, global = true, value_name = "HOST:PORT", default_value = "127.0.0.1:9102")]
    pub(crate) admin: String,
    /// The token of that port (admin.token_file)
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Whose configuration is imported.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ImportForm {
    /// Ingresses with ModSecurity's annotations, and the controller's ConfigMap, in YAML
    IngressNginx,
    /// Its configuration, alone or in a WasmPlugin or Envoy's configuration
    CorazaProxyWasm,
    /// A Caddyfile, or Caddy's JSON
    CorazaCaddy,
    /// SecLang: main.conf, modsecurity.conf; or an nginx.conf
    #[value(name = "modsecurity")]
    ModSecurity,
    /// nginx.conf, with the rules of each server and location
    Nginx,
}

impl ImportForm {
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

/// Rules of another firewall.
#[derive(Debug, Args)]
#[command(after_help = help::IMPORT)]
pub(crate) struct ImportOptions {
    /// Whose configuration it is
    pub(crate) form: ImportForm,
    /// Files; several make one document
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The folder of CRS on this machine [default: /usr/share/glacis/crs, as in the images]
    #[arg(long, value_name = "DIR")]
    pub(crate) crs: Option<PathBuf>,
}

/// Rules in one piece.
#[derive(Debug, Default, Args)]
#[command(after_help = help::BUNDLE)]
pub(crate) struct BundleOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// Do not print the size
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What virtual patches are printed as.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PatchForm {
    /// Rules of phase 1
    Seclang,
    /// The value of virtual_patches in the plugin configuration
    Filter,
}

/// Virtual patches, as YAML or JSON.
#[derive(Debug, Args)]
#[command(after_help = "Expired patches are named on standard error and left out.")]
pub(crate) struct PatchesOptions {
    /// What they are printed as
    pub(crate) form: PatchForm,
    /// Files of patches
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// An operation on a database of addresses.
#[derive(Debug, Subcommand)]
pub(crate) enum GeoAction {
    /// Make a table from a database in MaxMind's format
    #[command(after_help = help::GEO)]
    Build(GeoOptions),
}

/// `glacis geo build`.
#[derive(Debug, Args)]
pub(crate) struct GeoOptions {
    /// The database
    #[arg(value_name = "FILE.mmdb")]
    pub(crate) database: PathBuf,
    /// Numbers from autonomous_system_number (asn) instead of countries: the value of asn.table
    #[arg(long)]
    pub(crate) asn: bool,
    /// These systems alone, which makes the table small
    #[arg(long, requires = "asn", value_name = "N,N,…", value_delimiter = ',', value_parser = values::system)]
    pub(crate) only: Vec<u32>,
    /// Do not print the size
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The format of what `glacis lint` finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    /// file:line:column: message, with the line and a caret
    #[default]
    Text,
    /// One JSON object
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands of GitHub Actions
    Github,
}

/// Checks of rules.
#[derive(Debug, Default, Args)]
#[command(after_help = help::LINT)]
pub(crate) struct LintOptions {
    #[command(flatten)]
    pub(crate) rules: LintRules,
    /// The format of errors and warnings
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: LintFormat,
    /// No remarks on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Exit with 1 if there is a warning, such as a directive without effect
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The requests that a command evaluates.
#[derive(Debug, Default, Args)]
pub(crate) struct InputOptions {
    /// A file of requests (JSON lines, HAR, or raw HTTP), `-`, a URL, or a request such as 'GET /?q=1 HTTP/1.1'
    #[arg(value_name = "REQUESTS")]
    pub(crate) input: Option<OsString>,
    /// A curl command to evaluate the request of; nothing is sent
    #[arg(last = true, value_name = "curl …", conflicts_with = "input")]
    pub(crate) curl: Vec<OsString>,
}

/// Verdicts on requests.
#[derive(Debug, Default, Args)]
#[command(after_help = help::EVAL)]
pub(crate) struct EvalOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    #[command(flatten)]
    pub(crate) requests: InputOptions,
    /// Compare verdicts: `blocked` or `passed` for all requests, or a file with one of these, or the line of an
    /// earlier answer, for each. Exits with 3 if one differs
    #[arg(long, value_name = "FILE|blocked|passed", conflicts_with = "bench")]
    pub(crate) expect: Option<String>,
    /// Threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = values::jobs)]
    pub(crate) jobs: usize,
    /// Bytes of a body that the engine gets at a time
    #[arg(long, hide = true, value_parser = values::chunk)]
    pub(crate) body_chunk: Option<usize>,
    /// Instead of answers: warm up, repeat the requests on one thread for this time, and print the CPU time of one in
    /// nanoseconds, by class
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, allow_hyphen_values = true)]
    pub(crate) bench: Option<Duration>,
    /// With --bench: reuse one transaction instead of making one for each request
    #[arg(long, requires = "bench")]
    pub(crate) reuse: bool,
    /// With --bench: a line for each request, with its verdict and matched rules, instead of classes
    #[arg(long, requires = "bench")]
    pub(crate) each: bool,
    /// Add the score by learned weights: those that Glacis ships, or those of FILE (docs/second-opinion.md)
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          value_parser = values::weights)]
    pub(crate) second_opinion: Option<WeightsFile>,
    /// No remarks on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Weights from labelled requests.
#[derive(Debug, Default, Args)]
#[command(after_help = help::TRAIN)]
pub(crate) struct TrainOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// A file of labelled requests, or `-`
    #[arg(value_name = "REQUESTS.jsonl")]
    pub(crate) requests: Option<PathBuf>,
    /// The name of the weights
    #[arg(long, default_value = "CRS")]
    pub(crate) name: String,
    /// The day that the file of weights carries
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = values::date)]
    pub(crate) date: String,
    /// The strength of regularisation
    #[arg(long, value_name = "X", default_value = "0.00001", value_parser = values::l2)]
    pub(crate) l2: f64,
    /// The percentage of held-out benign requests that the threshold may let be alarms
    #[arg(long, value_name = "P", default_value = "0.1", value_parser = values::false_alarms)]
    pub(crate) false_alarms: f64,
    /// Threads
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = values::jobs)]
    pub(crate) jobs: usize,
    /// No figures on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The story of requests.
#[derive(Debug, Default, Args)]
#[command(after_help = help::EXPLAIN)]
pub(crate) struct ExplainOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    #[command(flatten)]
    pub(crate) requests: InputOptions,
    /// Only the request with this id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Show every rule that matched, bookkeeping in full
    #[arg(long)]
    pub(crate) all: bool,
    /// Add the score by learned weights, as a sum
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "",
          value_parser = values::weights)]
    pub(crate) second_opinion: Option<WeightsFile>,
    /// Print one JSON object for each request
    #[arg(long)]
    pub(crate) json: bool,
    /// No remarks on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// An OpenAPI document from requests.
#[derive(Debug, Default, Args)]
#[command(after_help = help::LEARN_API)]
pub(crate) struct LearnApiOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// Files of requests; standard input without any
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Requests that an operation, a parameter or a member of a body needs [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) min_requests: Option<u64>,
    /// Clients that each of them needs, where the input has more than one client [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) min_clients: Option<u64>,
    /// Print the document only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The format of the input of `glacis learn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LearnFormat {
    /// Lines or HAR, by the first bytes of the file
    #[default]
    Auto,
    /// Requests as for `glacis eval`, or audit records
    #[value(name = "requests", alias = "audit")]
    Lines,
    /// An HTTP archive
    Har,
}

/// Exclusions from requests.
#[derive(Debug, Default, Args)]
#[command(after_help = help::LEARN)]
pub(crate) struct LearnOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// Files of requests; standard input without any
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The format of the files; `audit` (records of Glacis) is the same as `requests`
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub(crate) format: LearnFormat,
    /// Requests that an exclusion needs [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) min_requests: Option<u64>,
    /// Clients that an exclusion needs, where the input has clients [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) min_clients: Option<u64>,
    /// Days that an exclusion needs, where the input has times [default: 2]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) min_days: Option<u64>,
    /// Days until exclusions expire
    #[arg(long, value_name = "N", default_value = "90")]
    pub(crate) expires_days: u64,
    /// A file with an attack in each line, to check with besides those that are built in
    #[arg(long, value_name = "FILE")]
    pub(crate) attacks: Option<PathBuf>,
    /// Where to write what was declined and why, instead of standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print exclusions only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The cost of rules.
#[derive(Debug, Default, Args)]
#[command(after_help = help::PROFILE)]
pub(crate) struct ProfileOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// A file of requests, or `-`
    #[arg(value_name = "REQUESTS.jsonl")]
    pub(crate) requests: Option<PathBuf>,
    /// Show the N most expensive rules and chains of transformations [default: 20; with --json all]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) top: Option<usize>,
    /// Evaluate all requests N times; counts are over all passes
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::passes)]
    pub(crate) passes: usize,
    /// No times: the answer is the same on each run, sorted by bytes
    #[arg(long)]
    pub(crate) counts: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// No remarks on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// The format of the lines that `glacis quantify` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A text each; a number and a tab before it (the Leipzig Corpora Collection) do not belong to it.
    Sentences,
    /// Requests as for `glacis eval`.
    Requests,
}

/// False alarms on harmless texts.
#[derive(Debug, Default, Args)]
#[command(after_help = help::QUANTIFY)]
pub(crate) struct QuantifyOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// A file of sentences or requests, or `-`
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Another CRS: the same texts with its rules, and the difference
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<PathBuf>,
    /// The highest level that is evaluated
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u8).range(1..=4))]
    pub(crate) paranoia: u8,
    /// Lines are texts, also if the first one begins with {
    #[arg(long, conflicts_with = "requests")]
    sentences: bool,
    /// Lines are requests as for `glacis eval`
    #[arg(long)]
    requests: bool,
    /// Threads [default: as many as the machine has]
    #[arg(short, long, value_name = "N", default_value_t = threads(), hide_default_value = true,
          value_parser = values::jobs)]
    pub(crate) jobs: usize,
    /// Print the format of go-ftw's quantitative tests
    #[arg(long)]
    pub(crate) json: bool,
}

impl QuantifyOptions {
    /// The format of the lines; `None` to tell it from the first line.
    pub(crate) const fn form(&self) -> Option<Form> {
        match (self.sentences, self.requests) {
            (true, _) => Some(Form::Sentences),
            (false, true) => Some(Form::Requests),
            (false, false) => None,
        }
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Regression tests.
#[derive(Debug, Default, Args)]
#[command(after_help = help::FTW)]
pub(crate) struct FtwOptions {
    #[command(flatten)]
    pub(crate) rules: RulesOptions,
    /// A test file, or a folder of them (*.yaml, *.yml, below it too); may be repeated
    #[arg(long, required = true, value_name = "PATH")]
    pub(crate) tests: Vec<PathBuf>,
    /// Tests that are skipped, or expect something else, each with its reason
    #[arg(long, value_name = "FILE")]
    pub(crate) overrides: Option<PathBuf>,
    /// Only tests whose id begins so, such as 942100 or 942100-3; may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub(crate) only: Vec<String>,
    /// Send the requests to this proxy, byte by byte as the test has them
    #[arg(long, value_name = "URL", value_parser = values::authority)]
    pub(crate) url: Option<String>,
    /// Where the audit records of ext-proc appear
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    /// Threads, each with a connection of its own
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = values::jobs)]
    pub(crate) jobs: usize,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// No remarks on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Shell completions.
#[derive(Debug, Args)]
pub(crate) struct CompletionsOptions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Manual pages.
#[derive(Debug, Args)]
pub(crate) struct ManOptions {
    /// The command whose page is printed; that of `glacis` itself without one
    #[arg(conflicts_with = "dir")]
    pub(crate) command: Option<String>,
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

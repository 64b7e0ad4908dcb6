//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use lexopt::{Arg, Parser, ValueExt as _};

use crate::ruleset::Rules;

/// What the user wants.
#[derive(Debug)]
pub(crate) enum Command {
    Help(&'static str),
    Lint(LintOptions),
    Eval(EvalOptions),
    Explain(ExplainOptions),
    Profile(ProfileOptions),
    Ftw(FtwOptions),
    Geo(GeoOptions),
    Patches(PatchesOptions),
    Status(StatusOptions),
    Import(ImportOptions),
    Bundle(BundleOptions),
}

/// `glacis status`.
#[derive(Debug)]
pub(crate) struct StatusOptions {
    /// `host:port` of Envoy's admin port.
    pub(crate) admin: String,
    pub(crate) json: bool,
}

/// Whose configuration is imported.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ImportForm {
    IngressNginx,
    CorazaProxyWasm,
    CorazaCaddy,
    ModSecurity,
}

impl ImportForm {
    const ALL: [Self; 4] =
        [Self::IngressNginx, Self::CorazaProxyWasm, Self::CorazaCaddy, Self::ModSecurity];

    /// As it is called on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::IngressNginx => "ingress-nginx",
            Self::CorazaProxyWasm => "coraza-proxy-wasm",
            Self::CorazaCaddy => "coraza-caddy",
            Self::ModSecurity => "modsecurity",
        }
    }
}

/// `glacis import`.
#[derive(Debug)]
pub(crate) struct ImportOptions {
    pub(crate) form: ImportForm,
    pub(crate) files: Vec<PathBuf>,
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
}

/// `glacis eval`.
#[derive(Debug, Default)]
pub(crate) struct EvalOptions {
    pub(crate) rules: Vec<Rules>,
    /// A file of requests; `None` for standard input.
    pub(crate) requests: Option<PathBuf>,
    /// Threads; 0 counts as 1.
    pub(crate) jobs: usize,
    /// Bytes of a body given to the engine at a time; `None` for all at once.
    pub(crate) body_chunk: Option<usize>,
    /// How long to measure, if that is what is wanted.
    pub(crate) bench: Option<Duration>,
    /// Measure with one transaction reused, as a host does, instead of one made for each request.
    pub(crate) reuse: bool,
    /// Measure, and print each request with its verdict instead of classes.
    pub(crate) each: bool,
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
    pub(crate) json: bool,
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

/// Threads at most: more are a slip of the finger.
const JOBS_MAX: usize = 1_024;

/// Passes over the requests at most.
const PASSES_MAX: usize = 100_000;

/// Parses the command line, the program's name included.
///
/// # Errors
/// When it is not of the form that the help shows: a sentence on what is wrong.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut parser = Parser::from_iter(arguments);
    let command = command(&mut parser).map_err(|error| error.to_string())?;
    check(&command)?;
    Ok(command)
}

fn command(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    match parser.next()? {
        None => {
            let names = "lint, eval, explain, profile, ftw, geo, patches, status, import or bundle";
            Err(format!("a command is needed: {names}").into())
        }
        Some(Arg::Short('h') | Arg::Long("help")) => Ok(Command::Help(HELP)),
        Some(Arg::Short('V') | Arg::Long("version")) => Ok(Command::Help(VERSION)),
        Some(Arg::Value(name)) => match name.to_str() {
            Some("lint") => lint(parser),
            Some("eval") => eval(parser),
            Some("explain") => explain(parser),
            Some("profile") => profile(parser),
            Some("ftw") => ftw(parser),
            Some("geo") => geo(parser),
            Some("patches") => patches(parser),
            Some("status") => status(parser),
            Some("import") => import(parser),
            Some("bundle") => bundle(parser),
            Some("help") => Ok(Command::Help(HELP)),
            _ => Err(format!("there is no command {}", name.display()).into()),
        },
        Some(other) => Err(other.unexpected()),
    }
}

/// An option that names rules, the same for every command that evaluates.
#[derive(Clone, Copy, Debug)]
enum RulesOption {
    File,
    Base,
    Crs,
    EveryRule,
    NoRecall,
}

impl RulesOption {
    fn of(argument: &Arg<'_>) -> Option<Self> {
        match argument {
            Arg::Short('r') | Arg::Long("rules") => Some(Self::File),
            Arg::Long("base") => Some(Self::Base),
            Arg::Long("crs") => Some(Self::Crs),
            Arg::Long("every-rule") => Some(Self::EveryRule),
            Arg::Long("no-recall") => Some(Self::NoRecall),
            _ => None,
        }
    }

    /// The rules that it names; its value is taken from the command line.
    fn rules(self, parser: &mut Parser) -> Result<Rules, lexopt::Error> {
        Ok(match self {
            Self::File => Rules::File(parser.value()?.into()),
            Self::Base => Rules::Base,
            Self::Crs => Rules::Crs(parser.value()?.into()),
            Self::EveryRule => Rules::EveryRule,
            Self::NoRecall => Rules::NoRecall,
        })
    }
}

fn lint(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = LintOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(LINT_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Long("base") => options.rules.push(Rules::Base),
            Arg::Long("crs") => options.rules.push(Rules::Crs(parser.value()?.into())),
            Arg::Value(file) => options.rules.push(Rules::File(file.into())),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Lint(options))
}

fn eval(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = EvalOptions { jobs: 1, ..EvalOptions::default() };
    let mut requests = None;
    while let Some(argument) = parser.next()? {
        if let Some(option) = RulesOption::of(&argument) {
            options.rules.push(option.rules(parser)?);
            continue;
        }
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(EVAL_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Short('j') | Arg::Long("jobs") => options.jobs = jobs(parser)?,
            Arg::Long("body-chunk") => options.body_chunk = Some(chunk(parser)?),
            Arg::Long("bench") => options.bench = Some(seconds(parser)?),
            Arg::Long("reuse") => options.reuse = true,
            Arg::Long("each") => options.each = true,
            Arg::Value(file) if requests.is_none() => requests = Some(file),
            other => return Err(other.unexpected()),
        }
    }
    options.requests = requests.filter(|file| file != "-").map(PathBuf::from);
    Ok(Command::Eval(options))
}

fn explain(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = ExplainOptions::default();
    let mut requests = None;
    while let Some(argument) = parser.next()? {
        if let Some(option) = RulesOption::of(&argument) {
            options.rules.push(option.rules(parser)?);
            continue;
        }
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(EXPLAIN_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Long("id") => options.id = Some(parser.value()?.string()?),
            Arg::Long("all") => options.all = true,
            Arg::Long("json") => options.json = true,
            Arg::Value(file) if requests.is_none() => requests = Some(file),
            other => return Err(other.unexpected()),
        }
    }
    options.requests = requests.filter(|file| file != "-").map(PathBuf::from);
    Ok(Command::Explain(options))
}

fn profile(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = ProfileOptions { passes: 1, ..ProfileOptions::default() };
    let mut requests = None;
    while let Some(argument) = parser.next()? {
        if let Some(option) = RulesOption::of(&argument) {
            options.rules.push(option.rules(parser)?);
            continue;
        }
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(PROFILE_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Long("top") => options.top = Some(parser.value()?.parse()?),
            Arg::Long("passes") => options.passes = passes(parser)?,
            Arg::Long("counts") => options.counts = true,
            Arg::Long("json") => options.json = true,
            Arg::Value(file) if requests.is_none() => requests = Some(file),
            other => return Err(other.unexpected()),
        }
    }
    options.requests = requests.filter(|file| file != "-").map(PathBuf::from);
    Ok(Command::Profile(options))
}

fn ftw(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = FtwOptions::default();
    while let Some(argument) = parser.next()? {
        if let Some(option) = RulesOption::of(&argument) {
            options.rules.push(option.rules(parser)?);
            continue;
        }
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(FTW_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Long("tests") => options.tests.push(parser.value()?.into()),
            Arg::Long("overrides") => options.overrides = Some(parser.value()?.into()),
            Arg::Long("only") => options.only.push(parser.value()?.string()?),
            Arg::Long("url") => options.url = Some(authority(&parser.value()?.string()?)?),
            Arg::Long("audit-log") => options.audit_log = Some(parser.value()?.into()),
            Arg::Short('j') | Arg::Long("jobs") => options.jobs = jobs(parser)?,
            Arg::Long("json") => options.json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Ftw(options))
}

fn geo(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let (mut words, mut quiet, mut asn, mut only) = (Vec::new(), false, false, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(GEO_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => quiet = true,
            Arg::Long("asn") => asn = true,
            Arg::Long("only") => only.extend(numbers(parser)?),
            Arg::Value(word) if words.len() < 2 => words.push(word),
            other => return Err(other.unexpected()),
        }
    }
    if !only.is_empty() && !asn {
        return Err("--only is for --asn".into());
    }
    match words.as_slice() {
        [build, database] if build == "build" => {
            Ok(Command::Geo(GeoOptions { database: database.into(), asn, only, quiet }))
        }
        _ => Err("geo needs `build` and a database: geo build FILE.mmdb".into()),
    }
}

fn status(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = StatusOptions { admin: "127.0.0.1:9901".to_owned(), json: false };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(STATUS_HELP)),
            Arg::Long("admin") => options.admin = parser.value()?.string()?,
            Arg::Long("json") => options.json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Status(options))
}

fn patches(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut words = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(PATCHES_HELP)),
            Arg::Value(word) => words.push(word),
            other => return Err(other.unexpected()),
        }
    }
    let form = match words.first().and_then(|word| word.to_str()) {
        Some("seclang") => PatchForm::Seclang,
        Some("filter") => PatchForm::Filter,
        _ => return Err("patches needs `seclang` or `filter`, and files".into()),
    };
    let files: Vec<PathBuf> = words.into_iter().skip(1).map(PathBuf::from).collect();
    match files.is_empty() {
        true => Err("patches needs files: patches seclang FILE.yaml…".into()),
        false => Ok(Command::Patches(PatchesOptions { form, files })),
    }
}

fn import(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let (mut form, mut files) = (None, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(IMPORT_HELP)),
            Arg::Value(word) if form.is_none() => form = Some(word.string()?),
            Arg::Value(file) => files.push(file.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    let form = form.unwrap_or_default();
    let form = ImportForm::ALL.into_iter().find(|known| known.name() == form);
    match form {
        Some(form) if !files.is_empty() => Ok(Command::Import(ImportOptions { form, files })),
        Some(_) => Err("import needs files: import ingress-nginx FILE.yaml…".into()),
        None => {
            Err("import needs ingress-nginx, coraza-proxy-wasm, coraza-caddy or modsecurity".into())
        }
    }
}

fn bundle(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = BundleOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(BUNDLE_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Short('r') | Arg::Long("rules") => {
                options.rules.push(Rules::File(parser.value()?.into()));
            }
            Arg::Long("base") => options.rules.push(Rules::Base),
            Arg::Long("crs") => options.rules.push(Rules::Crs(parser.value()?.into())),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Bundle(options))
}

/// Numbers with commas between them.
fn numbers(parser: &mut Parser) -> Result<Vec<u32>, lexopt::Error> {
    let text = parser.value()?.string()?;
    let number = |text: &str| text.trim().trim_start_matches("AS").parse::<u32>();
    let numbers: Result<_, _> = text.split(',').map(number).collect();
    numbers.map_err(|_| "--only takes numbers of autonomous systems, as 64496,64497".into())
}

fn jobs(parser: &mut Parser) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        jobs @ 1..=JOBS_MAX => Ok(jobs),
        _ => Err(format!("--jobs takes a number from 1 to {JOBS_MAX}").into()),
    }
}

fn passes(parser: &mut Parser) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        passes @ 1..=PASSES_MAX => Ok(passes),
        _ => Err(format!("--passes takes a number from 1 to {PASSES_MAX}").into()),
    }
}

fn chunk(parser: &mut Parser) -> Result<usize, lexopt::Error> {
    match parser.value()?.parse()? {
        0 => Err("--body-chunk takes a number from 1".into()),
        chunk => Ok(chunk),
    }
}

fn seconds(parser: &mut Parser) -> Result<Duration, lexopt::Error> {
    let seconds: f64 = parser.value()?.parse()?;
    if !(seconds > 0.0 && seconds <= 86_400.0) {
        return Err("--bench takes a number of seconds above 0, at most 86400".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `host:port` of a URL; the port is 80 when not given.
fn authority(url: &str) -> Result<String, lexopt::Error> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(format!("--url takes an address that begins with http://, not {url}").into());
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() || authority.contains('@') {
        return Err(format!("--url {url} names no host").into());
    }
    // In an IPv6 address colons stand within brackets.
    let after_host = authority.rsplit(']').next().unwrap_or_default();
    if after_host.contains(':') {
        return Ok(authority.to_owned());
    }
    Ok(format!("{authority}:80"))
}

fn check(command: &Command) -> Result<(), String> {
    match command {
        Command::Help(_)
        | Command::Geo(_)
        | Command::Patches(_)
        | Command::Status(_)
        | Command::Import(_) => Ok(()),
        Command::Lint(options) if options.rules.is_empty() => {
            Err("lint needs at least one file of rules".to_owned())
        }
        Command::Lint(_) => Ok(()),
        Command::Eval(options) => {
            need_rules(&options.rules, "eval")?;
            if options.reuse && options.bench.is_none() {
                return Err("--reuse is for --bench".to_owned());
            }
            if options.each && options.bench.is_none() {
                return Err("--each is for --bench".to_owned());
            }
            if options.bench.is_some() && options.jobs > 1 {
                return Err("--bench measures one thread; leave out --jobs".to_owned());
            }
            Ok(())
        }
        Command::Bundle(options) => need_rules(&options.rules, "bundle"),
        Command::Explain(options) => need_rules(&options.rules, "explain"),
        Command::Profile(options) => need_rules(&options.rules, "profile"),
        Command::Ftw(options) => check_ftw(options),
    }
}

fn check_ftw(options: &FtwOptions) -> Result<(), String> {
    if options.tests.is_empty() {
        return Err("ftw needs --tests DIR".to_owned());
    }
    if options.url.is_some() && !options.rules.is_empty() {
        return Err("with --url the rules are those of the proxy; leave out --rules".to_owned());
    }
    if options.url.is_none() {
        need_rules(&options.rules, "ftw")?;
    }
    if options.audit_log.is_some() && options.url.is_none() {
        return Err("--audit-log is for --url".to_owned());
    }
    Ok(())
}

fn need_rules(rules: &[Rules], command: &str) -> Result<(), String> {
    if rules.is_empty() {
        return Err(format!("{command} needs --rules FILE"));
    }
    Ok(())
}

const VERSION: &str = concat!("glacis ", env!("CARGO_PKG_VERSION"), "\n");

const HELP: &str = "\
Rules of a web application firewall: check them, try them, test them.

Usage: glacis COMMAND [OPTION…]

  lint FILE…                           check files of rules
  eval --rules FILE [REQUESTS|-]       evaluate requests, one JSON object a line
  eval --rules FILE --bench SECONDS    measure the time that they take
  explain --rules FILE [REQUEST|-]     why a request is refused, and what would let it pass
  profile --rules FILE [REQUESTS|-]    what each rule costs
  ftw --tests DIR --rules FILE         run regression tests in the format of the OWASP CRS
  geo build [--asn] FILE.mmdb          countries of addresses, or their autonomous systems, for
                                       the wasm-filter
  patches seclang|filter FILE…         virtual patches as rules, or for the wasm-filter
  status                               the breakers of a running Envoy
  import FORM FILE…                    rules of another firewall as profiles of ext-proc
  bundle --rules FILE                  rules in one piece, for the wasm-filter's first verdict

`glacis COMMAND --help` says more.

Exit status: 0 all is well, 1 something was found, 2 the command was called wrongly.
";

const PATCHES_HELP: &str = "\
Virtual patches, as YAML or JSON, in the form of those who look at requests.

Usage: glacis patches seclang FILE…   rules of phase 1
       glacis patches filter FILE…    the value of virtual_patches in the plugin configuration

Patches that have expired are named on standard error and left out.
";

const STATUS_HELP: &str = "\
Say which breakers of a running Envoy are closed, open or half-open, and what has passed uninspected.

Usage: glacis status [OPTION…]

      --admin HOST:PORT   Envoy's admin port; 127.0.0.1:9901 unless told
      --json              for programs

A breaker is what Envoy's health checks and outlier detection make of a cluster: closed while a host is in
service, open when none is, half-open when none is and probes begin to succeed. It is watched for 0.3 s when it
is not closed. The exit status is 1 then.
";

const IMPORT_HELP: &str = "\
Print the rules of another web application firewall as a configuration of ext-proc.

Usage: glacis import FORM FILE…

  ingress-nginx       Ingresses with ModSecurity's annotations, and the controller's ConfigMap, in YAML
  coraza-proxy-wasm   its configuration, alone or in a WasmPlugin or Envoy's configuration
  coraza-caddy        a Caddyfile, or Caddy's JSON
  modsecurity         SecLang: main.conf, modsecurity.conf

What cannot be carried over stands as comments in what is printed.
";

const GEO_HELP: &str = "\
Make a table of countries, or of autonomous systems, for the wasm-filter from a database in MaxMind's format.

Usage: glacis geo build [OPTION…] FILE.mmdb

Takes the country of each network from country.iso_code or country_code, and prints the table in
base64, on one line: the value of geo.table in the plugin configuration.

      --asn            numbers of autonomous systems, from autonomous_system_number (asn): the value
                       of asn.table
      --only N,N,…     of these systems alone, which makes the table small
  -q, --quiet          do not say how large it is

A table has at most 65534 different systems; more are left out, those with the fewest networks first.
";

/// The options that name rules, as the help of each command shows them.
macro_rules! rules_help {
    () => {
        "\
  -r, --rules FILE     a file of rules; repeat it for more, in order
  --base               the base configuration of Glacis, at this place in the order
  --crs DIR            the OWASP CRS in DIR, and the base configuration before it unless --base
                       stands further in front
"
    };
}

const BUNDLE_HELP: &str = concat!(
    "\
Packs rules with all the files that they name, for the wasm-filter's first verdict.

Usage: glacis bundle --rules FILE [--rules FILE…] [OPTION…]

",
    rules_help!(),
    "\
  -q, --quiet          do not say how large it is

Prints it in base64, on one line: the value of first_verdict.rules in the plugin configuration. Rules and
data files together are at most 8 MiB.
"
);

const LINT_HELP: &str = "\
Parses and compiles rules. Errors go to standard output as file:line:column: message, each with the
line and a caret; what has no effect here is remarked on standard error.

Usage: glacis lint [--quiet] [--base] [--crs DIR] FILE…

  --base        the base configuration of Glacis, at this place in the order
  --crs DIR     the OWASP CRS in DIR, and the base configuration before it unless --base
                stands further in front
  -q, --quiet   no remarks on standard error

The files are one ruleset, in the order given. A file is at most 64 MiB.
";

const EVAL_HELP: &str = concat!(
    "\
Evaluates requests against rules: a JSON object a line in, one a line out, in the same order.

Usage: glacis eval --rules FILE [--rules FILE…] [OPTION…] [REQUESTS.jsonl|-]

",
    rules_help!(),
    "\
  -j, --jobs N         use N threads (1)
  --bench SECONDS      instead of answers: after a warm-up, repeat the requests on one thread for this
                       time, and print what one took in nanoseconds of CPU time, by class
  --reuse              with --bench: one transaction reused, instead of one made for each request
  --each               with --bench: a line for each request, with its verdict and the rules that
                       matched, instead of classes
  -q, --quiet          no remarks on standard error

In:  {\"id\", \"class\"?, \"client\": {\"ip\", \"port\"}?, \"server\": {\"ip\", \"port\"}?, \"method\", \"uri\",
      \"protocol\", \"headers\": [[name, value]…], \"body\"? or \"body_base64\"?,
      \"response\": {\"status\", \"protocol\", \"headers\", \"body\"? or \"body_base64\"?}?}
     Method, URI, names, values and body that are not UTF-8 are written {\"base64\": \"…\"}.
Out: {\"id\", \"action\": \"allow|deny|redirect|drop\", \"status\", \"phase\", \"matched\": [{\"id\", \"phase\", \"msg\",
      \"logdata\", \"severity\", \"tags\", \"matches\": [{\"variable\", \"value\"}]}],
      \"scores\": {\"inbound\", \"outbound\"}, \"location\"?, \"error\"?}
     status is that of the refusal, otherwise that of the response given, otherwise 200; phase is the
     phase of the refusal, otherwise null. matched holds every rule that matched and logs.

A line that is not such an object is answered by {\"id\", \"error\"}, and makes the exit status 1. Blank
lines are left out. A line is at most 64 MiB; of a longer one only the error remains. Response phases
are evaluated when a response is given and the request was not refused.
"
);

const EXPLAIN_HELP: &str = concat!(
    "\
Tells what became of a request and why: each rule that matched, on which value, what transformations made
of the value, what the operator found in it, how the scores came about, which rule refused; and the
narrowest exclusion that lets the request pass, which is tried out before it is shown.

Usage: glacis explain --rules FILE [--rules FILE…] [OPTION…] [REQUESTS.jsonl|-]

",
    rules_help!(),
    "\
  --id ID              only the request of this name
  --all                also rules that neither log nor change a score
  --json               one JSON object for each request
  -q, --quiet          no remarks on standard error

In: requests as for `glacis eval`, or audit records of Glacis. What a record does not hold (bodies and
headers, unless SecAuditLogParts asks for them) or masks is said, and rules that the record names and
that do not match again are listed.

An exclusion is given in two ways: for all requests, to stand behind the rules, and for one path, to stand
before them. At most 48 rulesets are built to find and to try it. Exit status 1: a request is refused.
"
);

const PROFILE_HELP: &str = concat!(
    "\
Tells what rules cost over a file of requests: how often each was visited, named as a candidate by its
gate, run, and matched; the texts and bytes given to its operator; its time. The same for each chain of
transformations, and what scans beforehand cost.

Usage: glacis profile --rules FILE [--rules FILE…] [OPTION…] [REQUESTS.jsonl|-]

",
    rules_help!(),
    "\
  --top N              show the N rules, and chains of transformations, that cost most (20; with
                       --json all that cost anything)
  --passes N           evaluate all requests N times (1); counts are over all passes
  --counts             no times: the answer is the same on each run, sorted by bytes
  --json               one JSON object
  -q, --quiet          no remarks on standard error

In: requests as for `glacis eval`, at most 1000000. They are evaluated once before anything is counted,
so that what is built while requests are evaluated is there.

A rule's time is that of its gate and its whole chain. Work whose result other rules use too (what a chain
of transformations makes of a value, a scan, a sieve) is charged to the rule that asks first: that part of
its time is shown as shared. Scans before the rules of a phase are part of no rule's time.
"
);

const FTW_HELP: &str = concat!(
    "\
Runs regression tests in the format of the OWASP CRS (FTW, version 2): in process without a web server,
or against a running proxy.

Usage: glacis ftw --tests DIR --rules FILE [--rules FILE…] [OPTION…]
       glacis ftw --tests DIR --url http://HOST:PORT [--audit-log FILE] [OPTION…]

  --tests PATH         a test file, or a folder of them (*.yaml, *.yml, below it too); may be repeated
",
    rules_help!(),
    "\
  --overrides FILE     tests that are skipped, or expect something else, each with its reason:
                       overrides: [{test: 920100-4, reason: …, skip: true}, or expect: {…} like output],
                       with `tests: [920100-4, …]` for several; one that is not needed is a failure
  --only PREFIX        only tests whose id begins so, such as 942100 or 942100-3; may be repeated
  -j, --jobs N         use N threads, each with a connection of its own (1)
  --json               the report as JSON
  -q, --quiet          no remarks on standard error

  --url URL            send the requests to this proxy, byte by byte as the test says
  --audit-log FILE     where the audit records of ext-proc appear. Requests carry an x-request-id
                       header, by which their record is found: Envoy must preserve it, every request
                       must have a record (SecAuditEngine On), and nothing be masked in it. A test
                       that looks at matched rules fails without a record. Without this option such
                       tests are skipped.

In process the backend is imagined: POST /reflect answers as its JSON body says (status, headers, body,
encodedBody), everything else with an empty 200. A status is that of the rules' refusal, or of the
backend. Rules that log are what a test means by the log.

total = passed + failed + skipped; overridden counts those of them whose expectation was replaced or
that an override skips.
"
);

//! The command line.

mod help;
mod options;
mod train;
mod values;

use std::{ffi::OsString, path::PathBuf};

use glacis_rules::Defaults;
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{quantify::Form, ruleset::Rules};
use help::{
    BANS_HELP, BUNDLE_HELP, EVAL_HELP, EXPLAIN_HELP, FTW_HELP, GEO_HELP, HELP, IMPORT_HELP,
    LEARN_HELP, LINT_HELP, PATCHES_HELP, PROFILE_HELP, QUANTIFY_HELP, STATUS_HELP, VERSION,
};
pub(crate) use options::{
    BanAction, BansOptions, BundleOptions, EvalOptions, ExplainOptions, FtwOptions, GeoOptions,
    ImportForm, ImportOptions, LearnFormat, LearnOptions, LintOptions, PatchForm, PatchesOptions,
    ProfileOptions, QuantifyOptions, StatusOptions, TrainOptions, WeightsFile,
};
use values::{authority, chunk, jobs, numbers, passes, seconds};

/// What the user wants.
#[derive(Debug)]
pub(crate) enum Command {
    Help(&'static str),
    Lint(LintOptions),
    Eval(EvalOptions),
    Explain(ExplainOptions),
    Learn(LearnOptions),
    Profile(ProfileOptions),
    Quantify(QuantifyOptions),
    Ftw(FtwOptions),
    Geo(GeoOptions),
    Patches(PatchesOptions),
    Status(StatusOptions),
    Bans(BansOptions),
    Import(ImportOptions),
    Bundle(BundleOptions),
    Train(TrainOptions),
}

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
            let names = "lint, eval, explain, learn, profile, quantify, ftw, geo, patches, status, \
                         bans, import, bundle or train";
            Err(format!("a command is needed: {names}").into())
        }
        Some(Arg::Short('h') | Arg::Long("help")) => Ok(Command::Help(HELP)),
        Some(Arg::Short('V') | Arg::Long("version")) => Ok(Command::Help(VERSION)),
        Some(Arg::Value(name)) => match name.to_str() {
            Some("lint") => lint(parser),
            Some("eval") => eval(parser),
            Some("explain") => explain(parser),
            Some("learn") => learn(parser),
            Some("profile") => profile(parser),
            Some("quantify") => quantify(parser),
            Some("ftw") => ftw(parser),
            Some("geo") => geo(parser),
            Some("patches") => patches(parser),
            Some("status") => status(parser),
            Some("bans") => bans(parser),
            Some("import") => import(parser),
            Some("bundle") => bundle(parser),
            Some("train") => train::train(parser),
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
    Defaults,
    Exclusions,
    EveryRule,
    NoRecall,
}

impl RulesOption {
    fn of(argument: &Arg<'_>) -> Option<Self> {
        match argument {
            Arg::Short('r') | Arg::Long("rules") => Some(Self::File),
            Arg::Long("base") => Some(Self::Base),
            Arg::Long("crs") => Some(Self::Crs),
            Arg::Long("defaults") => Some(Self::Defaults),
            Arg::Long("exclusions") => Some(Self::Exclusions),
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
            Self::Defaults => defaults(parser)?,
            Self::Exclusions => Rules::Exclusions(parser.value()?.into()),
            Self::EveryRule => Rules::EveryRule,
            Self::NoRecall => Rules::NoRecall,
        })
    }
}

/// The value of `--defaults`.
fn defaults(parser: &mut Parser) -> Result<Rules, lexopt::Error> {
    let name = parser.value()?;
    let known = Defaults::ALL.into_iter().find(|defaults| name == defaults.name());
    known
        .map(Rules::Defaults)
        .ok_or_else(|| format!("--defaults {}: write glacis or crs", name.display()).into())
}

fn lint(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = LintOptions::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(LINT_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Long("strict") => options.strict = true,
            Arg::Long("base") => options.rules.push(Rules::Base),
            Arg::Long("crs") => options.rules.push(Rules::Crs(parser.value()?.into())),
            Arg::Long("defaults") => options.rules.push(defaults(parser)?),
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
            Arg::Long("second-opinion") => options.second_opinion = Some(train::weights(parser)),
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
            Arg::Long("second-opinion") => options.second_opinion = Some(train::weights(parser)),
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

fn learn(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let mut options = LearnOptions { expires_days: EXPIRES_DAYS, ..LearnOptions::default() };
    while let Some(argument) = parser.next()? {
        if let Some(option) = RulesOption::of(&argument) {
            options.rules.push(option.rules(parser)?);
            continue;
        }
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(LEARN_HELP)),
            Arg::Short('q') | Arg::Long("quiet") => options.quiet = true,
            Arg::Long("min-requests") => options.min_requests = Some(parser.value()?.parse()?),
            Arg::Long("min-clients") => options.min_clients = Some(parser.value()?.parse()?),
            Arg::Long("min-days") => options.min_days = Some(parser.value()?.parse()?),
            Arg::Long("expires-days") => options.expires_days = parser.value()?.parse()?,
            Arg::Long("attacks") => options.attacks = Some(parser.value()?.into()),
            Arg::Long("report") => options.report = Some(parser.value()?.into()),
            Arg::Long("format") => options.format = format(parser)?,
            Arg::Value(file) => options.files.push(file.into()),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Learn(options))
}

/// Days for which a learned exclusion holds.
const EXPIRES_DAYS: u64 = 90;

/// The value of `learn --format`.
fn format(parser: &mut Parser) -> Result<LearnFormat, lexopt::Error> {
    let name = parser.value()?.string()?;
    match name.as_str() {
        "auto" => Ok(LearnFormat::Auto),
        "requests" | "audit" => Ok(LearnFormat::Lines),
        "har" => Ok(LearnFormat::Har),
        _ => Err(format!("--format {name}: write auto, requests, audit or har").into()),
    }
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

fn quantify(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let jobs_default = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options =
        QuantifyOptions { paranoia: 4, jobs: jobs_default, ..QuantifyOptions::default() };
    let mut input = None;
    while let Some(argument) = parser.next()? {
        if let Some(option) = RulesOption::of(&argument) {
            options.rules.push(option.rules(parser)?);
            continue;
        }
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(QUANTIFY_HELP)),
            Arg::Short('j') | Arg::Long("jobs") => options.jobs = jobs(parser)?,
            Arg::Long("against") => options.against = Some(parser.value()?.into()),
            Arg::Long("paranoia") => options.paranoia = parser.value()?.parse()?,
            Arg::Long("json") => options.json = true,
            Arg::Long("sentences") => options.form = Some(Form::Sentences),
            Arg::Long("requests") => options.form = Some(Form::Requests),
            Arg::Value(file) if input.is_none() => input = Some(file),
            other => return Err(other.unexpected()),
        }
    }
    options.input = input.filter(|file| file != "-").map(PathBuf::from);
    Ok(Command::Quantify(options))
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
    if !options.rules.is_empty() {
        // The tests are about CRS as it comes; what the command line says stands behind this.
        options.rules.insert(0, Rules::Defaults(Defaults::Crs));
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
    let admin = "127.0.0.1:9901".to_owned();
    let mut options = StatusOptions { admin, token_file: None, json: false };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(STATUS_HELP)),
            Arg::Long("admin") => options.admin = parser.value()?.string()?,
            Arg::Long("token-file") => options.token_file = Some(parser.value()?.into()),
            Arg::Long("json") => options.json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Status(options))
}

fn bans(parser: &mut Parser) -> Result<Command, lexopt::Error> {
    let (mut words, mut seconds) = (Vec::new(), None);
    let (mut admin, mut token_file, mut json) = ("127.0.0.1:9102".to_owned(), None, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(BANS_HELP)),
            Arg::Long("admin") => admin = parser.value()?.string()?,
            Arg::Long("token-file") => token_file = Some(parser.value()?.into()),
            Arg::Long("seconds") => seconds = Some(parser.value()?.parse()?),
            Arg::Long("json") => json = true,
            Arg::Value(word) => words.push(word.string()?),
            other => return Err(other.unexpected()),
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let action = match (words.as_slice(), seconds) {
        (["list"], None) => BanAction::List,
        (["add", network], Some(seconds)) => {
            BanAction::Add { network: (*network).to_owned(), seconds }
        }
        (["remove", network], None) => BanAction::Remove { network: (*network).to_owned() },
        (["add", ..], None) => return Err("bans add needs --seconds N".into()),
        _ => return Err("bans needs `list`, `add NETWORK --seconds N` or `remove NETWORK`".into()),
    };
    Ok(Command::Bans(BansOptions { action, admin, token_file, json }))
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
    let (mut form, mut files, mut crs) = (None, Vec::new(), None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Help(IMPORT_HELP)),
            Arg::Long("crs") => crs = Some(parser.value()?.into()),
            Arg::Value(word) if form.is_none() => form = Some(word.string()?),
            Arg::Value(file) => files.push(file.into()),
            _ => return Err(argument.unexpected()),
        }
    }
    let form = form.unwrap_or_default();
    let form = ImportForm::ALL.into_iter().find(|known| known.name() == form);
    match form {
        Some(form) if !files.is_empty() => Ok(Command::Import(ImportOptions { form, files, crs })),
        Some(_) => Err("import needs files: import ingress-nginx FILE.yaml…".into()),
        None => {
            Err("import needs ingress-nginx, coraza-proxy-wasm, coraza-caddy, modsecurity or nginx"
                .into())
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
            Arg::Long("defaults") => options.rules.push(defaults(parser)?),
            Arg::Long("exclusions") => {
                options.rules.push(Rules::Exclusions(parser.value()?.into()));
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Command::Bundle(options))
}

fn check(command: &Command) -> Result<(), String> {
    match command {
        Command::Help(_)
        | Command::Geo(_)
        | Command::Patches(_)
        | Command::Status(_)
        | Command::Bans(_)
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
        Command::Train(options) => need_rules(&options.rules, "train"),
        Command::Explain(options) => need_rules(&options.rules, "explain"),
        Command::Learn(options) => need_rules(&options.rules, "learn"),
        Command::Profile(options) => need_rules(&options.rules, "profile"),
        Command::Quantify(options) => check_quantify(options),
        Command::Ftw(options) => check_ftw(options),
    }
}

fn check_quantify(options: &QuantifyOptions) -> Result<(), String> {
    if !options.rules.iter().any(|rules| matches!(rules, Rules::Crs(_))) {
        return Err("quantify needs --crs DIR".to_owned());
    }
    if !(1..=4).contains(&options.paranoia) {
        return Err("--paranoia takes a number from 1 to 4".to_owned());
    }
    Ok(())
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
    // An empty program would answer "allow" to everything.
    if rules.iter().any(Rules::are_named) {
        Ok(())
    } else {
        Err(format!("{command} needs --rules FILE"))
    }
}

//! The command line.

mod help;
mod options;
mod rules;
mod values;

use std::ffi::OsString;

use clap::{CommandFactory as _, Parser, Subcommand, error::ErrorKind};
use glacis_rules::Defaults;

use crate::ruleset::Rules;
pub(crate) use options::{
    BanAction, BansOptions, BundleOptions, CompletionsOptions, DoctorFormat, DoctorOptions,
    EvalOptions, ExplainOptions, Form, FtwOptions, GeoAction, GeoOptions, ImportForm,
    ImportOptions, InputOptions, LearnApiOptions, LearnFormat, LearnOptions, LintFormat,
    LintOptions, ManOptions, PatchForm, PatchesOptions, ProfileOptions, QuantifyOptions,
    StatusOptions, TrainOptions,
};

pub(crate) use values::WeightsFile;

/// The version, the commit, and the CRS that it was tested with.
pub(crate) const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("GLACIS_COMMIT"),
    ", for CRS ",
    "4.25.0",
    ")"
);

/// Check, try and test rules of a web application firewall
#[derive(Debug, Parser)]
#[command(name = "glacis", version = VERSION, after_help = help::COMMANDS, arg_required_else_help = true, term_width = 118)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What the user wants.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check files of rules
    Lint(LintOptions),
    /// Evaluate requests, and print a verdict for each as one line of JSON
    Eval(EvalOptions),
    /// Explain why a request is blocked, and what would allow it
    Explain(ExplainOptions),
    /// Propose exclusions for rules that block ordinary requests
    Learn(LearnOptions),
    /// Derive an OpenAPI document from recorded requests
    LearnApi(LearnApiOptions),
    /// Measure what each rule costs
    Profile(ProfileOptions),
    /// Count false alarms by rule and paranoia level
    Quantify(QuantifyOptions),
    /// Run regression tests in the format of the OWASP CRS (FTW, version 2)
    Ftw(FtwOptions),
    /// Make tables of countries or autonomous systems for the wasm-filter
    #[command(subcommand)]
    Geo(GeoAction),
    /// Print virtual patches as rules, or for the wasm-filter
    Patches(PatchesOptions),
    /// Show the breakers and the native module of a running Envoy, and what has passed uninspected
    Status(StatusOptions),
    /// Check an installation: configuration, rules, Envoy, running services
    Doctor(DoctorOptions),
    /// List, add and remove bans of a running ext-authz
    Bans(BansOptions),
    /// Print the rules of another firewall as a configuration of ext-proc
    Import(ImportOptions),
    /// Pack rules with all the files that they name, for the wasm-filter's first verdict
    Bundle(BundleOptions),
    /// Learn weights of a second opinion from labelled requests
    Train(TrainOptions),
    /// Print a script that completes commands and options in a shell
    Completions(CompletionsOptions),
    /// Print manual pages
    Man(ManOptions),
    /// Print the version
    Version,
}

/// Text to print instead of running a command, such as help.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A help text or the version.
    Help(String),
    /// The error in the command line.
    Usage(String),
}

/// The description of the command line.
pub(crate) fn description() -> clap::Command {
    Cli::command()
}

/// Parses the command line, the program's name included.
///
/// # Errors
/// A help text that was asked for, or a sentence on what is wrong.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, Stop> {
    let Cli { mut command } =
        Cli::try_parse_from(arguments).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Stop::Help(error.to_string()),
            _ => Stop::Usage(error.to_string()),
        })?;
    check(&mut command).map_err(|(name, message)| {
        let mut description = description();
        description.build();
        let kind = ErrorKind::MissingRequiredArgument;
        let error = match description.find_subcommand_mut(name) {
            Some(command) => command.error(kind, message),
            None => description.error(kind, message),
        };
        Stop::Usage(error.to_string())
    })?;
    Ok(command)
}

/// An error about options that conflict, and the command they belong to.
fn check(command: &mut Command) -> Result<(), (&'static str, String)> {
    let need_rules = |rules: &[Rules], command: &'static str| {
        // An empty program would answer "allow" to everything.
        match rules.iter().any(Rules::are_named) {
            true => Ok(()),
            false => Err((command, format!("{command} needs --rules FILE or --crs DIR"))),
        }
    };
    match command {
        Command::Lint(options) if !options.rules.0.iter().any(Rules::are_named) => {
            Err(("lint", "lint needs at least one file of rules, or --crs DIR".to_owned()))
        }
        Command::Eval(options) => {
            need_rules(&options.rules.0, "eval")?;
            if options.bench.is_some() && options.jobs > 1 {
                return Err(("eval", "--bench measures one thread; leave out --jobs".to_owned()));
            }
            Ok(())
        }
        Command::Bundle(options) => need_rules(&options.rules.0, "bundle"),
        Command::Train(options) => need_rules(&options.rules.0, "train"),
        Command::Explain(options) => need_rules(&options.rules.0, "explain"),
        Command::Learn(options) => need_rules(&options.rules.0, "learn"),
        Command::Profile(options) => need_rules(&options.rules.0, "profile"),
        Command::Quantify(options) => {
            if !options.rules.0.iter().any(|rules| matches!(rules, Rules::Crs(_))) {
                return Err(("quantify", "quantify needs --crs DIR".to_owned()));
            }
            Ok(())
        }
        Command::Ftw(options) => ftw(options),
        Command::Doctor(options) => doctor(options),
        Command::Lint(_)
        | Command::LearnApi(_)
        | Command::Geo(_)
        | Command::Patches(_)
        | Command::Status(_)
        | Command::Bans(_)
        | Command::Import(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Version => Ok(()),
    }
}

fn doctor(options: &DoctorOptions) -> Result<(), (&'static str, String)> {
    let has_rules = options.rules.0.iter().any(Rules::are_named);
    let message = match &options.config {
        Some(_) if has_rules => {
            "with --config the rules are those that it names; leave out --rules"
        }
        None if !has_rules
            && options.envoy.is_empty()
            && options.envoy_admin.is_none()
            && options.admin.is_empty() =>
        {
            "doctor needs something to check: --config FILE, --crs DIR, --envoy FILE or --admin HOST:PORT"
        }
        _ => return Ok(()),
    };
    Err(("doctor", message.to_owned()))
}

fn ftw(options: &mut FtwOptions) -> Result<(), (&'static str, String)> {
    let rules = &mut options.rules.0;
    let message = match options.url {
        Some(_) if !rules.is_empty() => {
            "with --url the rules are those of the proxy; leave out --rules"
        }
        None if !rules.iter().any(Rules::are_named) => "ftw needs --rules FILE or --crs DIR",
        None if options.audit_log.is_some() => "--audit-log is for --url",
        _ => {
            if !rules.is_empty() {
                // The tests are about CRS as it comes; what the command line says comes after this.
                rules.insert(0, Rules::Defaults(Defaults::Crs));
            }
            return Ok(());
        }
    };
    Err(("ftw", message.to_owned()))
}

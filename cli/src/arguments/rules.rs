//! The options that name rules, in the order in which they are on the command line.

use std::{ops::Deref, path::PathBuf};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches,
    builder::PossibleValuesParser, value_parser,
};
use glacis_rules::Defaults;

use crate::ruleset::Rules;

const HEADING: &str = "Rules";

/// Rules of a command that evaluates.
#[derive(Clone, Debug, Default)]
pub(crate) struct RulesOptions(pub(crate) Vec<Rules>);

/// Rules of `glacis lint`: files without an option before them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LintRules(pub(crate) Vec<Rules>);

impl Deref for RulesOptions {
    type Target = Vec<Rules>;

    fn deref(&self) -> &Vec<Rules> {
        &self.0
    }
}

impl Deref for LintRules {
    type Target = Vec<Rules>;

    fn deref(&self) -> &Vec<Rules> {
        &self.0
    }
}

fn common() -> [Arg; 3] {
    [
        Arg::new("base")
            .long("base")
            .action(ArgAction::SetTrue)
            .help_heading(HEADING)
            .help("The base configuration of Glacis, at this place in the order"),
        Arg::new("crs")
            .long("crs")
            .value_name("DIR")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help_heading(HEADING)
            .help("The OWASP CRS in DIR, after the base configuration unless --base comes earlier"),
        Arg::new("defaults")
            .long("defaults")
            .value_name("NAME")
            .action(ArgAction::Append)
            .value_parser(PossibleValuesParser::new(Defaults::ALL.map(Defaults::name)))
            .help_heading(HEADING)
            .help("Defaults of settings that crs-setup.conf leaves out: glacis, or crs for CRS as it comes"),
    ]
}

fn evaluated() -> [Arg; 5] {
    [
        Arg::new("rules")
            .short('r')
            .long("rules")
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help_heading(HEADING)
            .help("A file of rules; repeat it for more, in order"),
        Arg::new("exclusions")
            .long("exclusions")
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help_heading(HEADING)
            .help("Exclusions as YAML, such as `glacis learn` prints"),
        Arg::new("openapi")
            .long("openapi")
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help_heading(HEADING)
            .help(
                "An OpenAPI document that requests are compared with, after the base configuration",
            ),
        Arg::new("every_rule").long("every-rule").action(ArgAction::SetTrue).hide(true),
        Arg::new("no_recall").long("no-recall").action(ArgAction::SetTrue).hide(true),
    ]
}

/// Rules as named on the command line, each with its position.
struct Placed<'m> {
    matches: &'m ArgMatches,
    found: Vec<(usize, Rules)>,
}

impl Placed<'_> {
    fn paths(&mut self, id: &str, rules: fn(PathBuf) -> Rules) {
        let values = self.matches.get_many::<PathBuf>(id).into_iter().flatten().cloned();
        let places = self.matches.indices_of(id).into_iter().flatten();
        self.found.extend(places.zip(values.map(rules)));
    }

    fn flag(&mut self, id: &str, rules: Rules) {
        let place = self.matches.indices_of(id).and_then(|mut places| places.next());
        if self.matches.get_flag(id) {
            self.found.push((place.unwrap_or_default(), rules));
        }
    }

    fn common(&mut self) {
        self.flag("base", Rules::Base);
        self.paths("crs", Rules::Crs);
        let named = |name: &String| {
            let known = Defaults::ALL.into_iter().find(|defaults| name == defaults.name());
            Rules::Defaults(known.unwrap_or_default())
        };
        let values = self.matches.get_many::<String>("defaults").into_iter().flatten().map(named);
        let places = self.matches.indices_of("defaults").into_iter().flatten();
        self.found.extend(places.zip(values));
    }

    fn in_order(mut self) -> Vec<Rules> {
        self.found.sort_by_key(|(place, _)| *place);
        self.found.into_iter().map(|(_, rules)| rules).collect()
    }
}

impl FromArgMatches for RulesOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut placed = Placed { matches, found: Vec::new() };
        placed.common();
        placed.paths("rules", Rules::File);
        placed.paths("exclusions", Rules::Exclusions);
        placed.paths("openapi", Rules::OpenApi);
        placed.flag("every_rule", Rules::EveryRule);
        placed.flag("no_recall", Rules::NoRecall);
        Ok(Self(placed.in_order()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RulesOptions {
    fn augment_args(command: Command) -> Command {
        command.args(evaluated()).args(common())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LintRules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut placed = Placed { matches, found: Vec::new() };
        placed.common();
        placed.paths("files", Rules::File);
        Ok(Self(placed.in_order()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for LintRules {
    fn augment_args(command: Command) -> Command {
        let files = Arg::new("files")
            .value_name("FILE")
            .action(ArgAction::Append)
            .num_args(0..)
            .value_parser(value_parser!(PathBuf))
            .help("Files of rules; together they are one ruleset, in the order given");
        command.arg(files).args(common())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

//! The key `graphql` of a profile, and the rules that it stands for.

use core::fmt::Write as _;

use serde::Deserialize;

/// The paths on which GraphQL is served, and how large requests may be there.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct GraphqlConfig {
    pub paths: Vec<String>,
    pub depth_max: u32,
    pub aliases_max: u32,
    pub root_fields_max: u32,
    pub directives_max: u32,
    pub tokens_max: u32,
    pub batch_max: u32,
    pub cost_max: u32,
    pub introspection: Introspection,
    pub malformed: MalformedGraphql,
}

impl Default for GraphqlConfig {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            depth_max: 20,
            aliases_max: 100,
            root_fields_max: 50,
            directives_max: 100,
            tokens_max: 10_000,
            batch_max: 10,
            cost_max: 500_000,
            introspection: Introspection::Allow,
            malformed: MalformedGraphql::Reject,
        }
    }
}

/// Whether clients may read the schema.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Introspection {
    Allow,
    Deny,
}

/// The answer to documents that are not GraphQL.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum MalformedGraphql {
    Reject,
    Text,
}

/// The highest limit: measures saturate there, and what saturates is over every limit.
const LIMIT_MAX: u32 = i32::MAX as u32 - 1;

impl GraphqlConfig {
    /// The limits, each with the id of its rule, its key, the member of `GRAPHQL` and the message.
    const fn limits(&self) -> [(u32, &'static str, &'static str, &'static str, u32); 8] {
        let introspection = match self.introspection {
            Introspection::Allow => LIMIT_MAX,
            Introspection::Deny => 0,
        };
        [
            (100_050, "depth_max", "depth", "are nested too deep", self.depth_max),
            (100_051, "aliases_max", "aliases", "have too many aliases", self.aliases_max),
            (
                100_052,
                "root_fields_max",
                "root_fields",
                "have too many root fields",
                self.root_fields_max,
            ),
            (
                100_053,
                "directives_max",
                "directives",
                "have too many directives",
                self.directives_max,
            ),
            (100_054, "tokens_max", "tokens", "have too many tokens", self.tokens_max),
            (100_055, "batch_max", "batch", "are too many in one request", self.batch_max),
            (100_056, "cost_max", "cost", "cost too much", self.cost_max),
            (100_057, "introspection", "introspection", "ask for the schema", introspection),
        ]
    }

    /// What makes no sense, as key and message.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_path = |path: &String| {
            path.starts_with('/')
                && !path.contains(['"', '\\', '?', '#', '%', ';', '\n', '\r', ' '])
        };
        if !self.paths.iter().all(is_path) {
            return Some(("graphql.paths", "write paths such as /graphql or /graphql/*"));
        }
        let is_limit = |limit: u32| (1..=LIMIT_MAX).contains(&limit);
        let mut limits = self.limits().into_iter().filter(|limit| limit.1 != "introspection");
        limits
            .any(|(.., limit)| !is_limit(limit))
            .then_some(("graphql", "write limits from 1 to 2147483646"))
    }

    /// The settings as SecLang; nothing without paths.
    pub(crate) fn directives(&self) -> String {
        let mut text = String::new();
        if self.paths.is_empty() {
            return text;
        }
        for path in &self.paths {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "SecGraphqlPath \"{path}\"");
        }
        for (id, _, member, message, limit) in self.limits() {
            if limit < LIMIT_MAX {
                let logdata = format!("{member} %{{MATCHED_VAR}}, limit {limit}");
                rule(&mut text, id, member, limit, message, &logdata);
            }
        }
        if self.malformed == MalformedGraphql::Reject {
            rule(&mut text, 100_058, "malformed", 0, "cannot be parsed", "%{REQUEST_FILENAME}");
        }
        text
    }
}

/// Adds the rule that refuses with 400 where a measure is above its limit.
fn rule(text: &mut String, id: u32, member: &str, limit: u32, message: &str, logdata: &str) {
    let _ = writeln!(
        text,
        "SecRule GRAPHQL:{member} \"@gt {limit}\" \"id:{id},phase:2,deny,status:400,log,auditlog,\
         t:none,msg:'GraphQL documents {message}',logdata:'{logdata}',tag:'glacis/base',\
         tag:'glacis/limit/graphql',severity:'CRITICAL'\"",
    );
}

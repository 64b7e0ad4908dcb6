//! Test files: YAML of FTW, version 2, as CRS 4 uses it (github.com/coreruleset/ftw-tests-schema).
//!
//! What the format knows and this runner does not do makes a test skipped, with the reason; what a
//! test has that neither knows makes the file invalid. Nothing is passed over in silence.

use std::{collections::BTreeMap, path::PathBuf};

use glacis_engine::Source as _;
use glacis_rules::FileSource;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use crate::output::Fault;

/// Bytes of a test file: 16 MiB.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// One test file.
#[derive(Debug)]
pub(crate) struct Suite {
    /// The file's name without its folder.
    pub(crate) file: String,
    pub(crate) tests: Vec<Test>,
}

/// A test.
#[derive(Debug)]
pub(crate) struct Test {
    /// `RULE-TEST`, such as `942100-1`.
    pub(crate) name: String,
    pub(crate) stages: Vec<Stage>,
}

/// One request of a test, and what is expected.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stage {
    #[serde(default)]
    #[allow(dead_code, reason = "allowed by the format, of no use here")]
    description: Option<IgnoredAny>,
    #[serde(default)]
    pub(crate) input: Input,
    #[serde(default)]
    pub(crate) output: Output,
}

/// A request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Input {
    #[allow(dead_code, reason = "the destination is given on the command line")]
    dest_addr: Option<String>,
    #[allow(dead_code, reason = "the destination is given on the command line")]
    port: Option<u16>,
    protocol: Option<String>,
    pub(crate) uri: Option<String>,
    follow_redirect: bool,
    pub(crate) version: Option<String>,
    pub(crate) method: Option<String>,
    /// Sent in the order of their names.
    pub(crate) headers: BTreeMap<String, Scalar>,
    /// Sent in this order, instead of `headers`.
    pub(crate) ordered_headers: Option<Vec<OrderedHeader>>,
    pub(crate) data: Option<String>,
    pub(crate) encoded_data: Option<String>,
    pub(crate) encoded_request: Option<String>,
    save_cookie: bool,
    /// The opposite of `autocomplete_headers`, which comes first.
    stop_magic: Option<bool>,
    autocomplete_headers: Option<bool>,
    #[allow(dead_code, reason = "only marker requests of the original runner differ by it")]
    virtual_host_mode: bool,
}

impl Input {
    /// Whether headers that a client normally sends are added.
    pub(crate) fn completes_headers(&self) -> bool {
        match (self.autocomplete_headers, self.stop_magic) {
            (Some(complete), _) => complete,
            (None, Some(stop)) => !stop,
            (None, None) => true,
        }
    }

    /// What this runner does not do.
    pub(crate) fn unsupported(&self) -> Option<&'static str> {
        if self.follow_redirect {
            return Some("follow_redirect");
        }
        if self.save_cookie {
            return Some("save_cookie");
        }
        (self.protocol.as_ref().is_some_and(|protocol| protocol != "http"))
            .then_some("a protocol other than http")
    }
}

/// A header with its place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderedHeader {
    pub(crate) name: String,
    pub(crate) value: Scalar,
}

/// What is expected.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Output {
    pub(crate) status: Option<u16>,
    pub(crate) response_contains: String,
    pub(crate) log: Log,
    /// Older names of `log.match_regex` and `log.no_match_regex`.
    pub(crate) log_contains: String,
    pub(crate) no_log_contains: String,
    pub(crate) expect_error: Option<bool>,
    pub(crate) retry_once: bool,
    pub(crate) isolated: bool,
}

/// What is expected of the log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) expect_ids: Vec<u32>,
    pub(crate) no_expect_ids: Vec<u32>,
    pub(crate) match_regex: String,
    pub(crate) no_match_regex: String,
}

/// The text of any scalar as written: `200`, `1.10` and `true` are header values too.
#[derive(Debug, Default)]
pub(crate) struct Scalar(pub(crate) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<String>::deserialize(deserializer).map(|text| Self(text.unwrap_or_default()))
    }
}

/// Here unknown fields are passed over: some of CRS's files have parts of `meta` out of place.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    rule_id: Option<u32>,
    #[serde(default)]
    tests: Vec<FileTest>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTest {
    #[serde(default)]
    test_id: Option<u32>,
    #[serde(default)]
    #[allow(dead_code, reason = "allowed by the format, of no use here")]
    desc: Option<IgnoredAny>,
    #[serde(default)]
    #[allow(dead_code, reason = "allowed by the format, of no use here")]
    description: Option<IgnoredAny>,
    #[serde(default)]
    #[allow(dead_code, reason = "allowed by the format, of no use here")]
    tags: Option<IgnoredAny>,
    #[serde(default)]
    stages: Vec<Stage>,
}

/// Reads the test files at and below `paths`, sorted.
pub(crate) fn load(paths: &[PathBuf]) -> Result<Vec<Suite>, Fault> {
    let source = FileSource::with_bytes_max(FILE_BYTES_MAX);
    let mut suites = Vec::new();
    for path in paths {
        let Some(name) = path.to_str() else {
            return Err(Fault::Input(format!("{}: the name is not UTF-8", path.display())));
        };
        let files = source.list(name, "").map_err(|error| Fault::Input(error.to_string()))?;
        let files: Vec<String> = files.into_iter().filter(|file| is_yaml(file)).collect();
        if files.is_empty() {
            return Err(Fault::Input(format!("{name}: there are no test files (*.yaml, *.yml)")));
        }
        for file in files {
            suites.push(read(&source, &file)?);
        }
    }
    Ok(suites)
}

fn is_yaml(file: &str) -> bool {
    file.ends_with(".yaml") || file.ends_with(".yml")
}

fn read(source: &FileSource, path: &str) -> Result<Suite, Fault> {
    let text = read_text(source, path)?;
    let name = path.rsplit('/').next().unwrap_or(path);
    // A file with nothing but comments is a file without tests.
    let file: Option<File> = parse(path, &text)?;
    let tests = file.map(|file| tests(path, name, file)).transpose()?.unwrap_or_default();
    Ok(Suite { file: name.to_owned(), tests })
}

/// The text of a file, which has to be UTF-8.
pub(crate) fn read_text(source: &FileSource, path: &str) -> Result<String, Fault> {
    let file = source.read(path, "").map_err(|error| Fault::Input(error.to_string()))?;
    String::from_utf8(file.bytes).map_err(|_| Fault::Input(format!("{path}: not UTF-8")))
}

/// Reads YAML; the message of an error names file, line and column.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(path: &str, text: &str) -> Result<T, Fault> {
    serde_saphyr::from_str(text).map_err(|error| {
        let message = error.without_snippet().to_string();
        let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
        // The place stands in front already.
        let place = format!(" at line {line}, column {column}");
        let message = message.replace(&place, "");
        Fault::Input(format!("{path}:{line}:{column}: {message}"))
    })
}

fn tests(path: &str, name: &str, file: File) -> Result<Vec<Test>, Fault> {
    let rule = match file.rule_id.or_else(|| first_number(name)) {
        Some(rule) => rule,
        None if file.tests.is_empty() => 0,
        None => return Err(Fault::Input(format!("{path}:1:1: there is no rule_id"))),
    };
    let tests = file.tests.into_iter().zip(1..).map(|(test, position)| Test {
        name: format!("{rule}-{}", test.test_id.unwrap_or(position)),
        stages: test.stages,
    });
    Ok(tests.collect())
}

fn first_number(name: &str) -> Option<u32> {
    name.split(|letter: char| !letter.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
}

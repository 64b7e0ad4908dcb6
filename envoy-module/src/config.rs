//! The configuration of a filter: the keys of profiles, which ext-proc has too, and keys of the module.

use std::path::{Path, PathBuf};

use glacis_host::{Audit, Evaluation, Late, ProfileKeys, check_profiles, declare_configuration};
use glacis_service::config::{Seconds, ensure, load, parse};

/// Evaluations that may wait for a thread: the queue has its places from the start.
const QUEUE_MAX: usize = 1_048_576;

declare_configuration! {
    /// The configuration of a filter. Each field is described in `docs/native.md`.
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub struct Config {
        file: Option<PathBuf> = None,
        reload_seconds: Seconds = Seconds(5),
        audit: Audit = Audit::default(),
        collections_max: usize = 10_000,
        max_streams: usize = 4_096,
        client_share_percent: u8 = 50,
        inline_body_bytes: usize = 4_096,
        inline_header_bytes: usize = 4_096,
        evaluation_threads: usize = 0,
        evaluation_queue_max: usize = 256,
        deadline_ms: u64 = 400,
        body_bytes_max: usize = 268_435_456,
    }
}

impl Config {
    /// Reads the configuration that Envoy hands over, JSON or YAML. With the key `file` alone, it is read from there.
    ///
    /// # Errors
    /// When it is not well-formed, has a key that does not exist, or asks for what makes no sense.
    pub(crate) fn read(text: &[u8]) -> Result<Self, String> {
        let text = core::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
        let config: Self = parse(text).map_err(|error| error.to_string())?;
        let Some(file) = &config.file else {
            config.check().map_err(|(key, message)| format!("{key}: {message}"))?;
            return Ok(config);
        };
        if config != (Self { file: Some(file.clone()), ..Self::default() }) {
            return Err("file: the other keys stand in that file: remove them here".to_owned());
        }
        Self::load(file)
    }

    /// Reads the file `path`. Relative paths in it are relative to its folder.
    fn load(path: &Path) -> Result<Self, String> {
        let mut config: Self = load(path).map_err(|error| error.to_string())?;
        let at = |(key, message)| format!("{}: {key}: {message}", path.display());
        if config.file.is_some() {
            return Err(at(("file".to_owned(), "it stands in such a file already".to_owned())));
        }
        config.check().map_err(at)?;
        config.resolve(path.parent().unwrap_or_else(|| Path::new("")));
        config.file = Some(path.to_owned());
        Ok(config)
    }

    fn resolve(&mut self, folder: &Path) {
        let mut keys = self.keys();
        keys.resolve(folder);
        self.set_keys(keys);
        for profile in self.profiles.values_mut() {
            profile.resolve(folder);
        }
        if let Some(file) = &mut self.audit.file {
            *file = folder.join(&*file);
        }
    }

    fn check(&self) -> Result<(), (String, String)> {
        let own = |(key, message): (&str, &str)| (key.to_owned(), message.to_owned());
        self.check_module().map_err(own)?;
        check_profiles(&self.keys(), &self.profiles, &self.routes)?;
        for name in self.profile_names() {
            check_profile(&self.keys_of(name)).map_err(|(key, message)| {
                (format!("{key} (profile {name})"), message.to_owned())
            })?;
        }
        Ok(())
    }

    fn check_module(&self) -> Result<(), (&'static str, &'static str)> {
        ensure(
            self.max_streams > 0,
            "max_streams",
            "no request could be inspected: write 1 or more",
        )?;
        ensure(
            (1..=100).contains(&self.client_share_percent),
            "client_share_percent",
            "write a number from 1 to 100: with 100 one client may hold everything",
        )?;
        ensure(
            self.evaluation_queue_max <= QUEUE_MAX,
            "evaluation_queue_max",
            "there is no room for so many: write 1048576 or less",
        )?;
        ensure(!self.audit.otlp, "audit.otlp", "the module cannot export records: write a file")?;
        self.audit.check()
    }
}

/// What a profile may say in ext-proc, and not here.
fn check_profile(keys: &ProfileKeys) -> Result<(), (&'static str, &'static str)> {
    const ONLY_EXT_PROC: &str =
        "only ext-proc evaluates out of band: remove the key, or use ext-proc";
    ensure(keys.evaluation == Evaluation::InBand, "evaluation", ONLY_EXT_PROC)?;
    ensure(keys.out_of_band_profile.is_none(), "out_of_band_profile", ONLY_EXT_PROC)?;
    ensure(keys.shadow.is_none(), "shadow", ONLY_EXT_PROC)?;
    ensure(
        keys.late == Late::Reject,
        "late",
        "a filter within Envoy has no failure mode: write reject",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The file for editors has the keys that are read, and of the types below them what the chart has of ext-proc's,
    /// which a test of the chart compares with the service.
    #[test]
    fn the_schema_is_of_this_configuration() {
        let read = |file: &str| -> Value {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
        };
        let schema = read("envoy-configs/native/schema.json");
        assert_eq!(schema["additionalProperties"], false);
        let error = serde_json::from_str::<Config>(r#"{"__unknown": 0}"#).unwrap_err().to_string();
        let (_, known) = error.split_once("expected").unwrap();
        let known: BTreeSet<&str> = known.split('`').skip(1).step_by(2).collect();
        let keys = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(known, keys, "`cargo xtask charts --write` makes the schema again");
        let chart = read("charts/glacis/values.schema.json");
        for (name, definition) in schema["definitions"].as_object().unwrap() {
            let text = definition.to_string();
            let of_chart = text.replace("#/definitions/", "#/definitions/extProc");
            let expected = chart["definitions"][format!("extProc{name}")].to_string();
            assert_eq!(of_chart, expected, "{name}: `cargo xtask charts --write` makes it again");
        }
    }

    #[test]
    fn what_is_refused() {
        for (text, words) in [
            ("{}", "rules: there are no rules"),
            (r#"{"crs":"a","rule":[]}"#, "rule"),
            (r#"{"directives":"a","file":"b"}"#, "file: the other keys"),
            (r#"{"file":"/nowhere/glacis.yaml"}"#, "/nowhere/glacis.yaml"),
            (r#"{"directives":"a","late":"fail"}"#, "late (profile default): "),
            (r#"{"directives":"a","evaluation":"out_of_band"}"#, "evaluation (profile default): "),
            (
                r#"{"directives":"a","profiles":{"b":{"late":"fail"}}}"#,
                "late (profile b): a filter within Envoy",
            ),
            (r#"{"directives":"a","audit":{"otlp":true}}"#, "audit.otlp: "),
            (r#"{"directives":"a","audit":{"files_max":0}}"#, "audit.files_max: "),
            (r#"{"directives":"a","max_streams":0}"#, "max_streams: "),
            (r#"{"directives":"a","client_share_percent":101}"#, "client_share_percent: "),
            (r#"{"directives":"a","evaluation_queue_max":1048577}"#, "evaluation_queue_max: "),
            (r#"{"directives":"a","paranoia":5}"#, "paranoia: "),
        ] {
            let refused = Config::read(text.as_bytes()).unwrap_err();
            assert!(refused.contains(words), "{text}: {refused}");
        }
        assert!(Config::read(b"\xff").is_err());
    }

    #[test]
    fn what_envoy_makes_of_a_struct_is_read() {
        // Numbers of a `google.protobuf.Struct` are floating point.
        let text = r#"{"directives":"a","deadline_ms":0,"profiles":{"api":{"paranoia":2}}}"#;
        let config = Config::read(text.as_bytes()).unwrap();
        assert_eq!(config.deadline_ms, 0);
        assert_eq!(config.keys_of("api").paranoia, Some(2));
    }
}

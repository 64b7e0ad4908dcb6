//! The key `openapi` of a profile, and the rules that it stands for.

use std::path::{Path, PathBuf};

use glacis_rules::{OpenApiAction, OpenApiRules};
use serde::Deserialize;

/// A document that requests are compared with, and what is done with those that differ.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct OpenApiConfig {
    pub document: Option<PathBuf>,
    pub base_path: Option<String>,
    pub action: Conformance,
    pub unknown_paths: Option<Conformance>,
    pub methods: Option<Conformance>,
    pub media_types: Option<Conformance>,
    pub unknown_parameters: Option<Conformance>,
    pub parameters: Option<Conformance>,
    pub bodies: Option<Conformance>,
    pub limits: Option<Conformance>,
}

/// What is done with requests that differ from a document.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Conformance {
    #[default]
    Block,
    Report,
    Ignore,
}

impl From<Conformance> for OpenApiAction {
    fn from(conformance: Conformance) -> Self {
        match conformance {
            Conformance::Block => Self::Block,
            Conformance::Report => Self::Report,
            Conformance::Ignore => Self::Ignore,
        }
    }
}

impl OpenApiConfig {
    /// What makes no sense, as key and message.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_plain = |text: &str| !text.contains(['"', '\\', '\n', '\r']);
        if !self.document.as_deref().is_none_or(|path| path.to_str().is_some_and(is_plain)) {
            let message = "write a path without quotation marks, backslashes and line breaks";
            return Some(("openapi.document", message));
        }
        let is_path = |path: &String| path.starts_with('/') && is_plain(path);
        (!self.base_path.as_ref().is_none_or(is_path)).then_some((
            "openapi.base_path",
            "write a path such as /api, or null for that of `servers`",
        ))
    }

    /// Makes paths relative to `folder`.
    pub(crate) fn resolve(&mut self, folder: &Path) {
        if let Some(document) = &mut self.document {
            *document = folder.join(&*document);
        }
    }

    /// The document and its rules as SecLang; nothing without a document.
    pub(crate) fn directives(&self) -> String {
        let Some(document) = &self.document else { return String::new() };
        let own = [
            self.unknown_paths,
            self.methods,
            self.media_types,
            self.unknown_parameters,
            self.parameters,
            self.bodies,
            self.limits,
        ];
        let actions = own.map(|own| own.unwrap_or(self.action).into());
        let base_path = self.base_path.as_deref();
        OpenApiRules { document, base_path, actions }.directives()
    }
}

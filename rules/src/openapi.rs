//! The rules on how a request differs from an OpenAPI document.

use core::fmt::Write as _;
use std::path::Path;

/// An OpenAPI document, and what is done with requests that differ from it.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiRules<'a> {
    /// The file.
    pub document: &'a Path,
    /// The path before all paths of the document; that of its `servers` where there is none.
    pub base_path: Option<&'a str>,
    /// What is done with each kind of difference, in the order of [`OpenApiRules::KINDS`].
    pub actions: [OpenApiAction; 7],
}

/// What is done with a request that differs from a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenApiAction {
    /// The request is blocked.
    #[default]
    Block,
    /// The rule matches and is logged.
    Report,
    /// There is no rule.
    Ignore,
}

impl OpenApiRules<'_> {
    /// The kinds of differences: the id of the rule, the member of `OPENAPI`, the status and the message.
    pub const KINDS: [(u32, &'static str, u16, &'static str); 7] = [
        (100_091, "unknown_path", 404, "the path is not declared"),
        (100_092, "method", 405, "the method is not declared"),
        (100_093, "media_type", 415, "the media type is not declared"),
        (100_094, "unknown_parameter", 400, "a parameter is not declared"),
        (100_095, "parameter", 400, "a parameter does not meet its schema"),
        (100_096, "body", 400, "the body does not meet its schema"),
        (100_097, "limit", 400, "the request is too large to be compared"),
    ];

    /// The document and its rules as SecLang.
    #[must_use]
    pub fn directives(&self) -> String {
        let base_path = self.base_path.map(|path| format!(" \"{path}\"")).unwrap_or_default();
        let document = self.document.display();
        // Bodies have to be there for the comparison, whatever other rules want.
        let mut text =
            format!("SecRequestBodyAccess On\nSecOpenApiDocument \"{document}\"{base_path}\n");
        for ((id, member, status, message), action) in Self::KINDS.into_iter().zip(self.actions) {
            let action = match action {
                OpenApiAction::Block => format!("deny,status:{status}"),
                OpenApiAction::Report => "pass".to_owned(),
                OpenApiAction::Ignore => continue,
            };
            // Writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "SecRule OPENAPI:{member} \"@unconditionalMatch\" \"id:{id},phase:2,{action},log,auditlog,\
                 t:none,msg:'OpenAPI: {message}',logdata:'%{{MATCHED_VAR}}',tag:'glacis/base',\
                 tag:'glacis/openapi',severity:'CRITICAL'\"",
            );
        }
        text
    }
}

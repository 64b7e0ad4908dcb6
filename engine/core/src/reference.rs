//! What of SecLang is supported, what is accepted without effect, and what is refused, each with its
//! reason: the tables that the compiler looks names up in, and the manual page made from them.
//!
//! The tables name everything of ModSecurity v3's reference manual and of Coraza.

use core::fmt::Write as _;

use crate::{
    suggestion, transform,
    variable::{Kind, Variable},
};

/// How a name is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Support {
    /// It does what the manual says.
    Full,
    /// It is accepted and changes nothing, for this reason.
    NoEffect(&'static str),
    /// As [`Self::NoEffect`] with this argument, and refused with any other.
    Only(&'static str, &'static str),
    /// The ruleset is refused, for this reason.
    Refused(&'static str),
}

/// A row of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The name as manuals write it.
    pub(crate) name: &'static str,
    pub(crate) support: Support,
    /// What it does, or what is different here; may be empty.
    pub(crate) note: &'static str,
}

const fn full(name: &'static str, note: &'static str) -> Entry {
    Entry { name, support: Support::Full, note }
}

const fn no_effect(name: &'static str, why: &'static str) -> Entry {
    Entry { name, support: Support::NoEffect(why), note: "" }
}

const fn off_only(name: &'static str) -> Entry {
    Entry { name, support: Support::Only("Off", "it is not supported"), note: "" }
}

const fn only(name: &'static str, value: &'static str, why: &'static str) -> Entry {
    Entry { name, support: Support::Only(value, why), note: "" }
}

const fn refused(name: &'static str, why: &'static str) -> Entry {
    Entry { name, support: Support::Refused(why), note: "" }
}

/// `: did you mean …?` with the nearest name of a table that has an effect, or nothing.
pub(crate) fn did_you_mean(table: &'static [Entry], prefix: &str, name: &str) -> String {
    let refused = |entry: &&Entry| matches!(entry.support, Support::Refused(_));
    let known = table.iter().filter(|entry| !refused(entry)).map(|entry| entry.name);
    suggestion::did_you_mean(name, prefix, known)
}

/// The row of a name, whatever its case.
pub(crate) fn find(table: &[Entry], name: &str) -> Option<Entry> {
    table.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)).copied()
}

const AUDIT: &str = "the host writes audit records as JSON lines; see its configuration";
const DEBUG: &str = "the host logs; see its configuration";
const MEMORY: &str = "bodies are inspected in memory, up to their limits";
const LINEAR: &str = "patterns are matched in linear time and need no match limit";
const CONNECTIONS: &str = "connections are Envoy's; use its limits";
const HASHES: &str = "links are not signed, since responses are not changed";
const DECOMPRESSION: &str = "Of Glacis: `On`, the default, inspects what gzip, deflate, br and zstd bodies decode to; \
                             `Off`, for applications that do not decode, makes them a `REQBODY_ERROR`.";
const RESPONSE_DECOMPRESSION: &str = "Of Glacis: `On`, the default, inspects what gzip, deflate, br and zstd bodies of responses decode to, if rules \
     inspect responses at all; `Off` inspects them as they are sent.";
const STEPS: &str = "Of Glacis: work that rules may do for one request, in steps of 64 bytes or less. At the \
                     limit `MSC_STEPS_LIMIT_EXCEEDED` is 1, which only phase 5 can see.";
const MIME_TYPES: &str = "The first one takes the place of `text/plain text/html`, others add.";
const REMOTE: &str = "rules come from files; fetch them beforehand";

/// Directives.
pub(crate) const DIRECTIVES: &[Entry] = &[
    full("Include", "Patterns such as `rules/*.conf` are allowed."),
    full("IncludeOptional", "As `Include`; no file need match."),
    full("SecAction", ""),
    full("SecArgumentSeparator", ""),
    full(
        "SecArgumentsLimit",
        "For query string and body together. Of a query string no more than 1000 are kept (`limits.query_arguments_max`).",
    ),
    full("SecAuditEngine", "Where it is not written, requests that are refused are recorded."),
    no_effect("SecAuditLog", AUDIT),
    no_effect("SecAuditLog2", AUDIT),
    no_effect("SecAuditLogDirMode", AUDIT),
    no_effect("SecAuditLogFileMode", AUDIT),
    no_effect("SecAuditLogFormat", "audit records are JSON lines; the host says of which shape"),
    full("SecAuditLogParts", "`AHZ` by default; see the reference of the audit log."),
    no_effect("SecAuditLogPrefix", AUDIT),
    full("SecAuditLogRelevantStatus", ""),
    no_effect("SecAuditLogStorageDir", AUDIT),
    no_effect(
        "SecAuditLogType",
        "audit records are lines of one stream; see the host's configuration",
    ),
    no_effect("SecCacheTransformations", "what transformations make of a value is always kept"),
    refused("SecChrootDir", "it is the container that confines the process"),
    full("SecCollectionTimeout", "Seconds from the last change on; 3600 by default."),
    full("SecComponentSignature", ""),
    off_only("SecConnEngine"),
    refused("SecConnReadStateLimit", CONNECTIONS),
    refused("SecConnWriteStateLimit", CONNECTIONS),
    off_only("SecContentInjection"),
    only("SecCookieFormat", "0", "cookies of version 0 are the only ones in use"),
    refused("SecCookieV0Separator", "cookies are separated by semicolons"),
    no_effect("SecDataDir", MEMORY),
    refused("SecDataset", "datasets are not supported; use pmFromFile or ipMatchFromFile"),
    no_effect("SecDebugLog", DEBUG),
    no_effect("SecDebugLogLevel", DEBUG),
    full("SecDefaultAction", ""),
    off_only("SecDisableBackendCompression"),
    no_effect("SecGeoLookupDb", "the host answers look-ups, from tables of its own"),
    full(
        "SecGraphqlPath",
        "Of Glacis: paths on which GraphQL is served; one that ends in `*` stands for all that begin so. Values in documents are \
         arguments there, and `GRAPHQL` says what documents come to.",
    ),
    full(
        "SecGrpcDescriptorSet",
        "Of Glacis: a file that `protoc --descriptor_set_out --include_imports` writes. Arguments of calls of its methods \
         have the names of fields.",
    ),
    no_effect("SecGsbLookupDb", "the host answers look-ups, from tables of its own"),
    refused("SecGuardianLog", "no program is started to read it"),
    off_only("SecHashEngine"),
    refused("SecHashKey", HASHES),
    refused("SecHashMethodPm", HASHES),
    refused("SecHashMethodRx", HASHES),
    refused("SecHashParam", HASHES),
    no_effect("SecHttpBlKey", "the host answers look-ups, from tables of its own"),
    only("SecIgnoreRuleCompilationErrors", "Off", "a ruleset with an error is refused as a whole"),
    off_only("SecInterceptOnError"),
    full("SecMarker", ""),
    full(
        "SecNestedDecoding",
        "Of Glacis: `On` shows rules what arguments and cookies hold that are base64, JSON or XML as a whole, two \
         levels deep, as further values of the same name. `Off` is the default; the defaults of Glacis switch it on.",
    ),
    full(
        "SecOpenApiDocument",
        "Of Glacis: an OpenAPI document that requests are compared with, and optionally the path before all of its paths. \
         `OPENAPI` holds how a request differs from it.",
    ),
    full(
        "SecPatternLimitAction",
        "Of Glacis: what becomes of a request for which a pattern has reached its limit of steps. `Reject` with 400, \
         or 500 for a response, the default, or `ProcessPartial`.",
    ),
    no_effect("SecPcreMatchLimit", LINEAR),
    no_effect("SecPcreMatchLimitRecursion", LINEAR),
    refused("SecRemoteRules", REMOTE),
    refused("SecRemoteRulesFailAction", REMOTE),
    full("SecRequestBodyAccess", ""),
    full("SecRequestBodyDecompression", DECOMPRESSION),
    no_effect("SecRequestBodyInMemoryLimit", MEMORY),
    full("SecRequestBodyJsonDepthLimit", ""),
    full("SecRequestBodyLimit", ""),
    full("SecRequestBodyLimitAction", ""),
    full("SecRequestBodyNoFilesLimit", ""),
    full("SecResponseBodyAccess", ""),
    full("SecResponseBodyDecompression", RESPONSE_DECOMPRESSION),
    full("SecResponseBodyLimit", ""),
    full("SecResponseBodyLimitAction", ""),
    full("SecResponseBodyMimeType", MIME_TYPES),
    full("SecResponseBodyMimeTypesClear", ""),
    full("SecRule", ""),
    full("SecRuleEngine", ""),
    refused("SecRuleInheritance", "there is one context; give each route rules of its own"),
    full(
        "SecRuleMoveSetvar",
        "Of Glacis: `SecRuleMoveSetvar ID tx.a tx.b` has rule `ID` set `tx.b` where it says `tx.a`, wherever the directive \
         stands.",
    ),
    no_effect("SecRulePerfTime", "no times of rules are recorded; `glacis profile` measures them"),
    full("SecRuleRemoveById", ""),
    full("SecRuleRemoveByMsg", ""),
    full("SecRuleRemoveByTag", "The argument is a pattern, found anywhere in the tag."),
    refused("SecRuleScript", "no scripts are run; write a SecRule"),
    full("SecRuleStepsLimit", STEPS),
    full(
        "SecRuleStepsLimitAction",
        "Of Glacis: `Reject` with 503, the default, or `ProcessPartial`.",
    ),
    full("SecRuleUpdateActionById", ""),
    full("SecRuleUpdateTargetById", ""),
    full("SecRuleUpdateTargetByMsg", ""),
    full("SecRuleUpdateTargetByTag", ""),
    no_effect("SecRxPreFilter", LINEAR),
    no_effect("SecSensorId", "the host names itself in its audit records"),
    no_effect("SecServerSignature", "the host's answers carry no server signature"),
    no_effect("SecStatusEngine", "nothing is reported to anybody"),
    off_only("SecStreamInBodyInspection"),
    off_only("SecStreamOutBodyInspection"),
    no_effect("SecTmpDir", MEMORY),
    no_effect("SecTmpSaveUploadedFiles", "uploads are inspected in memory and not kept"),
    refused("SecUnicodeCodePage", "write SecUnicodeMapFile FILE CODEPAGE"),
    refused("SecUnicodeMap", "write SecUnicodeMapFile FILE CODEPAGE"),
    full("SecUnicodeMapFile", "For `%uHHHH` in `urlDecodeUni`."),
    no_effect("SecUploadDir", MEMORY),
    full("SecUploadFileLimit", "100 by default."),
    no_effect("SecUploadFileMode", MEMORY),
    no_effect("SecUploadKeepFiles", "uploads are inspected in memory and not kept"),
    full("SecWebAppId", "The value of WEBAPPID; collections are not kept apart by it."),
    no_effect("SecXmlExternalEntity", "external entities are never loaded"),
];

const WITHIN: &str =
    "A number may begin within another one; `\\b` in the pattern keeps to whole ones.";
const HOST: &str = "Asks the host; never matches where the host has no answer.";

/// Operators.
pub(crate) const OPERATORS: &[Entry] = &[
    full("beginsWith", ""),
    full("contains", ""),
    full("containsWord", ""),
    full("detectSQLi", ""),
    full("detectXSS", ""),
    full("endsWith", ""),
    full("eq", ""),
    refused("fuzzyHash", "fuzzy hashes are not supported"),
    full("ge", ""),
    full("geoLookup", HOST),
    refused("gsbLookup", "the engine makes no look-ups"),
    full("gt", ""),
    refused("inspectFile", "the engine starts no programs"),
    full("ipMatch", ""),
    full("ipMatchF", ""),
    refused("ipMatchFromDataset", "datasets are not supported; use ipMatchFromFile"),
    full("ipMatchFromFile", ""),
    full("le", ""),
    full("lt", ""),
    full("noMatch", ""),
    full("pm", ""),
    full("pmf", ""),
    refused("pmFromDataset", "datasets are not supported; use pmFromFile"),
    full("pmFromFile", ""),
    full("rbl", HOST),
    refused("restpath", "it is not supported; use rx"),
    refused("rsub", "it changes the body, which is not supported"),
    full("rx", "A pattern with macros is compiled while requests are evaluated."),
    full("rxGlobal", "Captures all matches, up to ten groups in all."),
    full("streq", ""),
    full("strmatch", "As `contains`."),
    full("unconditionalMatch", ""),
    full("validateByteRange", ""),
    refused("validateDTD", "XML is not validated; look at elements by XML:/path"),
    refused("validateHash", "it is not supported"),
    full("validateNid", "As in Coraza: `cl` (RUT) or `us` (SSN), then a pattern."),
    refused("validateSchema", "XML is not validated; look at elements by XML:/path"),
    full("validateUrlEncoding", ""),
    full("validateUtf8Encoding", ""),
    full("verifyCC", WITHIN),
    full("verifyCPF", WITHIN),
    full("verifySSN", WITHIN),
    full("verifySVNR", WITHIN),
    full("within", ""),
];

const STORE: &str = "Outlives its transaction only where the host keeps collections.";

/// Actions.
pub(crate) const ACTIONS: &[Entry] = &[
    full("accuracy", ""),
    full("allow", "Also `allow:phase` and `allow:request`."),
    refused("append", "responses are not changed"),
    full("auditlog", ""),
    full("block", ""),
    full("capture", ""),
    full(
        "chain",
        "One that is not finished at the end of its file never matches, and is warned of.",
    ),
    full("ctl", "See below."),
    full("deny", ""),
    full("deprecatevar", STORE),
    full("drop", ""),
    refused("exec", "the engine starts no programs"),
    full("expirevar", STORE),
    full("id", "Required in a SecRule; a SecAction without one is warned of."),
    full("initcol", STORE),
    full("log", ""),
    full("logdata", ""),
    full("maturity", ""),
    full("msg", ""),
    full("multiMatch", ""),
    full("noauditlog", ""),
    full("nolog", ""),
    full("pass", ""),
    refused("pause", "a request is never delayed; use the rate limiter"),
    full("phase", ""),
    refused("prepend", "responses are not changed"),
    refused("proxy", "routing is Envoy's"),
    full("redirect", ""),
    full("rev", ""),
    full("sanitiseArg", "Masked in audit records."),
    full("sanitiseMatched", "Masked in audit records."),
    full("sanitiseMatchedBytes", "The whole value is masked."),
    full("sanitiseRequestHeader", "Masked in audit records."),
    full("sanitiseResponseHeader", "Masked in audit records."),
    full("setenv", "Sets a member of `ENV`, for this transaction."),
    full("setrsc", "As `initcol:resource=`."),
    full("setsid", "As `initcol:session=`, and sets `SESSIONID`."),
    full("setuid", "As `initcol:user=`, and sets `USERID`."),
    full("setvar", ""),
    full("severity", ""),
    full("skip", ""),
    full("skipAfter", ""),
    full("status", ""),
    full("t", "See the transformations."),
    full("tag", ""),
    full("ver", ""),
    no_effect("xmlns", "prefixes are not looked at in XPath"),
];

/// What `ctl` can change.
pub(crate) const CTLS: &[Entry] = &[
    full("auditEngine", ""),
    full("auditLogParts", "`+E`, `-E`, or all parts anew."),
    no_effect("debugLogLevel", DEBUG),
    full("forceRequestBodyVariable", ""),
    no_effect("forceResponseBodyVariable", "RESPONSE_BODY is filled for the media types inspected"),
    refused("hashEnforcement", HASHES),
    refused("hashEngine", HASHES),
    full("requestBodyAccess", ""),
    full("requestBodyLimit", ""),
    full(
        "requestBodyProcessor",
        "URLENCODED, MULTIPART, JSON, XML or RAW; JSONLINES, TEXT, GRPC and PROTOBUF are ours.",
    ),
    full("responseBodyAccess", ""),
    full("responseBodyLimit", ""),
    refused("responseBodyProcessor", "response bodies are looked at as they are"),
    full("ruleEngine", ""),
    full("ruleRemoveById", ""),
    full("ruleRemoveByMsg", ""),
    full("ruleRemoveByTag", "The argument is a pattern, found anywhere in the tag."),
    full("ruleRemoveTargetById", ""),
    full("ruleRemoveTargetByMsg", ""),
    full("ruleRemoveTargetByTag", "The argument is a pattern, found anywhere in the tag."),
];

const RESPONSES: &str = "response bodies are looked at as they are; use RESPONSE_BODY";

/// Variables that are refused; those that are supported are [`Variable::ALL`].
pub(crate) const REFUSED_VARIABLES: &[Entry] = &[
    refused("ARGS_PATH", "paths have no parameters here; use REQUEST_FILENAME"),
    refused(
        "FILES_TMPNAMES",
        "uploads are inspected in memory, there are no temporary files; use FILES_TMP_CONTENT",
    ),
    refused("JSON", "members of JSON bodies are ARGS, with names such as json.list.array_0"),
    refused("REQUEST_XML", "use XML"),
    refused("RES_BODY_ERROR", RESPONSES),
    refused("RES_BODY_ERROR_MSG", RESPONSES),
    refused("RES_BODY_PROCESSOR", RESPONSES),
    refused("RES_BODY_PROCESSOR_ERROR", RESPONSES),
    refused("RES_BODY_PROCESSOR_ERROR_MSG", RESPONSES),
    refused("RESPONSE_ARGS", RESPONSES),
    refused("RESPONSE_XML", RESPONSES),
    refused("STATUS", "use RESPONSE_STATUS"),
    refused("WEBSERVER_ERROR_LOG", "the engine reads no log"),
];

/// The manual page: everything in the tables, in Markdown.
///
/// ```
/// let page = glacis_engine::reference();
/// assert!(page.contains("| `SecRuleEngine` | supported |"));
/// assert!(page.contains("| `SecChrootDir` | refused | It is the container that confines"));
/// ```
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "# SecLang reference\n\n\
         This page is made from the engine's own tables; do not edit it.\n\
         It names everything of ModSecurity v3's reference manual and of Coraza, and says what is \
         different here.\n\
         What is refused makes the ruleset as a whole refused, with file and line. What has no effect \
         is named in a warning.\n",
    );
    section(&mut page, "Directives", DIRECTIVES);
    variables(&mut page);
    section(&mut page, "Operators", OPERATORS);
    transformations(&mut page);
    section(&mut page, "Actions", ACTIONS);
    section(&mut page, "ctl", CTLS);
    page
}

fn section(page: &mut String, title: &str, table: &[Entry]) {
    let _ = writeln!(page, "\n## {title}\n\n| name | treatment | remark |\n|---|---|---|");
    for entry in table {
        row(page, entry);
    }
}

fn row(page: &mut String, entry: &Entry) {
    let (treatment, remark) = match entry.support {
        Support::Full => ("supported".to_owned(), entry.note.to_owned()),
        Support::NoEffect(why) => ("no effect".to_owned(), sentence(why)),
        Support::Only(value, why) => (format!("only `{value}`"), sentence(why)),
        Support::Refused(why) => ("refused".to_owned(), sentence(why)),
    };
    let _ = writeln!(page, "| `{}` | {treatment} | {remark} |", entry.name);
}

fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

fn variables(page: &mut String) {
    page.push_str(
        "\n## Variables\n\n| name | treatment | from phase | remark |\n|---|---|---|---|\n",
    );
    for variable in Variable::ALL.iter().filter(|variable| variable.named() == **variable) {
        let kind = match variable.kind() {
            Kind::Scalar => "one value",
            Kind::Collection => "collection",
        };
        let (name, phase, doc) = (variable.name(), variable.first_phase(), variable.doc());
        let _ = writeln!(page, "| `{name}` | {kind} | {phase} | {doc} |");
    }
    for entry in REFUSED_VARIABLES {
        if let Support::Refused(why) = entry.support {
            let _ = writeln!(page, "| `{}` | refused | | {} |", entry.name, sentence(why));
        }
    }
}

fn transformations(page: &mut String) {
    page.push_str("\n## Transformations\n\n| name | also written |\n|---|---|\n");
    let _ = writeln!(page, "| `none` | |");
    for (name, transformation) in transform::TABLE {
        if *name != transformation.name() {
            continue;
        }
        let others =
            transform::TABLE.iter().filter(|(other, of)| of == transformation && other != name);
        let others: Vec<String> = others.map(|(other, _)| format!("`{other}`")).collect();
        let _ = writeln!(page, "| `{name}` | {} |", others.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, Limits, NoFiles, Program};

    /// What a ruleset is refused for; empty when it is accepted.
    fn faults(text: String) -> String {
        let input = Input::Text { name: "test".to_owned(), text };
        match Program::build(&[input], &NoFiles, Limits::default()) {
            Ok(_) => String::new(),
            Err(errors) => errors.to_string(),
        }
    }

    /// The compiler knows what a table says is supported (though the argument here may be wrong), and
    /// refuses the rest with the reason given.
    #[track_caller]
    fn check(table: &[Entry], unknown: &str, ruleset: impl Fn(&str, &str) -> String) {
        for entry in table {
            let name = entry.name;
            let seen = faults(ruleset(name, "x"));
            match entry.support {
                Support::Full | Support::NoEffect(_) => {
                    assert!(!seen.contains(unknown), "{name}: {seen}");
                    assert!(!seen.contains("refused"), "{name}: {seen}");
                }
                Support::Only(value, why) => {
                    assert!(seen.contains(why), "{name}: {seen}");
                    assert_eq!(faults(ruleset(name, value)), "", "{name}");
                }
                Support::Refused(why) => assert!(seen.contains(why), "{name}: {seen}"),
            }
        }
        assert!(faults(ruleset("nonsense", "x")).contains(unknown));
        assert!(table.is_sorted_by_key(|entry| entry.name.to_ascii_lowercase()), "{unknown}");
    }

    #[test]
    fn tables_and_compiler_agree() {
        check(DIRECTIVES, "there is no directive", |name, value| match name {
            "SecResponseBodyMimeTypesClear" => name.to_owned(),
            _ => format!("{name} {value}"),
        });
        check(OPERATORS, "there is no operator", |name, value| {
            format!("SecRule ARGS \"@{name} {value}\" \"id:1,phase:1,pass\"")
        });
        check(ACTIONS, "there is no action", |name, value| {
            format!("SecAction \"id:1,phase:1,pass,{name}:{value}\"")
        });
        check(CTLS, "there is no ctl:", |name, value| {
            format!("SecAction \"id:1,phase:1,pass,ctl:{name}={value}\"")
        });
        check(REFUSED_VARIABLES, "there is no such variable", |name, _| {
            format!("SecRule {name} \"@rx a\" \"id:1,phase:1,pass\"")
        });
    }
}

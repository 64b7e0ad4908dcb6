//! The variables of SecLang: one table, from which names, kinds and documentation come.
//!
//! Source: ModSecurity v3 reference manual, "Variables"; Coraza's `variables` package.

use crate::{
    reference::{self, Support},
    suggestion::did_you_mean,
};

/// Whether a variable has one value or members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value. A selector is an error.
    Scalar,
    /// Members with names. `VARIABLE:name` and `VARIABLE:/pattern/` select among them.
    Collection,
}

/// How the values of a variable in phase 2 relate to those that it has without the request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnderBody {
    /// They are the same.
    Same,
    /// They are the same, and more may follow them.
    Grows,
    /// They may be others.
    Varies,
}

macro_rules! variables {
    ($($variant:ident $name:literal $kind:ident $phase:literal $under_body:ident $doc:literal;)*) => {
        /// A variable that rules can look at.
        ///
        /// ```
        /// use glacis_engine::{Kind, Variable};
        ///
        /// let body = Variable::from_name("request_body").expect("ModSecurity has it");
        /// assert_eq!((body.name(), body.kind()), ("REQUEST_BODY", Kind::Scalar));
        /// assert_eq!(body.first_phase(), 2);
        /// // Why ModSecurity's others are not among them:
        /// assert_eq!(Variable::from_name("WEBSERVER_ERROR_LOG"), None);
        /// assert_eq!(Variable::refusal("WEBSERVER_ERROR_LOG"), Some("the engine reads no log"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs, reason = "the table says it, and Variable::doc returns it")]
        pub enum Variable { $($variant),* }

        impl Variable {
            /// Every variable that is supported, in the order of the manual.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in capitals, as the manual writes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Whether it has one value or members.
            #[must_use]
            pub const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind),* }
            }

            /// The first phase in which it has its value.
            #[must_use]
            pub const fn first_phase(self) -> u8 {
                match self { $(Self::$variant => $phase),* }
            }

            /// What the request's body, and the trailers behind it, do to its values.
            pub(crate) const fn under_body(self) -> UnderBody {
                match self { $(Self::$variant => UnderBody::$under_body),* }
            }

            /// What it holds, in a sentence.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc),* }
            }

            /// The variable of that name, whatever its case.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                $(if name.eq_ignore_ascii_case($name) { return Some(Self::$variant); })*
                Self::by_other_name(name)
            }
        }
    };
}

variables! {
    Args "ARGS" Collection 1 Grows "Arguments of query string and body.";
    ArgsCombinedSize "ARGS_COMBINED_SIZE" Scalar 1 Varies "Bytes in all names and values of ARGS.";
    ArgsGet "ARGS_GET" Collection 1 Same "Arguments of the query string.";
    ArgsGetNames "ARGS_GET_NAMES" Collection 1 Same "Names of the arguments of the query string.";
    ArgsNames "ARGS_NAMES" Collection 1 Grows "Names of the arguments.";
    ArgsPost "ARGS_POST" Collection 2 Grows "Arguments of the body.";
    ArgsPostNames "ARGS_POST_NAMES" Collection 2 Grows "Names of the arguments of the body.";
    AuthType "AUTH_TYPE" Scalar 1 Same "The scheme named in the Authorization header.";
    Duration "DURATION" Scalar 1 Varies "Microseconds since the transaction began, as far as the host told.";
    Env "ENV" Collection 1 Varies "What setenv has set, and what the host has given; not the process's environment.";
    Files "FILES" Collection 2 Grows "Names of uploaded files as the client gave them, by form field.";
    FilesCombinedSize "FILES_COMBINED_SIZE" Scalar 2 Varies "Bytes in all uploaded files.";
    FilesNames "FILES_NAMES" Collection 2 Grows "Form fields that carry a file.";
    FilesSizes "FILES_SIZES" Collection 2 Grows "Bytes in each uploaded file, by form field.";
    FilesTmpContent "FILES_TMP_CONTENT" Collection 2 Grows "Content of uploaded files, by form field.";
    FullRequest "FULL_REQUEST" Scalar 2 Varies "Request line, headers and body.";
    FullRequestLength "FULL_REQUEST_LENGTH" Scalar 2 Varies "Bytes in FULL_REQUEST.";
    Geo "GEO" Collection 1 Varies "What @geoLookup has found: COUNTRY_CODE, COUNTRY_NAME and so on.";
    Global "GLOBAL" Collection 1 Varies "What rules have kept for everybody, once initcol has opened it.";
    Graphql "GRAPHQL" Collection 2 Varies "What the GraphQL documents of a request come to, with SecGraphqlPath: depth, aliases, root_fields, cost, directives, tokens, introspection, batch, malformed.";
    HighestSeverity "HIGHEST_SEVERITY" Scalar 1 Varies "Severity of the gravest match so far; 255 when none.";
    InboundDataError "INBOUND_DATA_ERROR" Scalar 2 Varies "1 when the request body was longer than its limit.";
    Ip "IP" Collection 1 Varies "What rules have kept for an address, once initcol has opened it.";
    MatchedVar "MATCHED_VAR" Scalar 1 Varies "The value that matched last, transformed.";
    MatchedVarName "MATCHED_VAR_NAME" Scalar 1 Varies "Where that value stood, such as ARGS:id.";
    MatchedVars "MATCHED_VARS" Collection 1 Varies "All values that the current chain has matched.";
    MatchedVarsNames "MATCHED_VARS_NAMES" Collection 1 Varies "Where those values stood.";
    ModsecBuild "MODSEC_BUILD" Scalar 1 Same "030014100: rules are read as by ModSecurity 3.0.14.";
    MscPcreError "MSC_PCRE_ERROR" Scalar 1 Varies "1 when a pattern with macros did not compile.";
    MscPcreLimitsExceeded "MSC_PCRE_LIMITS_EXCEEDED" Scalar 1 Varies "1 when a pattern with look-around reached its limit of steps.";
    MscStepsLimitExceeded "MSC_STEPS_LIMIT_EXCEEDED" Scalar 5 Varies "1 when rules took more steps than SecRuleStepsLimit.";
    MultipartBoundaryQuoted "MULTIPART_BOUNDARY_QUOTED" Scalar 2 Varies "1 when the boundary is quoted.";
    MultipartBoundaryWhitespace "MULTIPART_BOUNDARY_WHITESPACE" Scalar 2 Varies "1 when the boundary holds white space.";
    MultipartCrlfLfLines "MULTIPART_CRLF_LF_LINES" Scalar 2 Varies "1 when both line ends occur.";
    MultipartDataAfter "MULTIPART_DATA_AFTER" Scalar 2 Varies "1 when something but line ends follows the last boundary.";
    MultipartDataBefore "MULTIPART_DATA_BEFORE" Scalar 2 Varies "1 when something precedes the first boundary.";
    MultipartFileLimitExceeded "MULTIPART_FILE_LIMIT_EXCEEDED" Scalar 2 Varies "1 when there are more files than accepted.";
    MultipartFilename "MULTIPART_FILENAME" Collection 2 Grows "The filename attributes of the parts.";
    MultipartHeaderFolding "MULTIPART_HEADER_FOLDING" Scalar 2 Varies "1 when a part's header is folded.";
    MultipartInvalidHeaderFolding "MULTIPART_INVALID_HEADER_FOLDING" Scalar 2 Varies "1 when a part's header is folded wrongly.";
    MultipartInvalidPart "MULTIPART_INVALID_PART" Scalar 2 Varies "1 when a part is malformed.";
    MultipartInvalidQuoting "MULTIPART_INVALID_QUOTING" Scalar 2 Varies "1 when an attribute is quoted wrongly.";
    MultipartLfLine "MULTIPART_LF_LINE" Scalar 2 Varies "1 when a line ends without a carriage return.";
    MultipartMissingSemicolon "MULTIPART_MISSING_SEMICOLON" Scalar 2 Varies "1 when no semicolon precedes the boundary.";
    MultipartName "MULTIPART_NAME" Collection 2 Grows "The name attributes of the parts.";
    MultipartPartHeaders "MULTIPART_PART_HEADERS" Collection 2 Grows "Header lines of the parts, by part name.";
    MultipartStrictError "MULTIPART_STRICT_ERROR" Scalar 2 Varies "1 when any of the strict checks failed.";
    MultipartUnmatchedBoundary "MULTIPART_UNMATCHED_BOUNDARY" Scalar 2 Varies "1 when a line looks like a boundary but is none.";
    Openapi "OPENAPI" Collection 2 Varies "How a request differs from the OpenAPI document, with SecOpenApiDocument: unknown_path, method, media_type, unknown_parameter, parameter, body, limit.";
    OutboundDataError "OUTBOUND_DATA_ERROR" Scalar 4 Varies "1 when the response body was longer than its limit.";
    PathInfo "PATH_INFO" Scalar 1 Same "The path without query string, as REQUEST_FILENAME: a proxy has no script names.";
    QueryString "QUERY_STRING" Scalar 1 Same "What follows the question mark, not decoded.";
    RemoteAddr "REMOTE_ADDR" Scalar 1 Same "Address of the client.";
    RemoteHost "REMOTE_HOST" Scalar 1 Same "Address of the client: names are not looked up.";
    RemotePort "REMOTE_PORT" Scalar 1 Same "Port of the client.";
    RemoteUser "REMOTE_USER" Scalar 1 Varies "The user whom the host names; otherwise the name in an Authorization header of scheme Basic, which nobody has verified.";
    ReqbodyError "REQBODY_ERROR" Scalar 2 Varies "1 when the body processor failed.";
    ReqbodyErrorMsg "REQBODY_ERROR_MSG" Scalar 2 Varies "Why it failed.";
    ReqbodyProcessor "REQBODY_PROCESSOR" Scalar 1 Same "URLENCODED, MULTIPART, JSON, JSONLINES, XML, TEXT, GRPC, PROTOBUF, RAW or empty.";
    ReqbodyProcessorError "REQBODY_PROCESSOR_ERROR" Scalar 2 Varies "1 when the body processor failed.";
    ReqbodyProcessorErrorMsg "REQBODY_PROCESSOR_ERROR_MSG" Scalar 2 Varies "Why it failed.";
    RequestBasename "REQUEST_BASENAME" Scalar 1 Same "The last part of REQUEST_FILENAME.";
    RequestBody "REQUEST_BODY" Scalar 2 Varies "The body as it was sent: forms, JSON and XML, and others with forceRequestBodyVariable.";
    // Behind the other of that name, which is the one that the name stands for until a rule is compiled.
    RequestBodyAsSent "REQUEST_BODY" Scalar 2 Varies "REQUEST_BODY with JSON and XML, for the rules that see those.";
    RequestBodyLength "REQUEST_BODY_LENGTH" Scalar 2 Varies "Bytes in the request body that were received for inspection.";
    RequestCookies "REQUEST_COOKIES" Collection 1 Same "Cookies.";
    RequestCookiesNames "REQUEST_COOKIES_NAMES" Collection 1 Same "Names of the cookies.";
    RequestFilename "REQUEST_FILENAME" Scalar 1 Same "The path without query string, percent-decoded once as in ModSecurity 3 and Coraza.";
    RequestHeaders "REQUEST_HEADERS" Collection 1 Grows "Request headers.";
    RequestHeadersNames "REQUEST_HEADERS_NAMES" Collection 1 Grows "Names of the request headers.";
    RequestLine "REQUEST_LINE" Scalar 1 Same "Method, URI and protocol.";
    RequestMethod "REQUEST_METHOD" Scalar 1 Same "The method.";
    RequestProtocol "REQUEST_PROTOCOL" Scalar 1 Same "The protocol, such as HTTP/1.1.";
    RequestUri "REQUEST_URI" Scalar 1 Same "Path and query string, without scheme and host.";
    RequestUriRaw "REQUEST_URI_RAW" Scalar 1 Same "The URI as received.";
    Resource "RESOURCE" Collection 1 Varies "What rules have kept for a resource, once initcol has opened it.";
    ResponseBody "RESPONSE_BODY" Scalar 4 Varies "The response body, for the media types inspected.";
    ResponseContentLength "RESPONSE_CONTENT_LENGTH" Scalar 3 Varies "Bytes in the response body that were received for inspection.";
    ResponseContentType "RESPONSE_CONTENT_TYPE" Scalar 3 Varies "Media type of the response.";
    ResponseHeaders "RESPONSE_HEADERS" Collection 3 Varies "Response headers.";
    ResponseHeadersNames "RESPONSE_HEADERS_NAMES" Collection 3 Varies "Names of the response headers.";
    ResponseProtocol "RESPONSE_PROTOCOL" Scalar 3 Varies "Protocol of the response.";
    ResponseStatus "RESPONSE_STATUS" Scalar 3 Varies "Status of the response.";
    Rule "RULE" Collection 1 Varies "id, rev, severity, logdata and msg of the current rule.";
    ServerAddr "SERVER_ADDR" Scalar 1 Same "Address on which the request arrived.";
    ServerName "SERVER_NAME" Scalar 1 Same "The host named in the request.";
    ServerPort "SERVER_PORT" Scalar 1 Same "Port on which the request arrived.";
    Session "SESSION" Collection 1 Varies "What rules have kept for a session, once initcol has opened it.";
    Sessionid "SESSIONID" Scalar 1 Varies "The key under which SESSION was opened.";
    StatusLine "STATUS_LINE" Scalar 3 Varies "Protocol and status of the response.";
    Time "TIME" Scalar 1 Same "Time of the request, hh:mm:ss in UTC.";
    TimeDay "TIME_DAY" Scalar 1 Same "Day of the month.";
    TimeEpoch "TIME_EPOCH" Scalar 1 Same "Seconds since 1970.";
    TimeHour "TIME_HOUR" Scalar 1 Same "Hour, 0 to 23, in UTC.";
    TimeMin "TIME_MIN" Scalar 1 Same "Minute.";
    TimeMon "TIME_MON" Scalar 1 Same "Month, 0 to 11.";
    TimeSec "TIME_SEC" Scalar 1 Same "Second.";
    TimeWday "TIME_WDAY" Scalar 1 Same "Day of the week, 0 for Sunday.";
    TimeYear "TIME_YEAR" Scalar 1 Same "Year.";
    Tx "TX" Collection 1 Varies "What rules have set in this transaction.";
    UniqueId "UNIQUE_ID" Scalar 1 Same "The host's id of the request.";
    UrlencodedError "URLENCODED_ERROR" Scalar 1 Varies "1 when an argument has an invalid escape.";
    User "USER" Collection 1 Varies "What rules have kept for a user, once initcol has opened it.";
    Userid "USERID" Scalar 1 Varies "The key under which USER was opened.";
    Webappid "WEBAPPID" Scalar 1 Same "The argument of SecWebAppId.";
    Xml "XML" Collection 2 Grows "Text (XML:/*, also XML alone) and attributes (XML://@*) of an XML body.";
}

impl Variable {
    /// The variable of which this one is a form: itself for nearly all.
    #[must_use]
    pub(crate) const fn named(self) -> Self {
        match self {
            Self::RequestBodyAsSent => Self::RequestBody,
            other => other,
        }
    }

    /// Names that ModSecurity 3 has kept beside its own.
    fn by_other_name(name: &str) -> Option<Self> {
        let known = name.eq_ignore_ascii_case("MULTIPART_SEMICOLON_MISSING");
        known.then_some(Self::MultipartMissingSemicolon)
    }

    /// Why a variable of ModSecurity or Coraza that is not in the table is refused.
    #[must_use]
    pub fn refusal(name: &str) -> Option<&'static str> {
        match reference::find(reference::REFUSED_VARIABLES, name)?.support {
            Support::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Why a name is none of a variable: it is refused, or nobody knows it.
    pub(crate) fn unknown(name: &str, hint: &str) -> String {
        if let Some(why) = Self::refusal(name) {
            return why.to_owned();
        }
        let meant = did_you_mean(name, "", Self::ALL.iter().map(|variable| variable.name()));
        format!("there is no such variable{hint}{meant}")
    }
}

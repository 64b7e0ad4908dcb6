//! The limits of one transaction, in one place.
//!
//! Everything a request can make grow is bounded by a field of [`Limits`]. What happens at a limit is
//! said at the field; every limit that is hit can be seen by rules (through a variable) or in the
//! transaction's [`crate::Flags`].

use crate::collection::CollectionLimits;

/// The limits of one transaction. Sizes are bytes, the rest are counts.
///
/// Rules set some of them by directives, and have the last word.
///
/// ```
/// # use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
/// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
/// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
/// # let time = Duration::from_secs(1_700_000_000);
/// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
/// let text = "SecRuleEngine On\nSecRequestBodyLimit 1000";
/// let limits = Limits { arguments_max: 2, request_body_bytes_max: 5, ..Limits::default() };
/// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
/// let program = Program::build(&rules, &NoFiles, limits).expect("they compile");
/// assert_eq!(program.limits().request_body_bytes_max, 1_000);
/// // What is not kept is not inspected, and so it is refused.
/// let mut transaction = Transaction::new(Arc::new(program));
/// transaction.start(&start);
/// transaction.request_line(b"GET", b"/?a=1&b=2&c=3", b"HTTP/1.1");
/// let refusal = transaction.evaluate_request_headers().refusal().copied();
/// assert_eq!(refusal.map(|refusal| refusal.status), Some(400));
/// assert!(transaction.flags().arguments_dropped);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request body bytes inspected. `SecRequestBodyLimit` sets it; `SecRequestBodyLimitAction` says
    /// whether a longer body is refused with 413 or inspected up to here.
    pub request_body_bytes_max: usize,
    /// Request body bytes accepted, not counting files. `SecRequestBodyNoFilesLimit` sets it. A body with
    /// more is inspected like any other, and sets `REQBODY_ERROR`.
    pub request_body_no_files_bytes_max: usize,
    /// Request body bytes, not counting files, that are inspected where rules look on and cannot block: the verdict is
    /// the same, so that there is no reason to spend seconds on it. The rest sets `INBOUND_DATA_ERROR` and the flag
    /// `request_body`. A smaller [`Self::request_body_no_files_bytes_max`] is the limit for such bodies, too.
    pub observed_body_bytes_max: usize,
    /// Bytes that a compressed request body may decode to, for each byte of its own; 64 KiB are always
    /// allowed. Beyond it nothing is decoded, and `REQBODY_ERROR` and `INBOUND_DATA_ERROR` are set.
    /// What it decodes to is also under the limit of request bodies. 200 is what Apache's
    /// `DeflateInflateRatioLimit` allows.
    pub decoded_ratio_max: usize,
    /// Content codings, one over the other, that are undone. A body with more is not decoded, which
    /// sets `REQBODY_ERROR`.
    pub content_codings_max: usize,
    /// Response body bytes inspected. `SecResponseBodyLimit` sets it; `SecResponseBodyLimitAction` says
    /// whether a longer body is refused with 500 or inspected up to here, with `OUTBOUND_DATA_ERROR`.
    pub response_body_bytes_max: usize,
    /// Arguments kept of query string and body together. `SecArgumentsLimit` sets it. Further ones
    /// are not kept: in a body they set `REQBODY_ERROR`, in a query string the request is refused with
    /// status 400 (where rules may block); the flag `arguments_dropped` is set for both.
    pub arguments_max: usize,
    /// Arguments kept of a query string, values kept of what arguments and cookies hold (`SecNestedDecoding`), and
    /// documents and values kept of GraphQL requests: of each no more than `arguments_max` either. Further ones are as
    /// those beyond `arguments_max`; values that are held are inspected together as one without a name.
    pub query_arguments_max: usize,
    /// Members of each collection of which is kept, for each chain of transformations, which rules they may match. Of
    /// those behind them it is kept only where some rule may: it changes how long a request takes and how much memory,
    /// and no verdict.
    pub kept_members_max: usize,
    /// Nesting accepted in a JSON body. `SecRequestBodyJsonDepthLimit` sets it. A deeper body is an
    /// error of the body processor.
    pub json_depth_max: usize,
    /// Messages within messages accepted in a body of gRPC or protocol buffers. A deeper body is an error of the body
    /// processor. 100 is what parsers of protocol buffers accept.
    pub protobuf_depth_max: usize,
    /// Selection sets within selection sets, and lists and objects within each other, that are read of a GraphQL
    /// document. A deeper document is inspected as text, and sets `GRAPHQL:malformed`.
    pub graphql_depth_max: usize,
    /// Tokens read of all GraphQL documents of a request. A document with more is inspected as text, and sets
    /// `GRAPHQL:malformed`.
    pub graphql_tokens_max: usize,
    /// Nesting accepted in an XML body. A deeper body is an error of the body processor.
    pub xml_depth_max: usize,
    /// Text nodes and attributes kept of an XML body. A larger one is an error of the body processor.
    pub xml_nodes_max: usize,
    /// Elements read of an XML body, with text or without: for each, every path that rules look for is
    /// followed. More are an error of the body processor.
    pub xml_elements_max: usize,
    /// Headers kept of a request and of a response. Further ones are dropped and flagged, and such a
    /// request is refused with status 431 (where rules may block).
    pub headers_max: usize,
    /// Cookies kept. Further ones are dropped and flagged, and the request is refused with status 431
    /// (where rules may block).
    pub cookies_max: usize,
    /// Parts accepted in a multipart body. More are an error of the body processor.
    pub multipart_parts_max: usize,
    /// Files kept of a multipart body. `SecUploadFileLimit` sets it. More are an error of the body processor,
    /// and set `MULTIPART_FILE_LIMIT_EXCEEDED` with `MULTIPART_STRICT_ERROR`.
    pub upload_files_max: usize,
    /// Header lines accepted in one part of a multipart body. More are an error of the body processor.
    pub multipart_part_headers_max: usize,
    /// Bytes of values that are added because arguments and cookies hold them (`SecNestedDecoding`). What they hold
    /// beyond is inspected as it was sent, and the flag `values_cut` is set.
    pub nested_bytes_max: usize,
    /// Bytes a chain of transformations may grow a value to; the rest is cut off.
    pub transform_bytes_max: usize,
    /// Bytes of transformed values, of all chains of transformations together, that are kept for further
    /// rules. Beyond it nothing is cut: each rule transforms its values anew, and pays for it in steps;
    /// the flag `views_dropped` is set.
    pub transformed_bytes_max: usize,
    /// Values, as they are and as chains of transformations change them, of which is kept which rules
    /// they may match: some 250 bytes for each with CRS. Every rule is run on what is beyond it, and pays
    /// in steps; the flag `views_dropped` is set. Names and common headers of up to 256 bytes do not count: of
    /// those there are no more than `headers_max`, `cookies_max` and `arguments_max` allow.
    pub views_max: usize,
    /// Bytes a macro may expand to; the rest is cut off.
    pub expansion_bytes_max: usize,
    /// Members of `TX` that one rule may create beyond those named in the rules, and members of `ENV` that the host
    /// gives. Further ones are dropped and flagged. A rule that names members by what clients send takes no room from
    /// other rules.
    pub tx_members_max: usize,
    /// Members of each persistent collection. Further ones are dropped and flagged.
    pub collection_members_max: usize,
    /// Bytes in all names and values of each persistent collection. A value that does not fit is
    /// dropped and flagged.
    pub collection_bytes_max: usize,
    /// Members of `MATCHED_VARS`, in one chain. Of further ones only the last is there, and they are flagged.
    pub matched_vars_max: usize,
    /// Matches recorded for one rule, for logs. Further ones are left out and flagged.
    pub matches_per_rule_max: usize,
    /// Bytes recorded of a matched value, and of its name, for logs. The rest is cut off and flagged.
    pub match_value_bytes_max: usize,
    /// Rules recorded as matched in one transaction, for logs. Further ones are left out and flagged.
    pub matched_rules_max: usize,
    /// Steps in the trace of a transaction that has one. Further ones are left out and flagged.
    pub trace_steps_max: usize,
    /// Bytes of values in the trace of a transaction that has one. Steps that would take more are left
    /// out and flagged.
    pub trace_bytes_max: usize,
    /// Different patterns with macros that are compiled in one transaction. Further ones do not match
    /// and are flagged. A transaction that is used again keeps as many, until it rests.
    pub expanded_patterns_max: usize,
    /// Bytes of a pattern with macros, once they are expanded. A longer one does not match and is
    /// flagged; so is one whose automaton takes more than 64 times this.
    pub expanded_pattern_bytes_max: usize,
    /// Look-ups (`@geoLookup`, `@rbl`) that the host is asked for in one transaction. Further ones do
    /// not match and are flagged.
    pub lookups_max: usize,
    /// Steps that one evaluation of a pattern with look-around may take (patterns without it take
    /// linear time and need no limit).
    pub backtrack_steps_max: usize,
    /// Steps of work that the rules may take in one transaction, and once more in phase 5: a deadline
    /// that does not depend on the machine. `SecRuleStepsLimit` sets it. A step is the running of a
    /// rule, the look at a value, 64 bytes read by an operator or a transformation, or 64
    /// instructions of a back-tracking pattern. A name or a common header of up to 256 bytes takes one step
    /// for each chain of transformations, and nothing more, whether it came before or not. At the limit no further rule is run, the flag
    /// `rules_cut_off` is set, and `SecRuleStepsLimitAction` says whether the request is refused
    /// with 503 (where rules may block) or passes with what was found so far.
    pub rule_steps_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_body_bytes_max: 13_107_200,
            request_body_no_files_bytes_max: 13_107_200,
            observed_body_bytes_max: 1_048_576,
            decoded_ratio_max: 200,
            content_codings_max: 2,
            response_body_bytes_max: 524_288,
            arguments_max: 1_000,
            query_arguments_max: 1_000,
            kept_members_max: 1_024,
            json_depth_max: 128,
            protobuf_depth_max: 100,
            graphql_depth_max: 128,
            graphql_tokens_max: 100_000,
            xml_depth_max: 256,
            xml_nodes_max: 1_000_000,
            xml_elements_max: 1_000_000,
            headers_max: 256,
            cookies_max: 256,
            multipart_parts_max: 1_024,
            upload_files_max: 100,
            multipart_part_headers_max: 32,
            nested_bytes_max: 65_536,
            transform_bytes_max: 33_554_432,
            transformed_bytes_max: 67_108_864,
            views_max: 262_144,
            expansion_bytes_max: 65_536,
            tx_members_max: 4_096,
            collection_members_max: 64,
            collection_bytes_max: 4_096,
            matched_vars_max: 32_768,
            matches_per_rule_max: 16,
            match_value_bytes_max: 1_024,
            matched_rules_max: 512,
            trace_steps_max: 16_384,
            trace_bytes_max: 4_194_304,
            expanded_patterns_max: 16,
            expanded_pattern_bytes_max: 4_096,
            lookups_max: 256,
            backtrack_steps_max: 100_000,
            rule_steps_max: 20_000_000,
        }
    }
}

/// Calls a macro with the names of all fields of [`Limits`], separated by commas: for whoever reads or writes each
/// of them by name. The macro can hold the list against the fields by a pattern without `..`.
///
/// ```
/// macro_rules! count {
///     ($($field:ident),* $(,)?) => { [$(stringify!($field)),*].len() };
/// }
/// assert!(glacis_engine::with_limits!(count) > 20);
/// ```
#[macro_export]
macro_rules! with_limits {
    ($then:ident) => {
        $then! {
            request_body_bytes_max,
            request_body_no_files_bytes_max,
            observed_body_bytes_max,
            decoded_ratio_max,
            content_codings_max,
            response_body_bytes_max,
            arguments_max,
            query_arguments_max,
            kept_members_max,
            json_depth_max,
            protobuf_depth_max,
            graphql_depth_max,
            graphql_tokens_max,
            xml_depth_max,
            xml_nodes_max,
            xml_elements_max,
            headers_max,
            cookies_max,
            multipart_parts_max,
            upload_files_max,
            multipart_part_headers_max,
            nested_bytes_max,
            transform_bytes_max,
            transformed_bytes_max,
            views_max,
            expansion_bytes_max,
            tx_members_max,
            collection_members_max,
            collection_bytes_max,
            matched_vars_max,
            matches_per_rule_max,
            match_value_bytes_max,
            matched_rules_max,
            trace_steps_max,
            trace_bytes_max,
            expanded_patterns_max,
            expanded_pattern_bytes_max,
            lookups_max,
            backtrack_steps_max,
            rule_steps_max,
        }
    };
}

impl Limits {
    /// The limits of each persistent collection, as a store needs them.
    #[must_use]
    pub const fn collections(&self) -> CollectionLimits {
        CollectionLimits {
            members_max: self.collection_members_max,
            bytes_max: self.collection_bytes_max,
        }
    }
}

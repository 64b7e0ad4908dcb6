//! The limits of a transaction by their names, so that a bundle can hold them.

use glacis_engine::Limits;

/// A limit that the engine has and this list has not is an error of the compiler.
macro_rules! limits {
    ($($field:ident),* $(,)?) => {
        /// Each limit with its name.
        pub(super) fn values(limits: &Limits) -> Vec<(&'static str, usize)> {
            let Limits { $($field,)* } = limits;
            vec![$((stringify!($field), *$field),)*]
        }

        /// The limit of this name.
        pub(super) fn place<'a>(limits: &'a mut Limits, name: &str) -> Option<&'a mut usize> {
            match name {
                $(stringify!($field) => Some(&mut limits.$field),)*
                _ => None,
            }
        }
    };
}

limits!(
    request_body_bytes_max,
    request_body_no_files_bytes_max,
    decoded_ratio_max,
    content_codings_max,
    response_body_bytes_max,
    arguments_max,
    json_depth_max,
    xml_depth_max,
    xml_nodes_max,
    headers_max,
    cookies_max,
    multipart_parts_max,
    upload_files_max,
    multipart_part_headers_max,
    transform_bytes_max,
    expansion_bytes_max,
    tx_members_max,
    collection_members_max,
    collection_bytes_max,
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
);

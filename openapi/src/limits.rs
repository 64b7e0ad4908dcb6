//! What documents and requests can make grow, and where that ends.

/// Limits of a document and of the comparison of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a document. A longer one is rejected.
    pub document_bytes_max: usize,
    /// Operations in a document. A document with more is rejected.
    pub operations_max: usize,
    /// Parameters of all operations, and media types of all bodies. A document with more is rejected.
    pub entries_max: usize,
    /// Parameters of one operation. A document with more is rejected.
    pub parameters_max: usize,
    /// Schemas, those within others included. A document with more is rejected.
    pub schemas_max: usize,
    /// Schemas within each other, as written. A document with more is rejected.
    pub schema_depth_max: usize,
    /// Schemas that apply to one and the same value by `$ref`, `allOf` and the like, within each other. A document with
    /// more is rejected: the comparison descends so many levels for each level of a body.
    pub schema_chain_max: usize,
    /// Base paths that the variables of one server stand for. A document with more is rejected.
    pub base_paths_max: usize,
    /// Bytes of a compiled pattern. A document with a larger one is rejected.
    pub pattern_bytes_max: usize,
    /// Bytes of a body that is compared with a schema. A longer one is reported as `limit`.
    pub body_bytes_max: usize,
    /// Values in a body or a parameter: objects, arrays, members and elements. More are reported as `limit`.
    pub body_values_max: usize,
    /// Arrays and objects within each other in a body. Deeper ones are reported as `limit`.
    pub body_depth_max: usize,
    /// Parameters in a query string, a form or cookies. More are reported as `limit`.
    pub pairs_max: usize,
    /// Steps of the comparison of a request with schemas: for each schema and value one, and one for each member and
    /// each 32 bytes of the value. A request that takes more is reported as `limit`.
    pub steps_max: u64,
    /// Findings of a request. Further ones are left out.
    pub findings_max: usize,
    /// Bytes of the message of a finding. A longer one is cut.
    pub message_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes_max: 16 << 20,
            operations_max: 10_000,
            entries_max: 50_000,
            parameters_max: 256,
            schemas_max: 200_000,
            schema_depth_max: 64,
            schema_chain_max: 16,
            base_paths_max: 64,
            pattern_bytes_max: 1 << 20,
            body_bytes_max: 4 << 20,
            body_values_max: 100_000,
            body_depth_max: 48,
            pairs_max: 1_000,
            steps_max: 1_000_000,
            findings_max: 16,
            message_bytes_max: 256,
        }
    }
}

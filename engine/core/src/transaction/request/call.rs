//! What headers say of the messages of a call of gRPC.

use super::super::{Transaction, decoding::RATIO_BYTES_FREE};
use crate::{
    body::{
        encoding::{self, EncodingError},
        grpc::Call,
        protobuf::{Schema, descriptor::Method},
    },
    program::Program,
    store::List,
    variable::Variable,
};

impl Transaction {
    /// What is known of a call of gRPC besides its body of so many bytes.
    pub(super) fn grpc_call<'p>(&self, program: &'p Program, body_bytes: usize) -> Call<'p> {
        let headers = self.store.list(List::RequestHeaders).iter();
        let named = headers
            .filter(|pair| {
                let name = self.store.bytes(pair.name);
                name.eq_ignore_ascii_case(b"grpc-encoding")
                    || name.eq_ignore_ascii_case(b"connect-content-encoding")
            })
            .map(|pair| self.store.bytes(pair.value));
        let coding = match encoding::codings(named, 1) {
            Ok(codings) if codings.is_empty() => Ok(None),
            Ok(_) if !program.settings.request_body_decompression => Err(EncodingError::Off),
            Ok(codings) => Ok(codings.first().copied()),
            Err(error) => Err(error),
        };
        let by_ratio = body_bytes.saturating_mul(program.limits.decoded_ratio_max);
        let decoded_bytes_max =
            by_ratio.max(RATIO_BYTES_FREE).min(self.control.request_body_bytes_max);
        let set = program.settings.grpc_descriptors.as_deref();
        let schema = set.and_then(|set| {
            let method = set.method(self.store.bytes(self.scalar(Variable::RequestFilename)))?;
            Some(Schema { set, message: method.input })
        });
        Call { coding, decoded_bytes_max, schema }
    }

    /// The method that the request calls, where there is a descriptor of it.
    pub(in crate::transaction) fn grpc_method(&self) -> Option<Method> {
        let set = self.program.settings.grpc_descriptors.as_deref()?;
        set.method(self.store.bytes(self.scalar(Variable::RequestFilename)))
    }
}

//! The comparison of the request with the description of the API (`OPENAPI`).

use std::sync::Arc;

use crate::{
    api::{ApiBody, ApiPart, ApiRequest},
    body::Processor,
    store::{List, Pair},
    transaction::Transaction,
    variable::Variable,
};

impl Transaction {
    /// Sets `OPENAPI`, once the body was read.
    pub(in crate::transaction) fn compare_with_api(&mut self) {
        let program = Arc::clone(&self.program);
        let Some(description) = &program.settings.api else { return };
        let mut found: Vec<(String, String)> = Vec::new();
        let parts = self.api_parts();
        let of = |pair: &Pair| (self.store.bytes(pair.name), self.store.bytes(pair.value));
        let headers: Vec<_> = self.store.list(List::RequestHeaders).iter().map(of).collect();
        let request = ApiRequest {
            method: self.store.bytes(self.scalar(Variable::RequestMethod)),
            target: self.store.bytes(self.scalar(Variable::RequestUri)),
            headers: &headers,
            body: self.api_body(),
            parts: parts.as_deref(),
        };
        description.compare(&request, &mut |kind, message| {
            found.push((kind.to_owned(), message.to_owned()));
        });
        for (kind, message) in found {
            self.store.add_pair(List::Openapi, kind.as_bytes(), message.as_bytes());
        }
    }

    fn api_body(&self) -> ApiBody<'_> {
        if !self.control.request_body_access {
            ApiBody::Incomplete("rules leave the body out")
        } else if self.flags.request_body_truncated {
            ApiBody::Incomplete("the body is longer than what is inspected")
        } else if self.control.body_undecoded {
            ApiBody::Incomplete("the content coding of the body cannot be undone")
        } else {
            ApiBody::Whole(&self.store.request_body)
        }
    }

    /// Fields and files of a multipart body; `None` of a malformed one.
    fn api_parts(&self) -> Option<Vec<ApiPart<'_>>> {
        let is_read = self.control.processor == Some(Processor::Multipart)
            && !self.flags.arguments_dropped
            && [Variable::ReqbodyError, Variable::MultipartStrictError]
                .iter()
                .all(|&flag| self.store.bytes(self.scalar(flag)) != b"1");
        if !is_read {
            return None;
        }
        let part = |pair: &Pair, is_file| ApiPart {
            name: self.store.bytes(pair.name),
            value: self.store.bytes(pair.value),
            is_file,
        };
        let fields = self.store.list(List::ArgsPost).iter().map(|pair| Some(part(pair, false)));
        fields.chain(self.store.files().map(|file| file.map(|pair| part(pair, true)))).collect()
    }
}

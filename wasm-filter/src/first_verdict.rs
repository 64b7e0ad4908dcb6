//! The first verdict: the rules of the head, run inside Envoy. What they call clean need not be
//! inspected again; see docs/first-verdict.md.
//!
//! The engine is in the module only if it was built with the feature `engine`.

#[cfg(feature = "engine")]
pub(crate) use with_engine::FirstVerdict;
#[cfg(not(feature = "engine"))]
pub(crate) use without_engine::FirstVerdict;

/// What a first verdict looks at, beside what is known already.
#[cfg_attr(not(feature = "engine"), expect(dead_code, reason = "nobody judges without the engine"))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// All header fields, as the filters behind this one will see them.
    pub(crate) fields: &'a [(String, Vec<u8>)],
    /// Envoy's attribute `source.address`.
    pub(crate) source: Option<&'a [u8]>,
    pub(crate) end_of_stream: bool,
    /// Since 1970.
    pub(crate) now_ns: u64,
}

#[cfg(feature = "engine")]
mod with_engine {
    use super::Request;
    use crate::host;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use glacis_inspector::{
        FirstVerdict as Judge, Header, RequestHead, RuleBundle, parse_endpoint, request_id,
    };
    use glacis_policy::{Applies, Facts, FirstVerdict as Config, RuleText};
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::time::Duration;

    /// Gives first verdicts.
    #[derive(Debug)]
    pub(crate) struct FirstVerdict {
        /// Never borrowed while the host is called.
        judge: RefCell<Judge>,
        applies: Applies,
    }

    impl FirstVerdict {
        /// Reads and compiles the rules, which takes a second or so.
        pub(crate) fn new(config: Config, trusted_hops: u8) -> Result<Self, String> {
            let bundle = match config.rules {
                RuleText::Bundle(text) => unpack(text)?,
                RuleText::Seclang(text) => RuleBundle::of_text("first_verdict.seclang", &text),
            };
            let program = bundle.build().map_err(|errors| format!("first_verdict: {errors}"))?;
            let hops = bundle.trusted_hops().unwrap_or_else(|| usize::from(trusted_hops));
            // The texts go before there are requests.
            drop(bundle);
            let judge = Judge::new(Arc::new(program), hops);
            Ok(Self { judge: RefCell::new(judge), applies: config.applies })
        }

        /// The first verdict on the request whose headers are being told; `None` for a request that
        /// is none of its own.
        pub(crate) fn judge(
            &self,
            facts: &Facts<'_>,
            request: &Request<'_>,
        ) -> Option<&'static str> {
            if !facts.fits_plainly(&self.applies) {
                return None;
            }
            let headers: Vec<Header<'_>> = request.fields.iter().map(header).collect();
            let text =
                |bytes: Option<Vec<u8>>| bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            let protocol = text(host::request_protocol());
            let source = request.source.and_then(|source| str::from_utf8(source).ok());
            let destination = text(host::destination_address());
            let head = RequestHead {
                headers: &headers,
                protocol: protocol.as_deref(),
                end_of_stream: request.end_of_stream,
                id: request_id(&headers).unwrap_or_default(),
                time: Duration::from_nanos(request.now_ns),
                source: source.and_then(parse_endpoint),
                destination: destination.as_deref().and_then(parse_endpoint),
                user: None,
                lot: 0,
                audit_lot: 0,
            };
            let mut judge = self.judge.try_borrow_mut().ok()?;
            Some(judge.judge(&head).name())
        }
    }

    /// The text goes before the rules are compiled, which is when memory is needed most.
    fn unpack(text: String) -> Result<RuleBundle, String> {
        let told = |problem: &dyn std::fmt::Display| format!("first_verdict.rules: {problem}");
        let bytes = STANDARD.decode(text.trim()).map_err(|error| told(&error))?;
        drop(text);
        RuleBundle::unpack(&bytes).map_err(|error| told(&error))
    }

    fn header((name, value): &(String, Vec<u8>)) -> Header<'_> {
        Header { name: name.as_bytes(), value }
    }
}

#[cfg(not(feature = "engine"))]
mod without_engine {
    use super::Request;
    use glacis_policy::{Facts, FirstVerdict as Config};

    /// There are none: the engine is not in this module.
    #[derive(Debug)]
    pub(crate) enum FirstVerdict {}

    impl FirstVerdict {
        pub(crate) fn new(_config: Config, _hops: u8) -> Result<Self, String> {
            Err("first_verdict: the engine is not in this module; take \
                 glacis_wasm_filter_engine.wasm"
                .to_owned())
        }

        pub(crate) fn judge(&self, _: &Facts<'_>, _: &Request<'_>) -> Option<&'static str> {
            match *self {}
        }
    }
}

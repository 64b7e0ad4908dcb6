//! The second role of the module, behind ext_proc: whether a request was inspected.
//!
//! ext_proc lets a request pass when its stream merely ends, or when it fails and may; the guard looks
//! for what an inspection leaves behind, and decides for each route what it means that there is
//! nothing.

use crate::facts::Request;

/// Which receipts are good enough, and what becomes of requests without one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) missing: Missing,
    /// The verdicts of receipts that let a request pass.
    pub(crate) verdicts: Vec<String>,
    /// Whether a first verdict `clean` is as good as a receipt.
    pub(crate) clean: bool,
    /// Routes where it is otherwise, by their names.
    pub(crate) routes: Vec<Route>,
}

/// What becomes of a request without a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is answered 503.
    Deny,
    /// It passes, and is counted.
    Allow,
}

/// A route with a policy of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) name: String,
    pub(crate) missing: Missing,
}

/// What the guard has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A receipt of ext-proc.
    Receipt,
    /// The first verdict says that nothing is there to inspect.
    Clean,
    /// Neither; it passes on this route.
    MissingAllowed,
    /// Neither.
    MissingDenied,
}

/// Where ext-proc leaves its receipt.
const RECEIPT: [&str; 2] = ["glacis", "verdict"];

impl Guard {
    /// Looks for a receipt. `first` gives the first verdict, `route` the name of the route: each is a call of
    /// the host, and most requests have a receipt.
    pub(crate) fn look(
        &self,
        request: &dyn Request,
        first: impl FnOnce() -> Option<Vec<u8>>,
        route: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Found {
        let receipt = request.metadata(&RECEIPT.map(str::to_owned)).unwrap_or_default();
        if self.verdicts.iter().any(|verdict| verdict.as_bytes() == receipt) {
            return Found::Receipt;
        }
        // A receipt that says anything else goes before the first verdict: ext-proc was asked.
        if receipt.is_empty() && self.clean && first().as_deref() == Some(b"clean") {
            return Found::Clean;
        }
        let route = (!self.routes.is_empty()).then(route).flatten();
        let named = |own: &&Route| route.as_deref() == Some(own.name.as_bytes());
        match self.routes.iter().find(named).map_or(self.missing, |own| own.missing) {
            Missing::Allow => Found::MissingAllowed,
            Missing::Deny => Found::MissingDenied,
        }
    }
}

impl Found {
    /// As filter state `wasm.glacis.guard` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Clean => "clean",
            Self::MissingAllowed => "missing:allowed",
            Self::MissingDenied => "missing:denied",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::facts::fake::Fake;

    /// Whether requests pass: by verdict of the receipt, first verdict, and route.
    #[test]
    fn receipts() {
        let config = br#"{"guard": {"verdicts": ["allow", "observed"], "clean": true,
            "routes": [{"name": "open", "missing": "allow"}]}}"#;
        let guard = Config::parse(config).unwrap().guard.unwrap();
        let strict = Config::parse(br#"{"guard": {}}"#).unwrap().guard.unwrap();
        let rows = [
            ("allow", "", "closed", "receipt", "receipt"),
            ("observed", "", "closed", "receipt", "missing:denied"),
            ("pending", "", "closed", "missing:denied", "missing:denied"),
            ("deny", "clean", "closed", "missing:denied", "missing:denied"),
            ("Allow", "", "", "missing:denied", "missing:denied"),
            ("", "clean", "closed", "clean", "missing:denied"),
            ("", "clean", "open", "clean", "missing:denied"),
            ("", "suspect", "closed", "missing:denied", "missing:denied"),
            ("", "", "open", "missing:allowed", "missing:denied"),
            ("pending", "body", "open", "missing:allowed", "missing:denied"),
            ("", "", "opened", "missing:denied", "missing:denied"),
        ];
        for (receipt, first, route, expected, by_default) in rows {
            let fields = [("glacis/verdict", receipt)];
            let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
            let fake = Fake { fields: fields.collect() };
            let left =
                |text: &'static str| move || (!text.is_empty()).then(|| text.as_bytes().to_vec());
            let found = guard.look(&fake, left(first), left(route)).name();
            assert_eq!(found, expected, "{receipt} {first} {route}");
            let found = strict.look(&fake, left(first), left(route)).name();
            assert_eq!(found, by_default, "{receipt} {first} {route}");
        }
    }
}

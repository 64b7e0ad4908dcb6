//! What a token says that Envoy's `jwt_authn` has checked.

use serde_json::{Map, Value};

/// What a claim has to be, of several possibilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// `iss`, or with dots into objects: `realm_access.roles`.
    pub(crate) name: String,
    /// One of these; a list has to have one of them.
    pub(crate) values: Vec<String>,
}

impl Wanted {
    pub(crate) fn holds(&self, claims: &Map<String, Value>) -> bool {
        find(claims, &self.name).is_some_and(|claim| match claim {
            Value::Array(items) => items.iter().any(|item| self.is(item)),
            claim => self.is(claim),
        })
    }

    fn is(&self, claim: &Value) -> bool {
        text(claim).is_some_and(|text| self.values.contains(&text))
    }
}

/// A claim by its name. One that is written with its dots goes before one in an object.
fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    if let Some(claim) = claims.get(name) {
        return Some(claim);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |claim, part| claim.as_object()?.get(part))
}

/// A claim as text: for a key of a limit, too.
pub(crate) fn text(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        // Envoy has made a floating point number of each.
        Value::Number(number) => number.as_f64().map(|number| number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The claim of this name as text.
pub(crate) fn named(claims: &Map<String, Value>, name: &str) -> Option<String> {
    find(claims, name).and_then(text)
}

/// Whether a token has all of these scopes: words in `scope` (RFC 8693, 4.2), or in `scp` (words, or a list).
pub(crate) fn has_scopes(claims: &Map<String, Value>, scopes: &[String]) -> bool {
    let of = |name: &str| -> Vec<&str> {
        match claims.get(name) {
            Some(Value::String(text)) => text.split(' ').collect(),
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    };
    let given = [of("scope"), of("scp")].concat();
    scopes.iter().all(|scope| given.contains(&scope.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims() {
        let token = r#"{"iss": "https://a", "n": 7, "ok": true, "roles": ["x", "y"], "a.b": "dotted",
                        "a": {"b": "inside", "c": {"d": ["z"]}}, "none": null,
                        "1": {"2": {"3": {"4": {"5": {"6": {"7": {"8": {"9": "deep"}}}}}}}}}"#;
        let token: Map<String, Value> = serde_json::from_str(token).unwrap();
        for (name, values, expected) in [
            ("iss", &["https://b", "https://a"][..], true),
            ("iss", &["https://A"], false),
            ("n", &["7"], true),
            ("ok", &["true"], true),
            ("roles", &["y"], true),
            ("roles", &["x,y", "z"], false),
            ("a.b", &["dotted"], true),
            ("a.b", &["inside"], false),
            ("a.c.d", &["z"], true),
            ("a.c", &["z"], false),
            ("1.2.3.4.5.6.7.8.9", &["deep"], true),
            ("none", &["null", ""], false),
            ("absent", &[""], false),
            ("iss.x", &["https://a"], false),
        ] {
            let values = values.iter().map(|&value| value.to_owned()).collect();
            let wanted = Wanted { name: name.to_owned(), values };
            assert_eq!(wanted.holds(&token), expected, "{wanted:?}");
        }
    }

    #[test]
    fn scopes() {
        for (token, wanted, expected) in [
            (r#"{"scope": "read write"}"#, &["read", "write"][..], true),
            (r#"{"scope": "read"}"#, &["read", "write"], false),
            (r#"{"scp": ["read"], "scope": "write"}"#, &["read", "write"], true),
            (r#"{"scp": "read write"}"#, &["write"], true),
            (r#"{"scope": "readwrite"}"#, &["read"], false),
            (r#"{"scope": {"read": true}}"#, &["read"], false),
            ("{}", &[], true),
        ] {
            let claims = serde_json::from_str(token).unwrap();
            let wanted: Vec<String> = wanted.iter().map(|&scope| scope.to_owned()).collect();
            assert_eq!(has_scopes(&claims, &wanted), expected, "{token} {wanted:?}");
        }
    }
}

//! The header fields that tell a client about a limit.
//!
//! `RateLimit-Policy` and `RateLimit` are those of the IETF draft
//! "RateLimit header fields for HTTP" (draft-ietf-httpapi-ratelimit-headers), in its structured
//! form (RFC 9651): a list of strings with parameters. `Retry-After` is RFC 9110, section 10.2.3.
//!
//! ```
//! use glacis_limits::rate_headers::{PolicyName, rate_limit, rate_limit_policy, retry_after};
//!
//! let name = PolicyName::new("per-address")?;
//! assert_eq!(rate_limit_policy(&name, 100, 60), r#""per-address";q=100;w=60"#);
//! assert_eq!(rate_limit(&name, 50, 29_500_000_000), r#""per-address";r=50;t=30"#);
//! assert_eq!(retry_after(1), "1");
//! # Ok::<(), glacis_limits::rate_headers::PolicyNameError>(())
//! ```

use std::fmt;

/// The longest name of a policy, in bytes.
pub const POLICY_NAME_BYTES_MAX: usize = 64;

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const INTEGER_MAX: u64 = 999_999_999_999_999;

const SECOND_NS: u64 = 1_000_000_000;

/// The name of a policy, which can stand in a structured field without escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyName(String);

/// Why a text is no name of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyNameError {
    /// There is nothing in it.
    Empty,
    /// It is longer than [`POLICY_NAME_BYTES_MAX`].
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// It has a character that is not allowed.
    Character {
        /// The first such character.
        character: char,
    },
}

impl fmt::Display for PolicyNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the name is empty; write for example \"per-address\""),
            Self::TooLong { bytes } => {
                write!(f, "the name has {bytes} bytes; write at most {POLICY_NAME_BYTES_MAX}")
            }
            Self::Character { character } => write!(
                f,
                "the name has the character {character:?}; write only letters, digits, '-', '_', \
                 '.' and '/' of ASCII"
            ),
        }
    }
}

impl std::error::Error for PolicyNameError {}

impl PolicyName {
    /// Checks a name: 1 to [`POLICY_NAME_BYTES_MAX`] letters, digits, `-`, `_`, `.` or `/`.
    ///
    /// A structured field would allow more; these also need no quoting in a log or a metric.
    ///
    /// # Errors
    ///
    /// If it is empty, too long, or has another character.
    pub fn new(name: &str) -> Result<Self, PolicyNameError> {
        if name.is_empty() {
            return Err(PolicyNameError::Empty);
        }
        if name.len() > POLICY_NAME_BYTES_MAX {
            return Err(PolicyNameError::TooLong { bytes: name.len() });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        match name.chars().find(|c| !allowed(*c)) {
            Some(character) => Err(PolicyNameError::Character { character }),
            None => Ok(Self(name.to_owned())),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The value of `RateLimit-Policy`: so many requests (`q`) in so many seconds (`w`).
///
/// Numbers above what a structured field can hold are given as the largest that it can.
#[must_use]
pub fn rate_limit_policy(name: &PolicyName, quota: u64, window_seconds: u64) -> String {
    let (q, w) = (quota.min(INTEGER_MAX), window_seconds.min(INTEGER_MAX));
    format!("\"{}\";q={q};w={w}", name.0)
}

/// The value of `RateLimit`: requests left (`r`), and whole seconds, rounded up, until the quota
/// is whole again (`t`).
#[must_use]
pub fn rate_limit(name: &PolicyName, remaining: u64, reset_ns: u64) -> String {
    let (r, t) = (remaining.min(INTEGER_MAX), reset_ns.div_ceil(SECOND_NS));
    format!("\"{}\";r={r};t={t}", name.0)
}

/// The value of `Retry-After`: whole seconds, rounded up, at least 1.
///
/// Rounded down a client would come back too early; and "0" invites it to come back at once.
#[must_use]
pub fn retry_after(wait_ns: u64) -> String {
    wait_ns.div_ceil(SECOND_NS).max(1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let long = "n".repeat(POLICY_NAME_BYTES_MAX + 1);
        let rows = [
            ("per-address", Ok(())),
            ("a.b/c_d-9", Ok(())),
            (&long[1..], Ok(())),
            ("", Err(PolicyNameError::Empty)),
            (&long[..], Err(PolicyNameError::TooLong { bytes: 65 })),
            ("a\"b", Err(PolicyNameError::Character { character: '"' })),
            ("a\\b", Err(PolicyNameError::Character { character: '\\' })),
            ("a\r\nb", Err(PolicyNameError::Character { character: '\r' })),
            ("ä", Err(PolicyNameError::Character { character: 'ä' })),
        ];
        for (name, expected) in rows {
            assert_eq!(PolicyName::new(name).map(|_| ()), expected, "{name:?}");
        }
        for (error, expected) in [
            (PolicyNameError::Empty, "the name is empty"),
            (PolicyNameError::TooLong { bytes: 65 }, "has 65 bytes; write at most 64"),
            (PolicyNameError::Character { character: '"' }, "the character '\"'; write only"),
        ] {
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn fields() {
        let name = PolicyName::new("p").unwrap();
        let rows = [
            (rate_limit_policy(&name, 100, 60), r#""p";q=100;w=60"#),
            (
                rate_limit_policy(&name, u64::MAX, u64::MAX),
                r#""p";q=999999999999999;w=999999999999999"#,
            ),
            (rate_limit(&name, 50, 30 * SECOND_NS), r#""p";r=50;t=30"#),
            (rate_limit(&name, 0, 1), r#""p";r=0;t=1"#),
            (rate_limit(&name, 7, 0), r#""p";r=7;t=0"#),
            (rate_limit(&name, u64::MAX, u64::MAX), r#""p";r=999999999999999;t=18446744074"#),
            (retry_after(0), "1"),
            (retry_after(SECOND_NS), "1"),
            (retry_after(SECOND_NS + 1), "2"),
            (retry_after(u64::MAX), "18446744074"),
        ];
        for (value, expected) in rows {
            assert_eq!(value, expected);
        }
    }
}

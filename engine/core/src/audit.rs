//! The parts of audit records (`SecAuditLogParts`, `ctl:auditLogParts`).
//!
//! Source: ModSecurity reference manual, "SecAuditLogParts". The letters are kept; what stands in a
//! record for each is the host's affair.

/// Which parts an audit record has.
///
/// The engine says whether a record is due, of which parts, and what must not be seen in it; the
/// writing is the host's.
///
/// ```
/// # use glacis_engine::{AuditEngine, AuditPart, Endpoint, Input, Limits, NoFiles, Program};
/// # use glacis_engine::{RuleId, Start, Transaction};
/// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
/// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
/// # let time = Duration::from_secs(1_700_000_000);
/// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
/// let text = r#"SecRuleEngine On
///     SecAuditEngine RelevantOnly
///     SecAuditLogParts ABZ
///     SecRule ARGS:password "@rx ." \
///         "id:1,phase:1,pass,sanitiseArg:password,ctl:auditLogParts=+K""#;
/// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
/// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
/// # let mut transaction = Transaction::new(Arc::new(program));
/// transaction.start(&start);
/// transaction.request_line(b"GET", b"/?password=secret", b"HTTP/1.1");
/// transaction.evaluate_request_headers();
/// assert_eq!(transaction.audit_engine(), Some(AuditEngine::RelevantOnly));
/// assert!(transaction.audit_due(200));
/// let parts = transaction.audit_parts();
/// assert!(parts.has(AuditPart::RequestHeaders) && !parts.has(AuditPart::RequestBody));
/// // Part K names every rule that matched.
/// assert!(parts.has(AuditPart::Rules));
/// assert_eq!(transaction.matched_ids().collect::<Vec<_>>(), [RuleId(1)]);
/// assert_eq!(transaction.hidden().variables, [b"ARGS:password".to_vec()]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditParts(u16);

/// A part that can be asked for. `A` and `Z`, the frame, are always there; `D` and `G` are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditPart {
    /// `B`.
    RequestHeaders,
    /// `C`.
    RequestBody,
    /// `E`.
    ResponseBody,
    /// `F`.
    ResponseHeaders,
    /// `H`: what matched, and who says so.
    Trailer,
    /// `I`: as `C`, without the contents of uploaded files.
    RequestBodyWithoutFiles,
    /// `J`: what was uploaded.
    Files,
    /// `K`: every rule that matched.
    Rules,
}

impl AuditPart {
    const fn bit(self) -> u16 {
        1 << match self {
            Self::RequestHeaders => 1,
            Self::RequestBody => 2,
            Self::ResponseBody => 4,
            Self::ResponseHeaders => 5,
            Self::Trailer => 7,
            Self::RequestBodyWithoutFiles => 8,
            Self::Files => 9,
            Self::Rules => 10,
        }
    }
}

impl Default for AuditParts {
    /// `AHZ`: headers and bodies hold personal data, and are recorded only where rules ask for them.
    fn default() -> Self {
        Self(AuditPart::Trailer.bit())
    }
}

impl AuditParts {
    /// Parts by their letters, in either case: `A` to `K` and `Z`.
    ///
    /// # Errors
    /// When there are none, or others.
    pub(crate) fn parse(letters: &str) -> Result<Self, String> {
        let mut parts = 0;
        for letter in letters.bytes() {
            parts |= match letter.to_ascii_uppercase() {
                letter @ b'A'..=b'K' => 1 << (letter - b'A'),
                b'Z' => 0,
                _ => {
                    return Err(format!(
                        "expected parts, letters from A to K and Z, not `{letters}`"
                    ));
                }
            };
        }
        if letters.is_empty() {
            return Err("expected parts, such as ABHZ".to_owned());
        }
        Ok(Self(parts))
    }

    /// These parts and one more.
    #[must_use]
    pub const fn with(self, part: AuditPart) -> Self {
        Self(self.0 | part.bit())
    }

    /// Whether a part is asked for.
    #[must_use]
    pub const fn has(self, part: AuditPart) -> bool {
        self.0 & part.bit() != 0
    }
}

/// What `ctl:auditLogParts` does: `+E`, `-E` or `ABE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartsChange {
    Add(AuditParts),
    Remove(AuditParts),
    Set(AuditParts),
}

impl PartsChange {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(letters) = text.strip_prefix('+') {
            return AuditParts::parse(letters).map(Self::Add);
        }
        match text.strip_prefix('-') {
            Some(letters) => AuditParts::parse(letters).map(Self::Remove),
            None => AuditParts::parse(text).map(Self::Set),
        }
    }

    pub(crate) const fn apply(self, to: AuditParts) -> AuditParts {
        match self {
            Self::Add(parts) => AuditParts(to.0 | parts.0),
            Self::Remove(parts) => AuditParts(to.0 & !parts.0),
            Self::Set(parts) => parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_and_removed() {
        let has = |parts: AuditParts| {
            [
                (AuditPart::RequestHeaders, 'B'),
                (AuditPart::RequestBody, 'C'),
                (AuditPart::ResponseBody, 'E'),
                (AuditPart::ResponseHeaders, 'F'),
                (AuditPart::Trailer, 'H'),
                (AuditPart::RequestBodyWithoutFiles, 'I'),
                (AuditPart::Files, 'J'),
                (AuditPart::Rules, 'K'),
            ]
            .into_iter()
            .filter_map(|(part, letter)| parts.has(part).then_some(letter))
            .collect::<String>()
        };
        let parts = AuditParts::parse("abcdefghijkz").unwrap();
        assert_eq!(has(parts), "BCEFHIJK");
        for (change, expected) in
            [("+E", "BEH"), ("-BZ", "H"), ("+bA", "BH"), ("-hb", ""), ("ACZ", "C"), ("Z", "")]
        {
            let parts =
                PartsChange::parse(change).unwrap().apply(AuditParts::parse("ABHZ").unwrap());
            assert_eq!(has(parts), expected, "{change}");
        }
        for wrong in ["", "+", "L", "+E,F", "A B", "ü"] {
            assert!(PartsChange::parse(wrong).is_err(), "{wrong}");
        }
    }
}

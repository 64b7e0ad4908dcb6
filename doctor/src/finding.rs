//! What a check has found.

use serde::{Deserialize, Serialize, Serializer};

use crate::checks::{CHECKS, Check};

/// Findings of one examination: more say nothing new.
pub const FINDINGS_MAX: usize = 256;

/// Characters of the subject, and of the detail, of a finding.
const TEXT_MAX: usize = 400;

/// A check that has found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub check: &'static Check,
    /// The profile, cluster, file or replica that it is about.
    pub subject: String,
    /// What was found there.
    pub detail: String,
}

impl Finding {
    /// A finding of `check`.
    pub(crate) fn new(check: &'static Check, subject: &str, detail: &str) -> Self {
        Self { check, subject: shown(subject), detail: shown(detail) }
    }

    /// The finding that was serialized as this, or `None` where the check is unknown (a newer service).
    #[must_use]
    pub fn of_json(value: &serde_json::Value) -> Option<Self> {
        #[derive(Deserialize)]
        struct Read {
            id: String,
            subject: String,
            detail: String,
        }
        let read = Read::deserialize(value).ok()?;
        let check = CHECKS.iter().find(|check| check.id == read.id)?;
        Some(Self::new(check, &read.subject, &read.detail))
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            id: &'a str,
            name: &'a str,
            severity: &'a str,
            subject: &'a str,
            detail: &'a str,
            meaning: &'a str,
            remedy: &'a str,
        }
        let Check { id, name, severity, meaning, remedy, .. } = self.check;
        let (subject, detail) = (&*self.subject, &*self.detail);
        let severity = severity.name();
        Written { id, name, severity, subject, detail, meaning, remedy }.serialize(serializer)
    }
}

/// A text that fits on a screen, without control characters.
fn shown(text: &str) -> String {
    let visible = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut shown: String = visible.clone().take(TEXT_MAX).collect();
    if visible.count() > TEXT_MAX {
        shown.push('…');
    }
    shown
}

/// The most severe first, by id, each once, and no more than [`FINDINGS_MAX`].
fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|one, other| {
        let key = |finding: &Finding| (finding.check.severity, finding.check.id);
        key(one).cmp(&key(other)).then_with(|| one.subject.cmp(&other.subject))
    });
    findings.dedup_by(|one, other| one.check.id == other.check.id && one.subject == other.subject);
    findings.truncate(FINDINGS_MAX);
    findings
}

impl Finding {
    /// Joins findings of several examinations: those of a service, and those of its files.
    #[must_use]
    pub fn joined(findings: Vec<Self>) -> Vec<Self> {
        sorted(findings)
    }
}

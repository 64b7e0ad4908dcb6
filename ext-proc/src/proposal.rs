//! A proposed exclusion in the typed form, as it is written in the configuration.

use core::{fmt::Write as _, time::Duration};
use std::collections::BTreeMap;

use glacis_explain::Explanation;
use glacis_rules::{
    Date, EXCLUSION_ID_MIN, EXCLUSIONS_MAX, Exclusion, ExclusionRules, exclusion_rules,
};
use serde::Serialize;

/// How long a proposed exclusion is to hold, before somebody looks at it again.
pub(crate) const HOLDS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// What would let a request pass; each is `None` where it cannot be said in this form.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Proposal {
    /// For all requests.
    everywhere: Option<Typed>,
    /// For requests of this path.
    on_this_path: Option<Typed>,
}

/// Exclusions as YAML, for the key `exclusions`. Owner and reason are empty, which is refused when the configuration
/// is read: somebody has to say them.
#[derive(Debug, Serialize)]
struct Typed {
    yaml: String,
    /// Whether the request was seen to pass with them; none where there was no time to try.
    passes: Option<bool>,
}

impl Proposal {
    /// Writes what was found, at the time `now` since 1970; `passes` tries it.
    pub(crate) fn of(
        told: &Explanation,
        now: Duration,
        mut passes: impl FnMut(&ExclusionRules) -> Option<bool>,
    ) -> Self {
        let expires = Date::at(now.saturating_add(HOLDS));
        let mut typed = |path: Option<&str>| {
            let exclusions = exclusions(told, path, expires);
            let rules = exclusion_rules(&exclusions).ok().filter(|_| !exclusions.is_empty())?;
            let passes = passes(&moved(rules, exclusions.len()));
            Some(Typed { yaml: yaml(&exclusions), passes })
        };
        Self { everywhere: typed(None), on_this_path: typed(Some(told.path())) }
    }

    /// As a part of a page of plain text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (place, typed) in
            [("For all requests", &self.everywhere), ("For this path", &self.on_this_path)]
        {
            let Some(Typed { yaml, passes }) = typed else { continue };
            let tried = match passes {
                Some(true) => "Tried: the request passes.",
                Some(false) => "Tried: the request is still refused.",
                None => "Not tried: there was no time.",
            };
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "\n{place}, in the configuration. {tried}");
            for line in yaml.lines() {
                let _ = writeln!(text, "  {line}");
            }
        }
        text
    }
}

/// One exclusion for all rules that lose the same targets.
fn exclusions(told: &Explanation, path: Option<&str>, expires: Date) -> Vec<Exclusion> {
    let mut rules: BTreeMap<&[String], Vec<String>> = BTreeMap::new();
    for removal in told.removals() {
        rules.entry(&removal.targets).or_default().push(removal.rule.to_string());
    }
    let exclusion = |(targets, rules): (&[String], Vec<String>)| Exclusion {
        rules,
        tags: Vec::new(),
        targets: targets.to_vec(),
        path: path.map(str::to_owned),
        hosts: Vec::new(),
        values: None,
        owner: "somebody".to_owned(),
        reason: "tried".to_owned(),
        expires: Some(expires),
    };
    rules.into_iter().map(exclusion).collect()
}

/// The same rules with the last ids that exclusions may have: the first ones may be taken.
fn moved(mut rules: ExclusionRules, count: usize) -> ExclusionRules {
    let last = u32::try_from(EXCLUSIONS_MAX).unwrap_or(u32::MAX).saturating_sub(1);
    for position in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        let id = |position: u32| format!("\"id:{},", EXCLUSION_ID_MIN.saturating_add(position));
        rules.before = rules.before.replace(&id(position), &id(last.saturating_sub(position)));
    }
    rules
}

/// What has been checked contains nothing that ends a quoted text.
fn yaml(exclusions: &[Exclusion]) -> String {
    let mut text = "exclusions:\n".to_owned();
    for Exclusion { rules, targets, path, expires, .. } in exclusions {
        let _ = writeln!(text, "- rules: [{}]", rules.join(", "));
        if !targets.is_empty() {
            let _ = writeln!(text, "  targets: [\"{}\"]", targets.join("\", \""));
        }
        if let Some(path) = path {
            let _ = writeln!(text, "  path: \"{path}\"");
        }
        text.push_str("  owner: \"\" # who answers for it\n");
        text.push_str("  reason: \"\" # why these rules need not look there\n");
        if let Some(expires) = expires {
            let _ = writeln!(text, "  expires: {expires}");
        }
    }
    text
}

//! Profiles as the configuration of ext-proc.

use glacis_rules::CRS_VERSION;

use super::{Profile, check};
use crate::arguments::ImportForm;

/// What the configuration is printed for.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) form: ImportForm,
    /// The folder of CRS.
    pub(super) crs: String,
    /// Whether the user named it.
    pub(super) crs_is_given: bool,
}

impl Printed {
    pub(super) fn configuration(&self, profiles: &[Profile]) -> String {
        let mut text = format!(
            "# Made by `glacis import {}`. Read the comments, then try it:\n\
             #   glacis-ext-proc --config FILE --check\n\
             # In the chart this is the value extProc.config. Begin with mode: detection.\n",
            self.form.name()
        );
        let (named, default): (Vec<_>, Vec<_>) =
            profiles.iter().partition(|profile| profile.name.is_some());
        if default.is_empty() {
            text.push_str("# Everything that no profile below is for: nothing in the input has rules for it.\n");
            text.push_str("mode: \"off\"\n");
            self.crs(&mut |line| {
                text.push_str(line);
                text.push('\n');
            });
        }
        let top = default.first().copied();
        for profile in default {
            self.body(profile, None, "", &mut text);
        }
        if !named.is_empty() {
            text.push_str("profiles:\n");
        }
        for profile in &named {
            let name = profile.name.as_deref().unwrap_or_default();
            text.push_str(&format!("  {}:\n", quoted(name)));
            self.body(profile, top, "    ", &mut text);
        }
        routes(&named, &mut text);
        text
    }

    fn crs(&self, line: &mut dyn FnMut(&str)) {
        if !self.crs_is_given {
            line(&format!(
                "# The folder in the images of Glacis. Elsewhere: one with CRS {CRS_VERSION}."
            ));
        }
        line(&format!("crs: {}", quoted(&self.crs)));
    }

    /// The keys of a profile; what it does not have and `top` has, it switches off.
    fn body(&self, profile: &Profile, top: Option<&Profile>, indent: &str, text: &mut String) {
        let is_top = profile.name.is_none();
        let mut line = |content: &str| {
            text.push_str(indent);
            // Owners of an Ingress write its hosts and paths: what ends a line there must not begin a key of ours.
            text.extend(
                content.chars().map(|char| if is_control(char) { '\u{fffd}' } else { char }),
            );
            text.push('\n');
        };
        for place in &profile.used_by {
            let how = if is_top { "." } else { ": its route has to name this profile." };
            line(&format!("# For {place}{how}"));
        }
        for lost in &profile.lost {
            line("# NOT CARRIED OVER:");
            lost.split('\n').for_each(|part| line(&format!("#   {part}")));
        }
        for note in &profile.notes {
            line(&format!("# NOTE: {note}"));
        }
        if let Some(mode) = profile.mode {
            line(&format!("mode: {}", quoted(mode)));
        }
        if profile.crs {
            self.crs(&mut line);
            line(
                "# As before. Glacis's own defaults allow more methods and media types: docs/reference/defaults.md",
            );
            line("defaults: crs");
        } else if !is_top && !profile.inherits {
            line("crs: null");
        }
        let of_top = |key: &str| match key {
            "setup" => top.is_some_and(|top| !top.setup.is_empty()),
            _ => top.is_some_and(|top| !top.directives.is_empty()),
        };
        for (key, statements) in [("setup", &profile.setup), ("directives", &profile.directives)] {
            if !statements.is_empty() {
                line(&format!("{key}: |"));
                check::text(statements).lines().for_each(|text| line(&format!("  {text}")));
            } else if key == "directives"
                && !profile.crs
                && !profile.inherits
                && profile.setup.is_empty()
            {
                line(
                    "# ext-proc wants rules, and there are none but those of the base configuration.",
                );
                line("directives: \"# none\"");
            } else if !profile.inherits && of_top(key) {
                line(&format!("{key}: \"\""));
            }
        }
    }
}

/// Where routes get their profiles, to be filled in.
fn routes(named: &[&Profile], text: &mut String) {
    if named.is_empty() {
        return;
    }
    text.push_str("# Names of Envoy's routes with their profiles: write yours instead of ROUTE, and remove the `#`.\n");
    text.push_str("# routes:\n");
    for profile in named {
        let name = quoted(profile.name.as_deref().unwrap_or_default());
        let used_by: String =
            profile.used_by.join(", ").chars().filter(|char| !is_control(*char)).collect();
        let used_by = if used_by.is_empty() { String::new() } else { format!("  # {used_by}") };
        text.push_str(&format!("#   ROUTE: {name}{used_by}\n"));
    }
}

/// Whether a character cannot be in a line of YAML as it is.
pub(super) fn is_control(char: char) -> bool {
    char.is_control() && char != '\t'
        || matches!(char, '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}')
}

/// A text in quotes that mean the same in YAML and in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_stay_in_their_comments() {
        for end in ["\n", "\r", "\r\n", "\u{85}"] {
            let text = format!("example.com/a{end}mode: off");
            let profile = Profile {
                used_by: vec![text.clone()],
                lost: vec![text.clone()],
                notes: vec![text],
                crs: true,
                ..Profile::default()
            };
            let named = Profile {
                name: Some("a".to_owned()),
                used_by: profile.used_by.clone(),
                inherits: true,
                ..Profile::default()
            };
            let printed = Printed {
                form: ImportForm::IngressNginx,
                crs: "/crs".to_owned(),
                crs_is_given: true,
            };
            let text = printed.configuration(&[profile, named]);
            let lines = text.split(['\n', '\r', '\u{85}']).filter(|line| !line.is_empty());
            let keys: Vec<&str> =
                lines.filter(|line| !line.trim_start().starts_with('#')).collect();
            assert_eq!(keys, ["crs: \"/crs\"", "defaults: crs", "profiles:", "  \"a\":"], "{text}");
        }
    }
}

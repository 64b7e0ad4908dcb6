//! Profiles as the configuration of ext-proc.

use super::Profile;
use crate::arguments::ImportForm;

/// The folder of CRS in our images.
const CRS: &str = "/usr/share/glacis/crs";

pub(super) fn configuration(form: ImportForm, profiles: &[Profile]) -> String {
    let mut text = format!(
        "# Made by `glacis import {}`. Read the comments, then try it:\n\
         #   glacis-ext-proc --config FILE --check\n\
         # In the chart this is the value extProc.config. Begin with mode: detection.\n",
        form.name()
    );
    let (named, default): (Vec<_>, Vec<_>) =
        profiles.iter().partition(|profile| profile.name.is_some());
    if default.is_empty() {
        text.push_str("# Everything that no profile below is for: nothing said that there are rules for it.\n");
        text.push_str("mode: \"off\"\n");
        text.push_str(&format!("crs: {CRS}\n"));
    }
    for profile in default {
        body(profile, "", true, &mut text);
    }
    if !named.is_empty() {
        text.push_str("profiles:\n");
    }
    for profile in named {
        let name = profile.name.as_deref().unwrap_or_default();
        text.push_str(&format!("  {}:\n", quoted(name)));
        body(profile, "    ", false, &mut text);
    }
    text
}

fn body(profile: &Profile, indent: &str, is_top: bool, text: &mut String) {
    let mut line = |content: &str| {
        text.push_str(indent);
        // Whoever owns an Ingress writes its hosts and paths: what ends a line there must not begin a key of ours.
        text.extend(content.chars().map(|char| if is_control(char) { '\u{fffd}' } else { char }));
        text.push('\n');
    };
    for place in &profile.used_by {
        let how = if is_top { "." } else { ": its route has to name this profile." };
        line(&format!("# For {place}{how}"));
    }
    for lost in &profile.lost {
        line("# NOT CARRIED OVER:");
        lost.lines().for_each(|part| line(&format!("#   {part}")));
    }
    if let Some(mode) = profile.mode {
        line(&format!("mode: {}", quoted(mode)));
    }
    if profile.crs {
        line(&format!("crs: {CRS}"));
        line(
            "# As before. Glacis's own defaults allow more methods and media types: docs/reference/defaults.md",
        );
        line("defaults: crs");
    } else if !is_top && has_rules(profile) {
        line("crs: null");
    }
    if !profile.rules.is_empty() {
        line("# To be brought along: files of yours.");
        line("rules:");
        profile.rules.iter().for_each(|file| line(&format!("- {}", quoted(file))));
    }
    for (key, texts) in [("setup", &profile.setup), ("directives", &profile.directives)] {
        if !texts.is_empty() {
            line(&format!("{key}: |"));
        }
        texts.iter().flat_map(|text| text.lines()).for_each(|text| line(&format!("  {text}")));
    }
}

/// Whether it has rules besides CRS. One without any, which is off, keeps those of the default profile: ext-proc refuses
/// a profile without rules.
fn has_rules(profile: &Profile) -> bool {
    !(profile.rules.is_empty() && profile.setup.is_empty() && profile.directives.is_empty())
}

/// Whether a character cannot stand in a line of YAML as it is.
pub(super) fn is_control(char: char) -> bool {
    char.is_control() && char != '\t'
}

/// A text in quotes that mean the same in YAML and in JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_stays_in_its_comment() {
        for end in ["\n", "\r", "\r\n", "\u{85}"] {
            let told = format!("example.com/a{end}mode: off");
            let profile =
                Profile { used_by: vec![told.clone()], lost: vec![told], ..Profile::default() };
            let text = configuration(ImportForm::IngressNginx, &[profile]);
            let mut lines = text.split(['\n', '\r', '\u{85}']).filter(|line| !line.is_empty());
            assert!(lines.all(|line| line.starts_with('#')), "{text}");
        }
    }
}

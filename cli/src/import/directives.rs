//! SecLang as other firewalls' files have it, directive by directive.

/// What becomes of a directive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Directive {
    /// `SecRuleEngine`.
    Engine(&'static str),
    /// What our base configuration says as well.
    Base,
    /// The Core Rule Set.
    Crs,
    /// A file with rules.
    File(String),
    /// It stays as it is: one directive, or a chain of rules.
    Rules(String),
    /// The text, and why it goes.
    Lost(String, &'static str),
}

/// Where records go is not said by rules here.
const OUTPUTS: &[&str] = &[
    "secauditlog",
    "secauditlog2",
    "secauditlogtype",
    "secauditlogformat",
    "secauditlogstoragedir",
    "secauditlogdirmode",
    "secauditlogfilemode",
    "secauditlogprefix",
];

/// Reads directives in their order. Comments go.
pub(super) fn split(text: &str) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut chain: Vec<String> = Vec::new();
    for line in logical_lines(text) {
        let name = line.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        let is_rule = name == "secrule" || name == "secaction";
        if is_rule && continues(&line) {
            chain.push(line);
            continue;
        }
        if is_rule {
            chain.push(line);
            directives.push(Directive::Rules(chain.join("\n")));
            chain.clear();
            continue;
        }
        directives.push(one(&name, line));
    }
    if !chain.is_empty() {
        directives.push(Directive::Rules(chain.join("\n")));
    }
    directives
}

/// Whether a text means something only together with others: rules that it changes, markers it jumps to.
pub(super) fn needs_others(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    lower.starts_with("secruleremove")
        || lower.starts_with("secruleupdate")
        || lower.contains("skipafter:")
}

fn one(name: &str, line: String) -> Directive {
    let value = line.split_once(char::is_whitespace).map_or("", |(_, value)| value).trim();
    let value = value.trim_matches('"');
    match name {
        "secruleengine" => match value.to_ascii_lowercase().as_str() {
            "on" => Directive::Engine("on"),
            "detectiononly" => Directive::Engine("detection"),
            "off" => Directive::Engine("off"),
            _ => Directive::Rules(line),
        },
        "include" | "includeoptional" => included(value),
        _ if OUTPUTS.contains(&name) => {
            Directive::Lost(line, "where records go is said by `audit` in the configuration")
        }
        _ if name.starts_with('<') => Directive::Lost(line, "a condition of a web server"),
        _ => Directive::Rules(line),
    }
}

/// What a file is, by its name: the files of others have the names that their packages give them.
fn included(path: &str) -> Directive {
    let lower = path.to_ascii_lowercase();
    let has = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    if has(&["crs-setup", "crs/plugins"]) {
        return Directive::Lost(
            format!("Include {path}"),
            "crs-setup.conf of the Core Rule Set is used as it comes: write what you have changed in it into `setup`",
        );
    }
    if has(&["owasp", "crs", "coreruleset", "request-9", "response-9"]) {
        return Directive::Crs;
    }
    if has(&[
        "modsecurity.conf",
        "coraza.conf",
        "@recommended-conf",
        "@coraza",
        "modsecurity-recommended",
    ]) {
        return Directive::Base;
    }
    if has(&["@demo-conf", "@ftw-conf"]) {
        return Directive::Lost(format!("Include {path}"), "a configuration for demonstrations");
    }
    Directive::File(path.to_owned())
}

/// Lines, with those joined that end in a backslash; without comments and empty ones.
fn logical_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if !open && (trimmed.is_empty() || trimmed.starts_with('#')) {
            continue;
        }
        let (part, goes_on) =
            trimmed.strip_suffix('\\').map_or((trimmed, false), |part| (part.trim_end(), true));
        match lines.last_mut().filter(|_| open) {
            Some(last) => {
                // Within the quotes of actions white space means nothing; between arguments it does.
                last.push(' ');
                last.push_str(part);
            }
            None => lines.push(part.to_owned()),
        }
        open = goes_on;
    }
    lines
}

/// Whether the actions of a rule have `chain`.
fn continues(line: &str) -> bool {
    let actions = line.trim_end().trim_end_matches('"');
    let actions = actions.rsplit('"').next().unwrap_or_default();
    actions.split(',').any(|action| action.trim().eq_ignore_ascii_case("chain"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_told_apart() {
        let text = "# a comment\nSecRuleEngine DetectionOnly\nInclude @owasp_crs/*.conf\nInclude /etc/own.conf\n\
                    SecRule ARGS \"@rx a\" \\\n  \"id:1,deny,\\\n  chain\"\nSecRule ARGS \"@rx b\"\nSecMarker END\n\
                    SecAuditLog /var/log/a\n<IfModule x>\n";
        let rules = "SecRule ARGS \"@rx a\" \"id:1,deny, chain\"\nSecRule ARGS \"@rx b\"";
        let expected = [
            Directive::Engine("detection"),
            Directive::Crs,
            Directive::File("/etc/own.conf".to_owned()),
            Directive::Rules(rules.to_owned()),
            Directive::Rules("SecMarker END".to_owned()),
        ];
        let split = split(text);
        assert_eq!(split.get(..5), Some(&expected[..]));
        assert!(split.iter().skip(5).all(|directive| matches!(directive, Directive::Lost(..))));
        assert_eq!(split.len(), 7);
    }
}

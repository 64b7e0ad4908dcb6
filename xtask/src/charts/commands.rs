//! The commands with Helm that stand in documents: each has to render.

use std::fs;

use super::Helm;
use crate::cargo;
use crate::failure::{self, Failure, Outcome};

/// Documents with such commands.
const DOCUMENTS: &[&str] = &[
    "docs/attach.md",
    "docs/incidents.md",
    "docs/operating.md",
    "docs/tuning.md",
    "charts/glacis/README.md",
];

/// Returns how many there are.
pub(super) fn check(helm: &Helm) -> Outcome<usize> {
    let mut count = 0;
    for document in DOCUMENTS {
        let path = cargo::root().join(document);
        let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
        for command in text.lines().filter(|line| line.starts_with("helm ")) {
            let settings = settings(command).ok_or_else(|| {
                Failure::new(format!("{document}: `{command}` is no command that can be tried"))
            })?;
            helm.template(&settings)
                .map_err(|failure| Failure::new(format!("{document}: {failure}")))?;
            count += 1;
        }
    }
    Ok(count)
}

/// What a command sets. Values of an installation that is there already (`--reuse-values`) are the defaults here.
fn settings(command: &str) -> Option<Vec<&str>> {
    let mut words = command.split_whitespace().skip_while(|word| *word != "charts/glacis").skip(1);
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--set" | "--set-string" | "--set-file" => settings.extend([word, words.next()?]),
            "--namespace" => {
                words.next()?;
            }
            "--create-namespace" | "--reuse-values" => {}
            _ => return None,
        }
    }
    command.contains(" charts/glacis").then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        for (command, expected) in [
            (
                "helm install glacis charts/glacis --namespace a --set b=c",
                Some(vec!["--set", "b=c"]),
            ),
            ("helm upgrade glacis charts/glacis --reuse-values", Some(vec![])),
            ("helm upgrade glacis charts/glacis --unknown", None),
            ("helm list", None),
        ] {
            assert_eq!(settings(command), expected, "{command}");
        }
    }
}

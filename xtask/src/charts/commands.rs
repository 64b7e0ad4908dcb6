//! What documents say of the chart: each command with Helm, and each piece of values, has to render.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::Helm;
use crate::cargo::{self, output};
use crate::failure::{self, Failure, Outcome};

/// How values of the chart begin, among the pieces of YAML.
const VALUES: [&str; 2] = ["extProc:", "attach:"];

/// Returns how many there are.
pub(super) fn check(helm: &Helm) -> Outcome<usize> {
    let mut count = 0;
    for document in documents()? {
        let path = cargo::root().join(&document);
        let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
        for command in text.lines().filter(|line| line.starts_with("helm ")) {
            let settings = settings(command).ok_or_else(|| {
                Failure::new(format!("{document}: `{command}` is no command that can be tried"))
            })?;
            told(&document, helm.template(&settings))?;
            count += 1;
        }
        for values in values(&text) {
            let file = Scratch::new(&values)?;
            told(&document, helm.template(&["--values", &file.0.to_string_lossy()]))?;
            count += 1;
        }
    }
    Ok(count)
}

/// The documents of the repository, from the top folder.
pub(crate) fn documents() -> Outcome<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let listed = output(git.current_dir(cargo::root()))?;
    Ok(listed.lines().map(str::to_owned).collect())
}

fn told(document: &str, rendered: Outcome<String>) -> Outcome<()> {
    rendered.map(|_| ()).map_err(|failure| Failure::new(format!("{document}: {failure}")))
}

/// The fenced pieces of YAML that are values of the chart.
fn values(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut piece: Option<String> = None;
    for line in text.lines() {
        match (&mut piece, line) {
            (None, "```yaml") => piece = Some(String::new()),
            (Some(_), "```") => found.extend(piece.take()),
            (Some(piece), line) => piece.extend([line, "\n"]),
            (None, _) => {}
        }
    }
    found.retain(|piece| VALUES.iter().any(|start| piece.starts_with(start)));
    found
}

/// A file that is there as long as Helm reads it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(text: &str) -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("glacis-values-{}.yaml", std::process::id()));
        fs::write(&path, text).map_err(failure::io("write", &path))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
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
    fn values_are_told_from_other_yaml() {
        let text = "```yaml\nattach:\n  a: 1\n```\n```yaml\nmode: on\n```\n```\nextProc:\n```\n";
        assert_eq!(values(text), ["attach:\n  a: 1\n"]);
    }

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

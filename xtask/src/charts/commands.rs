//! The commands with Helm and the values in documents: each page is followed from top to bottom, against one release.
//!
//! A fenced block of YAML that begins with `# values.yaml` is that file, and one that begins with `# values.yaml, added`
//! (or `changed`) is merged into it; a comment `<!-- values.yaml without KEY -->` removes a key of the top. A page without the file is about a release that exists: [`EXISTING`].
//! After each command the release is compared with the one before: what is attached, what blocks, which images run.
//! Differences that [`CHANGES`] does not list are errors, and so are commands that forget the values of a release.

use std::fs;
use std::process::Command;

use super::Helm;
use super::stored::Stored;
use crate::cargo::{self, output};
use crate::failure::{self, Failure, Outcome};

/// How values of the chart begin, among the pieces of YAML.
const VALUES: [&str; 3] = ["extProc:", "extAuthz:", "attach:"];

/// The first line of the file of values in a document, and how that of a change to it begins.
const FILE: &str = "# values.yaml";

/// How a comment begins that names a key which the reader removes.
const WITHOUT: &str = "<!-- values.yaml without ";

/// A release that blocks, on an attached gateway, with a profile of one route.
const EXISTING: &str = "image: {registry: registry.example, tag: 9.9.9}
extProc: {config: {mode: \"on\", profiles: {api: {mode: \"on\", paranoia: 2}}}}
attach:
  istio:
    edge:
      kind: gateway
      namespace: istio-system
      selector: {istio: ingressgateway}
      routes: [{name: api, profile: api}]
";

/// Commands that change no values.
const WITHOUT_VALUES: [&str; 6] = [
    "helm test glacis ",
    "helm rollback glacis ",
    "helm uninstall glacis ",
    "helm history glacis ",
    "helm get values glacis ",
    "helm list ",
];

/// What the commands of a document change, in their order, of a release that was there before them.
const CHANGES: &[(&str, &[&str])] = &[
    (
        "docs/attach.md",
        &[
            "+ EnvoyFilter istio-system/glacis-edge selects workloadSelector: labels: istio: ingressgateway",
            "- mode detection",
            "+ mode \"on\"",
        ],
    ),
    (
        "docs/incidents.md",
        &[
            "- mode \"on\"",
            "+ mode detection",
            "- mode \"on\" of the profile api",
            "+ mode detection of the profile api",
            "+ EnvoyFilter istio-system/glacis-edge fails open",
        ],
    ),
    (
        "docs/upgrade.md",
        &[
            "- EnvoyFilter istio-system/glacis-edge selects workloadSelector: labels: istio: ingressgateway",
        ],
    ),
];

/// Returns how many there are.
pub(super) fn check(helm: &Helm) -> Outcome<usize> {
    let mut count = 0;
    let mut wrong = Vec::new();
    let mut stored = Stored::new(helm)?;
    for document in documents()? {
        let path = cargo::root().join(&document);
        let text = fs::read_to_string(&path).map_err(failure::io("read", &path))?;
        let steps = steps(&text);
        count += steps.len();
        let mut page = Page { helm, stored: &mut stored, files: Vec::new(), changes: Vec::new() };
        let outcome = page.follow(&steps);
        let expected = CHANGES.iter().find(|(name, _)| *name == document);
        match outcome {
            Err(failure) => wrong.push(format!("{document}: {failure}")),
            Ok(()) => wrong.extend(
                unexpected(&page.changes, expected.map_or(&[], |(_, changes)| changes))
                    .map(|told| format!("{document}: {told}")),
            ),
        }
    }
    if wrong.is_empty() { Ok(count) } else { Err(Failure::new(wrong.join("\n"))) }
}

fn unexpected(changes: &[(String, String)], expected: &[&str]) -> Option<String> {
    let seen: Vec<&str> = changes.iter().map(|(_, change)| change.as_str()).collect();
    if seen == expected {
        return None;
    }
    let lines = changes.iter().map(|(command, change)| format!("  {change}\n    by `{command}`"));
    let lines: Vec<String> = lines.collect();
    Some(format!(
        "its commands change of the release:\n{}\n  expected: {expected:?}",
        lines.join("\n")
    ))
}

/// The documents of the repository, from the top folder.
pub(crate) fn documents() -> Outcome<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let listed = output(git.current_dir(cargo::root()))?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// A part of a page that says something about the chart.
#[derive(Debug, PartialEq)]
enum Step {
    /// The file of values.
    File(String),
    /// A change to it.
    Change(String),
    /// A key of the top that goes.
    Without(String),
    /// Values by themselves.
    Values(String),
    /// A command.
    Command(String),
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut piece: Option<String> = None;
    for line in text.lines() {
        match (&mut piece, line) {
            (None, "```yaml") => piece = Some(String::new()),
            (Some(_), "```") => steps.extend(piece.take().and_then(step_of_yaml)),
            (Some(piece), line) => piece.extend([line, "\n"]),
            (None, line) if line.starts_with("helm ") => {
                steps.push(Step::Command(line.to_owned()));
            }
            (None, line) => {
                let key = line.strip_prefix(WITHOUT).and_then(|rest| rest.strip_suffix(" -->"));
                steps.extend(key.map(|key| Step::Without(key.to_owned())));
            }
        }
    }
    steps
}

fn step_of_yaml(piece: String) -> Option<Step> {
    if let Some(rest) = piece.strip_prefix(FILE) {
        return Some(if rest.starts_with('\n') { Step::File(piece) } else { Step::Change(piece) });
    }
    VALUES.iter().any(|start| piece.starts_with(start)).then_some(Step::Values(piece))
}

/// A page on the way from top to bottom.
struct Page<'p, 'h> {
    helm: &'p Helm,
    stored: &'p mut Stored<'h>,
    /// The file of values: Helm merges them as a reader does.
    files: Vec<String>,
    /// Commands, and what each changed.
    changes: Vec<(String, String)>,
}

impl Page<'_, '_> {
    fn follow(&mut self, steps: &[Step]) -> Outcome<()> {
        self.stored.forget();
        let has_commands = steps.iter().any(|step| matches!(step, Step::Command(_)));
        if has_commands && !matches!(steps.first(), Some(Step::File(_))) {
            self.files = vec![self.stored.values_file(0, EXISTING)?];
            self.stored.upgrade(&self.file_arguments(&["--install".to_owned()]))?;
        }
        for step in steps {
            match step {
                Step::File(text) => {
                    self.stored.forget();
                    self.files = vec![self.stored.values_file(0, text)?];
                }
                Step::Change(text) => {
                    let file = self.stored.values_file(self.files.len(), text)?;
                    self.files.push(file);
                }
                Step::Without(key) => {
                    for file in &self.files {
                        let text =
                            fs::read_to_string(file).map_err(failure::io("read", file.as_ref()))?;
                        fs::write(file, without(&text, key))
                            .map_err(failure::io("write", file.as_ref()))?;
                    }
                }
                Step::Values(text) => {
                    let file = self.stored.values_file(99, text)?;
                    self.helm.template(&["--values", &file])?;
                }
                Step::Command(command) => self.run(command)?,
            }
        }
        Ok(())
    }

    fn run(&mut self, command: &str) -> Outcome<()> {
        if let Some(known) = WITHOUT_VALUES.iter().find(|known| command.starts_with(**known)) {
            if known.contains("uninstall") {
                self.stored.forget();
            }
            return Ok(());
        }
        let refuse = |why: &str| Failure::new(format!("`{command}`: {why}"));
        let Some(read) = Read::of(command) else {
            return Err(refuse("no command that can be run here"));
        };
        if self.stored.is_installed() && !read.keeps() {
            return Err(refuse(
                "resets the values of a release: use `-f values.yaml` or `--reset-then-reuse-values`",
            ));
        }
        let before = self.stored.is_installed().then(|| self.stored.facts());
        let arguments =
            if read.has_file { self.file_arguments(&read.arguments) } else { read.arguments };
        self.stored.upgrade(&arguments)?;
        if let Some(before) = before {
            let after = self.stored.facts();
            let gone = before.difference(&after).map(|fact| format!("- {fact}"));
            let new = after.difference(&before).map(|fact| format!("+ {fact}"));
            let changes = gone.chain(new).map(|change| (command.to_owned(), change));
            self.changes.extend(changes);
        }
        Ok(())
    }

    fn file_arguments(&self, others: &[String]) -> Vec<String> {
        let files = self.files.iter().flat_map(|file| ["--values".to_owned(), file.clone()]);
        files.chain(others.iter().cloned()).collect()
    }
}

/// The text without a key of the top and what is below it.
fn without(text: &str, key: &str) -> String {
    let mut is_below = false;
    let kept = text.lines().filter(|line| {
        if !line.starts_with([' ', '#', '-']) {
            is_below = line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
        }
        !is_below
    });
    kept.map(|line| format!("{line}\n")).collect()
}

/// A command that changes a release.
#[derive(Debug, PartialEq)]
struct Read {
    /// Without `-f values.yaml`, the namespace and what makes it.
    arguments: Vec<String>,
    /// Whether `-f values.yaml` is there.
    has_file: bool,
}

impl Read {
    fn of(command: &str) -> Option<Self> {
        let rest = command.strip_prefix("helm upgrade ")?;
        let mut read = Self { arguments: Vec::new(), has_file: false };
        let mut words = rest.split_whitespace();
        let (mut has_release, mut has_chart) = (false, false);
        while let Some(word) = words.next() {
            match word {
                "glacis" => has_release = true,
                "charts/glacis" => has_chart = true,
                "--set" | "--set-string" | "--set-file" => {
                    read.arguments.extend([word.to_owned(), words.next()?.to_owned()]);
                }
                "--namespace" | "-n" => {
                    words.next()?;
                }
                "-f" => read.has_file = words.next()? == "values.yaml",
                "--install" | "--reuse-values" | "--reset-then-reuse-values" => {
                    read.arguments.push(word.to_owned());
                }
                "--create-namespace" | "--wait" => {}
                _ => return None,
            }
        }
        (has_release && has_chart).then_some(read)
    }

    /// Whether values that a release has stay. `--reuse-values` forgets the defaults of a newer chart.
    fn keeps(&self) -> bool {
        self.has_file || self.arguments.iter().any(|word| word == "--reset-then-reuse-values")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_commands_are_read_in_their_order() {
        let text = "```yaml\n# values.yaml\na: 1\n```\n```\nhelm upgrade x\n```\n```yaml\n# values.yaml, added\nb: 1\n```\n\
                    ```yaml\nattach:\n  a: 1\n```\n```yaml\nmode: on\n```\n```\nextProc:\n```\n";
        let expected = [
            Step::File("# values.yaml\na: 1\n".to_owned()),
            Step::Command("helm upgrade x".to_owned()),
            Step::Change("# values.yaml, added\nb: 1\n".to_owned()),
            Step::Values("attach:\n  a: 1\n".to_owned()),
        ];
        assert_eq!(steps(text), expected);
    }

    #[test]
    fn keys_that_go() {
        let text = "a: 1\nb:\n  c: 1\n  a: 2\nbc: 3\n";
        assert_eq!(without(text, "b"), "a: 1\nbc: 3\n");
        assert_eq!(steps("<!-- values.yaml without b -->\n"), [Step::Without("b".to_owned())]);
    }

    #[test]
    fn commands_that_forget_values() {
        for (command, keeps) in [
            ("helm upgrade --install glacis charts/glacis -n glacis -f values.yaml", Some(true)),
            ("helm upgrade --install glacis charts/glacis --namespace a --set b=c", Some(false)),
            ("helm upgrade glacis charts/glacis --reuse-values --set b=c", Some(false)),
            ("helm upgrade glacis charts/glacis --reset-then-reuse-values", Some(true)),
            ("helm upgrade glacis charts/glacis -f other.yaml", Some(false)),
            ("helm upgrade glacis charts/glacis --unknown", None),
            ("helm template glacis charts/glacis", None),
            ("helm list", None),
        ] {
            assert_eq!(Read::of(command).map(|read| read.keeps()), keeps, "{command}");
        }
    }

    #[test]
    fn changes_that_nobody_announced() {
        let seen = [("helm x".to_owned(), "- mode \"on\"".to_owned())];
        assert_eq!(unexpected(&seen, &["- mode \"on\""]), None);
        assert!(unexpected(&seen, &[]).unwrap().contains("by `helm x`"));
        assert!(unexpected(&[], &["- mode \"on\""]).is_some());
    }
}

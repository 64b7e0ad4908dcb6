//! `docs/reference/doctor.md`, made from the table of checks.

use crate::checks::{CHECKS, Check, Source};

const HEAD: &str = "\
# Checks of glacis doctor

`glacis doctor` checks an installation: ext-proc's configuration, its rules, Envoy's configuration, and running services.
ext-proc runs the checks that concern itself once a minute. The findings are in `glacis_doctor_finding` (the number of
findings of each id, with its severity), at `/doctor` on the admin port, and on its page.

This file is made from the table of checks (`doctor/src/checks.rs`), and a test compares it; `UPDATE_EXPECT=1 cargo test
-p glacis-doctor` renews it.
Ids are permanent: alerts and suppressions may name them. An id whose check is removed is not used again.

## Run it

```sh
glacis doctor --config envoy-configs/quickstart/ext-proc.yaml --envoy envoy-configs/quickstart/envoy.yaml
glacis doctor --admin 127.0.0.1:9101 --envoy-admin 127.0.0.1:9901
```

| option | evidence |
|---|---|
| `--config FILE` | the configuration of ext-proc, the rules and the certificates that it names |
| `--rules FILE`, `--crs DIR` | rules without a configuration |
| `--envoy FILE` | Envoy's configuration: YAML, or the JSON of `/config_dump` |
| `--envoy-admin HOST:PORT` | the same from a running Envoy |
| `--admin HOST:PORT` | a running ext-proc; several replicas are compared |
| `--token-file FILE` | the token of these ports |
| `--format json` | one JSON object with a list of findings |
| `--ignore ID,ID` | checks that are left out |

Exit status: 0 no errors and no warnings, 1 errors or warnings, 2 usage error, 4 a service cannot be reached. Notes do not
change it.

Severities: an *error* lets requests pass uninspected or blocks ordinary ones; a *warning* is a weaker protection than it
looks; a *note* is worth to know.
";

const PARTS: [(Source, &str); 5] = [
    (Source::Configuration, "Configuration of ext-proc"),
    (Source::Rules, "Rules"),
    (Source::Envoy, "Configuration of Envoy"),
    (Source::Service, "Running service"),
    (Source::Replicas, "Several replicas"),
];

/// The whole document.
#[must_use]
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    for (source, title) in PARTS {
        text.push_str(&format!("\n## {title}\n\n| id | severity | finding | meaning | remedy |\n|---|---|---|---|---|\n"));
        for check in CHECKS.iter().filter(|check| check.source == source) {
            let Check { id, name, severity, meaning, remedy, .. } = check;
            text.push_str(&format!("| {id} | {severity} | {name} | {meaning} | {remedy} |\n"));
        }
    }
    text
}

//! The commands of documents: each is run, or stands in a list that says who runs it or why nobody can here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use glacis_tests::ext_proc::ExtProc;
use glacis_tests::log::Folder;
use glacis_tests::{ports, settings};

use crate::support::folder;

/// How a command is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// In a folder with the files that documents speak of; it has to end well.
    Run,
    /// The same; it has found something, and says so by the status 1.
    Finds,
    /// The same with `--check` behind it: services run until they are told to end.
    Check,
    /// By the shell, of an ext-proc that runs.
    Ask,
    /// By somebody else, or not at all: where, or why.
    Elsewhere(&'static str),
}

use How::{Ask, Check, Elsewhere, Finds, Run};

/// How a command begins, and how it is tried: the first row that fits counts.
const COMMANDS: &[(&str, How)] = &[
    ("glacis lint ", Run),
    ("glacis eval --crs CRS --exclusions ", Elsewhere("cli/tests/learn.rs, with what was learned")),
    ("glacis eval ", Run),
    ("glacis learn-api ", Run),
    ("glacis learn ", Elsewhere("cli/tests/learn.rs, with requests of several days")),
    ("glacis quantify ", Elsewhere("cli/tests/quantify.rs")),
    ("glacis train ", Elsewhere("cli/tests/train.rs, with requests that have labels")),
    // Somebody is refused, which is what one asks about.
    ("glacis explain --crs ", Finds),
    ("glacis explain --rules ", Run),
    ("glacis profile ", Run),
    ("glacis ftw ", Run),
    ("glacis import ", Run),
    ("glacis patches ", Run),
    ("glacis doctor --config ", Run),
    ("glacis doctor --admin ", Elsewhere("doctor.rs asks a running Envoy and two services")),
    ("glacis status", Elsewhere("the scenarios of tests/chaos ask a running Envoy")),
    ("glacis bans ", Elsewhere("bans.rs runs it against a service with a token")),
    ("glacis-ext-authz new-key", Run),
    ("glacis-ext-authz hash-key", Run),
    ("glacis-ext-authz --config ", Check),
    ("glacis-ext-proc --config envoy-configs/quickstart/ext-proc.yaml --bundle ", Run),
    ("glacis-ext-proc --config ", Check),
    (
        "curl -s 'localhost:9101/proposals",
        Elsewhere("ext-proc/tests/admin.rs, with a profile that looks on"),
    ),
    (
        "curl -s -o /dev/null -w ",
        Elsewhere("openapi.rs sends paths that the document does not have"),
    ),
    ("curl -s ", Ask),
    ("curl -i ", Elsewhere("attach.rs asks an Envoy to which it has attached what README.md says")),
    ("kill -HUP ", Elsewhere("reload.rs sends the signal to one process")),
    ("setpriv ", Elsewhere("privileges.rs, where the machine allows it")),
    ("sample-upstream", Elsewhere("every stack of these tests has one")),
    ("redis-server", Elsewhere("not ours; limits are tested with one")),
    ("envoy -c ", Elsewhere("configs.rs has Envoy validate each file, and stacks run them")),
    (
        "helm ",
        Elsewhere("`cargo xtask charts` runs those of a page in order against one stored release"),
    ),
    ("cargo xtask ", Elsewhere("a test of xtask knows the names and options")),
    ("cargo mutants ", Elsewhere("takes hours; `docs/results/mutants.md` has the last run")),
    ("cargo test --target aarch64-", Elsewhere("takes a cross compiler and qemu")),
    ("cargo run --target aarch64-", Elsewhere("takes a cross compiler and qemu")),
    ("cargo build --release -p ", Elsewhere("`cargo xtask newcomer` builds in a new clone")),
    ("cargo build -p glacis-wasm-filter ", Elsewhere("`cargo xtask wasm` runs it")),
    ("kubectl create namespace glacis", Elsewhere("`cargo xtask mesh`")),
    (
        "kubectl apply -f envoy-configs/",
        Elsewhere("`cargo xtask mesh` gives each to an API server"),
    ),
    ("kubectl -n glacis rollout status ", Elsewhere("takes pods that run")),
    ("kubectl -n shop get ", Elsewhere("takes a control plane: `cargo xtask mesh`")),
    ("kubectl -n glacis port-forward ", Elsewhere("takes pods that run: tests/mesh/cluster.sh")),
    ("kubectl -n glacis create secret ", Elsewhere("takes a cluster; the chart makes the Secret")),
    ("kubectl -n glacis get secret ", Elsewhere("`cargo xtask mesh`")),
    ("kubectl get ingress ", Elsewhere("takes the cluster of whom it is for")),
    ("kubectl -n ingress-nginx get ", Elsewhere("takes the cluster of whom it is for")),
    ("kubectl -n istio-system get ", Elsewhere("takes the cluster of whom it is for")),
    ("docker tag ", Elsewhere("takes a daemon and a registry")),
    ("docker push ", Elsewhere("takes a daemon and a registry")),
    ("docker build ", Elsewhere("takes a daemon; `cargo xtask image` makes the same without one")),
];

/// Words with which a command can begin; a fenced block of anything else is no command.
const PROGRAMS: [&str; 14] = [
    "cargo",
    "curl",
    "docker",
    "envoy",
    "glacis",
    "glacis-ext-authz",
    "glacis-ext-proc",
    "helm",
    "kill",
    "kubectl",
    "redis-server",
    "sample-upstream",
    "setpriv",
    "sh",
];

/// The documents that git knows, or those of the folders where it is not there.
fn documents() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(settings::root())
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    listed.lines().map(PathBuf::from).collect()
}

/// The commands of a document, in their order, without remarks.
fn commands(text: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut fenced, mut shell, mut continued) = (false, false, false);
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fenced = !fenced;
            shell = fenced && ["", "sh", "bash", "console"].contains(&language);
            continue;
        }
        if !shell {
            continue;
        }
        let line = line.strip_prefix("$ ").unwrap_or(line);
        let (line, goes_on) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let line = line.split_once(" # ").map_or(line, |(command, _)| command).trim();
        if continued {
            if let Some(last) = commands.last_mut() {
                last.push(' ');
                last.push_str(line);
            }
        } else if line.split(' ').next().is_some_and(|word| PROGRAMS.contains(&word)) {
            commands.push(line.to_owned());
        } else {
            continue;
        }
        continued = goes_on;
    }
    commands
}

#[test]
fn commands_are_found() {
    let text = "```\ncargo a   # why\n$ glacis b\nshown\ncurl c \\\n  -d x\n```\n```yaml\nhelm: d\n```\ncargo e\n";
    assert_eq!(commands(text), ["cargo a", "glacis b", "curl c -d x"]);
}

/// The first commands of programs that a page uses before it says where they come from: in the line `export PATH=`, or
/// above it.
fn programs_before_their_path(text: &str, builds: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (program, needs) in builds {
        let mut above = String::new();
        for line in text.lines().map(str::trim_start) {
            if line.split(' ').next() == Some(program) {
                if !(above.contains("export PATH=") && above.contains(needs)) {
                    wrong.push(format!("`{line}`: where does {program} come from?"));
                }
                break;
            }
            above.extend([line, "\n"]);
        }
    }
    wrong
}

/// A newcomer has none of these programs installed.
#[test]
fn pages_for_newcomers_put_programs_on_the_path() {
    const BUILDS: &[(&str, &str)] = &[
        ("glacis-ext-proc", "cargo build --release -p glacis-ext-proc"),
        ("sample-upstream", "--bin sample-upstream"),
        ("envoy", ".fetched/envoy-"),
    ];
    for page in ["README.md", "envoy-configs/quickstart/README.md"] {
        let text = fs::read_to_string(settings::root().join(page)).unwrap();
        assert_eq!(programs_before_their_path(&text, BUILDS), [""; 0], "{page}");
    }
    let without = "```\ncargo xtask wasm\nsample-upstream\n```\n";
    assert_eq!(programs_before_their_path(without, BUILDS).len(), 1);
}

/// A test that nobody finds is written a second time.
#[test]
fn the_readme_names_each_file_of_these_tests() {
    let tests = settings::root().join("tests");
    let readme = fs::read_to_string(tests.join("README.md")).unwrap();
    let files = fs::read_dir(tests.join("tests/e2e")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let missing: Vec<_> = names.filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "tests/README.md does not name {missing:?}");
}

/// A variable that nobody hears of is not set.
#[test]
fn the_readme_names_each_variable_of_the_settings() {
    let tests = settings::root().join("tests");
    let [readme, source] =
        ["README.md", "src/settings.rs"].map(|file| fs::read_to_string(tests.join(file)).unwrap());
    let variables = source.split('"').filter(|text| text.starts_with("GLACIS_"));
    let missing: Vec<_> = variables.filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "tests/README.md does not name {missing:?}");
}

/// The files that documents speak of.
fn place() -> Folder {
    let place = Folder::new(&folder("documents")).unwrap();
    let root = settings::root();
    let data = root.join("cli/tests/data");
    let links = [
        ("rules", root.join("rules")),
        ("CRS", settings::crs().unwrap()),
        (".fetched/crs-4.25.0", settings::crs().unwrap()),
        ("tests/corpora", root.join("tests/corpora")),
        ("tests/ftw.yaml", data.join("ftw/tests/1.yaml")),
        ("main.conf", data.join("ftw/rules.conf")),
        ("before.conf", data.join("ftw/rules.conf")),
        ("behind.conf", data.join("explain/detection.conf")),
        ("modsec/main.conf", data.join("import/main.conf")),
        ("nginx", data.join("import")),
        ("Caddyfile", data.join("import/Caddyfile")),
        ("coraza.yaml", data.join("import/coraza-proxy-wasm.yaml")),
        ("ingresses.yaml", data.join("import/ingress-nginx.yaml")),
        ("requests.jsonl", data.join("explain/requests.jsonl")),
        ("FILE.jsonl", data.join("explain/requests.jsonl")),
        ("FILE", data.join("explain/requests.jsonl")),
        ("bin/glacis", settings::cli().unwrap()),
        ("bin/glacis-ext-proc", settings::ext_proc().unwrap()),
        ("bin/glacis-ext-authz", settings::ext_authz().unwrap()),
    ];
    for (name, target) in links {
        let link = place.file(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, link).unwrap();
    }
    let api = root.join("openapi/tests/data/pets-3.0.yaml");
    fs::copy(api, place.file("openapi.yaml")).unwrap();
    // Their paths go upwards from where they are.
    let mut copy = Command::new("cp");
    copy.arg("-r").arg(root.join("envoy-configs")).arg(place.path());
    assert!(copy.status().unwrap().success());
    let controller = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: d}\ndata: {enable-modsecurity: \"true\"}\n";
    place.write("controller.yaml", controller).unwrap();
    place.write("key.txt", "0123456789abcdef0123456789abcdef\n").unwrap();
    place.write("pepper", "0123456789abcdef0123456789abcdef\n").unwrap();
    place
}

/// Where what a document calls by its usual port listens.
struct Service {
    ext_proc: ExtProc,
    ports: [(&'static str, u16); 2],
}

impl Service {
    /// As docs/upgrade-crs.md has it, and with a module to be served.
    fn start(place: &Folder) -> Self {
        let [port, admin, module] = ports::free().unwrap();
        let keys = format!(
            "{SHADOW}wasm: {{listen: \"127.0.0.1:{module}\", file: \"{}\"}}\n",
            settings::wasm().unwrap().display()
        );
        let service = Folder::new(&place.file("service")).unwrap();
        let ext_proc = ExtProc::start(port, admin, &keys, &service).unwrap();
        Self { ext_proc, ports: [(":9101/", admin), (":9103/", module)] }
    }

    fn command(&self, command: &str) -> String {
        let ports = self.ports.iter();
        ports.fold(command.to_owned(), |command, (usual, port)| {
            command.replace(usual, &format!(":{port}/"))
        })
    }
}

const SHADOW: &str = "shadow: {profile: next, percent: 10}\nprofiles: {next: {paranoia: 2}}\n";

/// What is wrong with a command, if anything is.
fn tried(command: &str, how: How, place: &Folder, service: &Service) -> Option<String> {
    let (line, expected) = match how {
        Elsewhere(_) => return None,
        Run => (command.to_owned(), 0),
        Finds => (command.to_owned(), 1),
        Check if command.ends_with("--check") => (command.replace(" FILE ", " FILE.yaml "), 0),
        Check => (format!("{command} --check"), 0),
        Ask => (service.command(command), 0),
    };
    // An image has its rules, and a web server its files, where this machine has none.
    let crs = settings::crs().unwrap().display().to_string();
    let imported = place.read("ext-proc.yaml").replace("/usr/share/glacis/crs", &crs);
    place.write("ext-proc.yaml", &imported).unwrap();
    let line = line.replace("/etc/nginx/modsec/", "modsec/").replace("/etc/nginx/", "nginx/");
    let line = line.replace("/usr/share/glacis/crs", &crs);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", place.file("bin").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("set -e; {line}")]).current_dir(place.path()).env("PATH", path);
    let output = shell.output().unwrap();
    let told =
        [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned());
    let says_something = !told.concat().is_empty() || line.contains(" > ");
    let wrong = output.status.code() != Some(expected) || !says_something;
    wrong.then(|| format!("`{line}` ended with {}:\n{}", output.status, told.concat()))
}

/// Files of the repository that a command names are there.
fn missing(command: &str) -> Option<String> {
    let root = settings::root();
    let is_ours = |word: &&str| {
        let first = word.split('/').next().unwrap_or_default();
        word.contains('/') && ["charts", "docs", "envoy-configs", "rules", "tests"].contains(&first)
    };
    let words = command.split([' ', '=']).filter(is_ours);
    let mut missing = words.filter(|word| !Path::new(&root).join(word).exists());
    missing.next().map(|word| format!("`{command}`: there is no {word}"))
}

#[test]
fn commands_of_documents_do_what_they_should() {
    let place = place();
    let shipped = place.read("envoy-configs/quickstart/ext-proc.yaml");
    place.write("FILE.yaml", &format!("{}{SHADOW}", shipped.replace("../../", ""))).unwrap();
    let mut service = Service::start(&place);
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for document in documents() {
        let text = fs::read_to_string(settings::root().join(&document)).unwrap();
        for command in commands(&text) {
            let row = COMMANDS.iter().find(|(start, _)| command.starts_with(start));
            let found = match row {
                Some((start, how)) => {
                    used.insert(*start);
                    missing(&command).or_else(|| tried(&command, *how, &place, &service))
                }
                None => Some(format!("`{command}`: nothing says how it is tried")),
            };
            wrong.extend(found.map(|found| format!("{}: {found}", document.display())));
        }
    }
    assert!(service.ext_proc.process().ended().is_none());
    let unused = COMMANDS.iter().map(|(start, _)| *start).filter(|start| !used.contains(start));
    wrong.extend(unused.map(|start| format!("no document has a command `{start}…`")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

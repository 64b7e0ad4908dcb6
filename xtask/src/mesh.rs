//! `cargo xtask mesh`: the chart's objects before a real kube-apiserver, and attacks through Envoys that a real
//! istiod and a real Envoy Gateway configure.
//!
//! The three are built from their Go modules, once: some twenty-five minutes of CPU, and 16 GB of Go's caches. What is
//! built is kept in `.fetched/mesh-…`. `tests/mesh/prove.sh` then runs in namespaces of its own, for some minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, Artifacts, output};
use crate::failure::{self, Failure, Outcome};
use crate::{digest, fetch, machine, settings::settings, wasm};

/// The folder of each wrapper module in `tests/mesh/tools/`, the program and its package, and what is set in it.
const TOOLS: &[(&str, &str, &str, &str)] = &[
    ("envoy-gateway", "envoy-gateway", "github.com/envoyproxy/gateway/cmd/envoy-gateway", ""),
    (
        "kube-apiserver",
        "kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        " -X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 \
         -X k8s.io/component-base/version.gitMinor=36",
    ),
    ("istiod", "pilot-discovery", "istio.io/istio/pilot/cmd/pilot-discovery", ""),
];

/// Modules with CRDs: where they stand in them, and how their files begin.
const CRDS: &[(&str, &str, &str)] = &[
    ("istio.io/api@v1.31.1", "kubernetes", "customresourcedefinitions"),
    (
        "github.com/envoyproxy/gateway@v1.9.1",
        "charts/gateway-helm/charts/crds/crds/generated",
        "gateway",
    ),
    ("sigs.k8s.io/gateway-api@v1.6.1", "config/crd/experimental", "gateway.networking.k8s.io_"),
    (
        "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        "example/prometheus-operator-crd",
        "monitoring.coreos.com_",
    ),
    ("github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds", "cert-manager.io_"),
];

/// What the script says of versions.
const ISTIO_VERSION: &str = "istiod of 2026-08-27, towards 1.31";
const ENVOY_GATEWAY_VERSION: &str = "1.9.1";

/// `cargo xtask mesh [--report FILE]`.
pub(crate) fn command(arguments: &[String]) -> Outcome<()> {
    let report = crate::report_file(arguments)?;
    let fetched = fetch::ensure()?;
    let needed = |found: Result<PathBuf, String>| found.map_err(Failure::new);
    let helm = needed(fetch::helm::ensure()?)?;
    let etcd = needed(fetch::debian::program("etcd", "etcd-server")?)?;
    let programs = programs()?;
    let crds = crds()?;
    let wasm = wasm::build()?;
    let mut prove = Command::new("unshare");
    prove.args(["--net", "--mount", "bash"]).arg(cargo::root().join("tests/mesh/prove.sh"));
    prove.envs(settings(&fetched, Some(wasm), &build()?));
    prove.env("TOOLS", helm).env("ETCD", etcd).env("CRDS", crds);
    prove.env("KUBE_APISERVER", programs.join("kube-apiserver"));
    prove.env("PILOT", programs.join("pilot-discovery"));
    prove.env("ENVOY_GATEWAY", programs.join("envoy-gateway"));
    let mut module = Command::new("go");
    module.args(["list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "istio.io/istio"]);
    module.env("GOWORK", "off").current_dir(cargo::root().join("tests/mesh/tools/istiod"));
    prove.env("ISTIO_MODULE", output(&mut module)?.trim());
    prove.env("ISTIO_VERSION", ISTIO_VERSION).env("EG_VERSION", ENVOY_GATEWAY_VERSION);
    let work = fetch::path().join("mesh-run");
    if work.exists() {
        fs::remove_dir_all(&work).map_err(failure::io("remove", &work))?;
    }
    let outcome = cargo::run(prove.env("W", &work).current_dir(cargo::root()));
    // What failed is worth a report too.
    report.map_or(Ok(()), |file| write_report(&work.join("told.txt"), file)).and(outcome)
}

/// Ours as they are shipped, since rules have a deadline; and the sample upstream. `--lib` has the native module made.
fn build() -> Outcome<Artifacts> {
    let programs =
        ["--bin", "glacis-ext-proc", "--bin", "glacis-ext-authz", "--bin", "sample-upstream"];
    cargo::build(&[&["--workspace", "--release", "--lib"][..], &programs].concat())
}

/// What the script has told, under a heading.
fn write_report(told: &Path, file: &Path) -> Outcome<()> {
    let told = fs::read_to_string(told).map_err(failure::io("read", told))?;
    // Neither where this was run, nor blanks at ends of lines, are for readers.
    let here = format!("{}/", cargo::root().display());
    let told: Vec<String> =
        told.lines().map(|line| line.replace(&here, "").trim_end().to_owned()).collect();
    let told = told.join("\n");
    let text = format!(
        "# `cargo xtask mesh`\n\n\
         What `tests/mesh/prove.sh` told on {}, as the command wrote it down (`--report`).\n\
         Every request went through a real Envoy that had its configuration from the control plane named above it.\n\n\
         ```\n{}\n```\n",
        machine::date(),
        told.trim()
    );
    fs::write(file, text).map_err(failure::io("write", file))
}

/// The folder with the three programs, which are built where they are missing or their pins have changed.
fn programs() -> Outcome<PathBuf> {
    let place = fetch::path().join("mesh-programs");
    fs::create_dir_all(&place).map_err(failure::io("create", &place))?;
    for (folder, program, package, set) in TOOLS {
        let module = cargo::root().join("tests/mesh/tools").join(folder);
        let pin = pin(&module)?;
        let stamp = place.join(format!("{program}.pin"));
        if fs::read_to_string(&stamp).is_ok_and(|there| there == pin) {
            println!("{program}: already there");
            continue;
        }
        println!("building {program}: this takes minutes");
        let mut go = Command::new("nice");
        go.args([
            "go",
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-ldflags",
            &format!("-s -w{set}"),
            "-o",
        ]);
        go.arg(place.join(program)).arg(package).current_dir(&module);
        cargo::run(go.env("GOWORK", "off"))?;
        fs::write(&stamp, pin).map_err(failure::io("write", &stamp))?;
    }
    Ok(place)
}

fn pin(module: &Path) -> Outcome<String> {
    Ok(format!(
        "{}\n{}\n",
        digest::of_file(&module.join("go.mod"))?,
        digest::of_file(&module.join("go.sum"))?
    ))
}

/// The files of all CRDs, as arguments of kubectl.
fn crds() -> Outcome<String> {
    let mut arguments = Vec::new();
    for (module, folder, start) in CRDS {
        let place = fetch::go::module(module, &fetch::path())?.join(folder);
        for entry in fs::read_dir(&place).map_err(failure::io("list", &place))? {
            let path = entry.map_err(failure::io("list", &place))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // One of the Gateway API's files is a policy, not a CRD.
            if name.starts_with(start) && !name.contains("_vap_") {
                arguments.push(format!("-f {}", path.display()));
            }
        }
    }
    arguments.sort();
    Ok(arguments.join(" "))
}

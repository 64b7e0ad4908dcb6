//! The regression tests of CRS over a real Envoy, with ext-proc or with the native module: `glacis ftw --url`.

use std::path::Path;
use std::process::Command;

use crate::envoy::Envoy;
use crate::ext_proc::{self, AUDIT, ExtProc};
use crate::failure::{Failure, Outcome};
use crate::log::Folder;
use crate::stack::{self, Ports};
use crate::{settings, upstream};

/// The configuration of Envoy, from the top folder.
pub const ENVOY: &str = "tests/crs/envoy.yaml";
/// That of ext-proc.
const EXT_PROC: &str = "tests/crs/ext-proc.yaml";
/// That of the native module.
const MODULE: &str = "tests/crs/module.yaml";
/// What Envoy decides before the rules see it.
const OVERRIDES: &str = "tests/crs/envoy-overrides.yaml";

/// Requests on their way at once: evaluation is all that takes time, more would only wait.
const JOBS: &str = "8";

/// Envoy, ext-proc and the sample upstream as the tests want them; stopped when dropped.
#[derive(Debug)]
pub struct Regression {
    /// Envoy.
    pub envoy: Envoy,
    /// ext-proc; `None` with the module.
    pub ext_proc: Option<ExtProc>,
    /// Configurations and logs.
    pub folder: Folder,
    ports: Ports,
}

impl Regression {
    /// Starts everything in `folder` and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If something is missing or does not start.
    pub fn start(folder: &Path) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let ports = Ports::free()?;
        upstream::spawn(ports.upstream)?;
        let config = ext_proc_config(&ports, &folder)?;
        let ext_proc = ExtProc::start_with(&config, ports.ext_proc_admin, &folder)?;
        let config = stack::with_ports(ENVOY, &ports)?;
        Self::start_envoy(&config, Some(ext_proc), folder, ports)
    }

    /// The same with the native module instead of ext-proc.
    ///
    /// # Errors
    ///
    /// As [`Regression::start`].
    pub fn start_natively(folder: &Path) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let ports = Ports::free()?;
        settings::envoy_module()?;
        upstream::spawn(ports.upstream)?;
        let keys = folder.write("module.yaml", &config_at(MODULE, &folder, &[])?)?;
        let config = with_module(&stack::with_ports(ENVOY, &ports)?, &keys)?;
        Self::start_envoy(&config, None, folder, ports)
    }

    fn start_envoy(
        config: &str,
        ext_proc: Option<ExtProc>,
        folder: Folder,
        ports: Ports,
    ) -> Outcome<Self> {
        let program = settings::envoy()?;
        let envoy = Envoy::start(&program, &settings::root(), config, ports.admin, &folder)?;
        Ok(Self { envoy, ext_proc, folder, ports })
    }

    /// `glacis ftw` over all tests, with further `arguments`, ready to be run.
    ///
    /// # Errors
    ///
    /// If the program or CRS is missing.
    pub fn ftw(&self, arguments: &[String]) -> Outcome<Command> {
        let mut command = Command::new(settings::cli()?);
        command.args(["ftw", "--jobs", JOBS]);
        command.arg("--url").arg(format!("http://127.0.0.1:{}", self.ports.proxy));
        command.arg("--audit-log").arg(self.folder.file(AUDIT));
        command.arg("--tests").arg(settings::crs()?.join("tests"));
        command.arg("--overrides").arg(settings::root().join(OVERRIDES));
        command.args(arguments);
        Ok(command)
    }
}

fn ext_proc_config(ports: &Ports, folder: &Folder) -> Outcome<String> {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let (grpc, admin) = (address(ports.ext_proc), address(ports.ext_proc_admin));
    config_at(EXT_PROC, folder, &[("127.0.0.1:9001", grpc), ("127.0.0.1:9101", admin)])
}

/// A configuration with everything where it is, and further edits.
fn config_at(file: &str, folder: &Folder, edits: &[(&str, String)]) -> Outcome<String> {
    let regression = settings::root().join("tests/crs/regression.conf");
    let edits = edits.iter().cloned().chain([
        (".fetched/crs-4.25.0", settings::crs()?.display().to_string()),
        ("tests/crs/regression.conf", regression.display().to_string()),
        ("audit.jsonl", folder.file(AUDIT).display().to_string()),
    ]);
    ext_proc::edited(file, &edits.collect::<Vec<_>>())
}

/// The configuration of Envoy with the module in the place of ext_proc; its keys are in a file.
fn with_module(config: &str, keys: &Path) -> Outcome<String> {
    let missing = || Failure::new(format!("{ENVOY} does not contain ext_proc before the router"));
    let (before, rest) =
        config.split_once("          - name: envoy.filters.http.ext_proc\n").ok_or_else(missing)?;
    let router = "          - name: envoy.filters.http.router\n";
    let (_, after) = rest.split_once(router).ok_or_else(missing)?;
    let filter = format!(
        r#"          - name: glacis
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
              dynamic_module_config: {{name: glacis}}
              filter_name: waf
              filter_config:
                "@type": type.googleapis.com/google.protobuf.Struct
                value: {{file: {}}}
"#,
        keys.display()
    );
    Ok(format!("{before}{filter}{router}{after}"))
}

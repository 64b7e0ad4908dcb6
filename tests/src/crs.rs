//! The regression tests of CRS over a real Envoy with ext-proc: `glacis ftw --url`.

use std::path::Path;
use std::process::Command;

use crate::envoy::Envoy;
use crate::ext_proc::{self, AUDIT, ExtProc};
use crate::failure::Outcome;
use crate::log::Folder;
use crate::stack::{self, Ports};
use crate::{settings, upstream};

/// The configuration of Envoy, from the top folder.
pub const ENVOY: &str = "tests/crs/envoy.yaml";
/// That of ext-proc.
const EXT_PROC: &str = "tests/crs/ext-proc.yaml";
/// What Envoy decides before the rules see it.
const OVERRIDES: &str = "tests/crs/envoy-overrides.yaml";

/// Requests on their way at once: evaluation is all that takes time, more would only wait.
const JOBS: &str = "8";

/// Envoy, ext-proc and the sample upstream as the tests want them; stopped when dropped.
#[derive(Debug)]
pub struct Regression {
    /// Envoy.
    pub envoy: Envoy,
    /// ext-proc.
    pub ext_proc: ExtProc,
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
        let program = settings::envoy()?;
        let envoy = Envoy::start(&program, &settings::root(), &config, ports.admin, &folder)?;
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
    let regression = settings::root().join("tests/crs/regression.conf");
    ext_proc::edited(
        EXT_PROC,
        &[
            ("127.0.0.1:9001", format!("127.0.0.1:{}", ports.ext_proc)),
            ("127.0.0.1:9101", format!("127.0.0.1:{}", ports.ext_proc_admin)),
            (".fetched/crs-4.25.0", settings::crs()?.display().to_string()),
            ("tests/crs/regression.conf", regression.display().to_string()),
            ("audit.jsonl", folder.file(AUDIT).display().to_string()),
        ],
    )
}

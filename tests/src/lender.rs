//! A running ext-authz that lends tokens.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::{http, ports, settings};

const LOG: &str = "ext-authz.log";
const CONFIG: &str = "ext-authz.yaml";
const START: Duration = Duration::from_secs(30);

/// A lender, stopped when dropped.
#[derive(Debug)]
pub struct Lender {
    /// The port of gRPC.
    pub port: u16,
    admin: SocketAddr,
    /// Configuration and log.
    pub folder: Folder,
    process: Process,
}

impl Lender {
    /// Starts it with these keys of its configuration, in YAML, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not start, with the end of its log.
    pub fn start(folder: &Path, keys: &str) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let [port, admin] = ports::free()?;
        let listen = format!(
            "listen: {{tcp: \"127.0.0.1:{port}\"}}\nadmin: {{address: \"127.0.0.1:{admin}\"}}\n"
        );
        folder.write(CONFIG, &format!("{listen}{keys}"))?;
        let process = spawn(&folder)?;
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, admin));
        let mut lender = Self { port, admin, folder, process };
        lender.wait_until_ready()?;
        Ok(lender)
    }

    /// Starts it again, after it has been killed; it has forgotten what it had lent.
    ///
    /// # Errors
    ///
    /// As [`Lender::start`].
    pub fn restart(&mut self) -> Outcome<()> {
        self.process.kill();
        self.process = spawn(&self.folder)?;
        self.wait_until_ready()
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn wait_until_ready(&mut self) -> Outcome<()> {
        let admin = self.admin;
        let ready = || http::fetch(admin, "/readyz").is_ok_and(|answer| answer.status == 200);
        self.process
            .wait_until(START, ready)
            .map_err(|failure| Failure::new(format!("{failure}\n{}", tail(&self.folder.read(LOG)))))
    }
}

fn spawn(folder: &Folder) -> Outcome<Process> {
    let mut command = Command::new(settings::ext_authz()?);
    command.arg("--config").arg(folder.file(CONFIG));
    Process::start("ext-authz", &mut command, &folder.file(LOG))
}

//! A running ext-authz that lends tokens.

use std::path::Path;

use crate::failure::Outcome;
use crate::log::Folder;
use crate::ports;
use crate::process::Process;
use crate::rate_limit::ExtAuthz;

const CONFIG: &str = "ext-authz.yaml";

/// A lender, stopped when dropped.
#[derive(Debug)]
pub struct Lender {
    /// The port of gRPC.
    pub port: u16,
    admin: u16,
    /// Configuration and log.
    pub folder: Folder,
    service: ExtAuthz,
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
        let config = folder.write(CONFIG, &format!("{listen}{keys}"))?;
        let service = ExtAuthz::start(&config, admin, &folder)?;
        Ok(Self { port, admin, folder, service })
    }

    /// Starts it again, after it has been killed; it has forgotten what it had lent.
    ///
    /// # Errors
    ///
    /// As [`Lender::start`].
    pub fn restart(&mut self) -> Outcome<()> {
        // Its ports are free once it is gone.
        self.process().kill();
        self.service = ExtAuthz::start(&self.folder.file(CONFIG), self.admin, &self.folder)?;
        Ok(())
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        self.service.process()
    }
}

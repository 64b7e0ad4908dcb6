//! A running ext-authz that lends tokens.

use std::path::Path;

use crate::failure::Outcome;
use crate::log::Folder;
use crate::ports;
use crate::process::Process;
use crate::rate_limit::ExtAuthz;

const CONFIG: &str = "ext-authz.yaml";

/// What callers have to send to a lender of [`Lender::start_with_token`].
pub const TOKEN: &str = "a-token-for-borrowers";

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
        Self::start_in(Folder::new(folder)?, "", keys)
    }

    /// The same, for callers that have the [`TOKEN`].
    ///
    /// # Errors
    ///
    /// As [`Lender::start`].
    pub fn start_with_token(folder: &Path, keys: &str) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let file = folder.write("token", TOKEN)?;
        let token = format!(", token_file: {file:?}");
        Self::start_in(folder, &token, keys)
    }

    fn start_in(folder: Folder, token: &str, keys: &str) -> Outcome<Self> {
        let [port, admin] = ports::free()?;
        let listen = format!(
            "listen: {{tcp: \"127.0.0.1:{port}\"{token}}}\n\
             admin: {{address: \"127.0.0.1:{admin}\"}}\n"
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

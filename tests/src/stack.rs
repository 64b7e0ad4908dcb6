//! The whole of `envoy-configs/quickstart/`, running.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::envoy::{self, Envoy};
use crate::ext_proc::{self, ExtProc};
use crate::failure::{Failure, Outcome, io};
use crate::http::{self, Request, Response};
use crate::log::Folder;
use crate::{ports, settings, upstream};

/// The configuration that is started, from the top folder.
pub const QUICKSTART: &str = "envoy-configs/quickstart/envoy.yaml";

/// Long enough for many probes.
const PROBES: Duration = Duration::from_secs(15);

/// Where everything listens, on 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Envoy, for clients.
    pub proxy: u16,
    /// Envoy, for operators.
    pub admin: u16,
    /// ext-proc, for Envoy.
    pub ext_proc: u16,
    /// ext-proc, for operators.
    pub ext_proc_admin: u16,
    /// The sample upstream.
    pub upstream: u16,
}

impl Ports {
    /// Those that stand in the files.
    pub const QUICKSTART: Self = Self {
        proxy: 10000,
        admin: 9901,
        ext_proc: 9001,
        ext_proc_admin: ext_proc::ADMIN_PORT,
        upstream: 8080,
    };

    /// Free ones.
    ///
    /// # Errors
    ///
    /// If the system has no more.
    pub fn free() -> Outcome<Self> {
        let [proxy, admin, ext_proc, ext_proc_admin, upstream] = ports::free()?;
        Ok(Self { proxy, admin, ext_proc, ext_proc_admin, upstream })
    }
}

/// Who listens on the port of ext-proc at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// ext-proc.
    ExtProc,
    /// ext-proc with these keys besides those of the shipped configuration, in YAML.
    ExtProcWith(&'static str),
    /// Nobody, or whoever the test has started there.
    Other,
}

/// Everything that runs; stopped when dropped, Envoy first.
#[derive(Debug)]
pub struct Stack {
    /// Envoy.
    pub envoy: Envoy,
    /// ext-proc, if it was asked for.
    pub ext_proc: Option<ExtProc>,
    /// Configurations and logs.
    pub folder: Folder,
    /// Where everything listens.
    pub ports: Ports,
}

impl Stack {
    /// Starts everything in `folder` and waits until it is ready.
    ///
    /// `edits` are pairs of texts: what stands in the quickstart's configuration of Envoy, and
    /// what is to stand there instead.
    ///
    /// # Errors
    ///
    /// If something is missing, does not start, or an edit has nothing to replace.
    pub fn start(
        folder: &Path,
        ports: Ports,
        processor: Processor,
        edits: &[(&str, &str)],
    ) -> Outcome<Self> {
        Self::start_config(folder, ports, processor, &quickstart(&ports, edits)?)
    }

    /// The same with this configuration of Envoy, whose cluster of the processor has the quickstart's name.
    ///
    /// # Errors
    ///
    /// As [`Stack::start`].
    pub fn start_config(
        folder: &Path,
        ports: Ports,
        processor: Processor,
        config: &str,
    ) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        upstream::spawn(ports.upstream)?;
        let keys = match processor {
            Processor::ExtProc => Some(""),
            Processor::ExtProcWith(keys) => Some(keys),
            Processor::Other => None,
        };
        let start = |keys| ExtProc::start(ports.ext_proc, ports.ext_proc_admin, keys, &folder);
        let ext_proc = keys.map(start).transpose()?;
        let program = settings::envoy()?;
        let envoy = Envoy::start(&program, &settings::root(), config, ports.admin, &folder)?;
        let mut stack = Self { envoy, ext_proc, folder, ports };
        stack.wait_for_processor()?;
        Ok(stack)
    }

    /// Stops everything in order: Envoy first, so that no request meets a processor that is gone.
    pub fn stop(mut self) {
        self.envoy.process().stop();
        if let Some(mut ext_proc) = self.ext_proc.take() {
            ext_proc.process().stop();
        }
    }

    /// The lines of the access log so far. A moment may pass before a request is among them.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn access_log(&self) -> Outcome<Vec<Value>> {
        self.envoy.reopen_logs()?;
        let log = self.folder.read(envoy::LOG);
        Ok(log.lines().flat_map(serde_json::from_str).collect())
    }

    /// The records of the audit log.
    pub fn audit_log(&self) -> Vec<Value> {
        self.folder.read(ext_proc::AUDIT).lines().flat_map(serde_json::from_str).collect()
    }

    /// Envoy may be live before its first probe of the processor is answered.
    fn wait_for_processor(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        while !self.processor_is_healthy()? {
            if begun.elapsed() > PROBES {
                return Err(Failure::new("Envoy finds no healthy processor"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Whether Envoy sends streams to the processor, as far as its health is concerned.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn processor_is_healthy(&self) -> Outcome<bool> {
        // With the native module, Envoy is the processor.
        let is_native = !self.folder.read(envoy::CONFIG).contains("glacis-ext-proc");
        Ok(is_native || self.envoy.stat("cluster.glacis-ext-proc.membership_healthy")? > 0)
    }

    /// Envoy's address for clients.
    pub fn proxy(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports.proxy))
    }

    /// Sends one request as the client `from`.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn send(&self, from: Ipv4Addr, request: &Request) -> Outcome<Response> {
        http::send(Some(from), self.proxy(), request)
    }
}

/// The quickstart's configuration of Envoy with these ports, the wasm-filter where it is, and
/// further edits.
///
/// # Errors
///
/// If the file cannot be read, or does not contain what is to be replaced.
pub fn quickstart(ports: &Ports, edits: &[(&str, &str)]) -> Outcome<String> {
    let config = with_ports(QUICKSTART, ports)?;
    let wasm = settings::wasm()?;
    let config = replaced(QUICKSTART, &config, WASM, &wasm.display().to_string())?;
    edits.iter().try_fold(config, |config, (old, new)| replaced(QUICKSTART, &config, old, new))
}

/// A configuration of Envoy, from the top folder, with these ports instead of the quickstart's.
///
/// # Errors
///
/// As [`quickstart`].
pub fn with_ports(file: &str, ports: &Ports) -> Outcome<String> {
    let path = settings::root().join(file);
    let mut config = fs::read_to_string(&path).map_err(io("read", &path))?;
    let from = Ports::QUICKSTART;
    for (old, new) in [
        (from.proxy, ports.proxy),
        (from.admin, ports.admin),
        (from.ext_proc, ports.ext_proc),
        (from.upstream, ports.upstream),
    ] {
        let (old, new) = (format!("port_value: {old}}}"), format!("port_value: {new}}}"));
        config = replaced(file, &config, &old, &new)?;
    }
    Ok(config)
}

/// The path of the module in the file.
pub const WASM: &str = "target/wasm32-wasip1/wasm/glacis_wasm_filter.wasm";

/// The path of the module with the engine in the files.
pub const WASM_WITH_ENGINE: &str = "target/wasm32-wasip1/wasm/glacis_wasm_filter_engine.wasm";

/// The text with `new` in each place of `old`.
///
/// # Errors
///
/// If there is no such place.
pub fn replaced(file: &str, text: &str, old: &str, new: &str) -> Outcome<String> {
    if !text.contains(old) {
        return Err(Failure::new(format!("{file} does not contain {old:?}")));
    }
    Ok(text.replace(old, new))
}

//! A running ext-authz that serves Envoy's rate limit protocol, and what is compared with it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tokio::runtime::Runtime;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::failure::{Failure, Outcome, doing, io};
use crate::http;
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::{ports, settings};

/// The log of ext-authz, in the folder of a run.
const LOG: &str = "ext-authz.log";
const START: Duration = Duration::from_secs(30);

/// A running ext-authz, stopped when dropped.
#[derive(Debug)]
pub struct ExtAuthz {
    process: Process,
    admin: SocketAddr,
}

impl ExtAuthz {
    /// Starts it with this configuration, whose admin port is `admin_port`, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If it does not start, with the end of its log.
    pub fn start(config: &Path, admin_port: u16, folder: &Folder) -> Outcome<Self> {
        let mut command = Command::new(settings::ext_authz()?);
        command.arg("--config").arg(config);
        let mut process = Process::start("ext-authz", &mut command, &folder.file(LOG))?;
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, admin_port));
        let ready = || http::fetch(admin, "/readyz").is_ok_and(|answer| answer.status == 200);
        process
            .wait_until(START, ready)
            .map_err(|failure| Failure::new(format!("{failure}\n{}", tail(&folder.read(LOG)))))?;
        Ok(Self { process, admin })
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// What Prometheus would scrape.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn metrics(&self) -> Outcome<String> {
        Ok(http::fetch(self.admin, "/metrics")?.text())
    }
}

/// A running envoyproxy/ratelimit, stopped when dropped.
#[derive(Debug)]
pub struct Theirs {
    /// Its port of gRPC.
    pub port: u16,
    process: Process,
}

impl Theirs {
    /// Starts `program`, a built `src/service_cmd`, with the files of `limits`, which counts in a Redis: how it is reached
    /// (`tcp` or `unix`), and where. `set` is its further environment.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(
        program: &Path,
        folder: &Folder,
        limits: &Path,
        (kind, redis): (&str, &Path),
        set: &[(&str, &str)],
    ) -> Outcome<Self> {
        let [port, http, debug] = ports::free()?;
        let config = folder.file("runtime/ratelimit/config");
        fs::create_dir_all(&config).map_err(io("make", &config))?;
        for file in fs::read_dir(limits).map_err(io("read", limits))?.flatten() {
            let copied = fs::copy(file.path(), config.join(file.file_name()));
            copied.map_err(io("copy", &file.path()))?;
        }
        let mut command = Command::new(program);
        command
            .env("RUNTIME_ROOT", folder.file("runtime"))
            .envs([
                ("RUNTIME_SUBDIRECTORY", "ratelimit"),
                ("RUNTIME_APPDIRECTORY", "config"),
                ("RUNTIME_WATCH_ROOT", "false"),
                ("USE_STATSD", "false"),
                ("DISABLE_STATS", "true"),
                ("LOG_LEVEL", "warn"),
                ("REDIS_SOCKET_TYPE", kind),
                ("GRPC_HOST", "127.0.0.1"),
                ("HOST", "127.0.0.1"),
                ("DEBUG_HOST", "127.0.0.1"),
            ])
            .env("REDIS_URL", redis)
            .env("GRPC_PORT", port.to_string())
            .env("PORT", http.to_string())
            .env("DEBUG_PORT", debug.to_string())
            .envs(set.iter().copied());
        let mut process = Process::start("ratelimit", &mut command, &folder.file("ratelimit.log"))?;
        process.wait_until(START, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(Self { port, process })
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// A client of the protocol.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    client: RateLimitServiceClient<Channel>,
}

impl Client {
    /// Connects to a service on this port.
    ///
    /// # Errors
    ///
    /// If nobody listens.
    pub fn connect(port: u16) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(doing("make a runtime"))?;
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"));
        let endpoint = endpoint.map_err(doing("name an endpoint"))?;
        let channel = runtime.block_on(endpoint.connect()).map_err(doing("connect"))?;
        Ok(Self { runtime, client: RateLimitServiceClient::new(channel) })
    }

    /// Asks once.
    ///
    /// # Errors
    ///
    /// What the service answers instead of a verdict.
    pub fn ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        let answer = self.client.should_rate_limit(request);
        self.runtime.block_on(answer).map(tonic::Response::into_inner)
    }
}

/// A descriptor of these entries.
pub fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry =
        |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    }
}

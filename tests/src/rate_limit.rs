//! A running ext-authz that serves Envoy's rate limit protocol, and what is compared with it.

use std::net::{Ipv4Addr, SocketAddr};
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

use crate::failure::{Failure, Outcome, doing};
use crate::http;
use crate::log::{Folder, tail};
use crate::process::Process;
use crate::settings;

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

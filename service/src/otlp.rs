//! OTLP over gRPC: log records and spans to an OpenTelemetry collector, in batches.
//!
//! The messages are those of opentelemetry-proto 1.x, as far as they are sent: the crate of that name brings
//! the SDK of OpenTelemetry with it. The tests have it as the other side.

mod export;
mod message;

use core::{fmt, time::Duration};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tonic::transport::{self, Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::tls;
pub use export::{Exporter, Signal};
pub use message::{KeyValue, LogRecord, SeverityNumber, Span, Value};

/// How long it may take to reach the collector.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The collector.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Collector {
    /// Its URL, such as `http://127.0.0.1:4317`, or nothing for none. With `https` a `ca` is needed.
    pub endpoint: Option<String>,
    /// Certificates, in PEM, of which one has to have signed that of the collector.
    pub ca: Option<PathBuf>,
    /// The certificate, in PEM with those that lead to its authority, that the collector is shown.
    pub certificate: Option<PathBuf>,
    /// Its key, in PEM.
    pub key: Option<PathBuf>,
    /// How long the collector may take for a batch.
    pub timeout_ms: u32,
    /// The name of this service (`service.name`), or nothing for that of its program.
    pub service_name: Option<String>,
}

impl Default for Collector {
    fn default() -> Self {
        Self {
            endpoint: None,
            ca: None,
            certificate: None,
            key: None,
            timeout_ms: 5_000,
            service_name: None,
        }
    }
}

/// A collector that cannot be used as it is configured.
#[derive(Debug)]
pub struct CollectorError(String);

impl fmt::Display for CollectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "otlp: {}", self.0)
    }
}

impl core::error::Error for CollectorError {}

impl From<std::io::Error> for CollectorError {
    fn from(error: std::io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<transport::Error> for CollectorError {
    fn from(error: transport::Error) -> Self {
        let cause = core::error::Error::source(&error);
        Self(cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")))
    }
}

impl Collector {
    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        for path in [&mut self.ca, &mut self.certificate, &mut self.key].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// A channel that connects when there is something to send. To be called within a runtime.
    fn channel(&self) -> Result<Channel, CollectorError> {
        let Some(url) = &self.endpoint else {
            return Err(CollectorError(
                "endpoint: there is none: write http://127.0.0.1:4317".into(),
            ));
        };
        let endpoint = Endpoint::from_shared(url.clone())?.connect_timeout(CONNECT_TIMEOUT);
        let endpoint = match (url.starts_with("https://"), &self.ca) {
            (true, Some(ca)) => endpoint.tls_config(self.tls(ca)?)?,
            (true, None) => {
                let message = "ca: https needs the certificate of an authority";
                return Err(CollectorError(message.into()));
            }
            (false, _) => endpoint,
        };
        Ok(endpoint.connect_lazy())
    }

    fn tls(&self, ca: &Path) -> Result<ClientTlsConfig, CollectorError> {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        match (&self.certificate, &self.key) {
            (None, None) => Ok(tls),
            (Some(certificate), Some(key)) => {
                Ok(tls.identity(Identity::from_pem(read(certificate)?, read(key)?)))
            }
            _ => Err(CollectorError("certificate and key go together".into())),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CollectorError> {
    tls::read(path).map_err(|error| CollectorError(error.to_string()))
}

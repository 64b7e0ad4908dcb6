//! TLS for listeners: handshakes within limits, client certificates, and certificates that are exchanged
//! while the service runs.

use core::{fmt, time::Duration};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use serde::Deserialize;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, rustls, server::TlsStream};
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    accept::not_accepted,
    metric_family::{FAILURE, RESULTS, SUCCESS, result},
    reload::{self, Reload, attempt},
};

/// Bytes of a file with certificates or a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Handshakes at once; further connections wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 64;

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a listener shows who it is, and whom it lets in.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate, in PEM, with those that lead to its authority.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Certificates, in PEM, of which one has to have signed that of a client; without it clients need
    /// none.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
    /// The names of clients, of which a certificate has to have one among its alternative names (DNS or
    /// URI, letter by letter); none for any. Needs `client_ca`.
    #[serde(default)]
    pub client_names: Vec<String>,
}

impl Tls {
    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        for path in [&mut self.certificate, &mut self.key].into_iter().chain(&mut self.client_ca) {
            *path = folder.join(&*path);
        }
    }

    /// What makes no sense.
    ///
    /// # Errors
    /// A sentence that says it.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.client_ca.is_none() && !self.client_names.is_empty() {
            return Err("client_names need a client_ca: without it clients show no certificate");
        }
        Ok(())
    }

    fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.certificate, &self.key].into_iter().chain(&self.client_ca);
        files.map(PathBuf::as_path)
    }

    /// A number that stands for what the files hold now.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for file in self.files() {
            read(file).map_err(|error| error.to_string()).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn load(&self, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|error| TlsError::new(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| TlsError::new(&self.certificate, &error))?;
        let config = match &self.client_ca {
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| TlsError::new(path, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = verifier.map_err(|error| TlsError::new(path, &error))?;
                config.with_client_cert_verifier(verifier)
            }
            None => config.with_no_client_auth(),
        };
        // It also says when the key is not that of the certificate.
        let mut config = config
            .with_single_cert(chain, key)
            .map_err(|error| TlsError::new(&self.certificate, &error))?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

/// A certificate or key that cannot be used, and why.
#[derive(Debug)]
pub struct TlsError {
    path: PathBuf,
    message: String,
}

impl TlsError {
    fn new(path: &Path, error: &dyn fmt::Display) -> Self {
        Self { path: path.to_owned(), message: error.to_string() }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS: {}: {}", self.path.display(), self.message)
    }
}

impl core::error::Error for TlsError {}

/// A file with certificates or a key.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let length = std::fs::metadata(path).map_err(|error| TlsError::new(path, &error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(TlsError::new(path, &"the file is too large: at most 1 MiB"));
    }
    std::fs::read(path).map_err(|error| TlsError::new(path, &error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| TlsError::new(path, &error))?;
    if certificates.is_empty() {
        return Err(TlsError::new(path, &"there is no certificate in PEM in it"));
    }
    Ok(certificates)
}

/// What is counted of TLS, to be registered.
#[derive(Clone, Debug)]
pub struct TlsMetrics {
    /// Handshakes by listener and result: `success`, `failure` (of the protocol, or of the client's
    /// certificate), `timeout`, or `name` (a certificate without one of the names).
    pub handshakes: Family<TlsLabel, Counter>,
    /// Certificates and keys that were read anew, by listener and result: `success`, or `failure` (those
    /// before stay in use).
    pub reloads: Family<TlsLabel, Counter>,
}

impl TlsMetrics {
    /// The listeners there can be.
    pub const LISTENERS: [&str; 2] = ["grpc", "admin"];
    /// The results of handshakes.
    pub const RESULTS: [&str; 4] = [SUCCESS, FAILURE, TIMEOUT, NAME];
}

impl Default for TlsMetrics {
    /// All counters, at 0.
    fn default() -> Self {
        let (handshakes, reloads) = (Family::default(), Family::default());
        for listener in Self::LISTENERS {
            for result in Self::RESULTS {
                drop(handshakes.get_or_create(&TlsLabel { listener, result }));
            }
            for result in RESULTS {
                drop(reloads.get_or_create(&TlsLabel { listener, result }));
            }
        }
        Self { handshakes, reloads }
    }
}

/// The labels of such a counter.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct TlsLabel {
    listener: &'static str,
    result: &'static str,
}

/// A connection, as it is once the handshake is done.
pub(crate) type Secured = TlsStream<TcpStream>;

/// The TLS side of a listener. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    listener: &'static str,
    protocols: &'static [&'static [u8]],
    tls: Arc<Tls>,
    current: Arc<RwLock<Arc<ServerConfig>>>,
    metrics: TlsMetrics,
}

impl Gate {
    /// Reads certificates and key. `protocols` are what is spoken behind it, as ALPN names them.
    pub(crate) fn load(
        listener: &'static str,
        protocols: &'static [&'static [u8]],
        tls: &Tls,
    ) -> Result<Self, TlsError> {
        let current = Arc::new(RwLock::new(tls.load(protocols)?));
        let tls = Arc::new(tls.clone());
        Ok(Self { listener, protocols, tls, current, metrics: TlsMetrics::default() })
    }

    /// Counts there.
    pub(crate) fn count_in(&mut self, metrics: &TlsMetrics) {
        self.metrics = metrics.clone();
    }

    /// Looks for other files as long as the runtime runs, see [`reload::watch`].
    pub(crate) fn watch(&self, interval: Option<Duration>) -> io::Result<()> {
        let read = self.tls.digest();
        reload::watch(&self.what(), Reloader { gate: self.clone(), read }, interval)
    }

    /// What logs of reading them anew call them.
    fn what(&self) -> String {
        format!("certificates of {}", self.listener)
    }

    /// The handshake; `None` if it fails, which is counted.
    pub(crate) async fn enter(&self, stream: TcpStream) -> Option<Secured> {
        let config = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let handshake = TlsAcceptor::from(config).accept(stream);
        let (result, secured) = match timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Err(_) => (TIMEOUT, None),
            Ok(Err(error)) => {
                tracing::debug!(listener = self.listener, %error, "no TLS handshake");
                (FAILURE, None)
            }
            Ok(Ok(secured)) if self.lets_in(&secured) => (SUCCESS, Some(secured)),
            Ok(Ok(_)) => {
                let listener = self.listener;
                tracing::warn!(listener, "a client certificate has none of the client_names");
                (NAME, None)
            }
        };
        let label = TlsLabel { listener: self.listener, result };
        self.metrics.handshakes.get_or_create(&label).inc();
        secured
    }

    /// Whether the client's certificate, which is valid, has one of the names.
    fn lets_in(&self, secured: &Secured) -> bool {
        let names = &self.tls.client_names;
        if names.is_empty() {
            return true;
        }
        let certificates = secured.get_ref().1.peer_certificates().unwrap_or_default();
        let Some(certificate) = certificates.first() else { return false };
        let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return false };
        let mut found = certificate.valid_dns_names().chain(certificate.valid_uri_names());
        found.any(|found| names.iter().any(|name| name == found))
    }
}

const TIMEOUT: &str = "timeout";
const NAME: &str = "name";

/// Reads certificates and key anew.
struct Reloader {
    gate: Gate,
    /// What they were when they were last read.
    read: u64,
}

impl Reload for Reloader {
    fn as_read(&self) -> u64 {
        self.read
    }

    fn now(&self) -> u64 {
        self.gate.tls.digest()
    }

    fn reload(&mut self) {
        let now = self.now();
        // SIGHUP is for everything that can be read anew.
        if now == self.read {
            return;
        }
        self.read = now;
        let Gate { listener, protocols, tls, current, metrics } = &self.gate;
        let last = attempt(&self.gate.what(), || {
            let config = tls.load(protocols)?;
            *current.write().unwrap_or_else(PoisonError::into_inner) = config;
            Ok(())
        });
        let result = result(last.error.is_none());
        metrics.reloads.get_or_create(&TlsLabel { listener, result }).inc();
    }
}

/// The connections of a listener, once their handshake is done. Nobody waits for a handshake but its own
/// client.
pub(crate) fn secured(listener: TcpListener, gate: Gate) -> ReceiverStream<io::Result<Secured>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let room = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                // Nobody takes connections any more: the process ends.
                () = sender.closed() => return,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    not_accepted("gRPC", &error).await;
                    continue;
                }
            };
            // Small messages go back and forth: waiting to fill a packet only adds latency.
            let _ = stream.set_nodelay(true);
            let (gate, sender) = (gate.clone(), sender.clone());
            tokio::spawn(async move {
                if let Some(secured) = gate.enter(stream).await {
                    let _ = sender.send(Ok(secured)).await;
                }
                drop(permit);
            });
        }
    });
    ReceiverStream::new(receiver)
}

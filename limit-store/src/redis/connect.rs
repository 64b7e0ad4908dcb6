//! Connections to Redis, however it is laid out.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo as _, RedisConnectionInfo, RedisError, RedisResult, TlsCertificates,
    TlsMode, Value,
};

use super::config::{Node, RedisConfig, Topology};

/// Bytes of a file with a password, a key or certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A connection that many use at the same time; cheap to clone.
#[derive(Clone)]
pub(super) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub(super) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }
}

/// Connects. Files are read each time: they may have been exchanged.
pub(super) async fn connect(config: &RedisConfig, nodes: &[Node]) -> RedisResult<Connection> {
    let password = password(config.password_file.as_deref())?;
    let addresses = nodes.iter().map(|node| address(node, config.tls.is_some()));
    match config.kind {
        Topology::Standalone => {
            let Some(address) = addresses.into_iter().next() else { return Err(no_nodes()) };
            let client = client(info(address, config, password)?, config)?;
            multiplexed(&client, config).await.map(Connection::One)
        }
        Topology::Sentinel => {
            let client = master(config, addresses.collect(), password).await?;
            multiplexed(&client, config).await.map(Connection::One)
        }
        Topology::Cluster => {
            let infos = addresses.map(|address| address.into_connection_info());
            let infos: Vec<ConnectionInfo> = infos.collect::<RedisResult<_>>()?;
            let client = cluster(config, infos, password)?;
            client.get_async_connection().await.map(Connection::Cluster)
        }
    }
}

fn no_nodes() -> RedisError {
    io::Error::new(io::ErrorKind::InvalidInput, "no address").into()
}

fn address(node: &Node, is_tls: bool) -> ConnectionAddr {
    match node {
        Node::Unix(path) => ConnectionAddr::Unix(path.clone()),
        Node::Tcp(host, port) if is_tls => ConnectionAddr::TcpTls {
            host: host.clone(),
            port: *port,
            insecure: false,
            tls_params: None,
        },
        Node::Tcp(host, port) => ConnectionAddr::Tcp(host.clone(), *port),
    }
}

fn info(
    address: ConnectionAddr,
    config: &RedisConfig,
    password: Option<String>,
) -> RedisResult<ConnectionInfo> {
    let mut redis = RedisConnectionInfo::default().set_db(i64::from(config.database));
    if let Some(username) = &config.username {
        redis = redis.set_username(username);
    }
    if let Some(password) = password {
        redis = redis.set_password(password);
    }
    Ok(address.into_connection_info()?.set_redis_settings(redis))
}

fn client(info: ConnectionInfo, config: &RedisConfig) -> RedisResult<Client> {
    match certificates(config)? {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    }
}

async fn multiplexed(client: &Client, config: &RedisConfig) -> RedisResult<MultiplexedConnection> {
    let settings = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(config.connect_timeout()))
        // Who asks keeps the deadline; this only lets go of what nobody waits for.
        .set_response_timeout(Some(answer_timeout(config)))
        .set_pipeline_buffer_size(config.in_flight_max);
    client.get_multiplexed_async_connection_with_config(&settings).await
}

fn answer_timeout(config: &RedisConfig) -> Duration {
    config.deadline().max(Duration::from_millis(500))
}

/// The server that sentinels take for the master now.
async fn master(
    config: &RedisConfig,
    sentinels: Vec<ConnectionAddr>,
    password_of_server: Option<String>,
) -> RedisResult<Client> {
    let name = config.master.as_deref().unwrap_or_default();
    let mut builder = SentinelClientBuilder::new(sentinels, name, SentinelServerType::Master)?
        .set_client_to_redis_db(i64::from(config.database));
    if let Some(username) = &config.username {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = password_of_server {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(username) = &config.sentinel_username {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = password(config.sentinel_password_file.as_deref())? {
        builder = builder.set_client_to_sentinel_password(password);
    }
    if let Some(certificates) = certificates(config)? {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_certificates(certificates);
    }
    builder.build()?.async_get_client().await
}

fn cluster(
    config: &RedisConfig,
    nodes: Vec<ConnectionInfo>,
    password: Option<String>,
) -> RedisResult<ClusterClient> {
    let mut builder = ClusterClient::builder(nodes)
        .connection_timeout(config.connect_timeout())
        .response_timeout(answer_timeout(config))
        // A slot that has moved is asked for where it is now; more tries than that would outlast
        // any deadline.
        .retries(2)
        .min_retry_wait(1)
        .max_retry_wait(config.deadline_ms);
    if let Some(username) = &config.username {
        builder = builder.username(username);
    }
    if let Some(password) = password {
        builder = builder.password(password);
    }
    if let Some(certificates) = certificates(config)? {
        builder = builder.tls(TlsMode::Secure).certs(certificates);
    }
    builder.build()
}

fn certificates(config: &RedisConfig) -> RedisResult<Option<TlsCertificates>> {
    let Some(tls) = &config.tls else { return Ok(None) };
    let read = |path: Option<&Path>| path.map(file).transpose();
    let client_tls = match (read(tls.certificate.as_deref())?, read(tls.key.as_deref())?) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        _ => None,
    };
    Ok(Some(TlsCertificates { client_tls, root_cert: read(tls.ca.as_deref())? }))
}

fn password(path: Option<&Path>) -> RedisResult<Option<String>> {
    let Some(path) = path else { return Ok(None) };
    let text = String::from_utf8_lossy(&file(path)?).trim_end_matches(['\r', '\n']).to_owned();
    Ok(Some(text))
}

fn file(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
    };
    if fs::metadata(path).map_err(named)?.len() > FILE_BYTES_MAX {
        let message = format!("{} has more than {FILE_BYTES_MAX} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    fs::read(path).map_err(named)
}

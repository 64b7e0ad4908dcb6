//! Sockets.

use core::{fmt, net::SocketAddr};
use std::{
    io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _, chown},
};

use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::{config::UnixSocket, tls::TlsError, token::TokenError};

/// An address that cannot be listened on, and why.
#[derive(Debug)]
pub struct BindError {
    address: String,
    error: Box<dyn core::error::Error + Send + Sync>,
}

impl BindError {
    /// A listener whose certificates are no good.
    pub(crate) fn of_tls(address: SocketAddr, error: TlsError) -> Self {
        Self { address: address.to_string(), error: error.into() }
    }

    /// A listener whose token is no good.
    pub(crate) fn of_token(listener: &str, error: TokenError) -> Self {
        Self { address: format!("the {listener} port"), error: error.into() }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.address, self.error)
    }
}

impl core::error::Error for BindError {}

pub(crate) async fn tcp(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| BindError { address: address.to_string(), error: error.into() })
}

/// Listens on a Unix socket. One that is left over from a process that ended is replaced; one that
/// somebody listens on, or a file that is no socket, is not touched.
pub(crate) async fn unix(socket: &UnixSocket) -> Result<UnixListener, BindError> {
    let bound = bind_unix(socket).await;
    bound.map_err(|error| BindError {
        address: socket.path.display().to_string(),
        error: error.into(),
    })
}

async fn bind_unix(socket: &UnixSocket) -> io::Result<UnixListener> {
    let path = &*socket.path;
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a file that is no socket is there",
            ));
        }
        match UnixStream::connect(path).await {
            // Nobody listens. Any other error says nothing of the kind: a queue that is full, a mode.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Ok(_) => {
                let message = "another process listens on it";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
            }
            Err(error) => {
                let message =
                    format!("whether another process listens on it is not known: {error}");
                return Err(io::Error::new(error.kind(), message));
            }
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    // Who may not enter yet may not in between: the mode comes last.
    chown(path, socket.user, socket.group)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(socket.mode))?;
    Ok(listener)
}

//! Sockets.

use core::{fmt, net::SocketAddr};
use std::{io, os::unix::fs::FileTypeExt as _, os::unix::fs::PermissionsExt as _, path::Path};

use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::config::UnixSocket;

/// An address that cannot be listened on, and why.
#[derive(Debug)]
pub struct BindError {
    address: String,
    error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot listen on {}: {}", self.address, self.error)
    }
}

impl core::error::Error for BindError {}

pub(crate) async fn tcp(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| BindError { address: address.to_string(), error })
}

/// Listens on a Unix socket. One that is left over from a process that ended is replaced; one that
/// somebody listens on, or a file that is no socket, is not touched.
pub(crate) async fn unix(socket: &UnixSocket) -> Result<UnixListener, BindError> {
    let bound = bind_unix(&socket.path, socket.mode).await;
    bound.map_err(|error| BindError { address: socket.path.display().to_string(), error })
}

async fn bind_unix(path: &Path, mode: u32) -> io::Result<UnixListener> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a file that is no socket is there",
            ));
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on it"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

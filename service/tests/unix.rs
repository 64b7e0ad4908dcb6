//! Unix sockets: what is replaced, and what is not.

use std::{os::unix::fs::PermissionsExt as _, os::unix::net::UnixListener, path::PathBuf};

use glacis_service::{
    Server,
    config::{Admin, Listen, UnixSocket},
};

/// What is at the path before.
enum Before {
    Nothing,
    Abandoned,
    InUse,
    File,
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("glacis-{}-{name}.sock", std::process::id()))
}

#[tokio::test]
async fn sockets() {
    for (name, before, error) in [
        ("nothing", Before::Nothing, None),
        ("abandoned", Before::Abandoned, None),
        ("in-use", Before::InUse, Some("another process listens on it")),
        ("file", Before::File, Some("no socket")),
    ] {
        let path = path(name);
        let listener = match before {
            Before::Nothing => None,
            Before::Abandoned => {
                drop(UnixListener::bind(&path).unwrap());
                None
            }
            Before::InUse => Some(UnixListener::bind(&path).unwrap()),
            Before::File => {
                std::fs::write(&path, "precious").unwrap();
                None
            }
        };
        let socket = UnixSocket { path: path.clone(), mode: 0o600, user: None, group: None };
        let listen: Listen = Listen { tcp: None, unix: Some(socket), ..Listen::default() };
        let admin: Admin = Admin { address: None, ..Admin::default() };
        let bound = Server::bind(&listen, &admin).await;
        match (bound, error) {
            (Ok(_), None) => {
                let mode = std::fs::metadata(&path).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600);
            }
            (Err(found), Some(error)) => {
                let found = found.to_string();
                assert!(found.contains(error) && found.contains(name), "{found}");
            }
            (bound, error) => panic!("{name}: {bound:?}, not {error:?}"),
        }
        drop(listener);
        std::fs::remove_file(&path).unwrap();
    }
}

//! The wasm-filter's module for Envoys that load it over HTTP: `GET /glacis_wasm_filter.wasm`, and its SHA-256 at
//! `/glacis_wasm_filter.wasm.sha256`, as `sha256sum` prints it.
//!
//! The file is read once, at the start: what is served and its digest always belong together.

use core::{fmt::Write as _, net::SocketAddr, time::Duration};
use std::{fs::File, io, io::Read as _, path::Path};

use glacis_service::files::{self, Bounds, bind};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use ring::digest;

use crate::config::WasmModule;

/// Bytes of a module. Ours has less than one million.
const MODULE_BYTES_MAX: u64 = 16 << 20;

/// What Envoys may take of the listener.
const BOUNDS: Bounds = Bounds { connections: 64, connection_time: Duration::from_secs(60) };

const PATH: &str = "/glacis_wasm_filter.wasm";
const DIGEST_PATH: &str = "/glacis_wasm_filter.wasm.sha256";

/// Serves the module that the configuration names until the process ends; returns where.
///
/// # Errors
/// When the file cannot be read, is no module of WebAssembly or is larger than 16 MiB, or when nobody can listen on
/// the address.
pub async fn serve(config: &WasmModule) -> io::Result<SocketAddr> {
    let module = Module::read(&config.file)?;
    let listener = bind(config.listen).await.map_err(io::Error::other)?;
    let address = listener.local_addr()?;
    tracing::info!(%address, file = %config.file.display(), sha256 = %module.digest, "serving the wasm-filter");
    let answer =
        move |request: &Request<Incoming>| module.answer(request.method(), request.uri().path());
    tokio::spawn(files::serve(listener, "the wasm-filter", BOUNDS, answer));
    Ok(address)
}

#[derive(Debug)]
struct Module {
    code: Bytes,
    /// In lower-case hexadecimal digits.
    digest: String,
}

impl Module {
    fn read(path: &Path) -> io::Result<Self> {
        let refused = |why: &str| io::Error::other(format!("{}: {why}", path.display()));
        let unread = |error: io::Error| refused(&error.to_string());
        let mut code = Vec::new();
        let file = File::open(path).map_err(unread)?;
        file.take(MODULE_BYTES_MAX + 1).read_to_end(&mut code).map_err(unread)?;
        if code.len() as u64 > MODULE_BYTES_MAX {
            return Err(refused("larger than 16 MiB"));
        }
        if !code.starts_with(b"\0asm") {
            return Err(refused("this is no module of WebAssembly"));
        }
        Ok(Self::new(code))
    }

    fn new(code: Vec<u8>) -> Self {
        let mut digest = String::new();
        for byte in digest::digest(&digest::SHA256, &code).as_ref() {
            // Writing to a `String` cannot fail.
            let _ = write!(digest, "{byte:02x}");
        }
        Self { code: code.into(), digest }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let (status, content_type, body) = match path {
            _ if *method != Method::GET && *method != Method::HEAD => {
                (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n".into())
            }
            PATH => (StatusCode::OK, "application/wasm", self.code.clone()),
            DIGEST_PATH => {
                let line = format!("{}  {}\n", self.digest, PATH.trim_start_matches('/'));
                (StatusCode::OK, "text/plain", line.into())
            }
            _ => (StatusCode::NOT_FOUND, "text/plain", "not found\n".into()),
        };
        let mut answer = Response::new(Full::new(body));
        *answer.status_mut() = status;
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        // `printf '\0asm' | sha256sum`
        let module = Module::new(b"\0asm".to_vec());
        assert_eq!(
            module.digest,
            "cd5d4935a48c0672cb06407bb443bc0087aff947c6b864bac886982c73b3027f"
        );
        for (method, path, status, content_type) in [
            (Method::GET, PATH, 200, "application/wasm"),
            (Method::HEAD, PATH, 200, "application/wasm"),
            (Method::GET, DIGEST_PATH, 200, "text/plain"),
            (Method::GET, "/", 404, "text/plain"),
            (Method::POST, PATH, 405, "text/plain"),
        ] {
            let answer = module.answer(&method, path);
            assert_eq!(answer.status().as_u16(), status, "{method} {path}");
            assert_eq!(answer.headers()[header::CONTENT_TYPE], content_type, "{method} {path}");
        }
    }

    #[test]
    fn what_is_no_module_is_refused() {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let error = Module::read(&manifest).unwrap_err().to_string();
        assert!(error.contains("no module of WebAssembly"), "{error}");
        // A folder can be opened, and not be read.
        for path in ["/nowhere", env!("CARGO_MANIFEST_DIR")] {
            let error = Module::read(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}

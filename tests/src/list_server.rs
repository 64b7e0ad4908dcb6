//! A server of lists for the wasm-filter: what it serves, and how wrongly, can be changed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::failure::{Outcome, doing};

/// What is served, and what has been asked.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// The list.
    pub body: String,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// Whether the digest is that of another text.
    pub digest_is_wrong: bool,
    /// Whether there is none, as servers of plain lists have none.
    pub without_digest: bool,
    /// Whether nothing good is served at all.
    pub is_down: bool,
    /// How often the list was given out, or found to be known.
    pub given: u32,
    /// How often it was known already.
    pub known: u32,
}

/// The server, in a thread of this process until that ends.
#[derive(Clone, Debug)]
pub struct ListServer {
    served: Arc<Mutex<Served>>,
    /// Its port of 127.0.0.1.
    pub port: u16,
}

impl ListServer {
    /// Starts on a free port.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn start() -> Outcome<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(doing("bind a list server"))?;
        let port = listener.local_addr().map_err(doing("read a bound port"))?.port();
        let server = Self { served: Arc::default(), port };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // An error here is a client that went away.
                let _ = serving.answer(stream);
            }
        });
        Ok(server)
    }

    /// Changes what is served, and returns a copy.
    pub fn change(&self, change: impl FnOnce(&mut Served)) -> Served {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut served);
        served.clone()
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut known = String::new();
        for line in BufReader::new(&stream).lines() {
            let line = line?;
            if line.is_empty() {
                break;
            }
            if let Some(etag) = line.strip_prefix("if-none-match: ") {
                known = etag.to_owned();
            }
        }
        let mut is_known = false;
        let served = self.change(|served| {
            is_known = known == format!("\"{}\"", served.etag);
            served.known += u32::from(is_known);
            served.given += u32::from(!is_known);
        });
        if served.is_down {
            let answer = "HTTP/1.1 503 Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            return stream.write_all(answer.as_bytes());
        }
        let Served { body, etag, digest_is_wrong, without_digest, .. } = served;
        let digest = if digest_is_wrong { Sha256::digest("") } else { Sha256::digest(&body) };
        let digest = match without_digest {
            true => String::new(),
            false => format!("repr-digest: sha-256=:{}:\r\n", STANDARD.encode(digest)),
        };
        let length = body.len();
        let answer = match is_known {
            true => format!(
                "HTTP/1.1 304 Not Modified\r\netag: \"{etag}\"\r\nconnection: close\r\n\r\n"
            ),
            false => format!(
                "HTTP/1.1 200 OK\r\netag: \"{etag}\"\r\n{digest}\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            ),
        };
        stream.write_all(answer.as_bytes())
    }
}

//! Servers that take somebody's port and answer what nobody should.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::failure::{Failure, Outcome, doing};

/// What an impostor answers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Bytes that are no protocol.
    Garbage,
    /// Nothing, and keeps the connection.
    Mute,
    /// Closes each connection as soon as something comes.
    Hangup,
    /// `503 Service Unavailable` to each request of HTTP/1.1.
    Unavailable,
}

const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 5\r\ncontent-type: text/plain\r\n\r\nsorry";
/// How long the port may be in use by whoever had it before.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// A running impostor, which leaves the port when dropped.
#[derive(Debug)]
pub struct Impostor {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Impostor {
    /// Takes a port of loopback.
    ///
    /// # Errors
    ///
    /// If somebody else has it.
    pub fn start(port: u16, part: Part) -> Outcome<Self> {
        let begun = Instant::now();
        let listener = loop {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(listener) => break listener,
                Err(_) if begun.elapsed() < PATIENCE => sleep(PAUSE),
                Err(error) => {
                    return Err(Failure::new(format!("cannot take port {port}: {error}")));
                }
            }
        };
        listener.set_nonblocking(true).map_err(doing("set a socket"))?;
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = spawn(move || serve(&listener, part, &stop));
        Ok(Self { over, thread: Some(thread) })
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, part: Part, over: &Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => {
                let over = Arc::clone(over);
                spawn(move || play(stream, part, &over));
            }
            Err(_) => sleep(PAUSE),
        }
    }
}

fn play(mut stream: TcpStream, part: Part, over: &AtomicBool) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(50)));
    let mut buffer = [0; 16 << 10];
    while !over.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            // Nothing has come yet.
            Err(_) => continue,
        }
        let said = match part {
            Part::Mute => Ok(()),
            Part::Hangup => break,
            Part::Garbage => stream.write_all(&[0xa5; 512]),
            Part::Unavailable => stream.write_all(UNAVAILABLE),
        };
        if said.is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

//! A relay for TCP that holds up what goes through it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use crate::failure::{Outcome, doing};

/// Pieces that are held up in each direction of a connection; the sender waits when there are more.
const HELD_MAX: usize = 4_096;

/// A relay between two ports of loopback, in threads of this process until that ends.
#[derive(Clone, Debug)]
pub struct Gate {
    delay_ms: Arc<AtomicU64>,
}

impl Gate {
    /// Relays from one port to the other.
    ///
    /// # Errors
    ///
    /// If the first is taken.
    pub fn start(from: u16, to: u16) -> Outcome<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, from)).map_err(doing("bind a gate"))?;
        let gate = Self { delay_ms: Arc::default() };
        let serving = gate.clone();
        spawn(move || {
            for client in listener.incoming().flatten() {
                // Nobody there: the client's connection ends, as it would without a gate.
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else { continue };
                serving.relay(&client, &server);
                serving.relay(&server, &client);
            }
        });
        Ok(gate)
    }

    /// How long each piece takes to the other side from now on, in each direction.
    pub fn delay(&self, by: Duration) {
        let milliseconds = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.delay_ms.store(milliseconds, Ordering::Relaxed);
    }

    fn relay(&self, from: &TcpStream, to: &TcpStream) {
        let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { return };
        // Small messages must not wait for each other.
        let _ = to.set_nodelay(true);
        let (sender, receiver) = sync_channel(HELD_MAX);
        let delay = Arc::clone(&self.delay_ms);
        spawn(move || read(from, &sender, &delay));
        spawn(move || write(to, &receiver));
    }
}

fn read(mut from: TcpStream, sender: &SyncSender<(Instant, Vec<u8>)>, delay: &AtomicU64) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read) = from.read(&mut buffer) {
        let due = Instant::now() + Duration::from_millis(delay.load(Ordering::Relaxed));
        let bytes: Vec<u8> = buffer.iter().take(read).copied().collect();
        // Nothing read is the end, which the other side learns of in its turn.
        if sender.send((due, bytes)).is_err() || read == 0 {
            return;
        }
    }
}

fn write(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((due, bytes)) = receiver.recv() {
        sleep(due.saturating_duration_since(Instant::now()));
        if bytes.is_empty() || to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

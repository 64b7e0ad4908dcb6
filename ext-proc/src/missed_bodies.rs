//! Bodies that were asked for and have not come: has the client gone, or does Envoy ignore what it is asked for?
//!
//! The stream ends alike in both cases. But an Envoy that ignores `mode_override` brings no body of any client, and
//! clients go away one by one: three missed bodies in a row say that Envoy ignores it, from three clients where a body
//! has come before.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use glacis_service::Client;

/// Bodies in a row, and clients, that have to be missed.
const MISSED_MAX: usize = 3;

/// What has come and what has not.
#[derive(Debug, Default)]
pub(crate) struct MissedBodies {
    /// A body has come since the start.
    came: AtomicBool,
    /// One was missed since.
    missing: AtomicBool,
    run: Mutex<Run>,
}

/// Bodies missed in a row.
#[derive(Debug, Default)]
struct Run {
    bodies: usize,
    /// Whose they were, each once: `MISSED_MAX` at most.
    clients: Vec<Option<Client>>,
}

impl MissedBodies {
    /// A body that was asked for has come.
    pub(crate) fn came(&self) {
        // Reading does not take what is there already away from other threads.
        if !self.came.load(Ordering::Relaxed) {
            self.came.store(true, Ordering::Relaxed);
        }
        if self.missing.load(Ordering::Relaxed) {
            self.missing.store(false, Ordering::Relaxed);
            *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Run::default();
        }
    }

    /// A body that was asked for has not come. Says whether Envoy seems to ignore `mode_override`.
    pub(crate) fn missed(&self, client: Option<Client>) -> bool {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        self.missing.store(true, Ordering::Relaxed);
        run.bodies = run.bodies.saturating_add(1);
        if run.clients.len() < MISSED_MAX && !run.clients.contains(&client) {
            run.clients.push(client);
        }
        let clients_min = if self.came.load(Ordering::Relaxed) { MISSED_MAX } else { 1 };
        run.bodies >= MISSED_MAX && run.clients.len() >= clients_min
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(number: u8) -> Option<Client> {
        Some(Client::from(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))))
    }

    #[test]
    fn no_body_comes_at_all() {
        let bodies = MissedBodies::default();
        assert_eq!([1, 1, 1].map(|number| bodies.missed(client(number))), [false, false, true]);
    }

    #[test]
    fn a_client_that_goes_away_is_no_fault_of_envoy() {
        let bodies = MissedBodies::default();
        bodies.came();
        assert!((0..100).all(|_| !bodies.missed(client(1))));
        assert!(!bodies.missed(client(2)));
        assert!(bodies.missed(client(3)), "the third client");
        assert!(bodies.missed(None));
        bodies.came();
        assert!(!bodies.missed(client(3)));
    }
}

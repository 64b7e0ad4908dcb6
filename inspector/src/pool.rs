//! Inspectors to be used again: each has some hundred kilobytes that need not be asked for anew.

use std::sync::{Arc, Mutex, PoisonError};

use glacis_engine::Program;

use crate::{Inspector, Settings};

/// An inspector that has taken more body bytes than this is not kept: a few uploads must not leave
/// their memory behind for good.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Inspectors of one profile.
#[derive(Debug)]
pub struct Pool {
    program: Arc<Program>,
    settings: Arc<Settings>,
    kept: Mutex<Vec<Inspector>>,
    kept_max: usize,
}

impl Pool {
    /// One of inspectors that run `program` as `settings` say. It keeps `kept_max` of them at most.
    #[must_use]
    pub const fn new(program: Arc<Program>, settings: Arc<Settings>, kept_max: usize) -> Self {
        Self { program, settings, kept: Mutex::new(Vec::new()), kept_max }
    }

    /// The program that its inspectors run.
    #[must_use]
    pub const fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// An inspector for one exchange; to be given back with [`Self::keep`].
    pub fn take(&self) -> Inspector {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| {
            Inspector::new(Arc::clone(&self.program), Arc::clone(&self.settings))
        })
    }

    /// Keeps an inspector for the next exchange, if there is room.
    pub fn keep(&self, inspector: Inspector) {
        if inspector.body_bytes() > BODY_BYTES_MAX {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.kept_max {
            kept.push(inspector);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use glacis_engine::{Input, Limits, NoFiles};

    use super::*;
    use crate::{Decision, End, Header, RequestHead};

    const RULES: &str = "SecRuleEngine On\nSecRequestBodyAccess On\n\
                         SecRule REQUEST_BODY \"@contains attack\" \"id:1,phase:2,deny\"\n";

    /// Has it take a body of so many bytes.
    fn used(mut inspector: Inspector, bytes: usize) -> Inspector {
        let pairs = [(":method", "POST"), (":path", "/"), ("content-type", "text/plain")];
        let headers =
            pairs.map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() });
        let head = RequestHead {
            headers: &headers,
            protocol: Some("HTTP/1.1"),
            end_of_stream: false,
            id: "1",
            time: Duration::ZERO,
            source: None,
            destination: None,
            user: None,
            lot: 0,
            audit_lot: 0,
        };
        assert!(inspector.request_headers(&head) == Decision::NeedBody);
        inspector.request_body(&vec![b'a'; bytes], End::Last);
        inspector
    }

    #[test]
    fn what_is_kept() {
        let input = Input::Text { name: "test".into(), text: RULES.to_owned() };
        let program = Program::build(&[input], &NoFiles, Limits::default());
        let program = Arc::new(program.map_err(|errors| errors.to_string()).unwrap());
        let pool = Pool::new(program, Arc::new(Settings::default()), 2);
        let kept = || pool.kept.lock().unwrap().len();
        let all: Vec<Inspector> = (0..3).map(|_| pool.take()).collect();
        assert_eq!(kept(), 0);
        for (inspector, expected) in all.into_iter().zip([1, 2, 2]) {
            pool.keep(inspector);
            assert_eq!(kept(), expected);
        }
        for (bytes, expected) in [(0, 2), (BODY_BYTES_MAX, 2), (BODY_BYTES_MAX + 1, 1)] {
            pool.keep(used(pool.take(), bytes));
            assert_eq!(kept(), expected, "{bytes}");
        }
    }
}

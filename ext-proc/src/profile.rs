//! A profile that is loaded: its rules, how they are applied, and inspectors to be used again.

use std::sync::{Arc, Mutex};

use glacis_engine::{Program, RuleEngine};
use glacis_inspector::{Inspector, Settings};

/// Inspectors kept for reuse, of all profiles together.
const POOLED_MAX: usize = 256;

/// Inspectors that each profile may keep, however many profiles there are.
const POOLED_MIN: usize = 4;

/// An inspector that has taken more body bytes than this is not kept: a few uploads must not leave
/// their memory behind for good.
const POOLED_BODY_BYTES_MAX: usize = 1 << 20;

/// A profile that is loaded.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) program: Arc<Program>,
    pub(crate) settings: Arc<Settings>,
    /// Path and query of a request that its rules refuse.
    pub(crate) canary: Option<String>,
    pool: Mutex<Vec<Inspector>>,
    pooled_max: usize,
}

impl Profile {
    /// One of `count` profiles.
    pub(crate) fn new(
        program: Arc<Program>,
        settings: Settings,
        canary: Option<String>,
        count: usize,
    ) -> Self {
        Self {
            program,
            settings: Arc::new(settings),
            canary,
            pool: Mutex::default(),
            pooled_max: (POOLED_MAX / count.max(1)).max(POOLED_MIN),
        }
    }

    /// Whether rules run, and may block, as an exchange begins.
    pub(crate) fn rule_engine(&self) -> RuleEngine {
        self.settings.rule_engine.unwrap_or_else(|| self.program.rule_engine())
    }

    /// An inspector for one exchange; to be given back with [`Self::keep`].
    pub(crate) fn inspector(&self) -> Inspector {
        let pooled = self.pool.lock().ok().and_then(|mut pool| pool.pop());
        pooled.unwrap_or_else(|| {
            Inspector::new(Arc::clone(&self.program), Arc::clone(&self.settings))
        })
    }

    /// Keeps an inspector for the next exchange, if there is room.
    pub(crate) fn keep(&self, inspector: Inspector) {
        if inspector.body_bytes() > POOLED_BODY_BYTES_MAX {
            return;
        }
        if let Ok(mut pool) = self.pool.lock()
            && pool.len() < self.pooled_max
        {
            pool.push(inspector);
        }
    }
}

//! The callbacks of the plugin: its configuration, once for each worker.

use crate::config::{CONFIG_BYTES_MAX, Config};
use crate::host::{self, Counter, Proxy};
use crate::http::Http;
use crate::policy::{Judgement, Policy, Verdict};
use crate::seed;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::rc::Rc;

/// The plugin in one worker.
#[derive(Debug, Default)]
pub(crate) struct Root {
    plugin: Option<Rc<Plugin>>,
}

/// What all requests of a worker share.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) policy: Policy,
    pub(crate) counters: Counters,
}

/// How many requests got which verdict.
#[derive(Debug)]
pub(crate) struct Counters {
    denied: Counter,
    limited: Counter,
    shadow_limited: Counter,
    passed: Counter,
    errors: Counter,
    crowded: Counter,
}

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _plugin_configuration_size: usize) -> bool {
        match configured() {
            Ok(plugin) => {
                self.plugin = Some(Rc::new(plugin));
                true
            }
            Err(message) => {
                host::log_error(&message);
                false
            }
        }
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Http::new(self.plugin.clone())))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

fn configured() -> Result<Plugin, String> {
    // One byte more than is allowed, so that a longer text is seen to be longer.
    let text = host::plugin_configuration(CONFIG_BYTES_MAX + 1);
    let config = Config::parse(&text).map_err(|error| error.to_string())?;
    let seed = seed::agreed(&Proxy, host::random_bytes())
        .map_err(|_| "the host refuses shared data, without which workers cannot agree")?;
    Ok(Plugin { policy: Policy::new(config, seed), counters: Counters::new() })
}

impl Counters {
    fn new() -> Self {
        Self {
            denied: Counter::new("glacis_wasm_denied_total"),
            limited: Counter::new("glacis_wasm_limited_total"),
            shadow_limited: Counter::new("glacis_wasm_shadow_limited_total"),
            passed: Counter::new("glacis_wasm_passed_total"),
            errors: Counter::new("glacis_wasm_errors_total"),
            crowded: Counter::new("glacis_wasm_table_crowded_total"),
        }
    }

    /// Counts a request.
    pub(crate) fn count(&self, judgement: &Judgement) {
        match judgement.verdict {
            Verdict::DeniedByList => self.denied.increment(),
            Verdict::Limited(..) => self.limited.increment(),
            Verdict::ShadowLimited(..) => self.shadow_limited.increment(),
            Verdict::AllowedByList | Verdict::Passed => self.passed.increment(),
            Verdict::Undecided(..) => self.errors.increment(),
        }
        if judgement.unrecorded {
            self.errors.increment();
        }
        if judgement.crowded {
            self.crowded.increment();
        }
    }
}

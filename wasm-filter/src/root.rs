//! The callbacks of the plugin: its configuration, once for each worker.

use crate::counters::Unconfigured;
use crate::host;
use crate::http::Http;
use crate::plugin::Plugin;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

/// The plugin in one worker.
#[derive(Debug, Default)]
pub(crate) struct Root {
    plugin: Option<Rc<Plugin>>,
    /// Whether the next tick is the first one of a configuration.
    first_tick: bool,
    /// Made when the first request comes without a plugin, which hardly ever happens.
    unconfigured: OnceCell<Unconfigured>,
}

/// A quarter of the shortest refresh, which is what a list can be late by: with ticks as far apart as refreshes,
/// an answer that takes a moment would make the list miss every second tick. Statistics are late by as much.
const TICK: Duration = Duration::from_millis(250);
/// Often enough for the shortest leases, which live 100 ms: lenders are asked at a tick.
const LEASE_TICK: Duration = Duration::from_millis(20);
/// The first one: a list is to be there soon, but calls cannot be made while configuring.
const FIRST_TICK: Duration = Duration::from_millis(50);

impl Context for Root {
    fn on_http_call_response(&mut self, number: u32, _: usize, body_bytes: usize, _: usize) {
        if let Some(plugin) = &self.plugin {
            plugin.take_list(number, body_bytes);
        }
    }

    fn on_grpc_call_response(&mut self, number: u32, status: u32, bytes: usize) {
        if let Some(plugin) = &self.plugin {
            plugin.take_answer(number, status, bytes);
        }
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _plugin_configuration_size: usize) -> bool {
        match Plugin::configured() {
            Ok(plugin) => {
                host::tick_every(FIRST_TICK);
                self.first_tick = true;
                // Requests may keep the one before for long, and no tick comes to it any more.
                if let Some(before) = self.plugin.replace(Rc::new(plugin)) {
                    before.counters.tell();
                }
                true
            }
            Err(message) => {
                host::log_error(&message);
                false
            }
        }
    }

    fn on_tick(&mut self) {
        let Some(plugin) = &self.plugin else { return };
        // Envoy starts its timer anew after each tick, with the period that it was told last.
        if std::mem::take(&mut self.first_tick) {
            host::tick_every(if plugin.checks.leases() { LEASE_TICK } else { TICK });
        }
        plugin.tick();
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        let unconfigured = || *self.unconfigured.get_or_init(Unconfigured::new);
        Some(Box::new(Http::new(self.plugin.clone().ok_or_else(unconfigured))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

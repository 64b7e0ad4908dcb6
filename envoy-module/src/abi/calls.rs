//! Filter state of streams; schedulers and HTTP calls of configurations.

use std::time::Duration;

use super::{Buf, Callbacks, EnvoyConfig, EnvoyStream, Object, Pair, map_number};
use crate::stream::{Calls, FilterState, HeaderMap, Setup, Wake};

impl FilterState for EnvoyStream<'_> {
    fn filter_state<T>(&self, name: &str, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let mut found = Buf::NULL;
        let get = self.callbacks.http_get_filter_state_bytes;
        // SAFETY: the stream lives while its hook runs, and Envoy writes one buffer.
        let known = unsafe { get(self.envoy, Buf::of(name.as_bytes()), &raw mut found) };
        // SAFETY: valid until the hook ends or Envoy is called again, which `read` cannot do.
        known.then(|| read(unsafe { found.bytes() }))
    }

    fn set_filter_state(&mut self, name: &str, text: &str) {
        // Setting a read-only text again triggers one of Envoy's own bug reports.
        if self.filter_state(name, |_| ()).is_some() {
            return;
        }
        let (name, text) = (Buf::of(name.as_bytes()), Buf::of(text.as_bytes()));
        // SAFETY: the stream lives while its hook runs, and Envoy copies the bytes.
        unsafe { (self.callbacks.http_set_filter_state_bytes)(self.envoy, name, text) };
    }

    fn add_header(&mut self, map: HeaderMap, name: &str, value: &str) {
        let (name, value) = (Buf::of(name.as_bytes()), Buf::of(value.as_bytes()));
        // SAFETY: as above.
        unsafe { (self.callbacks.http_add_header)(self.envoy, map_number(map), name, value) };
    }
}

/// Envoy's scheduler of a configuration.
#[derive(Debug)]
pub(crate) struct ConfigScheduler {
    scheduler: Object,
    callbacks: &'static Callbacks,
}

// SAFETY: Envoy lets any thread commit an event, and delete a scheduler; nothing else is done with it.
unsafe impl Send for ConfigScheduler {}

impl Wake for ConfigScheduler {
    fn wake(&self) {
        // SAFETY: it is deleted when this is dropped, and not before.
        unsafe { (self.callbacks.http_filter_config_scheduler_commit)(self.scheduler, 0) }
    }
}

impl Drop for ConfigScheduler {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { (self.callbacks.http_filter_config_scheduler_delete)(self.scheduler) }
    }
}

impl Setup for EnvoyConfig<'_> {
    type Waker = ConfigScheduler;

    fn waker(&mut self) -> Option<ConfigScheduler> {
        let callbacks = self.callbacks;
        // SAFETY: the configuration lives while its hook runs.
        let scheduler = unsafe { (callbacks.http_filter_config_scheduler_new)(self.envoy) };
        (!scheduler.is_null()).then_some(ConfigScheduler { scheduler, callbacks })
    }
}

impl Calls for EnvoyConfig<'_> {
    fn call(
        &mut self,
        cluster: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout: Duration,
    ) -> Option<u64> {
        let headers: Vec<Pair> = { headers.iter() }
            .map(|(name, value)| Pair::of(name.as_bytes(), value.as_bytes()))
            .collect();
        let (mut number, cluster) = (0, Buf::of(cluster.as_bytes()));
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let call = self.callbacks.http_filter_config_http_callout;
        // SAFETY: the configuration lives while its hook runs; Envoy copies all that it is given and writes one number.
        let result = unsafe {
            call(
                self.envoy,
                &raw mut number,
                cluster,
                headers.as_ptr(),
                headers.len(),
                Buf::of(body),
                milliseconds,
            )
        };
        (result == 0).then_some(number)
    }
}

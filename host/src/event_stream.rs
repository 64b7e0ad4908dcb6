//! The key `event_stream` of a profile.

use glacis_inspector::EventStreamSettings;
use serde::Deserialize;

/// The highest limit of bytes: an event is held while it comes, and twice while it is judged.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// The highest limit of events in a second.
const EVENTS_PER_SECOND_MAX: u32 = 1 << 20;

/// Whether server-sent events are inspected, and how large and how many they may be.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct EventStreamConfig {
    pub inspect: bool,
    pub event_bytes_max: usize,
    pub events_per_second_max: u32,
}

impl Default for EventStreamConfig {
    fn default() -> Self {
        Self { inspect: false, event_bytes_max: 64 << 10, events_per_second_max: 1_000 }
    }
}

impl EventStreamConfig {
    /// What makes no sense, as key and message.
    pub(crate) fn problem(&self, inspects_responses: bool) -> Option<(&'static str, &'static str)> {
        if self.inspect && !inspects_responses {
            let message = "responses are not inspected: write `response: headers` or `full` too";
            return Some(("event_stream.inspect", message));
        }
        if !(128..=EVENT_BYTES_MAX).contains(&self.event_bytes_max) {
            return Some(("event_stream.event_bytes_max", "write a number from 128 to 16777216"));
        }
        let is_limit = (1..=EVENTS_PER_SECOND_MAX).contains(&self.events_per_second_max);
        let message = "write a number from 1 to 1048576";
        (!is_limit).then_some(("event_stream.events_per_second_max", message))
    }

    /// The settings of the inspector.
    pub(crate) fn settings(&self) -> Option<EventStreamSettings> {
        let Self { inspect, event_bytes_max, events_per_second_max } = *self;
        inspect.then_some(EventStreamSettings { event_bytes_max, events_per_second_max })
    }
}

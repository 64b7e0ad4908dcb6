//! Lines of Envoy's log, and what the libraries of this module log as such lines.

use core::fmt::{self, Write as _};
use std::sync::OnceLock;

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::stream::Level;

/// Hands events over; it knows no spans, which only services have.
struct EnvoyLog;

/// Writes a line to Envoy's log.
type WriteLine = fn(Level, &str);

static ENVOY: OnceLock<WriteLine> = OnceLock::new();

/// Writes a line to Envoy's log. Any thread may; before Envoy has initialised the library, nothing is written.
pub(crate) fn line(level: Level, text: &str) {
    if let Some(write) = ENVOY.get() {
        write(level, text);
    }
}

/// Writes lines by `write`, and hands over what is logged from now on.
pub(crate) fn init(write: WriteLine) {
    // Envoy may initialise the library several times, always with the same function.
    let _ = ENVOY.set(write);
    // Another copy of this library has its own; within one, the first stays.
    let _ = tracing::subscriber::set_global_default(EnvoyLog);
}

/// The message, and behind it the other fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }
}

impl Subscriber for EnvoyLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warn,
            _ => Level::Info,
        };
        let mut said = Line::default();
        event.record(&mut said);
        line(level, &format!("glacis: {}{}", said.message, said.fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

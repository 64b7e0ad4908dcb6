//! Logs: one line of JSON per event, on standard error.

/// Begins logging of events of at least `level`. Does nothing when logging has begun already.
pub fn init(level: tracing::Level) {
    let format = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_max_level(level)
        .with_writer(std::io::stderr);
    // Fails only when a subscriber is set already, as in tests that run in one process.
    let _ = format.try_init();
}

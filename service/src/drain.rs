//! Being told to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGTERM or SIGINT. Never returns if signals cannot be received.
pub async fn ended_by_signal() {
    let (Some(mut terminate), Some(mut interrupt)) =
        (listen(SignalKind::terminate()), listen(SignalKind::interrupt()))
    else {
        return core::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Ends the process when the signal comes once more: an operator who repeats it will not wait.
pub fn exit_at_second_signal() {
    tokio::spawn(async {
        ended_by_signal().await;
        tracing::warn!("ended by a second signal, open streams are cut off");
        std::process::exit(1);
    });
}

fn listen(kind: SignalKind) -> Option<Signal> {
    signal(kind).inspect_err(|error| tracing::error!(%error, "no signals can be received")).ok()
}

//! Being told to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for SIGTERM or SIGINT. From then on the process ends at once when the signal comes once more: an operator
/// who repeats it will not wait. Never returns if signals cannot be received.
pub async fn ended_by_signal() {
    signalled().await;
    tokio::spawn(async {
        signalled().await;
        tracing::warn!("ended by a second signal, open streams are cut off");
        std::process::exit(1);
    });
}

async fn signalled() {
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

fn listen(kind: SignalKind) -> Option<Signal> {
    signal(kind).inspect_err(|error| tracing::error!(%error, "no signals can be received")).ok()
}

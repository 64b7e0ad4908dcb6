//! Connections that could not be accepted.

use core::time::Duration;
use std::io;

use tokio::time::sleep;
use tokio_stream::{Stream, StreamExt as _};

/// How long nothing is accepted after an error.
const PAUSE: Duration = Duration::from_millis(100);

/// Says that a connection for `what` was not accepted, and waits a moment: most likely there are no file
/// descriptors left, and it would fail again at once.
pub(crate) async fn not_accepted(what: &str, error: &io::Error) {
    tracing::warn!(%error, "a connection for {what} was not accepted");
    sleep(PAUSE).await;
}

/// Connections as they come. Of an error tonic says nothing, and asks for the next one at once: a process that has
/// no descriptors left would take a whole core for it.
pub(crate) fn patient<I>(
    what: &'static str,
    incoming: impl Stream<Item = io::Result<I>>,
) -> impl Stream<Item = io::Result<I>> {
    incoming.then(move |accepted| async move {
        match accepted {
            Err(error) => {
                not_accepted(what, &error).await;
                Err(error)
            }
            accepted => accepted,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn an_error_is_waited_out() {
        let error = || io::Error::from(io::ErrorKind::Other);
        let began = Instant::now();
        let incoming = tokio_stream::iter([Err(error()), Ok(1), Err(error()), Ok(2)]);
        let found: Vec<_> = patient("tests", incoming).collect().await;
        let found: Vec<_> = found.into_iter().map(Result::ok).collect();
        assert_eq!(found, [None, Some(1), None, Some(2)]);
        assert!(began.elapsed() >= 2 * PAUSE, "{:?}", began.elapsed());
    }
}

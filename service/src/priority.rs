//! Which threads go first.

/// How much a thread gives way to those that serve, as `nice` counts.
const NICENESS: i32 = 10;

/// Makes the thread that calls give way to those that serve. On Linux a priority is that of a thread;
/// elsewhere, or where it is not allowed, the thread keeps the priority it has.
pub fn give_way() {
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a thread has the priority of serving");
    }
}

//! Which threads go first.

/// How much a thread gives way to those that serve, as `nice` counts.
const NICENESS: i32 = 10;

/// How much a thread gives way that evaluates for long, to those that read messages and answer short ones.
const NICENESS_OF_LONG_WORK: i32 = 5;

/// Makes the thread that calls give way to those that serve. On Linux a priority is that of a thread;
/// elsewhere, or where it is not allowed, the thread keeps the priority it has.
pub fn give_way() {
    set(NICENESS);
}

/// As [`give_way`], but less: somebody waits for the work of the thread.
pub(crate) fn give_way_a_little() {
    set(NICENESS_OF_LONG_WORK);
}

fn set(niceness: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, niceness) {
        tracing::debug!(%error, "a thread has the priority of serving");
    }
}

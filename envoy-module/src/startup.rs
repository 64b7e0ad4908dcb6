//! Whether Envoy serves already: what may take a while on its main thread, and what may not. Whether it ever will.

use std::{fs, path::Path, sync::OnceLock};

static VALIDATION_MODE: OnceLock<fn() -> bool> = OnceLock::new();

/// Has `is_validation_mode` answer from now on.
pub(crate) fn init(is_validation_mode: fn() -> bool) {
    // Envoy may initialise the library several times, always with the same function.
    let _ = VALIDATION_MODE.set(is_validation_mode);
}

/// Whether Envoy only checks its configuration.
pub(crate) fn is_validation_mode() -> bool {
    VALIDATION_MODE.get().is_some_and(|is_validation_mode| is_validation_mode())
}

/// How Envoy names the threads that serve (`WorkerImpl::start`).
const WORKER: &[u8] = b"wrk:";

/// Whether Envoy has started threads that serve. `true` where that cannot be found out.
///
/// Envoy starts them when the listeners of its start-up are configured. No callback of its ABI says so.
pub(crate) fn is_serving() -> bool {
    #[cfg(test)]
    if tests::PRETENDED.get() {
        return true;
    }
    names_a_worker(Path::new("/proc/self/task"))
}

fn names_a_worker(tasks: &Path) -> bool {
    let Ok(tasks) = fs::read_dir(tasks) else { return true };
    tasks.flatten().any(|task| {
        // A thread that has ended meanwhile has no name.
        fs::read(task.path().join("comm")).is_ok_and(|name| name.starts_with(WORKER))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    thread_local! {
        /// Whether a test on this thread pretends that Envoy serves.
        pub(crate) static PRETENDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    #[test]
    fn a_worker_is_found_by_its_name() {
        assert!(names_a_worker(Path::new("/nowhere")), "unknown");
        let folder = std::env::temp_dir().join(format!("glacis-tasks-{}", std::process::id()));
        for (names, expected) in
            [(&[][..], false), (&["envoy", "dog:wrk:0"], false), (&["envoy", "wrk:worker_0"], true)]
        {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            for (number, name) in names.iter().enumerate() {
                let task = folder.join(number.to_string());
                fs::create_dir(&task).unwrap();
                fs::write(task.join("comm"), format!("{name}\n")).unwrap();
            }
            assert_eq!(names_a_worker(&folder), expected, "{names:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

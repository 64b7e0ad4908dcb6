//! What every service tells of itself at `/status` on the admin port.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Readiness,
    reload::{LastReload, Reloads},
};

/// What `/status` of every service begins with.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    version: &'static str,
    ready: bool,
    /// Why not, by cause.
    causes: BTreeMap<&'static str, String>,
    /// The last attempt to put another configuration to use.
    last_reload: Option<LastReload>,
    /// Keys whose new value waits for a restart.
    restart_needed: Vec<&'static str>,
}

impl Status {
    /// That of a service of this version, as it is now.
    #[must_use]
    pub fn now(version: &'static str, readiness: &Readiness, reloads: &Reloads) -> Self {
        let causes = readiness.causes();
        Self {
            version,
            ready: causes.is_empty(),
            causes,
            last_reload: reloads.last(),
            restart_needed: reloads.restart_needed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told() {
        let (readiness, reloads) = (Readiness::new(), Reloads::default());
        let told = || serde_json::to_value(Status::now("1.0", &readiness, &reloads)).unwrap();
        let expected = serde_json::json!({
            "version": "1.0", "ready": true, "causes": {}, "last_reload": null, "restart_needed": [],
        });
        assert_eq!(told(), expected);
        readiness.hold("canary", "it passes");
        reloads.wait_for_restart(vec!["listen"]);
        reloads.attempted(LastReload { at: 7, error: Some("no file".to_owned()) });
        let expected = serde_json::json!({
            "version": "1.0", "ready": false, "causes": {"canary": "it passes"},
            "last_reload": {"at": 7, "error": "no file"}, "restart_needed": ["listen"],
        });
        assert_eq!(told(), expected);
    }
}

//! What the admin port tells besides what every service tells.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};

use glacis_service::{
    Readiness,
    admin::{AdminAnswer, AdminHandler, AdminRequest, Handled, json, text},
    reload::LastReload,
};
use http::{Method, StatusCode};
use serde::Serialize;

use crate::service::Shared;

/// Answers on the admin port.
#[derive(Debug)]
pub struct Admin {
    shared: Arc<Shared>,
    readiness: Readiness,
}

#[derive(Serialize)]
struct Status {
    version: &'static str,
    ready: bool,
    /// Why not, by cause.
    causes: BTreeMap<&'static str, String>,
    /// The last attempt to put another configuration to use.
    last_reload: Option<LastReload>,
    /// Keys whose new value waits for a restart.
    restart_needed: Vec<&'static str>,
}

impl Admin {
    pub(crate) fn new(shared: Arc<Shared>, readiness: Readiness) -> Self {
        Self { shared, readiness }
    }

    fn status(&self) -> AdminAnswer {
        let causes = self.readiness.causes();
        let reloads = self.shared.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        let status = Status {
            version: env!("CARGO_PKG_VERSION"),
            ready: causes.is_empty(),
            causes,
            last_reload: reloads.last.clone(),
            restart_needed: reloads.restart_needed.clone(),
        };
        drop(reloads);
        // Plain data can be written.
        json(StatusCode::OK, serde_json::to_string(&status).unwrap_or_default())
    }
}

impl AdminHandler for Admin {
    fn handle(&self, request: &AdminRequest) -> Option<Handled> {
        let answer = match request.path.as_str() {
            "/status" if request.method == Method::GET => self.status(),
            "/status" => text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned()),
            _ => return None,
        };
        Some(Handled::Now(answer))
    }

    fn paths(&self) -> &'static str {
        "/status"
    }
}

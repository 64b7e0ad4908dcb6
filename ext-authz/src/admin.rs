//! What the admin port tells besides what every service tells.

use std::sync::Arc;

use glacis_limit_store::Redis;
use glacis_service::{
    Readiness,
    admin::{AdminAnswer, AdminHandler, AdminRequest, Handled, good, text},
    reload::{LastReload, Reloads},
    status::Status,
};
use http::{Method, StatusCode};
use serde::Serialize;

use crate::{ban_desk::BanDesk, shared::Shared};

/// Answers on the admin port.
#[derive(Debug)]
pub struct Admin {
    shared: Arc<Shared>,
    readiness: Readiness,
    limits_reloads: Option<Reloads>,
    bans: BanDesk,
}

#[derive(Serialize)]
struct StatusAnswer {
    #[serde(flatten)]
    status: Status,
    /// Nothing where counters are in memory.
    store: Option<StoreStatus>,
    /// Nothing where the rate limit protocol is not spoken.
    rate_limit_service: Option<LimitsStatus>,
}

#[derive(Serialize)]
struct StoreStatus {
    /// Whether Redis is asked.
    connected: bool,
}

#[derive(Serialize)]
struct LimitsStatus {
    /// The last attempt to put another folder of limits to use.
    last_reload: Option<LastReload>,
}

impl Admin {
    /// To be called within the runtime of the service.
    pub(crate) fn new(
        shared: Arc<Shared>,
        readiness: Readiness,
        limits_reloads: Option<Reloads>,
    ) -> Self {
        let bans = BanDesk::new(Arc::clone(&shared.bans));
        Self { shared, readiness, limits_reloads, bans }
    }

    fn status(&self) -> AdminAnswer {
        let version = env!("CARGO_PKG_VERSION");
        let store = |redis: &Redis| StoreStatus { connected: redis.is_there() };
        let of_limits = |reloads: &Reloads| LimitsStatus { last_reload: reloads.last() };
        good(&StatusAnswer {
            status: Status::now(version, &self.readiness, &self.shared.reloads),
            store: self.shared.redis.as_ref().map(store),
            rate_limit_service: self.limits_reloads.as_ref().map(of_limits),
        })
    }
}

impl AdminHandler for Admin {
    fn handle(&self, request: &AdminRequest) -> Option<Handled> {
        let answer = match request.path.as_str() {
            "/status" if request.method == Method::GET => self.status(),
            "/status" => text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned()),
            _ => self.bans.answer(request)?,
        };
        Some(Handled::Now(answer))
    }

    fn paths(&self) -> &'static str {
        "/status, /bans, /bans/remove"
    }
}

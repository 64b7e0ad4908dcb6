//! What a client may hold of requests whose bodies are awaited, in the configuration.

use super::document::{Object, Problems};
use crate::pending::Settings;
use crate::rate_limit::RateLimit;

/// An eighth of the requests that the quickstart lets ext_proc have at once.
const PER_CLIENT_DEFAULT: u64 = 64;
const PER_CLIENT_MAX: u64 = 65_535;
/// With the first MiB of each of 64 requests 192 MiB, less than half of the heap that the quickstart gives Envoy.
const MIB_PER_CLIENT_DEFAULT: u64 = 128;
const MIB_PER_CLIENT_MAX: u64 = 1_048_576;
/// What it may have.
const FIELDS: &[&str] = &["per_client", "mib_per_client", "shadow"];
/// The name under which such a rejection is noted and counted.
pub(crate) const NAME: &str = "pending_bodies";

pub(super) fn read(
    object: &Object<'_>,
    rate_limits: &[RateLimit],
    problems: &mut Problems,
) -> Option<Settings> {
    if let Some(place) = rate_limits.iter().position(|limit| limit.name.as_str() == NAME) {
        let path = format!("rate_limits[{place}].name");
        problems.add::<()>(
            &path,
            format_args!("{NAME:?} is what pending bodies are counted under; write another name"),
        );
    }
    let own = Object::new(NAME, object.field(NAME)?, FIELDS, problems)?;
    let per_client = own.whole("per_client", PER_CLIENT_DEFAULT, 1, PER_CLIENT_MAX, problems);
    let mib = (MIB_PER_CLIENT_DEFAULT, MIB_PER_CLIENT_MAX);
    let mib_per_client = own.whole("mib_per_client", mib.0, 0, mib.1, problems);
    let shadow = own.flag("shadow", problems);
    Some(Settings {
        per_client: u32::try_from(per_client).ok()?,
        mib_per_client: u32::try_from(mib_per_client).ok()?,
        shadow,
    })
}

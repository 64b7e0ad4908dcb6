//! How many requests of a client may wait for their bodies, in the configuration.

use super::document::{Object, Problems};
use super::limit::RateLimit;
use crate::pending::Settings;

/// An eighth of the requests that the quickstart lets ext_proc have at once.
const PER_CLIENT_DEFAULT: u64 = 64;
const PER_CLIENT_MAX: u64 = 65_535;
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
    let own = Object::new(NAME, object.field(NAME)?, &["per_client", "shadow"], problems)?;
    let per_client = own.whole("per_client", PER_CLIENT_DEFAULT, 1, PER_CLIENT_MAX, problems);
    let shadow = own.flag("shadow", problems);
    Some(Settings { per_client: u32::try_from(per_client).ok()?, shadow })
}

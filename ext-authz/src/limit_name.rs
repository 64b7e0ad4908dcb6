//! Names of limits, by which the store keeps their counters: which are not free.

/// What the names of the limits of clients begin with; no other limit may have such a name.
pub(crate) const OF_CLIENT: &str = "client/";

/// What names of others in the store begin with: of limits of clients, scenarios of bans, and quota.
const OF_OTHERS: [&str; 3] = [OF_CLIENT, "ban/", "quota/"];

/// Why a limit of the configuration cannot have this name, if it cannot: it would share counters with others.
pub(crate) fn why_taken(name: &str) -> Option<String> {
    let prefix = OF_OTHERS.iter().find(|prefix| name.starts_with(**prefix))?;
    Some(format!(
        "what begins with {prefix} is counted for clients, bans or quota: choose another name"
    ))
}

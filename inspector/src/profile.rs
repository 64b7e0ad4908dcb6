//! Which profile a request belongs to.
//!
//! A profile is a set of rules with what goes with it; a host may serve many. The name comes from the
//! configuration of the proxy, by one of three ways, and never from what a client sends.

use core::fmt;
use std::collections::BTreeMap;

/// Bytes of a name that are looked at: longer ones are unknown.
const NAME_BYTES_MAX: usize = 128;

/// What the proxy says of a request that may name its profile. The first that is there decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints<'a> {
    /// A name that came with the stream.
    pub stream: Option<&'a str>,
    /// A name in the metadata of the route.
    pub route_metadata: Option<&'a str>,
    /// The name of the route. One that no profile is given for belongs to the default one.
    pub route: Option<&'a str>,
}

/// What becomes of requests that name a profile which is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownProfilePolicy {
    /// The default profile is theirs.
    #[default]
    Default,
    /// They get no verdict.
    Refuse,
}

/// A name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile;

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no profile of this name")
    }
}

impl core::error::Error for UnknownProfile {}

/// The profiles of a host, each with a `T` of it.
#[derive(Clone, Debug)]
pub struct Profiles<T> {
    named: BTreeMap<String, T>,
    default: T,
    routes: BTreeMap<String, T>,
    policy: UnknownProfilePolicy,
}

/// A choice among profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<'p, T> {
    /// The profile.
    pub profile: &'p T,
    /// Whether another was named, which is not there.
    pub unknown: bool,
}

impl<T: Clone> Profiles<T> {
    /// One profile, which is also that of all requests for which none is named.
    pub fn new(name: &str, default: T, policy: UnknownProfilePolicy) -> Self {
        let named = BTreeMap::from([(name.to_owned(), default.clone())]);
        Self { named, default, routes: BTreeMap::new(), policy }
    }

    /// Adds a profile.
    pub fn insert(&mut self, name: &str, profile: T) {
        self.named.insert(name.to_owned(), profile);
    }

    /// Gives the route `route` the profile of this name.
    ///
    /// # Errors
    /// When there is no such profile.
    pub fn insert_route(&mut self, route: &str, name: &str) -> Result<(), UnknownProfile> {
        let profile = self.named.get(name).ok_or(UnknownProfile)?;
        self.routes.insert(route.to_owned(), profile.clone());
        Ok(())
    }

    /// All profiles, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.named.iter().map(|(name, profile)| (name.as_str(), profile))
    }

    /// The profile of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.named.get(name)
    }

    /// The profile of requests for which none is named.
    pub const fn default_profile(&self) -> &T {
        &self.default
    }

    /// The profile of a request.
    ///
    /// # Errors
    /// When one is named that is not there, and such requests are to be refused.
    pub fn choose(&self, hints: Hints<'_>) -> Result<Choice<'_, T>, UnknownProfile> {
        let known = |profile| Choice { profile, unknown: false };
        let Some(name) = hints.stream.or(hints.route_metadata) else {
            let of_route = hints.route.and_then(|route| self.routes.get(route));
            return Ok(known(of_route.unwrap_or(&self.default)));
        };
        let found = (name.len() <= NAME_BYTES_MAX).then(|| self.named.get(name)).flatten();
        match (found, self.policy) {
            (Some(profile), _) => Ok(known(profile)),
            (None, UnknownProfilePolicy::Default) => {
                Ok(Choice { profile: &self.default, unknown: true })
            }
            (None, UnknownProfilePolicy::Refuse) => Err(UnknownProfile),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hint_decides() {
        let profiles = |policy| {
            let mut profiles = Profiles::new("default", 0, policy);
            profiles.insert("api", 1);
            profiles.insert("shop", 2);
            profiles.insert_route("checkout", "shop").unwrap();
            assert_eq!(profiles.insert_route("checkout", "shops"), Err(UnknownProfile));
            profiles
        };
        let long = "a".repeat(200);
        for (stream, route_metadata, route, expected, unknown) in [
            (None, None, None, 0, false),
            (Some("default"), None, None, 0, false),
            (Some("api"), Some("shop"), Some("checkout"), 1, false),
            (None, Some("shop"), None, 2, false),
            (None, Some("api"), Some("checkout"), 1, false),
            (None, None, Some("checkout"), 2, false),
            (None, None, Some("elsewhere"), 0, false),
            // Not the next hint: a name that is wrong must not pass for none.
            (Some("apo"), None, Some("checkout"), 0, true),
            (Some(""), None, None, 0, true),
            (Some(&*long), None, None, 0, true),
            (None, Some("apo"), Some("checkout"), 0, true),
        ] {
            let hints = Hints { stream, route_metadata, route };
            let lenient = profiles(UnknownProfilePolicy::Default);
            assert_eq!(
                lenient.choose(hints),
                Ok(Choice { profile: &expected, unknown }),
                "{hints:?}"
            );
            let strict = profiles(UnknownProfilePolicy::Refuse);
            let choice = strict.choose(hints).map(|choice| *choice.profile);
            assert_eq!(
                choice,
                if unknown { Err(UnknownProfile) } else { Ok(expected) },
                "{hints:?}"
            );
        }
    }
}

//! What the configuration says of requests, ready to be asked. The order in which it is asked is that of `step`.

use core::net::IpAddr;
use std::sync::Arc;

use glacis_engine::Parts;
use glacis_inspector::{
    Header, Hints, Profiles, UnknownProfilePolicy, client_of, cookies_without, query,
};
use glacis_limit_store::ASKS_MAX;
use glacis_limits::{
    asn::AsnTable,
    authority::Host,
    geo::{Country, CountryTable},
    network_list::{Action as ListAction, NetworkList},
};
use glacis_rules::RecordingSource;

use crate::{
    answer::{Passed, Reason},
    api_key::{Client, Found, Key, KeyHash, Keys, Place, is_plain_name},
    ban::Scenario,
    claim::{Wanted, has_scopes},
    config::{Action, AmbiguousPaths, ApiKeys, Config, LimitOrder, PolicyConfig, Require, Wrong},
    limit_name::why_taken,
    lists::Texts,
    network_files,
    profile::Profile,
    rate_limit::RateLimit,
    subject::{Filter, Subject, countries, has_tag},
    wire::Asked,
};

/// Bytes of a pepper.
const PEPPER_BYTES: core::ops::RangeInclusive<usize> = 16..=4_096;

/// The header that tells the upstream whose API key it was.
const CLIENT_HEADER: &str = "x-glacis-client";

/// Everything that is asked for each request. It is immutable, and exchanged as a whole.
#[derive(Debug)]
pub struct Policy {
    trusted_hops: usize,
    lists: Vec<NetworkList>,
    countries: CountryTable,
    denied_countries: Vec<Country>,
    systems: AsnTable,
    denied_asns: Vec<u32>,
    keys: Keys,
    remove_keys: bool,
    /// Of clients, in their order.
    client_limits: Vec<Option<RateLimit>>,
    jwt_payload: String,
    ambiguous_paths: AmbiguousPaths,
    rules: Vec<Rule>,
    otherwise: Action,
    /// Whether limits are asked before a request that no policy is for is refused.
    limits_first: bool,
    limits: Vec<RateLimit>,
    profiles: Option<Profiles<Option<Arc<Profile>>>>,
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) texts: Texts,
}

/// A policy of the configuration.
#[derive(Debug)]
struct Rule {
    name: String,
    filter: Filter,
    action: Action,
    /// Whether whoever fits passes: then the path has to be plain.
    is_open: bool,
    /// Whether limits are asked before it refuses.
    limits_first: bool,
    tags: Vec<String>,
    countries: Vec<Country>,
    asns: Vec<u32>,
    key_scopes: Option<Vec<String>>,
    token: Option<(Vec<String>, Vec<Wanted>)>,
}

/// What policies say of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decided<'p> {
    pub(crate) refused: Option<Reason>,
    pub(crate) policy: Option<&'p str>,
    /// Whether limits are asked before the request is refused.
    pub(crate) limits_first: bool,
}

impl Policy {
    /// That of a configuration. Files are read through `source`, so that changes are noticed.
    pub(crate) fn build(config: &Config, source: &RecordingSource) -> Result<Self, Wrong> {
        let (clients, keys) = clients(&config.api_keys, source)?;
        let limits = config.rate_limits.iter().enumerate().map(|(index, limit)| {
            let at = |key: &str| format!("rate_limits[{index}].{key}");
            if let Some(message) = why_taken(&limit.name) {
                return Err((at("name"), message));
            }
            RateLimit::new(limit).map_err(|(key, message)| (at(key), message))
        });
        let limits: Vec<RateLimit> = limits.collect::<Result<_, _>>()?;
        // One more for the client.
        if limits.len() >= ASKS_MAX {
            return Err(("rate_limits".to_owned(), format!("write fewer than {ASKS_MAX}")));
        }
        if let Some(name) = twice(limits.iter().map(RateLimit::name)) {
            let message =
                format!("two limits are named \"{name}\": they would share what they count");
            return Err(("rate_limits".to_owned(), message));
        }
        Ok(Self {
            trusted_hops: config.trusted_hops,
            lists: network_files::lists(config, source)?,
            countries: network_files::countries(config, source)?,
            denied_countries: countries(&config.countries.deny)
                .map_err(|message| ("countries.deny".to_owned(), message))?,
            systems: network_files::systems(config, source)?,
            denied_asns: config.asn.deny.clone(),
            keys,
            remove_keys: config.api_keys.remove,
            client_limits: clients,
            jwt_payload: config.jwt.payload.clone(),
            ambiguous_paths: config.ambiguous_paths,
            rules: rules(config)?,
            otherwise: config.otherwise,
            limits_first: config.limit == LimitOrder::BeforePolicies,
            limits,
            profiles: profiles(config, source)?,
            scenarios: scenarios(config)?,
            texts: network_files::served(config, source)?,
        })
    }

    /// Says in the log what is loaded.
    pub fn log(&self) {
        let entries: usize = self.lists.iter().map(NetworkList::entries).sum();
        let (policies, limits, clients) =
            (self.rules.len(), self.limits.len(), self.client_limits.len());
        tracing::info!(policies, limits, clients, networks = entries, "loaded");
        let profiles = self.profiles.iter().flat_map(Profiles::iter);
        for (profile, rules) in
            profiles.filter_map(|(name, profile)| Some((name, profile.as_ref()?)))
        {
            for warning in rules.program().warnings() {
                tracing::warn!(profile, warning, "in the rules");
            }
            let (count, ruleset) = (rules.program().rule_count(), rules.program().hash());
            tracing::info!(profile, rules = count, ruleset, "loaded");
        }
    }

    /// Who asks for what.
    pub(crate) fn subject<'r>(
        &'r self,
        asked: &'r Asked,
        headers: &'r [Header<'r>],
        now_seconds: u64,
    ) -> (Subject<'r>, Option<ListAction>) {
        let mut subject = Subject::of(headers);
        let client = client_of(asked.source, headers, self.trusted_hops);
        subject.address = client.map(|client| client.address);
        let mut action = None;
        if let Some(address) = subject.address {
            action = self.look_up(address, now_seconds, &mut subject.tags);
            subject.country = self.countries.country(address);
            subject.asn = self.systems.number(address);
        }
        subject.key = self.keys.find(headers, query(headers), now_seconds);
        subject.claims = asked.claims(&self.jwt_payload);
        (subject, action)
    }

    /// What lists say of an address. `allow` in one of them beats `deny` in another.
    fn look_up<'p>(
        &'p self,
        address: IpAddr,
        now_seconds: u64,
        tags: &mut Vec<&'p str>,
    ) -> Option<ListAction> {
        let mut action = None;
        for list in &self.lists {
            let found = list.find(address, now_seconds);
            let of_list = list.tags().iter().enumerate();
            let given = of_list.filter(|(bit, _)| {
                found
                    .tag_bits
                    .checked_shr(u32::try_from(*bit).unwrap_or(64))
                    .is_some_and(|bits| bits & 1 == 1)
            });
            tags.extend(given.map(|(_, tag)| tag.as_str()));
            action = match (action, found.action) {
                (Some(ListAction::Allow), _) | (_, Some(ListAction::Allow)) => {
                    Some(ListAction::Allow)
                }
                (before, given) => given.or(before),
            };
        }
        action
    }

    /// Why lists refuse a request.
    pub(crate) fn refused_network(
        &self,
        subject: &Subject<'_>,
        listed: Option<ListAction>,
    ) -> Option<Reason> {
        match listed {
            Some(ListAction::Deny) => Some(Reason::Network),
            Some(ListAction::Allow) => None,
            None if self.denied_countries.contains(&subject.country) => Some(Reason::Country),
            None => self.denied_asns.contains(&subject.asn).then_some(Reason::Asn),
        }
    }

    /// Why a request is refused for its authority, whatever policies say.
    pub(crate) fn refused_host(subject: &Subject<'_>) -> Option<Reason> {
        (subject.host == Host::Ambiguous).then_some(Reason::AmbiguousHost)
    }

    /// Why a request is refused for its path, whatever policies say.
    pub(crate) fn refused_path(&self, subject: &Subject<'_>) -> Option<Reason> {
        let refused = subject.ambiguous && self.ambiguous_paths == AmbiguousPaths::Deny;
        refused.then_some(Reason::AmbiguousPath)
    }

    /// What policies say of a request.
    pub(crate) fn decide(&self, subject: &Subject<'_>) -> Decided<'_> {
        match self.rules.iter().find(|rule| rule.is_for(subject)) {
            Some(rule) => Decided {
                refused: rule.refuses(subject),
                policy: Some(&rule.name),
                limits_first: rule.limits_first,
            },
            None => Decided {
                refused: (self.otherwise == Action::Deny).then_some(Reason::NoPolicy),
                policy: None,
                limits_first: self.limits_first,
            },
        }
    }

    /// The limits for a request: those of the configuration, and that of its client.
    pub(crate) fn limits<'p>(
        &'p self,
        subject: &'p Subject<'_>,
    ) -> impl Iterator<Item = &'p RateLimit> {
        let of_client =
            subject.client().and_then(|(_, index)| self.client_limits.get(index)?.as_ref());
        self.limits.iter().chain(of_client)
    }

    /// The profile of rules for a request that names this one.
    pub(crate) fn profile(&self, named: Option<&str>) -> Option<&Arc<Profile>> {
        let profiles = self.profiles.as_ref()?;
        let hints = Hints { stream: named, ..Hints::default() };
        profiles.choose(hints).ok()?.profile.as_ref()
    }

    /// How a request passes: without the key that it came with, and with no other name of a client than ours. Other
    /// fields `x-glacis-…` are those of filters before this service, which Envoy's configuration keeps clients from
    /// making up.
    pub(crate) fn passed(&self, subject: &Subject<'_>) -> Passed {
        let mut passed = Passed::default();
        let client = subject.client().map(|(client, _)| client);
        passed.set.extend(client.map(|client| (CLIENT_HEADER.to_owned(), client.name.clone())));
        for header in subject.headers.iter().filter(|header| is_client_header(header.name)) {
            let name = String::from_utf8_lossy(header.name).to_ascii_lowercase();
            // Envoy takes out what is to be removed after it has set what is to be set.
            let is_set = passed.set.iter().any(|(set, _)| *set == name);
            if !is_set && !passed.remove.contains(&name) {
                passed.remove.push(name);
            }
        }
        if self.remove_keys && subject.key != Found::Nothing {
            self.remove_key(subject, &mut passed);
        }
        passed
    }

    fn remove_key(&self, subject: &Subject<'_>, passed: &mut Passed) {
        for place in self.keys.held(subject.headers, query(subject.headers)) {
            match place {
                Place::Header { name, .. } => passed.remove.push(name.clone()),
                Place::Query(name) => passed.remove_query.push(name.clone()),
                Place::Cookie(name) => match cookies_without(subject.headers, name) {
                    Some(rest) => passed.set.push(("cookie".to_owned(), rest)),
                    None => passed.remove.push("cookie".to_owned()),
                },
            }
        }
    }

    /// What a client without credentials is told that it needs (RFC 9110, 11.6.1).
    pub(crate) fn challenge(&self, reason: Reason) -> Option<(String, String)> {
        let scheme = match reason {
            Reason::NoToken => "Bearer",
            Reason::NoKey | Reason::WrongKey => {
                let schemes = self.keys.places().iter().map(|place| match place {
                    Place::Header { scheme: Some(scheme), .. } => Some(scheme.as_str()),
                    _ => None,
                });
                schemes.flatten().next().unwrap_or("ApiKey")
            }
            _ => return None,
        };
        Some(("www-authenticate".to_owned(), scheme.to_owned()))
    }
}

/// Whether an upstream may take a field for [`CLIENT_HEADER`]: WSGI, CGI and PHP read every character that is neither
/// letter nor digit alike.
fn is_client_header(name: &[u8]) -> bool {
    let folded = |byte: &u8| match byte.to_ascii_lowercase() {
        byte if byte.is_ascii_alphanumeric() => byte,
        _ => b'-',
    };
    name.iter().map(folded).eq(CLIENT_HEADER.bytes())
}

impl Rule {
    /// Whether it is the policy for a request. One by which whoever asks passes is not for paths that could
    /// mean another one.
    fn is_for(&self, subject: &Subject<'_>) -> bool {
        let plain = !(self.is_open && self.filter.has_paths() && subject.ambiguous);
        plain && self.filter.fits(subject)
    }

    /// Why it refuses.
    fn refuses(&self, subject: &Subject<'_>) -> Option<Reason> {
        if self.action == Action::Deny {
            return Some(Reason::Policy);
        }
        let from_elsewhere = !self.tags.is_empty() && !has_tag(&self.tags, subject)
            || !self.countries.is_empty() && !self.countries.contains(&subject.country)
            || !self.asns.is_empty() && !self.asns.contains(&subject.asn);
        if from_elsewhere {
            return Some(Reason::WrongNetwork);
        }
        if let Some(scopes) = &self.key_scopes {
            match &subject.key {
                Found::Nothing => return Some(Reason::NoKey),
                Found::Wrong | Found::Ambiguous => return Some(Reason::WrongKey),
                Found::Client(client, _) => {
                    if !scopes.iter().all(|scope| client.scopes.contains(scope)) {
                        return Some(Reason::KeyScope);
                    }
                }
            }
        }
        if let Some((scopes, wanted)) = &self.token {
            let Some(claims) = subject.claims else { return Some(Reason::NoToken) };
            if !has_scopes(claims, scopes) || !wanted.iter().all(|wanted| wanted.holds(claims)) {
                return Some(Reason::WrongClaim);
            }
        }
        None
    }
}

fn rules(config: &Config) -> Result<Vec<Rule>, Wrong> {
    let by_default = config.limit;
    let rule = |(index, config): (usize, &PolicyConfig)| {
        let at = |key: &str| format!("policies[{index}].{key}");
        let Require { tags, countries: required, asns, api_key, jwt } = config.require.clone();
        let claims = jwt.map(|token| {
            let wanted = token.claims.into_iter().map(|(name, values)| Wanted { name, values });
            (token.scopes, wanted.collect())
        });
        Ok(Rule {
            name: config.name.clone(),
            filter: Filter::new(&config.matches).map_err(|(key, message)| (at(key), message))?,
            action: config.action,
            is_open: config.action == Action::Allow && config.require.is_nothing(),
            limits_first: config.limit.unwrap_or(by_default) == LimitOrder::BeforePolicies,
            tags,
            countries: countries(&required)
                .map_err(|message| (at("require.countries"), message))?,
            asns,
            key_scopes: api_key.map(|key| key.scopes),
            token: claims,
        })
    };
    config.policies.iter().enumerate().map(rule).collect()
}

/// A name that occurs twice.
fn twice<'n>(names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    let pair = names.windows(2).find(|pair| pair.first() == pair.last())?;
    pair.first().copied()
}

fn scenarios(config: &Config) -> Result<Vec<Scenario>, Wrong> {
    let wrong = |message| Err(("bans".to_owned(), message));
    // A refusal asks about all of them in one call.
    if config.bans.len() > ASKS_MAX {
        return wrong(format!("write at most {ASKS_MAX}"));
    }
    if let Some(name) = twice(config.bans.iter().map(|scenario| scenario.name.as_str())) {
        return wrong(format!("two are named \"{name}\": they would share a bucket"));
    }
    let scenarios = config.bans.iter().enumerate().map(|(index, scenario)| {
        Scenario::new(scenario).map_err(|(key, message)| (format!("bans[{index}].{key}"), message))
    });
    scenarios.collect()
}

/// The limits of clients, in their order, and their keys.
fn clients(
    config: &ApiKeys,
    source: &RecordingSource,
) -> Result<(Vec<Option<RateLimit>>, Keys), Wrong> {
    let hash = pepper(config, source)?;
    let places = config.from.iter().map(|place| {
        let wrong = || {
            let message = "write one of header, query and cookie; scheme only with header";
            ("api_keys.from".to_owned(), message.to_owned())
        };
        match (&place.header, &place.query, &place.cookie, &place.scheme) {
            (Some(name), None, None, scheme) => {
                Ok(Place::Header { name: name.to_ascii_lowercase(), scheme: scheme.clone() })
            }
            (None, Some(name), None, None) if is_plain_name(name) => Ok(Place::Query(name.clone())),
            (None, Some(name), None, None) => {
                let message = format!(
                    "\"{name}\" has more than one spelling in a query: write letters, digits, '-', '.', '_' or '~'"
                );
                Err(("api_keys.from".to_owned(), message))
            }
            (None, None, Some(name), None) => Ok(Place::Cookie(name.clone())),
            _ => Err(wrong()),
        }
    });
    let places = places.collect::<Result<_, _>>()?;
    let (mut limits, mut clients, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for (index, client) in config.clients.iter().enumerate() {
        let at = |key: &str| format!("api_keys.clients[{index}].{key}");
        // It goes into a header, and into the name of a limit.
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if client.name.is_empty() || client.name.len() > 57 || !client.name.chars().all(plain) {
            let message = "write 1 to 57 letters, digits, '-', '_' or '.'";
            return Err((at("name"), message.to_owned()));
        }
        if clients.iter().any(|other: &Client| other.name == client.name) {
            return Err((at("name"), "there is another client of this name".to_owned()));
        }
        for key in &client.keys {
            keys.push(Key {
                hash: hash.parse(&key.hash).map_err(|message| (at("keys"), message))?,
                not_before: key.not_before.map_or(0, |day| day.first_second()),
                not_after: key.expires.map_or(u64::MAX, |day| day.last_second()),
                client: index,
            });
        }
        let limit = client.rate.as_ref().map(|rate| RateLimit::of_client(&client.name, rate));
        limits.push(limit.transpose().map_err(|(_, message)| (at("rate"), message))?);
        clients.push(Client { name: client.name.clone(), scopes: client.scopes.clone() });
    }
    Ok((limits, Keys::new(places, hash, clients, keys)))
}

fn pepper(config: &ApiKeys, source: &RecordingSource) -> Result<KeyHash, Wrong> {
    let refuse = |message: String| ("api_keys.pepper_file".to_owned(), message);
    let Some(path) = &config.pepper_file else { return Ok(KeyHash::new(None)) };
    let pepper = network_files::read(path, source).map_err(refuse)?;
    let pepper = pepper.trim_ascii();
    match PEPPER_BYTES.contains(&pepper.len()) {
        true => Ok(KeyHash::new(Some(pepper))),
        false => Err(refuse(format!("{}: write 16 to 4096 bytes into it", path.display()))),
    }
}

fn profiles(
    config: &Config,
    source: &RecordingSource,
) -> Result<Option<Profiles<Option<Arc<Profile>>>>, Wrong> {
    if config.profiles.is_empty() {
        return Ok(None);
    }
    let (mut built, mut parts) = (Vec::new(), Parts::default());
    for (name, profile) in &config.profiles {
        let profile = Profile::build(name, profile, config.trusted_hops, source, &mut parts);
        let profile = profile.map_err(|message| (format!("profiles.{name}"), message))?;
        built.push((name, Arc::new(profile)));
    }
    let of = |name: &String| built.iter().find(|(known, _)| *known == name);
    let default = config.profile.as_ref().and_then(of).map(|(_, profile)| Arc::clone(profile));
    let default_name = config.profile.as_deref().unwrap_or_default();
    let mut profiles = Profiles::new(default_name, default, UnknownProfilePolicy::Default);
    for (name, profile) in built {
        profiles.insert(name, Some(profile));
    }
    Ok(Some(profiles))
}

//! A rate limit: how much it allows, to which requests it applies, what it tells clients apart by, and how it is leased.

use crate::table::Algorithm;
use glacis_limits::geo::Country;
use glacis_limits::lease::borrower::Borrower;
use glacis_limits::path::Template;
use glacis_limits::rate_headers::PolicyName;
use std::time::Duration;

/// One rate limit.
#[derive(Debug)]
pub(crate) struct RateLimit {
    pub(crate) name: PolicyName,
    pub(crate) requests: u64,
    pub(crate) per_seconds: u64,
    /// How it counts here; while the lender is away, if it is leased.
    pub(crate) algorithm: Algorithm,
    pub(crate) lease: Option<Lease>,
    pub(crate) cost: u32,
    pub(crate) key: Vec<KeyPart>,
    pub(crate) applies: Applies,
    pub(crate) ipv4_prefix: u8,
    pub(crate) ipv6_prefix: u8,
    pub(crate) table_entries: u32,
    pub(crate) shadow: bool,
    pub(crate) headers_on_allowed: bool,
}

/// To which requests a limit applies: those that fit all of these, of which an empty one fits all.
#[derive(Debug, Default)]
pub struct Applies {
    /// In upper case.
    pub(crate) methods: Vec<Vec<u8>>,
    pub(crate) paths: Vec<Template>,
    /// In lower case, without port.
    pub(crate) hosts: Vec<Vec<u8>>,
    /// Tags of lists and of bots.
    pub(crate) tags: Vec<String>,
    pub(crate) countries: Vec<Country>,
    /// Numbers of autonomous systems.
    pub(crate) asns: Vec<u32>,
}

/// What tells clients apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyPart {
    /// The network of the client's address.
    ClientAddress,
    /// The host, without port, in lower case.
    Host,
    /// The method.
    Method,
    /// The country of the client's address.
    Country,
    /// The autonomous system of the client's address.
    Asn,
    /// Which of these templates the path fits first, or none.
    Path(Vec<Template>),
    /// What all header fields of a name say; if they do not say the same, the client's address.
    Header(String, Absent),
    /// The first cookie of a name.
    Cookie(Vec<u8>, Absent),
    /// Dynamic metadata that an earlier filter has set: the filter's name, then the keys.
    Metadata(Vec<String>, Absent),
}

/// What becomes of a request without that part of the key. A client can leave out a header, so it
/// must not be rid of a limit by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The network of the client's address stands in for it.
    Address,
    /// All requests without it are one client.
    Shared,
    /// The limit does not apply.
    Skip,
}

/// A limit of which a lender keeps the truth.
#[derive(Debug)]
pub(crate) struct Lease {
    /// The cluster of the lender.
    pub(crate) cluster: String,
    /// What the lender asks of those who call it (`listen.token_file`).
    pub(crate) token: Option<String>,
    /// The limit, as the lender calls it.
    pub(crate) limit: String,
    pub(crate) borrower: Borrower,
    pub(crate) away: Away,
    /// Of the limit that counts here while the lender is away.
    pub(crate) local_requests: u64,
    pub(crate) timeout: Duration,
}

/// What becomes of requests while the lender is away, and nothing is left of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Away {
    /// They are counted here alone.
    Local,
    Allow,
    Deny,
}

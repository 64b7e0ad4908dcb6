//! Compares ext-authz with envoyproxy/ratelimit: the same files, the same requests, the same answers.
//!
//! `ratelimit-peer PROGRAM [REQUESTS]`, where PROGRAM is a built `src/service_cmd` of envoyproxy/ratelimit;
//! `redis-server` has to be on the path, or named in `GLACIS_REDIS`. Ends with an error if an answer differs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command talks on its streams")]

use std::env;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use envoy_types::pb::google::protobuf::UInt64Value;
use glacis_tests::failure::{Failure, Outcome, exit, io};
use glacis_tests::log::Folder;
use glacis_tests::rate_limit::{Client, ExtAuthz, Theirs, descriptor};
use glacis_tests::redis::Redis;
use glacis_tests::{ports, settings};

const FILES: [&str; 2] = ["shop.yaml", "numbers.yaml"];

/// What a setting is called, the environment of theirs, and what ours adds to its configuration.
type Setting = (&'static str, &'static [(&'static str, &'static str)], &'static str);

/// What is set in both services: for theirs in the environment, for ours in the configuration.
const SETTINGS: [Setting; 4] = [
    ("plain", &[], ""),
    ("headers", &[("LIMIT_RESPONSE_HEADERS_ENABLED", "true")], "  response_headers: {}\n"),
    (
        "quotas",
        &[("QUOTA_MODE", "true"), ("LIMIT_RESPONSE_HEADERS_ENABLED", "true")],
        "  quota_mode: true\n  response_headers: {}\n",
    ),
    ("shadow", &[("SHADOW_MODE", "true")], "  shadow_mode: true\n"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let compared = match arguments.as_slice() {
        [program] => compare(Path::new(program), 400),
        [program, requests] => match requests.parse() {
            Ok(requests) => compare(Path::new(program), requests),
            Err(_) => return usage(),
        },
        _ => return usage(),
    };
    if let Ok(differences @ 1..) = compared {
        eprintln!("{differences} answers differ");
    }
    exit("ratelimit-peer", compared.map(|differences| differences == 0))
}

fn usage() -> ExitCode {
    eprintln!("usage: ratelimit-peer PROGRAM [REQUESTS]");
    ExitCode::from(2)
}

/// Compares `requests` answers under each of the settings; says how many differ.
fn compare(program: &Path, requests: u32) -> Outcome<u32> {
    let mut differences = 0;
    for (name, environment, keys) in SETTINGS {
        let pair = Pair::start(program, name, environment, keys)?;
        let differing = pair.compare(name, requests)?;
        println!("{name}: {requests} requests, {differing} answers differ");
        differences += differing;
    }
    Ok(differences)
}

/// Both services.
struct Pair {
    theirs: Client,
    ours: Client,
    _processes: (Redis, Theirs, ExtAuthz),
}

impl Pair {
    fn start(program: &Path, name: &str, set: &[(&str, &str)], keys: &str) -> Outcome<Self> {
        let folder = Folder::new(&env::temp_dir().join(format!("glacis-ratelimit-peer-{name}")))?;
        let [ours, admin] = ports::free()?;
        let limits = folder.file("limits");
        fs::create_dir_all(&limits).map_err(io("make", &limits))?;
        for file in FILES {
            let from = settings::root().join("tests/ratelimit").join(file);
            fs::copy(&from, limits.join(file)).map_err(io("copy", &from))?;
        }
        let redis = Redis::start(&folder)?;
        let theirs = Theirs::start(program, &folder, &limits, ("unix", redis.socket()), set)?;
        let config = format!(
            "listen: {{tcp: 127.0.0.1:{ours}}}\nadmin: {{address: 127.0.0.1:{admin}}}\nrate_limit_service:\n  \
             config: limits\n{keys}"
        );
        let config = folder.write("ext-authz.yaml", &config)?;
        let ext_authz = ExtAuthz::start(&config, admin, &folder)?;
        Ok(Self {
            theirs: Client::connect(theirs.port)?,
            ours: Client::connect(ours)?,
            _processes: (redis, theirs, ext_authz),
        })
    }

    fn compare(mut self, name: &str, requests: u32) -> Outcome<u32> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut differing = 0;
        for number in 0..requests {
            let request = request(&mut random);
            let theirs = told(self.theirs.ask(request.clone()));
            let ours = told(self.ours.ask(request.clone()));
            if theirs != ours {
                differing += 1;
                println!("{name} {number}: {request:?}\n  theirs: {theirs}\n  ours:   {ours}");
            }
            if differing > 20 {
                return Err(Failure::new("too many answers differ to go on"));
            }
        }
        Ok(differing)
    }
}

/// What is compared of an answer: all of it, but for the second in which it was given.
fn told(answer: Result<RateLimitResponse, tonic::Status>) -> String {
    let mut answer = match answer {
        Ok(answer) => answer,
        // The code of an error of theirs is always UNKNOWN.
        Err(status) => return format!("error: {}", status.message()),
    };
    for status in &mut answer.statuses {
        if let Some(reset) = &mut status.duration_until_reset {
            reset.seconds /= 100;
        }
    }
    for header in &mut answer.response_headers_to_add {
        if header.key.ends_with("Reset") {
            header.value.truncate(header.value.len().saturating_sub(2));
        }
    }
    format!("{answer:?}")
}

/// The same requests every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap_or(1)).unwrap_or(0)
    }

    fn of<T: Copy>(&mut self, choices: &[T], default: T) -> T {
        let index = self.below(choices.len());
        choices.get(index).copied().unwrap_or(default)
    }
}

const USERS: &[&str] = &["ann", "root", "out", "free", "bob", "ben", "carl", "dora", ""];
const PATHS: &[&str] = &[
    "/api/1/orders",
    "/api//orders",
    "/orders",
    "/x",
    "/xy",
    "/files/a",
    "/files/b",
    "/files/",
    "/files",
    "/",
];
const TENANTS: &[&str] = &["42", "042", "yes", "true", "1.50", "1.5", "", "~"];

fn request(random: &mut Random) -> RateLimitRequest {
    let is_shop = random.below(4) > 0;
    let domain = match (is_shop, random.below(40)) {
        (_, 0) => "nowhere",
        (_, 1) => "",
        (true, _) => "shop",
        (false, _) => "numbers",
    };
    let count = random.below(5);
    let descriptors = (0..count).map(|_| one(random, is_shop)).collect();
    let hits_addend = u32::try_from(random.of(&[0, 0, 0, 0, 1, 2, 5], 0)).unwrap_or(0);
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend }
}

fn one(random: &mut Random, is_shop: bool) -> RateLimitDescriptor {
    let user = random.of(USERS, "");
    let path = random.of(PATHS, "");
    let tenant = random.of(TENANTS, "");
    let mut descriptor = match (is_shop, random.below(8)) {
        (true, 0 | 1) => descriptor(&[("user", user)]),
        (true, 2) => descriptor(&[("user", user), ("path", path)]),
        (true, 3 | 4) => descriptor(&[("path", path)]),
        (true, 5) => descriptor(&[("plan", random.of(&["large", "small"], ""))]),
        (true, 6) => descriptor(&[("quota", user)]),
        (true, _) => descriptor(&[("unknown", user), ("path", path)]),
        (false, 0..=4) => descriptor(&[("tenant", tenant)]),
        (false, 5 | 6) => descriptor(&[("7", tenant), ("8", "a"), ("9", user)]),
        (false, _) => descriptor(&[]),
    };
    if random.below(12) == 0 {
        descriptor = brought_along(random);
    }
    if random.below(8) == 0 {
        let value = random.of(&[0, 0, 1, 3, 4_000_000_000], 0);
        descriptor.hits_addend = Some(UInt64Value { value });
    }
    descriptor
}

/// A descriptor that brings its limit along, always the same one: of several limits for one descriptor theirs
/// make one counter, ours cuts it short at the smallest.
fn brought_along(random: &mut Random) -> RateLimitDescriptor {
    let index = random.below(USERS.len());
    let user = USERS.get(index).copied().unwrap_or("");
    // Hours to years: windows that do not end while this runs.
    let unit = [3, 4, 5, 6, 7].get(index % 5).copied().unwrap_or(3);
    let requests_per_unit = u32::try_from(index % 4).unwrap_or(0);
    let limit = Some(RateLimitOverride { requests_per_unit, unit });
    RateLimitDescriptor { limit, ..descriptor(&[("brought", user), ("along", "x")]) }
}

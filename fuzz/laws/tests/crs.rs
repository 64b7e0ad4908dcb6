//! The fast path changes nothing with the whole of CRS: for each of its rules, a request with a value that
//! it is made to match is judged alike with the fast path and without. `cargo xtask fuzz fast_path --crs`
//! goes on from there.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.

use std::path::PathBuf;

use glacis_laws::Judges;

/// Each makes other values of the same patterns.
const MESSAGES: [&[u8]; 2] = [
    b"GET /index.html?q=1 HTTP/1.1\nHost: example.com\nAccept: */*",
    b"POST /a.php HTTP/1.1\nHost: example.com\nContent-Type: application/json\n\n{\"c\":[1,\"d\"]}\n\
      === response\nHTTP/1.1 500\nContent-Type: text/html\n\n<p>error</p>",
];

#[test]
fn every_rule_of_crs_is_judged_alike() {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.fetched/crs-4.25.0");
    let crs = std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from);
    assert!(crs.is_dir(), "there is no CRS in {}: run `cargo xtask fetch`", crs.display());
    let judges = Judges::of_crs(&crs);
    for message in MESSAGES {
        let messages = judges.agree_on_each_rule(message);
        assert!(messages > 100, "{messages} are not all rules of CRS");
    }
}

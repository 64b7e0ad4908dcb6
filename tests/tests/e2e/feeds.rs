//! Tables and virtual patches that ext-authz serves and a filter in a real Envoy fetches: they are exchanged while
//! requests are served, and the last good one stays.

use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::asn::AsnTable;
use glacis_limits::geo::{Country, CountryTable};
use glacis_tests::filter::{Counted, Filter, Host, Setup};
use glacis_tests::http::Request;
use glacis_tests::lender::Lender;
use glacis_tests::log::Folder;
use glacis_tests::ports;

use crate::support::{client, eventually, folder};

const PLUGIN: &str = r#"{
    "failure_mode": "closed",
    "geo": {"feed": {"cluster": "feed", "path": "/lists/countries", "refresh_seconds": 1, "required": true},
            "deny": ["BB"]},
    "asn": {"feed": {"cluster": "feed", "path": "/lists/asn", "refresh_seconds": 1, "required": true},
            "deny": [64496]},
    "virtual_patch_feed": {"cluster": "feed", "path": "/lists/patches", "refresh_seconds": 1, "required": true}
}"#;

/// Until a change of a file is with the filter: ext-authz looks every second, and so does the filter.
const LEARNT: Duration = Duration::from_secs(20);

fn countries(networks: &[(Ipv4Addr, &str)]) -> String {
    let network = |(address, country): &(Ipv4Addr, &str)| {
        ((*address).into(), (*address).into(), Country::parse(country).unwrap())
    };
    STANDARD.encode(CountryTable::new(networks.iter().map(network).collect()).to_bytes())
}

fn systems(networks: &[(Ipv4Addr, u32)]) -> String {
    let network =
        |(address, number): &(Ipv4Addr, u32)| ((*address).into(), (*address).into(), *number);
    STANDARD.encode(AsnTable::new(&networks.iter().map(network).collect::<Vec<_>>()).to_bytes())
}

fn patches(path: &str) -> String {
    format!(
        r#"[{{"id": "fetched", "cve": "CVE-2099-1", "title": "t", "rule": 9100001,
            "when": [{{"target": "path", "equals": "{path}"}}]}}]"#
    )
}

#[test]
fn tables_and_patches_are_exchanged_and_the_last_good_ones_stay() {
    [Host::Wasm, Host::Native].into_iter().for_each(exchange);
}

fn exchange(host: Host) {
    let files = Folder::new(&folder("feeds-files")).unwrap();
    let (one, other, third) = (client(), client(), client());
    files.write("countries.txt", &countries(&[(one, "AA"), (other, "BB")])).unwrap();
    files.write("asn.txt", &systems(&[(third, 64_496)])).unwrap();
    files.write("patches.json", &patches("/old")).unwrap();
    let [lists] = ports::free().unwrap();
    let file = |name: &str| files.file(name).display().to_string();
    let config = format!(
        "reload_seconds: 1\nlists:\n  listen: \"127.0.0.1:{lists}\"\n  countries: \"{}\"\n  asn: \"{}\"\n  \
         patches: \"{}\"\n",
        file("countries.txt"),
        file("asn.txt"),
        file("patches.json")
    );
    let mut service = Lender::start(&folder("feeds-ext-authz"), &config).unwrap();
    let setup = Setup { plugin: PLUGIN, before: "", feed: lists };
    let filter = Filter::start_in(host, &folder("feeds"), setup, 0).unwrap();
    let status =
        |from: Ipv4Addr, path: &str| filter.send(from, &Request::get(path)).unwrap().status;

    // Country, system, patches, as they were served first.
    let first = || [status(one, "/"), status(other, "/"), status(third, "/"), status(one, "/old")];
    eventually("all three are there", LEARNT, || first() == [200, 403, 403, 403]);
    assert_eq!(status(one, "/new"), 200);
    eventually("the reasons are in the log", LEARNT, || {
        let last = |from| filter.logged(from, "verdict").unwrap();
        last(one).iter().any(|verdict| verdict == "denied:patch:fetched")
            && last(other).iter().any(|verdict| verdict == "denied:country")
            && last(third).iter().any(|verdict| verdict == "denied:asn")
    });

    // What is not good is refused by ext-authz already, which goes on serving what it had.
    files.write("patches.json", "[{}]").unwrap();
    files.write("countries.txt", &countries(&[(one, "BB"), (other, "AA")])).unwrap();
    eventually("the reload is refused", LEARNT, || {
        service.folder.story().contains("lists.patches")
    });
    assert_eq!(first(), [200, 403, 403, 403]);

    // All of them anew: no listener is exchanged, and nobody asks Envoy for it.
    files.write("asn.txt", &systems(&[(client(), 64_496)])).unwrap();
    files.write("patches.json", &patches("/new")).unwrap();
    let second =
        || [status(one, "/"), status(other, "/"), status(third, "/"), status(other, "/new")];
    eventually("all three are exchanged", LEARNT, || second() == [403, 200, 200, 403]);
    assert_eq!(status(other, "/old"), 200);

    // Without its server the filter keeps them.
    service.process().kill();
    let failures = || filter.counted(Counted::ListFailures).unwrap();
    let before = failures();
    eventually("the filter asks in vain", LEARNT, || failures() > before);
    assert_eq!(second(), [403, 200, 200, 403]);
    assert_eq!(filter.envoy.stat("listener_manager.listener_modified").unwrap(), 0);
}

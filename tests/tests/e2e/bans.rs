//! Who attacks is banned: ext-proc counts its refusals in Redis, ext-authz serves the list of bans, and the
//! filters of all Envoys refuse.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use glacis_tests::filter::{Filter, Setup};
use glacis_tests::http::Request;
use glacis_tests::lender::Lender;
use glacis_tests::log::Folder;
use glacis_tests::ports;
use glacis_tests::rate_limit::ExtAuthz;
use glacis_tests::redis::Redis;
use glacis_tests::settings;
use glacis_tests::stack::Processor;
use serde_json::Value;

use crate::support::{Own, client, eventually, folder};

/// From the last refusal to the last of the filters.
const LEARNT: Duration = Duration::from_secs(2);

/// What the quickstart says of lists, and with the list of bans.
const LISTS: &str = r#""deny": ["192.0.2.0/24"]}"#;
const WITH_BANS: &str = r#""feeds": [{"name": "bans", "cluster": "feed", "path": "/lists/bans", "refresh_seconds": 1}]}"#;

fn attack() -> Request {
    Request::get("/echo?id=1%27%20UNION%20SELECT%20login,%20password%20FROM%20users--%20-")
        .browser()
}

/// A file with the token of an admin port.
const TOKEN: &str = "bans-0123456789abcdef";

/// By the command, through an admin port with a token: the filters of all Envoys follow.
#[test]
fn bans_by_hand() {
    let redis = Redis::start(&Folder::new(&folder("hand-redis")).unwrap()).unwrap();
    let [lists, port, admin] = ports::free().unwrap();
    let own = Folder::new(&folder("hand-ext-authz")).unwrap();
    let token = own.write("token", TOKEN).unwrap();
    let config = format!(
        "listen: {{tcp: \"127.0.0.1:{port}\"}}\nadmin: {{address: \"127.0.0.1:{admin}\", token_file: token}}\n\
         lists: {{listen: \"127.0.0.1:{lists}\"}}\n{}",
        redis.store()
    );
    let config = own.write("ext-authz.yaml", &config).unwrap();
    let _service = ExtAuthz::start(&config, admin, &own).unwrap();
    let plugin = format!(r#"{{"address_lists": {{{WITH_BANS}}}"#);
    let filter = |name: &str| {
        let setup = Setup { plugin: &plugin, before: "", feed: lists };
        Filter::start(&folder(name), setup).unwrap()
    };
    let filters = [filter("hand-one"), filter("hand-other")];
    let statuses = |from: Ipv4Addr| {
        let page = Request::get("/").browser();
        filters.each_ref().map(|filter| filter.send(from, &page).unwrap().status)
    };
    let command = |arguments: &[&str], with_token: bool| {
        let mut command = Command::new(settings::cli().unwrap());
        command.arg("bans").args(arguments).args(["--admin", &format!("127.0.0.1:{admin}")]);
        if with_token {
            command.arg("--token-file").arg(&token);
        }
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code().unwrap(), told, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (banned, other) = (client(), client());
    let network = format!("{banned}/32");
    let (status, _, why) = command(&["list"], false);
    assert!(status == 1 && why.contains("--token-file"), "{status} {why}");
    assert_eq!(command(&["list"], true), (0, String::new(), String::new()));
    assert_eq!(statuses(banned), [200, 200]);
    let (status, told, why) = command(&["add", &network, "--seconds", "600"], true);
    assert!(status == 0 && told.contains(&banned.to_string()), "{status} {told} {why}");
    let refused = || statuses(banned) == [403, 403];
    eventually("both refuse", Duration::from_secs(10), refused);
    assert_eq!(statuses(other), [200, 200]);
    let (_, told, _) = command(&["list"], true);
    assert!(told.starts_with(&format!("{banned} for ")), "{told}");
    let (_, told, _) = command(&["list", "--json"], true);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["bans"].as_array().unwrap().len(), 1);
    assert_eq!(command(&["remove", &network], true).0, 0);
    let passes = || statuses(banned) == [200, 200];
    eventually("both let it pass again", Duration::from_secs(10), passes);
    let (status, told, _) = command(&["remove", &network], true);
    assert!(status == 1 && told.contains("was not banned"), "{status} {told}");
    for arguments in [
        &["add", "0.0.0.0/0", "--seconds", "1"][..],
        &["add", "192.0.2.1/24", "--seconds", "1"],
        &["add", "192.0.2.1", "--seconds", "0"],
        &["remove", "nobody"],
    ] {
        assert_eq!(command(arguments, true).0, 1, "{arguments:?}");
    }
}

#[test]
fn who_attacks_is_banned_on_all_envoys() {
    let redis = Redis::start(&Folder::new(&folder("bans-redis")).unwrap()).unwrap();
    let [lists] = ports::free().unwrap();
    let config = format!("lists: {{listen: \"127.0.0.1:{lists}\"}}\n{}", redis.store());
    let ext_authz = Lender::start(&folder("bans-ext-authz"), &config).unwrap();
    // Two refusals are nothing, the third one is one too many.
    let bans = format!(
        "bans: {{redis: {}, scenarios: [{{name: attacks, capacity: 2, leak_seconds: 600, ban_seconds: 5}}]}}\n",
        redis.place()
    );
    let feed = format!(
        "  clusters:\n  - {{name: feed, connect_timeout: 1s, type: STATIC, load_assignment: {{cluster_name: feed, \
         endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: \
         {lists}}}}}}}}}]}}]}}}}\n"
    );
    let edits = [(LISTS, WITH_BANS), ("\"allow\": [], ", ""), ("  clusters:\n", feed.as_str())];
    // The processor wants a text that lives as long as the program.
    let stack = &Own::start("bans", Processor::ExtProcWith(bans.leak()), &edits).0;
    let plugin = format!(r#"{{"address_lists": {{{WITH_BANS}}}"#);
    let setup = Setup { plugin: &plugin, before: "", feed: lists };
    let other = Filter::start(&folder("bans-other"), setup).unwrap();

    let (attacker, guest) = (client(), client());
    let statuses = |from: Ipv4Addr| {
        let page = Request::get("/").browser();
        [stack.send(from, &page).unwrap().status, other.send(from, &page).unwrap().status]
    };
    for _ in 0..2 {
        assert_eq!(stack.send(attacker, &attack()).unwrap().status, 403);
    }
    assert_eq!(statuses(attacker), [200, 200], "two refusals are below the capacity");
    assert_eq!(stack.send(attacker, &attack()).unwrap().status, 403);
    let banned = Instant::now();
    let took =
        eventually("both refuse", Duration::from_secs(10), || statuses(attacker) == [403, 403]);
    eprintln!("banned on both Envoys {took:?} after the last attack");
    assert!(took <= LEARNT, "{took:?}; {}", ext_authz.folder.story());
    // The log is written a moment after the answer, or a second.
    eventually("the refusal is in the log", Duration::from_secs(5), || {
        other.logged(attacker, "verdict").unwrap().last().is_some_and(|last| last == "denied:list")
    });
    assert_eq!(statuses(guest), [200, 200]);
    let metrics = stack.ext_proc.as_ref().unwrap().metrics().unwrap();
    assert_eq!(metrics[r#"glacis_bans_total{scenario="attacks"}"#], 1.0, "{metrics:#?}");
    // What the attacker's requests matched is to be believed.
    let of_bans = |(name, count): (&String, &f64)| {
        (name.starts_with("glacis_rule_evidence_total{") && name.contains("of=\"banned\""))
            .then_some(*count)
    };
    let banned_by: f64 = metrics.iter().filter_map(of_bans).sum();
    assert!(banned_by >= 1.0, "{metrics:#?}");
    // It ends by itself, on each Envoy, whether or not a list comes.
    eventually("the ban is over", Duration::from_secs(15), || statuses(attacker) == [200, 200]);
    assert!(banned.elapsed() >= Duration::from_secs(4), "{:?}", banned.elapsed());
}

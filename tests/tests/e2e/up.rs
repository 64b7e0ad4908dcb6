//! The command `up`: it shows what it should, stops when told to, and leaves nothing behind.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use glacis_tests::browser;
use glacis_tests::http::{self, Request};
use glacis_tests::log::Folder;
use glacis_tests::process::Process;

use crate::support::{eventually, folder};

/// The promise is 15 seconds; here the tests beside it want the machine too.
const UP: Duration = Duration::from_secs(60);
const DOWN: Duration = Duration::from_secs(10);
const LOG: &str = "up.log";

fn up(folder: &Folder, arguments: &[&str]) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_up"));
    Process::start("up", command.args(arguments), &folder.file(LOG)).unwrap()
}

#[test]
fn once() {
    let folder = Folder::new(&folder("up-once")).unwrap();
    let pictures = folder.file("pictures").display().to_string();
    let mut arguments = vec!["--once"];
    // `the_page_in_a_browser` says when there is none.
    if browser::find().is_some() {
        arguments.extend(["--pictures", &pictures]);
    }
    let mut process = up(&folder, &arguments);
    let mut status = None;
    eventually("up --once ends", UP, || {
        status = process.ended();
        status.is_some()
    });
    let told = folder.read(LOG);
    assert!(status.unwrap().success(), "{told}");
    for words in [
        "SQL injection",
        "100040",
        "native: SQL injection",
        "native: an upload",
        "native module",
        "wasm-filter",
        "ext-authz",
        "wrong_key",
        "nothing found",
        "stopped",
    ] {
        assert!(told.contains(words), "no {words:?} in\n{told}");
    }
    let mut lines = told.lines().filter(|line| !line.starts_with("Taken by somebody else"));
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("Console: http://localhost:"), "{told}");
}

/// A running `up`, with the port of Envoy.
fn running(folder: &Folder) -> (Process, u16) {
    let process = up(folder, &[]);
    eventually("up is up", UP, || folder.read(LOG).contains("Ctrl-C stops everything"));
    let told = folder.read(LOG);
    let next = told.find("Next steps:").unwrap();
    assert!(told.find("Try:").unwrap() < next && told[next..].contains("docs/attach.md"), "{told}");
    let (_, rest) = told.split_once("curl -i http://localhost:").unwrap();
    let port = rest.split('/').next().unwrap().parse().unwrap();
    assert!(listens(port), "{told}");
    assert_eq!(answer_of_the_module(&told), 403, "{told}");
    (process, port)
}

/// What the command answers that is printed for the native module: an attack.
fn answer_of_the_module(told: &str) -> u16 {
    let (_, line) = told.split_once("the native module ").unwrap();
    let (_, url) = line.split_once("http://localhost:").unwrap();
    let (address, _) = url.split_once('"').unwrap();
    let (port, path) = address.split_once('/').unwrap();
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().unwrap()));
    http::send(None, proxy, &Request::get(&format!("/{path}")).browser()).unwrap().status
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// For an Envoy that cannot load it.
#[test]
fn without_the_module() {
    let folder = Folder::new(&folder("up-without-module")).unwrap();
    let mut process = up(&folder, &["--once", "--no-module"]);
    let mut status = None;
    eventually("up --once --no-module ends", UP, || {
        status = process.ended();
        status.is_some()
    });
    let told = folder.read(LOG);
    assert!(status.unwrap().success(), "{told}");
    assert!(!told.contains("native") && told.contains("wasm-filter"), "{told}");
}

#[test]
fn a_signal_stops_everything() {
    let folder = Folder::new(&folder("up-signal")).unwrap();
    let (mut process, port) = running(&folder);
    process.stop();
    assert!(!listens(port));
    assert!(folder.read(LOG).ends_with("stopped\n"), "{}", folder.read(LOG));
}

/// Even where there is no chance to stop anything.
#[test]
fn nothing_outlives_a_kill() {
    let folder = Folder::new(&folder("up-kill")).unwrap();
    let (mut process, port) = running(&folder);
    process.kill();
    eventually("envoy is gone", DOWN, || !listens(port));
}

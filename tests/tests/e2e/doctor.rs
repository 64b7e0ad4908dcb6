//! `glacis doctor` on the real stack: healthy it finds nothing; each mistake in Envoy's settings has its id, from the file and
//! from the running Envoy.

use std::path::Path;
use std::process::Command;

use glacis_tests::settings;
use glacis_tests::stack::{Ports, Processor};
use serde_json::Value;

use crate::support::Own;

/// The ids of what is found, and the exit status.
pub(crate) fn doctor(arguments: &[String]) -> (Vec<String>, Option<i32>) {
    let mut command = Command::new(settings::cli().unwrap());
    let output = command.args(["doctor", "--format", "json"]).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answer: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text} {:?}", String::from_utf8(output.stderr)));
    let findings = answer["findings"].as_array().unwrap().iter();
    let ids = findings.map(|finding| finding["id"].as_str().unwrap().to_owned());
    (ids.collect(), output.status.code())
}

fn of_stack(own: &Own) -> Vec<String> {
    let ports = &own.0.ports;
    let local = |port: u16| format!("127.0.0.1:{port}");
    [
        "--admin".to_owned(),
        local(ports.ext_proc_admin),
        "--envoy-admin".to_owned(),
        own.0.envoy.admin().to_string(),
    ]
    .to_vec()
}

pub(crate) fn of_file(path: &Path) -> Vec<String> {
    vec!["--envoy".to_owned(), path.display().to_string()]
}

#[test]
fn a_healthy_stack_has_no_findings() {
    let own = Own::start("doctor-healthy", Processor::ExtProc, &[]);
    assert_eq!(doctor(&of_stack(&own)), (Vec::new(), Some(0)));
}

#[test]
fn mistakes_in_envoys_settings_are_found() {
    let edits = [
        ("allow_mode_override: true", "allow_mode_override: false"),
        ("message_timeout: 1s", "message_timeout: 0.3s"),
        (
            "    - timeout: 0.25s\n      interval: 0.2s\n      no_traffic_interval: 0.2s\n      unhealthy_threshold: 2\n      healthy_threshold: 2\n      grpc_health_check: {}\n",
            "",
        ),
        ("    health_checks:\n", ""),
    ];
    let ports = Ports::free().unwrap();
    let own = Own::on("doctor-mistakes", ports, Processor::ExtProc, &edits);
    let (found, status) = doctor(&of_stack(&own));
    assert_eq!((found, status), (["GD306", "GD302", "GD309"].map(str::to_owned).to_vec(), Some(1)));
    let (found, _) = doctor(&of_file(&own.0.folder.path().join("envoy.yaml")));
    assert_eq!(found, ["GD306", "GD302", "GD309"]);
}

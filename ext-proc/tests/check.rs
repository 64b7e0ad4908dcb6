//! The command line: `--check` looks at files, and at nothing else.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

use std::{fs, io::ErrorKind, net::TcpListener, path::Path, process::Command};

#[test]
fn check_asks_nobody() {
    let redis = TcpListener::bind("127.0.0.1:0").unwrap();
    redis.set_nonblocking(true).unwrap();
    let node = redis.local_addr().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.yaml");
    // The canary opens a collection.
    let config = format!(
        "listen: {{tcp: 127.0.0.1:0}}\nadmin: {{address: null}}\ncanary: \"/?q=attack\"\n\
         collections: {{redis: {{nodes: [\"{node}\"]}}}}\n\
         bans: {{redis: {{nodes: [\"{node}\"]}}, scenarios: [{{name: any, capacity: 5, leak_seconds: 60, ban_seconds: 60}}]}}\n\
         directives: |\n  SecRuleEngine On\n  SecAction \"id:1,phase:1,pass,nolog,initcol:ip=%{{REMOTE_ADDR}}\"\n  \
         SecRule ARGS \"@contains attack\" \"id:2,phase:1,deny,log\"\n"
    );
    fs::write(&file, config).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_glacis-ext-proc"))
        .arg("--config")
        .arg(&file)
        .arg("--check")
        .output()
        .unwrap();
    let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && told.contains("good"), "{told}");
    assert_eq!(redis.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

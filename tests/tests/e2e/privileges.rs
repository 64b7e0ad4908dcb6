//! ext-proc without privileges, on a root file system that is read-only.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::process::Command;
use std::time::Duration;

use glacis_tests::log::Folder;
use glacis_tests::process::Process;
use glacis_tests::{http, ports, settings};

use crate::support::folder;

/// Makes everything but a folder read-only, in a mount namespace of its own, and gives all privileges away;
/// then becomes the program. What stands behind `sh` are the folder, the ids, the program and its arguments.
const CONFINED: &str = r#"
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,bind,ro /
ids=$2
shift 2
exec setpriv $ids --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"#;

const LOG: &str = "ext-proc.log";

/// Whether this machine lets us make a namespace, as root or for a user.
fn namespace() -> Option<(&'static [&'static str], &'static str)> {
    let ways: [(&[&str], &str); 2] = [
        (&["--mount"], "--reuid=65534 --regid=65534 --clear-groups"),
        (&["--mount", "--map-root-user"], ""),
    ];
    ways.into_iter().find(|(flags, _)| {
        let mut command = Command::new("unshare");
        let script = "mount --make-rprivate / && setpriv --no-new-privs true";
        let done = command.args(*flags).args(["sh", "-c", script]).output();
        done.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn a_read_only_root_is_enough() {
    let Some((flags, ids)) = namespace() else {
        // Past the capture of the test harness, so that nobody takes it for tested.
        let said = writeln!(
            std::io::stderr(),
            "SKIPPED: ext-proc was not tried without privileges: unshare and setpriv make no mount namespace here"
        );
        return said.unwrap();
    };
    let folder = Folder::new(&folder("privileges")).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let [port, admin_port] = ports::free().unwrap();
    let config = format!(
        "listen: {{tcp: \"127.0.0.1:{port}\", unix: {{path: glacis.sock, mode: \"0600\"}}}}\n\
         admin: {{address: \"127.0.0.1:{admin_port}\"}}\naudit: {{stdout: false, file: audit.jsonl}}\n\
         directives: 'SecRule ARGS \"@contains attack\" \"id:1,phase:2,deny,log\"'\ncanary: /?q=attack\n"
    );
    let config = folder.write("ext-proc.yaml", &config).unwrap();
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-c", CONFINED, "sh"]).arg(folder.path()).arg(ids);
    command.arg(settings::ext_proc().unwrap()).arg("--config").arg(config);
    let mut process = Process::start("ext-proc", &mut command, &folder.file(LOG)).unwrap();
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, admin_port));
    let ready = || http::fetch(admin, "/readyz").is_ok_and(|answer| answer.status == 200);
    let waited = process.wait_until(Duration::from_secs(60), ready);
    assert!(waited.is_ok(), "{waited:?}\n{}", folder.read(LOG));

    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", process.id())).unwrap();
    let status = of("status");
    for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.lines().any(|found| found == line), "no {line} in {status}");
    }
    let mounts = of("mounts");
    let root = mounts.lines().rfind(|line| line.split(' ').nth(1) == Some("/")).unwrap();
    let options = root.split(' ').nth(3).unwrap_or_default();
    assert!(options.split(',').any(|option| option == "ro"), "{root}");
    assert!(fs::metadata(folder.file("glacis.sock")).unwrap().file_type().is_socket());
    let mode = fs::metadata(folder.file("audit.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

//! The file of audit records: it is exchanged when it is large, and can be moved away.

use std::fs;
use std::time::Duration;

use glacis_tests::ext_proc::{AUDIT, ExtProc};
use glacis_tests::http::Request;
use glacis_tests::log::Folder;
use glacis_tests::stack::{Ports, Processor};
use serde_json::Value;

use crate::support::{Own, client, eventually, folder};

#[test]
fn it_can_be_moved_and_is_exchanged() {
    let folder = Folder::new(&folder("audit-file-ext-proc")).unwrap();
    let ports = Ports::free().unwrap();
    let config = format!(
        "listen: {{tcp: \"127.0.0.1:{}\"}}\nadmin: {{address: \"127.0.0.1:{}\"}}\n\
         audit: {{stdout: false, file: {AUDIT}, file_bytes_max: 3000, files_max: 3, format: ocsf}}\n\
         directives: 'SecRule ARGS \"@contains attack\" \"id:1,phase:2,deny,log\"'\ncanary: /?q=attack\n",
        ports.ext_proc, ports.ext_proc_admin
    );
    let ext_proc = ExtProc::start_with(&config, ports.ext_proc_admin, &folder).unwrap();
    let own = Own::on("audit-file", ports, Processor::Other, &[]);
    let paths = |name: &str| -> Vec<String> {
        let events = folder.read(name);
        let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.map(|event| event["http_request"]["url"]["path"].as_str().unwrap().into()).collect()
    };
    let attack = |path: &str, file: &str| {
        let request = Request::get(&format!("{path}?q=attack")).browser();
        assert_eq!(own.0.send(client(), &request).unwrap().status, 403);
        eventually("the record is there", Duration::from_secs(20), || {
            paths(file).last().is_some_and(|last| last == path)
        });
    };
    attack("/one", AUDIT);
    fs::rename(folder.file(AUDIT), folder.file("moved")).unwrap();
    attack("/two", "moved");
    ext_proc.hang_up().unwrap();
    eventually("the file is made anew", Duration::from_secs(20), || folder.file(AUDIT).exists());
    attack("/three", AUDIT);
    assert_eq!(paths("moved"), ["/one", "/two"]);

    for number in 0..8 {
        attack(&format!("/{number}"), AUDIT);
    }
    let old = [1, 2, 3].map(|number| format!("{AUDIT}.{number}"));
    let lengths = old.each_ref().map(|name| folder.read(name).len());
    assert!(lengths[0] > 0 && lengths[1] > 0 && lengths[2] == 0, "{lengths:?}");
    assert!(lengths.iter().all(|length| *length <= 3_000), "{lengths:?}");
    // Nothing is lost on the way from one file to the next.
    let lost = r#"glacis_records_lost_total{sink="file",reason="write"}"#;
    assert_eq!(ext_proc.metrics().unwrap().get(lost), Some(&0.0));
}

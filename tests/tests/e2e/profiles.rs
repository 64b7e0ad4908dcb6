//! Profiles as Envoy's routes choose them: each way that the documentation names, on the real Envoy.

use std::time::Duration;

use glacis_tests::http::Request;
use glacis_tests::stack::Processor;

use crate::support::{Own, access_log, client, eventually};

const PROFILES: &str = "
profiles:
  look: {mode: detection}
routes:
  by-name: look
";

const ATTRIBUTES: (&str, &str) = (
    "[source.address, destination.address, request.protocol]",
    "[source.address, destination.address, request.protocol, xds.route_name, \
     xds.route_metadata.filter_metadata.glacis.profile]",
);

/// Routes that stand before the last of the quickstart.
const ROUTES: (&str, &str) = (
    "              - name: closed\n",
    r#"              - name: by-stream
                match: {prefix: /by-stream/}
                route: *route
                typed_per_filter_config: &look
                  envoy.filters.http.ext_proc:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute
                    overrides: {grpc_initial_metadata: [{key: glacis-profile, value: look}]}
              - name: by-metadata
                match: {prefix: /by-metadata/}
                route: *route
                metadata: {filter_metadata: {glacis: {profile: look}}}
              - name: by-name
                match: {prefix: /by-name/}
                route: *route
              - name: misspelt
                match: {prefix: /misspelt/}
                route: *route
                metadata: {filter_metadata: {glacis: {profile: lok}}}
              - name: closed
"#,
);

/// A filter of Envoy's that names the user in dynamic metadata.
const USER_FILTER: &str = r#"          - name: envoy.filters.http.header_to_metadata
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
              request_rules:
              - header: x-authenticated-user
                on_header_present: {metadata_namespace: glacis, key: user, type: STRING}
                remove: true
"#;

/// Has ext_proc send it.
const USER_ATTRIBUTE: [(&str, &str); 1] = [(
    "[source.address, destination.address, request.protocol]",
    "[source.address, destination.address, request.protocol, metadata.filter_metadata.glacis.user]",
)];

#[test]
fn authenticated_users_are_remote_user() {
    const RULES: &str =
        "directives: 'SecRule REMOTE_USER \"@streq mallory\" \"id:1,phase:1,deny,status:409\"'";
    let with_filter = |place: &'static str| (place, format!("{USER_FILTER}{place}"));
    let (place, filter) = with_filter("          # 2. The rules.");
    let edits: Vec<_> = [(place, &*filter)].into_iter().chain(USER_ATTRIBUTE).collect();
    let with = Processor::ExtProcWith(RULES);
    users_are_remote_user(&Own::start("users", with, &edits));
    let (place, filter) = with_filter("          # The rules.");
    users_are_remote_user(&Own::native("native-users", &[RULES], &[(place, &*filter)]));
}

fn users_are_remote_user(own: &Own) {
    // "mallory:x"
    let basic = ("authorization", "Basic bWFsbG9yeTp4");
    for (user, authorization, status) in [
        (Some("mallory"), None, 409),
        (Some("jane"), None, 200),
        (Some("jane"), Some(basic), 200),
        (None, Some(basic), 409),
        (None, None, 200),
    ] {
        let mut request = Request::get("/echo");
        if let Some(user) = user {
            request = request.header("x-authenticated-user", user);
        }
        if let Some((name, value)) = authorization {
            request = request.header(name, value);
        }
        let answer = own.0.send(client(), &request.browser()).unwrap();
        assert_eq!(answer.status, status, "{user:?} {authorization:?}");
    }
}

const UNKNOWN: &str = "glacis_unknown_profiles_total";

#[test]
fn routes_choose_profiles() {
    let with = Processor::ExtProcWith(PROFILES);
    let own = Own::start("profiles", with, &[ATTRIBUTES, ROUTES]);
    let stack = &own.0;
    let attack = "q=%3Cscript%3Ealert(1)%3C/script%3E";
    let rows = [
        ("/echo", "default", 403),
        ("/by-stream/echo", "look", 200),
        ("/by-metadata/echo", "look", 200),
        ("/by-name/echo", "look", 200),
        // Not open for want of a profile.
        ("/misspelt/echo", "default", 403),
    ];
    let sent = rows.map(|(path, _, status)| {
        let from = client();
        // What a client says of itself counts for nothing.
        let request = Request::get(&format!("{path}?{attack}")).header("glacis-profile", "look");
        assert_eq!(stack.send(from, &request.browser()).unwrap().status, status, "{path}");
        from
    });
    for ((path, profile, _), line) in rows.iter().zip(access_log(stack, &sent)) {
        assert_eq!(line["glacis"]["profile"], *profile, "{path}: {line}");
    }
    eventually("the unknown profile is counted once", Duration::from_secs(5), || {
        stack.ext_proc.as_ref().unwrap().metrics().unwrap()[UNKNOWN] == 1.0
    });
}

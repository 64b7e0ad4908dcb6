//! The law of GraphQL: nothing hides in a document. The input is two bytes that choose a place and the limits (the
//! lowest bit), and a document. A mark is put into it, there for each transport, and at many other places for one.

use std::{
    net::Ipv4Addr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};

/// Places that are tried in each document.
const PLACES: usize = 100;

/// Punctuation that no grammar of GraphQL has outside of texts.
const MARK: &[u8] = b"'<m>'";

const RULES: &str = "SecRuleEngine On
    SecRequestBodyAccess On
    SecGraphqlPath /graphql
    SecRule REQUEST_HEADERS:Content-Type \"@streq application/json\" \"id:1,phase:1,pass,ctl:requestBodyProcessor=JSON\"
    SecRule ARGS \"@contains '<m>'\" \"id:2,phase:2,deny\"
    SecRule REQBODY_ERROR \"@eq 1\" \"id:3,phase:2,deny\"";

static PROGRAMS: LazyLock<[Arc<Program>; 2]> = LazyLock::new(|| {
    let small = Limits {
        graphql_depth_max: 3,
        graphql_tokens_max: 12,
        arguments_max: 4,
        ..Limits::default()
    };
    [Limits::default(), small].map(|limits| {
        let rules = [Input::Text { name: "graphql".to_owned(), text: RULES.to_owned() }];
        Arc::new(Program::build(&rules, &NoFiles, limits).unwrap())
    })
});

/// Whatever a document is, and wherever a text that is no name stands in it: rules for arguments see it, in each
/// transport.
pub fn graphql(input: &[u8]) {
    let Some((&[low, high], document)) = input.split_first_chunk() else { return };
    let place = usize::from(u16::from_le_bytes([low, high]) >> 1) % (document.len() + 1);
    let program = &PROGRAMS[usize::from(low & 1)];
    let marked = |place| {
        let (before, behind) = document.split_at(place);
        [before, MARK, behind].concat()
    };
    for place in (0..=document.len()).step_by(document.len() / PLACES + 1) {
        let seen = is_seen(program, b"/graphql", "application/graphql", &marked(place));
        assert!(seen, "the mark at {place} is hidden");
    }
    let marked = marked(place);
    let json = marked.iter().fold(b"{\"query\":\"".to_vec(), |mut json, &byte| {
        match byte {
            b'"' | b'\\' => json.extend([b'\\', byte]),
            0..0x20 => json.extend(format!("\\u{byte:04x}").bytes()),
            _ => json.push(byte),
        }
        json
    });
    let json = [&json, &b"\"}"[..]].concat();
    let query = marked.iter().fold(b"query=".to_vec(), |mut query, byte| {
        query.extend(format!("%{byte:02x}").bytes());
        query
    });
    let uri = [b"/graphql?", &*query].concat();
    for (uri, media_type, body) in [
        (&b"/graphql"[..], "application/graphql", &*marked),
        (b"/graphql", "application/json", &json),
        (b"/graphql", "application/x-www-form-urlencoded", &query),
        (&uri, "", b""),
    ] {
        assert!(
            is_seen(program, uri, media_type, body),
            "{media_type}: the mark at {place} is hidden"
        );
    }
}

fn is_seen(program: &Arc<Program>, uri: &[u8], media_type: &str, body: &[u8]) -> bool {
    let mut transaction = Transaction::new(Arc::clone(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    let time = Duration::from_secs(1);
    transaction.start(&Start { unique_id: "", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", uri, b"HTTP/1.1");
    if !media_type.is_empty() {
        transaction.request_header(b"Content-Type", media_type.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.request_body(body);
    transaction.evaluate_request_body();
    transaction.verdict().refusal().is_some()
}

//! What the wasm-filter refuses: denied addresses and floods.

use std::net::Ipv4Addr;

use glacis_tests::http::{Connection, Request};

use crate::support::{DENIED, client, shared};

#[test]
fn a_denied_address_is_refused() {
    let stack = shared();
    let answer = stack.send(DENIED, &Request::get("/echo").browser()).unwrap();
    assert_eq!(answer.status, 403);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.json()["title"], "Forbidden");
    // Not by writing another address into a field that nobody trusts.
    let request = Request::get("/echo").header("x-forwarded-for", "198.51.100.1").browser();
    assert_eq!(stack.send(DENIED, &request).unwrap().status, 403);
    // The next address is no part of the network.
    let neighbour = Ipv4Addr::from_bits(DENIED.to_bits() + 0x10000);
    assert_eq!(stack.send(neighbour, &Request::get("/echo").browser()).unwrap().status, 200);
}

/// 100 requests are the burst of the quickstart, 20 a second come back.
#[test]
fn a_flood_is_limited() {
    const FLOOD: usize = 400;
    let stack = shared();
    let from = client();
    let mut connection = Connection::open(Some(from), stack.proxy()).unwrap();
    // Cheap for the rules, so that the flood is faster than what comes back.
    let request = Request::get("/echo").browser();
    let mut passed = 0;
    let refusal = (0..FLOOD).find_map(|_| {
        let answer = connection.send(&request).unwrap();
        passed += usize::from(answer.status == 200);
        (answer.status != 200).then_some(answer)
    });
    let refusal = refusal.expect("the flood passed");
    assert!(passed >= 100, "the burst was only {passed}");
    assert_eq!(refusal.status, 429);
    let policy = refusal.header("ratelimit-policy");
    assert_eq!(policy, Some(r#""per-address";q=20;w=1"#));
    assert!(refusal.header("ratelimit").unwrap().starts_with(r#""per-address";r=0;t="#));
    assert!(refusal.header("retry-after").unwrap().parse::<u32>().unwrap() >= 1);
    // It is the address that is limited, not the proxy.
    assert_eq!(stack.send(client(), &request).unwrap().status, 200);
}

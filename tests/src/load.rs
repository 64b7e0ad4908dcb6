//! A load generator for HTTP/1.1: one thread, as many connections as wanted, and requests that are due whether earlier ones have
//! been answered or not.
//!
//! In an open loop the times at which requests are due are fixed beforehand. A request that finds no free connection waits for
//! one, and what it took is counted from when it was due: a proxy that stalls is charged for all that it kept waiting, not
//! only for the requests that were on their way (*coordinated omission*). In a closed loop each connection sends its next
//! request when the last one is answered, and what it took is counted from when it was sent.
//!
//! Every answer's status is compared with what was expected. Statuses that say that there is too much to do are counted apart,
//! with times of their own: who is turned away at once must not make those look fast who are served.
//!
//! Nothing waits for ever: connecting, an answer and what is on its way at the end have their limits.

mod answer;

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

use crate::failure::{Failure, Outcome, doing};
use answer::Progress;

/// How long what is on its way may take once nothing more is sent.
const DRAIN: Duration = Duration::from_secs(5);
/// Longer than anything should take: whoever is silent for so long is counted as broken.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long all connections together may take to be opened, and one that is opened anew.
const CONNECTING: Duration = Duration::from_secs(20);
const CONNECTING_ANEW: Duration = Duration::from_secs(2);
/// The header field that tells clients apart, with the digits that are replaced (see [`Plan::keys`]).
pub const KEY_FIELD: &str = "x-key: 00000000";
const KEY_DIGITS: usize = 8;
/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const READ_BYTES: usize = 64 << 10;
/// What belongs to the timer, not to a connection.
const TIMER: u64 = u64::MAX;

/// A request to be sent, and the status that is right.
#[derive(Clone, Debug)]
pub struct Shot {
    /// The request as it is written.
    pub bytes: Vec<u8>,
    /// What kind of request it is.
    pub class: String,
    /// The status of the right answer.
    pub status: u16,
}

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many a second, whatever becomes of them.
    Open(f64),
    /// Each connection sends the next one when the last is answered.
    Closed,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The proxy.
    pub to: SocketAddr,
    /// Connections, which are kept open.
    pub connections: usize,
    /// How requests follow each other.
    pub pace: Pace,
    /// For how long requests are sent.
    pub time: Duration,
    /// How many are sent at the most.
    pub count: Option<usize>,
    /// The requests, over and over in this order.
    pub shots: &'a [Shot],
    /// Statuses of those that are turned away, as there is too much to do.
    pub shed: &'a [u16],
    /// So many clients, told apart by [`KEY_FIELD`], which requests then have to have; 0 for requests as they are.
    pub keys: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What each answered request took, in microseconds, in ascending order; without those that were turned away.
    pub micros: Vec<u32>,
    /// What each took that was turned away.
    pub shed_micros: Vec<u32>,
    /// The requests that were due.
    pub due: u64,
    /// Requests that were due and never sent, as no connection was free.
    pub unsent: u64,
    /// Connections that ended, or said what is no HTTP, with a request on its way; and requests without an answer.
    pub broken: u64,
    /// Wrong answers: class, status expected, status seen.
    pub wrong: BTreeMap<(String, u16, u16), u64>,
    /// Seconds from the first request to the last answer; in an open loop at least the time that was planned.
    pub seconds: f64,
    /// CPU time of the generator.
    pub cpu_seconds: f64,
}

impl Seen {
    /// What this share of the requests did not exceed, in milliseconds.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        percentile_ms(&self.micros, share)
    }

    /// The same of those that were turned away.
    pub fn shed_percentile_ms(&self, share: f64) -> f64 {
        percentile_ms(&self.shed_micros, share)
    }

    /// The mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        let sum: f64 = self.micros.iter().map(|micros| f64::from(*micros)).sum();
        sum / 1e3 / self.answered().max(1) as f64
    }

    /// Answered requests.
    pub const fn answered(&self) -> usize {
        self.micros.len()
    }

    /// Answered requests in a second.
    pub fn per_second(&self) -> f64 {
        self.answered() as f64 / self.seconds.max(1e-9)
    }

    /// Wrong answers.
    pub fn wrong_count(&self) -> u64 {
        self.wrong.values().sum()
    }
}

fn percentile_ms(micros: &[u32], share: f64) -> f64 {
    let place = (micros.len() as f64 * share) as usize;
    let last = micros.len().saturating_sub(1);
    f64::from(micros.get(place.min(last)).copied().unwrap_or(0)) / 1e3
}

/// Sends what is planned.
///
/// # Errors
///
/// If there is nothing to send, or nobody to send it to.
pub fn run(plan: &Plan<'_>) -> Outcome<Seen> {
    if plan.shots.is_empty() || plan.connections == 0 {
        return Err(Failure::new("there is nothing to send, or no connection to send it on"));
    }
    let cpu = thread_seconds();
    let mut generator = Generator::new(plan)?;
    generator.run()?;
    let mut seen = generator.seen;
    seen.micros.sort_unstable();
    seen.shed_micros.sort_unstable();
    seen.cpu_seconds = thread_seconds() - cpu;
    Ok(seen)
}

fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A connection.
#[derive(Debug)]
struct Client {
    stream: TcpStream,
    /// What is on its way: the number of the request, and since when it counts.
    sent: Option<(usize, Instant)>,
    /// The request as this client sends it, where clients are told apart.
    own: Vec<u8>,
    /// Bytes of it that are written.
    written: usize,
    /// What has come of the answer.
    input: Vec<u8>,
}

struct Generator<'a> {
    plan: &'a Plan<'a>,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Where the digits of the key stand in each request.
    key_places: Vec<usize>,
    clients: Vec<Client>,
    free: VecDeque<usize>,
    begun: Instant,
    next: usize,
    seen: Seen,
    buffer: Vec<u8>,
}

impl<'a> Generator<'a> {
    fn new(plan: &'a Plan<'a>) -> Outcome<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(doing("make an epoll"))?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        );
        let timer = timer.map_err(doing("make a timer"))?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)
            .map_err(doing("wait for a timer"))?;
        let mut generator = Self {
            plan,
            epoll,
            timer,
            key_places: key_places(plan)?,
            clients: Vec::new(),
            free: (0..plan.connections).collect(),
            begun: Instant::now(),
            next: 0,
            seen: Seen::default(),
            buffer: vec![0; READ_BYTES],
        };
        let begun = Instant::now();
        for number in 0..plan.connections {
            let rest = CONNECTING.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
            let client = generator.connect(number, rest)?;
            generator.clients.push(client);
        }
        Ok(generator)
    }

    fn connect(&self, number: usize, patience: Duration) -> Outcome<Client> {
        let stream =
            TcpStream::connect_timeout(&self.plan.to, patience).map_err(doing("connect"))?;
        stream.set_nodelay(true).map_err(doing("set nodelay"))?;
        stream.set_nonblocking(true).map_err(doing("set a socket"))?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &stream, EventData::new_u64(number as u64), flags)
            .map_err(doing("wait for a socket"))?;
        Ok(Client { stream, sent: None, own: Vec::new(), written: 0, input: Vec::new() })
    }

    fn run(&mut self) -> Outcome<()> {
        self.begun = Instant::now();
        let mut events: Vec<Event> = Vec::with_capacity(256);
        let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            self.send_due()?;
            let elapsed = self.begun.elapsed();
            let on_their_way = self.free.len() < self.clients.len();
            let over = elapsed >= self.plan.time
                || self.plan.count.is_some_and(|count| self.next >= count);
            if over && (!on_their_way || elapsed >= self.plan.time + DRAIN) {
                break;
            }
            self.arm();
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&pause)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(doing("wait for events")(error)),
            }
            for event in &events {
                let number = event.data.u64();
                // Opening connections anew takes time where nobody answers: the end is looked for here, too.
                if number != TIMER && self.begun.elapsed() < self.plan.time + DRAIN {
                    self.look_at(usize::try_from(number).unwrap_or(usize::MAX))?;
                }
            }
        }
        self.finish();
        Ok(())
    }

    fn finish(&mut self) {
        let silent = self.clients.iter().filter(|client| client.sent.is_some()).count();
        self.seen.broken += silent as u64;
        let planned = match self.plan.pace {
            Pace::Open(rate) => (rate * self.plan.time.as_secs_f64()) as u64,
            Pace::Closed => self.next as u64,
        };
        self.seen.due = self.plan.count.map_or(planned, |count| planned.min(count as u64));
        self.seen.unsent = self.seen.due.saturating_sub(self.next as u64);
        // The last look at the sockets finds nothing, and takes its time.
        if let Pace::Open(_) = self.plan.pace {
            self.seen.seconds = self.seen.seconds.max(self.plan.time.as_secs_f64());
        }
    }

    /// When a request is due, in a closed loop now; `None` once the time is over.
    fn due(&self, number: usize, now: Duration) -> Option<Duration> {
        match self.plan.pace {
            Pace::Open(rate) => Some(Duration::from_secs_f64(number as f64 / rate)),
            Pace::Closed => Some(now),
        }
        .filter(|due| *due < self.plan.time && self.plan.count.is_none_or(|count| number < count))
    }

    /// Sends what is due, as far as there are free connections.
    fn send_due(&mut self) -> Outcome<()> {
        while let Some(&number) = self.free.front() {
            let elapsed = self.begun.elapsed();
            // Nothing is sent when the time is over, whatever is still due.
            let Some(due) = self
                .due(self.next, elapsed)
                .filter(|due| *due <= elapsed && elapsed < self.plan.time)
            else {
                return Ok(());
            };
            self.free.pop_front();
            let shot = self.next % self.plan.shots.len();
            let key = key(self.next, self.plan.keys);
            self.next += 1;
            let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
            client.sent = Some((shot, self.begun + due));
            client.written = 0;
            client.input.clear();
            if let (Some(&place), Some(shot)) =
                (self.key_places.get(shot), self.plan.shots.get(shot))
            {
                client.own.clear();
                client.own.extend_from_slice(&shot.bytes);
                if let Some(digits) = client.own.get_mut(place..place + KEY_DIGITS) {
                    digits.copy_from_slice(format!("{key:08}").as_bytes());
                }
            }
            self.write(number)?;
        }
        Ok(())
    }

    /// Has the timer ring when the next request is due. Where no connection is free an answer comes first.
    fn arm(&self) {
        let now = self.begun.elapsed();
        let Some(due) = self.due(self.next, now).filter(|_| !self.free.is_empty()) else { return };
        let wait = due.saturating_sub(now).max(Duration::from_micros(1));
        let value =
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // If it cannot be set, the pause of the loop is the timer.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }

    /// Writes as much of a request as the socket takes.
    fn write(&mut self, number: usize) -> Outcome<()> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        while let Some((shot, _)) = client.sent {
            let bytes = match self.plan.keys {
                0 => self.plan.shots.get(shot).map_or(&[][..], |shot| &shot.bytes),
                _ => &client.own,
            };
            let rest = bytes.get(client.written..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(());
            }
            match client.stream.write(rest) {
                Ok(written) => client.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A refusal may have come before the request was sent: it is read first.
                Err(_) => return self.read(number),
            }
        }
        Ok(())
    }

    fn look_at(&mut self, number: usize) -> Outcome<()> {
        self.write(number)?;
        self.read(number)
    }

    /// Takes what has come on a connection.
    fn read(&mut self, number: usize) -> Outcome<()> {
        let Some(client) = self.clients.get_mut(number) else { return Ok(()) };
        let ended = loop {
            match client.stream.read(&mut self.buffer) {
                Ok(0) => break true,
                Ok(count) => client.input.extend(self.buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break true,
            }
        };
        let Some((shot, since)) = client.sent else {
            // Closed between two requests, which is the proxy's right.
            return if ended { self.replace(number) } else { Ok(()) };
        };
        let Some(shot) = self.plan.shots.get(shot) else { return Ok(()) };
        let progress = answer::progress(&client.input, ended);
        let late = since.elapsed() > PATIENCE || client.input.len() > ANSWER_BYTES_MAX;
        match progress {
            Progress::More if !ended && !late => return Ok(()),
            Progress::More | Progress::Bad => {
                self.seen.broken += 1;
                client.sent = None;
                self.replace(number)?;
            }
            Progress::Done { status, closes } => {
                let micros = u32::try_from(since.elapsed().as_micros()).unwrap_or(u32::MAX);
                self.seen.seconds = self.begun.elapsed().as_secs_f64();
                if status != shot.status && self.plan.shed.contains(&status) {
                    self.seen.shed_micros.push(micros);
                } else {
                    self.seen.micros.push(micros);
                    if status != shot.status {
                        let wrong = (shot.class.clone(), shot.status, status);
                        *self.seen.wrong.entry(wrong).or_default() += 1;
                    }
                }
                let whole = client.written == shot.bytes.len();
                client.sent = None;
                if ended || closes || !whole {
                    self.replace(number)?;
                }
            }
        }
        self.free.push_back(number);
        Ok(())
    }

    /// Opens a connection anew.
    fn replace(&mut self, number: usize) -> Outcome<()> {
        let client = self.connect(number, CONNECTING_ANEW)?;
        if let Some(old) = self.clients.get_mut(number) {
            *old = client;
        }
        Ok(())
    }
}

/// Where the digits of the key begin in each request; nothing where there are no keys.
fn key_places(plan: &Plan<'_>) -> Outcome<Vec<usize>> {
    if plan.keys == 0 {
        return Ok(Vec::new());
    }
    let field = KEY_FIELD.as_bytes();
    let place = |shot: &Shot| {
        let start = shot.bytes.windows(field.len()).position(|window| window == field)?;
        Some(start + field.len() - KEY_DIGITS)
    };
    let places: Option<Vec<usize>> = plan.shots.iter().map(place).collect();
    places.ok_or_else(|| Failure::new(format!("a request has no field `{KEY_FIELD}`")))
}

/// The key of a request: all of them come once before one comes again, in an order that is not theirs.
const fn key(number: usize, keys: u32) -> u64 {
    // A step that has no divisor in common with the powers of ten that keys are.
    const STEP: u64 = 7_368_787;
    if keys == 0 { 0 } else { (number as u64 % keys as u64) * STEP % keys as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Request;
    use crate::upstream;

    fn shot(target: &str, status: u16) -> Shot {
        Shot { bytes: Request::get(target).bytes(), class: target.to_owned(), status }
    }

    fn plan(to: SocketAddr, connections: usize, pace: Pace, shots: &[Shot]) -> Plan<'_> {
        let time = Duration::from_secs(1);
        Plan { to, connections, pace, time, count: None, shots, shed: &[], keys: 0 }
    }

    #[test]
    fn a_rate_is_held_and_answers_are_checked() {
        let to = upstream::spawn(0).unwrap();
        let large = Request::post("/x", "text/plain", vec![b'x'; 4 << 20]).bytes();
        let large = Shot { bytes: large, class: "large".to_owned(), status: 200 };
        let shots = [shot("/", 200), shot("/", 403), large, shot("/size/100000", 200)];
        let seen = run(&plan(to, 8, Pace::Open(20.0), &shots)).unwrap();
        assert_eq!((seen.due, seen.unsent, seen.broken), (20, 0, 0), "{:?}", seen.wrong);
        assert_eq!(seen.answered(), 20);
        let wrong: Vec<_> = seen.wrong.into_iter().collect();
        assert_eq!(wrong, [(("/".to_owned(), 403, 200), 5)]);
        let first = Plan { count: Some(10), ..plan(to, 3, Pace::Closed, &shots) };
        assert_eq!(run(&first).unwrap().answered(), 10);
    }

    #[test]
    fn who_is_turned_away_is_counted_apart() {
        let to = upstream::spawn(0).unwrap();
        let shots = [shot("/", 200), shot("/", 403)];
        let plan = Plan { shed: &[503, 200], ..plan(to, 2, Pace::Open(20.0), &shots) };
        let seen = run(&plan).unwrap();
        // What is right where it was asked for is not turned away.
        assert_eq!((seen.answered(), seen.shed_micros.len(), seen.wrong_count()), (10, 10, 0));
        assert!(seen.shed_percentile_ms(0.99) > 0.0);
    }

    #[test]
    fn each_key_comes_once_before_one_comes_again() {
        for keys in [1, 1000, 100_000] {
            let seen: std::collections::BTreeSet<u64> =
                (0..keys as usize).map(|number| key(number, keys)).collect();
            assert_eq!(seen.len(), keys as usize);
            assert_eq!(key(keys as usize, keys), key(0, keys));
        }
        let to = upstream::spawn(0).unwrap();
        let echo = Request::get("/echo").header("x-key", "00000000").bytes();
        let shots = [Shot { bytes: echo, class: "echo".to_owned(), status: 200 }];
        let keyed = Plan { keys: 1000, ..plan(to, 2, Pace::Open(20.0), &shots) };
        assert_eq!(run(&keyed).unwrap().answered(), 20);
        let without = [shot("/", 200)];
        let told = run(&Plan { keys: 5, ..plan(to, 1, Pace::Closed, &without) }).unwrap_err();
        assert!(told.to_string().contains("x-key"), "{told}");
    }

    #[test]
    fn who_waits_for_a_connection_is_counted_from_when_it_was_due() {
        let to = upstream::spawn(0).unwrap();
        // The second request of one connection finds it busy for two seconds.
        let shots = [shot("/", 200), shot("/slow", 200), shot("/", 200)];
        let seen = run(&plan(to, 1, Pace::Open(10.0), &shots)).unwrap();
        assert_eq!((seen.due, seen.unsent, seen.answered()), (10, 8, 2));
        let long = Plan { time: Duration::from_secs(5), ..plan(to, 1, Pace::Open(1.0), &shots) };
        let seen = run(&Plan { count: Some(3), ..long }).unwrap();
        assert_eq!((seen.due, seen.unsent, seen.answered()), (3, 0, 3));
        // Due after two seconds, and sent after three.
        assert!(seen.percentile_ms(0.5) > 900.0, "{:?}", seen.micros);
    }
}

//! A real Redis (or Valkey) on a Unix socket, without persistence.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::failure::{Failure, Outcome, doing, io};
use crate::log::Folder;
use crate::process::Process;
use crate::settings;

const START: Duration = Duration::from_secs(20);

/// A server, stopped when dropped.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    socket: PathBuf,
}

impl Redis {
    /// Starts one whose log is in `folder`, and waits until it answers.
    ///
    /// # Errors
    ///
    /// If it does not start.
    pub fn start(folder: &Folder) -> Outcome<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // The path of a socket has 107 bytes at most, and folders of tests have long names.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("glacis-redis-{}-{number}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let mut command = Command::new(settings::redis());
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
        command.arg(&socket).current_dir(folder.path());
        let mut process = Process::start("redis", &mut command, &folder.file("redis.log"))?;
        let path = socket.clone();
        process.wait_until(START, move || {
            ask(&path, "PING").is_ok_and(|pong| pong.contains("PONG"))
        })?;
        Ok(Self { process, socket })
    }

    /// Where it is, as the configurations of the services say it, in YAML.
    pub fn place(&self) -> String {
        format!("{{nodes: [\"unix:{}\"], deadline_ms: 500}}", self.socket.display())
    }

    /// The part `store` of the configuration of ext-authz, in YAML.
    pub fn store(&self) -> String {
        format!("store: {{redis: {}}}\n", self.place())
    }

    /// Its Unix socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// How many scripts it has run that count: each is one round trip. Those that look for bans, four times a
    /// second whatever is asked, are not among them: each of these calls `ZREMRANGEBYSCORE` once.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn scripts(&self) -> Outcome<u64> {
        let stats = ask(&self.socket, "INFO commandstats")?;
        let count = |command: &str| {
            let calls = |line: &str| {
                let (_, rest) =
                    line.strip_prefix("cmdstat_")?.strip_prefix(command)?.split_once(":calls=")?;
                rest.split(',').next()?.parse::<u64>().ok()
            };
            stats.lines().find_map(calls).unwrap_or(0)
        };
        Ok(count("evalsha").saturating_sub(count("zremrangebyscore")))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.process.kill();
        let _ = fs::remove_file(&self.socket);
    }
}

/// Sends a command as one line, and returns the answer as it came.
///
/// # Errors
///
/// If nobody answers, or the answer is an error.
pub fn command(port: u16, line: &str) -> Outcome<String> {
    let connect = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let mut stream = connect.map_err(doing("connect to Redis"))?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(doing("set a timeout"))?;
    stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).map_err(doing("ask Redis"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(doing("hear Redis"))?;
    match answer.starts_with('-') {
        true => Err(Failure::new(format!("Redis: {line}: {answer}"))),
        false => Ok(answer),
    }
}

/// The answer to a command, as it comes over the wire.
fn ask(socket: &Path, command: &str) -> Outcome<String> {
    let talk = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    talk().map_err(io("ask Redis at", socket))
}

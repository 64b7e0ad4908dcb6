//! A real Redis, or Valkey, on loopback and on a Unix socket, without persistence, for one test.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// How long a server may take to start, or to do as it is told.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A server, which ends with this value.
#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Child,
    folder: PathBuf,
    port: u16,
    arguments: Vec<String>,
}

impl RedisServer {
    /// A server with these arguments (`--NAME VALUE`).
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let name = format!(
            "glacis-redis-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let port = free_port();
        let child = spawn(&folder, port, &arguments);
        let server = Self { child, folder, port, arguments };
        server.wait_until("it is there", || server.answers("PING", "+PONG"));
        server
    }

    /// The port; that of TLS where the arguments say so.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where the Unix socket is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("redis.sock")
    }

    /// What it answers to a command, as it comes over the wire; nothing when it is not there.
    pub(crate) fn command(&self, command: &str) -> String {
        let Ok(mut stream) = UnixStream::connect(self.socket()) else { return String::new() };
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answer = Vec::new();
        if stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).is_ok() {
            let _ = stream.read_to_end(&mut answer);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Whether the answer to a command has this text in it.
    pub(crate) fn answers(&self, command: &str, text: &str) -> bool {
        self.command(command).contains(text)
    }

    /// Waits for something, and fails when it does not come.
    pub(crate) fn wait_until(&self, what: &str, come: impl Fn() -> bool) {
        let start = Instant::now();
        while !come() {
            assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(self.socket());
    }

    /// Starts it again after [`Self::kill`], with more arguments, and does not wait for it.
    pub(crate) fn start_again(&mut self, more: &[&str]) {
        let mut arguments = self.arguments.clone();
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        self.child = spawn(&self.folder, self.port, &arguments);
    }

    /// The process, for signals.
    pub(crate) fn process(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A port of loopback on which nobody listens now.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn spawn(folder: &Path, port: u16, arguments: &Vec<String>) -> Child {
    let program = std::env::var_os("GLACIS_REDIS").unwrap_or_else(|| "redis-server".into());
    let mut command = Command::new(&program);
    // A sentinel keeps what it learns in its configuration, and needs a file for it.
    let config = folder.join("redis.conf");
    if !config.exists() {
        fs::write(&config, "").unwrap();
    }
    command.arg(config);
    let port = port.to_string();
    let port_argument = match arguments.iter().any(|argument| argument == "--tls-auth-clients") {
        true => "--tls-port",
        false => "--port",
    };
    if port_argument == "--tls-port" {
        command.args(["--port", "0"]);
    }
    command.args([port_argument, &port, "--bind", "127.0.0.1"]);
    command.args(["--unixsocket", "redis.sock", "--dir"]).arg(folder);
    if !arguments.iter().any(|argument| argument == "--sentinel") {
        command.args(["--save", "", "--appendonly", "no"]);
    }
    command.args(arguments).stdin(Stdio::null()).current_dir(folder);
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    command.stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap_or_else(|error| {
        panic!(
            "cannot start {}: {error}; install redis-server, or name one in GLACIS_REDIS",
            program.display()
        )
    })
}

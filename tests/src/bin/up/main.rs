//! `up`: everything of the quickstart on this machine, with a few requests and attacks to look at.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on its standard streams"
)]

mod identity;
mod native;
mod pictures;
mod rows;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use glacis_tests::failure::{Failure, Outcome, doing, exit};
use glacis_tests::stack::{Ports, Processor, Stack};
use glacis_tests::{envoy, ext_proc, ports};
use identity::Identity;
use native::Native;
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "\
usage: up [--once] [--no-module] [--pictures FOLDER]

Starts Envoy with envoy-configs/quickstart/, ext-proc with the OWASP CRS and a sample upstream.
A second listener of the same Envoy runs the rules in the native module (envoy-configs/native/).
An Envoy beside it has envoy-configs/ext-authz/ for keys and limits.
Sends requests and attacks, shows what became of each, and stays up until Ctrl-C.

  --once             stop after the table; the status is 0 only if every answer was the expected one
  --no-module        leave out the native module, for an Envoy that cannot load it (1.37)
  --pictures FOLDER  write pictures of ext-proc's page there, by Chromium, for documents";

/// What is asked for.
#[derive(Clone, Debug, Default)]
struct Options {
    once: bool,
    no_module: bool,
    pictures: Option<PathBuf>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--once" => options.once = true,
                "--no-module" => options.no_module = true,
                "--pictures" => options.pictures = Some(arguments.next()?.into()),
                _ => return None,
            }
        }
        Some(options)
    }
}

fn main() -> ExitCode {
    let Some(options) = Options::read(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    exit("up", run(options))
}

/// Whether every answer was the expected one.
///
/// The work is done in a thread, so that a signal is heard at any time. If it comes early we end
/// without more ado: no child process outlives us.
fn run(options: Options) -> Outcome<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(doing("make a runtime"))?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(doing("listen to Ctrl-C"))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(doing("listen to SIGTERM"))?;
        let once = options.once;
        let (sender, work) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || sender.send(bring_up(&options)).is_ok());
        let (stack, mut identity, good) = tokio::select! {
            done = work => done.map_err(|_| Failure::new("the work ended in a panic"))??,
            _ = interrupt.recv() => return stopped(),
            _ = terminate.recv() => return stopped(),
        };
        if !once {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        println!("\nstopping …");
        identity.stop();
        stack.stop();
        if good {
            std::fs::remove_dir_all(folder()).map_err(doing("remove the logs"))?;
        } else {
            println!("logs: {}", folder().display());
        }
        stopped().map(|_| good)
    })
}

fn stopped() -> Outcome<bool> {
    println!("stopped");
    Ok(true)
}

fn bring_up(options: &Options) -> Outcome<(Stack, Identity, bool)> {
    let begun = Instant::now();
    let ports = choose_ports()?;
    println!("Console: http://localhost:{}/ (in some seconds)\n", ports.ext_proc_admin);
    println!("Starting ext-proc with the OWASP CRS, ext-authz, a sample upstream and Envoy …");
    // What rules cost is counted in few requests, unless it is to be seen.
    let processor = match options.pictures {
        Some(_) => Processor::ExtProcWith("cost_sample: 1\n"),
        None => Processor::ExtProc,
    };
    let native = match options.no_module {
        true => None,
        false => Some(Native::new(ports, &folder())?),
    };
    let edit = native.as_ref().map(Native::edit);
    let edits: Vec<_> = edit.iter().map(|(old, new)| (*old, new.as_str())).collect();
    let stack = Stack::start(&folder(), ports, processor, &edits)?;
    let identity = Identity::start(&folder().join("ext-authz"), ports.upstream)?;
    println!("Up after {:.1} s", begun.elapsed().as_secs_f64());
    let mut results = rows::send_all(&stack)?;
    if let Some(native) = &native {
        results.extend(native.send_all(&stack)?);
    }
    results.extend(identity.send_all()?);
    let good = results.iter().all(rows::Finding::is_good);
    println!("\n{}", table::of(&results));
    println!("{} requests and attacks after {:.1} s", results.len(), begun.elapsed().as_secs_f64());
    if !good {
        println!("Rows with a ! are not what was expected: this is a fault, please report it.");
    }
    if let Some(folder) = &options.pictures {
        pictures::take(&stack, folder)?;
    }
    if !options.once {
        println!("{}", invitation(&stack, &identity, native.as_ref()));
    }
    Ok((stack, identity, good))
}

/// The quickstart's own ports, or free ones if somebody listens on any of those.
fn choose_ports() -> Outcome<Ports> {
    let Ports { proxy, admin, ext_proc, ext_proc_admin, upstream } = Ports::QUICKSTART;
    let usual = [proxy, admin, ext_proc, ext_proc_admin, upstream];
    let taken: Vec<_> = usual.into_iter().filter(|port| !ports::is_free(*port)).collect();
    if taken.is_empty() {
        return Ok(Ports::QUICKSTART);
    }
    println!("Taken by somebody else: {taken:?}; other ports are used instead.");
    Ports::free()
}

fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("glacis-up-{}", std::process::id()))
}

/// What to try now, and what to read then.
fn invitation(stack: &Stack, identity: &Identity, native: Option<&Native>) -> String {
    let Ports { proxy, admin, ext_proc_admin, .. } = stack.ports;
    let (keys, authz_admin) = (identity.proxy, identity.admin);
    let native = native.map(|native| {
        let proxy = native.proxy;
        format!(
            "\n  the native module     curl -i \"http://localhost:{proxy}/echo?id=1%27%20OR%201%3D1--%20-\""
        )
    });
    let native = native.unwrap_or_default();
    let (audit, access) = (stack.folder.file(ext_proc::AUDIT), stack.folder.file(envoy::LOG));
    format!(
        "
Console: http://localhost:{ext_proc_admin}/ lists the blocked requests; click one for its rules and the narrowest exclusion.

Try:
  an ordinary page      curl -i http://localhost:{proxy}/
  SQL injection         curl -i \"http://localhost:{proxy}/echo?id=1%27%20OR%201%3D1--%20-\"
  cross-site scripting  curl -i http://localhost:{proxy}/echo -d \"note=<script>alert(1)</script>\"
  a scanner             curl -i -A sqlmap/1.8 http://localhost:{proxy}/
  Envoy                 curl -s http://localhost:{admin}/stats | grep -E \"glacis|ext_proc\"
  metrics of ext-proc   curl -s http://localhost:{ext_proc_admin}/metrics
  without a key         curl -i http://localhost:{keys}/orders/42
  with a key            curl -i -H \"x-api-key: demo-key\" http://localhost:{keys}/orders/42{native}
  metrics of ext-authz  curl -s http://localhost:{authz_admin}/metrics
  audit records         tail -n 1 {}
  access log            tail {}

Next steps:
  1. Send an attack of the list above and open it on the console.
  2. Put Glacis in front of your upstream: README.md, \"Attach your own Envoy\"; in Kubernetes: docs/attach.md.
  3. Start in detection mode, resolve false alarms, then block: docs/tuning.md.

Ctrl-C stops everything.",
        audit.display(),
        access.display(),
    )
}

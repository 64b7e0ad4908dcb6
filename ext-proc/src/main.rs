//! The command `glacis-ext-proc`.

use std::{io::Write as _, path::PathBuf, process::ExitCode, sync::Arc};

use glacis_ext_proc::{AuditWriter, Metrics, Processor, config::Config, ruleset::Ruleset};
use glacis_service::{Server, ended_by_signal, exit_at_second_signal, telemetry};
use tokio::runtime;

const USAGE: &str = "\
usage: glacis-ext-proc --config FILE [--check]
       glacis-ext-proc --version

  --config FILE  the configuration, see glacis-ext-proc.yaml
  --check        read configuration and rules, say what is wrong with them, and end
  --version      say the version, and end
";

type Failure = Box<dyn core::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["--version"] => {
            say(
                &mut std::io::stdout(),
                concat!("glacis-ext-proc ", env!("CARGO_PKG_VERSION"), "\n"),
            );
            return ExitCode::SUCCESS;
        }
        ["--help"] => {
            say(&mut std::io::stdout(), USAGE);
            return ExitCode::SUCCESS;
        }
        ["--config", file] => run(&PathBuf::from(file)),
        ["--config", file, "--check"] | ["--check", "--config", file] => {
            check(&PathBuf::from(file))
        }
        _ => {
            say(&mut std::io::stderr(), USAGE);
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&mut std::io::stderr(), &format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Writes what a terminal is to show. That it is gone is no reason to fail.
fn say(place: &mut dyn std::io::Write, text: &str) {
    let _ = place.write_all(text.as_bytes()).and_then(|()| place.flush());
}

fn check(file: &std::path::Path) -> Result<(), Failure> {
    let config = Config::load(file)?;
    let ruleset = Ruleset::build(&config)?;
    let mut out = std::io::stdout();
    for warning in ruleset.program.warnings() {
        writeln!(out, "warning: {warning}")?;
    }
    let program = &ruleset.program;
    writeln!(
        out,
        "{}: good, {} rules, ruleset {}",
        file.display(),
        program.rule_count(),
        program.hash()
    )?;
    Ok(())
}

fn run(file: &std::path::Path) -> Result<(), Failure> {
    let config = Config::load(file)?;
    telemetry::init(config.log_level.into());
    let ruleset = Ruleset::build(&config)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        // Long evaluations run there; more threads than cores would only make each take longer.
        .max_blocking_threads(cores)
        .build()?;
    runtime.block_on(serve(&config, ruleset))
}

async fn serve(config: &Config, ruleset: Ruleset) -> Result<(), Failure> {
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = Metrics::register(&mut registry);
    let program = Arc::clone(&ruleset.program);
    Metrics::register_ruleset(&mut registry, &config.profile, program.hash(), program.rule_count());
    for warning in program.warnings() {
        tracing::warn!(warning, "in the rules");
    }
    let server = Server::bind(&config.listen, &config.admin).await?;
    let audit = AuditWriter::start(config.audit.stdout, config.audit.file.as_deref())?;
    tracing::info!(
        tcp = server.tcp_address().map(tracing::field::display),
        unix = config.listen.unix.as_ref().map(|socket| tracing::field::display(socket.path.display())),
        admin = server.admin_address().map(tracing::field::display),
        rules = program.rule_count(),
        ruleset = program.hash(),
        mode = ?program.rule_engine(),
        "serving"
    );
    let routes = Processor::new(config, ruleset, metrics, audit).routes();
    let end = async {
        ended_by_signal().await;
        exit_at_second_signal();
    };
    server.serve(routes, Processor::NAME, Arc::new(registry), config.drain(), end).await?;
    tracing::info!("ended");
    Ok(())
}

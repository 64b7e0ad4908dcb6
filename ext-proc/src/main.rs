//! The command `glacis-ext-proc`.

use core::time::Duration;
use std::{io::Write as _, path::Path, process::ExitCode, sync::Arc};

use glacis_ext_proc::{
    AuditLog, Metrics, Processor, Tracer, bundle::bundle, config::Config, reload::Reading,
    ruleset::Loaded, wasm_module,
};
use glacis_service::{
    Readiness, Server,
    admin::AdminPort,
    command::{Failure, Program, ended},
    ended_by_signal, reload,
    telemetry::{self, LogLevel},
};
use tokio::runtime;

const USAGE: &str = "\
usage: glacis-ext-proc --config FILE [--check | --bundle PROFILE]
       glacis-ext-proc --version

  --config FILE     the configuration, see glacis-ext-proc.yaml
  --check           read configuration and rules, say what is wrong with them, and end
  --bundle PROFILE  print this profile's rules as one line for the wasm-filter's first verdict, and end
  --version         say the version, and end
";

/// How long each sink of audit records and spans may take at the end for what it still has.
const FLUSH: Duration = Duration::from_secs(2);

const PROGRAM: Program =
    Program { name: glacis_ext_proc::PROGRAM, version: env!("CARGO_PKG_VERSION"), usage: USAGE };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["--config", file, "--bundle", profile] => ended(print_bundle(Path::new(file), profile)),
        _ => PROGRAM.execute(&arguments, run, check),
    }
}

fn print_bundle(file: &Path, profile: &str) -> Result<(), Failure> {
    let packed = bundle(&Config::load(file)?, profile)?;
    for remark in &packed.remarks {
        writeln!(std::io::stderr(), "{remark}")?;
    }
    let (rules, bytes) = (packed.rules, packed.line.len());
    writeln!(std::io::stderr(), "profile {profile}: {rules} rules, {bytes} bytes")?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", packed.line)?;
    Ok(out.flush()?)
}

fn check(file: &Path) -> Result<(), Failure> {
    let Reading { rulesets, .. } = Reading::check(file)?;
    let mut out = std::io::stdout();
    for loaded in rulesets.loaded() {
        for warning in loaded.program.warnings() {
            writeln!(out, "warning: profile {}: {warning}", loaded.profile)?;
        }
    }
    for expired in rulesets.exclusions().iter().filter(|loaded| loaded.expired) {
        writeln!(out, "warning: {expired}")?;
    }
    for profile in rulesets.silent() {
        writeln!(out, "warning: profile {profile}: a known attack passes its rules (see canary)")?;
    }
    for Loaded { profile, program, .. } in rulesets.loaded() {
        let (rules, hash) = (program.rule_count(), program.hash());
        writeln!(
            out,
            "{}: profile {profile}: good, {rules} rules, ruleset {hash}",
            file.display()
        )?;
    }
    Ok(())
}

fn run(file: &Path) -> Result<(), Failure> {
    let reading = Reading::first(file)?;
    let log_level = telemetry::init(reading.config.log_level.into());
    let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(file, reading, log_level))
}

async fn serve(file: &Path, reading: Reading, log_level: LogLevel) -> Result<(), Failure> {
    let Reading { config, rulesets, host, record, document } = reading;
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = Metrics::register(&mut registry, &config.metrics);
    host.register(&mut registry, &metrics.stores);
    rulesets.log();
    let mut server = Server::bind(&config.listen, &config.admin).await?;
    server.watch_certificates(config.reload_interval(), &metrics.service.tls)?;
    server.watch_tokens(config.reload_interval(), &metrics.service.tokens)?;
    if let Some(module) = &config.wasm {
        wasm_module::serve(module).await?;
    }
    let audit = AuditLog::start(&config, &metrics.losses)?;
    let tracer = Tracer::start(&config, &metrics.losses)?;
    tracing::info!(
        tcp = server.tcp_address().map(tracing::field::display),
        unix = config
            .listen
            .unix
            .as_ref()
            .map(|socket| tracing::field::display(socket.path.display())),
        admin = server.admin_address().map(tracing::field::display),
        probes = server.probe_address().map(tracing::field::display),
        "serving"
    );
    let (audit_log, traces) = (audit.clone(), tracer.clone());
    let processor = Processor::new(&config, rulesets, metrics, audit, tracer)?;
    let readiness = Readiness::new();
    processor.look_after(&config, &readiness);
    let (interval, drain) = (config.reload_interval(), config.drain());
    reload::watch("configuration", processor.reloader(file, config, host, record), interval)?;
    let end = ended_by_signal();
    let handler = Arc::new(processor.admin(document, &readiness));
    let registry = Arc::new(registry);
    handler.watch(&registry);
    let port = AdminPort { registry, log_level, handler };
    server.serve(processor.routes(), Processor::NAME, port, &readiness, drain, end).await?;
    audit_log.flush(FLUSH).await;
    traces.flush(FLUSH).await;
    tracing::info!("ended");
    Ok(())
}

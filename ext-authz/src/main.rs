//! The command `glacis-ext-authz`.

use std::{io::Write as _, path::Path, process::ExitCode, sync::Arc};

use glacis_ext_authz::{
    Authorizer, Metrics,
    config::Config,
    hash_key,
    leases::{self, LeaseMetrics},
    new_key, quota,
    ratelimit::{self, Limits},
    reload::Reading,
};
use glacis_service::{
    Readiness, Server,
    admin::AdminPort,
    command::{Failure, Program, ended},
    ended_by_signal,
    reload::{self, Reloads},
    telemetry::{self, LogLevel},
};
use prometheus_client::registry::Registry;
use tokio::runtime;
use tonic::service::Routes;

const USAGE: &str = "\
usage: glacis-ext-authz --config FILE [--check]
       glacis-ext-authz hash-key [--pepper FILE]
       glacis-ext-authz new-key [--pepper FILE]
       glacis-ext-authz --version

  --config FILE  the configuration, see glacis-ext-authz.yaml
  --check        read the configuration, say what is wrong with it, and end
  hash-key       read an API key from standard input, and say its hash for the configuration
  new-key        make an API key, and say it with its hash
  --pepper FILE  the file of api_keys.pepper_file
  --version      say the version, and end
";

const PROGRAM: Program =
    Program { name: "glacis-ext-authz", version: env!("CARGO_PKG_VERSION"), usage: USAGE };

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["hash-key", pepper @ ..] if pepper_of(pepper).is_some() => {
            ended(hash_key(pepper_of(pepper).flatten(), std::io::stdin(), std::io::stdout()))
        }
        ["new-key", pepper @ ..] if pepper_of(pepper).is_some() => {
            ended(new_key(pepper_of(pepper).flatten(), std::io::stdout()))
        }
        arguments => PROGRAM.execute(arguments, run, check),
    }
}

/// The file behind `--pepper`, or none; `None` for other arguments.
fn pepper_of<'a>(arguments: &[&'a str]) -> Option<Option<&'a Path>> {
    match *arguments {
        [] => Some(None),
        ["--pepper", file] => Some(Some(Path::new(file))),
        _ => None,
    }
}

fn check(file: &Path) -> Result<(), Failure> {
    let Reading { config, .. } = Reading::first(file)?;
    for warning in
        ratelimit::read(config.rate_limit_service.as_ref())?.iter().flat_map(Limits::warnings)
    {
        writeln!(std::io::stdout(), "warning: {warning}")?;
    }
    writeln!(std::io::stdout(), "{}: good", file.display())?;
    Ok(())
}

fn run(file: &Path) -> Result<(), Failure> {
    let reading = Reading::first(file)?;
    let limits = ratelimit::read(reading.config.rate_limit_service.as_ref())?;
    let log_level = telemetry::init(reading.config.log_level.into());
    let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(file, reading, limits, log_level))
}

/// Adds what lends tokens, by both protocols.
fn add_lender(
    mut routes: Routes,
    config: &Config,
    authorizer: &Authorizer,
    registry: &mut Registry,
    readiness: &Readiness,
) -> Routes {
    let (leases, quota) = (&config.leases, &config.quota);
    if leases.limits.is_empty() && quota.limits.is_empty() {
        return routes;
    }
    let lent = LeaseMetrics::register(registry);
    if !leases.limits.is_empty() {
        routes = leases::add(routes, leases, authorizer.plain_store(), lent.clone());
    }
    if !quota.limits.is_empty() {
        routes = quota::add(routes, quota, authorizer.plain_store(), lent, registry, readiness);
    }
    routes
}

async fn serve(
    file: &Path,
    reading: Reading,
    limits: Option<Limits>,
    log_level: LogLevel,
) -> Result<(), Failure> {
    let Reading { config, policy, record } = reading;
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    policy.log();
    let mut server = Server::bind(&config.listen, &config.admin).await?;
    server.watch_certificates(config.reload_interval(), &metrics.service.tls)?;
    server.watch_tokens(config.reload_interval(), &metrics.service.tokens)?;
    let authorizer = Authorizer::new(&config, policy, metrics, &mut registry)?;
    let lists = authorizer.serve_lists(&config).await?;
    tracing::info!(
        tcp = server.tcp_address().map(tracing::field::display),
        unix = config
            .listen
            .unix
            .as_ref()
            .map(|socket| tracing::field::display(socket.path.display())),
        admin = server.admin_address().map(tracing::field::display),
        probes = server.probe_address().map(tracing::field::display),
        lists = lists.map(tracing::field::display),
        "serving"
    );
    let readiness = Readiness::new();
    authorizer.look_after(&config, &readiness);
    let (interval, drain) = (config.reload_interval(), config.drain());
    let mut routes = authorizer.clone().routes();
    let mut limits_reloads = None;
    if let Some(limits) = limits {
        let reloads = limits_reloads.insert(Reloads::default()).clone();
        let store = authorizer.store();
        routes = ratelimit::add(routes, limits, store, &mut registry, reloads, interval)?;
    }
    routes = add_lender(routes, &config, &authorizer, &mut registry, &readiness);
    reload::watch("configuration", authorizer.reloader(file, config, record), interval)?;
    let end = ended_by_signal();
    let handler = Arc::new(authorizer.admin(&readiness, limits_reloads));
    let port = AdminPort { registry: Arc::new(registry), log_level, handler };
    server.serve(routes, Authorizer::NAME, port, &readiness, drain, end).await?;
    tracing::info!("ended");
    Ok(())
}

//! The checks alone in a real Envoy, as the wasm-filter or as a filter of the native module: no processor, only the filter
//! before the sample upstream.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::Value;

use crate::envoy::{self, Envoy};
use crate::failure::{Outcome, io};
use crate::http::{self, Request, Response};
use crate::log::Folder;
use crate::{ports, settings, upstream};

/// What makes the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// The wasm-filter.
    #[default]
    Wasm,
    /// A filter of the native module whose `filter_name` is `checks`.
    Native,
}

/// Something that both hosts count, each under its own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Requests that were denied.
    Denied,
    /// Requests that would have been, in shadow mode.
    ShadowDenied,
    /// Requests that would have been limited, in shadow mode.
    ShadowLimited,
    /// Requests that wait for their bodies.
    PendingBodies,
    /// Bodies that were cut off.
    BodiesCut,
    /// Lists that could not be fetched.
    ListFailures,
    /// Entries of lists.
    ListEntries,
    /// Lists that are too old.
    ListsStale,
    /// Calls to lenders.
    LeaseCalls,
    /// Calls to lenders that have failed.
    LeaseFailures,
    /// Requests that were decided without a lender.
    LeaseAway,
}

/// An Envoy with the filter, on free ports; stopped when dropped.
#[derive(Debug)]
pub struct Filter {
    host: Host,
    /// Envoy.
    pub envoy: Envoy,
    /// Configuration and log.
    pub folder: Folder,
    proxy: u16,
}

/// What differs from one Envoy to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup<'a> {
    /// The plugin configuration, a JSON object.
    pub plugin: &'a str,
    /// HTTP filters before ours, as YAML: items of a list.
    pub before: &'a str,
    /// The port of the cluster `feed`; 0 is a cluster without endpoints.
    pub feed: u16,
}

impl Filter {
    /// What makes the checks.
    pub const fn host(&self) -> Host {
        self.host
    }

    /// Starts Envoy and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If something is missing or does not start.
    pub fn start(folder: &Path, setup: Setup<'_>) -> Outcome<Self> {
        Self::start_in(Host::Wasm, folder, setup, 0)
    }

    /// The same with a cluster `lender` on this port of 127.0.0.1, which speaks HTTP/2.
    ///
    /// # Errors
    ///
    /// As [`Filter::start`].
    pub fn start_leasing(folder: &Path, setup: Setup<'_>, lender: u16) -> Outcome<Self> {
        Self::start_in(Host::Wasm, folder, setup, lender)
    }

    /// The same in this host; the port 0 is no lender.
    ///
    /// # Errors
    ///
    /// As [`Filter::start`].
    pub fn start_in(host: Host, folder: &Path, setup: Setup<'_>, lender: u16) -> Outcome<Self> {
        Self::start_with(&settings::envoy()?, host, folder, setup, lender)
    }

    /// The same in an Envoy of another version.
    ///
    /// # Errors
    ///
    /// As [`Filter::start`].
    pub fn start_with(
        envoy: &Path,
        host: Host,
        folder: &Path,
        setup: Setup<'_>,
        lender: u16,
    ) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let [proxy, admin, upstream] = ports::free()?;
        upstream::spawn(upstream)?;
        let own = http_filter(host, setup.plugin)?;
        let config = stats_config()? + &config(&setup, [proxy, admin, upstream, lender], &own);
        let envoy = Envoy::start(envoy, &settings::root(), &config, admin, &folder)?;
        Ok(Self { host, envoy, folder, proxy })
    }

    /// Envoy's address for clients.
    pub fn proxy(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.proxy))
    }

    /// Sends one request as the client `from`.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn send(&self, from: Ipv4Addr, request: &Request) -> Outcome<Response> {
        http::send(Some(from), self.proxy(), request)
    }

    /// What the host has counted so far. The native module counts what is not of a request with the next request, so it
    /// gets one.
    ///
    /// # Errors
    ///
    /// If Envoy does not answer.
    pub fn counted(&self, what: Counted) -> Outcome<u64> {
        if self.host == Host::Native {
            http::send(None, self.proxy(), &Request::get("/counted"))?;
        }
        let own = match self.host {
            Host::Wasm => "wasmcustom.glacis_wasm_",
            Host::Native => "dynamicmodulescustom.glacis_check_",
        };
        let all = self.envoy.stats(own)?;
        let counts = all.iter().filter(|(name, _)| self.host.is_name_of(what, name));
        Ok(counts.map(|(_, count)| count).sum())
    }

    /// What the access log says so far of requests of this client under this name: `verdict`,
    /// `country` or `tags`. A moment may pass before a request is among them.
    ///
    /// # Errors
    ///
    /// If the admin port does not answer.
    pub fn logged(&self, client: Ipv4Addr, name: &str) -> Outcome<Vec<String>> {
        self.envoy.reopen_logs()?;
        let log = self.folder.read(envoy::LOG);
        let lines = log.lines().flat_map(serde_json::from_str::<Value>);
        let of_client = lines.filter(|line| line["client"] == client.to_string());
        Ok(of_client.map(|line| line[name].as_str().unwrap_or_default().to_owned()).collect())
    }
}

impl Host {
    /// Whether this is the name of a statistic that counts it.
    fn is_name_of(self, what: Counted, name: &str) -> bool {
        match self {
            Self::Wasm => name == format!("wasmcustom.glacis_wasm_{}", what.in_wasm()),
            Self::Native => {
                let own = name.strip_prefix("dynamicmodulescustom.glacis_check_");
                own.is_some_and(|name| what.is_native(name))
            }
        }
    }
}

impl Counted {
    const fn in_wasm(self) -> &'static str {
        match self {
            Self::Denied => "denied_total",
            Self::ShadowDenied => "shadow_denied_total",
            Self::ShadowLimited => "shadow_limited_total",
            Self::PendingBodies => "pending_bodies",
            Self::BodiesCut => "bodies_cut_total",
            Self::ListFailures => "list_failures_total",
            Self::ListEntries => "list_entries",
            Self::ListsStale => "lists_stale",
            Self::LeaseCalls => "lease_calls_total",
            Self::LeaseFailures => "lease_failures_total",
            Self::LeaseAway => "lease_away_total",
        }
    }

    fn is_native(self, name: &str) -> bool {
        match self {
            Self::Denied => name.contains(".verdict.denied."),
            Self::ShadowDenied => name.contains(".verdict.shadow_denied."),
            Self::ShadowLimited => name.contains(".verdict.shadow_limited."),
            Self::PendingBodies => name == "pending_bodies",
            Self::BodiesCut => name == "events.event.body_cut",
            Self::ListFailures => name == "events.event.list_failed",
            Self::ListEntries => name == "list_entries",
            Self::ListsStale => name == "lists_stale",
            Self::LeaseCalls => name == "events.event.lease_called",
            Self::LeaseFailures => name == "events.event.lease_failed",
            Self::LeaseAway => name == "events.event.lease_away",
        }
    }
}

/// The filter, as YAML. The configuration is the same in both hosts.
fn http_filter(host: Host, plugin: &str) -> Outcome<String> {
    let plugin = Value::from(plugin);
    Ok(match host {
        Host::Wasm => {
            let wasm = settings::wasm()?.display().to_string();
            format!(
                r#"          - name: envoy.filters.http.wasm
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: glacis
                root_id: glacis
                failure_policy: FAIL_RELOAD
                vm_config: {{runtime: envoy.wasm.runtime.v8, code: {{local: {{filename: "{wasm}"}}}}}}
                configuration:
                  "@type": type.googleapis.com/google.protobuf.StringValue
                  value: {plugin}"#
            )
        }
        Host::Native => {
            settings::envoy_module()?;
            format!(
                r#"          - name: checks
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
              dynamic_module_config: {{name: glacis}}
              filter_name: checks
              filter_config:
                "@type": type.googleapis.com/google.protobuf.StringValue
                value: {plugin}"#
            )
        }
    })
}

/// The beginning of a cluster for gRPC.
const HTTP2: &str = "{typed_extension_protocol_options: \
    {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {\"@type\": \
    type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, \
    explicit_http_config: {http2_protocol_options: {}}}}, ";

/// The tags of statistics, as the quickstart has them.
fn stats_config() -> Outcome<String> {
    let file = settings::root().join("envoy-configs/quickstart/envoy.yaml");
    let text = fs::read_to_string(&file).map_err(io("read", &file))?;
    let start = text.find("stats_config:").unwrap_or(text.len());
    let rest = text.get(start..).unwrap_or_default();
    Ok(format!("{}\n", rest.split("\n\n").next().unwrap_or_default()))
}

/// The configuration of Envoy: JSON is YAML, so that the plugin's needs no indentation.
fn config(setup: &Setup<'_>, [proxy, admin, upstream, lender]: [u16; 4], own: &str) -> String {
    let before = setup.before;
    let cluster = |name: &str, port: u16| {
        format!(
            "  - {{name: {name}, connect_timeout: 1s, type: STATIC, load_assignment: \
             {{cluster_name: {name}, endpoints: [{{lb_endpoints: [{{endpoint: {{address: \
             {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}}}]}}]}}}}\n"
        )
    };
    let mut clusters = cluster("upstream", upstream);
    match setup.feed {
        0 => clusters.push_str("  - {name: feed, connect_timeout: 1s, type: STATIC}\n"),
        port => clusters.push_str(&cluster("feed", port)),
    }
    if lender > 0 {
        clusters.push_str(&cluster("lender", lender).replacen('{', HTTP2, 1));
    }
    format!(
        r#"admin: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {admin}}}}}}}
static_resources:
  listeners:
  - name: filter
    address: {{socket_address: {{address: 127.0.0.1, port_value: {proxy}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: filter
          use_remote_address: true
          upgrade_configs: [{{upgrade_type: websocket}}]
          access_log:
          - name: envoy.access_loggers.stdout
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog
              log_format:
                json_format:
                  client: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"
                  verdict: "%FILTER_STATE(wasm.glacis.wasm:PLAIN)%"
                  country: "%FILTER_STATE(wasm.glacis.country:PLAIN)%"
                  tags: "%FILTER_STATE(wasm.glacis.tags:PLAIN)%"
                  guard: "%FILTER_STATE(wasm.glacis.guard:PLAIN)%"
                  details: "%RESPONSE_CODE_DETAILS%"
          http_filters:
{before}
{own}
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - {{name: open, match: {{prefix: /open/}}, route: {{cluster: upstream}}}}
              - {{name: closed, match: {{prefix: /}}, route: {{cluster: upstream}}}}
  clusters:
{clusters}"#
    )
}

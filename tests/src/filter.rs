//! The wasm-filter alone in a real Envoy: no processor, only the filter before the sample upstream.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use serde_json::Value;

use crate::envoy::{self, Envoy};
use crate::failure::{Outcome, io};
use crate::http::{self, Request, Response};
use crate::log::Folder;
use crate::{ports, settings, upstream};

/// An Envoy with the filter, on free ports; stopped when dropped.
#[derive(Debug)]
pub struct Filter {
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
    /// Starts Envoy and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If something is missing or does not start.
    pub fn start(folder: &Path, setup: Setup<'_>) -> Outcome<Self> {
        Self::start_leasing(folder, setup, 0)
    }

    /// The same with a cluster `lender` on this port of 127.0.0.1, which speaks HTTP/2.
    ///
    /// # Errors
    ///
    /// As [`Filter::start`].
    pub fn start_leasing(folder: &Path, setup: Setup<'_>, lender: u16) -> Outcome<Self> {
        let folder = Folder::new(folder)?;
        let [proxy, admin, upstream] = ports::free()?;
        upstream::spawn(upstream)?;
        let wasm = settings::wasm()?.display().to_string();
        let config = stats_config()? + &config(&setup, [proxy, admin, upstream, lender], &wasm);
        let envoy = Envoy::start(&settings::envoy()?, &settings::root(), &config, admin, &folder)?;
        Ok(Self { envoy, folder, proxy })
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
fn config(setup: &Setup<'_>, [proxy, admin, upstream, lender]: [u16; 4], wasm: &str) -> String {
    let plugin = Value::from(setup.plugin);
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
          http_filters:
{before}
          - name: envoy.filters.http.wasm
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
              config:
                name: glacis
                root_id: glacis
                failure_policy: FAIL_RELOAD
                vm_config: {{runtime: envoy.wasm.runtime.v8, code: {{local: {{filename: "{wasm}"}}}}}}
                configuration:
                  "@type": type.googleapis.com/google.protobuf.StringValue
                  value: {plugin}
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

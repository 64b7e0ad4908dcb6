//! Reads the facts for the checks: from admin ports and from Envoy's configuration files.

use std::path::Path;

use glacis_doctor::{Envoy, Finding, Metrics, Service, Settings};
use serde_json::Value;

use super::configuration::read;
use crate::{
    admin::Admin,
    arguments::DoctorOptions,
    output::{self, Fault},
};

/// One running service, and what it finds out about itself.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) service: Service,
    pub(super) findings: Vec<Finding>,
    configuration: Value,
}

impl Replica {
    /// Its configuration.
    pub(super) fn settings(&self) -> Option<Settings> {
        Some(Settings::new(self.configuration.as_object()?.clone(), None))
    }
}

/// The services at these addresses.
pub(super) fn replicas(addresses: &[String], token: Option<&Path>) -> Result<Vec<Replica>, Fault> {
    addresses.iter().map(|address| replica(address, token)).collect()
}

fn replica(address: &str, token: Option<&Path>) -> Result<Replica, Fault> {
    let admin = Admin::new(address, token).map_err(Fault::Input)?;
    let get = |path: &str| admin.get(path).map_err(|error| error.fault(address));
    let json = |path: &str| -> Result<Value, Fault> {
        serde_json::from_str(&get(path)?)
            .map_err(|error| Fault::Input(format!("{address}: {path}: {error}")))
    };
    let (status, doctor) = (json("/status")?, json("/doctor?now=true")?);
    let metrics = Metrics::read(&get("/metrics")?);
    let name = status.get("instance").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.unwrap_or(address).to_owned();
    let findings = doctor.get("findings").and_then(Value::as_array).into_iter().flatten();
    let findings = findings.filter_map(|value| {
        let read = Finding::of_json(value);
        if read.is_none() {
            let id = value.get("id").map(Value::to_string).unwrap_or_default();
            output::remark(format_args!(
                "{address}: the finding {id} is unknown to this version of glacis"
            ));
        }
        read
    });
    Ok(Replica {
        findings: findings.collect(),
        configuration: json("/config")?,
        service: Service { name, status, metrics: Some(metrics), rules_differ: false },
    })
}

/// Envoy's configuration, from files and from its admin port.
pub(super) fn envoy(options: &DoctorOptions) -> Result<Option<Envoy>, Fault> {
    let mut documents: Vec<Value> = Vec::new();
    for file in &options.envoy {
        let fault = |error: String| Fault::Input(format!("{}: {error}", file.display()));
        let text = read(file).map_err(|error| fault(error.to_string()))?;
        let read: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| fault(error.to_string()))?;
        documents.extend(read);
    }
    if let Some(address) = &options.envoy_admin {
        let admin = Admin::new(address, options.token_file.as_deref()).map_err(Fault::Input)?;
        let text = admin.get("/config_dump").map_err(|error| error.fault(address))?;
        let dump = serde_json::from_str(&text);
        documents.push(dump.map_err(|error| Fault::Input(format!("{address}: {error}")))?);
    }
    Ok((!documents.is_empty()).then(|| Envoy::new(documents)))
}

//! A release as Helm stores it, without a cluster: Helm's memory driver reads the release before, `--dry-run=client`
//! prints the one after, and a listener of ours answers what Helm asks of an API server in between.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::Helm;
use crate::cargo::{self, output};
use crate::failure::{self, Failure, Outcome};

/// Bytes of a request that are read; Helm's have no body.
const REQUEST_BYTES_MAX: usize = 16_384;

/// The parts of a specification that choose workloads, in all kinds of attachments.
const SELECTORS: [&str; 4] = ["workloadSelector:", "selector:", "targetRef:", "targetRefs:"];

/// One release, and the folder in which its commands run.
pub(super) struct Stored<'h> {
    helm: &'h Helm,
    server: SocketAddr,
    folder: PathBuf,
    release: Option<Value>,
}

impl<'h> Stored<'h> {
    pub(super) fn new(helm: &'h Helm) -> Outcome<Self> {
        let folder = std::env::temp_dir().join(format!("glacis-release-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(failure::io("create", &folder))?;
        Ok(Self { helm, server: api_server()?, folder, release: None })
    }

    pub(super) fn forget(&mut self) {
        self.release = None;
    }

    pub(super) const fn is_installed(&self) -> bool {
        self.release.is_some()
    }

    /// Writes the file of values number `index`, and returns its path.
    pub(super) fn values_file(&self, index: usize, text: &str) -> Outcome<String> {
        let path = self.folder.join(format!("values-{index}.yaml"));
        fs::write(&path, text).map_err(failure::io("write", &path))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Runs `helm upgrade` with these arguments, and stores the release that it makes.
    pub(super) fn upgrade(&mut self, arguments: &[String]) -> Outcome<()> {
        let before = self.folder.join("release.yaml");
        let releases = Value::Array(self.release.iter().cloned().collect());
        fs::write(&before, releases.to_string()).map_err(failure::io("write", &before))?;
        let mut helm = Command::new(&self.helm.program);
        helm.args(["upgrade", "glacis"]).arg(&self.helm.chart).args(arguments);
        helm.args(["--namespace", "glacis", "--dry-run=client", "--output", "json"]);
        helm.arg("--kube-apiserver").arg(format!("http://{}", self.server));
        helm.env("HELM_DRIVER", "memory").env("HELM_MEMORY_DRIVER_DATA", &before);
        helm.env("KUBECONFIG", self.folder.join("none")).current_dir(cargo::root());
        let printed = output(&mut helm)?;
        let mut release: Value = serde_json::from_str(&printed)
            .map_err(|error| Failure::new(format!("helm printed no release: {error}")))?;
        release["info"]["status"] = Value::from("deployed");
        self.release = Some(release);
        Ok(())
    }

    /// What Helm prints when the release is made.
    pub(super) fn notes(&self) -> &str {
        let notes = self.release.as_ref().and_then(|release| release["info"]["notes"].as_str());
        notes.unwrap_or_default()
    }

    /// The facts about the release that an operator must know of before a command changes them.
    pub(super) fn facts(&self) -> BTreeSet<String> {
        let manifest = self.release.as_ref().and_then(|release| release["manifest"].as_str());
        facts(manifest.unwrap_or_default())
    }
}

impl Drop for Stored<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Which workloads are attached and how, which profiles block, and which images run.
fn facts(manifest: &str) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for object in manifest.split("\n---\n") {
        let lines: Vec<&str> = object.lines().collect();
        let field = |start: &str| lines.iter().find_map(|line| line.strip_prefix(start));
        let kind = field("kind: ").unwrap_or_default();
        let of = |start: &str| field(start).unwrap_or("?").trim();
        let images = lines.iter().filter_map(|line| line.trim().strip_prefix("image: "));
        facts.extend(images.map(|image| format!("image {image}")));
        facts.extend(modes(&lines));
        let group = field("apiVersion: ").unwrap_or_default();
        if !["istio.io/", "gateway.envoyproxy.io/"].iter().any(|part| group.contains(part)) {
            continue;
        }
        let name = format!("{kind} {}/{}", of("  namespace: "), of("  name: "));
        let selected = selected(&lines).unwrap_or_else(|| "every workload".to_owned());
        facts.insert(format!("{name} selects {selected}"));
        let fails_open = ["failure_mode_allow: true", "failOpen: true"];
        if lines.iter().any(|line| fails_open.iter().any(|open| line.contains(open))) {
            facts.insert(format!("{name} fails open"));
        }
    }
    facts
}

/// What stands below the first key that chooses workloads.
fn selected(lines: &[&str]) -> Option<String> {
    let at = lines.iter().position(|line| {
        line.starts_with("  ") && SELECTORS.iter().any(|key| line.trim().starts_with(key))
    })?;
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (first, rest) = lines.get(at..)?.split_first()?;
    let below = rest
        .iter()
        .take_while(|line| indent(line) > indent(first) || line.trim_start().starts_with("- "));
    let words: Vec<&str> = std::iter::once(first).chain(below).map(|line| line.trim()).collect();
    Some(words.join(" "))
}

/// The modes in the configuration of ext-proc: that of the file, and those of profiles.
fn modes(lines: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let config = lines.iter().skip_while(|line| **line != "  ext-proc.yaml: |").skip(1);
    let (mut section, mut profile) = ("", "");
    for line in config.take_while(|line| line.is_empty() || line.starts_with("    ")) {
        let line = line.strip_prefix("    ").unwrap_or(line);
        if let Some(mode) = line.strip_prefix("mode: ") {
            found.push(format!("mode {mode}"));
        } else if !line.starts_with(' ') {
            section = line;
        } else if section == "profiles:" {
            let line = line.strip_prefix("  ").unwrap_or(line);
            if let Some(mode) = line.strip_prefix("  mode: ") {
                found.push(format!("mode {mode} of the profile {profile}"));
            } else if !line.starts_with(' ') {
                profile = line.trim_end_matches(':');
            }
        }
    }
    found
}

/// Starts a listener that answers Helm's questions about versions and kinds, as long as this process runs.
fn api_server() -> Outcome<SocketAddr> {
    let listen = || {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        Ok((listener.local_addr()?, listener))
    };
    let (address, listener) = listen()
        .map_err(|error: std::io::Error| Failure::new(format!("cannot listen: {error}")))?;
    thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            // A connection that breaks is Helm's to report.
            let _ = answer(stream);
        }
    });
    Ok(address)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut chunk)? {
            0 => break,
            read => request.extend(chunk.iter().take(read)),
        }
    }
    let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
    let path = line.split(' ').nth(1).unwrap_or_default();
    let body = match path.split('?').next().unwrap_or_default() {
        "/version" => r#"{"major":"1","minor":"33","gitVersion":"v1.33.0"}"#,
        "/api" => r#"{"kind":"APIVersions","versions":["v1"]}"#,
        "/apis" => r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#,
        _ => r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[]}"#,
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata:
  name: glacis-edge
  namespace: istio-system
spec:
  workloadSelector:
    labels:
      istio: ingressgateway
  configPatches:
    - failure_mode_allow: true
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyExtensionPolicy
metadata:
  name: glacis-shop
  namespace: shop
spec:
  mergeType: StrategicMerge
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: glacis-ext-proc
  namespace: glacis
data:
  ext-proc.yaml: |
    mode: detection
    profiles:
      api:
        mode: \"on\"
        paranoia: 2
    recent:
      mode: none
---
apiVersion: apps/v1
kind: Deployment
spec:
          image: r/glacis-ext-proc:1
";

    #[test]
    fn facts_of_a_manifest() {
        let expected = [
            "EnvoyExtensionPolicy shop/glacis-shop selects every workload",
            "EnvoyFilter istio-system/glacis-edge fails open",
            "EnvoyFilter istio-system/glacis-edge selects workloadSelector: labels: istio: ingressgateway",
            "image r/glacis-ext-proc:1",
            "mode \"on\" of the profile api",
            "mode detection",
        ];
        assert_eq!(facts(MANIFEST).into_iter().collect::<Vec<_>>(), expected);
    }
}

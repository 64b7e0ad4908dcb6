//! What the programs of `tests` are told: where Envoy, the rules and what was built are.

use std::path::PathBuf;

use crate::cargo::{self, Artifacts};
use crate::fetch::Fetched;

/// How the end-to-end tests, `up` and `ftw --envoy` learn where things are. What has not been built has
/// no setting.
pub(crate) fn settings(
    fetched: &Fetched,
    wasm: Option<PathBuf>,
    artifacts: &Artifacts,
) -> Vec<(&'static str, PathBuf)> {
    let mut settings = vec![
        ("GLACIS_ROOT", cargo::root()),
        ("GLACIS_ENVOY", fetched.envoy.clone()),
        ("GLACIS_CRS_DIR", fetched.crs.clone()),
    ];
    settings.extend(wasm.map(|wasm| ("GLACIS_WASM", wasm)));
    let module = artifacts.modules.last();
    settings.extend(module.map(|module| ("GLACIS_ENVOY_MODULE", module.clone())));
    let binaries = [
        ("GLACIS_EXT_PROC", "glacis-ext-proc"),
        ("GLACIS_EXT_AUTHZ", "glacis-ext-authz"),
        ("GLACIS_CLI", "glacis"),
        ("GLACIS_EMPTY_EXT_PROC", "empty-ext-proc"),
        ("GLACIS_SAMPLE_UPSTREAM", "sample-upstream"),
    ];
    settings.extend(
        binaries
            .into_iter()
            .filter_map(|(name, binary)| Some((name, artifacts.binaries.get(binary)?.clone()))),
    );
    settings
}

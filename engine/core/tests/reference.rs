//! The manual page is made from the engine's tables. `UPDATE_EXPECT=1 cargo test` renews it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests read their data and may fail loudly"
)]

use std::{fs, path::Path};

#[test]
fn the_manual_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/seclang.md");
    let expected = glacis_engine::reference();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &expected).unwrap();
    }
    let seen = fs::read_to_string(&path).unwrap_or_default();
    assert!(seen == expected, "docs/reference/seclang.md is stale: run with UPDATE_EXPECT=1");
}

//! Prints the JSON Schema of the configuration. `cargo xtask charts --write` runs it.

use std::io::{Write as _, stdout};

use glacis::config::Config;
use glacis_service::schema::json_schema;

fn main() -> std::io::Result<()> {
    let schema = json_schema::<Config>().map_err(std::io::Error::other)?;
    writeln!(stdout(), "{schema}")
}

//! The commands `hash-key` and `new-key`: hashes of API keys, for the configuration.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
};

use glacis_service::command::Failure;

use crate::api_key::{self, KEY_BYTES_MAX, KeyHash};

/// Bytes that are read of a key.
const INPUT_BYTES_MAX: u64 = 4_096;

/// Reads a key from `input`, up to the end of its line, and writes its hash.
///
/// # Errors
/// When the pepper cannot be read, when there is no key, or when it is longer than keys may be.
pub fn hash_key(
    pepper: Option<&Path>,
    input: impl Read,
    mut output: impl Write,
) -> Result<(), Failure> {
    let mut text = String::new();
    input.take(INPUT_BYTES_MAX).read_to_string(&mut text)?;
    let key = text.lines().next().unwrap_or_default().trim();
    if key.is_empty() {
        return Err("there is no key: write it to standard input".into());
    }
    if key.len() > KEY_BYTES_MAX {
        let message = format!("it would be nobody's key: write at most {KEY_BYTES_MAX} bytes");
        return Err(message.into());
    }
    writeln!(output, "{}", hash(pepper)?.text(key.as_bytes()))?;
    Ok(())
}

/// Makes a key, and writes it with its hash.
///
/// # Errors
/// When the pepper cannot be read, or there are no random numbers.
pub fn new_key(pepper: Option<&Path>, mut output: impl Write) -> Result<(), Failure> {
    let key = api_key::new_key()?;
    writeln!(output, "key: {key}\nhash: {}", hash(pepper)?.text(key.as_bytes()))?;
    Ok(())
}

fn hash(pepper: Option<&Path>) -> Result<KeyHash, Failure> {
    let Some(path) = pepper else { return Ok(KeyHash::new(None)) };
    let pepper = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(KeyHash::new(Some(pepper.trim_ascii())))
}

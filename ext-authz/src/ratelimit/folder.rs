//! The folder of configuration files.

use core::hash::{Hash as _, Hasher as _};
use std::{
    fs,
    hash::DefaultHasher,
    io,
    path::{Path, PathBuf},
};

use glacis_service::config::{ConfigError, load};

use super::{
    compile::{Bounds, Compiler},
    rules::Rules,
};

/// What a folder says.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) rules: Rules,
    /// What in it has no effect.
    pub(crate) warnings: Vec<String>,
}

/// Reads all files of `folder` that end in `.yaml` or `.yml`, in the order of their names. Hidden files are
/// left out: Kubernetes keeps its own in a mounted ConfigMap.
///
/// # Errors
/// What is wrong with the folder or the first file that is not good.
pub(crate) fn read(
    folder: &Path,
    merge_domains: bool,
    bounds: Bounds,
) -> Result<Reading, ConfigError> {
    let refuse = |message: &str| ConfigError::at(folder, "rate_limit_service.config", message);
    let files = files(folder).map_err(|error| {
        refuse(&format!("{error}: write the folder with the YAML files of envoyproxy/ratelimit"))
    })?;
    if files.is_empty() {
        return Err(refuse("there is no .yaml file in this folder: put one there"));
    }
    if files.len() > bounds.files_max {
        return Err(refuse(&format!("too many files: at most {}", bounds.files_max)));
    }
    let mut compiler = Compiler::new(bounds, merge_domains);
    for file in &files {
        compiler.add(file, &load(file)?)?;
    }
    let (rules, warnings) = compiler.finish();
    Ok(Reading { rules, warnings })
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden =
            path.file_name().is_none_or(|name| name.as_encoded_bytes().first() == Some(&b'.'));
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        // A link counts as what it leads to.
        if !is_hidden && is_yaml && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A number that stands for what is in the folder now.
pub(crate) fn fingerprint(folder: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    match files(folder) {
        Err(error) => error.to_string().hash(&mut hasher),
        Ok(files) => {
            for file in files {
                file.hash(&mut hasher);
                fs::read(&file).map_err(|error| error.to_string()).hash(&mut hasher);
            }
        }
    }
    hasher.finish()
}

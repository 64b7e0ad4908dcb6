//! Plain downloads of release archives, by curl or wget: the first way, which needs neither Go nor Python. What is
//! downloaded is compared with the same pins as what the clients of registries bring.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo::{find_on_path, output};
use crate::failure::{self, Failure, Outcome};

/// Where projects publish their releases; `GLACIS_DOWNLOADS` names a mirror of it with the same paths.
const RELEASES: &str = "https://github.com";

/// Seconds until a connection has to stand, and for a whole download.
const CONNECT_SECONDS: &str = "10";
const DOWNLOAD_SECONDS: &str = "900";

/// Whether this machine has the programs.
pub(crate) fn is_possible() -> bool {
    downloader().is_some() && find_on_path("tar").is_some()
}

fn downloader() -> Option<&'static str> {
    ["curl", "wget"].into_iter().find(|program| find_on_path(program).is_some())
}

/// Downloads the archive at `path` of the releases and unpacks it into `folder`, without the folder at its top.
pub(crate) fn unpack(path: &str, folder: &Path) -> Outcome<()> {
    let mirror = std::env::var("GLACIS_DOWNLOADS").ok().filter(|mirror| !mirror.is_empty());
    let base = mirror.as_deref().unwrap_or(RELEASES).trim_end_matches('/');
    let url = format!("{base}/{path}");
    fs::create_dir_all(folder).map_err(failure::io("create", folder))?;
    let archive = folder.with_extension("archive");
    let program = downloader().ok_or_else(|| Failure::new("there is neither curl nor wget"))?;
    output(&mut download(program, &url, archive.as_os_str()))?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).args(["--strip-components", "1", "--no-same-owner", "-C"]);
    output(tar.arg(folder))?;
    fs::remove_file(&archive).map_err(failure::io("remove", &archive))
}

fn download(program: &str, url: &str, archive: &OsStr) -> Command {
    let mut command = Command::new(program);
    if program == "curl" {
        command.args(["--fail", "--silent", "--show-error", "--location"]);
        command.args(["--proto", "=https,file", "--proto-redir", "=https"]);
        command.args(["--connect-timeout", CONNECT_SECONDS, "--max-time", DOWNLOAD_SECONDS]);
        command.arg("--output");
    } else {
        command.args(["--quiet", "--https-only", "--tries", "1"]);
        command.args(["--timeout", CONNECT_SECONDS, "--output-document"]);
    }
    command.arg(archive).arg(url);
    command
}

/// Does the first way, and the second where the first is impossible or fails; says why.
pub(crate) fn or_else<T>(
    first: impl FnOnce() -> Outcome<T>,
    second_is_possible: bool,
    second: impl FnOnce() -> Outcome<T>,
) -> Outcome<T> {
    if !is_possible() {
        return second();
    }
    first().or_else(|failure| {
        let reason = failure.to_string();
        if !second_is_possible {
            return Err(failure);
        }
        let reason = reason.lines().last().unwrap_or_default();
        print!("no plain download ({reason}), by the registry … ");
        second().map_err(|other| Failure::new(format!("{other}\nand the plain download: {reason}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_encrypted() {
        for program in ["curl", "wget"] {
            let command = download(program, "https://a.example/b", OsStr::new("c"));
            let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            let is_encrypted =
                ["=https", "--https-only"].iter().any(|word| arguments.iter().any(|is| is == word));
            assert!(
                is_encrypted && arguments.ends_with(&["c".into(), "https://a.example/b".into()])
            );
        }
    }
}

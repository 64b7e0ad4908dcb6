//! `glacis completions` and `glacis man`: made from the description of the command line.

use std::{fs, path::Path};

use crate::{
    arguments::{self, CompletionsOptions, ManOptions},
    output::{self, Fault, Outcome},
};

/// Prints the script for a shell.
pub(crate) fn completions(options: &CompletionsOptions) -> Result<Outcome, Fault> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut arguments::description(), "glacis", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Prints one page, or writes all of them.
pub(crate) fn pages(options: &ManOptions) -> Result<Outcome, Fault> {
    let mut whole = arguments::description();
    whole.build();
    if let Some(folder) = &options.dir {
        return write_all(&whole, folder);
    }
    let Some(name) = &options.command else { return output::print(&page(&whole)?) };
    match whole.find_subcommand(name) {
        Some(command) => output::print(&page(command)?),
        None => Err(Fault::Input(format!("there is no command {name}"))),
    }
}

fn page(command: &clap::Command) -> Result<String, Fault> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn write_all(whole: &clap::Command, folder: &Path) -> Result<Outcome, Fault> {
    let fault = |error: std::io::Error| Fault::Input(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(fault)?;
    fs::write(folder.join("glacis.1"), page(whole)?).map_err(fault)?;
    for command in whole.get_subcommands() {
        let name = format!("glacis-{}.1", command.get_name());
        fs::write(folder.join(&name), page(command)?).map_err(fault)?;
    }
    Ok(Outcome::Clean)
}

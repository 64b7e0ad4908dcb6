//! `reload-under-load [--module] [COUNT]`: so many reloads of ext-proc, or of the native module, while clients send
//! requests through a real Envoy; 100 by default. `cargo xtask reload` runs it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on its standard streams"
)]

use std::process::ExitCode;

use glacis_tests::failure::{Outcome, doing, exit};
use glacis_tests::native;
use glacis_tests::reload::{NATIVE_KEYS, PATIENT, PATIENT_KEYS, under_load};
use glacis_tests::stack::{Ports, Processor, Stack};

fn main() -> ExitCode {
    exit("reload-under-load", run().map(|()| true))
}

fn run() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_module = arguments.next_if(|argument| argument == "--module").is_some();
    let count = match arguments.next() {
        Some(count) => count.parse().map_err(doing("read the number of reloads"))?,
        None => 100,
    };
    let folder = std::env::temp_dir().join(format!("glacis-reload-{}", std::process::id()));
    let ports = Ports::free()?;
    let with = Processor::ExtProcWith(PATIENT_KEYS);
    let mut stack = match is_module {
        true => native::start_with_file(&folder, ports, &NATIVE_KEYS)?,
        false => Stack::start(&folder, ports, with, PATIENT)?,
    };
    let tally =
        under_load(&mut stack, count).inspect_err(|_| eprintln!("{}", stack.folder.story()))?;
    stack.stop();
    std::fs::remove_dir_all(&folder).map_err(doing("remove the logs"))?;
    println!("{}", tally.words());
    Ok(())
}

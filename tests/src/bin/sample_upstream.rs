//! The sample upstream as a program of its own: `sample-upstream [ADDRESS]`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on its standard streams"
)]

use std::process::ExitCode;

use glacis_tests::upstream;
use tokio::net::TcpListener;

/// Where Envoy's configuration expects it.
const ADDRESS: &str = "127.0.0.1:8080";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| ADDRESS.to_owned());
    match TcpListener::bind(&address).await {
        Ok(listener) => {
            println!("sample upstream on http://{address}");
            upstream::serve(listener).await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("sample-upstream: cannot listen on {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

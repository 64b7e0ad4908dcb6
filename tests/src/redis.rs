//! A command for a Redis on loopback, in its own protocol.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::failure::{Failure, Outcome, doing};

/// Sends a command as one line, and returns the answer as it came.
///
/// # Errors
///
/// If nobody answers, or the answer is an error.
pub fn command(port: u16, line: &str) -> Outcome<String> {
    let connect = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let mut stream = connect.map_err(doing("connect to Redis"))?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(doing("set a timeout"))?;
    stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).map_err(doing("ask Redis"))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(doing("hear Redis"))?;
    match answer.starts_with('-') {
        true => Err(Failure::new(format!("Redis: {line}: {answer}"))),
        false => Ok(answer),
    }
}

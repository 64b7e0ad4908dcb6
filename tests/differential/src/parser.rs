//! A real parser as another process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::case::{Case, Kind, Place};
use crate::failure::{Failure, Outcome, io};

/// A parser that there is a program for.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// The name on the command line; the argument of its program.
    pub name: &'static str,
    /// The folder of its program, below `tests/differential/parsers`.
    pub program: &'static str,
    /// What it reads.
    pub kinds: &'static [Kind],
}

use Kind::{Cookie, Form, Json, Multipart, Query, Xml};

/// What a web framework reads.
const ALL: &[Kind] = &[Query, Form, Multipart, Json, Cookie];

/// Every parser.
pub const PARSERS: &[Parser] = &[
    Parser { name: "werkzeug", program: "python", kinds: ALL },
    Parser { name: "django", program: "python", kinds: ALL },
    Parser { name: "starlette", program: "python", kinds: ALL },
    Parser { name: "tornado", program: "python", kinds: &[Query, Form, Multipart, Cookie] },
    Parser { name: "aiohttp", program: "python", kinds: ALL },
    Parser { name: "lxml", program: "python", kinds: &[Xml] },
    Parser { name: "expat", program: "python", kinds: &[Xml] },
    Parser { name: "express", program: "node", kinds: &[Query, Form, Json, Cookie] },
    Parser { name: "busboy", program: "node", kinds: &[Form, Multipart] },
    Parser { name: "formidable", program: "node", kinds: &[Form, Multipart, Json] },
    Parser { name: "undici", program: "node", kinds: &[Form, Multipart] },
    Parser { name: "fast-xml-parser", program: "node", kinds: &[Xml] },
    Parser { name: "net-http", program: "go", kinds: &[Query, Form, Multipart, Json, Xml, Cookie] },
    Parser { name: "gin", program: "go", kinds: &[Query, Form, Multipart, Json, Xml, Cookie] },
    Parser { name: "fiber", program: "go", kinds: &[Query, Form, Multipart, Json, Cookie] },
    Parser { name: "axum", program: "rust", kinds: ALL },
    Parser { name: "php", program: "php", kinds: ALL },
    Parser { name: "tomcat", program: "java", kinds: &[Query, Form, Multipart, Cookie] },
];

/// A parser's process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    name: String,
}

impl Process {
    /// Starts the program that `command` names, with the parser's name as its last argument.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(command: &[String], name: &str) -> Outcome<Self> {
        let (program, arguments) =
            command.split_first().ok_or_else(|| Failure::new("the parser has no program"))?;
        let mut child = Command::new(program)
            .args(arguments)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io("start a parser"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| Failure::new("a parser has no output"))?;
        Ok(Self { child, input, output: BufReader::new(output), name: name.to_owned() })
    }

    /// Has the parser read cases; returns for each what it found.
    ///
    /// # Errors
    /// If the parser ends, or answers with what is no list.
    pub fn parse(&mut self, cases: &[Case]) -> Outcome<Vec<Found>> {
        let mut frames = Vec::new();
        cases.iter().for_each(|case| case.write_frame(&mut frames));
        let Self { input, output, name, .. } = self;
        let input = input.as_mut().ok_or_else(|| Failure::new("a parser has no input"))?;
        thread::scope(|scope| {
            // On a thread, since a parser that cannot write stops reading.
            let writer = scope.spawn(|| input.write_all(&frames).and_then(|()| input.flush()));
            let mut all = Vec::with_capacity(cases.len());
            let mut line = Vec::new();
            for _ in cases {
                line.clear();
                output.read_until(b'\n', &mut line).map_err(io("read from a parser"))?;
                let found = Found::read(&line);
                all.push(found.ok_or_else(|| {
                    Failure::new(format!(
                        "{name} ended, or wrote no list, after {} of {} cases: {}",
                        all.len(),
                        cases.len(),
                        String::from_utf8_lossy(&line)
                    ))
                })?);
            }
            let written =
                writer.join().map_err(|_| Failure::new("the writer of a parser failed"))?;
            written.map_err(io("write to a parser"))?;
            Ok(all)
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its input ends, and with it the program; what does not end is ended.
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names and values that a parser found in a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found(pub Vec<(String, String, String)>);

impl Found {
    /// A line of a parser: a list of places, names and values.
    #[must_use]
    pub fn read(line: &[u8]) -> Option<Self> {
        let Value::Array(items) = serde_json::from_slice(line).ok()? else { return None };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(ToOwned::to_owned);
        let items = items.iter().map(|item| {
            let item = item.as_array()?;
            Some((text(item.first())?, text(item.get(1))?, text(item.get(2))?))
        });
        items.collect::<Option<Vec<_>>>().map(Self)
    }

    /// Where the mark is among them; values first.
    #[must_use]
    pub fn place_of(&self, mark: &str) -> Option<Place> {
        let has_mark = |(_, name, value): &&(String, String, String)| {
            name.contains(mark) || value.contains(mark)
        };
        let mut places = self.0.iter().filter(has_mark).map(|(place, _, _)| place == "file");
        let first = places.next()?;
        let is_file = first && places.all(|is_file| is_file);
        Some(if is_file { Place::File } else { Place::Value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let found = |line: &str| Found::read(line.as_bytes()).and_then(|found| found.place_of("m"));
        assert_eq!(found(r#"[["arg","a","xmx"]]"#), Some(Place::Value));
        assert_eq!(found(r#"[["file","m",""]]"#), Some(Place::File));
        assert_eq!(found(r#"[["file","m",""],["cookie","m",""]]"#), Some(Place::Value));
        assert_eq!(found(r#"[["arg","a","x"]]"#), None);
        assert_eq!(Found::read(b"{}"), None);
        assert_eq!(Found::read(b""), None);
    }
}

//! A law of the compiler. The input is a ruleset: its text, and files that it can include or read behind
//! lines `=== NAME`.

use std::sync::Arc;

use glacis_engine::{Input, Limits, Program, Source, SourceError, SourceFile};

use crate::message::{Message, fresh};

/// A request that has something for most variables.
const REQUEST: &[u8] =
    b"POST /a/b.php?x=1&y=%3Cscript%3E HTTP/1.1\nHost: example.com\nCookie: c=d\n\
Content-Type: application/x-www-form-urlencoded\n\nz=union+select&a=aaaaaaaaaaaaaaaaaaaaaaaab\n\
=== response\nHTTP/1.1 200\nContent-Type: text/html\n\n<p>error</p>";

/// Any text is a program or refused with a reason; a program runs, and its fast path changes nothing.
pub fn compile(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (rules, files) = text.split_once("\n=== ").unwrap_or((&text, ""));
    let files = Files(files);
    let inputs = [Input::Text { name: "rules.conf".to_owned(), text: rules.to_owned() }];
    let build = || Program::build(&inputs, &files, limits());
    let program = match build() {
        Ok(program) => program,
        Err(errors) => {
            assert!(!errors.to_string().is_empty());
            return;
        }
    };
    let request = Message::parse(REQUEST);
    let slow = fresh(&Arc::new(build().expect("the same rules").without_gates()));
    let seen = [fresh(&Arc::new(program)), slow].map(|mut transaction| {
        // The second request meets what the first has left.
        let first = request.outcome(&mut transaction, &[]);
        (first, request.outcome(&mut transaction, &[1]))
    });
    assert_eq!(seen[0], seen[1], "with gates, and without");
}

/// Fewer steps than usual: a text full of patterns that explode shall not take all the time.
fn limits() -> Limits {
    Limits { backtrack_steps_max: 1_000, ..Limits::default() }
}

/// Files that stand in the input.
struct Files<'t>(&'t str);

impl Files<'_> {
    fn find(&self, path: &str) -> Option<&str> {
        let files = self.0.split("\n=== ");
        files
            .filter_map(|file| file.split_once('\n'))
            .find_map(|(name, text)| (name == path).then_some(text))
    }
}

impl Source for Files<'_> {
    fn read(&self, path: &str, _from: &str) -> Result<SourceFile, SourceError> {
        let text = self.find(path).ok_or_else(|| SourceError::new(format!("{path}: no file")))?;
        Ok(SourceFile { name: path.to_owned(), bytes: text.as_bytes().to_vec() })
    }

    fn list(&self, pattern: &str, _from: &str) -> Result<Vec<String>, SourceError> {
        Ok(self.find(pattern).map(|_| pattern.to_owned()).into_iter().collect())
    }
}

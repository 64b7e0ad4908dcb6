//! A command as it is pasted from a shell, or from a browser's "copy as cURL".

/// Cuts a command into words, by the rules of a POSIX shell for quotes and backslashes, and `$'…'`. Nothing is expanded.
///
/// # Errors
/// When a quote is not closed, or something would have to be expanded.
pub(super) fn words(command: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut rest = command.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => words.extend(word.take()),
            b'\'' => {
                let open = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some(b'\'') => break,
                        Some(byte) => open.push(byte),
                        None => return Err("curl: a quote ' is not closed".to_owned()),
                    }
                }
            }
            b'"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            b'$' if rest.peek() == Some(&b'\'') => {
                rest.next();
                ansi_quoted(&mut rest, word.get_or_insert_default())?;
            }
            b'\\' => match rest.next() {
                // The end of a line that goes on.
                Some(b'\n') | None => {}
                Some(b'\r') if rest.peek() == Some(&b'\n') => {
                    rest.next();
                }
                Some(byte) => word.get_or_insert_default().push(byte),
            },
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

type Rest<I> = std::iter::Peekable<I>;

fn double_quoted<I: Iterator<Item = u8>>(
    rest: &mut Rest<I>,
    word: &mut Vec<u8>,
) -> Result<(), String> {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return Ok(()),
            b'\\' => match rest.next() {
                Some(b'\n') => {}
                Some(byte @ (b'"' | b'\\' | b'$' | b'`')) => word.push(byte),
                Some(byte) => word.extend([b'\\', byte]),
                None => break,
            },
            byte => word.push(byte),
        }
    }
    Err("curl: a quote \" is not closed".to_owned())
}

/// `$'…'`, which browsers write where a body has line ends or quotes.
fn ansi_quoted<I: Iterator<Item = u8>>(
    rest: &mut Rest<I>,
    word: &mut Vec<u8>,
) -> Result<(), String> {
    let hex = |rest: &mut Rest<I>, digits: usize| {
        let mut number = 0_u32;
        for _ in 0..digits {
            let digit = rest.peek().and_then(|byte| char::from(*byte).to_digit(16));
            let Some(digit) = digit else { break };
            rest.next();
            number = number * 16 + digit;
        }
        number
    };
    while let Some(byte) = rest.next() {
        match byte {
            b'\'' => return Ok(()),
            b'\\' => match rest.next() {
                Some(b'n') => word.push(b'\n'),
                Some(b'r') => word.push(b'\r'),
                Some(b't') => word.push(b'\t'),
                Some(b'x') => word.extend(u8::try_from(hex(rest, 2)).ok()),
                Some(b'u') => {
                    let character =
                        char::from_u32(hex(rest, 4)).unwrap_or(char::REPLACEMENT_CHARACTER);
                    word.extend(character.to_string().into_bytes());
                }
                Some(byte) => word.push(byte),
                None => break,
            },
            byte => word.push(byte),
        }
    }
    Err("curl: a quote $' is not closed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn commands_are_cut_as_a_shell_cuts_them() {
        for (command, expected) in [
            ("curl a  b", vec!["curl", "a", "b"]),
            ("curl 'a b'\"c\\\"d\\x\"e", vec!["curl", "a bc\"d\\xe"]),
            ("curl \\\n  -d $'a\\'\\n\\x41\\u00e9' ''", vec!["curl", "-d", "a'\nAé", ""]),
            ("curl a\\ b", vec!["curl", "a b"]),
        ] {
            let found = words(command.as_bytes()).unwrap();
            let found: Vec<&str> = found.iter().map(|word| str::from_utf8(word).unwrap()).collect();
            assert_eq!(found, expected, "{command}");
        }
        for open in ["curl 'a", "curl \"a", "curl $'a"] {
            assert!(words(open.as_bytes()).is_err(), "{open}");
        }
    }
}

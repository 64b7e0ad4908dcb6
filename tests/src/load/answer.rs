//! How far an answer has come.

/// What is known of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It is not whole.
    More,
    /// It is no HTTP.
    Bad,
    /// It is there.
    Done {
        status: u16,
        /// The connection is not to be used again.
        closes: bool,
    },
}

/// Looks at all that has come since the request was sent; `ended`: nothing more will.
pub(super) fn progress(input: &[u8], ended: bool) -> Progress {
    let Some(head) = find(input, b"\r\n\r\n") else { return Progress::More };
    let (head, body) =
        (input.get(..head).unwrap_or_default(), input.get(head + 4..).unwrap_or_default());
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status =
        lines.next().and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok());
    let Some(status) = status else { return Progress::Bad };
    let (mut length, mut chunked, mut closes) = (None, false, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok(),
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => closes = value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let whole = match (status, chunked, length) {
        (100..=199, ..) => return progress(body, ended),
        (204 | 304, ..) => true,
        (_, true, _) => return chunks(body, status, closes),
        (_, false, Some(length)) => body.len() >= length,
        (_, false, None) => ended,
    };
    if whole { Progress::Done { status, closes } } else { Progress::More }
}

/// A body in chunks; trailers are not expected.
fn chunks(mut body: &[u8], status: u16, closes: bool) -> Progress {
    while let Some(end) = find(body, b"\r\n") {
        let size = String::from_utf8_lossy(body.get(..end).unwrap_or_default());
        let size = size.split(';').next().unwrap_or_default().trim().to_owned();
        let Ok(size) = usize::from_str_radix(&size, 16) else { return Progress::Bad };
        let Some(rest) = body.get(end + 2..).filter(|rest| rest.len() >= size.saturating_add(2))
        else {
            return Progress::More;
        };
        if size == 0 {
            return Progress::Done { status, closes };
        }
        body = rest.get(size + 2..).unwrap_or_default();
    }
    Progress::More
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_all_of_it_is_there() {
        let done = |status, closes| Progress::Done { status, closes };
        for (input, ended, expected) in [
            ("", false, Progress::More),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no", false, Progress::More),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", false, done(200, false)),
            (
                "HTTP/1.1 403 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                false,
                done(403, true),
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                false,
                done(200, false),
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
                false,
                Progress::More,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
                false,
                Progress::More,
            ),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                false,
                done(200, false),
            ),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", false, Progress::Bad),
            ("HTTP/1.1 200 OK\r\n\r\nall of it", false, Progress::More),
            ("HTTP/1.1 200 OK\r\n\r\nall of it", true, done(200, false)),
            ("HTTP/1.1 304 Not Modified\r\n\r\n", false, done(304, false)),
            ("SSH-2.0-what\r\n\r\n", false, Progress::Bad),
        ] {
            assert_eq!(progress(input.as_bytes(), ended), expected, "{input:?} {ended}");
        }
    }
}

//! A curl command as the requests that it would send. Nothing is sent; files that it names for bodies are read.

mod body;

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    Parts,
    url::{Url, encoded, usual_headers},
};
use body::{Data, Part};

/// URLs of one command.
const URLS_MAX: usize = 1_000;

/// What a command sends, and what of it was ignored.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) requests: Vec<Parts>,
    pub(super) remarks: Vec<String>,
}

/// Options that change nothing in a request, without a value.
const IGNORED: &[&str] = &[
    "s",
    "S",
    "k",
    "L",
    "v",
    "i",
    "f",
    "g",
    "N",
    "n",
    "q",
    "#",
    "4",
    "6",
    "O",
    "J",
    "R",
    "a",
    "Z",
    "M",
    "V",
    "silent",
    "show-error",
    "insecure",
    "location",
    "location-trusted",
    "verbose",
    "include",
    "fail",
    "fail-with-body",
    "fail-early",
    "globoff",
    "no-buffer",
    "netrc",
    "disable",
    "progress-bar",
    "no-progress-meter",
    "ipv4",
    "ipv6",
    "remote-name",
    "remote-header-name",
    "remote-name-all",
    "remote-time",
    "parallel",
    "append",
    "create-dirs",
    "tlsv1",
    "tlsv1.0",
    "tlsv1.1",
    "tlsv1.2",
    "tlsv1.3",
    "ssl",
    "ssl-reqd",
    "no-keepalive",
    "keepalive",
    "tcp-nodelay",
    "tcp-fastopen",
    "no-alpn",
    "http2-prior-knowledge-tls",
    "raw",
    "tr-encoding",
    "post301",
    "post302",
    "post303",
    "junk-session-cookies",
    "anyauth",
    "basic",
    "proxy-insecure",
    "styled-output",
    "no-sessionid",
    "retry-all-errors",
    "retry-connrefused",
    "stderr-redirect",
    "trace-time",
    "xattr",
    "compressed-ssh",
];

/// Options that change nothing in a request, with a value.
const IGNORED_WITH_VALUE: &[&str] = &[
    "o",
    "w",
    "m",
    "x",
    "E",
    "c",
    "D",
    "K",
    "z",
    "Y",
    "y",
    "C",
    "U",
    "t",
    "P",
    "Q",
    "output",
    "output-dir",
    "write-out",
    "max-time",
    "connect-timeout",
    "retry",
    "retry-delay",
    "retry-max-time",
    "resolve",
    "connect-to",
    "cacert",
    "capath",
    "cert",
    "cert-type",
    "key",
    "key-type",
    "pass",
    "ciphers",
    "tls13-ciphers",
    "curves",
    "tls-max",
    "pinnedpubkey",
    "proxy",
    "proxy-user",
    "proxy-header",
    "preproxy",
    "socks5",
    "socks5-hostname",
    "noproxy",
    "interface",
    "local-port",
    "dns-servers",
    "doh-url",
    "cookie-jar",
    "dump-header",
    "config",
    "limit-rate",
    "max-redirs",
    "max-filesize",
    "keepalive-time",
    "time-cond",
    "trace",
    "trace-ascii",
    "stderr",
    "unix-socket",
    "abstract-unix-socket",
    "netrc-file",
    "speed-limit",
    "speed-time",
    "parallel-max",
    "expect100-timeout",
    "rate",
    "happy-eyeballs-timeout-ms",
    "proto",
    "proto-default",
    "proto-redir",
    "engine",
    "crlfile",
    "alt-svc",
    "hsts",
    "continue-at",
    "delegation",
    "service-name",
    "create-file-mode",
];

/// What the options say so far.
#[derive(Default)]
struct Command {
    urls: Vec<Vec<u8>>,
    method: Option<Vec<u8>>,
    protocol: Option<&'static str>,
    headers: Vec<Vec<u8>>,
    data: Vec<Data>,
    form: Vec<Part>,
    query: Vec<Vec<u8>>,
    cookies: Vec<Vec<u8>>,
    agent: Option<Vec<u8>>,
    referer: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    bearer: Option<Vec<u8>>,
    range: Option<Vec<u8>>,
    upload: Option<Vec<u8>>,
    get: bool,
    head: bool,
    json: bool,
    compressed: bool,
    as_is: bool,
    ignored: Vec<String>,
}

/// Reads a command; its first word is `curl` itself.
///
/// # Errors
/// An option that is not known, one that cannot be followed, no URL, or a file that cannot be read.
pub(super) fn requests(words: Vec<Vec<u8>>) -> Result<Read, String> {
    let mut words = words.into_iter().peekable();
    let is_curl = |word: &Vec<u8>| word.rsplit(|byte| *byte == b'/').next() == Some(b"curl");
    if words.next_if(is_curl).is_none() {
        return Err("the command after `--` begins with `curl`".to_owned());
    }
    let mut command = Command::default();
    let mut is_over = false;
    while let Some(word) = words.next() {
        match word.strip_prefix(b"-") {
            Some(b"-") if !is_over => is_over = true,
            Some(rest) if !is_over && !rest.is_empty() => match rest.strip_prefix(b"-") {
                Some(long) => command.long(&String::from_utf8_lossy(long), &mut words)?,
                None => command.short(rest, &mut words)?,
            },
            _ => command.urls.push(word),
        }
    }
    command.finish()
}

impl Command {
    fn long(&mut self, name: &str, words: &mut dyn Iterator<Item = Vec<u8>>) -> Result<(), String> {
        self.option(name, &format!("--{name}"), &mut || words.next())
    }

    /// Short options in one word; the rest of the word is the value of the first that takes one.
    fn short(
        &mut self,
        mut rest: &[u8],
        words: &mut dyn Iterator<Item = Vec<u8>>,
    ) -> Result<(), String> {
        while let Some((first, after)) = rest.split_first() {
            let name = char::from(*first).to_string();
            let mut is_taken = false;
            self.option(&name, &format!("-{name}"), &mut || {
                is_taken = true;
                if after.is_empty() { words.next() } else { Some(after.to_vec()) }
            })?;
            if is_taken {
                break;
            }
            rest = after;
        }
        Ok(())
    }

    fn option(
        &mut self,
        name: &str,
        shown: &str,
        value: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Result<(), String> {
        if IGNORED.contains(&name)
            || name.strip_prefix("no-").is_some_and(|name| IGNORED.contains(&name))
        {
            self.ignored.push(shown.to_owned());
            return Ok(());
        }
        let mut value = || value().ok_or_else(|| format!("{shown} needs a value"));
        if IGNORED_WITH_VALUE.contains(&name) {
            value()?;
            self.ignored.push(shown.to_owned());
            return Ok(());
        }
        match name {
            "X" | "request" => self.method = Some(value()?),
            "H" | "header" => self.headers.extend(body::headers(value()?)?),
            "d" | "data" | "data-ascii" => self.data.push(Data::text(&value()?)?),
            "data-raw" => self.data.push(Data(value()?)),
            "data-binary" => self.data.push(Data::binary(&value()?)?),
            "data-urlencode" => self.data.push(Data::encoded(&value()?)?),
            "json" => {
                self.json = true;
                // Pieces of JSON follow one another as they are.
                let next = Data::binary(&value()?)?;
                match self.data.last_mut() {
                    Some(Data(last)) => last.extend(next.0),
                    None => self.data.push(next),
                }
            }
            "F" | "form" => self.form.push(Part::parse(&value()?)?),
            "form-string" => self.form.push(Part::literal(&value()?)?),
            "url-query" => self.query.push(Data::query(&value()?)?.0),
            "G" | "get" => self.get = true,
            "I" | "head" => self.head = true,
            "b" | "cookie" => self.cookie(value()?),
            "A" | "user-agent" => self.agent = Some(value()?),
            "e" | "referer" => self.referer = Some(value()?),
            "u" | "user" => self.user = Some(value()?),
            "oauth2-bearer" => self.bearer = Some(value()?),
            "r" | "range" => self.range = Some(value()?),
            "T" | "upload-file" => self.upload = Some(body::file(&value()?)?),
            "url" => self.urls.push(value()?),
            "compressed" => self.compressed = true,
            "path-as-is" => self.as_is = true,
            "0" | "http1.0" => self.protocol = Some("HTTP/1.0"),
            "http1.1" => self.protocol = Some("HTTP/1.1"),
            "http2" | "http2-prior-knowledge" => self.protocol = Some("HTTP/2.0"),
            "http3" | "http3-only" => self.protocol = Some("HTTP/3.0"),
            ":" | "next" => return Err("--next: explain one command at a time".to_owned()),
            "digest" | "ntlm" | "negotiate" | "aws-sigv4" => {
                return Err(format!("{shown}: its header depends on the server; write it with -H"));
            }
            _ => return Err(format!("{shown}: no option of curl that is known here")),
        }
        Ok(())
    }

    /// Without `=` it names a file of cookies, which is not read.
    fn cookie(&mut self, value: Vec<u8>) {
        if value.contains(&b'=') {
            self.cookies.push(value);
        } else {
            self.ignored.push(format!("-b {}", String::from_utf8_lossy(&value)));
        }
    }

    fn finish(self) -> Result<Read, String> {
        if self.urls.is_empty() {
            return Err("no URL".to_owned());
        }
        if self.urls.len() > URLS_MAX {
            return Err(format!("more than {URLS_MAX} URLs"));
        }
        let requests: Result<_, String> = self.urls.iter().map(|url| self.request(url)).collect();
        let mut remarks = Vec::new();
        if !self.ignored.is_empty() {
            let list = self.ignored.join(" ");
            remarks.push(format!("options without effect on the request are ignored: {list}"));
        }
        if self.urls.iter().any(|url| url.iter().any(|byte| matches!(byte, b'{' | b'['))) {
            remarks.push("URLs with {} or [] are not expanded".to_owned());
        }
        Ok(Read { requests: requests?, remarks })
    }

    fn request(&self, url: &[u8]) -> Result<Parts, String> {
        let Url { user, host, mut target } = Url::parse(url, self.as_is)?;
        let data: Vec<&[u8]> = self.data.iter().map(|Data(data)| data.as_slice()).collect();
        let data = (!data.is_empty()).then(|| data.join(&b'&'));
        let mut query = self.query.clone();
        query.extend(data.clone().filter(|_| self.get));
        for piece in query {
            target.push(if target.contains(&b'?') { b'&' } else { b'?' });
            target.extend(piece);
        }
        let mut content_type = None;
        let mut body = None;
        if let Some(upload) = &self.upload {
            body = Some(upload.clone());
        } else if !self.form.is_empty() {
            content_type = Some(body::form_type());
            body = Some(body::form(&self.form));
        } else if let Some(data) = data.filter(|_| !self.get) {
            let of_data =
                if self.json { "application/json" } else { "application/x-www-form-urlencoded" };
            content_type = Some(of_data.as_bytes().to_vec());
            body = Some(data);
        }
        let method = match &self.method {
            Some(method) => method.clone(),
            None if self.head => b"HEAD".to_vec(),
            None if self.upload.is_some() => b"PUT".to_vec(),
            None if body.is_some() => b"POST".to_vec(),
            None => b"GET".to_vec(),
        };
        let mut headers = usual_headers(&host);
        let mut set = |name: &str, value: Option<Vec<u8>>| {
            let Some(value) = value else { return };
            headers.retain(|(other, _)| other != name);
            headers.push((name.to_owned(), value));
        };
        let user = self.user.clone().or_else(|| user.map(|user| percent_decoded(&user)));
        let basic = user.map(|mut user| {
            if !user.contains(&b':') {
                user.push(b':');
            }
            format!("Basic {}", STANDARD.encode(user)).into_bytes()
        });
        let bearer = self.bearer.as_ref().map(|token| [b"Bearer ", token.as_slice()].concat());
        set("Authorization", bearer.or(basic));
        set("User-Agent", self.agent.clone());
        set("Accept", self.json.then(|| b"application/json".to_vec()));
        set("Accept-Encoding", self.compressed.then(|| b"deflate, gzip, br, zstd".to_vec()));
        set(
            "Referer",
            self.referer.clone().map(|text| text.strip_suffix(b";auto").unwrap_or(&text).to_vec()),
        );
        set("Range", self.range.as_ref().map(|range| [b"bytes=", range.as_slice()].concat()));
        set("Cookie", (!self.cookies.is_empty()).then(|| self.cookies.join(&b"; "[..])));
        set("Content-Length", body.as_ref().map(|body| body.len().to_string().into_bytes()));
        set("Content-Type", content_type);
        // An empty user agent is none.
        headers.retain(|(name, value)| name != "User-Agent" || !value.is_empty());
        for header in &self.headers {
            apply(header, &mut headers);
        }
        let protocol = self.protocol.unwrap_or("HTTP/1.1").as_bytes().to_vec();
        Ok(Parts { method, uri: target, protocol, headers, body })
    }
}

/// `Name: value` adds a header, or replaces one that curl sends by itself; `Name:` takes it away, `Name;` sends it empty.
fn apply(header: &[u8], headers: &mut super::Headers) {
    let text = header.trim_ascii_end();
    let (name, value) = match text.iter().position(|byte| *byte == b':') {
        Some(at) => (
            text.get(..at).unwrap_or_default(),
            text.get(at + 1..).unwrap_or_default().trim_ascii(),
        ),
        None => (text.strip_suffix(b";").unwrap_or(text), &b""[..]),
    };
    let name = String::from_utf8_lossy(name).into_owned();
    const OWN: [&str; 6] =
        ["host", "user-agent", "accept", "content-type", "content-length", "accept-encoding"];
    if OWN.contains(&name.to_ascii_lowercase().as_str()) || value.is_empty() {
        headers.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
    }
    if !value.is_empty() || text.ends_with(b";") {
        headers.push((name, value.to_vec()));
    }
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let hex =
            after.get(..2).and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        rest = match hex.filter(|_| *first == b'%') {
            Some(byte) => {
                decoded.push(byte);
                after.get(2..).unwrap_or_default()
            }
            None => {
                decoded.push(*first);
                after
            }
        };
    }
    decoded
}

/// What `--data-urlencode` makes of a text.
fn url_encoded(text: &[u8]) -> Vec<u8> {
    encoded(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(command: &str) -> Result<Read, String> {
        requests(super::super::shell::words(command.as_bytes()).unwrap())
    }

    /// A request as one text: its first line, its headers without the usual ones, and its body.
    fn shown(request: &Parts) -> String {
        let usual = usual_headers(b"h");
        let mut text = format!(
            "{} {}",
            String::from_utf8_lossy(&request.method),
            String::from_utf8_lossy(&request.uri)
        );
        for (name, value) in request.headers.iter().filter(|header| !usual.contains(header)) {
            text += &format!("|{name}: {}", String::from_utf8_lossy(value));
        }
        if let Some(body) = &request.body {
            text += &format!("||{}", String::from_utf8_lossy(body));
        }
        text
    }

    const FORM: &str = "|Content-Type: application/x-www-form-urlencoded||";

    #[test]
    fn commands_are_requests() {
        for (command, expected) in [
            ("curl h", "GET /".to_owned()),
            ("curl -sSkL 'http://h/?q=<x>'", "GET /?q=<x>".to_owned()),
            ("curl -X DELETE h/a", "DELETE /a".to_owned()),
            ("curl -XPUT h/a", "PUT /a".to_owned()),
            ("curl -I h", "HEAD /".to_owned()),
            ("curl --url h/a", "GET /a".to_owned()),
            ("curl h -d a=1 -d b=2", format!("POST /|Content-Length: 7{FORM}a=1&b=2")),
            ("curl h --data-raw @a", format!("POST /|Content-Length: 2{FORM}@a")),
            (
                "curl h --data-urlencode 'a=b c' --data-urlencode '=ü'",
                format!("POST /|Content-Length: 14{FORM}a=b%20c&%C3%BC"),
            ),
            ("curl -G h/?x -d a=1 --data-urlencode 'b=&'", "GET /?x&a=1&b=%26".to_owned()),
            ("curl h --url-query 'a=b c'", "GET /?a=b%20c".to_owned()),
            (
                "curl h --json '{\"a\":1}'",
                "POST /|Accept: application/json|Content-Length: 7|Content-Type: application/json||{\"a\":1}".to_owned(),
            ),
            (
                "curl h -d x -H 'Content-Type: text/plain' -H 'X: 1' -H 'X: 2' -H 'Accept:' -H 'E;'",
                "POST /|Content-Length: 1|Content-Type: text/plain|X: 1|X: 2|E: ||x".to_owned(),
            ),
            ("curl h -A me -e http://r/ -b a=1 -b b=2", "GET /|User-Agent: me|Referer: http://r/|Cookie: a=1; b=2".to_owned()),
            ("curl -u a:b h", "GET /|Authorization: Basic YTpi".to_owned()),
            ("curl http://a:%62@h/", "GET /|Authorization: Basic YTpi".to_owned()),
            ("curl --compressed -r 0-1 h", "GET /|Accept-Encoding: deflate, gzip, br, zstd|Range: bytes=0-1".to_owned()),
            ("curl --oauth2-bearer t h", "GET /|Authorization: Bearer t".to_owned()),
            ("curl -H 'Host: other' h", "GET /|Host: other".to_owned()),
            ("curl h/a/../b", "GET /b".to_owned()),
            ("curl --path-as-is h/a/../b", "GET /a/../b".to_owned()),
        ] {
            let found = read(command).map(|read| read.requests.iter().map(shown).collect::<Vec<_>>());
            assert_eq!(found, Ok(vec![expected]), "{command}");
        }
    }

    #[test]
    fn forms_are_multipart() {
        let read = read("curl h -F 'a=1;type=text/plain' -F b=2 --form-string 'c=@x'").unwrap();
        let request = read.requests.first().unwrap();
        let body = String::from_utf8(request.body.clone().unwrap()).unwrap();
        let boundary = body.lines().next().unwrap();
        assert!(
            shown(request).contains(&format!("boundary={}", &boundary[2..])),
            "{}",
            shown(request)
        );
        for part in [
            "form-data; name=\"a\"\r\nContent-Type: text/plain\r\n\r\n1\r\n",
            "form-data; name=\"b\"\r\n\r\n2\r\n",
            "form-data; name=\"c\"\r\n\r\n@x\r\n",
        ] {
            assert!(body.contains(part), "{body}");
        }
        assert!(body.ends_with(&format!("{boundary}--\r\n")), "{body}");
    }

    #[test]
    fn ignored_options_are_named_and_others_rejected() {
        let several = read("curl -sv -o /dev/null --max-time 3 -b jar h/{a,b} h/c").unwrap();
        assert_eq!(several.requests.len(), 2);
        assert_eq!(
            several.remarks,
            [
                "options without effect on the request are ignored: -s -v -o --max-time -b jar",
                "URLs with {} or [] are not expanded"
            ]
        );
        for (command, expected) in [
            ("wget h", "begins with `curl`"),
            ("curl", "no URL"),
            ("curl -d", "-d needs a value"),
            ("curl --nonsense h", "--nonsense: no option"),
            ("curl a --next b", "--next"),
            ("curl --digest h", "--digest: its header"),
            ("curl h -d @/no/such/file", "/no/such/file: No such file"),
            ("curl ftp://h", "not a URL of HTTP"),
        ] {
            let error = read(command).map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{command}: {error}");
        }
    }
}

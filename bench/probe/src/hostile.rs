//! `hostile`: requests made to cost as much as they can, and what a byte of them costs beside one of
//! prose.

use std::time::Duration;

use glacis_engine::Transaction;
use serde_json::json;

use crate::{Outcome, clock::cpu_time, program_for_whole_bodies, request::Request};

/// Times that a request is taken, with content of its own each time; the fastest counts, since nothing
/// makes one faster than it is.
const ROUNDS_MIN: u64 = 3;
/// As long as they take no longer than this, there are more of them.
const ROUNDS_TIME: Duration = Duration::from_millis(40);
const ROUNDS_MAX: u64 = 20;
/// Bytes of a request before the first family.
const WARM_UP_BYTES: usize = 1 << 20;
/// Requests of each family before those that are measured.
const WARM_UP_ROUNDS: u64 = 2;

/// Members of a request with many of them: below the engine's limits, at which it is refused.
const ARGUMENTS: usize = 990;
const COOKIES: usize = 250;
const HEADERS: usize = 240;
const JSON_DEPTH: usize = 120;
const GRPC_DEPTH: usize = 96;

/// Bytes of one of many texts in XML.
const TEXT_BYTES: usize = 9;

/// How bytes are sent.
#[derive(Clone, Copy, Debug)]
enum Carrier {
    /// One field of a multipart form: any byte, as it is.
    Field,
    /// One argument of a form, percent-encoded where it has to be.
    Form,
    /// One text in JSON.
    Json,
    /// One text in lists within lists.
    DeepJson,
    /// A list of short texts.
    WideJson,
    /// A list of short texts as JSON, in one argument of a form.
    NestedJson,
    /// One text in a message of gRPC.
    Grpc,
    /// One text in messages within messages.
    DeepGrpc,
    /// A message with many short texts.
    WideGrpc,
    /// The fields of a GraphQL document.
    Graphql,
    /// A block string in a GraphQL document.
    GraphqlBlock,
    /// Elements beside each other, a short text in each.
    WideXml,
    /// A form of so many arguments that more would be refused.
    Arguments,
    Headers,
    Cookies,
    /// In the path, as it is.
    Path,
    /// A query, headers, cookies and a form at once, each with as many members as it may have.
    Everything,
}

/// What is repeated up to the size wanted.
#[derive(Clone, Copy, Debug)]
enum Content {
    Text(&'static str),
    /// Bytes of these, at random.
    Random(&'static [u8]),
    /// Any bytes at random.
    Bytes,
    /// Words of these, at random.
    Words(&'static [&'static str]),
}

use Carrier::{
    Arguments, Cookies, DeepGrpc, DeepJson, Everything, Field, Form, Graphql, GraphqlBlock, Grpc,
    Headers, Json, NestedJson, Path, WideGrpc, WideJson, WideXml,
};
use Content::{Bytes, Random, Text, Words};

const PROSE: &str = "The quick brown fox jumps over the lazy dog, and nobody has seen it since; the \
                     old man who told us so went home early that day. ";

const PRINTABLE: &[u8] = b" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
const PUNCTUATION: &[u8] = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// Beginnings of what rules look for.
const PREFIXES: &[&str] = &[
    "unio",
    "selec",
    "inser",
    "/etc/passw",
    "<scrip",
    "onerro",
    "javascrip",
    "${jnd",
    "phpinf",
    "base64_decod",
    "wge",
    "cur",
    "../.",
    "document.cooki",
    "alter tabl",
    "xp_cmdshel",
    "java.lang.Runtim",
    "sleep",
    "benchmar",
    "() {",
    "<!ENTIT",
    "file:/",
    "php:/",
    "cmd.ex",
    "powershel",
    "eva",
    "system",
    "passth",
];

/// What rules look for, so that many of them run, and match.
const WHOLE: &[&str] = &[
    "union select ",
    "or 1=1 ",
    "' or 'a'='a ",
    "/etc/passwd ",
    "<script>alert(1)</script> ",
    "onerror=x ",
    "javascript:x ",
    "${jndi:ldap://x} ",
    "system('id'); ",
    "; cat /bin/sh ",
    "../../ ",
    "exec xp_cmdshell ",
    "<?php ",
    "$(id) ",
    "sleep(5) ",
    "/* x */ ",
    "-- ",
    "0x41 ",
    "\\u0041 ",
    "document.cookie ",
];

const SQL: &[&str] = &[
    "or", "and", "not", "in", "is", "as", "by", "if", "1", "0", "a", "'", "(", ")", ",", "=", " ",
];
const SHELL: &[&str] = &[
    "ls", "id", "cat", "sh", "nc", "ps", "cp", "\\", "\"", "'", "$", "@", ";", "|", "&", " ", "^",
];

/// Attributes that begin as those of events do, and are none. The quotes before them end the values in which
/// some readings of HTML begin.
const LONG_EVENT: &str = "'\"` onaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1 ";
const SHORT_EVENT: &str = "'\"` onw=1 ";

/// Families of requests.
const FAMILIES: &[(&str, Carrier, Content)] = &[
    ("prose", Form, Text(PROSE)),
    ("prose-field", Field, Text(PROSE)),
    ("prose-json", Json, Text(PROSE)),
    ("prose-grpc", Grpc, Text(PROSE)),
    ("prose-arguments", Arguments, Text(PROSE)),
    ("bytes", Field, Bytes),
    ("printable", Field, Random(PRINTABLE)),
    ("punctuation", Field, Random(PUNCTUATION)),
    ("high-bytes", Field, Random(b"\x80\x9f\xa0\xbf\xc0\xc2\xe2\xef\xf0\xff")),
    ("controls", Field, Random(b"\x00\x01\x08\x0b\x0c\x1b\x7f\r\n\t")),
    ("classes", Field, Text("a1 A_-.")),
    ("prefixes", Field, Words(PREFIXES)),
    ("attacks", Field, Words(WHOLE)),
    ("commas-quotes", Field, Random(b",'\"")),
    ("quotes", Field, Text("'")),
    ("brackets", Field, Text("<a<b <")),
    ("tags", Field, Text("<a x=y z='q'>")),
    ("percent", Form, Text("%252525")),
    ("entities", Field, Text("&#x41;&lt;&amp")),
    ("escapes", Field, Text("\\u0041\\x41\\101\\")),
    ("unicode", Field, Text("%u0041%uff1c")),
    ("paths", Field, Text("../..\\./")),
    ("spaces", Field, Random(b"  \t\n\r\x0b")),
    ("one-space", Field, Text(" ")),
    ("comments", Field, Text("/*/**/*--#\n")),
    ("parentheses", Field, Text("a(b)(c((")),
    ("braces", Field, Random(b"${}[]()`;")),
    ("base64", Field, Random(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")),
    ("digits", Field, Random(b"0123456789")),
    ("lists", Field, Text("1,1,")),
    ("one-letter", Field, Text("a")),
    ("assignments", Field, Text("a=b;c=d&")),
    ("sql-words", Field, Words(SQL)),
    ("sql-words-split", Field, Text("like.")),
    ("sql-words-joined", Field, Text("not like ")),
    ("shell-words", Field, Words(SHELL)),
    ("on-words", Field, Text("on on= onx ono =o")),
    ("on-words-long", Field, Text(LONG_EVENT)),
    ("on-words-short", Field, Text(SHORT_EVENT)),
    ("colons", Field, Text("a:b://c.d:1@")),
    ("printable-form", Form, Random(PRINTABLE)),
    ("printable-json", Json, Random(PRINTABLE)),
    ("deep-json", DeepJson, Random(PRINTABLE)),
    ("wide-json", WideJson, Text("a'")),
    // A backslash is escaped in JSON, so that rules have not seen these texts before.
    ("nested-json", NestedJson, Text("a'\\")),
    ("nested-printable", NestedJson, Random(PRINTABLE)),
    ("printable-grpc", Grpc, Random(PRINTABLE)),
    ("deep-grpc", DeepGrpc, Random(PRINTABLE)),
    ("wide-grpc", WideGrpc, Text("a'")),
    ("graphql-fields", Graphql, Text("x:a@b ")),
    ("graphql-open", Graphql, Text("{a")),
    ("graphql-comments", Graphql, Text("a#'\n")),
    ("graphql-printable", Graphql, Random(PRINTABLE)),
    ("graphql-block", GraphqlBlock, Random(PRINTABLE)),
    ("wide-xml", WideXml, Text("%41&#65; ")),
    ("arguments", Arguments, Random(PRINTABLE)),
    ("arguments-attacks", Arguments, Words(WHOLE)),
    ("headers", Headers, Random(PRINTABLE)),
    ("headers-attacks", Headers, Words(WHOLE)),
    ("cookies", Cookies, Random(PUNCTUATION)),
    ("everything", Everything, Random(PRINTABLE)),
    ("everything-attacks", Everything, Words(WHOLE)),
    ("path", Path, Random(b"abc/..;-_~%")),
];

/// Prints, for each family and size, what a request costs; of one family, or of all when `only` is empty.
pub(crate) fn run(rules: &str, sizes: &str, only: &str) -> Outcome<()> {
    let mut transaction = Transaction::new(program_for_whole_bodies(rules)?);
    let sizes = sizes.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
    // The automata compute states as they come to them, once for each worker.
    for round in 0..WARM_UP_ROUNDS {
        request(Field, &make(Random(PRINTABLE), WARM_UP_BYTES, round)).inspect(&mut transaction);
    }
    for &(name, carrier, content) in
        FAMILIES.iter().filter(|(name, ..)| only.is_empty() || *name == only)
    {
        let made = |bytes, round| request(carrier, &make(content, bytes, round));
        for round in 0..WARM_UP_ROUNDS {
            let largest = sizes.iter().copied().max().unwrap_or_default();
            made(largest, ROUNDS_MAX + round).inspect(&mut transaction);
        }
        for &bytes in &sizes {
            let made = |round| made(bytes, round);
            let time = fastest(made, &mut transaction);
            let told = json!({
                "family": name,
                "bytes": made(0).bytes(),
                "ns": u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
                "steps": transaction.rule_steps(),
                "cut_off": transaction.flags().rules_cut_off,
            });
            println!("{told}");
        }
    }
    Ok(())
}

/// The families whose content is a body, and what makes a request with so many bytes of content.
pub(crate) fn bodies() -> impl Iterator<Item = (&'static str, impl Fn(usize) -> Request)> {
    let is_body = |carrier: Carrier| match carrier {
        Field | Form | Json | DeepJson | WideJson | NestedJson | WideXml | Arguments | Grpc
        | DeepGrpc | WideGrpc | Graphql | GraphqlBlock => true,
        Headers | Cookies | Path | Everything => false,
    };
    let bodies = FAMILIES.iter().filter(move |(_, carrier, _)| is_body(*carrier));
    bodies.map(|&(name, carrier, content)| {
        (name, move |bytes: usize| request(carrier, &make(content, bytes, 0)))
    })
}

/// Bytes of the value that [`search`] works on.
const SEARCHED_BYTES: usize = 4 << 10;

/// Looks for a dearer value than those of the families, by so many seconds of small changes of which the
/// good ones are kept, and prints what it cost and what it was. The same changes are tried each time;
/// which are good is a matter of the clock.
pub(crate) fn search(rules: &str, seconds: &str) -> Outcome<()> {
    let mut transaction = Transaction::new(program_for_whole_bodies(rules)?);
    let end = cpu_time() + Duration::from_secs(seconds.parse()?);
    let mut cost = |value: &[u8]| fastest(|_| request(Field, value), &mut transaction);
    let prose = cost(&make(Text(PROSE), SEARCHED_BYTES, 0));
    let mut best = make(Random(PRINTABLE), SEARCHED_BYTES, 0);
    let (mut dearest, mut tried, mut kept) = (cost(&best), 0_u64, 0_u64);
    let mut chance = Chance(1);
    while cpu_time() < end {
        let changed = changed(&best, &mut chance);
        let time = cost(&changed);
        tried += 1;
        if time > dearest {
            (best, dearest, kept) = (changed, time, kept + 1);
        }
    }
    // What was kept because the machine was slow for a moment is not believed.
    let dearest = cost(&best);
    let told = json!({
        "tried": tried,
        "kept": kept,
        "ns_per_byte": dearest.as_nanos() as f64 / SEARCHED_BYTES as f64,
        "ratio": dearest.as_secs_f64() / prose.as_secs_f64(),
        "value": best.escape_ascii().to_string(),
    });
    println!("{told}");
    Ok(())
}

/// The value with one part replaced: by a part of a family, a part of itself, or one byte repeated.
fn changed(value: &[u8], chance: &mut Chance) -> Vec<u8> {
    let bytes = 1 + chance.below(value.len() / 8);
    let at = chance.below(value.len() - bytes);
    let part = match chance.below(4) {
        0 | 1 => {
            let content = chance.pick(FAMILIES).map_or(Bytes, |(_, _, content)| content);
            let made = make(content, SEARCHED_BYTES, 0);
            let from = chance.below(made.len() - bytes);
            made.get(from..from + bytes).unwrap_or_default().to_vec()
        }
        2 => {
            let from = chance.below(value.len() - bytes);
            value.get(from..from + bytes).unwrap_or_default().to_vec()
        }
        _ => vec![u8::try_from(chance.below(256)).unwrap_or(b' '); bytes],
    };
    let mut changed = value.to_vec();
    changed.splice(at..at + bytes, part);
    changed
}

fn fastest(request: impl Fn(u64) -> Request, transaction: &mut Transaction) -> Duration {
    let begin = cpu_time();
    let mut fastest = Duration::MAX;
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS_MIN && cpu_time().saturating_sub(begin) > ROUNDS_TIME {
            break;
        }
        let request = request(round);
        let begin = cpu_time();
        request.inspect(transaction);
        fastest = fastest.min(cpu_time().saturating_sub(begin));
    }
    fastest
}

/// `SplitMix64`, as the workload has it: the same requests each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % (end.max(1) as u64)).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(self.below(choices.len())).copied()
    }
}

fn make(content: Content, bytes: usize, round: u64) -> Vec<u8> {
    let mut chance = Chance(20_261_121 + round);
    let mut made = Vec::with_capacity(bytes + 64);
    while made.len() < bytes {
        match content {
            Text(text) => made.extend_from_slice(text.as_bytes()),
            Random(choices) => made.extend(chance.pick(choices)),
            Words(words) => made.extend_from_slice(chance.pick(words).unwrap_or(" ").as_bytes()),
            Bytes => made.extend(u8::try_from(chance.below(256))),
        }
    }
    made.truncate(bytes);
    made
}

fn request(carrier: Carrier, value: &[u8]) -> Request {
    const FORM: &str = "application/x-www-form-urlencoded";
    const JSON: &str = "application/json";
    const GRPC: &str = "application/grpc";
    const GRAPHQL: &str = "application/graphql";
    match carrier {
        Field => {
            let head = b"--boundary\r\nContent-Disposition: form-data; name=\"text\"\r\n\r\n";
            let body = [head, value, b"\r\n--boundary--\r\n"].concat();
            Request::post("/", "multipart/form-data; boundary=boundary", body)
        }
        Form => Request::post("/", FORM, [b"text=", &*encoded(value)].concat()),
        Arguments => Request::post("/", FORM, arguments(value)),
        Json => Request::post("/", JSON, format!("{{\"text\":{}}}", text(value)).into_bytes()),
        DeepJson => {
            let (open, close) = ("[".repeat(JSON_DEPTH), "]".repeat(JSON_DEPTH));
            Request::post("/", JSON, format!("{open}{}{close}", text(value)).into_bytes())
        }
        WideJson => Request::post("/", JSON, wide(value)),
        NestedJson => Request::post("/", FORM, [b"text=", &*encoded(&wide(value))].concat()),
        Grpc => Request::post("/", GRPC, frame(&field(1, value))),
        DeepGrpc => {
            let deep = (0..GRPC_DEPTH).fold(value.to_vec(), |inner, _| field(4, &inner));
            Request::post("/", GRPC, frame(&deep))
        }
        WideGrpc => {
            let size = value.len().div_ceil(ARGUMENTS).max(1);
            let fields: Vec<_> = value.chunks(size).map(|part| field(1, part)).collect();
            Request::post("/", GRPC, frame(&fields.concat()))
        }
        Graphql => Request::post("/graphql", GRAPHQL, [b"{", value, b"}"].concat()),
        GraphqlBlock => {
            let document = [b"{a(b:\"\"\"", value, b"\"\"\")}"].concat();
            Request::post("/graphql", GRAPHQL, document)
        }
        WideXml => Request::post("/", "text/xml", elements(value)),
        Headers => Request::get("/", headers(value)),
        Cookies => Request::get("/", vec![cookies(value)]),
        Everything => {
            let quarter = value.len().div_ceil(4).max(1);
            let mut quarters = value.chunks(quarter);
            let mut next = || quarters.next().unwrap_or_default();
            let uri = format!("/?{}", latin(&arguments(next())));
            let headers = [headers(next()), vec![cookies(next())]].concat();
            Request::post(&uri, FORM, arguments(next())).with_headers(headers)
        }
        Path => Request::get(&format!("/{}", latin(value)), Vec::new()),
    }
}

/// Bytes as characters of the same numbers.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// A field of protocol buffers.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    let mut length = value.len();
    while length >= 0x80 {
        field.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend_from_slice(value);
    field
}

/// A message of gRPC in its frame.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], &length[..], message].concat()
}

fn text(value: &[u8]) -> String {
    json!(latin(value)).to_string()
}

fn encoded(value: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(value.len() * 2);
    for byte in value {
        match byte {
            b' ' => encoded.push(b'+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => encoded.push(*byte),
            _ => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    encoded
}

fn arguments(value: &[u8]) -> Vec<u8> {
    let size = value.len().div_ceil(ARGUMENTS).max(1);
    let pairs = value.chunks(size).enumerate();
    let pairs =
        pairs.map(|(number, part)| [format!("a{number}=").into_bytes(), encoded(part)].concat());
    pairs.collect::<Vec<_>>().join(&b'&')
}

fn wide(value: &[u8]) -> Vec<u8> {
    let size = value.len().div_ceil(ARGUMENTS).max(1);
    let texts: Vec<String> = value.chunks(size).map(text).collect();
    format!("[{}]", texts.join(",")).into_bytes()
}

fn elements(value: &[u8]) -> Vec<u8> {
    let texts = value.chunks(TEXT_BYTES).map(|part| {
        let text = latin(part).replace('&', "&amp;").replace('<', "&lt;");
        format!("<b>{text}</b>")
    });
    format!("<a>{}</a>", texts.collect::<String>()).into_bytes()
}

fn headers(value: &[u8]) -> Vec<(String, String)> {
    let size = value.len().div_ceil(HEADERS).max(1);
    let parts = value.chunks(size).enumerate();
    parts.map(|(number, part)| (format!("X-{number}"), latin(part))).collect()
}

fn cookies(value: &[u8]) -> (String, String) {
    let size = value.len().div_ceil(COOKIES).max(1);
    let pairs = value.chunks(size).enumerate();
    let pairs = pairs.map(|(number, part)| format!("c{number}={}", latin(part)));
    ("Cookie".to_owned(), pairs.collect::<Vec<_>>().join("; "))
}

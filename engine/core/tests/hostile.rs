//! Hostile requests and hosts: whatever the bytes and whatever the order of calls, nothing panics, and
//! the same request gives the same answer however its body is cut, with the fast path and without.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail loudly")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{
    Endpoint, Input, Limits, NoFiles, Program, Start, Transaction, Verdict, transform,
};

const ROUNDS: u32 = 400;

/// Xorshift: the same requests in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }

    /// A few fragments that mean something to some parser, glued together with noise.
    fn bytes(&mut self, fragments: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..self.below(fragments + 1) {
            match self.below(4) {
                0 => out.push(u8::try_from(self.below(256)).unwrap()),
                _ => out.extend_from_slice(self.pick(FRAGMENTS).as_bytes()),
            }
        }
        out
    }
}

const FRAGMENTS: &[&str] = &[
    "a=",
    "&",
    "=",
    "%",
    "%2",
    "%u00e9",
    "+",
    ";",
    "'",
    "\"",
    "\\",
    "\\x41",
    "&#x3c",
    "&lt;",
    "<a b=\"c\">",
    "</a>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE x [<!ENTITY e \"x\">]>",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"a\":",
    "null",
    "true",
    "-1e5",
    "\\ud800",
    "--XX",
    "--XX--",
    "\r\n",
    "\n",
    "\r",
    "Content-Disposition: form-data; name=\"a\"; filename*=utf-8''x",
    "/../",
    "//",
    "/*",
    "*/",
    "union select",
    "1' or '1'='1",
    "<script>",
    "javascript:",
    "0x41",
    "QUJD",
    "é",
    "\0",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
];

const CONTENT_TYPES: &[&str] = &[
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=XX",
    "multipart/form-data; boundary=\"X",
    "application/json",
    "text/xml",
    "text/plain",
    "",
];

/// Every operator and every transformation, on everything that a request holds.
fn program() -> Program {
    let mut text = String::from(
        "SecRuleEngine DetectionOnly\nSecRequestBodyAccess On\nSecResponseBodyAccess On\n\
         SecRequestBodyLimit 200\nSecRequestBodyLimitAction ProcessPartial\nSecResponseBodyLimit 50\n\
         SecRule REQUEST_HEADERS:Content-Type \"@contains json\" \"id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON\"\n\
         SecRule REQUEST_HEADERS:Content-Type \"@contains xml\" \"id:2,phase:1,pass,nolog,ctl:requestBodyProcessor=XML\"\n\
         SecRule REQUEST_HEADERS:Content-Type \"@contains plain\" \"id:3,phase:1,pass,nolog,ctl:forceRequestBodyVariable=On\"\n",
    );
    let targets = "ARGS|ARGS_NAMES|REQUEST_HEADERS|REQUEST_COOKIES|REQUEST_COOKIES_NAMES|REQUEST_LINE|\
                   REQUEST_BASENAME|REQUEST_BODY|FILES|FILES_TMP_CONTENT|MULTIPART_PART_HEADERS|XML:/*|\
                   XML://@*|RESPONSE_BODY|RESPONSE_HEADERS|FULL_REQUEST|MATCHED_VARS|TX:/./";
    let operators = [
        "@rx (?i)(s)(e)?l[^a]*",
        "@rx (?!b)(a+)+$",
        "@pm union script |41|",
        "@eq 1",
        "@within %{tx.0} a b",
        "@containsWord a",
        "@beginsWith a",
        "@endsWith %{ARGS.a}",
        "@detectSQLi",
        "@detectXSS",
        "@validateByteRange 32-126",
        "@validateUrlEncoding",
        "@validateUtf8Encoding",
        "@ipMatch ::/0",
        "@verifyCC \\d+",
        "@unconditionalMatch",
    ];
    let mut id = 100;
    for operator in operators {
        for phase in [1, 2, 4, 5] {
            id += 1;
            text += &format!(
                "SecRule {targets} \"{operator}\" \"id:{id},phase:{phase},pass,capture,logdata:'%{{tx.0}} %{{MATCHED_VAR}}',setvar:'tx.x_%{{MATCHED_VAR_NAME}}=+%{{tx.1}}'\"\n"
            );
        }
    }
    for &(name, _) in transform::TABLE {
        id += 1;
        text += &format!(
            "SecRule {targets} \"@rx .\" \"id:{id},phase:2,pass,multiMatch,t:none,t:urlDecodeUni,t:{name},t:lowercase\"\n"
        );
    }
    let input = Input::Text { name: "hostile.conf".to_owned(), text };
    Program::build(&[input], &NoFiles, Limits::default()).expect("the rules compile")
}

fn start(transaction: &mut Transaction) {
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    transaction.start(&Start {
        unique_id: "hostile",
        time: Duration::from_secs(1),
        client: endpoint,
        server: endpoint,
    });
}

struct Request {
    uri: Vec<u8>,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
    response: Vec<u8>,
}

impl Request {
    fn random(random: &mut Random) -> Self {
        let content_type = random.pick(CONTENT_TYPES);
        Self {
            uri: [b"/?".to_vec(), random.bytes(8)].concat(),
            headers: vec![
                ("Content-Type", content_type.as_bytes().to_vec()),
                ("Cookie", random.bytes(6)),
                ("User-Agent", random.bytes(4)),
                ("Host", random.bytes(2)),
            ],
            body: random.bytes(24),
            response: random.bytes(10),
        }
    }

    fn run(&self, transaction: &mut Transaction, chunk: usize) -> String {
        start(transaction);
        transaction.request_line(b"POST", &self.uri, b"HTTP/1.1");
        for (name, value) in &self.headers {
            transaction.request_header(name.as_bytes(), value);
        }
        transaction.evaluate_request_headers();
        for piece in self.body.chunks(chunk) {
            transaction.request_body(piece);
        }
        transaction.evaluate_request_body();
        transaction.response_line(200, b"HTTP/1.1");
        transaction.response_header(b"Content-Type", b"text/html");
        transaction.evaluate_response_headers();
        for piece in self.response.chunks(chunk) {
            transaction.response_body(piece);
        }
        transaction.evaluate_response_body();
        transaction.finish(Duration::from_secs(2));
        let matched: Vec<String> = transaction
            .matched_rules()
            .map(|rule| format!("{} {} {:?}", rule.id, rule.logdata, rule.matches))
            .collect();
        format!("{:?} {:?} {matched:?}", transaction.verdict(), transaction.flags())
    }
}

#[test]
fn the_answer_does_not_depend_on_how_it_is_found() {
    let program = Arc::new(program());
    let mut every_rule = Transaction::new(Arc::new(self::program().without_gates()));
    let mut random = Random(0x5EED_CAFE);
    let mut used = Transaction::new(Arc::clone(&program));
    for round in 0..ROUNDS {
        let request = Request::random(&mut random);
        let whole = request.run(&mut used, usize::MAX);
        let chunk = 1 + random.below(9);
        assert_eq!(request.run(&mut used, chunk), whole, "round {round}, in pieces of {chunk}");
        assert_eq!(request.run(&mut every_rule, usize::MAX), whole, "round {round}, without gates");
        if round % 50 == 0 {
            let mut fresh = Transaction::new(Arc::clone(&program));
            assert_eq!(request.run(&mut fresh, usize::MAX), whole, "round {round}, afresh");
        }
    }
}

#[test]
fn calls_in_any_order_are_survived() {
    let program = Arc::new(program());
    let mut random = Random(0xC0FF_EE11);
    let mut transaction = Transaction::new(Arc::clone(&program));
    for _ in 0..50 * ROUNDS {
        match random.below(14) {
            0 => start(&mut transaction),
            1 => transaction.request_line(b"GET", &random.bytes(4), b"HTTP/2"),
            2 => transaction.request_header(b"Cookie", &random.bytes(4)),
            3 => drop(transaction.evaluate_request_headers().clone()),
            4 => drop(transaction.request_body(&random.bytes(8))),
            5 => drop(transaction.evaluate_request_body().clone()),
            6 => transaction.response_line(500, &random.bytes(2)),
            7 => transaction.response_header(b"Content-Type", &random.bytes(2)),
            8 => drop(transaction.evaluate_response_headers().clone()),
            9 => drop(transaction.response_body(&random.bytes(8))),
            10 => drop(transaction.evaluate_response_body().clone()),
            11 => drop(transaction.finish(Duration::ZERO).clone()),
            12 => assert!(!(transaction.wants_request_body() && transaction.wants_response_body())),
            _ => {
                assert_eq!(*transaction.verdict(), Verdict::Allow, "DetectionOnly refuses nothing")
            }
        }
    }
}

/// Streams that decode to far more than they are, made with other programs: 50 MB of zeros in 80 bytes
/// (br), and 3 MB in 109 (zstd).
const BOMBS: [(&str, &str); 2] = [
    (
        "br",
        "cbffff3ff82560e2b14020f7fe8fffff7ff04b00c4611180eefd1fffffffe0970088c30200ddfb3ffeffffc12f0110870500baf77ffcffff835f02200e0b0074effff20f5e0fbf04401c1600e8a0eb01",
    ),
    (
        "zstd",
        "28b52ffda0c0c62d004c000008300100fcff39100202001030020010300200103002001030020010300200103002001030020010300200103002001030020010300200103002001030020010300200103002001030020010300200103002001030020010300200103003360e30",
    ),
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = flate2::read::GzEncoder::new(bytes, flate2::Compression::best());
    std::io::Read::read_to_end(&mut encoder, &mut coded).unwrap();
    coded
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    let mut encoder = flate2::read::ZlibEncoder::new(bytes, flate2::Compression::best());
    std::io::Read::read_to_end(&mut encoder, &mut coded).unwrap();
    coded
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// Sends a compressed form; gives the bytes that rules see of the whole request, and the transaction.
fn send_encoded(program: &Arc<Program>, coding: &str, body: &[u8]) -> (usize, Transaction) {
    let mut transaction = Transaction::new(Arc::clone(program));
    start(&mut transaction);
    transaction.request_line(b"POST", b"/", b"HTTP/1.1");
    transaction.request_header(b"Content-Encoding", coding.as_bytes());
    transaction.request_header(b"Content-Type", b"application/x-www-form-urlencoded");
    transaction.evaluate_request_headers();
    transaction.request_body(body);
    transaction.evaluate_request_body();
    let seen = transaction.matched_rules().find(|rule| rule.id.0 == 1).map(|rule| {
        let value = String::from_utf8_lossy(&rule.matches[0].value);
        value.parse().unwrap()
    });
    (seen.unwrap_or_default(), transaction)
}

fn encoded_program(limit: usize) -> Arc<Program> {
    let text = format!(
        "SecRuleEngine DetectionOnly\nSecRequestBodyAccess On\nSecRequestBodyLimit {limit}\n\
         SecRule FULL_REQUEST_LENGTH \"@gt 0\" \"id:1,phase:2,pass,log\"\n\
         SecRule REQBODY_ERROR \"@eq 1\" \"id:2,phase:2,pass,log\""
    );
    let input = Input::Text { name: "encoded.conf".to_owned(), text };
    Arc::new(Program::build(&[input], &NoFiles, Limits::default()).unwrap())
}

/// Whatever a body decodes to, no more than its limits allow for is ever held.
#[test]
fn bombs_are_defused() {
    let unhex = |text: &str| -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    let zeros = vec![b'0'; 30 << 20];
    let mut bombs: Vec<(&str, Vec<u8>)> =
        BOMBS.iter().map(|(coding, hex)| (*coding, unhex(hex))).collect();
    bombs.push(("gzip", gzip(&zeros)));
    bombs.push(("deflate", zlib(&zeros)));
    bombs.push(("gzip, gzip", gzip(&gzip(&zeros))));
    bombs.push(("gzip, zstd", zstd(&gzip(&zeros))));
    for limit in [1 << 20, 13_107_200] {
        let program = encoded_program(limit);
        for (coding, body) in &bombs {
            let (seen, transaction) = send_encoded(&program, coding, body);
            let max = limit.min((200 * body.len()).max(64 << 10)) + 200;
            assert!(seen <= max, "{coding}: {seen} of {max}");
            assert!(transaction.flags().request_body_truncated, "{coding}");
        }
    }
}

/// Streams with bytes changed, cut off, doubled: nothing panics, and what is no stream is an error.
#[test]
fn broken_streams_are_survived() {
    let program = encoded_program(1 << 16);
    let mut random = Random(0xDEC0_DE01);
    let brotli = b"\x1b\x2e\x00\xa0\x2c\x0e\x78\xda\xc4\x2d\x5b\x2b\x98\x61".to_vec();
    let mut errors = 0;
    for round in 0..10 * ROUNDS {
        let text = random.bytes(40);
        let (coding, mut body) = match random.below(4) {
            0 => ("gzip", gzip(&text)),
            1 => ("deflate", zlib(&text)),
            2 => ("zstd", zstd(&text)),
            _ => ("br", [&brotli[..random.below(brotli.len())], &text].concat()),
        };
        for _ in 0..1 + random.below(3) {
            let at = random.below(body.len() + 1);
            match random.below(4) {
                0 => body.truncate(at),
                1 => body.insert(at, u8::try_from(random.below(256)).unwrap()),
                2 => body.extend_from_within(at..),
                _ => {
                    if let Some(byte) = body.get_mut(at) {
                        *byte ^= 1 << random.below(8);
                    }
                }
            }
        }
        let (seen, transaction) = send_encoded(&program, coding, &body);
        assert!(seen <= (1 << 16) + 200, "round {round}: {seen}");
        errors += usize::from(transaction.matched_rules().any(|rule| rule.id.0 == 2));
    }
    assert!(errors > 5 * ROUNDS as usize, "{errors}");
}

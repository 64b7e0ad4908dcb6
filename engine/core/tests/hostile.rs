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

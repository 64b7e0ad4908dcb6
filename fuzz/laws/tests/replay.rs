//! Every law holds for every input that once broke one, for some more of its own, and for changes
//! of them all: what the fuzzer has found stays found, on every `cargo test`.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]
#![allow(clippy::disallowed_methods, reason = "the test reads its data")]

use std::{fs, panic, path::Path};

use glacis_laws::{LAWS, Law};

/// Changed inputs that each law is given.
const MUTATIONS: usize = 300;

/// Bytes with a meaning in some language that is read here.
const SIGNIFICANT: &[u8] = b"\0\n\r\t \"#%&'()*+,-./:;<=>@[\\]^`{|}!$?01Aax\x80\xc3\xff";

/// Inputs for each law, so that one without a regression is tried too.
const FIRST: &[(&str, &[u8])] = &[
    ("seclang_parse", b"SecRule ARGS|!ARGS:a \"@rx b\" \\\n  \"id:1,deny,msg:'c'\"\nSecMarker D\n"),
    ("seclang_roundtrip", b"SecRule &ARGS:/a/|XML:/* \"!@eq 1\" \"id:1,t:none,setvar:tx.a=+1\"\n"),
    ("compile", b"SecRuleEngine On\nSecRule ARGS \"@pmFromFile f\" \"id:1,deny\"\n=== f\na\nb\n"),
    ("transform_total", b"\x01\x1f\x08\n%41+\\x42&lt;/*a*/ QUJD \xc3\xa9\0"),
    (
        "body_processors",
        b"\x01\0multipart/form-data; boundary=a\n--a\r\nContent-Disposition: form-data; name=\"b\"\
          \r\n\r\nc\r\n--a--\r\n",
    ),
    ("body_processors", b"\x02\x03\n{\"gzip\":[1,{}]}"),
    ("body_processors", b"\0\x08\nbr=a%20b&c"),
    ("body_processors", b"\x05\0\n{\"a\":1}\n\x1e[2,{}]"),
    ("body_processors", b"\x06\0\n{\"a\":\"1\\u0041\"} {b"),
    ("body_processors", b"\x04\x0a\n\x28\xb5\x2f\xfd\x20\x03\x19\0\0abc"),
    (
        "graphql",
        b"\x20\0query Q($a:[T!]=[{b:1}]@d){x:f(a:\"c\\u0041\",b:\"\"\"d\n e\"\"\")...F ...on T{g}}fragment F on T{h}#i",
    ),
    ("graphql", b"\x0b\0{a{b{c(d:[E,$f,-1.5e3])}}}"),
    (
        "openapi",
        b"GET /a?a=1&a=true&b=x|y&c[z]=1&d={%22a%22:[1]}&g=%ff#h HTTP\nCookie: e=2026\nF: a, b\n\nx",
    ),
    ("openapi", b"POST /a\nContent-Type: application/json\n\n[{\"a\":[[],{\"b\":1}]},[1,1.0],\"x\"]"),
    ("openapi", b"POST /a\nContent-Type: multipart/form-data; boundary=x\n\na1&a2&n{\"a\":{}}&nxxxxx"),
    ("openapi", b"GET /1,2/.k=v.l=w/;matrix=a%2e.x\n\n"),
    ("pattern", b"(?i)(a|b)*?c{2,3}[^d]\naBccx"),
    ("chunking", b"\x01\x07\nPOST /?a=b HTTP/1.1\nContent-Type: application/json\n\n{\"c\":[1,{}]}"),
    (
        "fast_path",
        b"POST /../?a=union+all+select HTTP/1.1\nCookie: b=c\nContent-Type: text/xml\n\n<d e='f'>g</d>\
          \n=== response\nHTTP/1.1 500\nContent-Type: text/html\n\nstack trace",
    ),
    (
        "fast_path",
        b"=== rules\naa00bb (?i)select.*from\nbaLUNb <script|[^a-z]on\nbmu0kb %{ARGS.a}\n=== request\n\
          GET /?a=select+1+FROM+b&c=%3Cscript HTTP/1.1\nHost: d",
    ),
    (
        "fast_path",
        b"=== rules\n+0123456789abc\naa00bb a\n=== request\nHEAD /?a=select&b=1 HTTP/1.1\nHost: d\n\
          Accept: */*\nUser-Agent: b",
    ),
    (
        "fast_path",
        b"=== rules\n+@ABCDEFGHIJKLMNO\naa00bb (?!b)(.)\\1\nxf00aA (a|b)++c\n=== request\nPOST /?aa=1&b=aab&abb=2 \
          HTTP/1.1\nHost: dd\nAccept: */*\nAccept-Encoding: bb\nX-Rr: aaaaaaaaaaaaaaaaaaaaaaaaab\n\nc=d",
    ),
    (
        "fast_path",
        b"=== rules\n+A\xA0\xA1\xA2\n=== request\nPUT /?a=select&b=1&proxy=2 HTTP/1.1\nHost: d\n\
          Accept: */*\nProxy: b",
    ),
    (
        "before_body",
        b"=== rules\naa00ep a\nta00ep [ae]\nAa00fv b\n=== request\nPOST /?a=ae&c=e HTTP/1.1\nHost: a\n\
          Content-Type: application/x-www-form-urlencoded\n\nb=ae&d=a",
    ),
    ("event_stream", b"\x01\x03\x87data: a\x80data:b\x85: c\x84id\x80 d\x82data: ~\x83event: e\x83"),
    ("event_stream", b"\x00\x05data: a long text that is not all of it inspected, as it is too long\x85\x82data\x81:"),
    ("websocket", b"\x00\x02\x01\x83\x01\x02\x03\x04abc\x89\x80\0\0\0\0\x80\x81\x01\x02\x03\x04d\x88\x82\0\0\0\0\x03\xe8"),
    ("websocket", b"\x03\x05\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00\x81\x02ab"),
    ("websocket", b"\x0d\x07a long text that is made frames of: \x7f\x01\x02 and so on, and so on"),
    (
        "transaction_calls",
        b"t\ns\nlPOST=/?a=1\nhContent-Type=text/xml\n1\nb<a>b</a>\n2\nLHTTP/1.1=x\n3\nBc\n4\nd\nsx\n5\n",
    ),
];

/// Xorshift: the same numbers on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap()
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let significant = SIGNIFICANT[self.below(SIGNIFICANT.len())];
        let (at, other) = (self.below(bytes.len()), self.below(bytes.len()));
        match self.below(6) {
            _ if bytes.is_empty() => bytes.push(significant),
            0 => drop(bytes.remove(at)),
            1 => bytes.insert(at, significant),
            2 => bytes.swap(at, other),
            3 => bytes.truncate(at),
            4 => bytes.extend_from_within(at..(at + 16).min(bytes.len())),
            _ => bytes[at] = significant,
        }
    }
}

/// Name and bytes of every committed input of a law.
fn regressions(law: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../regressions").join(law);
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

#[track_caller]
fn holds(law: Law, input: &[u8], told: &str) {
    let outcome = panic::catch_unwind(|| law(input));
    assert!(outcome.is_ok(), "{told} breaks the law: \"{}\"", input.escape_ascii());
}

#[test]
fn laws_hold_for_what_once_broke_them() {
    for &(name, law) in LAWS {
        for (path, input) in regressions(name) {
            holds(law, &input, &path);
        }
    }
}

#[test]
fn laws_hold_for_changes() {
    for &(name, law) in LAWS {
        let mut inputs: Vec<Vec<u8>> =
            regressions(name).into_iter().map(|(_, input)| input).collect();
        let first = FIRST.iter().filter(|(known, _)| *known == name);
        for (_, input) in first {
            holds(law, input, name);
            inputs.push(input.to_vec());
        }
        assert!(!inputs.is_empty(), "{name} has no input");
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        holds(law, b"", name);
        for _ in 0..MUTATIONS {
            let mut input = inputs[random.below(inputs.len())].clone();
            for _ in 0..=random.below(5) {
                random.change(&mut input);
            }
            holds(law, &input, name);
        }
    }
}

#[test]
fn inputs_are_those_of_laws() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../regressions");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(is_law(&name), "{name} is no law");
    }
    for (name, _) in FIRST {
        assert!(is_law(name), "{name} is no law");
    }
}

fn is_law(name: &str) -> bool {
    LAWS.iter().any(|(known, _)| *known == name)
}

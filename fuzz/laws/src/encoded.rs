//! Laws of compressed bodies, which the engine decodes before a body processor reads them: see
//! [`body_processors`](crate::body_processors), which chooses the coding.

use std::{
    io::Read,
    sync::{Arc, OnceLock},
};

use flate2::{
    Compression,
    read::{DeflateEncoder, GzEncoder, ZlibEncoder},
};
use glacis_engine::{Limits, Program, Transaction, body::Processor};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::{
    message::{describe, fresh, start},
    transactions::build,
};

/// Bytes of an uncompressed block of brotli, at most.
const BROTLI_BLOCK_BYTES: usize = 1 << 16;

/// What a body may always decode to, whatever its length ([`Limits::decoded_ratio_max`]).
const RATIO_BYTES_FREE: usize = 64 << 10;

/// Makes a body in some coding of a plain one.
type Encoder = fn(&[u8]) -> Vec<u8>;

/// What `Content-Encoding` says, and what makes a body of it from a plain one.
const CODINGS: [(&str, Encoder); 8] = [
    ("gzip", gzip),
    ("deflate", zlib),
    ("Deflate", deflate),
    ("br", brotli),
    ("zstd", zstd),
    ("br, x-gzip", |plain| gzip(&brotli(plain))),
    ("gzip,zstd", |plain| zstd(&gzip(plain))),
    ("zstd, identity, br", |plain| brotli(&zstd(plain))),
];

/// The codings that there are, and none.
pub(crate) const CHOICES: usize = CODINGS.len() + 1;

/// Chooses how a body is read, and lets all that was read of it be seen. The length of the body as it
/// came is not among it.
const RULES: &str = r#"
SecRuleEngine DetectionOnly
SecRequestBodyAccess On
SecAction "id:1,phase:1,pass,nolog,ctl:forceRequestBodyVariable=On"
SecRule REQUEST_HEADERS:X-Processor "@streq URLENCODED" "id:2,phase:1,pass,nolog,ctl:requestBodyProcessor=URLENCODED"
SecRule REQUEST_HEADERS:X-Processor "@streq JSONLINES" "id:20,phase:1,pass,nolog,ctl:requestBodyProcessor=JSONLINES"
SecRule REQUEST_HEADERS:X-Processor "@streq TEXT" "id:21,phase:1,pass,nolog,ctl:requestBodyProcessor=TEXT"
SecRule REQUEST_HEADERS:X-Processor "@streq GRPC" "id:22,phase:1,pass,nolog,ctl:requestBodyProcessor=GRPC"
SecRule REQUEST_HEADERS:X-Processor "@streq PROTOBUF" "id:23,phase:1,pass,nolog,ctl:requestBodyProcessor=PROTOBUF"
SecRule REQUEST_HEADERS:X-Processor "@streq MULTIPART" "id:3,phase:1,pass,nolog,ctl:requestBodyProcessor=MULTIPART"
SecRule REQUEST_HEADERS:X-Processor "@streq JSON" "id:4,phase:1,pass,nolog,ctl:requestBodyProcessor=JSON"
SecRule REQUEST_HEADERS:X-Processor "@streq XML" "id:5,phase:1,pass,nolog,ctl:requestBodyProcessor=XML"
SecRule REQUEST_HEADERS:X-Processor "@streq RAW" "id:6,phase:1,pass,nolog,ctl:requestBodyProcessor=RAW"
SecRule ARGS_POST|ARGS_COMBINED_SIZE|REQUEST_BODY "@unconditionalMatch" "id:7,phase:2,pass,log"
SecRule FILES|FILES_SIZES|FILES_TMP_CONTENT|FILES_COMBINED_SIZE "@unconditionalMatch" "id:8,phase:2,pass,log"
SecRule MULTIPART_PART_HEADERS|MULTIPART_STRICT_ERROR|XML:/*|XML://@* "@unconditionalMatch" "id:9,phase:2,pass,log"
SecRule REQBODY_ERROR|REQBODY_ERROR_MSG|REQBODY_PROCESSOR_ERROR_MSG "@unconditionalMatch" "id:10,phase:2,pass,log"
SecRule INBOUND_DATA_ERROR|URLENCODED_ERROR "@unconditionalMatch" "id:11,phase:2,pass,log"
SecRule FULL_REQUEST_LENGTH "@unconditionalMatch" "id:12,phase:2,pass,log"
"#;
/// The last of the rules, whose value grows with what a body decodes to, and with the headers.
const LENGTH_RULE: u32 = 12;

fn program() -> &'static Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let limits =
            Limits { matches_per_rule_max: 64, match_value_bytes_max: 4_096, ..Limits::default() };
        Arc::new(build(RULES.to_owned(), limits))
    })
}

/// A plain body and the same one compressed are read alike; any bytes taken for a stream of that coding
/// become no more than their length allows for.
pub(crate) fn decoding(choice: usize, processor: Processor, content_type: &[u8], body: &[u8]) {
    let Some((names, encode)) = choice.checked_sub(1).and_then(|index| CODINGS.get(index)) else {
        return;
    };
    let plain = Request { processor, content_type, coding: "identity", body };
    let coded = encode(body);
    let compressed = Request { coding: names, body: &coded, ..plain };
    assert_eq!(compressed.outcome(), plain.outcome(), "{names} of the body");

    let stream = Request { coding: names, ..plain };
    let (_, length) = stream.send();
    let decoded_max = RATIO_BYTES_FREE.max(body.len() * Limits::default().decoded_ratio_max);
    let beside = 256 + content_type.len();
    assert!(length <= decoded_max + beside, "{length} bytes of {} in {names}", body.len());
    assert_eq!(stream.outcome(), stream.outcome(), "{names}, read twice");
}

/// One request with a body.
#[derive(Clone, Copy, Debug)]
struct Request<'b> {
    processor: Processor,
    content_type: &'b [u8],
    coding: &'b str,
    body: &'b [u8],
}

impl Request<'_> {
    /// Sends it, and says how many bytes the request has once it is decoded.
    fn send(&self) -> (Transaction, usize) {
        let mut transaction = fresh(program());
        start(&mut transaction);
        transaction.request_line(b"POST", b"/", b"HTTP/1.1");
        transaction.request_header(b"X-Processor", self.processor.name().as_bytes());
        transaction.request_header(b"Content-Type", self.content_type);
        transaction.request_header(b"Content-Encoding", self.coding.as_bytes());
        transaction.evaluate_request_headers();
        transaction.request_body(self.body);
        transaction.evaluate_request_body();
        let mut rules = transaction.matched_rules();
        let rule = rules.find(|rule| rule.id.0 == LENGTH_RULE).expect("it always matches");
        let length = String::from_utf8_lossy(&rule.matches[0].value).parse().expect("a number");
        drop(rules);
        (transaction, length)
    }

    /// What was read, without what the name of the coding makes longer.
    fn outcome(&self) -> (String, usize) {
        let (transaction, length) = self.send();
        let told = describe(&transaction);
        let (before, _) = told.split_once(&format!("\n{LENGTH_RULE} ")).expect("the last rule");
        (before.to_owned(), length - self.coding.len())
    }
}

fn all(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("memory can be read");
    bytes
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    all(GzEncoder::new(plain, Compression::best()))
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    all(ZlibEncoder::new(plain, Compression::best()))
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    all(DeflateEncoder::new(plain, Compression::fast()))
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    compress_to_vec(plain, CompressionLevel::Fastest)
}

/// In blocks that are not compressed (RFC 7932, 9.2), since what we use only decodes.
fn brotli(plain: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    // The first bit is the window of 64 KiB; a block has: not the last, four digits, the length less one,
    // not compressed; the last block is empty.
    for (index, block) in plain.chunks(BROTLI_BLOCK_BYTES).enumerate() {
        let length = u32::try_from(block.len() - 1).expect("bounded by the chunk");
        let header = (length << 3) | (1 << 19);
        let header = if index == 0 { header << 1 } else { header };
        stream.extend_from_slice(&header.to_le_bytes()[..3]);
        stream.extend_from_slice(block);
    }
    stream.push(if plain.is_empty() { 0b110 } else { 0b11 });
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The law compares something: what is in a compressed form is seen.
    #[test]
    fn compressed_arguments_are_seen() {
        for (names, encode) in CODINGS {
            let body = &encode(b"name=value");
            let processor = Processor::UrlEncoded;
            let request = Request { processor, content_type: b"", coding: names, body };
            let (told, _) = request.outcome();
            assert!(told.contains("ARGS_POST:name=value"), "{names}: {told}");
            assert!(told.contains("REQUEST_BODY=name=value"), "{names}: {told}");
        }
    }

    #[test]
    fn brotli_has_blocks() {
        for length in [0, 1, BROTLI_BLOCK_BYTES, BROTLI_BLOCK_BYTES + 1] {
            let coded = brotli(&vec![b'a'; length]);
            let request = Request {
                processor: Processor::Raw,
                content_type: b"",
                coding: "br",
                body: &coded,
            };
            let (transaction, _) = request.send();
            assert_eq!(transaction.request_body_taken().len(), length);
        }
    }
}

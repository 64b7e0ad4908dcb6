//! Each row is a body and everything that its processor says about it, as lines of text:
//! `a name=value` an argument, `f field/name=content` a file, `n field/name` a further name of a file,
//! `h part|line` a part's header, `t` an XML text, `@` an XML attribute, `%` invalid escapes,
//! `? …` the multipart flags, `! …` the error. Bytes are escaped as in Rust's byte strings.

use std::fmt::Write as _;

use super::{
    BodyErrorKind, BodyScratch, BodySink, Outcome, Processor, Room, UnmatchedBoundary,
    from_content_type, process, urlencoded,
};
use crate::limits::Limits;

/// Writes down what it is given.
struct Recorder {
    text: String,
    /// Calls it takes before it is full.
    room: usize,
    /// Bytes it was given.
    bytes: usize,
}

impl Recorder {
    fn new(room: usize) -> Self {
        Self { text: String::new(), room, bytes: 0 }
    }

    fn record(&mut self, mark: &str, parts: &[(&str, &[u8])]) -> Room {
        let Some(room) = self.room.checked_sub(1) else { return Room::Full };
        self.room = room;
        self.text.push_str(mark);
        for (before, bytes) in parts {
            self.bytes += bytes.len();
            write!(self.text, "{before}{}", bytes.escape_ascii()).unwrap();
        }
        self.text.push('\n');
        Room::Left
    }
}

impl BodySink for Recorder {
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        self.record("a", &[(" ", name), ("=", value)])
    }
    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room {
        self.record("f", &[(" ", field), ("/", file_name), ("=", content)])
    }
    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room {
        self.record("n", &[(" ", field), ("/", file_name)])
    }
    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room {
        self.record("h", &[(" ", part), ("|", line)])
    }
    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.record("t", &[(" ", text)])
    }
    fn xml_attribute(&mut self, _name: &[u8], value: &[u8]) -> Room {
        self.record("@", &[(" ", value)])
    }
}

/// Counts without keeping, for bodies that are too large to write down.
#[derive(Default)]
struct Counter {
    bytes: usize,
    calls: usize,
    calls_max: usize,
}

impl Counter {
    fn count(&mut self, bytes: usize) -> Room {
        if self.calls >= self.calls_max {
            return Room::Full;
        }
        self.calls += 1;
        self.bytes += bytes;
        Room::Left
    }
}

impl BodySink for Counter {
    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        self.count(name.len() + value.len())
    }
    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room {
        self.count(field.len() + file_name.len() + content.len())
    }
    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room {
        self.count(field.len() + file_name.len())
    }
    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room {
        self.count(part.len() + line.len())
    }
    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.count(text.len())
    }
    fn xml_attribute(&mut self, _name: &[u8], value: &[u8]) -> Room {
        self.count(value.len())
    }
}

/// Small enough for rows to reach them.
fn small_limits() -> Limits {
    Limits {
        json_depth_max: 4,
        xml_depth_max: 4,
        xml_nodes_max: 8,
        multipart_parts_max: 4,
        multipart_part_headers_max: 3,
        ..Limits::default()
    }
}

fn flags(outcome: &Outcome) -> Vec<&'static str> {
    let flags = &outcome.multipart;
    let names = [
        (flags.boundary_quoted, "boundary_quoted"),
        (flags.boundary_whitespace, "boundary_whitespace"),
        (flags.data_before, "data_before"),
        (flags.data_after, "data_after"),
        (flags.header_folding, "header_folding"),
        (flags.invalid_header_folding, "invalid_header_folding"),
        (flags.lf_line, "lf_line"),
        (flags.crlf_lf_lines(), "crlf_lf_lines"),
        (flags.missing_semicolon, "missing_semicolon"),
        (flags.invalid_quoting, "invalid_quoting"),
        (flags.invalid_part, "invalid_part"),
        (flags.file_limit_exceeded, "file_limit_exceeded"),
        (flags.unmatched_boundary == UnmatchedBoundary::Unresolved, "unmatched_boundary=1"),
        (flags.unmatched_boundary == UnmatchedBoundary::Resolved, "unmatched_boundary=2"),
        (flags.strict_error(), "strict"),
    ];
    names.into_iter().filter_map(|(set, name)| set.then_some(name)).collect()
}

fn describe(processor: Processor, content_type: &str, body: &[u8], room: usize) -> String {
    let mut sink = Recorder::new(room);
    let mut scratch = BodyScratch::default();
    let content_type = content_type.as_bytes();
    let limits = small_limits();
    let outcome = process(processor, content_type, body, &limits, b'&', &mut scratch, &mut sink);
    let mut text = sink.text;
    if outcome.invalid_escapes {
        text.push_str("%\n");
    }
    if !flags(&outcome).is_empty() {
        writeln!(text, "? {}", flags(&outcome).join(" ")).unwrap();
    }
    if let Some(error) = outcome.error {
        assert!(error.offset <= body.len(), "offset {} of {}", error.offset, body.len());
        writeln!(text, "! {:?}", error.kind).unwrap();
    }
    text
}

#[track_caller]
fn check(processor: Processor, content_type: &str, body: impl AsRef<[u8]>, expected: &[&str]) {
    let found = describe(processor, content_type, body.as_ref(), 100);
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found, expected, "of {}", body.as_ref().escape_ascii());
}

#[track_caller]
fn form(body: impl AsRef<[u8]>, expected: &[&str]) {
    check(Processor::UrlEncoded, "", body, expected);
}

#[track_caller]
fn json(body: impl AsRef<[u8]>, expected: &[&str]) {
    check(Processor::Json, "", body, expected);
}

#[track_caller]
fn xml(body: impl AsRef<[u8]>, expected: &[&str]) {
    check(Processor::Xml, "", body, expected);
}

/// A multipart body; `|` stands for CRLF.
#[track_caller]
fn multipart(body: &str, expected: &[&str]) {
    multipart_of("multipart/form-data; boundary=b", body, expected);
}

#[track_caller]
fn multipart_of(content_type: &str, body: &str, expected: &[&str]) {
    check(Processor::Multipart, content_type, body.replace('|', "\r\n"), expected);
}

/// Only the arguments, flags and errors of a multipart body with this `Content-Disposition`.
#[track_caller]
fn disposition(value: &str, expected: &[&str]) {
    let body = format!("--b\r\nContent-Disposition: {value}\r\n\r\nx\r\n--b--\r\n");
    let found =
        describe(Processor::Multipart, "multipart/form-data; boundary=b", body.as_bytes(), 100);
    let found: Vec<&str> = found.lines().filter(|line| !line.starts_with("h ")).collect();
    assert_eq!(found, expected, "of {value}");
}

#[test]
fn processors_have_names() {
    let names = ["URLENCODED", "MULTIPART", "JSON", "XML", "RAW"];
    for name in names {
        let of = |name: &str| Processor::from_name(name.as_bytes()).map(Processor::name);
        assert_eq!(of(name), Some(name));
        assert_eq!(of(&name.to_lowercase()), Some(name));
    }
    assert_eq!(Processor::from_name(b"YAML"), None);
}

#[test]
fn forms_are_chosen_by_content_type() {
    let rows = [
        ("application/x-www-form-urlencoded", Some(Processor::UrlEncoded)),
        (" Application/X-WWW-Form-URLEncoded; charset=utf-8", Some(Processor::UrlEncoded)),
        ("application/x-www-form-urlencodedx", Some(Processor::UrlEncoded)),
        ("multipart/form-data", Some(Processor::Multipart)),
        ("MULTIPART/FORM-DATA;boundary=x", Some(Processor::Multipart)),
        ("multipart/mixed; boundary=x", None),
        ("application/json", None),
        ("text/xml", None),
        ("", None),
    ];
    for (value, processor) in rows {
        assert_eq!(from_content_type(value.as_bytes()), processor, "of {value}");
    }
}

#[test]
fn empty_and_raw_bodies_say_nothing() {
    for processor in [Processor::UrlEncoded, Processor::Multipart, Processor::Json, Processor::Xml]
    {
        check(processor, "", "", &[]);
    }
    check(Processor::Raw, "", "a=b", &[]);
}

#[test]
fn urlencoded() {
    form("a=1&b=2", &["a a=1", "a b=2"]);
    form("a", &["a a="]);
    form("a=", &["a a="]);
    form("=v", &["a =v"]);
    form("=", &["a ="]);
    form("&&a=1&&&b&", &["a a=1", "a b="]);
    form("a=b=c", &["a a=b=c"]);
    form("a=1&a=2", &["a a=1", "a a=2"]);
    form("a+b=c+d", &["a a b=c d"]);
    form("%61%2b=%26%3d+%2B", &["a a+=&= +"]);
    form("a=%00b\0", &["a a=\\x00b\\x00"]);
    form("a=%e2%82%AC", &["a a=\\xe2\\x82\\xac"]);
    form("a=%4", &["a a=%4", "%"]);
    form("a=%", &["a a=%", "%"]);
    form("%zz=%g1%41%%41", &["a %zz=%g1A%A", "%"]);
    form("a=%2541", &["a a=%41"]);
    form("a=1;b=2", &["a a=1;b=2"]);
    form("a=1\r\n", &["a a=1\\r\\n"]);
}

#[test]
fn urlencoded_takes_another_separator() {
    let mut sink = Recorder::new(9);
    urlencoded::parse(b"a=1;b=2&c", b';', &mut BodyScratch::default(), &mut sink);
    assert_eq!(sink.text, "a a=1\na b=2&c\n");
}

#[test]
fn a_full_sink_is_an_error() {
    let rows = [
        (Processor::UrlEncoded, "a=1&b=2&c=3", "a a=1\na b=2\n! ArgumentsFull\n"),
        (Processor::Json, "[1,2,3]", "a json.array_0=1\na json.array_1=2\n! ArgumentsFull\n"),
        (Processor::Xml, "<a b='1' c='2' d='3'/>", "@ 1\n@ 2\n! XmlNodes\n"),
        (Processor::Xml, "<a><b>1</b><c>2</c>3</a>", "t 1\nt 2\n! XmlNodes\n"),
    ];
    for (processor, body, expected) in rows {
        assert_eq!(describe(processor, "", body.as_bytes(), 2), expected, "of {body}");
    }
    let file =
        "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"g\"\r\n\r\nx\r\n--b--";
    let found =
        describe(Processor::Multipart, "multipart/form-data; boundary=b", file.as_bytes(), 1);
    assert_eq!(
        found,
        "h f|Content-Disposition: form-data; name=\\\"f\\\"; filename=\\\"g\\\"\n\
         ? file_limit_exceeded strict\n! MultipartFilesFull\n"
    );
}

#[test]
fn json_values() {
    json("{\"a\":{\"b\":[10,true]}}", &["a json.a.b.array_0=10", "a json.a.b.array_1=true"]);
    json(
        " [ 1 , [ null , false ] ] ",
        &["a json.array_0=1", "a json.array_1.array_0=", "a json.array_1.array_1=false"],
    );
    json("\"x\"", &["a json=x"]);
    json("-0.5e+10", &["a json=-0.5e+10"]);
    json("null", &["a json="]);
    json("\u{feff}{\"a\":1}", &["a json.a=1"]);
    json("{\"a\":1,\"a\":2}", &["a json.a=1", "a json.a=2"]);
    json("{\"a.b\":1,\"\":2}", &["a json.a.b=1", "a json.=2"]);
    json(
        "[{\"a\":1},{\"a\":2},3]",
        &["a json.array_0.a=1", "a json.array_1.a=2", "a json.array_2=3"],
    );
}

#[test]
fn json_empty_containers_show_their_names() {
    json("{}", &["a json="]);
    json("[ ]", &["a json="]);
    json("{\"<script>\":{}}", &["a json.<script>="]);
    json("{\"a\":[],\"b\":[{}]}", &["a json.a=", "a json.b.array_0="]);
}

#[test]
fn json_strings() {
    json(r#""\"\\\/\b\f\n\r\t""#, &[r#"a json=\"\\/\x08\x0c\n\r\t"#]);
    json(r#""\u0041\u00e9\u20ac\ud83d\ude00""#, &[r"a json=A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"]);
    json(r#""$\u007bjndi\u007D\u0000""#, &[r"a json=${jndi}\x00"]);
    json(r#""\ud800x""#, &[r"a json=\xed\xa0\x80x"]);
    json(r#""\ud800\u0041\udc00""#, &[r"a json=\xed\xa0\x80A\xed\xb0\x80"]);
    json(r#""\udc00\udc00""#, &[r"a json=\xed\xb0\x80\xed\xb0\x80"]);
    json(r#"{"\u0061\n":1}"#, &[r"a json.a\n=1"]);
    json(b"\"\xff\xc0\xaf\x7f\"", &[r"a json=\xff\xc0\xaf\x7f"]);
}

#[test]
fn json_errors_keep_what_was_read() {
    // In strings, where reading goes on.
    json("[\"a\tb\",1]", &["a json.array_0=a\\tb", "a json.array_1=1", "! JsonString"]);
    json("\"\u{1f}\"", &["a json=\\x1f", "! JsonString"]);
    json(r#"["\x41\u12",1]"#, &[r"a json.array_0=\\x41\\u12", "a json.array_1=1", "! JsonString"]);
    // Everywhere else, where the rest is shown as it is.
    json("{\"a\":1,}", &["a json.a=1", "a json.a=}", "! JsonSyntax"]);
    json("[1,]", &["a json.array_0=1", "a json.array_1=]", "! JsonSyntax"]);
    json("[1 2]", &["a json.array_0=1", "a json.array_0=2]", "! JsonSyntax"]);
    json("{'a':\"<x>\"}", &[r#"a json=\'a\':\"<x>\"}"#, "! JsonSyntax"]);
    json("{\"a\" 1}", &["a json.a=1}", "! JsonSyntax"]);
    json("[01]", &["a json.array_0=01]", "! JsonSyntax"]);
    json("[1.]", &["a json.array_0=1.]", "! JsonSyntax"]);
    json("[-]", &["a json.array_0=-]", "! JsonSyntax"]);
    json("[1e]", &["a json.array_0=1e]", "! JsonSyntax"]);
    json("[NaN]", &["a json.array_0=NaN]", "! JsonSyntax"]);
    json("[tru]", &["a json.array_0=tru]", "! JsonSyntax"]);
    json("[1}", &["a json.array_0=1", "a json.array_0=}", "! JsonSyntax"]);
    json("{\"a\":1]", &["a json.a=1", "a json.a=]", "! JsonSyntax"]);
    json("/*x*/1", &["a json=/*x*/1", "! JsonSyntax"]);
    json("test", &["a json=test", "! JsonSyntax"]);
    json("{\"a\":1} {\"b\":2}", &["a json.a=1", r#"a json={\"b\":2}"#, "! JsonTrailing"]);
    json("{\"a\":1}\n{\"b\":2}\n", &["a json.a=1", r#"a json={\"b\":2}"#, "! JsonTrailing"]);
    json("1 \0", &["a json=1", "a json=\\x00", "! JsonTrailing"]);
}

#[test]
fn json_that_was_cut_shows_its_end() {
    json("{\"a\":\"<script", &["a json.a=<script", "! JsonTruncated"]);
    json("{\"a\":\"x\\", &[r"a json.a=x\\", "! JsonString"]);
    json("{\"<script", &["a json.<script=", "! JsonTruncated"]);
    json("{\"a\"", &["a json.a=", "! JsonTruncated"]);
    json("{\"a\":", &["a json.a=", "! JsonTruncated"]);
    json("{", &["a json=", "! JsonTruncated"]);
    json("{\"a\":[", &["a json.a=", "! JsonTruncated"]);
    json("{\"a\":1,", &["a json.a=1", "! JsonTruncated"]);
    json("[1,", &["a json.array_0=1", "! JsonTruncated"]);
    json("[1", &["a json.array_0=1", "! JsonTruncated"]);
    json(" ", &["! JsonTruncated"]);
}

#[test]
fn json_nesting_is_limited() {
    json("[[[[1]]]]", &["a json.array_0.array_0.array_0.array_0=1"]);
    json("[[[[[1]]]]]", &["a json.array_0.array_0.array_0.array_0=[1]]]]]", "! JsonDepth"]);
    json("[[[[{}]]]]", &["a json.array_0.array_0.array_0.array_0={}]]]]", "! JsonDepth"]);
}

#[test]
fn xml_texts_and_attributes() {
    xml("<a>x</a>", &["t x"]);
    xml("<a b=\"1\" c = '2'>x<d e='3'/>y</a>", &["@ 1", "@ 2", "t x", "@ 3", "t y"]);
    xml("<?xml version=\"1.0\"?>\n<a>\n <b>  x y\n</b>\n</a>\n", &["t x y"]);
    xml("<a xmlns:s='u'><s:b/></a >", &["@ u"]);
    xml("<a/>", &[]);
    xml("\u{feff}<a>x</a>", &["t x"]);
    xml("<a b='x>y'>]]&gt;</a>", &["@ x>y", "t ]]>"]);
    xml(b"<\xc3\xa9>\xff\0</\xc3\xa9>", &["t \\xff\\x00"]);
}

#[test]
fn xml_text_is_what_an_application_reads() {
    xml("<a>UNI<!-- x -->ON<?p q?> SEL<![CDATA[ECT <b>]]>&#33;</a>", &["t UNION SELECT <b>!"]);
    xml("<a><![CDATA[<script>&lt;]]></a>", &["t <script>&lt;"]);
    xml("<a><!-- <b>x</b> --></a>", &[]);
    xml("<a>UNI<b/>ON</a>", &["t UNI", "t ON"]);
}

#[test]
fn xml_references() {
    xml("<a b='&lt;&gt;&amp;&quot;&apos;'>&lt;</a>", &["@ <>&\\\"\\\'", "t <"]);
    xml("<a>&#60;&#x3C;&#x3c;&#00000000000000000000060;</a>", &["t <<<<"]);
    xml("<a>&amp;lt;</a>", &["t &lt;"]);
    xml("<a>&#8364;</a>", &["t \\xe2\\x82\\xac"]);
    xml("<a>&nbsp;x</a>", &["t &nbsp;x", "! XmlReference"]);
    xml("<a b='&#;'>&</a>", &["@ &#;", "t &", "! XmlReference"]);
    xml(
        "<a>&#xd800;&#1114112;&#99999999999;&#6</a>",
        &["t &#xd800;&#1114112;&#99999999999;&#6", "! XmlReference"],
    );
}

#[test]
fn xml_entities_are_never_expanded() {
    xml("<!DOCTYPE a><a>x</a>", &["t x"]);
    xml("<!DOCTYPE a [<?x ]> ?>]><a>x</a>", &["t x"]);
    xml("<!DOCTYPE a PUBLIC \"-//X>\" 'u' [<!ELEMENT a ANY> <!-- ]> -->]><a>x</a>", &["t x"]);
    xml(
        "<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><a>&e;</a>",
        &["t file:///etc/passwd", "t &e;", "! XmlEntities"],
    );
    xml(
        "<!DOCTYPE a [<!ENTITY l '&#60;x'><!ENTITY m '&l;&l;'>]><a b='&m;'>x</a>",
        &["t <x", "t &l;&l;", "@ &m;", "t x", "! XmlEntities"],
    );
    xml("<!DOCTYPE a [ <a>x</a>", &["t DOCTYPE a [ <a>x</a>", "! XmlTruncated"]);
    xml("<!x><a/>", &["! XmlSyntax"]);
}

#[test]
fn xml_that_is_not_well_formed_is_read_on() {
    xml("<a><b>x</a>y</b>", &["t x", "t y", "! XmlSyntax"]);
    xml("<a>x", &["t x", "! XmlTruncated"]);
    xml("<a b='x", &["@ x", "t x", "! XmlTruncated"]);
    xml("<a b", &["! XmlSyntax"]);
    xml("<a b c=x d>y</a>", &["@ x", "t y", "! XmlSyntax"]);
    xml("<a b='1<2'/>", &["@ 1<2", "! XmlSyntax"]);
    xml("<a <b>x</b></a>", &["t x", "! XmlSyntax"]);
    xml("<a>1 < 2</a>", &["t 1 < 2", "! XmlSyntax"]);
    xml("<a><!-- x", &["t x", "! XmlTruncated"]);
    xml("<a><![CDATA[x]]", &["t x]]", "! XmlTruncated"]);
    xml("<a>x</a", &["t x", "t a", "! XmlTruncated"]);
    xml("x<a>y</a>z", &["t x", "t y", "t z", "! XmlSyntax"]);
    xml("test", &["t test", "! XmlSyntax"]);
    xml("<?x y?> ", &["! XmlSyntax"]);
    xml("</a>", &["! XmlSyntax"]);
    xml("<", &["t <", "! XmlSyntax"]);
    xml("<a / = \" >x</a>", &["@  >x</a>", "t >x</a>", "! XmlTruncated"]);
    xml("<a \" '>x</a>", &["t x", "! XmlSyntax"]);
}

#[test]
fn xml_encodings() {
    let utf16 = |big: bool, mark: bool, text: &str| -> Vec<u8> {
        let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    for (big, mark) in [(true, true), (true, false), (false, true), (false, false)] {
        xml(
            utf16(big, mark, "<a b='\u{e9}'>x\u{1f600}</a>"),
            &["@ \\xc3\\xa9", "t x\\xf0\\x9f\\x98\\x80"],
        );
    }
    xml(utf16(true, true, "<?xml version='1.0' encoding='UTF-16'?><a>x</a>"), &["t x"]);
    // The place of an error is one in the body, not in its longer form as UTF-8.
    let text = "\u{20ac}".repeat(4);
    xml(
        utf16(true, false, &format!("<a>{text}")),
        &[&format!("t {}", text.as_bytes().escape_ascii()), "! XmlTruncated"],
    );
    xml("<?xml version='1.0' encoding='Utf-8'?><a>x</a>", &["t x"]);
    for name in ["utf-7", "utf-16", "IBM037", "x"] {
        let body = format!("<?xml version='1.0' encoding=\"{name}\" ?><a>x</a>");
        xml(body, &["t x", "! XmlEncoding"]);
    }
}

#[test]
fn xml_is_limited() {
    xml("<a><b><c><d>x</d></c></b></a>", &["t x"]);
    xml("<a><b><c><d><e><f>x</f></e></d></c></b>y</a>", &["t x", "t y", "! XmlDepth"]);
    let full = ["t 1"; 8];
    xml(format!("<a>{}</a>", "<b>1</b>".repeat(8)), &full);
    let mut over = full.to_vec();
    over.push("! XmlNodes");
    xml(format!("<a>{}</a>", "<b>1</b>".repeat(9)), &over);
}

const FIELD: &str = "Content-Disposition: form-data; name=\"a\"";

#[test]
fn multipart_parts() {
    multipart(
        &format!("--b|{FIELD}||x|y|--b--|"),
        &[r#"h a|Content-Disposition: form-data; name=\"a\""#, r"a a=x\r\ny"],
    );
    multipart(
        &format!(
            "--b|{FIELD}; filename=\"f.txt\"|Content-Type: text/plain||x||--b|{FIELD}||y|--b--"
        ),
        &[
            r#"h a|Content-Disposition: form-data; name=\"a\"; filename=\"f.txt\""#,
            "h a|Content-Type: text/plain",
            r"f a/f.txt=x\r\n",
            r#"h a|Content-Disposition: form-data; name=\"a\""#,
            "a a=y",
        ],
    );
    multipart(
        &format!("--b|{FIELD}|||--b--|"),
        &[r#"h a|Content-Disposition: form-data; name=\"a\""#, "a a="],
    );
    multipart("--b--|", &[]);
    multipart(
        "--b|content-disposition:form-data;name=a||x|--b--|",
        &["h a|content-disposition:form-data;name=a", "a a=x"],
    );
}

#[test]
fn multipart_bytes_without_files_are_counted() {
    let body = "--b\r\nContent-Disposition: form-data; name=f; filename=g\r\n\r\n12345\r\n--b--";
    let outcome = process(
        Processor::Multipart,
        b"multipart/form-data; boundary=b",
        body.as_bytes(),
        &Limits::default(),
        b'&',
        &mut BodyScratch::default(),
        &mut Recorder::new(9),
    );
    assert_eq!(outcome.error, None);
    assert_eq!(outcome.bytes_without_files, body.len() - 5);
}

#[test]
fn multipart_dispositions() {
    disposition("form-data; name=\"a\"", &["a a=x"]);
    disposition("form-data; NAME = \"a\" ; FileName=\"f\"", &["f a/f=x"]);
    disposition(r#"form-data; name="a\"b\\c\d""#, &[r#"a a\"b\\c\\d=x"#]);
    disposition("form-data; name=\"a;b=c\"", &["a a;b=c=x"]);
    disposition("form-data; name=a; filename=f.txt", &["f a/f.txt=x"]);
    disposition("form-data; name=\"a\"; filename=\"\"", &["a a=x"]);
    disposition("form-data; name=\"a'b\"", &["a a\\'b=x"]);
    disposition(
        "form-data; name=\"a\"; filename=\"f\"; filename*=UTF-8''g+%2Eph%70",
        &["f a/f=x", "n a/g+.php"],
    );
    // Errors, in none of which anything disappears.
    disposition("form-data; name='a'", &["a a=x", "? invalid_quoting strict"]);
    disposition("form-data; name=a'b", &["a a\\'b=x", "? invalid_quoting strict"]);
    disposition(
        "form-data; name=\"a\"; filename*=utf-8'en'g%20h",
        &["a a=x", "f a/g h=x", "? strict", "! MultipartFileNameExtended"],
    );
    disposition(
        "form-data; name=\"a\"; filename=f; filename*=g%zz",
        &["a a=x", "f a/f=x", "n a/g%zz", "? strict", "! MultipartDisposition"],
    );
    disposition(
        "form-data; name=\"a\"; name=\"b\"",
        &["a b=", "a a=x", "? strict", "! MultipartDispositionRepeated"],
    );
    disposition(
        "form-data; name=\"a\"; filename=f; filename=\"g\"",
        &["n a/g", "a a=x", "f a/f=x", "? strict", "! MultipartDispositionRepeated"],
    );
    // A server that goes by the first one takes the part for a field.
    disposition(
        "form-data; name=\"a\"; filename=\"\"; filename=\"f\"",
        &["a a=x", "f a/f=x", "? strict", "! MultipartDispositionRepeated"],
    );
    disposition(
        "form-data; name=\"\"; name=\"a\"",
        &["a a=x", "? strict", "! MultipartDispositionRepeated"],
    );
    disposition(
        "form-data; name=\"a\"; filename=f; filename*=g",
        &["a a=x", "f a/f=x", "n a/g", "? strict", "! MultipartDisposition"],
    );
    let broken = |expected: &'static str| [expected, "? strict", "! MultipartDisposition"];
    disposition("attachment; name=\"a\"", &broken("a a=x"));
    disposition("form-data; name=\"a\"; size=3", &broken("a a=x"));
    disposition("form-data; name=\"a\";", &broken("a a=x"));
    disposition("form-data; name=a b", &broken("a a b=x"));
    disposition("form-data; x; name=a", &broken("a a=x"));
    disposition(
        "form-data; name=\"a\"b\"; filename=f",
        &["a a=x", "f a/f=x", "? invalid_quoting strict", "! MultipartDisposition"],
    );
    disposition(
        "form-data; name=\"a",
        &["a a=x", "? invalid_quoting strict", "! MultipartDisposition"],
    );
    disposition("form-data", &["a =x", "? invalid_part strict", "! MultipartName"]);
    disposition("form-data; name=\"\"", &["a =x", "? invalid_part strict", "! MultipartName"]);
    disposition(
        "form-data; filename=f",
        &["a =x", "f /f=x", "? invalid_part strict", "! MultipartName"],
    );
}

#[test]
fn multipart_part_headers() {
    let header = |line: &str, expected: &[&str]| {
        let body =
            format!("--b\r\nContent-Disposition: form-data; name=a\r\n{line}\r\n\r\nx\r\n--b--");
        let found =
            describe(Processor::Multipart, "multipart/form-data; boundary=b", body.as_bytes(), 99);
        let mut lines = found.lines();
        assert_eq!(lines.next(), Some("h a|Content-Disposition: form-data; name=a"));
        assert_eq!(lines.collect::<Vec<_>>(), expected, "of {line:?}");
    };
    header(
        "content-disposition: form-data",
        &["h a|content-disposition: form-data", "a a=x", "? strict", "! MultipartHeaderRepeated"],
    );
    header("A: b\r\n\tc", &["h a|A: b c", "a a=x", "? header_folding strict"]);
    header(
        "A: b\r\n\u{b}c",
        &["h a|A: b c", "a a=x", "? header_folding invalid_header_folding strict"],
    );
    header("nonsense", &["h a|nonsense", "a a=x", "? strict", "! MultipartHeaderColon"]);
    header(": x", &["h a|: x", "a a=x", "? strict", "! MultipartHeaderName"]);
    header("A\u{e}: x", &["h a|A\\x0e: x", "a a=x", "? strict", "! MultipartHeaderName"]);
    header("A: \0", &["h a|A: \\x00", "a a=x", "? strict", "! MultipartHeaderNul"]);
    header("A: b\nB: c", &["h a|A: b", "h a|B: c", "a a=x", "? lf_line crlf_lf_lines strict"]);
    header(
        "A: b\r\nB: c\r\nC: d",
        &["h a|A: b", "h a|B: c", "a a=x", "? strict", "! MultipartHeaders"],
    );
    header(
        &format!("A: {}", "b".repeat(4094)),
        &[&format!("h a|A: {}", "b".repeat(4094)), "a a=x", "? strict", "! MultipartHeaderLength"],
    );
}

#[test]
fn multipart_headers_that_lead_servers_astray_are_errors() {
    // The first header is none for a strict server and names a file for a lenient one.
    multipart(
        &format!("--b|\u{e}{FIELD}; filename=\"f\"|{FIELD}||x|--b--"),
        &[
            "a a=",
            r#"h a|\x0eContent-Disposition: form-data; name=\"a\"; filename=\"f\""#,
            r#"h a|Content-Disposition: form-data; name=\"a\""#,
            "a a=x",
            "f a/f=x",
            "? strict",
            "! MultipartHeaderName",
        ],
    );
    multipart(
        &format!("--b|{FIELD}|{FIELD}||x|--b--"),
        &[
            "a a=",
            r#"h a|Content-Disposition: form-data; name=\"a\""#,
            r#"h a|Content-Disposition: form-data; name=\"a\""#,
            "a a=x",
            "? strict",
            "! MultipartDispositionRepeated",
        ],
    );
    multipart(
        &format!("--b| {FIELD}||x|--b--"),
        &[
            r#"h a| Content-Disposition: form-data; name=\"a\""#,
            "a a=x",
            "? strict",
            "! MultipartHeaderFolding",
        ],
    );
    multipart("--b||x|--b--", &["a =x", "? invalid_part strict", "! MultipartDispositionMissing"]);
    multipart("--b|x|--b--", &["h |x", "a =x", "? invalid_part strict", "! MultipartHeaderColon"]);
    // A boundary where the body should begin.
    multipart(
        &format!("--b|{FIELD}||--b--"),
        &[r#"h a|Content-Disposition: form-data; name=\"a\""#, "a a=", "? invalid_part strict"],
    );
}

/// The lines that [`FIELD`] makes before the ones of a row.
#[track_caller]
fn after_field(content_type: &str, body: &str, expected: &[&str]) {
    let mut all = vec![r#"h a|Content-Disposition: form-data; name=\"a\""#];
    all.extend(expected);
    multipart_of(content_type, body, &all);
}

#[test]
fn multipart_boundary_lines() {
    let plain = "multipart/form-data; boundary=b";
    let body = |text: &str| text.replace("FIELD", FIELD);
    let row = |text: &str, expected: &[&str]| after_field(plain, &body(text), expected);
    row("x|--b|FIELD||x|--b--", &["a a=x", "? data_before strict"]);
    row("|--b|FIELD||x|--b--", &["a a=x", "? data_before strict"]);
    row("--b|FIELD||x|--b--|y", &["a a=x", "? data_after strict"]);
    row("--b|FIELD||x|--b--||", &["a a=x", "? data_after strict"]);
    row("--b\nFIELD\n\nx\n--b--\n", &["a a=x", "? lf_line strict"]);
    row("--b|FIELD\n\nx\n--b--\n", &["a a=x", "? lf_line crlf_lf_lines strict"]);
    row("--b\nFIELD||x\n--b--\n", &["a a=x", "? lf_line crlf_lf_lines strict"]);
    row("--c|--b|FIELD||x|--b--", &["a a=x", "? data_before unmatched_boundary=2 strict"]);
    row("--b|FIELD||x\n--b--", &["a a=x", "? lf_line crlf_lf_lines strict"]);
    row("--b|FIELD||x|--b--y|", &["a a=x", "? strict", "! MultipartBoundaryLine"]);
    row(
        "--b|FIELD||x|--b--y||z|--b--",
        &["a a=x", "a =z", "? invalid_part strict", "! MultipartBoundaryLine"],
    );
    row("--b|FIELD||x|--b", &["a a=x", "? strict", "! MultipartBoundaryLine"]);
    row("--b |FIELD||x|--b--", &["a a=x", "? strict", "! MultipartBoundaryLine"]);
    row("--bb|FIELD||x|--b--", &["a a=x", "? strict", "! MultipartBoundaryLine"]);
    row("--b|FIELD||x|--c|y|--b--", &[r"a a=x\r\n--c\r\ny", "? unmatched_boundary=2"]);
    row("--b|FIELD||x--b|y|--b--", &[r"a a=x--b\r\ny", "? unmatched_boundary=2"]);
    row("--b|FIELD||--|x|--b--", &[r"a a=--\r\nx"]);
    row(
        "--b|FIELD||x|--c",
        &[r"a a=x\r\n--c", "? unmatched_boundary=1 strict", "! MultipartFinalBoundary"],
    );
    // A bare CR ends no line.
    row(
        "--b|FIELD||x\r--b--",
        &[r"a a=x\r--b--", "? unmatched_boundary=1 strict", "! MultipartFinalBoundary"],
    );
}

#[test]
fn multipart_that_was_cut_is_shown() {
    let plain = "multipart/form-data; boundary=b";
    let cut = |text: &str, line: &str| {
        let body = format!("--b|{FIELD}||{text}");
        after_field(plain, &body, &[line, "? strict", "! MultipartFinalBoundary"]);
    };
    cut("<script", "a a=<script");
    cut("x|", r"a a=x\r\n");
    cut("", "a a=");
    multipart(
        &format!("--b|{FIELD}||x|--b|Content-Disposition: form-data; name=\"<scr"),
        &[
            r#"h a|Content-Disposition: form-data; name=\"a\""#,
            "a a=x",
            r#"h <scr|Content-Disposition: form-data; name=\"<scr"#,
            r#"a <scr=Content-Disposition: form-data; name=\"<scr"#,
            "? invalid_quoting strict",
            "! MultipartFinalBoundary",
        ],
    );
    multipart("nothing", &["a =nothing", "? strict", "! MultipartNoBoundaries"]);
    let many = format!("--b||{}", "x|--b||".repeat(4));
    let found = describe(
        Processor::Multipart,
        plain,
        many.replace('|', "\r\n").replace("\r\n\r\n", &format!("\r\n{FIELD}\r\n\r\n")).as_bytes(),
        100,
    );
    assert_eq!(found.matches("a a=x\n").count(), 4);
    assert!(found.ends_with("! MultipartParts\n"), "{found}");
}

#[test]
fn multipart_content_types() {
    let row = |content_type: &str, boundary: &str, expected: &[&str]| {
        let body = format!("--{boundary}|{FIELD}||x|--{boundary}--");
        after_field(content_type, &body, &[&["a a=x"], expected].concat());
    };
    row("multipart/form-data; boundary=--b", "--b", &[]);
    row("Multipart/Form-Data;boundary=b", "b", &[]);
    row("multipart/form-data; boundary=b; charset=utf-8", "b", &[]);
    row("multipart/form-data; charset=utf-8; boundary=b", "b", &[]);
    row("multipart/form-data; boundary=\"b\"", "b", &["? boundary_quoted strict"]);
    row("multipart/form-data; boundary=\"b c\"; x=y", "b c", &["? boundary_quoted strict"]);
    row("multipart/form-data; boundary =b", "b", &["? boundary_whitespace strict"]);
    row("multipart/form-data; boundary=\tb", "b", &["? boundary_whitespace strict"]);
    row("multipart/form-data; boundary=b ; x=y", "b", &["? boundary_whitespace strict"]);
    row("multipart/form-data boundary=b", "b", &["? missing_semicolon strict"]);
    let broken = [
        ("multipart/form-data; Boundary=b", "MultipartBoundaryMalformed"),
        ("multipart/form-data; xboundary=b", "MultipartBoundaryMalformed"),
        ("multipart/form-data; x=\"y\"; boundary=b", "MultipartBoundaryMalformed"),
        ("multipart/form-data; boundaryx=b", "MultipartBoundaryMalformed"),
        ("multipart/form-data; boundary=b; boundary=c", "MultipartBoundaryRepeated"),
        ("multipart/form-data; boundary=b; BOUNDARY=b", "MultipartBoundaryRepeated"),
        ("multipart/mixed; boundary=b", "MultipartMediaType"),
    ];
    for (content_type, error) in broken {
        row(content_type, "b", &["? strict", &format!("! {error}")]);
    }
    row(
        "multipart/form-data; boundary=\"b",
        "b",
        &["? boundary_quoted strict", "! MultipartBoundaryQuote"],
    );
    row(
        "multipart/form-data; boundary=\"b\"c",
        "b",
        &["? boundary_quoted strict", "! MultipartBoundaryQuote"],
    );
    row(
        "multipart/form-data; boundary=\"b \"",
        "b ",
        &["? boundary_quoted strict", "! MultipartBoundaryCharacters"],
    );
    row("multipart/form-data; boundary=b\"", "b\"", &["? strict", "! MultipartBoundaryQuote"]);
    row("multipart/form-data; boundary=b@", "b@", &["? strict", "! MultipartBoundaryCharacters"]);
    let long = format!("multipart/form-data; boundary=b; x={}", "y".repeat(1024));
    row(&long, "b", &["? strict", "! MultipartBoundaryLength"]);
    let none = ["a =--b", "? strict", "! MultipartBoundaryMissing"];
    for content_type in [
        "multipart/form-data",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=;",
    ] {
        multipart_of(content_type, "--b", &none);
    }
}

/// Well-formed bodies of every kind, to be damaged.
const SAMPLES: [(Processor, &str, &str); 5] = [
    (Processor::UrlEncoded, "", "a=1&b%5b%5d=%20x+y&c&=d&e=%e2%82%ac"),
    (
        Processor::Json,
        "",
        r#"{"a":[1,-2.5e3,true,null,"\u0041\ud83d\ude00\n"],"b":{"c":{},"d":[]},"e":"x"}"#,
    ),
    (
        Processor::Xml,
        "",
        "<?xml version='1.0' encoding='utf-8'?><!DOCTYPE a [<!ENTITY e 'f'>]>\
         <a b=\"c&amp;\" d='e'>x<!-- y --><![CDATA[z]]>&#65;&e;<f/><?g h?></a>",
    ),
    (
        Processor::Multipart,
        "multipart/form-data; boundary=bc",
        "--bc\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--bc\r\n\
         Content-Disposition: form-data; name=\"f\\\"\"; filename='g'; filename*=utf-8''%41\r\n\
         Content-Type:\r\n text/plain\r\n\r\n--b\r\ny--bc\r\n\r\n--bc--\r\n",
    ),
    // The header is damaged as well, see below.
    (
        Processor::Multipart,
        "multipart/form-data; charset=utf-8; boundary=\"bc\"; x=y",
        "--bc\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--bc--",
    ),
];

/// A xorshift generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    /// Cuts, doubles, exchanges or overwrites something.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        let length = self.below(8).min(bytes.len() - at);
        match self.below(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + length)),
            2 => bytes.extend_from_within(at..at + length),
            3 if !bytes.is_empty() => {
                let other = self.below(bytes.len());
                bytes.swap(at, other);
            }
            _ => {
                const BYTES: &[u8] = b"\0\r\n\t &=%+;:\"'\\<>[]{}/!?-,.xu0b*\xff\xc3";
                let byte = BYTES.get(self.below(BYTES.len())).copied().unwrap();
                bytes.insert(at, byte);
            }
        }
    }
}

/// Bytes that a sink may be given of a body: its own several times over, and names of JSON paths.
fn bytes_max(body_len: usize) -> usize {
    body_len * 16 + 2 * 1024 * 1024
}

#[test]
fn damaged_bodies_are_read_without_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut scratch = BodyScratch::default();
    let limits = small_limits();
    let mut errors = 0;
    for (processor, content_type, body) in SAMPLES {
        for _ in 0..20_000 {
            let mut body = body.as_bytes().to_vec();
            let mut content_type = content_type.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                random.damage(&mut body);
            }
            if !content_type.is_empty() && random.below(4) == 0 {
                random.damage(&mut content_type);
            }
            let mut used = Recorder::new(usize::MAX);
            let outcome =
                process(processor, &content_type, &body, &limits, b'&', &mut scratch, &mut used);
            errors += usize::from(outcome.error.is_some());
            assert!(used.bytes <= bytes_max(body.len()), "of {}", body.escape_ascii());
            assert!(outcome.bytes_without_files <= body.len());
            // What a scratch was used for before changes nothing.
            let mut fresh = Recorder::new(usize::MAX);
            let again = process(
                processor,
                &content_type,
                &body,
                &limits,
                b'&',
                &mut BodyScratch::default(),
                &mut fresh,
            );
            assert_eq!((used.text, outcome), (fresh.text, again), "of {}", body.escape_ascii());
        }
    }
    // The damage is such that both outcomes occur often.
    assert!((20_000..95_000).contains(&errors), "{errors} errors");
}

#[test]
fn every_beginning_of_a_body_shows_what_it_has() {
    let marker = "MARKER";
    let rows = [
        (Processor::UrlEncoded, "", "a=1&b=MARKER&c=2"),
        (Processor::Json, "", r#"{"a":1,"b":["MARKER"],"c":2}"#),
        (Processor::Json, "", r#"{"a":1,"MARKER":{"c":2}}"#),
        (Processor::Xml, "", "<a><b>MARKER</b><c/></a>"),
        (Processor::Xml, "", "<a><b c=\"MARKER\"/></a>"),
        (Processor::Xml, "", "<a><b><![CDATA[MARKER]]></b></a>"),
        (
            Processor::Multipart,
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nMARKER\r\n--b--\r\n",
        ),
        (
            Processor::Multipart,
            "multipart/form-data; boundary=b",
            "--b\r\nContent-Disposition: form-data; name=MARKER\r\n\r\nx\r\n--b--\r\n",
        ),
    ];
    for (processor, content_type, body) in rows {
        let shown_from = body.find(marker).unwrap() + marker.len();
        for length in shown_from..=body.len() {
            let cut = body.get(..length).unwrap();
            let found = describe(processor, content_type, cut.as_bytes(), 100);
            assert!(found.contains(marker), "of {cut}: {found}");
        }
    }
}

/// Nanoseconds for each byte of `body`: the best of three, so that a busy machine does not count.
#[expect(clippy::disallowed_methods, reason = "the cost is what is tested")]
fn nanoseconds_per_byte(processor: Processor, content_type: &str, body: &[u8]) -> f64 {
    let mut scratch = BodyScratch::default();
    let mut best = f64::MAX;
    for _ in 0..3 {
        let mut sink = Counter { calls_max: usize::MAX, ..Counter::default() };
        let start = std::time::Instant::now();
        process(
            processor,
            content_type.as_bytes(),
            body,
            &Limits::default(),
            b'&',
            &mut scratch,
            &mut sink,
        );
        best = best.min(start.elapsed().as_nanos() as f64);
        assert!(sink.bytes <= bytes_max(body.len()), "{} bytes reported", sink.bytes);
    }
    best / body.len() as f64
}

#[test]
fn hostile_bodies_cost_no_more_than_a_small_multiple_of_plain_ones() {
    const SIZE: usize = 1024 * 1024;
    let fill = |start: &str, repeated: &str, end: &str| {
        format!("{start}{}{end}", repeated.repeat(SIZE / repeated.len()))
    };
    let multipart = "multipart/form-data; boundary=boundary";
    let part = "--boundary\r\nContent-Disposition: form-data; name=a";
    let header = "Content-Disposition: form-data";
    let long_key = format!("{{\"{}\":[{}", "k".repeat(SIZE / 2), "1,".repeat(SIZE / 4));
    let rows: Vec<(Processor, String, String)> = [
        (Processor::UrlEncoded, fill("", "&", "")),
        (Processor::UrlEncoded, fill("", "=&", "")),
        (Processor::UrlEncoded, fill("", "%", "")),
        (Processor::UrlEncoded, fill("", "%+", "")),
        (Processor::Json, fill("", "[", "")),
        (Processor::Json, fill("", "{\"a\":", "")),
        (Processor::Json, fill("[", "[],", "")),
        (Processor::Json, fill("\"", "\\", "")),
        (Processor::Json, fill("\"", "\\ud800", "")),
        (Processor::Json, fill("", " ", "")),
        (Processor::Json, fill("", "1", "")),
        (Processor::Json, fill("{", "\"a\":1,", "")),
        (Processor::Json, long_key),
        (Processor::Xml, fill("", "<a>", "")),
        (Processor::Xml, fill("", "<", "")),
        (Processor::Xml, fill("<a>", "&", "")),
        (Processor::Xml, fill("<a>&#", "0", ";")),
        (Processor::Xml, fill("<a>", "&#1", "")),
        (Processor::Xml, fill("<a ", "b='", "")),
        (Processor::Xml, fill("<a ", "b ", "")),
        (Processor::Xml, fill("", "<!--", "")),
        (Processor::Xml, fill("", "<!---->", "")),
        (Processor::Xml, fill("", "<![CDATA[", "")),
        (Processor::Xml, fill("", "<!DOCTYPE [\"", "")),
        (Processor::Xml, fill("<!DOCTYPE a [<!ENTITY b ", "\"c\"", "]>")),
        (Processor::Xml, fill("<a>", "</", "")),
        (Processor::Xml, fill("<a>", "</b>", "")),
        (Processor::Xml, fill("", "<?xml ", "")),
    ]
    .into_iter()
    .map(|(processor, body)| (processor, String::new(), body))
    .chain(
        [
            fill("", "\r\n--bounda", ""),
            fill(part, "\r\n--bounda", ""),
            fill("", "--boundary", ""),
            fill("", "--boundary\n", ""),
            fill("", "--boundary\r\n\r\n", ""),
            fill("", "\n", ""),
            fill("", "-", ""),
            fill("--boundary\r\nA: ", "b", "\r\n\r\n"),
            fill("--boundary\r\nA: ", "b\r\n ", "\r\n\r\n"),
            fill("--boundary\r\n", "A: b\r\n", "\r\n"),
            fill("--boundary\r\n", header, ""),
            fill(part, ";", "\r\n\r\nx"),
            fill(part, ";name=b", "\r\n\r\nx"),
            fill(part, ";filename=b", "\r\n\r\nx"),
            format!("{part}{}{}\r\n\r\nx", "a".repeat(SIZE / 2), ";filename=b".repeat(SIZE / 22)),
            format!("{part}{}{}\r\n\r\nx", "a".repeat(SIZE), "\r\nA: b".repeat(30)),
            format!("{part}{}{}\r\n\r\nx", "a".repeat(900), "\r\nA:".repeat(30)).repeat(1_000),
            fill(part, "\\\"", "\r\n\r\nx"),
            fill(&format!("{part};filename=\""), "\\", "\r\n\r\nx"),
            fill(&format!("{part}; filename*=a''"), "%", "\r\n\r\nx"),
        ]
        .map(|body| (Processor::Multipart, multipart.to_owned(), body)),
    )
    .chain([(
        Processor::Multipart,
        fill("multipart/form-data; ", "boundary=", ""),
        fill("", "\n--", ""),
    )])
    .collect();
    // A plain body of arguments that all have to be decoded.
    let plain = fill("", "name=a+plain+value%20of+some+length&", "");
    let plain = nanoseconds_per_byte(Processor::UrlEncoded, "", plain.as_bytes()).max(1.0);
    for (processor, content_type, body) in rows {
        let cost = nanoseconds_per_byte(processor, &content_type, body.as_bytes());
        let start: String = body.chars().take(40).collect();
        assert!(cost < plain * 100.0, "{processor:?} {start:?}: {cost} ns/byte, plain is {plain}");
    }
}

#[test]
fn json_names_are_bounded() {
    // Each of the elements repeats the key in its name.
    let body = format!("{{\"{}\":[{}1]}}", "k".repeat(500_000), "1,".repeat(900));
    let mut sink = Counter { calls_max: usize::MAX, ..Counter::default() };
    let mut scratch = BodyScratch::default();
    let limits = Limits::default();
    let outcome =
        process(Processor::Json, b"", body.as_bytes(), &limits, b'&', &mut scratch, &mut sink);
    assert_eq!(outcome.error.map(|error| error.kind), Some(BodyErrorKind::JsonNames));
    assert!(sink.bytes <= bytes_max(body.len()));
}

#[test]
fn multipart_names_are_bounded() {
    // Each of the file names comes with the name of the field.
    let name = "n".repeat(500_000);
    let body = format!(
        "--b\r\nContent-Disposition: form-data; name={name}{}\r\n\r\nx\r\n--b--",
        ";filename=f".repeat(900)
    );
    let mut sink = Recorder::new(usize::MAX);
    process(
        Processor::Multipart,
        b"multipart/form-data; boundary=b",
        body.as_bytes(),
        &Limits::default(),
        b'&',
        &mut BodyScratch::default(),
        &mut sink,
    );
    assert!(sink.bytes <= bytes_max(body.len()), "{} bytes reported", sink.bytes);
    // The file names themselves are all there.
    assert_eq!(sink.text.lines().filter(|line| line.starts_with("n ")).count(), 899);
    assert!(sink.text.contains("n /f\n"));
}

#[test]
fn large_buffers_are_given_back() {
    let mut scratch = BodyScratch::default();
    let body = format!("\"{}\"", "x".repeat(2 * BodyScratch::RETAINED_BYTES_MAX));
    let mut sink = Counter { calls_max: 1, ..Counter::default() };
    let limits = Limits::default();
    process(Processor::Json, b"", body.as_bytes(), &limits, b'&', &mut scratch, &mut sink);
    assert_eq!(sink.bytes, "json".len() + body.len() - 2);
    assert!(scratch.value.capacity() <= BodyScratch::RETAINED_BYTES_MAX);
}

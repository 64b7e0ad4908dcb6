//! XML.

use super::{BodyScratch, Recorder, check, process, small_limits};
use crate::body::Processor;

#[track_caller]
fn xml(body: impl AsRef<[u8]>, expected: &[&str]) {
    check(Processor::Xml, "", body, expected);
}

#[test]
fn xml_texts_and_attributes() {
    xml("<a>x</a>", &["t x"]);
    xml("<a b=\"1\" c = '2'>x<d e='3'/>y</a>", &["@ 1", "@ 2", "t x", "@ 3", "t y", "t xy"]);
    xml("<?xml version=\"1.0\"?>\n<a>\n <b>  x y\n</b>\n</a>\n", &["t x y"]);
    xml("<a xmlns:s='u'><s:b/></a >", &["@ u"]);
    xml("<a/>", &[]);
    xml("<_a>x</_a><:a>y</:a>", &["t x", "t y"]);
    xml("\u{feff}<a>x</a>", &["t x"]);
    xml("<a b='x>y'>]]&gt;</a>", &["@ x>y", "t ]]>"]);
    xml(b"<\xc3\xa9>\xff\0</\xc3\xa9>", &["t \\xff\\x00"]);
}

#[test]
fn xml_text_is_what_an_application_reads() {
    xml(
        "<a>UNI<!-- x -->ON<?p q?> SEL<![CDATA[ECT <b>]]>&#33;</a>",
        &["t x", "t p q", "t UNION SELECT <b>!", "t UNIONSELECT <b>!"],
    );
    xml("<a><![CDATA[<script>&lt;]]></a>", &["t <script>&lt;"]);
    xml("<a><!-- <b>x</b> --></a>", &["t <b>x</b>"]);
    xml("<a><!----><!-- --><? ?>x</a>", &["t x"]);
    xml("<?xml version='1.0' encoding=\"utf-8\"?><a>x</a>", &["t x"]);
    xml("<?xml version='${x}'?><a/>", &[r"t xml version=\'${x}\'"]);
    xml("<a><?xml version='1.0'?>x</a>", &[r"t xml version=\'1.0\'", "t x"]);
}

/// Each form that a parser makes of texts and elements side by side, unless another value contains it.
#[test]
fn xml_texts_with_elements_among_them() {
    xml("<a>UNI<b/>ON</a>", &["t UNI", "t ON", "t UNION"]);
    xml("<a>UNI<b>x</b>ON</a>", &["t UNI", "t x", "t ON", "t UNION", "t UNIxON"]);
    xml("<a>UNI<b>ON</b></a>", &["t UNI", "t ON", "t UNION"]);
    xml("<a>UNI <b/> ON</a>", &["t UNI", "t ON", "t UNION", "t UNI  ON"]);
    xml("<a>UNI <b>x</b> ON</a>", &["t UNI", "t x", "t ON", "t UNI  ON", "t UNION", "t UNI x ON"]);
    xml("<a>UNI<![CDATA[ ]]>ON</a>", &["t UNI ON"]);
    xml("<a>UNI <![CDATA[ ]]>\u{a0}ON</a>", &["t UNI  \\xc2\\xa0ON", "t UNI ON"]);
    xml("<a>UNI <!-- -->ON</a>", &["t UNI ON", "t UNION"]);
    xml("<a>U<b>N<c/>I</b>ON</a>", &["t U", "t N", "t I", "t ON", "t UON", "t UNION"]);
    // Elements with white space between them, as most documents have them, are no mixture.
    xml("<a>\n <b>x</b>\n <c>y</c>\n</a>", &["t x", "t y"]);
    xml("<a><b>x</b><c> y </c></a>", &["t x", "t y"]);
}

#[test]
fn xml_references() {
    xml("<a>x&#9;y&#0;&#x1;&#xffff;</a>", &["t x\\ty&#0;&#x1;&#xffff;", "! XmlReference"]);
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
    xml("<!DOCTYPE\ta ><a>x</a>", &["t x"]);
    xml("<!DOCTYPE a [<?x ]> ?>]><a>x</a>", &["t x", "! XmlEntities"]);
    xml(
        "<!DOCTYPE a PUBLIC \"-//X>\" 'u' [<!ELEMENT a ANY> <!-- ]> -->]><a>x</a>",
        &["t -//X>", "t u", "t x", "! XmlEntities"],
    );
    xml("<!DOCTYPE a SYSTEM \"http://x/evil.dtd\"><a/>", &["t http://x/evil.dtd", "! XmlEntities"]);
    xml("<!DOCTYPE a [<!ATTLIST a b CDATA \"${jndi:x}\">]><a/>", &["t ${jndi:x}", "! XmlEntities"]);
    xml("<!DOCTYPE a [<!NOTATION n SYSTEM 'f'>]><a/>", &["t f", "! XmlEntities"]);
    xml("<!DOCTYPE a[]><a/>", &["! XmlEntities"]);
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
    xml("<a>x<!DOCTYPE a>y</a>", &["t x", "t y", "t xy", "! XmlSyntax"]);
}

#[test]
fn xml_that_is_not_well_formed_is_read_on() {
    xml("<a><b>x</a>y</b>", &["t x", "t y", "t xy", "! XmlSyntax"]);
    xml("<a>x", &["t x", "! XmlTruncated"]);
    xml("<a b='x", &["@ x", "t x", "! XmlTruncated"]);
    xml("<a b", &["! XmlSyntax"]);
    xml("<a b c=x d>y</a>", &["@ x", "t y", "! XmlSyntax"]);
    xml("<a b='1<2'/>", &["@ 1<2", "! XmlSyntax"]);
    xml("<a <b>x</b></a>", &["t x", "! XmlSyntax"]);
    xml("<a>1 < 2</a>", &["t 1 < 2", "t 1<2", "! XmlSyntax"]);
    xml("<a>1<2><-></a>", &["t 1<2><->", "! XmlSyntax"]);
    xml("<a><!-- x", &["t x", "! XmlTruncated"]);
    xml("<a><![CDATA[x]]", &["t x]]", "! XmlTruncated"]);
    xml("<a>x</a", &["t x", "t a", "! XmlTruncated"]);
    xml("x<a>y</a>z", &["t x", "t y", "t z", "! XmlSyntax"]);
    xml("test", &["t test", "! XmlSyntax"]);
    xml("<?x y?> ", &["t x y", "! XmlSyntax"]);
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
    xml(utf16(false, true, "<?xml version='1.0' encoding='utf-16le'?><a>x</a>"), &["t x"]);
    xml(
        utf16(true, true, "<?xml version='1.0' encoding='utf-8'?><a>x</a>"),
        &["t x", "! XmlEncoding"],
    );
    xml(
        "<?xmlx encoding='x'?><?xm encoding='x'?><?xml?><a>x</a>",
        &[r"t xmlx encoding=\'x\'", r"t xm encoding=\'x\'", "t xml", "t x"],
    );
    xml("<?xml version='1.0'?><a>x</a>", &["t x"]);
    xml("<?xml encoding=utf-8?><a>x</a>", &["t x", "! XmlEncoding"]);
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
    xml("<a><b><c><d><e><f>x</f></e></d></c></b>y</a>", &["t x", "t y", "t xy", "! XmlDepth"]);
    let full = ["t 1"; 8];
    xml(format!("<a>{}</a>", "<b>1</b>".repeat(8)), &full);
    let mut over = full.to_vec();
    over.push("! XmlNodes");
    xml(format!("<a>{}</a>", "<b>1</b>".repeat(9)), &over);
    let pieces = |count: usize| format!("<a>{}</a>", "x<!---->".repeat(count));
    xml(pieces(11), &[&format!("t {}", "x".repeat(11))]);
    xml(pieces(12), &["! XmlNodes"]);
    xml(format!("<a>{}</a>", "<b/>".repeat(15)), &[]);
    xml(format!("<a>{}</a>", "<b/>".repeat(16)), &["! XmlNodes"]);
}

/// In UTF-16 too, the place of an error is one in the body as it came.
#[test]
fn xml_errors_are_where_the_body_has_them() {
    let place = |body: &[u8]| {
        let (limits, mut scratch, mut sink) =
            (small_limits(), BodyScratch::default(), Recorder::new(100));
        let outcome = process(Processor::Xml, b"", body, &limits, b'&', &mut scratch, &mut sink);
        outcome.error.map(|error| error.offset)
    };
    for text in [
        "",
        "a",
        "\u{80}",
        "\u{7ff}",
        "\u{800}",
        "\u{ffff}",
        "\u{10000}",
        "\u{10ffff}",
        "ab\u{e9}\u{20ac}\u{1f600}",
    ] {
        let before = format!("<a>{text}");
        let body = format!("{before}</b>");
        assert_eq!(place(body.as_bytes()), Some(before.len()), "{text:?}");
        let marked: Vec<u8> = "\u{feff}"
            .encode_utf16()
            .chain(body.encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        let units = before.encode_utf16().count();
        assert_eq!(place(&marked), Some(2 * (1 + units)), "{text:?}");
        assert_eq!(place(marked.get(2..).unwrap()), Some(2 * units), "{text:?}");
    }
}

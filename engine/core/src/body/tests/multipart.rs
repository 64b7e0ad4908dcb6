//! Forms with files.

use super::{Recorder, bytes_max, check, describe};
use crate::{
    body::{BodyScratch, Processor, process},
    limits::Limits,
};

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
    disposition("form-data; name=\"a\" ; filename=\"f\"", &["f a/f=x"]);
    // The multer of axum knows parameters in lower case only, and takes a file for a field.
    for value in ["form-data; NAME=\"a\"; filename=\"f\"", "form-data; name=a; Filename=\"f\""] {
        disposition(value, &["a a=x", "f a/f=x", "? strict", "! MultipartDisposition"]);
    }
    // With white space around the `=` Werkzeug overlooks a parameter, and takes a file for a field.
    for spaced in ["filename =\"f\"", "filename= \"f\"", "filename\t=f", "FileName = f"] {
        let value = format!("form-data; name=\"a\"; {spaced}");
        disposition(&value, &["a a=x", "f a/f=x", "? strict", "! MultipartDisposition"]);
    }
    disposition(r#"form-data; name="a\"b\\c\d""#, &[r#"a a\"bcd="#, r#"a a\"b\\c\\d=x"#]);
    // A backslash quotes any character for Werkzeug, and none for most others.
    disposition(
        r#"form-data; name="=?utf-8?Q?=69=64?=""#,
        &["a =?utf-8?Q?=69=64?==x", "? strict", "! MultipartDisposition"],
    );
    disposition(r#"form-data; name="=?""#, &["a =?=x"]);
    disposition(r#"form-data; name="\i\d""#, &["a id=", r"a \\i\\d=x"]);
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
    row("--b|FIELD||x|--b--||", &["a a=x"]);
    row("--b|FIELD||x|--b--|||", &["a a=x"]);
    row("--b|FIELD||x|--b--|| ", &["a a=x", "? data_after strict"]);
    row("--b|FIELD||x|--b--||--b|FIELD||y|--b--||", &["a a=x", "? data_after strict"]);
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
    // Django takes it for a boundary.
    row(
        "--b|FIELD||x--b|y|--b--",
        &[r"a a=x--b\r\ny", "? unmatched_boundary=2 strict", "! MultipartBoundaryLine"],
    );
    row("--b|FIELD||--|x|--b--", &[r"a a=--\r\nx"]);
    row(
        "--b|FIELD||x|--c",
        &[r"a a=x\r\n--c", "? unmatched_boundary=1 strict", "! MultipartFinalBoundary"],
    );
    // A bare CR ends no line.
    row(
        "--b|FIELD||x\r--b--",
        &[r"a a=x\r--b--", "? unmatched_boundary=1 strict", "! MultipartBoundaryLine"],
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
    row("multipart/form-data; boundary=b ", "b", &["? boundary_whitespace strict"]);
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
    let long = format!("{:y<1024}", "multipart/form-data; boundary=b; x=");
    row(&long, "b", &[]);
    row(&(long + "y"), "b", &["? strict", "! MultipartBoundaryLength"]);
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

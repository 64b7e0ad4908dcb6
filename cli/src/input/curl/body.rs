//! Bodies of curl's options: data, forms, and the files that they name.

use std::{fs, path::Path};

use super::url_encoded;

/// Bytes of a file that a command names.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The boundary of forms: the same each time, so that a story can be compared with another.
const BOUNDARY: &str = "------------------------glacis0000000000";

/// A piece of data, as it is sent.
#[derive(Debug)]
pub(super) struct Data(pub(super) Vec<u8>);

impl Data {
    /// `-d`: of files without line ends and zero bytes.
    pub(super) fn text(value: &[u8]) -> Result<Self, String> {
        match value.strip_prefix(b"@") {
            Some(name) => {
                let mut text = file(name)?;
                text.retain(|byte| !matches!(byte, b'\r' | b'\n' | 0));
                Ok(Self(text))
            }
            None => Ok(Self(value.to_vec())),
        }
    }

    /// `--data-binary` and `--json`.
    pub(super) fn binary(value: &[u8]) -> Result<Self, String> {
        match value.strip_prefix(b"@") {
            Some(name) => Ok(Self(file(name)?)),
            None => Ok(Self(value.to_vec())),
        }
    }

    /// `--data-urlencode`: `content`, `=content`, `name=content`, `@file` or `name@file`.
    pub(super) fn encoded(value: &[u8]) -> Result<Self, String> {
        let Some(at) = value.iter().position(|byte| matches!(byte, b'=' | b'@')) else {
            return Ok(Self(url_encoded(value)));
        };
        let name = value.get(..at).unwrap_or_default();
        let rest = value.get(at + 1..).unwrap_or_default();
        let content = if value.get(at) == Some(&b'@') { file(rest)? } else { rest.to_vec() };
        let mut data = name.to_vec();
        if !name.is_empty() {
            data.push(b'=');
        }
        data.extend(url_encoded(&content));
        Ok(Self(data))
    }

    /// `--url-query`: as it is after a `+`.
    pub(super) fn query(value: &[u8]) -> Result<Self, String> {
        match value.strip_prefix(b"+") {
            Some(rest) => Ok(Self(rest.to_vec())),
            None => Self::encoded(value),
        }
    }
}

/// A part of a form.
#[derive(Debug)]
pub(super) struct Part {
    name: Vec<u8>,
    file_name: Option<Vec<u8>>,
    content_type: Option<Vec<u8>>,
    content: Vec<u8>,
}

impl Part {
    /// `-F name=content`, `name=@file` or `name=<file`, with `;type=` and `;filename=` behind it.
    pub(super) fn parse(value: &[u8]) -> Result<Self, String> {
        let (name, rest) = named(value)?;
        let mut pieces = rest.split(|byte| *byte == b';');
        let first = pieces.next().unwrap_or_default();
        let (mut file_name, mut content_type) = (None, None);
        for piece in pieces {
            let piece = piece.trim_ascii();
            if let Some(value) = piece.strip_prefix(b"type=") {
                content_type = Some(value.to_vec());
            } else if let Some(value) = piece.strip_prefix(b"filename=") {
                file_name = Some(value.to_vec());
            } else if !piece.starts_with(b"headers=") && !piece.starts_with(b"encoder=") {
                // A semicolon of the content's own.
                return Self::literal(value);
            }
        }
        let content = match first.split_first() {
            Some((b'@', path)) => {
                let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                file_name.get_or_insert_with(|| base.to_vec());
                content_type.get_or_insert_with(|| type_of(base));
                file(path)?
            }
            Some((b'<', path)) => file(path)?,
            _ => first.to_vec(),
        };
        Ok(Self { name, file_name, content_type, content })
    }

    /// `--form-string`.
    pub(super) fn literal(value: &[u8]) -> Result<Self, String> {
        let (name, content) = named(value)?;
        Ok(Self { name, file_name: None, content_type: None, content })
    }
}

fn named(value: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let Some(at) = value.iter().position(|byte| *byte == b'=') else {
        return Err(format!("-F {}: write NAME=CONTENT", String::from_utf8_lossy(value)));
    };
    let (name, content) = value.split_at_checked(at).unwrap_or_default();
    Ok((name.to_vec(), content.get(1..).unwrap_or_default().to_vec()))
}

/// The media type that curl gives a file by its name.
fn type_of(name: &[u8]) -> Vec<u8> {
    let end = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    let media_type = match end.as_slice() {
        b"gif" => "image/gif",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"png" => "image/png",
        b"svg" => "image/svg+xml",
        b"txt" => "text/plain",
        b"htm" | b"html" => "text/html",
        b"pdf" => "application/pdf",
        b"xml" => "application/xml",
        _ => "application/octet-stream",
    };
    media_type.as_bytes().to_vec()
}

/// The value of Content-Type of a form.
pub(super) fn form_type() -> Vec<u8> {
    format!("multipart/form-data; boundary={BOUNDARY}").into_bytes()
}

/// The body of a form.
pub(super) fn form(parts: &[Part]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in parts {
        body.extend(
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"").into_bytes(),
        );
        body.extend(&part.name);
        body.push(b'"');
        if let Some(name) = &part.file_name {
            body.extend(b"; filename=\"");
            body.extend(name);
            body.push(b'"');
        }
        body.extend(b"\r\n");
        if let Some(media_type) = &part.content_type {
            body.extend(b"Content-Type: ");
            body.extend(media_type);
            body.extend(b"\r\n");
        }
        body.extend(b"\r\n");
        body.extend(&part.content);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").into_bytes());
    body
}

/// The headers of `-H`: one, or the lines of `@file`.
pub(super) fn headers(value: Vec<u8>) -> Result<Vec<Vec<u8>>, String> {
    let Some(name) = value.strip_prefix(b"@") else { return Ok(vec![value]) };
    let text = file(name)?;
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    Ok(lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect())
}

/// A file that a command names.
pub(super) fn file(name: &[u8]) -> Result<Vec<u8>, String> {
    let name = String::from_utf8_lossy(name);
    let path = Path::new(&*name);
    let fault = |error: std::io::Error| format!("{name}: {error}");
    if fs::metadata(path).map_err(fault)?.len() > FILE_BYTES_MAX {
        return Err(format!("{name}: larger than {FILE_BYTES_MAX} bytes"));
    }
    fs::read(path).map_err(fault)
}

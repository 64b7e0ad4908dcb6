//! `$ref`: places in the same document.

use serde_json::Value;

use crate::error::{DocumentError, Place};

/// References from one to the next that are followed. A longer chain is rejected, and so is a circle.
const CHAIN_MAX: usize = 16;

/// The pointer of a reference to the same document, such as `/components/schemas/Pet`.
///
/// # Errors
/// For references to anything else.
pub(crate) fn pointer(reference: &str, place: &Place<'_>) -> Result<String, DocumentError> {
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(DocumentError::new(
            place,
            format!(
                "the reference `{reference}` leaves the document: bundle all files into one, as \
                 nothing is fetched"
            ),
        ));
    };
    let decoded = crate::path::percent_decode(fragment.as_bytes());
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded {
        Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => Ok(pointer),
        _ => Err(DocumentError::new(
            place,
            format!(
                "the reference `{reference}` is no JSON pointer, such as #/components/schemas/Pet"
            ),
        )),
    }
}

/// The value at a pointer.
pub(crate) fn at<'d>(
    root: &'d Value,
    pointer: &str,
    place: &Place<'_>,
) -> Result<&'d Value, DocumentError> {
    root.pointer(pointer).ok_or_else(|| {
        DocumentError::new(place, format!("nothing is at the reference `#{pointer}`"))
    })
}

/// The object that is meant where a Reference Object may stand, and its pointer if it was referred to.
pub(crate) fn followed<'d>(
    root: &'d Value,
    value: &'d Value,
    place: &Place<'_>,
) -> Result<(&'d Value, Option<String>), DocumentError> {
    let (mut value, mut found) = (value, None);
    for _ in 0..CHAIN_MAX {
        let Some(reference) = value.get("$ref") else { return Ok((value, found)) };
        let reference = reference
            .as_str()
            .ok_or_else(|| DocumentError::new(place, "a reference has to be a text"))?;
        let pointer = pointer(reference, place)?;
        value = at(root, &pointer, place)?;
        found = Some(pointer);
    }
    Err(DocumentError::new(place, "references lead from one to the next, in a circle or too often"))
}

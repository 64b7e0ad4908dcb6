//! Categories of attacks, as the admin page names them: what the tags of CRS say, in words.

/// A tag, the name in queries, and the words for people. The last two have no tag.
pub(crate) const CATEGORIES: [(&str, &str, &str); 19] = [
    ("attack-sqli", "sqli", "SQL injection"),
    ("attack-xss", "xss", "Cross-site scripting"),
    ("attack-rce", "rce", "Command execution"),
    ("attack-lfi", "lfi", "Path traversal"),
    ("attack-rfi", "rfi", "Remote file inclusion"),
    ("attack-ssrf", "ssrf", "Server-side request forgery"),
    ("attack-ssti", "ssti", "Template injection"),
    ("attack-injection-php", "php", "PHP injection"),
    ("attack-injection-java", "java", "Java injection"),
    ("attack-injection-generic", "code", "Code injection"),
    ("attack-fixation", "fixation", "Session fixation"),
    ("attack-reputation-scanner", "scanner", "Scanner"),
    ("attack-multipart-header", "multipart", "Multipart evasion"),
    ("attack-deprecated-header", "header", "Deprecated header"),
    ("attack-protocol", "protocol", "Protocol violation"),
    ("attack-disclosure", "leak", "Data leak"),
    ("attack-generic", "generic", "Generic attack"),
    ("", "limit", "Limit reached"),
    ("", "other", "Other"),
];

/// For a request that reached a limit.
pub(crate) const LIMIT: u8 = 17;

/// For rules without a known tag.
pub(crate) const OTHER: u8 = 18;

/// The category that a tag names.
pub(crate) fn of_tag(tag: &str) -> Option<u8> {
    let found = CATEGORIES.iter().position(|(known, ..)| !known.is_empty() && *known == tag)?;
    u8::try_from(found).ok()
}

/// The category of this name.
pub(crate) fn named(name: &str) -> Option<u8> {
    let found = CATEGORIES.iter().position(|(_, known, _)| *known == name)?;
    u8::try_from(found).ok()
}

/// The name in queries, and the words.
pub(crate) fn words(category: u8) -> (&'static str, &'static str) {
    let found = CATEGORIES.get(usize::from(category));
    found.map_or(("other", "Other"), |(_, name, words)| (name, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_tag_and_by_name() {
        assert_eq!(words(LIMIT), ("limit", "Limit reached"));
        assert_eq!(words(OTHER), ("other", "Other"));
        assert_eq!(words(u8::MAX), words(OTHER));
        for (index, (tag, name, _)) in CATEGORIES.iter().enumerate() {
            assert_eq!(named(name).map(usize::from), Some(index));
            let expected = (!tag.is_empty()).then_some(index);
            assert_eq!(of_tag(tag).map(usize::from), expected, "{tag}");
        }
        assert_eq!((of_tag("paranoia-level/1"), named("unknown")), (None, None));
    }
}

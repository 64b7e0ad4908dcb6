//! Which document types are ordinary: those that declare nothing, and name no document that a parser might fetch for
//! an attacker.
//!
//! XHTML, SVG, MathML and property lists come with the address of a document type that their publisher keeps. Any other
//! external identifier is what an attack by external entities begins with: the parser fetches a document of the
//! attacker's choice, or a file (CWE-611).
//!
//! The identifiers of an ordinary document type are not shown to rules: CRS takes `xhtml1-strict.dtd` for an attack
//! (941130). They consist of names, so that nothing can hide there.

/// How system identifiers of well-known document types begin. The slash ends the name of the host.
const PUBLISHED: &[&[u8]] = &[
    b"http://www.w3.org/",
    b"https://www.w3.org/",
    b"http://www.apple.com/DTDs/",
    b"https://www.apple.com/DTDs/",
];

/// What HTML 5 has where a system identifier must be (HTML, section 13.1.1).
const LEGACY: &[u8] = b"about:legacy-compat";

/// Whether the inside of a `<!DOCTYPE …>` has nothing but a name and perhaps an external identifier that is public, or
/// published (XML 1.0, section 2.8).
pub(super) fn is_ordinary(declaration: &[u8]) -> bool {
    let (_keyword, rest) = word(declaration);
    let (name, rest) = word(rest);
    let plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_:-.".contains(byte) || !byte.is_ascii();
    name.iter().all(plain) && is_ordinary_identifier(rest).unwrap_or(false)
}

/// Whether nothing follows the name, or an ordinary external identifier and nothing else. `None` for what is malformed.
fn is_ordinary_identifier(text: &[u8]) -> Option<bool> {
    let (keyword, rest) = word(text);
    let system = match keyword {
        b"" => return Some(rest.is_empty()),
        b"PUBLIC" => {
            let (public, rest) = literal(rest)?;
            if !public.iter().all(|byte| byte.is_ascii_alphanumeric() || b" -/.,:()".contains(byte))
            {
                return None;
            }
            if rest.trim_ascii().is_empty() {
                return Some(true);
            }
            rest
        }
        b"SYSTEM" => rest,
        _ => return None,
    };
    let (system, rest) = literal(system)?;
    let in_path = |byte: &u8| byte.is_ascii_alphanumeric() || b"-/._".contains(byte);
    let path = PUBLISHED.iter().find_map(|it| system.strip_prefix(*it));
    let is_published = system == LEGACY || path.is_some_and(|path| path.iter().all(in_path));
    Some(is_published && rest.trim_ascii().is_empty())
}

/// The next word, and what follows it.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or_default()
}

/// A text in quotes behind white space, and what follows it.
fn literal(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (quote, inside) = text.trim_ascii_start().split_first()?;
    let end = inside.iter().position(|byte| byte == quote)?;
    let is_quote = matches!(quote, b'"' | b'\'');
    is_quote.then_some(())?;
    Some((inside.get(..end)?, inside.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_document_types_are_ordinary() {
        const SVG: &str = "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd";
        for (declaration, expected) in [
            ("DOCTYPE a", true),
            ("DOCTYPE", true),
            ("DOCTYPE html ", true),
            ("DOCTYPE a:b-c.d_\u{e4}", true),
            ("DOCTYPE ${jndi:ldap://x}", false),
            ("DOCTYPE a b", false),
            ("DOCTYPE [", false),
            ("DOCTYPE a[]", false),
            ("DOCTYPE a []", false),
            ("DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \"SVG\"", true),
            ("DOCTYPE svg\n  PUBLIC '-//W3C//DTD SVG 1.1//EN'\n  'SVG'\n", true),
            ("DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\"", true),
            ("DOCTYPE svg SYSTEM \"SVG\"", true),
            ("DOCTYPE svg SYSTEM \"SVG\" []", false),
            ("DOCTYPE svg SYSTEM \"SVG\" [<!ENTITY a 'b'>]", false),
            ("DOCTYPE svg SYSTEM \"SVG\" \"SVG\"", false),
            ("DOCTYPE svg PUBLIC \"SVG\" \"http://x.example/\"", false),
            ("DOCTYPE svg PUBLIC \"SVG\" \"SVG\" \"http://x.example/\"", false),
            ("DOCTYPE svg PUBLIC", false),
            ("DOCTYPE svg SYSTEM", false),
            ("DOCTYPE svg SYSTEM SVG", false),
            ("DOCTYPE svg SYSTEM \"SVG", false),
            ("DOCTYPE svg system \"SVG\"", false),
            ("DOCTYPE html SYSTEM \"about:legacy-compat\"", true),
            ("DOCTYPE html SYSTEM \"about:legacy-compat/\"", false),
            ("DOCTYPE plist PUBLIC \"x\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\"", true),
            ("DOCTYPE plist SYSTEM \"http://www.apple.com/\"", false),
            ("DOCTYPE a SYSTEM \"http://www.w3.org.x.example/\"", false),
            ("DOCTYPE a SYSTEM \"http://www.w3.org@x.example/\"", false),
            ("DOCTYPE a SYSTEM \"http://www.w3.org:x@x.example/\"", false),
            ("DOCTYPE a SYSTEM \" http://www.w3.org/\"", false),
            ("DOCTYPE a SYSTEM \"http://www.w3.org/a?b\"", false),
            ("DOCTYPE a PUBLIC \"${jndi:ldap://x}\"", false),
            ("DOCTYPE a PUBLIC \"${jndi:ldap://x}\" \"SVG\"", false),
            ("DOCTYPE a PUBLIC \"<b\" \"SVG\"", false),
            ("DOCTYPE a SYSTEM \"file:///etc/passwd\"", false),
            ("DOCTYPE a SYSTEM \"a.dtd\"", false),
            ("DOCTYPE a SYSTEM \"\"", false),
        ] {
            let declaration = declaration
                .replace("\"SVG", &format!("\"{SVG}"))
                .replace("'SVG", &format!("'{SVG}"));
            assert_eq!(is_ordinary(declaration.as_bytes()), expected, "{declaration}");
        }
    }
}

//! `cmdLine`: one spelling for the many ways to write a shell command.

/// What happens to a byte.
#[derive(Clone, Copy)]
enum Class {
    /// Quotes and escapes of shells disappear.
    Drop,
    /// Separators become one space.
    Space,
    /// A space before these disappears.
    Joint,
    /// Copied in lower case.
    Letter,
}

fn class(byte: u8) -> Class {
    match byte {
        b'"' | b'\'' | b'\\' | b'^' => Class::Drop,
        b' ' | b',' | b';' | b'\t' | b'\r' | b'\n' => Class::Space,
        b'/' | b'(' => Class::Joint,
        _ => Class::Letter,
    }
}

/// `cmdLine`: removes `"`, `'`, `\` and `^`; turns every run of space, `,`, `;`, tab, CR and LF
/// into one space; removes the space before `/` and `(`; lowers ASCII letters.
pub(crate) fn cmd_line(input: &[u8], out: &mut Vec<u8>) -> bool {
    if !input.iter().any(|&byte| may_change(byte)) {
        return false;
    }
    out.reserve(input.len());
    // True while the last byte written is a space that came from a separator.
    let mut space = false;
    for &byte in input {
        match class(byte) {
            Class::Drop => {}
            Class::Space => {
                if !space {
                    out.push(b' ');
                }
                space = true;
            }
            Class::Joint => {
                if space {
                    out.pop();
                }
                out.push(byte);
                space = false;
            }
            Class::Letter => {
                out.push(byte.to_ascii_lowercase());
                space = false;
            }
        }
    }
    true
}

/// A value without such bytes is surely left alone. A space is among them, because whether it goes
/// depends on its neighbours.
fn may_change(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(class(byte), Class::Drop | Class::Space)
}

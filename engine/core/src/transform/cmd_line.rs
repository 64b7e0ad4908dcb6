//! `cmdLine`: one spelling for the many ways to write a shell command.

/// What happens to a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
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

const fn class(byte: u8) -> Class {
    match byte {
        b'"' | b'\'' | b'\\' | b'^' => Class::Drop,
        b' ' | b',' | b';' | b'\t' | b'\r' | b'\n' => Class::Space,
        b'/' | b'(' => Class::Joint,
        _ => Class::Letter,
    }
}

/// What a class comes to, in numbers: texts are long and their spaces nowhere in particular, so
/// that a branch at each would be guessed wrong again and again.
#[derive(Clone, Copy)]
struct Step {
    written: u8,
    /// 1 if it takes the space before it away.
    back: u8,
    /// 1 if it is written, whatever stands before it.
    ahead: u8,
    /// 1 if it is a space, which is written behind anything but another.
    space: u8,
    /// 1 if behind it there is a space where there was one before it.
    keeps: u8,
}

const STEPS: [Step; 256] = {
    let mut steps = [Step { written: 0, back: 0, ahead: 1, space: 0, keeps: 0 }; 256];
    let mut byte = 0u8;
    loop {
        let step = &mut steps[byte as usize];
        step.written = byte.to_ascii_lowercase();
        match class(byte) {
            Class::Drop => (step.ahead, step.keeps) = (0, 1),
            Class::Space => (step.written, step.ahead, step.space) = (b' ', 0, 1),
            Class::Joint => step.back = 1,
            Class::Letter => {}
        }
        if byte == u8::MAX {
            break steps;
        }
        byte += 1;
    }
};

/// `cmdLine`: removes `"`, `'`, `\` and `^`; turns every run of space, `,`, `;`, tab, CR and LF
/// into one space; removes the space before `/` and `(`; lowers ASCII letters.
pub(crate) fn cmd_line(input: &[u8], out: &mut Vec<u8>) -> bool {
    if !input.iter().any(|&byte| may_change(byte)) {
        return false;
    }
    out.resize(input.len(), 0);
    let mut length = 0;
    // 1 while the last byte written is a space that came from a separator.
    let mut after_space = 0;
    for &byte in input {
        let step = STEPS[usize::from(byte)];
        length -= usize::from(step.back & after_space);
        // Always there: not more is written than was read.
        if let Some(place) = out.get_mut(length) {
            *place = step.written;
        }
        length += usize::from(step.ahead | step.space & !after_space);
        after_space = step.space | step.keeps & after_space;
    }
    out.truncate(length);
    true
}

/// A value without such bytes is surely left alone. A space is among them, because whether it goes
/// depends on its neighbours.
fn may_change(byte: u8) -> bool {
    byte.is_ascii_uppercase() || matches!(class(byte), Class::Drop | Class::Space)
}

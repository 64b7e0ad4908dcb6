//! `parityEven7bit`, `parityOdd7bit`, `parityZero7bit`: the eighth bit as a parity bit.
//!
//! As in ModSecurity the parity is that of all eight bits of the byte, the old eighth included.

/// `parityEven7bit`.
pub(crate) fn even(input: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend(input.iter().map(|&byte| with_top_bit(byte, byte.count_ones() % 2 == 1)));
    true
}

/// `parityOdd7bit`.
pub(crate) fn odd(input: &[u8], out: &mut Vec<u8>) -> bool {
    out.extend(input.iter().map(|&byte| with_top_bit(byte, byte.count_ones() % 2 == 0)));
    true
}

/// `parityZero7bit`.
pub(crate) fn zero(input: &[u8], out: &mut Vec<u8>) -> bool {
    if input.is_ascii() {
        return false;
    }
    out.extend(input.iter().map(|&byte| with_top_bit(byte, false)));
    true
}

fn with_top_bit(byte: u8, set: bool) -> u8 {
    if set { byte | 0x80 } else { byte & 0x7f }
}

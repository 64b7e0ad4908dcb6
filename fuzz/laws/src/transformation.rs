//! Laws of the transformations. The input is their numbers, up to a line end, and the value behind it.

use glacis_engine::transform::{TABLE, Transformation};

/// Transformations of one chain that are run; a list without an end would only repeat them.
const CHAIN_MAX: usize = 8;

/// Those that change nothing when they are applied to their own result. (`parityEven7bit` and
/// `parityOdd7bit` are not here: as in ModSecurity, the parity is taken over all eight bits.)
const IDEMPOTENT: &[Transformation] = &[
    Transformation::CompressWhitespace,
    Transformation::Lowercase,
    Transformation::ParityZero7bit,
    Transformation::RemoveNulls,
    Transformation::ReplaceNulls,
    Transformation::Trim,
    Transformation::TrimLeft,
    Transformation::TrimRight,
    Transformation::Uppercase,
];

/// Those that undo the first one.
const INVERSE: &[(Transformation, Transformation)] = &[
    (Transformation::Base64Encode, Transformation::Base64Decode),
    (Transformation::Base64Encode, Transformation::Base64DecodeExt),
    (Transformation::HexEncode, Transformation::HexDecode),
    (Transformation::UrlEncode, Transformation::UrlDecode),
    (Transformation::UrlEncode, Transformation::UrlDecodeUni),
];

/// Whatever the bytes: no transformation panics, writes more than it says, or is wrong about having
/// changed something; what is said to be idempotent or an inverse is.
pub fn transform_total(input: &[u8]) {
    let end = input.iter().position(|&byte| byte == b'\n').unwrap_or(0);
    let (numbers, value) = input.split_at(end);
    let value = value.strip_prefix(b"\n").unwrap_or(value);
    for &(_, transformation) in TABLE {
        apply(transformation, value);
    }
    for &transformation in IDEMPOTENT {
        let once = apply(transformation, value);
        assert_eq!(apply(transformation, &once), once, "{transformation:?} twice");
    }
    for &(encode, decode) in INVERSE {
        assert_eq!(apply(decode, &apply(encode, value)), value, "{decode:?} of {encode:?}");
    }
    let left_then_right = apply(Transformation::TrimRight, &apply(Transformation::TrimLeft, value));
    assert_eq!(apply(Transformation::Trim, value), left_then_right);
    assert_eq!(apply(Transformation::Length, value), value.len().to_string().as_bytes());
    let mut link = value.to_vec();
    for number in numbers.iter().take(CHAIN_MAX) {
        link = apply(TABLE[usize::from(*number) % TABLE.len()].1, &link);
    }
}

/// The result, whatever was in the buffer before.
fn apply(transformation: Transformation, value: &[u8]) -> Vec<u8> {
    let mut out = b"left over".to_vec();
    let changed = transformation.apply(value, &mut out);
    let bytes_max = transformation.output_limit(value.len());
    assert!(out.len() <= bytes_max, "{transformation:?} wrote {} bytes", out.len());
    if changed {
        assert_ne!(out, value, "{transformation:?} says it changed something");
        return out;
    }
    assert!(out.is_empty(), "{transformation:?} says it changed nothing");
    value.to_vec()
}

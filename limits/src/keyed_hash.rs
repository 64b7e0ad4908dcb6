//! SipHash-2-4 (Aumasson and Bernstein, 2012): a hash that a stranger cannot steer.
//!
//! Tables that are indexed by what a client sends need a hash with a secret key, or a client can
//! choose addresses that all land in one place. The standard library has one too, but neither lets
//! a key be given without a deprecated call nor promises to stay the same; this one is fixed, so
//! that two modules of different versions in one process agree.

/// The 64-bit SipHash-2-4 of `bytes` under a 128-bit key. Linear in the length.
#[must_use]
pub fn sip_hash_24(key: [u8; 16], bytes: &[u8]) -> u64 {
    let key = u128::from_le_bytes(key);
    let (k0, k1) = (low_half(key), low_half(key >> 64));
    let mut state = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        absorb(&mut state, u64::from_le_bytes(*word));
    }
    absorb(&mut state, last_word(rest, bytes.len()));
    state[2] ^= 0xff;
    for _ in 0..4 {
        round(&mut state);
    }
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

/// The remaining bytes, and the length modulo 256 in the highest byte.
fn last_word(rest: &[u8], length: usize) -> u64 {
    let mut word = (length as u64) << 56;
    for (i, byte) in rest.iter().enumerate() {
        word |= u64::from(*byte) << (8 * i);
    }
    word
}

fn absorb(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    round(state);
    state[0] ^= word;
}

fn round(state: &mut [u64; 4]) {
    let [mut v0, mut v1, mut v2, mut v3] = *state;
    v0 = v0.wrapping_add(v1);
    v2 = v2.wrapping_add(v3);
    v1 = v1.rotate_left(13) ^ v0;
    v3 = v3.rotate_left(16) ^ v2;
    v0 = v0.rotate_left(32);
    v2 = v2.wrapping_add(v1);
    v0 = v0.wrapping_add(v3);
    v1 = v1.rotate_left(17) ^ v2;
    v3 = v3.rotate_left(21) ^ v0;
    v2 = v2.rotate_left(32);
    *state = [v0, v1, v2, v3];
}

fn low_half(value: u128) -> u64 {
    u64::try_from(value & u128::from(u64::MAX)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::sip_hash_24;

    /// The vectors of the paper's reference implementation: key 00..0f, message 00, 01, 02, …
    #[test]
    fn published_vectors() {
        let key: [u8; 16] = std::array::from_fn(|i| u8::try_from(i).unwrap());
        let rows = [
            (0, 0x726f_db47_dd0e_0e31),
            (1, 0x74f8_39c5_93dc_67fd),
            (7, 0xab02_00f5_8b01_d137),
            (8, 0x93f5_f579_9a93_2462),
            (15, 0xa129_ca61_49be_45e5),
        ];
        for (length, expected) in rows {
            let message: Vec<u8> = (0..length).collect();
            assert_eq!(sip_hash_24(key, &message), expected, "length {length}");
        }
    }
}

//! A deterministic source of test inputs: xorshift64* (Marsaglia 2003; Vigna 2016).
//!
//! A failing case names its seed, so that it can be run again; no crate is needed for that.

/// The generator. The seed must not be zero, for which the sequence is constant.
#[derive(Debug)]
pub(crate) struct Xorshift(u64);

impl Xorshift {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number in `0..bound`; the slight bias towards small numbers does not matter to a test.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

//! Numbers for tests, the same in every run: xorshift64 (Marsaglia 2003).

/// The generator. A seed of zero gives nothing but zeros.
pub(crate) struct Xorshift(pub(crate) u64);

impl Xorshift {
    /// A number in `0..bound`, or 0; the slight bias towards small ones does not matter to a test.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap_or_default()
    }
}

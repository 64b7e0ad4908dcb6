//! Random numbers that follow from a seed: splitmix64 (Steele, Lea, Flood 2014).

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator for one case: it depends on the seed, on a text and on a number.
    #[must_use]
    pub fn of(seed: u64, text: &str, number: u64) -> Self {
        // FNV-1a.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut random = Self(seed ^ hash ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or_default()
    }

    /// True once in `times` calls, on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One member of a list; the default of an empty one.
    pub fn pick<T: Copy + Default>(&mut self, list: &[T]) -> T {
        list.get(self.below(list.len())).copied().unwrap_or_default()
    }

    /// Mostly the usual text, sometimes one of the others.
    pub fn usually<'t>(&mut self, usual: &'t str, others: &[&'t str]) -> &'t str {
        if self.once_in(8) { self.pick(others) } else { usual }
    }
}

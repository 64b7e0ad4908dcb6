//! The source of chance: small, and the same on every machine and in every release.

/// `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
///
/// A crate would be free to give other numbers in its next release, and every result on file would
/// then be about other requests.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each `stream`, so that a change of one class moves no other.
    pub(crate) fn new(seed: u64, stream: &str) -> Self {
        // FNV-1a.
        let hash = stream.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut random = Self(seed ^ hash);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included. The tiny bias of the remainder does not matter
    /// here.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        let span = (high.saturating_sub(low) as u64).saturating_add(1);
        low + usize::try_from(self.next() % span).unwrap_or(0)
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.between(0, 99) < percent
    }

    /// One of `choices`; an empty list gives the empty value.
    pub(crate) fn pick<T: Copy + Default>(&mut self, choices: &[T]) -> T {
        let last = choices.len().saturating_sub(1);
        choices.get(self.between(0, last)).copied().unwrap_or_default()
    }

    /// `length` characters of `alphabet`.
    pub(crate) fn text(&mut self, alphabet: &str, length: usize) -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| self.pick(&alphabet)).collect()
    }

    /// `length` hexadecimal digits.
    pub(crate) fn hex(&mut self, length: usize) -> String {
        self.text("0123456789abcdef", length)
    }

    /// `length` bytes of any value.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// Fisher and Yates.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.between(0, index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed() {
        // Vigna's reference implementation, seed 1234567, gives these first numbers.
        let mut random = Random(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let of = |seed, stream| Random::new(seed, stream).next();
        assert_eq!(of(1, "a"), of(1, "a"));
        assert_ne!(of(1, "a"), of(1, "b"));
        assert_ne!(of(1, "a"), of(2, "a"));
    }

    #[test]
    fn numbers_stay_between_their_bounds() {
        let mut random = Random::new(1, "bounds");
        let numbers: Vec<usize> = (0..200).map(|_| random.between(3, 5)).collect();
        assert!(numbers.iter().all(|number| (3..=5).contains(number)));
        assert!((3..=5).all(|number| numbers.contains(&number)));
        assert_eq!(random.pick::<u8>(&[]), 0);
    }
}

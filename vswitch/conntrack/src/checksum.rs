//! Whether a file is what was written.

/// Of words, in order. Another word anywhere, whichever bits of it, is another checksum for sure;
/// other changes are with a chance of 1 - 2^-64. It is no signature: who may write the file may
/// write its checksum.
#[derive(Clone, Copy, Debug)]
pub struct Checksum(u64);

/// 2^64 divided by the golden ratio: odd, so that multiplying loses nothing.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for Checksum {
    fn default() -> Self {
        Self(FACTOR)
    }
}

impl Checksum {
    /// One word more. Of two different states none become the same, nor does one by two different
    /// words.
    #[inline]
    pub const fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(FACTOR).rotate_left(29);
    }

    /// Bytes, and how many there are of them.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        self.add(u64::from_le_bytes(last));
        self.add(bytes.len() as u64);
    }

    /// Of all so far.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut checksum = Checksum::default();
        checksum.add_bytes(bytes);
        checksum.value()
    }

    proptest! {
        #[test]
        fn another_bit_or_another_length_is_another_checksum(
            bytes in proptest::collection::vec(any::<u8>(), 1..100),
            at: prop::sample::Index,
            bit in 0..8_u8,
        ) {
            let mut other = bytes.clone();
            other[at.index(bytes.len())] ^= 1 << bit;
            prop_assert_ne!(of(&other), of(&bytes));
            prop_assert_ne!(of(&bytes[..bytes.len() - 1]), of(&bytes));
            prop_assert_ne!(of(&[&bytes[..], &[0]].concat()), of(&bytes));
        }
    }
}

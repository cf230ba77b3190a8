//! 32 bytes as four words, for builds without AVX2 (x86-64-v2): the compiler takes what vectors
//! there are.

/// 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct U8x32([u64; 4]);

impl U8x32 {
    /// These.
    #[inline(always)]
    #[must_use]
    pub fn of(bytes: &[u8; 32]) -> Self {
        let words = bytes.as_chunks::<8>().0;
        Self(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }

    /// Those of four words, the first one's lowest byte first.
    #[inline(always)]
    #[must_use]
    pub fn of_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    /// All 0.
    #[inline(always)]
    #[must_use]
    pub fn zero() -> Self {
        Self([0; 4])
    }

    /// The bits that both have.
    #[inline(always)]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// Whether its bits are those of `value`, where `mask` has any.
    #[inline(always)]
    #[must_use]
    pub fn is(self, value: Self, mask: Self) -> bool {
        (0..4).fold(0, |others, i| others | (self.0[i] ^ value.0[i]) & mask.0[i]) == 0
    }
}

/// The hash NH of UMAC (Black and others, "UMAC: Fast and Secure Message Authentication", CRYPTO
/// 1999, section 4), for words of 32 bits, twice: with each of two `keys`. Their first vectors are
/// added to those of `words`, word by word, modulo 2^32; what is returned are the sums, modulo
/// 2^64, of the products of neighbours, and of `others`, which are of more words and keys.
#[inline(always)]
#[must_use]
pub fn nh_twice<const N: usize>(words: &[U8x32], keys: &[[U8x32; N]; 2], others: &[u64; 2]) -> [u64; 2] {
    std::array::from_fn(|i| others[i].wrapping_add(products(words, &keys[i])))
}

/// For [`nh_twice`]: the sum of products.
#[inline(always)]
fn products<const N: usize>(words: &[U8x32], keys: &[U8x32; N]) -> u64 {
    let mut sum = 0_u64;
    for (words, key) in words.iter().zip(keys) {
        for (word, key) in words.0.iter().zip(key.0) {
            let low = (word & LOW).wrapping_add(key & LOW) & LOW;
            let high = (word >> 32).wrapping_add(key >> 32) & LOW;
            sum = sum.wrapping_add(low.wrapping_mul(high));
        }
    }
    sum
}

const LOW: u64 = 0xffff_ffff;

//! 32 bytes in a register of AVX2: what the compiler does not find by itself.

use core::arch::x86_64::{
    __m256i, _mm_add_epi64, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_epi32, _mm256_add_epi64, _mm256_and_si256,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_mul_epu32, _mm256_set_epi64x,
    _mm256_setzero_si256, _mm256_srli_epi64, _mm256_testz_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    _mm256_xor_si256,
};

/// 32 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct U8x32(__m256i);

impl U8x32 {
    /// These.
    #[inline(always)] // an instruction each, all of them
    #[must_use]
    pub fn of(bytes: &[u8; 32]) -> Self {
        // SAFETY: AVX2 is in the baseline of this build; the load may be unaligned, and is of 32
        // bytes that are there.
        Self(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
    }

    /// Those of four words, the first one's lowest byte first.
    #[inline(always)]
    #[must_use]
    pub fn of_words(words: [u64; 4]) -> Self {
        // One by one: without optimisation over all crates `map` is a call, and one more for each
        // word.
        let [a, b, c, d] = words;
        // SAFETY: AVX is in the baseline of this build; registers only.
        Self(unsafe { _mm256_set_epi64x(d.cast_signed(), c.cast_signed(), b.cast_signed(), a.cast_signed()) })
    }

    /// All 0.
    #[inline(always)]
    #[must_use]
    pub fn zero() -> Self {
        // SAFETY: as in `of_words`.
        Self(unsafe { _mm256_setzero_si256() })
    }

    /// The bits that both have.
    #[inline(always)]
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        // SAFETY: AVX2 is in the baseline of this build; registers only.
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    /// Whether its bits are those of `value`, where `mask` has any.
    #[inline(always)]
    #[must_use]
    pub fn is(self, value: Self, mask: Self) -> bool {
        // SAFETY: as in `and`.
        unsafe { _mm256_testz_si256(_mm256_xor_si256(self.0, value.0), mask.0) != 0 }
    }
}

/// The hash NH of UMAC (Black and others, "UMAC: Fast and Secure Message Authentication", CRYPTO
/// 1999, section 4), for words of 32 bits, twice: with each of two `keys`. Their first vectors are
/// added to those of `words`, word by word, modulo 2^32; what is returned are the sums, modulo
/// 2^64, of the products of neighbours, and of `others`, which are of more words and keys.
#[inline(always)]
#[must_use]
pub fn nh_twice<const N: usize>(words: &[U8x32], keys: &[[U8x32; N]; 2], others: &[u64; 2]) -> [u64; 2] {
    let (first, second) = (products(words, &keys[0]), products(words, &keys[1]));
    let mut sums = [0; 2];
    // SAFETY: AVX2 is in the baseline of this build; load and store may be unaligned, and are of
    // the 16 bytes of `others` and of `sums`.
    unsafe {
        let both = _mm256_add_epi64(_mm256_unpacklo_epi64(first.0, second.0), _mm256_unpackhi_epi64(first.0, second.0));
        let both = _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
        let all = _mm_add_epi64(both, _mm_loadu_si128(others.as_ptr().cast()));
        _mm_storeu_si128(sums.as_mut_ptr().cast(), all);
    }
    sums
}

/// For [`nh_twice`]: the sums of products, two in each half.
#[inline(always)]
fn products<const N: usize>(words: &[U8x32], keys: &[U8x32; N]) -> U8x32 {
    let mut sum = U8x32::zero();
    for (words, key) in words.iter().zip(keys) {
        // SAFETY: AVX2 is in the baseline of this build; registers only.
        sum.0 = unsafe {
            let words = _mm256_add_epi32(words.0, key.0);
            _mm256_add_epi64(sum.0, _mm256_mul_epu32(words, _mm256_srli_epi64::<32>(words)))
        };
    }
    sum
}

//! 32 bytes at once: what vectors (AVX2, which is in the baseline, x86-64-v3) do with the headers
//! of a packet, and the compiler does not find by itself.

use core::arch::x86_64::{
    __m256i, _mm_add_epi64, _mm_and_si128, _mm_blend_epi32, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_loadu_si128,
    _mm_setzero_si128, _mm_srli_epi64, _mm_storeu_si128, _mm_unpackhi_epi64, _mm_unpacklo_epi64, _mm256_add_epi32,
    _mm256_add_epi64, _mm256_and_si256, _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256,
    _mm256_mul_epu32, _mm256_set_epi64x, _mm256_setzero_si256, _mm256_srli_epi64, _mm256_testz_si256,
    _mm256_unpackhi_epi64, _mm256_unpacklo_epi64, _mm256_xor_si256,
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
        // SAFETY: AVX2 is in the baseline; the load may be unaligned, and is of 32 bytes that are
        // there.
        Self(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
    }

    /// Those of four words, the first one's lowest byte first.
    #[inline(always)]
    #[must_use]
    pub fn of_words(words: [u64; 4]) -> Self {
        // One by one: without optimisation over all crates `map` is a call, and one more for each
        // word.
        let [a, b, c, d] = words;
        // SAFETY: AVX is in the baseline; registers only.
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
        // SAFETY: AVX2 is in the baseline; registers only.
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
    // SAFETY: AVX2 is in the baseline; load and store may be unaligned, and are of the 16 bytes of
    // `others` and of `sums`.
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
        // SAFETY: AVX2 is in the baseline; registers only.
        sum.0 = unsafe {
            let words = _mm256_add_epi32(words.0, key.0);
            _mm256_add_epi64(sum.0, _mm256_mul_epu32(words, _mm256_srli_epi64::<32>(words)))
        };
    }
    sum
}

/// The sum of 16 to 32 bytes, as words of 16 bits, the lowest byte first (the last one may be half
/// a word), modulo 65535, without carries: less than 2^48. None of fewer or more.
#[inline(always)]
#[must_use]
pub fn sum_of_some(bytes: &[u8]) -> Option<u64> {
    if !(16..=32).contains(&bytes.len()) {
        return None;
    }
    let (first, last) = (bytes.first_chunk::<16>()?, bytes.last_chunk::<16>()?);
    let fresh = FRESH.get(bytes.len() - 16..)?.first_chunk::<16>()?;
    let [first, last, fresh] = [first, last, fresh].map(|bytes| {
        // SAFETY: SSE2; the load may be unaligned, and is of 16 bytes that are there.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    });
    // SAFETY: AVX2 is in the baseline; registers only.
    let [first, last] = unsafe {
        let halves = |bytes| {
            let low = _mm_blend_epi32::<0b1010>(bytes, _mm_setzero_si128());
            _mm_add_epi64(low, _mm_srli_epi64::<32>(bytes))
        };
        let (first, last) = (halves(first), halves(_mm_and_si128(last, fresh)));
        let both = _mm_add_epi64(_mm_unpacklo_epi64(first, last), _mm_unpackhi_epi64(first, last));
        [_mm_cvtsi128_si64(both), _mm_extract_epi64::<1>(both)].map(i64::cast_unsigned)
    };
    // Where the last 16 begin in the middle of a word, each byte counts for the other half of its
    // word: 256 times as much.
    Some(first + (last << (bytes.len() % 2 * 8)))
}

/// From its byte `n` on, 16 that have the last `n` set.
static FRESH: [u8; 32] = {
    let mut bytes = [0; 32];
    let mut i = 16;
    while i < 32 {
        bytes[i] = 255;
        i += 1;
    }
    bytes
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vector(bytes: &[u8]) -> U8x32 {
        U8x32::of(bytes.first_chunk().expect("32 bytes"))
    }

    /// As the paper says it.
    fn nh(bytes: &[u8], key: &[u8]) -> u64 {
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        let sums: Vec<u32> = words(bytes).iter().zip(words(key)).map(|(word, key)| word.wrapping_add(key)).collect();
        let products = sums.as_chunks::<2>().0.iter().map(|[a, b]| u64::from(*a) * u64::from(*b));
        products.fold(0, u64::wrapping_add)
    }

    proptest! {
        #[test]
        fn nh_is_that_of_the_paper(bytes in prop::collection::vec(any::<u8>(), 96), keys in prop::collection::vec(any::<u8>(), 192), n in 1_usize..4, others: [u64; 2]) {
            let words: Vec<U8x32> = bytes.chunks(32).take(n).map(vector).collect();
            let vectors: Vec<U8x32> = keys.chunks(32).map(vector).collect();
            let [a, b, c, d, e, f] = *vectors.first_chunk::<6>().expect("192 bytes");
            let len = n * 32;
            let keys = [&keys[..len], &keys[96..][..len]];
            let sums = std::array::from_fn(|i| nh(&bytes[..len], keys[i]).wrapping_add(others[i]));
            prop_assert_eq!(nh_twice(&words, &[[a, b, c], [d, e, f]], &others), sums);
        }

        #[test]
        fn sums_are_those_of_words(bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(255), any::<u8>()], 0..40)) {
            let word = |pair: &[u8]| u64::from(pair[0]) + 256 * pair.get(1).map_or(0, |byte| u64::from(*byte));
            let sum: u64 = bytes.chunks(2).map(word).sum();
            let inside = (16..=32).contains(&bytes.len());
            let found = sum_of_some(&bytes);
            prop_assert_eq!(found.map(|found| (found % 65535, found == 0)), inside.then_some((sum % 65535, sum == 0)));
            prop_assert!(found.unwrap_or(0) < 1 << 48);
        }

        #[test]
        fn bits_are_compared_where_the_mask_has_any(bytes: [u8; 32], other: [u8; 32], mask: [u8; 32], same: bool) {
            let value = if same { std::array::from_fn(|i| bytes[i] & mask[i] | other[i] & !mask[i]) } else { other };
            let equal = (0..32).all(|i| (bytes[i] ^ value[i]) & mask[i] == 0);
            prop_assert_eq!(U8x32::of(&bytes).is(U8x32::of(&value), U8x32::of(&mask)), equal);
            let words = bytes.as_chunks::<8>().0;
            let words = U8x32::of_words(std::array::from_fn(|i| u64::from_le_bytes(words[i])));
            prop_assert!(words.is(U8x32::of(&bytes), U8x32::of(&[255; 32])));
            let both = U8x32::of(&bytes).and(U8x32::of(&mask));
            prop_assert!(both.is(U8x32::of(&std::array::from_fn(|i| bytes[i] & mask[i])), U8x32::of(&[255; 32])));
        }
    }
}

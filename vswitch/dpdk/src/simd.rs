//! 32 bytes at once: what vectors do with the headers of a packet.
//!
//! **Design**: `avx2` is for builds with AVX2 in their baseline (x86-64-v3). `words` does the same
//! for others, without `unsafe`. The build decides: no packet asks which CPU there is.

#[cfg(target_feature = "avx2")]
mod avx2;
#[cfg(any(test, not(target_feature = "avx2")))]
#[cfg_attr(target_feature = "avx2", allow(unreachable_pub))] // only tests use it there
mod words;

#[cfg(target_feature = "avx2")]
pub use avx2::{U8x32, nh_twice};
#[cfg(not(target_feature = "avx2"))]
pub use words::{U8x32, nh_twice};

use core::arch::x86_64::{
    _mm_add_epi64, _mm_and_si128, _mm_blend_epi16, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_loadu_si128,
    _mm_setzero_si128, _mm_srli_epi64, _mm_unpackhi_epi64, _mm_unpacklo_epi64,
};

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
    // SAFETY: SSE 4.1 is in each baseline (x86-64-v2); registers only.
    let [first, last] = unsafe {
        let halves = |bytes| {
            let low = _mm_blend_epi16::<0b1100_1100>(bytes, _mm_setzero_si128());
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
    use super::sum_of_some;
    use proptest::prelude::*;

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
        fn sums_are_those_of_words(bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(255), any::<u8>()], 0..40)) {
            let word = |pair: &[u8]| u64::from(pair[0]) + 256 * pair.get(1).map_or(0, |byte| u64::from(*byte));
            let sum: u64 = bytes.chunks(2).map(word).sum();
            let inside = (16..=32).contains(&bytes.len());
            let found = sum_of_some(&bytes);
            prop_assert_eq!(found.map(|found| (found % 65535, found == 0)), inside.then_some((sum % 65535, sum == 0)));
            prop_assert!(found.unwrap_or(0) < 1 << 48);
        }
    }

    /// The same of each way to have 32 bytes.
    macro_rules! of {
        ($way:ident) => {
            mod $way {
                use super::super::$way::{U8x32, nh_twice};
                use super::nh;
                use proptest::prelude::*;

                fn vector(bytes: &[u8]) -> U8x32 {
                    U8x32::of(bytes.first_chunk().expect("32 bytes"))
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
                    fn bits_are_compared_where_the_mask_has_any(bytes: [u8; 32], other: [u8; 32], mask: [u8; 32], same: bool) {
                        let value = if same { std::array::from_fn(|i| bytes[i] & mask[i] | other[i] & !mask[i]) } else { other };
                        let equal = (0..32).all(|i| (bytes[i] ^ value[i]) & mask[i] == 0);
                        prop_assert_eq!(U8x32::of(&bytes).is(U8x32::of(&value), U8x32::of(&mask)), equal);
                        let words = bytes.as_chunks::<8>().0;
                        let words = U8x32::of_words(std::array::from_fn(|i| u64::from_le_bytes(words[i])));
                        prop_assert!(words.is(U8x32::of(&bytes), U8x32::of(&[255; 32])));
                        let both = U8x32::of(&bytes).and(U8x32::of(&mask));
                        prop_assert!(both.is(U8x32::of(&std::array::from_fn(|i| bytes[i] & mask[i])), U8x32::of(&[255; 32])));
                        prop_assert!(U8x32::zero().is(U8x32::of(&[0; 32]), U8x32::of(&mask)));
                    }
                }
            }
        };
    }

    #[cfg(target_feature = "avx2")]
    of!(avx2);
    of!(words);
}

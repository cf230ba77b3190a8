//! What safe Rust cannot say about memory: prefetching, and comparing several words at once.

#[cfg(target_feature = "avx2")]
use std::arch::asm;
use std::sync::atomic::AtomicU64;

/// Asks for the cache line of `item`, to be read soon. A hint: never faults.
#[inline]
pub fn prefetch<T>(item: &T) {
    // SAFETY: prefetching has no architectural effect; SSE is part of x86-64.
    unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(item).cast()) }
}

/// [`prefetch`], and of the line behind it, too.
#[inline]
pub fn prefetch_two<T>(item: &T) {
    let next = std::ptr::from_ref(item).cast::<i8>().wrapping_add(64);
    prefetch(item);
    // SAFETY: as in `prefetch`; an address that is nobody's does no harm.
    unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(next) }
}

/// Asks for the cache line of `item`, to be written soon: taken from other cores now, and not when
/// it is.
#[inline]
pub fn prefetch_to_write<T>(item: &T) {
    // SAFETY: as in `prefetch`; a core that does not know the instruction does nothing.
    unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_ET0 }>(std::ptr::from_ref(item).cast()) }
}

/// `n` values in memory that the kernel is asked to back with huge pages: a table that is looked up
/// at random costs no walk of page tables then. Where there are none it is ordinary memory.
#[must_use]
pub fn huge_slice<T>(n: usize, mut value: impl FnMut() -> T) -> Box<[T]> {
    let mut items: Vec<T> = Vec::with_capacity(n);
    let (start, len) = (items.as_mut_ptr().addr(), n * size_of::<T>());
    // Whole pages inside the allocation, before they are touched.
    let first = start.next_multiple_of(PAGE);
    let whole = (start + len).saturating_sub(first) / PAGE * PAGE;
    if whole >= HUGE_PAGE {
        // SAFETY: the pages lie in our own allocation; the advice changes neither contents nor
        // protection.
        unsafe { libc::madvise(std::ptr::with_exposed_provenance_mut(first), whole, libc::MADV_HUGEPAGE) };
    }
    items.extend((0..n).map(|_| value()));
    items.into_boxed_slice()
}

/// `n` words of zero in ordinary memory, which the kernel gives when a page of it is first written:
/// for what may never be needed.
#[must_use]
pub fn zeros(n: usize) -> Box<[AtomicU64]> {
    // SAFETY: an atomic word of zero bytes is a zero.
    unsafe { Box::new_zeroed_slice(n).assume_init() }
}

/// Bytes of pages (x86-64).
const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// Continues a CRC32c (RFC 9260, appendix A) over some bytes. Begin with all ones; the result is
/// the complement.
#[must_use]
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    // SAFETY: SSE 4.2 is in each baseline (x86-64-v2); the instructions touch registers only.
    unsafe {
        let crc = words.iter().fold(u64::from(crc), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
        #[allow(clippy::cast_possible_truncation)] // the upper half is 0
        rest.iter().fold(crc as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
    }
}

/// Four words in half a cache line, to be compared at once.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Words(pub [AtomicU64; 4]);

impl Words {
    /// Bit `i` is set where word `i` equals `word`. Each word is loaded once, with at least relaxed
    /// ordering.
    ///
    /// One comparison instead of four: 3 cycles of a packet's lookup instead of 9.
    #[cfg(target_feature = "avx2")]
    #[inline]
    #[must_use]
    pub fn equal_to(&self, word: &u64) -> u32 {
        let hits: u32;
        // SAFETY: reads the 32 aligned bytes of self and the word, and writes registers only. AVX2
        // is in this build's baseline. A vector load is atomic for each aligned 8-byte element,
        // and being assembly it is no data race to the compiler.
        unsafe {
            asm!(
                "vpbroadcastq {wide:y}, qword ptr [{word}]",
                "vpcmpeqq {wide:y}, {wide:y}, ymmword ptr [{words}]",
                "vmovmskpd {hits:e}, {wide:y}",
                words = in(reg) self,
                word = in(reg) word,
                wide = out(ymm_reg) _,
                hits = out(reg) hits,
                options(nostack, readonly, preserves_flags)
            );
        }
        hits
    }

    /// The same, for builds without AVX2.
    #[cfg(not(target_feature = "avx2"))]
    #[inline]
    #[must_use]
    pub fn equal_to(&self, word: &u64) -> u32 {
        self.each_equal_to(*word)
    }

    /// The same, word by word.
    #[cfg(any(test, not(target_feature = "avx2")))]
    #[inline]
    fn each_equal_to(&self, word: u64) -> u32 {
        self.0
            .iter()
            .zip(0..)
            .fold(0, |hits, (own, bit)| hits | u32::from(own.load(std::sync::atomic::Ordering::Relaxed) == word) << bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn huge_slices_hold_what_they_were_given() {
        for n in [0, 1, 1000, 1 << 20] {
            let mut next = 0;
            let slice = huge_slice(n, || {
                next += 1;
                next
            });
            assert_eq!(slice.len(), n);
            assert!(slice.iter().zip(1..).all(|(item, i)| *item == i), "{n} items");
        }
    }

    /// Resident pages of this process.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn zeros_take_memory_when_they_are_written() {
        let before = resident();
        let words = zeros(1 << 25);
        let taken = resident().saturating_sub(before) * PAGE;
        assert!(taken < size_of_val(&*words) / 4, "{taken} bytes");
        words[1 << 24].store(7, Relaxed);
        assert_eq!([1 << 24, (1 << 25) - 1].map(|at: usize| words[at].load(Relaxed)), [7, 0]);
    }

    #[test]
    fn crc32c_of_the_check_string_and_of_its_pieces() {
        let check = b"123456789";
        assert_eq!(!crc32c(u32::MAX, check), 0xe306_9283);
        for cut in 0..check.len() {
            assert_eq!(!crc32c(crc32c(u32::MAX, &check[..cut]), &check[cut..]), 0xe306_9283, "cut at {cut}");
        }
    }

    #[test]
    fn every_equal_word_shows_and_no_other() {
        let words = Words([5, u64::MAX, 5, 0].map(AtomicU64::new));
        for (word, hits) in [(5, 0b0101), (u64::MAX, 0b0010), (0, 0b1000), (4, 0), (5 << 32, 0)] {
            assert_eq!((words.equal_to(&word), words.each_equal_to(word)), (hits, hits), "{word:#x}");
        }
    }
}

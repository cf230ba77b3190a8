//! Memory hints.

/// Asks for the cache line of `item`, to be read soon. A hint: never faults.
#[inline]
pub fn prefetch<T>(item: &T) {
    // SAFETY: prefetching has no architectural effect; SSE is part of x86-64.
    unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(std::ptr::from_ref(item).cast()) }
}

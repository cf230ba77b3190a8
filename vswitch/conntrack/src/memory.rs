//! Where tables lie: whoever owns the tracker may know of better memory than the allocator's (huge
//! pages).

use std::sync::atomic::AtomicU64;

/// A kind of memory.
pub trait Memory {
    /// So many values in a row.
    fn slice<T>(n: usize, value: impl FnMut() -> T) -> Box<[T]>;

    /// So many words of zero, of which only those that are written take memory, if that can be had.
    fn zeros(n: usize) -> Box<[AtomicU64]>;
}

/// What the allocator gives. All of it is written at once.
#[derive(Clone, Copy, Debug)]
pub struct Ordinary;

impl Memory for Ordinary {
    fn slice<T>(n: usize, value: impl FnMut() -> T) -> Box<[T]> {
        std::iter::repeat_with(value).take(n).collect()
    }

    fn zeros(n: usize) -> Box<[AtomicU64]> {
        Self::slice(n, AtomicU64::default)
    }
}

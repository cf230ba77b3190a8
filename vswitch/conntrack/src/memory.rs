//! Where tables lie: whoever owns the tracker may know of better memory than the allocator's (huge pages).

/// A kind of memory.
pub trait Memory {
    /// So many values in a row.
    fn slice<T>(n: usize, value: impl FnMut() -> T) -> Box<[T]>;
}

/// What the allocator gives.
#[derive(Clone, Copy, Debug)]
pub struct Ordinary;

impl Memory for Ordinary {
    fn slice<T>(n: usize, value: impl FnMut() -> T) -> Box<[T]> {
        std::iter::repeat_with(value).take(n).collect()
    }
}

//! The bytes of one segment of a packet, which may lie in a guest's memory.
//!
//! **Where in the walk**: below [`Mbuf`](crate::Mbuf), whose methods are the only way to it.
//!
//! **Design**: a guest may change its memory at any time. No reference to such bytes is made:
//! whoever reads them gets a copy ([`Part::visit`]), and each byte is read once. Bytes of segments
//! of our own are handed out as they are. A copy of payload from segment to segment goes straight
//! from memory to memory ([`Part::copy_to`]).

use std::marker::PhantomData;
use std::ptr;

/// Bytes of borrowed memory that are copied at a time. Even, since sums are over words of 2 bytes.
const CHUNK: usize = 2048;

/// The bytes of a segment, or some of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    at: *const u8,
    len: usize,
    /// A guest may change them now.
    is_borrowed: bool,
    of: PhantomData<&'a [u8]>,
}

impl<'a> Part<'a> {
    /// Bytes of our own.
    pub(crate) const fn own(bytes: &'a [u8]) -> Self {
        Self { at: bytes.as_ptr(), len: bytes.len(), is_borrowed: false, of: PhantomData }
    }

    /// Bytes in a guest's memory.
    ///
    /// # Safety
    /// `len` bytes at `at` stay mapped for `'a`.
    #[cfg(any(test, feature = "dpdk"))]
    pub(crate) const unsafe fn borrowed(at: *const u8, len: usize) -> Self {
        Self { at, len, is_borrowed: true, of: PhantomData }
    }

    pub(crate) const fn len(self) -> usize {
        self.len
    }

    /// Where they are, for the kernel, which reads once what it sends.
    pub(crate) const fn as_ptr(self) -> *const u8 {
        self.at
    }

    /// Those behind the first `skip`, at most `len`.
    pub(crate) fn sub(self, skip: usize, len: usize) -> Self {
        let skip = skip.min(self.len);
        Self { at: self.at.wrapping_add(skip), len: len.min(self.len - skip), ..self }
    }

    /// Copies as many as there is room for, and returns how many.
    pub(crate) fn copy_to(self, to: &mut [u8]) -> usize {
        let n = self.len.min(to.len());
        // SAFETY: so many bytes are there for `'a`, and `to` is nobody else's.
        unsafe { ptr::copy_nonoverlapping(self.at, to.as_mut_ptr(), n) };
        n
    }

    /// Runs `f` on all bytes in order, in pieces.
    #[inline]
    pub(crate) fn visit(self, f: &mut impl FnMut(&[u8])) {
        if self.is_borrowed {
            return self.visit_copies(f);
        }
        // SAFETY: our own bytes, made of a slice of this lifetime.
        f(unsafe { std::slice::from_raw_parts(self.at, self.len) });
    }

    #[cold]
    fn visit_copies(mut self, f: &mut impl FnMut(&[u8])) {
        let mut chunk = [0; CHUNK];
        while self.len > 0 {
            let n = self.copy_to(&mut chunk);
            f(&chunk[..n]);
            self = self.sub(n, self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borrowed_bytes_are_copied_and_own_ones_are_not() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| i.to_le_bytes()[0]).collect();
        // SAFETY: the vector lives longer.
        let borrowed = unsafe { Part::borrowed(bytes.as_ptr(), bytes.len()) };
        for (part, pieces) in [(Part::own(&bytes), 1), (borrowed, 3)] {
            let (mut seen, mut n, mut is_same) = (Vec::new(), 0, true);
            part.visit(&mut |piece| {
                n += 1;
                is_same &= bytes.as_ptr_range().contains(&piece.as_ptr());
                seen.extend_from_slice(piece);
            });
            assert_eq!((seen == bytes, n, is_same), (true, pieces, pieces == 1));
            let mut to = [0; 10];
            assert_eq!((part.sub(100, 3).copy_to(&mut to), &to[..4]), (3, &[100, 101, 102, 0][..]));
            assert_eq!([part.sub(4999, 5).len(), part.sub(5000, 5).len(), part.sub(6000, 1).len()], [1, 0, 0]);
        }
    }
}

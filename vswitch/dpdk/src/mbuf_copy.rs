//! What both kinds of [`Mbuf`] do in safe code: copies across segments.

use super::part::Part;
use super::{Mbuf, Mempool};

impl Mempool {
    /// A packet with these bytes, in as many segments as it takes; none when the pool has too few.
    #[must_use]
    pub fn mbuf_from(&self, bytes: &[u8]) -> Option<Mbuf> {
        let mut mbuf = self.alloc()?;
        mbuf.append(bytes, self).then_some(mbuf)
    }
}

impl Mbuf {
    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes, in new segments where the last one is full. False (and some bytes appended)
    /// when the pool is empty.
    pub fn append(&mut self, bytes: &[u8], pool: &Mempool) -> bool {
        self.append_part(Part::own(bytes), pool)
    }

    /// Copies `to.len()` bytes from `offset`, across segments; false when the packet is shorter.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> bool {
        let (mut done, len) = (0, to.len());
        self.range(offset, len, |part| {
            done += part.copy_to(&mut to[done..]);
            true
        });
        done == len
    }

    /// Runs `f` on the bytes `offset..offset + len` in order, in pieces, across segments; false
    /// (and `f` run on those that are there) when the packet is shorter. What is borrowed from a
    /// guest is copied for it: `f` sees each byte once.
    #[inline]
    pub fn visit(&self, offset: usize, len: usize, mut f: impl FnMut(&[u8])) -> bool {
        self.range(offset, len, |part| {
            part.visit(&mut f);
            true
        })
    }

    /// Appends the bytes `offset..offset + len` of another packet, in new segments where the last
    /// one is full. False (and some bytes appended) when that packet is shorter or the pool empty.
    pub fn append_from(&mut self, other: &Self, offset: usize, len: usize, pool: &Mempool) -> bool {
        other.range(offset, len, |part| self.append_part(part, pool))
    }

    fn append_part(&mut self, mut part: Part<'_>, pool: &Mempool) -> bool {
        loop {
            let n = part.copy_to(self.tailroom_mut());
            self.grow(n);
            part = part.sub(n, part.len());
            if part.len() == 0 {
                return true;
            }
            let Some(segment) = pool.alloc() else { return false };
            self.chain(segment);
        }
    }

    /// Runs `f` on the parts that `offset..offset + len` lies in, until it says no; whether all
    /// were there and wanted.
    #[inline]
    fn range(&self, offset: usize, len: usize, mut f: impl FnMut(Part<'_>) -> bool) -> bool {
        let (mut skip, mut left) = (offset, len);
        for part in self.parts() {
            if left == 0 {
                break;
            }
            let piece = part.sub(skip, left);
            skip = skip.saturating_sub(part.len());
            if piece.len() > 0 && !f(piece) {
                return false;
            }
            left -= piece.len();
        }
        left == 0
    }

    /// Writes the bytes at `offset`, across segments; false when the packet is shorter, or a guest
    /// has those bytes.
    pub fn write(&mut self, mut offset: usize, from: &[u8]) -> bool {
        let (mut done, mut is_borrowed) = (0, false);
        self.for_each_segment_mut(|len, segment| {
            if offset >= len || done == from.len() || is_borrowed {
                offset = offset.saturating_sub(len);
                return;
            }
            let Some(segment) = segment else {
                is_borrowed = true;
                return;
            };
            let n = (len - offset).min(from.len() - done);
            segment[offset..offset + n].copy_from_slice(&from[done..done + n]);
            done += n;
            offset = 0;
        });
        done == from.len()
    }

    /// Takes the tag of the packet that it is made of.
    #[inline]
    pub fn take_tag(&mut self, of: &Self) {
        if of.tag() != 0 {
            self.set_tag(of.tag());
        }
    }

    /// A packet of its own with the same bytes and the same meta data; none when the pool has too
    /// few segments.
    #[must_use]
    pub fn copy(&self, pool: &Mempool) -> Option<Self> {
        let mut copy = pool.alloc()?;
        if !copy.append_from(self, 0, self.len(), pool) {
            return None;
        }
        copy.set_csum(self.csum());
        copy.set_inner_gso(self.gso_size(), self.inner_len());
        copy.take_tag(self);
        Some(copy)
    }

    /// A packet of its own of the first `len` bytes, or all if there are fewer; nothing is known of
    /// its checksum. None when the pool has too few segments.
    #[must_use]
    pub fn copy_front(&self, len: usize, pool: &Mempool) -> Option<Self> {
        let mut copy = pool.alloc()?;
        copy.append_from(self, 0, len.min(self.len()), pool).then_some(copy)
    }

    /// All bytes in one vector, for tests and slow paths.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len());
        self.visit(0, self.len(), |piece| bytes.extend_from_slice(piece));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Csum;

    #[test]
    fn long_packets_span_segments_and_survive_copies_reads_and_writes() {
        let pool = Mempool::for_tests(64);
        let bytes: Vec<u8> = (0..9000_u32).map(|i| i.to_be_bytes()[3]).collect();
        let mut mbuf = pool.mbuf_from(&bytes).expect("mbuf");
        assert_eq!((mbuf.len(), mbuf.nb_segs()), (9000, 5));
        mbuf.set_csum(Csum::Partial);
        mbuf.set_gso_size(1448);
        let copy = mbuf.copy(&pool).expect("copy");
        assert_eq!((copy.to_vec() == bytes, copy.csum(), copy.gso_size()), (true, Csum::Partial, 1448));
        assert_eq!((mbuf.inner_len(), copy.inner_len()), (0, 0));
        mbuf.set_inner_gso(1400, 0xfedc);
        let nested = mbuf.copy(&pool).expect("copy");
        assert_eq!((nested.gso_size(), nested.inner_len(), nested.csum()), (1400, 0xfedc, Csum::Partial));
        mbuf.set_gso_size(1448);
        assert_eq!((mbuf.gso_size(), mbuf.inner_len()), (1448, 0));
        mbuf.set_inner_gso(0, 77);
        assert_eq!((mbuf.gso_size(), mbuf.inner_len()), (0, 0));
        for offset in [0, 2040, 2047, 2048, 4090, 8990] {
            let mut ten = [0; 10];
            assert!(mbuf.read(offset, &mut ten), "read at {offset}");
            assert_eq!(ten, bytes[offset..offset + 10], "at {offset}");
            assert!(mbuf.write(offset, &[0xff; 10]), "write at {offset}");
            assert!(mbuf.read(offset, &mut ten));
            assert_eq!(ten, [0xff; 10], "at {offset}");
            assert!(mbuf.write(offset, &bytes[offset..offset + 10]), "write back at {offset}");
        }
        assert!(!mbuf.read(8991, &mut [0; 10]), "past the end");
        assert!(!mbuf.write(8991, &[0; 10]), "past the end");
        drop((mbuf, copy, nested));
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn tags_go_with_copies_and_end_with_the_packet() {
        const TAG: u64 = 0xfedc_ba98_7654_3210;
        let pool = Mempool::for_tests(1);
        let mut mbuf = pool.mbuf_from(&[7; 60]).expect("mbuf");
        assert_eq!(mbuf.tag(), 0);
        mbuf.set_csum(Csum::Partial);
        mbuf.set_tag(TAG);
        mbuf.set_gso_size(1400);
        mbuf.set_csum(Csum::Good);
        assert_eq!((mbuf.tag(), mbuf.csum(), mbuf.gso_size()), (TAG, Csum::Good, 1400));
        let others = Mempool::for_tests(2);
        assert_eq!(mbuf.copy(&others).expect("copy").tag(), TAG);
        let mut piece = others.mbuf_from(&[1]).expect("mbuf");
        piece.take_tag(&mbuf);
        assert_eq!(piece.tag(), TAG);
        piece.set_tag(0);
        assert_eq!((piece.tag(), piece.csum()), (0, Csum::Unknown));
        // The pool has one buffer: this is the same again.
        drop(mbuf);
        assert_eq!(pool.mbuf_from(&[7; 60]).expect("mbuf").tag(), 0);
    }

    #[test]
    fn empty_pool_gives_nothing_and_leaks_nothing() {
        let pool = Mempool::for_tests(3);
        assert!(pool.mbuf_from(&[0; 9000]).is_none());
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn headers_come_and_go_in_front() {
        let pool = Mempool::for_tests(2);
        let mut mbuf = pool.mbuf_from(&[7; 60]).expect("mbuf");
        mbuf.prepend(4).expect("headroom").copy_from_slice(&[1, 2, 3, 4]);
        assert_eq!((mbuf.len(), &mbuf.head()[..5]), (64, &[1, 2, 3, 4, 7][..]));
        assert!(mbuf.trim_front(4));
        assert!(!mbuf.trim_front(61));
        assert!(mbuf.prepend(200).is_none(), "more than the headroom");
        assert_eq!(mbuf.to_vec(), [7; 60]);
    }
}

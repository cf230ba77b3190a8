//! A burst: up to 32 owned mbufs in a row, as the devices take them.

use super::Mbuf;
use crate::limits::BURST;

/// Up to [`BURST`] mbufs, the first `len()` slots. Dropping a burst frees what is left in it.
#[derive(Debug)]
pub struct Burst {
    len: usize,
    /// `Option<Mbuf>` is one pointer, null for none: the array is what the C side calls `struct
    /// rte_mbuf *[BURST]`.
    slots: [Option<Mbuf>; BURST],
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// An empty burst.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, slots: [const { None }; BURST] }
    }

    /// Slots in use. A slot whose mbuf was taken counts until [`Burst::clear`].
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// No slot in use.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Room for no more.
    #[inline]
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.len == BURST
    }

    /// Appends an mbuf, or gives it back when the burst is full. Returns how many there are now.
    ///
    /// # Errors
    /// The mbuf itself.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<usize, Mbuf> {
        let len = self.len;
        match self.slots.get_mut(len) {
            Some(slot) => {
                let before = slot.replace(mbuf);
                debug_assert!(before.is_none(), "a slot behind those in use");
                // So nobody has to look whether there is something to free.
                std::mem::forget(before);
                self.len = len + 1;
                Ok(len + 1)
            }
            None => Err(mbuf),
        }
    }

    /// Takes the mbuf out of slot `i`.
    #[inline]
    pub fn take(&mut self, i: usize) -> Option<Mbuf> {
        self.slots.get_mut(i)?.take()
    }

    /// The slots in use.
    #[inline]
    #[must_use]
    pub fn slots(&self) -> &[Option<Mbuf>] {
        &self.slots[..self.len]
    }

    /// The mbufs that are still there, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Mbuf> {
        self.slots().iter().flatten()
    }

    /// The mbufs that are still there, in order, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Mbuf> {
        self.slots[..self.len].iter_mut().flatten()
    }

    /// The slots in use, for their mbufs to be taken, and leaves the burst empty. All are to be
    /// taken: what is not may be lost.
    #[inline]
    pub fn hand_out(&mut self) -> &mut [Option<Mbuf>] {
        let len = std::mem::take(&mut self.len);
        &mut self.slots[..len]
    }

    /// Takes all mbufs out, in order, and leaves the burst empty.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = Mbuf> + '_ {
        let len = std::mem::take(&mut self.len);
        self.slots[..len].iter_mut().filter_map(Option::take)
    }

    /// Frees the mbuf in slot `i` and closes the gap.
    pub fn remove(&mut self, i: usize) {
        if i < self.len {
            self.slots[i] = None;
            self.slots[i..self.len].rotate_left(1);
            self.len -= 1;
        }
    }

    /// Frees what is left and makes the burst empty.
    #[inline]
    pub fn clear(&mut self) {
        if self.len > 0 {
            Mbuf::free_all(&mut self.slots[..self.len]);
            self.len = 0;
        }
    }

    /// Drops the first `n` slots after a device took their mbufs, and moves the rest to the front.
    #[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
    pub(super) fn consume_front(&mut self, n: usize) {
        self.slots[..self.len].rotate_left(n);
        self.len -= n;
    }

    /// All slots, for a device to write; `set_len` follows.
    #[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
    pub(super) fn slots_mut(&mut self) -> &mut [Option<Mbuf>; BURST] {
        &mut self.slots
    }

    /// Says how many slots a device filled.
    #[cfg_attr(not(feature = "dpdk"), allow(dead_code))]
    pub(super) fn set_len(&mut self, len: usize) {
        debug_assert!(len <= BURST);
        self.len = len;
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mempool;

    #[test]
    fn full_burst_gives_the_mbuf_back_and_drop_frees_all() {
        let pool = Mempool::for_tests(2 * BURST);
        {
            let mut burst = Burst::new();
            for i in 0..BURST {
                assert!(burst.push(pool.alloc().expect("mbuf")).is_ok(), "slot {i}");
            }
            assert!(burst.is_full());
            assert!(burst.push(pool.alloc().expect("mbuf")).is_err());
            assert_eq!(pool.in_use(), BURST);
            assert!(burst.take(3).is_some());
            assert_eq!(burst.iter().count(), BURST - 1);
        }
        assert_eq!(pool.in_use(), 0);
    }

    #[test]
    fn consume_front_keeps_the_order_of_the_rest() {
        let pool = Mempool::for_tests(64);
        let mut burst = Burst::new();
        for i in 0..5_u8 {
            burst.push(pool.mbuf_from(&[i; 60]).expect("mbuf")).expect("room");
        }
        drop(burst.take(0));
        drop(burst.take(1));
        burst.consume_front(2);
        burst.remove(1);
        let left: Vec<u8> = burst.drain().map(|mbuf| mbuf.head()[0]).collect();
        assert_eq!(left, [2, 4]);
    }
}

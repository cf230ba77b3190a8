//! Chains of descriptors in a guest's memory (virtio 1.1, 2.6.5), followed to the pieces of memory
//! that they name.
//!
//! **Where in the walk**: [`super::borrowed`] follows the chains of packets that are borrowed.
//!
//! **Never trust the guest**: each descriptor is read once, each address checked against the
//! guest's regions. A chain has at most as many pieces as the caller has room for, so that a loop
//! ends. Nothing here needs DPDK: the fuzz target `vhost_rings` follows chains of any bytes.

use std::ptr;

/// Pieces of memory that a packet may consist of; Linux needs up to 19.
pub(super) const PIECES_MAX: usize = 32;

/// Flags of descriptors (virtio 1.1, 2.6.5).
pub(super) const NEXT: u16 = 1;
pub(super) const WRITE: u16 = 2;
pub(super) const INDIRECT: u16 = 4;

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR_LEN: u32 = 16;

/// A region of a guest's memory, and where it is mapped here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    /// Its first address in the guest.
    pub(super) guest: u64,
    /// Bytes.
    pub(super) size: u64,
    /// Its first byte here.
    pub(super) here: *const u8,
}

/// The regions of a guest.
#[derive(Debug, Default)]
pub(super) struct Regions(Vec<Region>);

impl Regions {
    /// Takes these in place of those before.
    pub(super) fn set(&mut self, regions: impl IntoIterator<Item = Region>) {
        self.0.clear();
        self.0.extend(regions);
    }

    /// All of them.
    #[cfg(feature = "dpdk")]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Region> {
        self.0.iter()
    }

    /// Where bytes of the guest's are here; none if they are not all in one region.
    pub(super) fn find(&self, guest: u64, len: u32) -> Option<*const u8> {
        let inside = |region: &&Region| {
            let at = guest.wrapping_sub(region.guest); // in front of the region: beyond all sizes
            at < region.size && u64::from(len) <= region.size - at
        };
        let region = self.0.iter().find(inside)?;
        let at = usize::try_from(guest - region.guest).ok()?;
        Some(region.here.wrapping_add(at))
    }
}

/// `struct vring_desc`, in little endian (virtio 1.1, 2.6.5).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

/// Bytes in a guest's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) at: *const u8,
    pub(super) len: usize,
}

impl Piece {
    /// No bytes.
    pub(super) const NONE: Self = Self { at: ptr::null(), len: 0 };

    /// The first bytes.
    pub(super) fn copy<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        // SAFETY: so many bytes are there.
        (self.len >= N).then(|| unsafe { ptr::copy_nonoverlapping(self.at, bytes.as_mut_ptr(), N) })?;
        Some(bytes)
    }

    /// Leaves out the first bytes, of which there are so many.
    pub(super) fn skip(&mut self, n: usize) {
        self.at = self.at.wrapping_add(n);
        self.len -= n;
    }

    /// Moves as many bytes as there are and fit; returns how many.
    pub(super) fn move_to(&mut self, to: &mut [u8]) -> usize {
        let n = self.len.min(to.len());
        // SAFETY: so many bytes are there, and there is room for them.
        unsafe { ptr::copy_nonoverlapping(self.at, to.as_mut_ptr(), n) };
        self.skip(n);
        n
    }
}

/// The pieces of the chain that begins with descriptor `head` of a table of `size`; none if it is a
/// chain for the library: one that contradicts itself or the memory, is for the guest to read, or
/// has more pieces than there is room for.
///
/// # Safety
/// `table` is aligned, and points to `size` descriptors that are mapped. So are the bytes of
/// `regions`. Both stay so for as long as the pieces are used. Somebody else may write them
/// meanwhile.
pub(super) unsafe fn pieces<'a>(
    table: *const Descriptor,
    size: u16,
    regions: &Regions,
    head: u16,
    pieces: &'a mut [Piece],
) -> Option<&'a mut [Piece]> {
    let (mut table, mut entries, mut at) = (table, u32::from(size), head);
    let mut is_indirect = false;
    let mut n = 0;
    loop {
        if u32::from(at) >= entries {
            return None;
        }
        // SAFETY: the table has so many entries, is mapped, and aligned (the first one by the
        // caller, another as checked below).
        let Descriptor { addr, len, flags, next } = unsafe { table.add(at.into()).read_volatile() };
        let here = regions.find(addr, len)?;
        if flags & INDIRECT != 0 {
            let is_table = flags == INDIRECT && len % DESCRIPTOR_LEN == 0 && here.cast::<Descriptor>().is_aligned();
            if is_indirect || n > 0 || !is_table {
                return None;
            }
            (is_indirect, table, entries, at) = (true, here.cast(), len / DESCRIPTOR_LEN, 0);
            continue;
        }
        if flags & WRITE != 0 || len == 0 {
            return None;
        }
        *pieces.get_mut(n)? = Piece { at: here, len: len as usize };
        n += 1;
        if flags & NEXT == 0 {
            return pieces.get_mut(..n);
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounded and exhaustive: regions and bytes at both ends of the address space, against numbers
    /// that do not go around.
    #[test]
    fn all_places_at_the_ends_of_memory_are_found_or_not() {
        let ends: Vec<u64> = (0..6).chain(u64::MAX - 5..=u64::MAX).collect();
        let (mut found, mut all) = (0, 0);
        for &start in &ends {
            for size in (0..5).filter(|size| start.checked_add(*size).is_some()) {
                let mut regions = Regions::default();
                regions.set([Region { guest: start, size, here: ptr::without_provenance(0x1000) }]);
                for &guest in &ends {
                    for len in [0, 1, 2, 3, 4, 5, u32::MAX - 1, u32::MAX] {
                        let (first, end) = (u128::from(start), u128::from(start) + u128::from(size));
                        let is_in =
                            (first..end).contains(&u128::from(guest)) && u128::from(guest) + u128::from(len) <= end;
                        let expected = is_in.then(|| 0x1000 + (u128::from(guest) - first) as usize);
                        let place = regions.find(guest, len).map(<*const u8>::addr);
                        assert_eq!(place, expected, "{len} bytes at {guest:#x}, region {start:#x}+{size}");
                        (found, all) = (found + u32::from(is_in), all + 1);
                    }
                }
            }
        }
        assert!(found > 100 && all > 4000, "{found} of {all}");
    }

    #[test]
    fn addresses_are_found_in_one_region_only() {
        let mut regions = Regions::default();
        let all = [(0x1000, 0x1000, 0x10_0000), (0x2000, 0x1000, 0x20_0000), (u64::MAX - 0xfff, 0xfff, 0x30_0000)];
        regions.set(all.map(|(guest, size, here)| Region { guest, size, here: ptr::without_provenance(here) }));
        let find = |guest, len| regions.find(guest, len).map(<*const u8>::addr);
        for (guest, len, expected) in [
            (0x1000, 0x1000, Some(0x10_0000)),
            (0x1000, 0x1001, None),
            (0x1fff, 1, Some(0x10_0fff)),
            (0x1fff, 2, None),
            (0x2000, 2, Some(0x20_0000)),
            (0xfff, 1, None),
            (0x3000, 0, None),
            (0x2800, u32::MAX, None),
            (0, 1, None),
            (u64::MAX - 1, 1, Some(0x30_0ffe)),
            (u64::MAX - 1, 2, None),
            (u64::MAX, 1, None),
        ] {
            assert_eq!(find(guest, len), expected, "{len} bytes at {guest:#x}");
        }
    }
}

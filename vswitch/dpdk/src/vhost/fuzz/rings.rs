//! Chains of any descriptors, in a guest's memory of any regions.

use super::super::chain::{
    self, DESCRIPTOR_LEN, Descriptor, INDIRECT, NEXT, PIECES_MAX, Piece, Region, Regions, WRITE,
};
use super::{byte, word};

/// Regions of a guest, and descriptors that one has room for.
const REGIONS_MAX: usize = 8;
const SLOTS_MAX: usize = 64;

/// A region of the guest: an allocation of its own, so that AddressSanitizer sees what is read
/// beside it.
struct Memory {
    guest: u64,
    /// Bytes of it that the guest has. The allocation is as long, but for what a slot needs.
    size: usize,
    slots: Vec<Descriptor>,
}

/// Where a chain's piece is: region, offset, length.
type Place = (usize, usize, usize);

/// A descriptor as seven bytes say it: into a region, or anywhere.
fn descriptor(guests: &[u64], input: &mut &[u8]) -> Descriptor {
    let (place, offset, len, flags, next) = (byte(input), word(input), word(input), byte(input), byte(input));
    let guest = guests.get(usize::from(place & 15)).copied().unwrap_or_default();
    let addr = guest.wrapping_add(offset.into());
    // An address that is nowhere, a length that is longer than any region.
    let addr = if place & 0x40 == 0 { addr } else { addr.wrapping_mul(0x0101_0101_0101) };
    let len = if place & 0x80 == 0 { u32::from(len) } else { u32::MAX - u32::from(len) };
    Descriptor { addr, len, flags: u16::from(flags & 7) | u16::from(flags & 8) << 8, next: next.into() }
}

fn memory(input: &mut &[u8]) -> Vec<Memory> {
    let count = 1 + usize::from(byte(input)) % REGIONS_MAX;
    let shapes: Vec<(u64, usize)> = (0..count).map(|_| (u64::from(word(input)) << 8, byte(input).into())).collect();
    let guests: Vec<u64> = shapes.iter().map(|(guest, _)| *guest).collect();
    let of = |(guest, shape): (u64, usize)| {
        let slots = 1 + shape % SLOTS_MAX;
        // The last slot is not always whole.
        let size = slots * DESCRIPTOR_LEN as usize - (shape / SLOTS_MAX) * 5;
        Memory { guest, size, slots: (0..slots).map(|_| descriptor(&guests, input)).collect() }
    };
    shapes.into_iter().map(of).collect()
}

/// A chain of any descriptors is followed. Returns how many pieces it has; none if it is refused.
///
/// # Panics
/// When another chain comes out than one by numbers alone, or a piece is not in one region, or they
/// are more or longer than they may be.
pub fn rings(mut input: &[u8]) -> Option<usize> {
    let input = &mut input;
    let memories = memory(input);
    let guests: Vec<u64> = memories.iter().map(|memory| memory.guest).collect();
    let size = 1_u16 << (byte(input) % 9);
    let head = u16::from(byte(input));
    let table: Vec<Descriptor> = (0..size).map(|_| descriptor(&guests, input)).collect();
    follow(&memories, &table, size, head)
}

/// Follows a chain, which is the same as by numbers alone. Returns how many pieces it has.
fn follow(memories: &[Memory], table: &[Descriptor], size: u16, head: u16) -> Option<usize> {
    let mut regions = Regions::default();
    regions.set(memories.iter().map(|Memory { guest, size, slots }| Region {
        guest: *guest,
        size: *size as u64,
        here: slots.as_ptr().cast(),
    }));
    let mut room = [Piece::NONE; PIECES_MAX];
    // SAFETY: all are there, and stay.
    let found = unsafe { chain::pieces(table.as_ptr(), size, &regions, head, &mut room) };
    let expected = expected(table, memories, head);
    let start = |region: usize| memories[region].slots.as_ptr().cast::<u8>();
    let same = match (&found, &expected) {
        (None, None) => true,
        (Some(pieces), Some(places)) => {
            let is_same = |(piece, (region, offset, len)): (&Piece, &Place)| {
                piece.at == start(*region).wrapping_add(*offset) && piece.len == *len
            };
            pieces.len() == places.len() && pieces.iter().zip(places).all(is_same)
        }
        _ => false,
    };
    assert!(same, "{found:?} instead of {expected:?} in {regions:?}");
    let pieces = found?;
    let longest = memories.iter().map(|memory| memory.size).max().unwrap_or_default();
    let sum: usize = pieces.iter().map(|piece| piece.len).sum();
    assert!((1..=PIECES_MAX).contains(&pieces.len()) && sum <= PIECES_MAX * longest, "{sum} bytes");
    read(pieces, sum);
    Some(pieces.len())
}

/// Reads all bytes: each is there.
fn read(pieces: &mut [Piece], sum: usize) {
    assert_eq!(pieces[0].copy::<1>().is_some(), pieces[0].len > 0);
    let mut bytes = vec![0; sum];
    let mut at = 0;
    for piece in pieces {
        at += piece.move_to(&mut bytes[at..]);
        assert_eq!(piece.len, 0, "all of it has room");
    }
    assert_eq!(at, sum);
}

/// Where an address is: the first region that has all of it.
fn place(memories: &[Memory], addr: u64, len: u32) -> Option<(usize, usize)> {
    let is_in = |memory: &Memory| {
        let (at, start) = (u128::from(addr), u128::from(memory.guest));
        at >= start && at < start + memory.size as u128 && at + u128::from(len) <= start + memory.size as u128
    };
    let region = memories.iter().position(is_in)?;
    Some((region, usize::try_from(addr - memories[region].guest).ok()?))
}

/// Descriptors as the guest's memory has them.
fn bytes_of(slots: &[Descriptor]) -> Vec<u8> {
    let bytes = |slot: &Descriptor| {
        let Descriptor { addr, len, flags, next } = *slot;
        [&addr.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
    };
    slots.iter().flat_map(bytes).collect()
}

/// Descriptor `at` of a table.
fn entry(table: &[u8], at: u16) -> Option<Descriptor> {
    let (entries, _) = table.as_chunks::<{ DESCRIPTOR_LEN as usize }>();
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *entries.get(usize::from(at))?;
    let (addr, len) = (u64::from_le_bytes([a, b, c, d, e, f, g, h]), u32::from_le_bytes([i, j, k, l]));
    Some(Descriptor { addr, len, flags: u16::from_le_bytes([m, n]), next: u16::from_le_bytes([o, p]) })
}

/// The chain by numbers: no pointer is followed.
fn expected(table: &[Descriptor], memories: &[Memory], head: u16) -> Option<Vec<Place>> {
    let (mut table, mut at, mut is_indirect) = (bytes_of(table), head, false);
    let mut places = Vec::new();
    loop {
        let Descriptor { addr, len, flags, next } = entry(&table, at)?;
        let (region, offset) = place(memories, addr, len)?;
        if flags & INDIRECT != 0 {
            let is_table = flags == INDIRECT && len % DESCRIPTOR_LEN == 0 && offset % align_of::<Descriptor>() == 0;
            if is_indirect || !places.is_empty() || !is_table {
                return None;
            }
            table = bytes_of(&memories[region].slots)[offset..offset + len as usize].to_vec();
            (at, is_indirect) = (0, true);
            continue;
        }
        if flags & WRITE != 0 || len == 0 || places.len() == PIECES_MAX {
            return None;
        }
        places.push((region, offset, len as usize));
        if flags & NEXT == 0 {
            return Some(places);
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where the two regions begin: one behind the other, the second one's end is the last address.
    const GUESTS: [u64; 2] = [u64::MAX - 63, u64::MAX - 31];

    /// All descriptors of these flags: into both regions, at both ends of each, and beside; of no
    /// bytes, one, a table's entry, more, and more than there is.
    fn descriptors(flags: &[u16], size: u16) -> Vec<Descriptor> {
        let mut all = Vec::new();
        for &flags in flags {
            for addr in [GUESTS[0] - 1, GUESTS[0], GUESTS[0] + 16, GUESTS[1] - 1, GUESTS[1], GUESTS[1] + 30] {
                for len in [0, 1, 16, 17, u32::MAX] {
                    let nexts = if flags & NEXT == 0 { 0..=0 } else { 0..=size };
                    all.extend(nexts.map(|next| Descriptor { addr, len, flags, next }));
                }
            }
        }
        all
    }

    /// Bounded and exhaustive: rings of one and of two descriptors, each of all in `descriptors`,
    /// and an indirect table of all kinds of first entries.
    #[test]
    fn all_small_rings_hold() {
        let last = Descriptor { addr: GUESTS[0], len: 1, flags: 0, next: 0 };
        let mut memories: Vec<Memory> =
            GUESTS.map(|guest| Memory { guest, size: 31, slots: vec![last; 2] }).into_iter().collect();
        let (mut walks, mut good) = (0_u64, 0_u64);
        let every: Vec<u16> = (0..8).collect();
        let firsts = descriptors(&every, 2);
        for second in descriptors(&[0, NEXT, WRITE, INDIRECT], 2) {
            for &first in &firsts {
                for head in 0..=2 {
                    good += u64::from(follow(&memories, &[first, second], 2, head).is_some());
                    walks += 1;
                }
            }
        }
        memories[0].size = 32;
        for entry in descriptors(&every, 2) {
            memories[0].slots[0] = entry;
            for &first in &firsts {
                good += u64::from(follow(&memories, &[first], 1, 0).is_some());
                walks += 1;
            }
        }
        assert!(walks > 200_000 && good > 1000, "{good} of {walks} chains are followed");
    }

    /// Two regions of a descriptor each, and a table of one.
    fn input(first: [u8; 7], of_region: [u8; 7]) -> Vec<u8> {
        [&[1, 1, 0, 0, 9, 0, 1][..], &of_region, &[0; 14], &[0, 0], &first].concat()
    }

    #[test]
    fn chains_are_followed() {
        assert_eq!(rings(&input([0, 0, 0, 16, 0, 0, 0], [0; 7])), Some(1), "one piece");
        assert_eq!(rings(&input([0, 0, 0, 17, 0, 0, 0], [0; 7])), None, "beyond its region");
        assert_eq!(rings(&input([0, 0, 0, 16, 0, 4, 0], [1, 3, 0, 9, 0, 0, 0])), Some(1), "by an indirect table");
        assert_eq!(rings(&input([0, 0, 0, 16, 0, 1, 0], [0; 7])), None, "a loop");
    }

    proptest! {
        #[test]
        fn any_chains_hold(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            rings(&bytes);
        }
    }
}

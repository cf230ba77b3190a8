//! The part of a frame that a learning switch reads.

/// Addresses and VLAN of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct L2 {
    /// Destination address, low 48 bits, first byte most significant.
    pub destination: u64,
    /// Source address, likewise.
    pub source: u64,
    /// VLAN id of the outer 802.1Q tag; 0: untagged or priority-tagged.
    pub vlan: u16,
    /// There is a tag that says no VLAN, or one that is cut off.
    pub odd_tag: bool,
}

impl L2 {
    /// Reads a frame's first bytes; none when there are fewer than 14. A tag that is cut off counts
    /// as none.
    #[inline]
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        // One length check for what is not cut off; a tag is read with the type before it.
        let (head, tag): (&[u8; 14], u32) = match frame.first_chunk::<16>() {
            Some(head) => (head.first_chunk()?, u32::from_be_bytes(*head.last_chunk()?)),
            None => (frame.first_chunk()?, 0),
        };
        // Two overlapping words instead of twelve bytes.
        let destination = u64::from_be_bytes(*head.first_chunk()?) >> 16;
        let source = u64::from_be_bytes(*head[4..].first_chunk()?) & 0xffff_ffff_ffff;
        let (vlan, odd_tag) = match tag >> 16 {
            0x8100 | 0x88a8 => ((tag & 0xfff) as u16, tag & 0xfff == 0),
            _ => (0, frame.len() < 16 && matches!(head[12..], [0x81, 0] | [0x88, 0xa8])),
        };
        Some(Self { destination, source, vlan, odd_tag })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_the_outer_tag() {
        let mut frame = vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 8, 0, 0xff, 0xff];
        let plain = L2 { destination: 0x0102_0304_0506, source: 0x0708_090a_0b0c, vlan: 0, odd_tag: false };
        assert_eq!(L2::parse(&frame), Some(plain));
        for tpid in [[0x81, 0x00], [0x88, 0xa8]] {
            frame[12..14].copy_from_slice(&tpid);
            assert_eq!(L2::parse(&frame), Some(L2 { vlan: 0xfff, ..plain }), "{tpid:x?}");
            assert_eq!(L2::parse(&frame[..15]), Some(L2 { odd_tag: true, ..plain }), "tag cut off, {tpid:x?}");
            frame[14..].fill(0);
            assert_eq!(L2::parse(&frame), Some(L2 { odd_tag: true, ..plain }), "priority tag, {tpid:x?}");
            frame[14..].fill(0xff);
        }
        for len in 0..14 {
            assert_eq!(L2::parse(&frame[..len]), None, "{len} bytes");
        }
    }
}

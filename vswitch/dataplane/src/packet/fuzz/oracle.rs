//! Headers and checksums by code that shares nothing with what is tested: bytes by their offsets in
//! the RFCs.

/// The fragment header of IPv6.
pub(crate) const FRAGMENT: u8 = 44;

/// In it, the bits of the offset: what a later fragment carries is no header.
const LATER: usize = 0xfff8;

/// Where the headers of an IP packet lie in some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) v6: bool,
    pub(crate) l3: usize,
    pub(crate) l4: usize,
    /// Where the packet ends by its own length; beyond the bytes when it was cut.
    pub(crate) end: usize,
    /// Protocol; [`FRAGMENT`] where that is as far as the headers go.
    pub(crate) protocol: u8,
    /// Where the destination is that checksums cover; none: a routing header has segments left.
    pub(crate) destination: Option<usize>,
}

fn be(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*bytes.get(at)?) << 8 | usize::from(*bytes.get(at + 1)?))
}

impl Parts {
    /// Of a frame with up to two VLAN tags.
    pub(crate) fn of_frame(frame: &[u8]) -> Option<Self> {
        Self::of_frame_until(frame, LATER)
    }

    /// The same up to the header of a fragment of IPv6, the first one included.
    pub(crate) fn before_fragment(frame: &[u8]) -> Option<Self> {
        Self::of_frame_until(frame, LATER | 1)
    }

    fn of_frame_until(frame: &[u8], fragment: usize) -> Option<Self> {
        let mut at = 12;
        for _ in 0..2 {
            if matches!(be(frame, at)?, 0x8100 | 0x88a8) {
                at += 4;
            }
        }
        match be(frame, at)? {
            0x0800 => Self::v4(frame, at + 2),
            0x86dd => Self::v6_until(frame, at + 2, fragment),
            _ => None,
        }
    }

    /// Of an IPv4 packet that starts at `l3`.
    pub(crate) fn v4(bytes: &[u8], l3: usize) -> Option<Self> {
        let l4 = l3 + usize::from(*bytes.get(l3)? & 15) * 4;
        let (end, protocol) = (l3 + be(bytes, l3 + 2)?, *bytes.get(l3 + 9)?);
        bytes.get(l3..l3 + 20)?;
        Some(Self { v6: false, l3, l4, end, protocol, destination: Some(l3 + 16) })
    }

    /// Of an IPv6 packet that starts at `l3`.
    pub(crate) fn v6(bytes: &[u8], l3: usize) -> Option<Self> {
        Self::v6_until(bytes, l3, LATER)
    }

    /// Up to a fragment header that has one of these bits, behind which there are no headers.
    fn v6_until(bytes: &[u8], l3: usize, fragment: usize) -> Option<Self> {
        bytes.get(l3..l3 + 40)?;
        let mut found = Self {
            v6: true,
            l3,
            l4: l3 + 40,
            end: l3 + 40 + be(bytes, l3 + 4)?,
            protocol: bytes[l3 + 6],
            destination: Some(l3 + 24),
        };
        loop {
            let units = usize::from(*bytes.get(found.l4 + 1).unwrap_or(&0));
            let next = found.l4
                + match found.protocol {
                    0 | 43 | 60 => units * 8 + 8,
                    FRAGMENT => 8,
                    51 => units * 4 + 8,
                    _ => return Some(found),
                };
            let header = bytes.get(found.l4..found.l4 + 8)?;
            if found.protocol == FRAGMENT && be(header, 2)? & fragment != 0 {
                return Some(found);
            }
            if found.protocol == 43 && header[3] > 0 {
                found.destination = None;
            }
            (found.protocol, found.l4) = (header[0], next);
        }
    }

    /// Where the Internet checksum of L4 lies, and whether a pseudo-header is under it; none where
    /// there is none.
    pub(crate) fn checksum(&self) -> Option<(usize, bool)> {
        match (self.protocol, self.v6) {
            (6, _) => Some((self.l4 + 16, true)),
            (17, _) => Some((self.l4 + 6, true)),
            (1, false) => Some((self.l4 + 2, false)),
            (58, true) => Some((self.l4 + 2, true)),
            _ => None,
        }
    }

    /// The sum over the IPv4 header: 0xffff if it is right.
    pub(crate) fn header_sum(&self, bytes: &[u8]) -> Option<u16> {
        (!self.v6).then(|| bytes.get(self.l3..self.l4).map(naive_sum))?
    }

    /// The sum over L4 with its pseudo-header, as far as the bytes go: 0xffff if it is right. None
    /// where there is no checksum, or nobody can tell.
    pub(crate) fn l4_sum(&self, bytes: &[u8]) -> Option<u16> {
        let (field, has_pseudo) = self.checksum()?;
        if self.protocol == 17 && be(bytes, field)? == 0 || bytes.len() < field + 2 {
            return None;
        }
        // A quoted packet may claim to be shorter than what is quoted of it: then its checksum is
        // none.
        if self.end < (field + 2).max(self.l4 + 8) {
            return None;
        }
        let destination = self.destination?;
        let len = if self.v6 { 16 } else { 4 };
        let source = self.l3 + if self.v6 { 8 } else { 12 };
        let mut summed = Vec::new();
        if has_pseudo {
            summed.extend_from_slice(bytes.get(source..source + len)?);
            summed.extend_from_slice(bytes.get(destination..destination + len)?);
            summed.extend_from_slice(&u32::try_from(self.end.checked_sub(self.l4)?).ok()?.to_be_bytes());
            summed.extend_from_slice(&[0, 0, 0, self.protocol]);
        }
        summed.extend_from_slice(bytes.get(self.l4..self.end.min(bytes.len()))?);
        Some(naive_sum(&summed))
    }

    /// Makes the checksums of the IPv4 header and of L4 right, as far as the bytes go.
    pub(crate) fn repair(&self, bytes: &mut [u8]) {
        let mut write = |at: usize, sum: u16| {
            if let Some(field) = bytes.get_mut(at..at + 2) {
                field.copy_from_slice(&sum.to_be_bytes());
            }
        };
        if !self.v6 {
            write(self.l3 + 10, 0);
        }
        // A UDP checksum of 0 is none: 1 is not, and taken off again.
        let first = u16::from(self.protocol == 17);
        let checksum = self.checksum().filter(|_| self.destination.is_some());
        if let Some((field, _)) = checksum {
            write(field, first);
        }
        let header = self.header_sum(bytes);
        let l4 = self.l4_sum(bytes);
        let mut write = |at: usize, sum: u16| {
            if let Some(field) = bytes.get_mut(at..at + 2) {
                field.copy_from_slice(&sum.to_be_bytes());
            }
        };
        if let Some(sum) = header {
            write(self.l3 + 10, !sum);
        }
        if let (Some(sum), Some((field, _))) = (l4, checksum) {
            let sum = u32::from(sum) + u32::from(!first);
            let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or(0xffff);
            write(field, if sum == 0 && self.protocol == 17 { 0xffff } else { sum });
        }
        if self.protocol == 132 && bytes.len() >= self.l4 + 12 {
            bytes[self.l4 + 8..self.l4 + 12].fill(0);
            let crc = naive_crc32c(bytes.get(self.l4..self.end.min(bytes.len())).unwrap_or_default());
            bytes[self.l4 + 8..self.l4 + 12].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// The ones' complement sum of RFC 1071, one word after the other; 0, which is the same number, as
/// 0xffff.
pub(crate) fn naive_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in bytes.chunks(2) {
        sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u64::from(*byte));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).ok().filter(|sum| *sum != 0).unwrap_or(0xffff)
}

/// The CRC32c of RFC 9260, one bit after the other.
pub(crate) fn naive_crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}

//! Checksums of short packets that are made, or read, far from the fast path: composed ones, a
//! Traceflow's, IGMP's. Workers have their own (`packet::checksum`), made for frames in pieces.

/// The sum of big-endian 16-bit words (RFC 1071), not folded; a last odd byte counts as the high
/// one of its word. Bytes: at most 64 KB, so that it does not overflow.
#[must_use]
pub fn sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum = words.iter().fold(0_u32, |sum, word| sum.wrapping_add(u16::from_be_bytes(*word).into()));
    sum.wrapping_add(rest.first().map_or(0, |last| u32::from(*last) << 8))
}

/// A sum with its carries in 16 bits: 0xffff over what has its right checksum in it; what is to be
/// written is its complement.
#[must_use]
pub const fn folded(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    #[allow(clippy::cast_possible_truncation)] // what was carried over is added
    let folded = ((sum & 0xffff) + (sum >> 16)) as u16;
    folded
}

/// The Internet checksum as it is written (RFC 1071) of bytes on top of a sum, such as a pseudo
/// header's; 0 over what has a right one in it.
#[must_use]
pub fn internet(bytes: &[u8], start: u32) -> u16 {
    !folded(start.wrapping_add(sum(bytes)))
}

/// CRC-32C, bit by bit: SCTP's checksum, written in little-endian order (RFC 9260, appendix A).
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let byte = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
    };
    !bytes.iter().fold(u32::MAX, byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        // RFC 1071, section 3; RFC 9260's check value.
        assert_eq!(folded(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn odd_bytes_and_carries() {
        assert_eq!(sum(&[0x12, 0x34, 0x56]), 0x1234 + 0x5600);
        assert_eq!((folded(0), folded(0xffff), folded(0x1_0000), folded(u32::MAX)), (0, 0xffff, 1, 0xffff));
        let most = vec![0xff; 65535];
        assert_eq!(folded(sum(&most)), 0xff00, "65,534 bytes of 0xff and a high one");
    }
}

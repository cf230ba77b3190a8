//! Big-endian fields of a header that is an array: offsets are constants of the views, so no access
//! is out of bounds.

#[inline]
pub(super) fn bytes<const K: usize, const N: usize>(header: &[u8; N], at: usize) -> [u8; K] {
    let mut field = [0; K];
    field.copy_from_slice(&header[at..at + K]);
    field
}

#[inline]
pub(super) fn be16<const N: usize>(header: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes(bytes(header, at))
}

#[inline]
pub(super) fn be32<const N: usize>(header: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes(bytes(header, at))
}

#[inline]
pub(super) fn set<const N: usize>(header: &mut [u8; N], at: usize, field: &[u8]) {
    header[at..at + field.len()].copy_from_slice(field);
}

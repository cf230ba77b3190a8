//! Hashes that each agent and each version of it makes alike.

/// FNV-1a of 64 bits (Fowler, Noll, Vo). What begins alike has hashes that are alike.
pub(crate) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The same, with the last step of MurmurHash3: all bits depend on all bytes.
pub(crate) fn mixed(bytes: impl Iterator<Item = u8>) -> u64 {
    let mix = |hash: u64, by: u64| (hash ^ (hash >> 33)).wrapping_mul(by);
    let hash = mix(mix(fnv(bytes), 0xff51_afd7_ed55_8ccd), 0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

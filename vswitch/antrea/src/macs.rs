//! MAC addresses that flows of several kinds agree on.

/// Source MAC of packets that the host is to translate, but for its last octet: the mark.
pub(crate) const HOST_MAC: [u8; 5] = [0x0e, 0, 0, 0, 1];

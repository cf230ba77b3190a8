//! Ports by index.

/// Index of a port in the switch's tables: small, dense, reused after a port is gone and every worker has forgotten it. Not the
/// OpenFlow number, which is per bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

impl PortId {
    /// As an index into arrays.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

//! Ports by index.

/// Index of a port in the switch's tables: small, dense, reused after a port is gone and every
/// worker has forgotten it. Not the OpenFlow number, which is per bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

impl PortId {
    /// No port: where a packet of a controller came from. No index reaches it
    /// ([`crate::limits::PORTS_MAX`]).
    pub const NONE: Self = Self(u16::MAX);

    /// As an index into arrays.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

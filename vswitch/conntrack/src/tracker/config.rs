//! How large the tracker is.

/// How large the tracker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Connections in all; memory for them is taken at start: 192 bytes each, and 32 to 64 bytes of index. At most [`Self::CONNECTIONS_MAX`] count.
    pub connections_max: usize,
}

impl Config {
    /// Most connections that a tracker can have: some 16 GiB of them.
    pub const CONNECTIONS_MAX: usize = 1 << 26;

    pub(super) fn places(self) -> u32 {
        let places = self.connections_max.min(Self::CONNECTIONS_MAX);
        u32::try_from(places).unwrap_or(u32::MAX)
    }
}

//! How large the tracker is.

/// How large the tracker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Connections in all, of whichever family; memory for them is taken at start: 164 bytes each
    /// (two lines, four words of index, four bytes to be free in), and some 2 MiB for zones and
    /// ports. One of IPv6 has a line more. It is there for each, but takes memory when there are so
    /// many for the first time. At most [`Self::CONNECTIONS_MAX`] count.
    pub connections_max: usize,
}

impl Config {
    /// Most connections that a tracker can have: some 10 GiB of them, and 4 GiB more if all are of
    /// IPv6.
    pub const CONNECTIONS_MAX: usize = 1 << 26;

    pub(super) fn places(self) -> u32 {
        let places = self.connections_max.min(Self::CONNECTIONS_MAX);
        u32::try_from(places).unwrap_or(u32::MAX)
    }
}

//! Why a packet of a connection went the long way: through its decisions one by one, and the tracker's table.

/// Why a packet that met `ct()` was not handled by a program, or why none was made of what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fallback {
    /// It belongs to no connection yet, or is no plain segment or datagram of one: opens it, ends it, is invalid, an error, of a helper.
    Untracked,
    /// It has changed its connection: mark, label, state, first reply.
    Changed,
    /// Its way has a form that no program has: a copy goes on behind `ct()`, a controller is told, there are too many stages.
    Shape,
    /// A decision on its way may not be kept.
    Uncached,
    /// A decision of its path is to be looked at once more, or has ended.
    Stale,
    /// Its connection is not as it was, has expired, or does not expect such a segment now.
    Connection,
    /// Its lengths or checksums are not right.
    Checksum,
}

impl Fallback {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
    /// All of them, in order.
    pub const ALL: [Self; 7] =
        [Self::Untracked, Self::Changed, Self::Shape, Self::Uncached, Self::Stale, Self::Connection, Self::Checksum];

    /// As users read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Untracked => "untracked",
            Self::Changed => "changed",
            Self::Shape => "shape",
            Self::Uncached => "uncached",
            Self::Stale => "stale",
            Self::Connection => "connection",
            Self::Checksum => "checksum",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (at, reason) in Fallback::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "{}", reason.name());
        }
    }
}

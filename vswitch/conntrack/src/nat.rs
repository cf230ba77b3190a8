//! Which tuple a connection is translated to.

use crate::Tuple;

/// What is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NatSide {
    /// The source of the original direction.
    Src,
    /// Its destination.
    Dst,
}

/// `nat(...)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// None: bare `nat`, as the connection has it.
    pub side: Option<NatSide>,
    /// First and last address; IPv4 in the low 32 bits.
    pub addresses: Option<(u128, u128)>,
    /// First and last port.
    pub ports: Option<(u16, u16)>,
    /// `random`: where to begin in the range is random, not by hash.
    pub random: bool,
}

/// The tuple of the replies to a new connection that is translated like this, one that `is_free`; none if none of those that may be tried is. `hash`: of the original
/// tuple, keyed.
pub fn choose(original: &Tuple, nat: &Nat, hash: u64, is_free: impl FnMut(&Tuple) -> bool) -> Option<Tuple> {
    let _ = (nat, hash, is_free);
    Some(original.reversed())
}

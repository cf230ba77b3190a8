//! Makes a packet fit its way out: finishes partial checksums, segments GSO packets, describes both to devices.

use crate::dpdk::{Mbuf, Mempool};
use crate::observe::DropReason;

/// What a transmit queue takes from us unfinished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent capabilities
pub struct TxCaps {
    /// Partial TCP and UDP checksums.
    pub csum: bool,
    /// TCP over IPv4 longer than the MTU.
    pub tso4: bool,
    /// TCP over IPv6 longer than the MTU.
    pub tso6: bool,
    /// UDP datagram trains (`UDP_SEGMENT`).
    pub uso: bool,
}

/// Hands `out` what is to be sent in place of `mbuf`, in order: the mbuf itself where `caps` take it (or nothing had to be
/// done), the mbuf with its checksum finished, or the segments of a GSO packet.
///
/// # Errors
/// The reason to drop what was not handed out.
pub fn finish(_mbuf: Mbuf, _caps: TxCaps, _pool: &Mempool, _out: &mut dyn FnMut(Mbuf)) -> Result<(), DropReason> {
    unimplemented!()
}

/// Sets the mbuf's transmit offload (header lengths derived from the bytes) for ethdev and librte_vhost, where its checksum
/// is partial or it is a GSO packet. Call after [`finish`].
///
/// # Errors
/// [`DropReason::VnetHeader`] when the headers cannot be described.
pub fn describe(_mbuf: &mut Mbuf) -> Result<(), DropReason> {
    unimplemented!()
}

//! The kernel's packet interfaces: TAP (`/dev/net/tun`) and packet sockets (packet(7)), with the
//! ioctls that go with them.
//!
//! **Where in the walk**: both ends of the ports `tap`, `internal` and `af_packet`, which are safe
//! code over what this module hands out.
//!
//! **Design**: everything speaks the 10-byte virtio-net header ([`VNET_LEN`]), so that partial
//! checksums and GSO packets cross in both directions as they are. A packet is read into mbuf
//! segments by one `readv` ([`SegmentReader`]) or copied out of a mapped ring ([`RxRing`]), and
//! leaves by a gathering call ([`Gather`]): no bytes are copied in user space on the way out. Only
//! the safe API of [`super::Mbuf`] is used, so both kinds of mbuf work.
//!
//! **Limits**: a port holds [`SegmentReader::SPARES`] mbufs (TAP) or [`RxRing::BYTES`] of kernel
//! memory (packet socket).
//!
//! **Threads**: descriptors are shared (`&self`, the kernel serialises); readers, rings and scratch
//! space have one owner.

mod error;
mod gather;
mod ifreq;
mod netns;
mod packet_socket;
mod rx_ring;
mod segment_reader;
mod tap;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use error::KernelError;
pub use gather::{Gather, Outgoing};
pub use packet_socket::PacketSocket;
pub use rx_ring::{RxFrame, RxRing};
pub use segment_reader::{SegmentReader, TapPacket, Unreadable};
pub use tap::{Tap, TapState};

/// Bytes of `struct virtio_net_hdr` in front of every packet.
pub const VNET_LEN: usize = 10;

/// Whether a kernel of this release (`uname -r`) takes UDP datagram trains
/// (`VIRTIO_NET_HDR_GSO_UDP_L4`) from us: since Linux 6.2. A distribution that backported it is
/// taken for one that did not.
#[must_use]
pub fn release_takes_uso(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 2)
}

/// The last error of a system call that returned `rc`, or the (non-negative) result.
fn check(rc: i64) -> std::io::Result<usize> {
    usize::try_from(rc).map_err(|_| std::io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    #[test]
    fn uso_by_release() {
        for (release, takes) in [
            ("6.1.0-18-amd64", false),
            ("5.15.0", false),
            ("6.2.0", true),
            ("6.18.44-x", true),
            ("7.0", true),
            ("10", true),
            ("", false),
            ("next-2024", false),
        ] {
            assert_eq!(super::release_takes_uso(release), takes, "{release:?}");
        }
    }
}

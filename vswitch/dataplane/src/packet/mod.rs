//! Bytes as headers: checked views, addresses, checksums, segmentation. Safe code over slices and
//! [`vswitch_dpdk::Mbuf`].
//!
//! **Where in the walk**: behind receive (parse, take over what a virtio-net header says) and
//! before transmit (finish checksums, segment).
//!
//! **Design**: a view is an array of header bytes (`Ipv4<&[u8; 20]>` to read, `Ipv4<&mut [u8; 20]>`
//! to write too) that its `parse` checked once, together with the lengths in it; accessors do not
//! fail after that. `parse` also returns what follows, cut to those lengths. [`Headers`] finds only
//! offsets, over any segments, for checksum offload and segmentation. A partial checksum is always
//! that of the outermost TCP or UDP header: see [`offload::finish_checksum`]. The one exception are
//! packets for segmentation in a tunnel that their sender made (`nested.rs`): the kernel describes
//! their innermost headers.
//!
//! **Limits**: headers in the first [`headers::HEADERS_MAX`] bytes, two VLAN tags, eight IPv6
//! extension headers, [`crate::limits::GSO_SEGMENTS_MAX`].
//!
//! **Threads**: no state.
//!
//! **Not here**: headers of the switch's own tunnels, reassembly.

pub mod arp;
pub mod checksum;
pub mod ethernet;
mod field;
mod fragment;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod headers;
pub mod icmp;
mod ipv4;
mod ipv6;
mod l2;
mod nested;
pub mod offload;
pub mod refusal;
mod segment;
pub mod strict;
pub mod tcp;
#[cfg(test)]
pub(crate) mod testing;
pub mod too_big;
pub mod udp;
mod vnet;

pub use arp::Arp;
pub use ethernet::{Ethernet, Vlan, ethertype};
pub use fragment::fragment;
pub use headers::{Headers, L4};
pub use icmp::Icmp;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use l2::L2;
pub use offload::TxCaps;
pub use tcp::Tcp;
pub use udp::Udp;
pub use vnet::VnetHdr;
pub use vswitch_net_types::Mac;

/// A header, its options, and its payload.
pub type WithOptions<'a, H> = (H, &'a [u8], &'a [u8]);

/// [`WithOptions`], to write.
pub type WithOptionsMut<'a, H> = (H, &'a mut [u8], &'a mut [u8]);

//! Bytes as headers: checked views, addresses, checksums, segmentation. Safe code over slices and [`crate::dpdk::Mbuf`].
//!
//! **Where in the walk**: behind receive (parse) and before transmit (finish checksums, segment).
//!
//! **Design**: a view is made by a constructor that checks the length once; accessors do not fail after that.

pub mod checksum;
pub mod headers;
mod l2;
mod mac;
pub mod offload;
mod segment;
#[cfg(test)]
mod testing;
mod vnet;

pub use headers::Headers;
pub use l2::L2;
pub use mac::Mac;
pub use offload::TxCaps;
pub use vnet::VnetHdr;

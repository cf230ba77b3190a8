//! The language of the pipeline, shared by the daemon and its tools: what a packet is to a rule
//! ([`FlowKey`]), what rules match ([`SparseMatch`]) and do ([`Action`]), what an agent writes
//! ([`spec`]), all of it as text in the syntax of ovs-ofctl ([`text`]), and the classifier that
//! finds the rule of a packet ([`classifier`]).
//!
//! **Where in the walk**: behind the caches. A packet that no cache knows is parsed into a
//! [`FlowKey`], and the tables are looked up.
//!
//! **Design**: a packet with all its metadata is [`WORDS`] words. A field ([`Field`]) is a run of
//! bits in one word (two for 128-bit fields), so that matching, masking and hashing are the same
//! few loops for every field, and a sparse match is a bitmap of words. Where Open vSwitch's `struct
//! flow` shares storage between fields (arp_spa and nw_src, icmp_type and tp_src, arp_op and
//! nw_proto, arp_sha and nd_sll), so do we: programs can tell.
//!
//! **Threads**: plain values. No unsafe code, no DPDK, no clock.
#![forbid(unsafe_code)]

mod absent;
pub mod action;
pub mod checksum;
pub mod classifier;
pub mod extract;
pub mod field;
mod key;
mod matching;
mod refusal;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod text;

pub use absent::PacketKind;
pub use action::Action;
pub use field::{Field, Location, Subfield};
pub use key::{
    FIRST_PACKET_WORD, FlowKey, FlowMask, HiddenPorts, LAST_PACKET_WORD, TUNNEL_WORD, WORDS, metadata_words,
};
pub use matching::SparseMatch;
pub use refusal::Refusal;

//! What the first bytes of a packet say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_flow::extract::extract;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::v1::{ConnectionTuple, IcmpEnds};

const ETH_IPV4: u128 = 0x800;
const ETH_IPV6: u128 = 0x86dd;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const ICMPV6: u8 = 58;
/// Flags of TCP are nine bits.
const TCP_FLAGS: u128 = 0x1ff;

/// Headers of a packet.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Headers {
    /// Who speaks to whom. None: it is not IP, or its header is not whole.
    pub tuple: Option<ConnectionTuple>,
    /// Of TCP.
    pub tcp_flags: u32,
    /// Ethernet source; empty: the frame is too short.
    pub source: Vec<u8>,
    /// Ethernet destination.
    pub destination: Vec<u8>,
}

/// Reads the first bytes of a frame that has `whole` bytes. Ports that are not there are 0.
pub(crate) fn read(bytes: &[u8], whole: usize) -> Headers {
    let mut headers = Headers::default();
    let Some((destination, rest)) = bytes.split_first_chunk::<6>() else { return headers };
    let Some((source, _)) = rest.split_first_chunk::<6>() else { return headers };
    (headers.source, headers.destination) = (source.to_vec(), destination.to_vec());
    let mut key = FlowKey::default();
    let layers = extract(bytes, whole.max(bytes.len()), &mut key);
    let (src, dst, is_v6) = match key.get(Field::EthType) {
        ETH_IPV4 => (v4(key.get(Field::NwSrc)), v4(key.get(Field::NwDst)), false),
        ETH_IPV6 => (v6(key.get(Field::Ipv6Src)), v6(key.get(Field::Ipv6Dst)), true),
        _ => return headers,
    };
    // A header that is not whole leaves all of its fields 0.
    if src.is_unspecified() && dst.is_unspecified() {
        return headers;
    }
    let protocol = u8::try_from(key.get(Field::NwProto) & 0xff).unwrap_or_default();
    let low16 = |field| u32::try_from(key.get(field) & 0xffff).unwrap_or_default();
    let (src_port, dst_port) = (low16(Field::TpSrc), low16(Field::TpDst));
    let mut tuple = ConnectionTuple {
        src: crate::address_bytes(&src),
        dst: crate::address_bytes(&dst),
        protocol: protocol.into(),
        ..ConnectionTuple::default()
    };
    if matches!((protocol, is_v6), (ICMP, false) | (ICMPV6, true)) {
        // Type and code are where flows have ports.
        let id = bytes.get(usize::from(layers.l4).saturating_add(4)..).and_then(|rest| rest.first_chunk());
        let id = id.map_or(0, |id| u16::from_be_bytes(*id)).into();
        tuple.icmp = Some(IcmpEnds { id, r#type: src_port & 0xff, code: dst_port & 0xff });
    } else {
        (tuple.src_port, tuple.dst_port) = (src_port, dst_port);
    }
    if protocol == TCP {
        headers.tcp_flags = u32::try_from(key.get(Field::TcpFlags) & TCP_FLAGS).unwrap_or_default();
    }
    headers.tuple = Some(tuple);
    headers
}

fn v4(value: u128) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(value & 0xffff_ffff).unwrap_or_default()))
}

fn v6(value: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ADDRESSES, frame};
    use proptest::prelude::*;

    #[test]
    fn tcp_of_both_families() {
        for (from, to) in ADDRESSES {
            let bytes = frame(from, to, 6, 1400);
            let headers = read(&bytes[..bytes.len().min(128)], bytes.len());
            let tuple = headers.tuple.expect("IP");
            assert_eq!((tuple.src_port, tuple.dst_port, tuple.protocol), (41234, 5432, 6));
            assert_eq!(crate::address(&tuple.src), Some(from.parse().expect("an address")));
            assert_eq!((headers.tcp_flags, headers.source, tuple.icmp), (2, vec![2, 0, 0, 0, 0, 1], None));
        }
    }

    #[test]
    fn icmp_has_no_ports() {
        for ((from, to), protocol) in ADDRESSES.into_iter().zip([1, 58]) {
            let tuple = read(&frame(from, to, protocol, 8), 200).tuple.expect("IP");
            assert_eq!((tuple.src_port, tuple.dst_port), (0, 0));
            assert_eq!(tuple.icmp, Some(IcmpEnds { id: 0x3039, r#type: 8, code: 3 }));
        }
    }

    #[test]
    fn what_is_no_ip_has_no_tuple() {
        assert_eq!(read(&[1; 11], 60), Headers::default());
        let mut arp = frame("10.0.0.1", "10.0.0.2", 6, 8);
        arp[12..14].copy_from_slice(&[8, 6]);
        let headers = read(&arp, 60);
        assert_eq!((headers.tuple, headers.destination), (None, vec![2, 0, 0, 0, 0, 2]));
        assert_eq!(read(&frame("10.0.0.1", "10.0.0.2", 6, 8)[..30], 90).tuple, None, "half a header");
    }

    proptest! {
        /// Any bytes with any length are read without a panic.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..=128), whole in 0usize..70_000) {
            let _ = read(&bytes, whole);
        }
    }
}

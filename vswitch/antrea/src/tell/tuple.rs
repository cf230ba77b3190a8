//! Who speaks to whom: of a packet, of the connection that it belongs to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use vswitch_flow::extract::extract;
use vswitch_flow::{Field, FlowKey};
use vswitch_proto::v1::{ConnectionTuple, IcmpEnds};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ETH_IPV4: u128 = 0x800;
const ETH_IPV6: u128 = 0x86dd;

/// Who speaks to whom. Both addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// IP protocol.
    pub protocol: u8,
    /// Of TCP, UDP and SCTP; of ICMP the identifier.
    pub source_port: u16,
    /// Likewise; of ICMP `type << 8 | code`.
    pub destination_port: u16,
}

impl Tuple {
    /// ICMP, or ICMPv6, of the right family.
    const fn is_icmp(&self) -> bool {
        matches!((self.source, self.protocol), (IpAddr::V4(_), ICMP) | (IpAddr::V6(_), ICMPV6))
    }

    /// In the interface.
    #[must_use]
    pub fn to_proto(&self) -> ConnectionTuple {
        let octets = |address: &IpAddr| match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        let [kind, code] = self.destination_port.to_be_bytes().map(u32::from);
        let icmp = self.is_icmp().then(|| IcmpEnds { id: self.source_port.into(), r#type: kind, code });
        let port = |port: u16| if icmp.is_some() { 0 } else { port.into() };
        ConnectionTuple {
            src: octets(&self.source),
            dst: octets(&self.destination),
            protocol: self.protocol.into(),
            src_port: port(self.source_port),
            dst_port: port(self.destination_port),
            icmp,
        }
    }
}

/// What the bytes of a packet say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// Who speaks to whom.
    pub tuple: Tuple,
    /// Bytes of its IP datagram.
    pub len: u32,
}

impl Packet {
    /// Reads a frame from its Ethernet header. None: it is not IP. Ports that are not there (a
    /// later fragment's) are 0.
    #[must_use]
    pub fn read(frame: &[u8]) -> Option<Self> {
        Self::read_part(frame, frame.len())
    }

    /// Likewise, of the first bytes of a frame that has `whole` bytes.
    #[must_use]
    pub fn read_part(frame: &[u8], whole: usize) -> Option<Self> {
        let mut key = FlowKey::default();
        let layers = extract(frame, whole.max(frame.len()), &mut key);
        let (source, destination) = match key.get(Field::EthType) {
            ETH_IPV4 => (v4(key.get(Field::NwSrc)), v4(key.get(Field::NwDst))),
            ETH_IPV6 => (v6(key.get(Field::Ipv6Src)), v6(key.get(Field::Ipv6Dst))),
            _ => return None,
        };
        let protocol = low8(key.get(Field::NwProto));
        let (source_port, destination_port) = (low16(key.get(Field::TpSrc)), low16(key.get(Field::TpDst)));
        let mut tuple = Tuple { source, destination, protocol, source_port, destination_port };
        if tuple.is_icmp() {
            // Type and code are where flows have ports.
            tuple.destination_port = source_port << 8 | destination_port & 0xff;
            let id = frame.get(usize::from(layers.l4) + 4..).and_then(|rest| rest.first_chunk());
            tuple.source_port = id.map_or(0, |id| u16::from_be_bytes(*id));
        }
        Some(Self { tuple, len: layers.l3_end.saturating_sub(layers.l3).into() })
    }

    /// The connection's tuple before translation, which its metadata tell if it has met a tracker;
    /// else the packet's own.
    #[must_use]
    pub fn original(&self, metadata: &FlowKey) -> Tuple {
        let protocol = low8(metadata.get(Field::CtNwProto));
        if protocol == 0 || protocol != self.tuple.protocol {
            return self.tuple;
        }
        let (source, destination) = match self.tuple.source {
            IpAddr::V4(_) => (v4(metadata.get(Field::CtNwSrc)), v4(metadata.get(Field::CtNwDst))),
            IpAddr::V6(_) => (v6(metadata.get(Field::CtIpv6Src)), v6(metadata.get(Field::CtIpv6Dst))),
        };
        if source.is_unspecified() && destination.is_unspecified() {
            return self.tuple;
        }
        let original = Tuple { source, destination, ..self.tuple };
        if original.is_icmp() {
            // The tracker tells its type and code, which nothing translates, and not the
            // identifier.
            return original;
        }
        let port = |field| low16(metadata.get(field));
        Tuple { source_port: port(Field::CtTpSrc), destination_port: port(Field::CtTpDst), ..original }
    }
}

fn v4(value: u128) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(value & 0xffff_ffff).unwrap_or_default()))
}

fn v6(value: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(value))
}

fn low16(value: u128) -> u16 {
    u16::try_from(value & 0xffff).unwrap_or_default()
}

fn low8(value: u128) -> u8 {
    u8::try_from(value & 0xff).unwrap_or_default()
}

//! The header in front of a frame that goes into a tunnel: built once per decision, written for
//! each packet.

use crate::options::{SPACE_MAX, Walk};
use crate::wire::{self, ETHERNET, IPV4, IPV6, Writer, fold, sum};
use crate::{Ends, HEADER_MAX};

/// What stands in front of the inner frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// MAC address of the port that has the tunnel's address.
    pub eth_src: [u8; 6],
    /// MAC address of the next hop.
    pub eth_dst: [u8; 6],
    /// The two ends.
    pub ends: Ends,
    /// Type of service, traffic class.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// IPv4: don't fragment. IPv6 ignores it.
    pub df: bool,
    /// What follows the IP header.
    pub body: TunnelHeader,
}

/// The header between IP and the inner frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TunnelHeader {
    /// UDP and Geneve.
    Geneve {
        /// Virtual network identifier; its low 24 bits are sent, as Open vSwitch does with a tunnel
        /// id.
        vni: u32,
        /// UDP destination port.
        dst_port: u16,
        /// IPv4: with a UDP checksum. IPv6 always has one.
        csum: bool,
        /// The O bit: a control packet.
        oam: bool,
        /// Options as they are sent: [`crate::OptionMap::encode`]. The C bit follows from them.
        options: Vec<u8>,
    },
    /// UDP and VXLAN.
    Vxlan {
        /// As with Geneve.
        vni: u32,
        /// UDP destination port.
        dst_port: u16,
        /// As with Geneve.
        csum: bool,
        /// Group Policy: `tun_gbp_flags` (of which D, 0x40, and A, 0x08, are sent) and
        /// `tun_gbp_id`. None: the port does not have `exts=gbp`. If both are 0 the G bit is not
        /// set, as with Linux: Open vSwitch 3.1's userspace sends none of it.
        gbp: Option<(u8, u16)>,
    },
    /// GRE with Ethernet frames.
    Gre {
        /// The key; none: no such field.
        key: Option<u32>,
        /// With a checksum.
        csum: bool,
        /// With a sequence number, which [`Header::write`] is given.
        seq: bool,
    },
}

/// Why there is no such header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// More bytes of options than Geneve can have.
    #[error("{0} bytes of Geneve options, where 252 are the most")]
    OptionSpace(usize),
    /// What should be options is no sequence of whole ones.
    #[error("malformed Geneve options")]
    Options,
}

/// Where a checksum goes that whoever has the packet in hand must finish: sum the bytes from
/// `start` to the end of the packet, the field included, and write the complement at `field`
/// (`packet::checksum::finish`). [`Header::write`] leaves the field as this wants it: for UDP it
/// holds the pseudo-header sum, so the packet may as well be marked as one with a partial checksum
/// (`Csum::Partial`) that somebody else finishes; for GRE it holds 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChecksumAt {
    /// First byte that is summed, from the outer Ethernet header.
    pub start: usize,
    /// The field, from the outer Ethernet header.
    pub field: usize,
    /// UDP: a sum of 0 is written as 0xffff (RFC 768).
    pub no_zero: bool,
}

/// A header that waits for packets. Two that are equal write the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    bytes: [u8; HEADER_MAX],
    len: u16,
    ends: Ends,
    id: u32,
    /// IPv4: the folded sum of its header without the length.
    ip: u16,
    /// With a UDP checksum: the folded sum of its pseudo-header without the length.
    pseudo: u16,
    transport: Transport,
    /// IPv4 and UDP without a checksum, and nothing optional.
    plain: bool,
}

/// What there is to write behind the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Transport {
    Udp { csum: bool },
    Gre { csum: bool, seq: bool },
}

/// UDP source ports: this one and those behind it (`tnl_udp_port_min` and `tnl_udp_port_max` of
/// Open vSwitch).
const SOURCE_PORT: u16 = 32_768;
const SOURCE_PORTS: u64 = 61_000 - 32_768;

/// Bytes of a plain header: Ethernet, IPv4, UDP, Geneve without options or VXLAN.
const PLAIN: usize = ETHERNET + IPV4 + 8 + 8;

impl Header {
    /// Prepares it.
    ///
    /// # Errors
    /// When Geneve's options are too long or malformed.
    pub fn new(outer: &Outer) -> Result<Self, HeaderError> {
        let mut bytes = [0; HEADER_MAX];
        let (protocol, transport) = match outer.body {
            TunnelHeader::Geneve { csum, .. } | TunnelHeader::Vxlan { csum, .. } => {
                let csum = csum || matches!(outer.ends, Ends::V6 { .. });
                (wire::PROTOCOL_UDP, Transport::Udp { csum })
            }
            TunnelHeader::Gre { csum, seq, .. } => (wire::PROTOCOL_GRE, Transport::Gre { csum, seq }),
        };
        let mut writer = Writer::new(&mut bytes);
        writer.put(&outer.eth_dst).put(&outer.eth_src);
        put_ip(&mut writer, outer, protocol);
        put_body(&mut writer, &outer.body)?;
        #[allow(clippy::cast_possible_truncation)] // at most HEADER_MAX
        let len = writer.len() as u16;
        let ip = match outer.ends {
            Ends::V4 { .. } => fold(sum(&bytes[ETHERNET..ETHERNET + IPV4])),
            Ends::V6 { .. } => 0,
        };
        let pseudo = fold(wire::pseudo(&outer.ends, protocol));
        let id = match outer.body {
            TunnelHeader::Geneve { vni, .. } | TunnelHeader::Vxlan { vni, .. } => vni & 0x00ff_ffff,
            TunnelHeader::Gre { key, .. } => key.unwrap_or(0),
        };
        let plain = len as usize == PLAIN
            && matches!((&outer.ends, transport), (Ends::V4 { .. }, Transport::Udp { csum: false }));
        Ok(Self { bytes, len, ends: outer.ends, id, ip, pseudo, transport, plain })
    }

    /// Bytes in front of the inner frame: at least 38, at most [`HEADER_MAX`].
    #[allow(clippy::len_without_is_empty)] // none is
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// The header without what each packet changes: lengths, IPv4 header checksum, UDP source port
    /// and checksum, GRE checksum and sequence number are 0.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Longest inner frame that the 16-bit lengths can tell.
    #[inline]
    #[must_use]
    pub const fn inner_max(&self) -> usize {
        // IPv4's length counts its own header, IPv6's does not.
        let counted_from = match self.ends {
            Ends::V4 { .. } => ETHERNET,
            Ends::V6 { .. } => ETHERNET + IPV6,
        };
        u16::MAX as usize - (self.len() - counted_from)
    }

    /// The tunnel's id, as the other end sees it; 0: it has none.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Where it goes.
    #[must_use]
    pub const fn ends(&self) -> Ends {
        self.ends
    }

    /// Offset of the UDP or GRE header.
    const fn l4(&self) -> usize {
        match self.ends {
            Ends::V4 { .. } => ETHERNET + IPV4,
            Ends::V6 { .. } => ETHERNET + IPV6,
        }
    }

    /// Writes the header for one packet into `front`, which is [`Header::len`] bytes: lengths, IPv4
    /// header checksum, UDP source port (32768 to 60999, by `hash` of the inner flow, as Open
    /// vSwitch), GRE sequence number `seq` (of the port, if [`Header::sequenced`]). The checksum
    /// over the payload is left to the caller: [`Header::checksum`]. False, and nothing is written,
    /// when `front` has another length or `inner_len` is more than [`Header::inner_max`].
    #[must_use]
    pub fn write(&self, front: &mut [u8], inner_len: usize, hash: u32, seq: u32) -> bool {
        self.write_with(front, inner_len, source_port(hash), seq)
    }

    /// [`Header::write`], with the [`source_port`] instead of the hash.
    #[must_use]
    pub fn write_with(&self, front: &mut [u8], inner_len: usize, port: u16, seq: u32) -> bool {
        if front.len() != self.len() || inner_len > self.inner_max() {
            return false;
        }
        if self.is_plain() {
            self.write_plain(front, inner_len, port);
            return true;
        }
        front.copy_from_slice(self.bytes());
        let l4 = self.l4();
        #[allow(clippy::cast_possible_truncation)] // inner_max() sees to it
        let length_from = |at: usize| (front.len() - at + inner_len) as u16;
        let (total, payload) = (length_from(ETHERNET), length_from(l4));
        match self.ends {
            Ends::V4 { .. } => {
                set16(front, ETHERNET + 2, total);
                set16(front, ETHERNET + 10, !fold(u32::from(self.ip) + u32::from(total)));
            }
            Ends::V6 { .. } => set16(front, ETHERNET + 4, payload),
        }
        match self.transport {
            Transport::Udp { csum } => {
                set16(front, l4, port);
                set16(front, l4 + 4, payload);
                if csum {
                    set16(front, l4 + 6, fold(u32::from(self.pseudo) + u32::from(payload)));
                }
            }
            Transport::Gre { seq: true, .. } => {
                let at = front.len() - 4;
                front[at..].copy_from_slice(&seq.to_be_bytes());
            }
            Transport::Gre { .. } => {}
        }
        true
    }

    /// It is what most tunnels have, IPv4 and UDP without a checksum and nothing optional:
    /// [`Header::write_plain`] writes it.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.plain
    }

    /// [`Header::write`], of a plain one for an inner frame of no more than [`Header::inner_max`]
    /// bytes. `front`: as long as it is. `port`: the [`source_port`].
    #[inline]
    pub fn write_plain(&self, front: &mut [u8], inner_len: usize, port: u16) {
        let (Ok(front), Some(bytes)) = (<&mut [u8; PLAIN]>::try_from(front), self.bytes.first_chunk()) else { return };
        *front = *bytes;
        #[allow(clippy::cast_possible_truncation)] // inner_max() sees to it
        let [total, payload] = [PLAIN - ETHERNET, PLAIN - ETHERNET - IPV4].map(|header| (header + inner_len) as u16);
        set16(front, ETHERNET + 2, total);
        set16(front, ETHERNET + 10, !fold(u32::from(self.ip) + u32::from(total)));
        set16(front, ETHERNET + IPV4, port);
        set16(front, ETHERNET + IPV4 + 4, payload);
    }

    /// It has a GRE sequence number: the port counts them.
    #[must_use]
    pub const fn sequenced(&self) -> bool {
        matches!(self.transport, Transport::Gre { seq: true, .. })
    }

    /// Where the checksum over the outer payload goes, if this header has one.
    #[inline]
    #[must_use]
    pub const fn checksum(&self) -> Option<ChecksumAt> {
        let start = self.l4();
        match self.transport {
            Transport::Udp { csum: true } => Some(ChecksumAt { start, field: start + 6, no_zero: true }),
            Transport::Gre { csum: true, .. } => Some(ChecksumAt { start, field: start + 4, no_zero: false }),
            _ => None,
        }
    }
}

/// Ethernet type and IP header, without length and checksum.
fn put_ip(writer: &mut Writer<'_>, outer: &Outer, protocol: u8) {
    match outer.ends {
        Ends::V4 { src, dst } => {
            writer.be16(wire::ETH_TYPE_IPV4).put(&[0x45, outer.tos]).be16(0).be16(0);
            writer.be16(if outer.df { 0x4000 } else { 0 }).put(&[outer.ttl, protocol]).be16(0);
            writer.put(&src.octets()).put(&dst.octets());
        }
        Ends::V6 { src, dst } => {
            writer.be16(wire::ETH_TYPE_IPV6).be32(6 << 28 | u32::from(outer.tos) << 20).be16(0);
            writer.put(&[protocol, outer.ttl]).put(&src.octets()).put(&dst.octets());
        }
    }
}

/// What is behind the IP header. Every field that each packet changes is 0.
fn put_body(writer: &mut Writer<'_>, body: &TunnelHeader) -> Result<(), HeaderError> {
    match *body {
        TunnelHeader::Geneve { vni, dst_port, oam, ref options, .. } => {
            let critical = is_critical(options)?;
            let flags = if oam { wire::GENEVE_OAM } else { 0 } | if critical { wire::GENEVE_CRITICAL } else { 0 };
            #[allow(clippy::cast_possible_truncation)] // at most SPACE_MAX
            let words = (options.len() / 4) as u8;
            writer.be16(0).be16(dst_port).be32(0);
            writer.put(&[words, flags]).be16(wire::ETH_TYPE_TEB).be32(vni << 8).put(options);
        }
        TunnelHeader::Vxlan { vni, dst_port, gbp, .. } => {
            writer.be16(0).be16(dst_port).be32(0);
            match gbp.map(|(flags, id)| (flags & wire::GBP_FLAGS, id)) {
                None | Some((0, 0)) => writer.be32(u32::from(wire::VXLAN_VNI) << 24),
                Some((flags, id)) => writer.put(&[wire::VXLAN_VNI | wire::VXLAN_GBP, flags]).be16(id),
            };
            writer.be32(vni << 8);
        }
        TunnelHeader::Gre { key, csum, seq } => {
            let flag = |there: bool, flag: u16| if there { flag } else { 0 };
            let flags = flag(csum, wire::GRE_CSUM) | flag(key.is_some(), wire::GRE_KEY) | flag(seq, wire::GRE_SEQ);
            writer.be16(flags).be16(wire::ETH_TYPE_TEB);
            if csum {
                writer.be32(0);
            }
            if let Some(key) = key {
                writer.be32(key);
            }
            if seq {
                writer.be32(0);
            }
        }
    }
    Ok(())
}

/// Whether one of these options is critical.
fn is_critical(options: &[u8]) -> Result<bool, HeaderError> {
    if options.len() > SPACE_MAX {
        return Err(HeaderError::OptionSpace(options.len()));
    }
    let mut critical = false;
    for option in Walk::new(options) {
        critical |= option.map_err(|_| HeaderError::Options)?.is_critical();
    }
    Ok(critical)
}

/// The UDP source port of a flow with this hash: 32768 to 60999.
#[allow(clippy::cast_possible_truncation)] // less than SOURCE_PORTS
#[inline]
#[must_use]
pub const fn source_port(hash: u32) -> u16 {
    SOURCE_PORT + ((hash as u64 * SOURCE_PORTS) >> 32) as u16
}

fn set16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;

//! Who talks to whom: the key of a connection, one per direction.

/// IP protocols that are more than a number here.
#[allow(missing_docs)]
pub mod protocol {
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ICMPV6: u8 = 58;
    pub const SCTP: u8 = 132;
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// Addresses are 32 bits.
    #[default]
    V4,
    /// Addresses are 128 bits.
    V6,
}

/// Address and port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// As a number; IPv4 in the low 32 bits.
    pub addr: u128,
    /// Port of TCP, UDP, SCTP. ICMP and ICMPv6: of the source the identifier, of the destination
    /// `type << 8 | code`. Else 0.
    pub port: u16,
}

/// Who talks to whom, in a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tuple {
    /// Sender.
    pub src: End,
    /// Receiver.
    pub dst: End,
    /// Of the addresses.
    pub family: Family,
    /// IP protocol.
    pub protocol: u8,
    /// Connections of different zones do not know each other.
    pub zone: u16,
}

impl Tuple {
    /// ICMP or ICMPv6, of the right family: ends have an identifier and a type instead of ports.
    #[must_use]
    pub const fn is_icmp(&self) -> bool {
        matches!((self.family, self.protocol), (Family::V4, protocol::ICMP) | (Family::V6, protocol::ICMPV6))
    }

    /// TCP, UDP or SCTP.
    #[must_use]
    pub const fn has_ports(&self) -> bool {
        matches!(self.protocol, protocol::TCP | protocol::UDP | protocol::SCTP)
    }

    /// What an answer to a packet of this tuple has: ends exchanged; of ICMP addresses exchanged,
    /// the same identifier, and the reply's type for a request's (and the other way round).
    #[must_use]
    pub const fn reversed(&self) -> Self {
        let (src, dst) = (self.src, self.dst);
        if self.is_icmp() {
            let kind = End { addr: src.addr, port: answer(self.family, dst.port) };
            return Self { src: End { addr: dst.addr, port: src.port }, dst: kind, ..*self };
        }
        Self { src: dst, dst: src, ..*self }
    }
}

/// `type << 8 | code` of the answer to a message, and of the request for an answer (RFC 792, RFC
/// 4443). Others are their own.
const fn answer(family: Family, kind: u16) -> u16 {
    let (code, kind) = (kind & 0xff, kind >> 8);
    let other = match (family, kind) {
        (Family::V4, 0) => 8,
        (Family::V4, 8) => 0,
        (Family::V4, 13 | 15 | 17) | (Family::V6, 128) => kind + 1,
        (Family::V4, 14 | 16 | 18) | (Family::V6, 129) => kind - 1,
        (_, kind) => kind,
    };
    other << 8 | code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_an_answer_is_the_question() {
        let tcp = Tuple {
            src: End { addr: 1, port: 1000 },
            dst: End { addr: 2, port: 80 },
            protocol: protocol::TCP,
            zone: 7,
            ..Tuple::default()
        };
        let back = tcp.reversed();
        assert_eq!((back.src, back.dst, back.zone), (tcp.dst, tcp.src, 7));
        let ping = Tuple { protocol: protocol::ICMP, dst: End { addr: 2, port: 8 << 8 }, ..tcp };
        let pong = ping.reversed();
        assert_eq!((pong.src, pong.dst), (End { addr: 2, port: 1000 }, End { addr: 1, port: 0 }));
        for tuple in [tcp, ping] {
            assert_eq!(tuple.reversed().reversed(), tuple);
        }
    }
}

//! Bytes of packets: those that are sent, and live ones as they came in.

use super::Protocol;
use crate::Mac;
use std::net::IpAddr;
use vswitch_flow::checksum::{crc32c, folded, internet, sum};
use vswitch_flow::extract::{Layers, extract};
use vswitch_flow::{Field, FlowKey};

/// What a packet is to be.
pub(super) struct Headers {
    pub(super) source_mac: Mac,
    pub(super) destination_mac: Mac,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: Protocol,
    /// Of ICMP: its identifier.
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    pub(super) tcp_flags: u16,
    pub(super) ttl: u8,
    pub(super) dscp: u8,
    pub(super) payload_len: usize,
}

/// Type of an SCTP chunk that begins a connection, and its length.
const SCTP_INIT: [u8; 4] = [1, 0, 0, 20];
/// What a new end of SCTP offers: tag, window, streams out and in, first number.
const SCTP_OFFER: [u8; 16] = [0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1];

/// The frame, from its Ethernet header, with right checksums.
pub(super) fn build(headers: &Headers) -> Vec<u8> {
    let mut frame = Vec::with_capacity(128 + headers.payload_len);
    frame.extend(headers.destination_mac.0);
    frame.extend(headers.source_mac.0);
    let is_v6 = headers.source.is_ipv6();
    let (number, mut segment) = segment(headers, is_v6);
    segment.extend(std::iter::repeat_n(0x61, headers.payload_len));
    let length = u16::try_from(segment.len()).unwrap_or(u16::MAX);
    let tos = headers.dscp << 2;
    match (headers.source, headers.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.extend([0x08, 0x00, 0x45, tos]);
            frame.extend((length + 20).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, headers.ttl, number, 0, 0]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
            let sum = internet(&frame[14..34], 0);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            frame.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([number, headers.ttl]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        // Families of both ends are the same: `read` sees to that.
        _ => {}
    }
    let addresses = frame.get(if is_v6 { 22 } else { 26 }..).map(sum).unwrap_or_default();
    let pseudo = addresses + u32::from(number) + u32::from(length);
    finish(headers.protocol, is_v6, pseudo, &mut segment);
    frame.extend(segment);
    frame
}

/// The header behind IP's without checksum, and its number.
fn segment(headers: &Headers, is_v6: bool) -> (u8, Vec<u8>) {
    let mut out = Vec::with_capacity(32 + headers.payload_len);
    let ports = u32::from(headers.source_port) << 16 | u32::from(headers.destination_port);
    match headers.protocol {
        Protocol::Tcp => {
            out.extend(ports.to_be_bytes());
            out.extend([0; 8]);
            out.extend((5 << 12 | headers.tcp_flags).to_be_bytes());
            out.extend([0x40, 0, 0, 0, 0, 0]);
            (6, out)
        }
        Protocol::Udp => {
            out.extend(ports.to_be_bytes());
            let length = u16::try_from(8 + headers.payload_len).unwrap_or(u16::MAX);
            out.extend(length.to_be_bytes());
            out.extend([0, 0]);
            (17, out)
        }
        Protocol::Sctp => {
            out.extend(ports.to_be_bytes());
            out.extend([0; 8]);
            out.extend(SCTP_INIT);
            out.extend(SCTP_OFFER);
            (132, out)
        }
        Protocol::Icmp => {
            out.extend([if is_v6 { 128 } else { 8 }, 0, 0, 0]);
            out.extend(headers.source_port.to_be_bytes());
            out.extend([0, 1]);
            (if is_v6 { 58 } else { 1 }, out)
        }
    }
}

/// The checksum of a segment that has none.
fn finish(protocol: Protocol, is_v6: bool, pseudo: u32, segment: &mut [u8]) {
    let (at, value) = match protocol {
        Protocol::Sctp => {
            let crc = crc32c(segment).to_le_bytes();
            if let Some(place) = segment.get_mut(8..12) {
                place.copy_from_slice(&crc);
            }
            return;
        }
        Protocol::Tcp => (16, internet(segment, pseudo)),
        // 0 would mean that there is none.
        Protocol::Udp => (6, Some(internet(segment, pseudo)).filter(|sum| *sum != 0).unwrap_or(u16::MAX)),
        Protocol::Icmp => (2, internet(segment, if is_v6 { pseudo } else { 0 })),
    };
    put16(segment, at, value);
}

/// What is different in a live packet from what it came in with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Original {
    pub(super) destination_mac: Option<Mac>,
    pub(super) source_mac: Option<Mac>,
    pub(super) ttl: Option<u8>,
    pub(super) source: Option<IpAddr>,
    pub(super) destination: Option<IpAddr>,
    pub(super) source_port: Option<u16>,
    pub(super) destination_port: Option<u16>,
}

/// The packet with that put back. Checksums follow; that a packet came with a wrong one stays to be
/// seen.
pub(super) fn restored(packet: &[u8], original: &Original) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    let mut key = FlowKey::default();
    let layers = extract(packet, packet.len(), &mut key);
    for (at, mac) in [(0, original.destination_mac), (6, original.source_mac)] {
        if let (Some(mac), Some(place)) = (mac, bytes.get_mut(at..at + 6)) {
            place.copy_from_slice(&mac.0);
        }
    }
    let is_v6 = key.get(Field::EthType) == 0x86dd;
    let mut edit = Edit { bytes: &mut bytes, layers, is_v6, protocol: key.get(Field::NwProto) };
    let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
    if let Some(ttl) = original.ttl {
        edit.ttl(ttl);
    }
    let (source, destination) = if is_v6 { (l3 + 8, l3 + 24) } else { (l3 + 12, l3 + 16) };
    for (at, address) in [(source, original.source), (destination, original.destination)] {
        match address {
            Some(IpAddr::V4(address)) if !is_v6 => edit.address(at, &address.octets()),
            Some(IpAddr::V6(address)) if is_v6 => edit.address(at, &address.octets()),
            _ => {}
        }
    }
    if matches!(edit.protocol, 6 | 17 | 132) && layers.l4 != u16::MAX {
        for (at, port) in [(l4, original.source_port), (l4 + 2, original.destination_port)] {
            if let Some(port) = port {
                edit.word(at, port, false, true);
            }
        }
    }
    bytes
}

/// A packet whose checksums follow what is written.
struct Edit<'a> {
    bytes: &'a mut [u8],
    layers: Layers,
    is_v6: bool,
    protocol: u128,
}

impl Edit<'_> {
    fn ttl(&mut self, ttl: u8) {
        let at = usize::from(self.layers.l3) + if self.is_v6 { 6 } else { 8 };
        let Some([high, low]) = self.bytes.get(at..at + 2).and_then(<[u8]>::as_array).copied() else { return };
        // IPv4: TTL and protocol; IPv6: next header and hop limit.
        let word = if self.is_v6 { [high, ttl] } else { [ttl, low] };
        self.word(at, u16::from_be_bytes(word), !self.is_v6, false);
    }

    fn address(&mut self, at: usize, octets: &[u8]) {
        for (at, word) in (at..).step_by(2).zip(octets.as_chunks::<2>().0) {
            self.word(at, u16::from_be_bytes(*word), !self.is_v6, true);
        }
    }

    /// Writes a word that IPv4's checksum, or that of the header behind it, or both cover.
    fn word(&mut self, at: usize, new: u16, in_l3: bool, in_l4: bool) {
        let Some(place) = self.bytes.get_mut(at..at + 2) else { return };
        let old = place.as_array().map_or(0, |word| u16::from_be_bytes(*word));
        place.copy_from_slice(&new.to_be_bytes());
        if in_l3 {
            self.adjust(usize::from(self.layers.l3) + 10, old, new);
        }
        let l4 = usize::from(self.layers.l4);
        if in_l4 && self.layers.l4 != u16::MAX {
            match self.protocol {
                6 => self.adjust(l4 + 16, old, new),
                17 if self.bytes.get(l4 + 6..l4 + 8).is_some_and(|sum| sum != [0, 0]) => self.adjust(l4 + 6, old, new),
                58 => self.adjust(l4 + 2, old, new),
                132 => self.sctp(l4),
                _ => {}
            }
        }
    }

    /// RFC 1624: a checksum after a word that it covers became another.
    fn adjust(&mut self, at: usize, old: u16, new: u16) {
        let Some(place) = self.bytes.get_mut(at..at + 2) else { return };
        let sum = place.as_array().map_or(0, |word| u16::from_be_bytes(*word));
        let sum = !folded(u32::from(!sum) + u32::from(!old) + u32::from(new));
        place.copy_from_slice(&sum.to_be_bytes());
    }

    fn sctp(&mut self, l4: usize) {
        let Some(segment) = self.bytes.get_mut(l4..usize::from(self.layers.l3_end)) else { return };
        if segment.len() >= 12 {
            segment[8..12].fill(0);
            let crc = crc32c(segment).to_le_bytes();
            segment[8..12].copy_from_slice(&crc);
        }
    }
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ip;

    fn headers(protocol: Protocol, v6: bool) -> Headers {
        let (source, destination) = if v6 { ("fd00::1", "fd00::2") } else { ("10.0.0.1", "10.0.0.2") };
        Headers {
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            destination_mac: Mac([2, 0, 0, 0, 0, 2]),
            source: ip(source),
            destination: ip(destination),
            protocol,
            source_port: 61234,
            destination_port: 80,
            tcp_flags: 2,
            ttl: 64,
            dscp: 5,
            payload_len: 7,
        }
    }

    /// What a receiver's sums come to: all ones.
    fn is_right(frame: &[u8]) -> bool {
        let mut key = FlowKey::default();
        let layers = extract(frame, frame.len(), &mut key);
        let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
        let v6 = key.get(Field::EthType) == 0x86dd;
        let (protocol, segment) = (key.get(Field::NwProto), &frame[l4..]);
        let addresses = if v6 { &frame[l3 + 8..l3 + 40] } else { &frame[l3 + 12..l3 + 20] };
        let pseudo =
            sum(addresses) + u32::try_from(protocol).expect("a byte") + u32::try_from(segment.len()).expect("short");
        let l4_right = match protocol {
            1 => folded(sum(segment)) == 0xffff,
            132 => {
                let mut copy = segment.to_vec();
                copy[8..12].fill(0);
                crc32c(&copy).to_le_bytes() == segment[8..12]
            }
            _ => folded(sum(segment) + pseudo) == 0xffff,
        };
        l4_right && (v6 || folded(sum(&frame[l3..l3 + 20])) == 0xffff)
    }

    #[test]
    fn packets_are_what_they_are_to_be() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283, "RFC 3720 B.4's polynomial");
        for v6 in [false, true] {
            for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp] {
                let frame = build(&headers(protocol, v6));
                let mut key = FlowKey::default();
                let layers = extract(&frame, frame.len(), &mut key);
                let shown = format!("{protocol:?} {v6}");
                assert!(is_right(&frame), "{shown}");
                assert_eq!(usize::from(layers.l3_end), frame.len(), "{shown}");
                assert_eq!((key.get(Field::IpDscp), key.get(Field::NwTtl)), (5, 64), "{shown}");
                if protocol.has_ports() {
                    assert_eq!((key.get(Field::TpSrc), key.get(Field::TpDst)), (61234, 80), "{shown}");
                }
            }
        }
    }

    #[test]
    fn what_was_changed_on_the_way_is_put_back() {
        for v6 in [false, true] {
            for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp] {
                let before = headers(protocol, v6);
                let came = build(&before);
                let after = Headers {
                    destination: ip(if v6 { "fd00:9::9" } else { "10.9.9.9" }),
                    destination_port: 8080,
                    ttl: 63,
                    destination_mac: Mac([2, 9, 9, 9, 9, 9]),
                    ..before
                };
                let original = Original {
                    destination_mac: Some(before.destination_mac),
                    ttl: Some(64),
                    destination: Some(before.destination),
                    destination_port: Some(80),
                    ..Original::default()
                };
                let restored = restored(&build(&after), &original);
                assert_eq!(restored, came, "{protocol:?} {v6}");
            }
        }
    }

    #[test]
    fn nothing_breaks_it() {
        let original = Original {
            destination_mac: Some(Mac([2, 0, 0, 0, 0, 2])),
            source_mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            ttl: Some(1),
            source: Some(ip("10.0.0.1")),
            destination: Some(ip("fd00::1")),
            source_port: Some(1),
            destination_port: Some(2),
        };
        for v6 in [false, true] {
            for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp] {
                let frame = build(&headers(protocol, v6));
                for length in 0..=frame.len() {
                    assert_eq!(restored(&frame[..length], &original).len(), length);
                }
            }
        }
    }
}

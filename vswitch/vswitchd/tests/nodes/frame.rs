//! TCP segments: made, and read.

use std::net::IpAddr;

pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 16;
pub(crate) const PSH: u8 = 8;
pub(crate) const FIN: u8 = 1;
pub(crate) const RST: u8 = 4;

pub(crate) type Mac = [u8; 6];

/// A TCP segment in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) to: Mac,
    pub(crate) from: Mac,
    /// Of its tag.
    pub(crate) vlan: Option<u16>,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledged: u32,
    pub(crate) flags: u8,
    pub(crate) payload: Vec<u8>,
}

impl Segment {
    /// The answer's ends: everything the other way round.
    pub(crate) fn back(&self) -> Self {
        Self {
            to: self.from,
            from: self.to,
            vlan: None,
            source: self.destination,
            destination: self.source,
            ttl: 64,
            source_port: self.destination_port,
            destination_port: self.source_port,
            sequence: self.acknowledged,
            acknowledged: self.sequence.wrapping_add(self.length()),
            flags: ACK,
            payload: Vec::new(),
        }
    }

    /// What it takes of the sequence numbers.
    pub(crate) fn length(&self) -> u32 {
        let flags = u32::from(self.flags & SYN != 0) + u32::from(self.flags & FIN != 0);
        u32::try_from(self.payload.len()).expect("a short one") + flags
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut tcp = [self.source_port.to_be_bytes(), self.destination_port.to_be_bytes()].concat();
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledged.to_be_bytes());
        tcp.extend([0x50, self.flags, 0x40, 0, 0, 0, 0, 0]);
        tcp.extend(&self.payload);
        let length = u16::try_from(tcp.len()).expect("a short one");
        let (kind, ip) = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ends = [source.octets(), destination.octets()].concat();
                let pseudo = [&ends[..], &[0, 6], &length.to_be_bytes()].concat();
                let sum = checksum(&[&pseudo[..], &tcp].concat());
                tcp[16..18].copy_from_slice(&sum.to_be_bytes());
                let total = (length + 20).to_be_bytes();
                let mut head = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, self.ttl, 6, 0, 0];
                head.extend(ends);
                let sum = checksum(&head);
                head[10..12].copy_from_slice(&sum.to_be_bytes());
                ([8, 0], head)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let ends = [source.octets(), destination.octets()].concat();
                let pseudo = [&ends[..], &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 6]].concat();
                let sum = checksum(&[&pseudo[..], &tcp].concat());
                tcp[16..18].copy_from_slice(&sum.to_be_bytes());
                let total = length.to_be_bytes();
                ([0x86, 0xdd], [&[0x60, 0, 0, 0, total[0], total[1], 6, self.ttl][..], &ends].concat())
            }
            ends => panic!("two families: {ends:?}"),
        };
        let tag = self.vlan.map(|vlan| [&[0x81, 0][..], &vlan.to_be_bytes()].concat()).unwrap_or_default();
        [&self.to[..], &self.from, &tag, &kind, &ip, &tcp].concat()
    }

    /// Reads one; None: it is something else. A wrong checksum is a failure.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let (to, from) = (frame[..6].try_into().ok()?, frame[6..12].try_into().ok()?);
        let tagged = frame[12..14] == [0x81, 0];
        let vlan = tagged.then(|| u16::from_be_bytes([frame[14], frame[15]]) & 0xfff);
        let at = if tagged { 18 } else { 14 };
        let (kind, ip) = (&frame[at - 2..at], &frame[at..]);
        let (source, destination, ttl, tcp): (IpAddr, IpAddr, u8, &[u8]) = match kind {
            [8, 0] if ip[9] == 6 => {
                assert_eq!(checksum(&ip[..20]), 0, "the checksum of a header");
                let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                let of = |at: usize| <[u8; 4]>::try_from(&ip[at..at + 4]).expect("four").into();
                (of(12), of(16), ip[8], &ip[20..total])
            }
            [0x86, 0xdd] if ip[6] == 6 => {
                let total = usize::from(u16::from_be_bytes([ip[4], ip[5]])) + 40;
                let of = |at: usize| <[u8; 16]>::try_from(&ip[at..at + 16]).expect("sixteen").into();
                (of(8), of(24), ip[7], &ip[40..total])
            }
            _ => return None,
        };
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().expect("four"));
        let segment = Self {
            to,
            from,
            vlan,
            source,
            destination,
            ttl,
            source_port: u16::from_be_bytes([tcp[0], tcp[1]]),
            destination_port: u16::from_be_bytes([tcp[2], tcp[3]]),
            sequence: word(4),
            acknowledged: word(8),
            flags: tcp[13],
            payload: tcp[20..].to_vec(),
        };
        // Where the switch made it (a refusal), the window is another.
        if segment.flags & RST == 0 {
            assert_eq!(segment.bytes()[at..], frame[at..at + segment.bytes().len() - at], "checksums: {segment:?}");
        }
        Some(segment)
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

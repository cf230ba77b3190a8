//! What a frame carries: UDP or TCP, or a fragment of either.

use std::net::IpAddr;

/// Extension headers of IPv6 that are stepped over.
const EXTENSIONS_MAX: usize = 8;
const ETHERNET_LEN: usize = 14;

/// A packet of UDP or TCP, or a fragment of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// 6 or 17.
    pub(super) protocol: u8,
    /// Behind the headers of IP.
    pub(super) data: &'a [u8],
    /// Of a fragment: whose it is, where it begins (bytes), whether more follow.
    pub(super) fragment: Option<(u32, usize, bool)>,
}

/// The packet of an Ethernet frame; None: it has none that can be read (another protocol, a wrong
/// length).
pub(super) fn packet(frame: &[u8]) -> Option<Packet<'_>> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_LEN)?;
    let read = match ethernet.get(12..14)? {
        [0x08, 0x00] => v4(packet)?,
        [0x86, 0xdd] => v6(packet)?,
        _ => return None,
    };
    matches!(read.protocol, 6 | 17).then_some(read)
}

fn v4(packet: &[u8]) -> Option<Packet<'_>> {
    let head = packet.first_chunk::<20>()?;
    let begin = usize::from(head[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let word = u16::from_be_bytes([head[6], head[7]]);
    let (offset, more) = (usize::from(word & 0x1fff) * 8, word & 0x2000 != 0);
    let address = |at: usize| head.get(at..at + 4)?.as_array::<4>().copied().map(IpAddr::from);
    if head[0] >> 4 != 4 || begin < head.len() {
        return None;
    }
    Some(Packet {
        source: address(12)?,
        destination: address(16)?,
        protocol: head[9],
        // Behind Ethernet's padding there is nothing.
        data: packet.get(begin..total)?,
        fragment: (more || offset > 0).then(|| (u16::from_be_bytes([head[4], head[5]]).into(), offset, more)),
    })
}

fn v6(packet: &[u8]) -> Option<Packet<'_>> {
    let (head, rest) = packet.split_first_chunk::<40>()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let address = |at: usize| head.get(at..at + 16)?.as_array::<16>().copied().map(IpAddr::from);
    let (source, destination) = (address(8)?, address(24)?);
    let mut data = rest.get(..usize::from(u16::from_be_bytes([head[4], head[5]])))?;
    let (mut next, mut fragment) = (head[6], None);
    for _ in 0..EXTENSIONS_MAX {
        let len = match next {
            6 | 17 => return Some(Packet { source, destination, protocol: next, data, fragment }),
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => (usize::from(*data.get(1)?) + 1) * 8,
            44 => {
                let word = u16::from_be_bytes(*data.get(2..4)?.as_array()?);
                let id = u32::from_be_bytes(*data.get(4..8)?.as_array()?);
                let (offset, more) = (usize::from(word >> 3) * 8, word & 1 == 1);
                fragment = (more || offset > 0).then_some((id, offset, more));
                if offset > 0 {
                    // What is behind is no header, whatever it looks like.
                    let (protocol, data) = (*data.first()?, data.get(8..)?);
                    return Some(Packet { source, destination, protocol, data, fragment });
                }
                8
            }
            _ => return None,
        };
        next = *data.first()?;
        data = data.get(len..)?;
    }
    None
}

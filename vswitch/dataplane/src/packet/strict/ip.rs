//! IPv4 and IPv6 headers.

use super::transport::{self, Transport};
use super::{Checked, Frame, options};
use crate::limits::{STRICT_IP6_EXTENSIONS_MAX, STRICT_IP6_OPTIONS_MAX};
use crate::observe::DropReason;
use crate::packet::checksum::{self, Sum};

/// IPv4 options (IANA ip-parameters).
mod option {
    pub(super) const RECORD_ROUTE: u8 = 7;
    pub(super) const TIMESTAMP: u8 = 68;
    pub(super) const LOOSE_SOURCE_ROUTE: u8 = 131;
    pub(super) const STRICT_SOURCE_ROUTE: u8 = 137;
}

/// RFC 791.
pub(super) fn v4(frame: &Frame<'_>, at: usize) -> Checked {
    let [first] = frame.part(at).ok_or(DropReason::IpLen)?;
    if first >> 4 != 4 {
        return Err(DropReason::IpVer);
    }
    let header: [u8; 20] = frame.part(at).ok_or(DropReason::IpLen)?;
    let header_len = usize::from(first & 15) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let end = at + total;
    if header_len < header.len() || total < header_len || end > frame.len() {
        return Err(DropReason::IpLen);
    }
    // A device that joins packets need not have made a new sum.
    let sum = Sum::of_mbuf(frame.mbuf, at, at + header_len).map(Sum::folded);
    if frame.mbuf.gso_size() == 0 && sum != Some(0xffff) {
        return Err(DropReason::Csum);
    }
    let mut bytes = [0; 40];
    let bytes = &mut bytes[..header_len - header.len()];
    if !frame.mbuf.read(at + header.len(), bytes) || !options(bytes, option_fits) {
        return Err(DropReason::IpOpt);
    }
    let [ttl, protocol] = [header[8], header[9]];
    if ttl == 0 {
        return Err(DropReason::Ttl);
    }
    // More fragments, or an offset: what it carries is for reassembly.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Ok(());
    }
    let [.., a, b, c, d, e, f, g, h] = header;
    let l4_len = u16::try_from(total - header_len).unwrap_or(u16::MAX); // total is 16 bits
    let pseudo = checksum::pseudo_v4([a, b, c, d], [e, f, g, h], protocol, l4_len);
    transport::check(
        frame,
        &Transport { ipv4: true, at: at + header_len, end, protocol, hop_limit: ttl, pseudo: Some(pseudo) },
    )
}

/// Lengths and pointers of RFC 791, 3.1. Source routes let a sender choose the way.
fn option_fits(kind: u8, bytes: &[u8]) -> bool {
    match kind {
        option::LOOSE_SOURCE_ROUTE | option::STRICT_SOURCE_ROUTE => false,
        option::RECORD_ROUTE => bytes.get(2).is_some_and(|pointer| *pointer >= 4),
        option::TIMESTAMP => bytes.len() >= 4 && bytes[2] >= 5,
        _ => true,
    }
}

/// IPv6 extension headers (IANA ipv6-parameters), those that extraction skips.
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
}

/// RFC 8200.
pub(super) fn v6(frame: &Frame<'_>, at: usize) -> Checked {
    let [first] = frame.part(at).ok_or(DropReason::IpLen)?;
    if first >> 4 != 6 {
        return Err(DropReason::IpVer);
    }
    let header: [u8; 40] = frame.part(at).ok_or(DropReason::IpLen)?;
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let end = at + header.len() + payload;
    if end > frame.len() {
        return Err(DropReason::IpLen);
    }
    let [protocol, hop_limit] = [header[6], header[7]];
    if hop_limit == 0 {
        return Err(DropReason::Ttl);
    }
    let mut addresses = [[0; 16]; 2];
    addresses.as_flattened_mut().copy_from_slice(&header[8..]);
    let [source, destination] = addresses;
    let start = at + header.len();
    let Some(last) = extensions(frame, Chain { at: start, end, protocol, destination: Some(destination) })? else {
        return Ok(()); // a fragment: what it carries is for reassembly
    };
    let pseudo = last.destination.map(|destination| {
        let l4_len = u32::try_from(end - last.at).unwrap_or(u32::MAX); // payload is 16 bits
        checksum::pseudo_v6(&source, &destination, last.protocol, l4_len)
    });
    transport::check(frame, &Transport { ipv4: false, at: last.at, end, protocol: last.protocol, hop_limit, pseudo })
}

/// How far a chain of extension headers was followed.
struct Chain {
    /// Where the next header starts, and what it is.
    at: usize,
    protocol: u8,
    /// Where the IP packet ends.
    end: usize,
    /// The final one, for checksums; none: a routing header hides it.
    destination: Option<[u8; 16]>,
}

/// Follows the extension headers to what is none; none: to the header of a fragment.
fn extensions(frame: &Frame<'_>, mut chain: Chain) -> Result<Option<Chain>, DropReason> {
    const REFUSED: DropReason = DropReason::Ip6Ext;
    for count in 0..=STRICT_IP6_EXTENSIONS_MAX {
        let kind = chain.protocol;
        if !is_extension(kind) {
            return Ok(Some(chain));
        }
        let header: [u8; 8] = frame.part_within(chain.at, chain.end).ok_or(REFUSED)?;
        let [next, units, ..] = header;
        let len = match kind {
            extension::FRAGMENT => 8,
            extension::AUTHENTICATION => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        let behind = chain.at + len;
        if count == STRICT_IP6_EXTENSIONS_MAX || behind > chain.end {
            return Err(REFUSED);
        }
        let fits = match kind {
            extension::HOP_BY_HOP => count == 0 && are_options(frame, chain.at + 2, behind),
            extension::DESTINATION => are_options(frame, chain.at + 2, behind),
            extension::ROUTING => is_routing(header),
            extension::AUTHENTICATION => len >= 16 && len.is_multiple_of(8),
            _ => true,
        };
        if !fits {
            return Err(REFUSED);
        }
        match kind {
            // An offset, or more fragments; an atomic fragment is a whole packet (RFC 6946).
            extension::FRAGMENT if u16::from_be_bytes([header[2], header[3]]) & 0xfff9 != 0 => return Ok(None),
            // Segments are left. Both types that are known have the final destination first.
            extension::ROUTING if header[3] > 0 => {
                let known = matches!(header[2], 2 | 4);
                chain.destination = if known { frame.part_within(chain.at + 8, behind) } else { None };
            }
            _ => {}
        }
        (chain.at, chain.protocol) = (behind, next);
    }
    Err(REFUSED)
}

const fn is_extension(protocol: u8) -> bool {
    use extension::{AUTHENTICATION, DESTINATION, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION)
}

/// The options of a hop-by-hop or destination header (RFC 8200, 4.2), to its last byte. No jumbo
/// payload: no frame is so long.
fn are_options(frame: &Frame<'_>, mut at: usize, end: usize) -> bool {
    const PAD1: u8 = 0;
    const JUMBO_PAYLOAD: u8 = 0xc2;
    for _ in 0..STRICT_IP6_OPTIONS_MAX {
        if at == end {
            return true;
        }
        at += match frame.part_within(at, end) {
            Some([PAD1]) => 1,
            Some([JUMBO_PAYLOAD]) => return false,
            _ => match frame.part_within(at, end) {
                Some([_, len]) => 2 + usize::from(len),
                None => return false,
            },
        };
        if at > end {
            return false;
        }
    }
    at == end
}

/// Whether a routing header may pass: its first 8 bytes, the rest is there.
fn is_routing([_, units, kind, segments_left, last_entry, ..]: [u8; 8]) -> bool {
    match kind {
        // The source route of IPv6, deprecated (RFC 5095).
        0 => false,
        // Mobile IPv6: one home address (RFC 6275, 6.4.1).
        2 => units == 2 && segments_left <= 1,
        // Segment routing (RFC 8754, 4.3.1.1): as many entries as there is room for, and no more
        // left than there are.
        4 => {
            let entries = units / 2;
            last_entry < entries && u16::from(segments_left) <= u16::from(last_entry) + 1
        }
        _ => true,
    }
}

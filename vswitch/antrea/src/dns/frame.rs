//! What a frame carries: the DNS messages of a datagram, or of a segment.

/// Extension headers of IPv6 that are stepped over.
const EXTENSIONS_MAX: usize = 8;
const ETHERNET_LEN: usize = 14;
const UDP_LEN: usize = 8;

/// Messages of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// One, the end of which may be missing (the first fragment of a datagram).
    Datagram(&'a [u8], bool),
    /// Bytes of a stream: messages, each behind its length. There may be none.
    Segment(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// The messages that are whole, and whether one that is not whole is to be read as far as it goes. Of a segment those that begin with it: what
    /// goes on from the segment before cannot be told from noise.
    pub fn messages(self) -> impl Iterator<Item = (&'a [u8], bool)> {
        let (datagram, mut stream) = match self {
            Self::Datagram(message, cut) => (Some((message, cut)), &[][..]),
            Self::Segment(stream) => (None, stream),
        };
        let segments = std::iter::from_fn(move || {
            let (len, rest) = stream.split_first_chunk::<2>()?;
            let (message, next) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
            stream = next;
            Some((message, false))
        });
        datagram.into_iter().chain(segments)
    }
}

/// The payload of an Ethernet frame with UDP or TCP; None: it has none that can be read (another protocol, a later fragment, a wrong length).
#[must_use]
pub fn payload(frame: &[u8]) -> Option<Payload<'_>> {
    let (ethernet, packet) = frame.split_at_checked(ETHERNET_LEN)?;
    let (protocol, data, cut) = match ethernet.get(12..14)? {
        [0x08, 0x00] => v4(packet)?,
        [0x86, 0xdd] => v6(packet)?,
        _ => return None,
    };
    match protocol {
        17 => {
            let len = usize::from(u16::from_be_bytes(*data.get(4..6)?.as_array()?));
            // A fragment has the length of the whole datagram.
            let end = if cut { len.min(data.len()) } else { len };
            Some(Payload::Datagram(data.get(UDP_LEN..end)?, cut))
        }
        6 if !cut => {
            let begin = usize::from(data.get(12)? >> 4) * 4;
            Some(Payload::Segment(data.get(begin.max(20)..)?))
        }
        _ => None,
    }
}

/// Protocol, what it carries, and whether more of it follows in other fragments.
fn v4(packet: &[u8]) -> Option<(u8, &[u8], bool)> {
    let head = packet.first_chunk::<20>()?;
    let begin = usize::from(head[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let fragment = u16::from_be_bytes([head[6], head[7]]);
    let fits = head[0] >> 4 == 4 && begin >= head.len();
    // Behind Ethernet's padding there is nothing.
    (fits && fragment & 0x1fff == 0).then_some((head[9], packet.get(begin..total)?, fragment & 0x2000 != 0))
}

fn v6(packet: &[u8]) -> Option<(u8, &[u8], bool)> {
    let (head, rest) = packet.split_first_chunk::<40>()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let mut data = rest.get(..usize::from(u16::from_be_bytes([head[4], head[5]])))?;
    let (mut next, mut cut) = (head[6], false);
    for _ in 0..EXTENSIONS_MAX {
        let len = match next {
            6 | 17 => return Some((next, data, cut)),
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => (usize::from(*data.get(1)?) + 1) * 8,
            44 => {
                let fragment = u16::from_be_bytes(*data.get(2..4)?.as_array()?);
                if fragment >> 3 != 0 {
                    return None;
                }
                cut = fragment & 1 == 1;
                8
            }
            _ => return None,
        };
        next = *data.first()?;
        data = data.get(len..)?;
    }
    None
}

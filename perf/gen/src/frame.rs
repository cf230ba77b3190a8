//! What a packet looks like: Ethernet, IPv4, UDP or TCP, and as its data which trial it belongs to,
//! its number and when it was sent.

use anyhow::ensure;
use std::net::Ipv4Addr;
use vswitch_dataplane::packet::checksum::{Sum, pseudo_v4};
use vswitch_dataplane::packet::{Ethernet, Ipv4, Mac, Tcp, Udp, ethertype, tcp, udp};

/// Bytes of a frame's own checksum, which no mbuf has.
const FCS: u16 = 4;
const L2: usize = 14;
const L3: usize = 20;
const FIRST_PORT: u16 = 1024;

/// Numbers of both ends' first bytes, and the window, as the captures of `perf/bench` have them
/// that open the connections.
const SEQ: u32 = 1001;
const ACK: u32 = 5001;
const FLAGS: u8 = 0x18; // PSH, ACK

/// The first three bytes of the data of our packets.
const MAGIC: [u8; 3] = *b"vsg";

/// Bytes of a [`Stamp`]: as much data as the smallest frame of UDP has room for.
const STAMP: usize = 18;

/// What is over IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Udp,
    Tcp,
}

impl Protocol {
    const fn number(self) -> u8 {
        match self {
            Self::Udp => udp::PROTOCOL,
            Self::Tcp => tcp::PROTOCOL,
        }
    }

    const fn header_len(self) -> usize {
        match self {
            Self::Udp => 8,
            Self::Tcp => 20,
        }
    }

    /// Where in its header the checksum is.
    const fn checksum_at(self) -> usize {
        match self {
            Self::Udp => 6,
            Self::Tcp => 16,
        }
    }
}

/// What the packets of a run have in common; pairs are of the end that sends and the end that
/// receives.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) protocol: Protocol,
    /// Bytes on the wire, with the frame's checksum.
    pub(crate) size: u16,
    pub(crate) flows: u16,
    pub(crate) macs: [Mac; 2],
    pub(crate) addresses: [Ipv4Addr; 2],
    pub(crate) to_port: u16,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Which part of which trial.
    pub(crate) part: u8,
    /// In order of sending, from 0 on; 48 bits.
    pub(crate) number: u64,
    /// Cycles.
    pub(crate) sent: u64,
}

impl Stamp {
    fn bytes(self) -> [u8; STAMP] {
        let mut bytes = [0; STAMP];
        bytes[..3].copy_from_slice(&MAGIC);
        bytes[3] = self.part;
        bytes[4..10].copy_from_slice(&self.number.to_be_bytes()[2..]);
        bytes[10..].copy_from_slice(&self.sent.to_be_bytes());
        bytes
    }

    /// The stamp of a received frame; none when it is not one of ours, whatever it is. What
    /// rewrites headers leaves it as it was; a tagged frame is not ours.
    #[inline]
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let (ethernet, packet) = Ethernet::parse(frame)?;
        if ethernet.ethertype() != ethertype::IPV4 {
            return None;
        }
        let (ip, _, segment) = Ipv4::parse(packet)?;
        let data = match ip.protocol() {
            udp::PROTOCOL => Udp::parse(segment)?.1,
            tcp::PROTOCOL => Tcp::parse(segment)?.2,
            _ => return None,
        };
        let bytes: &[u8; STAMP] = data.first_chunk()?;
        let mut number = [0; 8];
        number[2..].copy_from_slice(&bytes[4..10]);
        let sent = bytes.last_chunk()?;
        bytes.starts_with(&MAGIC).then(|| Self {
            part: bytes[3],
            number: u64::from_be_bytes(number),
            sent: u64::from_be_bytes(*sent),
        })
    }
}

/// The frames of all flows, ready but for their stamps.
pub(crate) struct Frames {
    len: usize,
    checksum_at: usize,
    headers_len: usize,
    flows: Vec<Headers>,
    back: Headers,
}

/// Headers of a flow, and the sum over all that its checksum covers but the stamp.
struct Headers {
    bytes: [u8; L2 + L3 + 20],
    sum: Sum,
}

impl Frames {
    /// Builds the headers of every flow, in shuffled order.
    ///
    /// # Errors
    /// When the frames are too short for a stamp.
    pub(crate) fn new(plan: &Plan) -> anyhow::Result<Self> {
        let headers_len = L2 + L3 + plan.protocol.header_len();
        let least = headers_len + STAMP + usize::from(FCS);
        ensure!(usize::from(plan.size) >= least, "a frame must have {least} bytes for a stamp, not {}", plan.size);
        let mut flows: Vec<Headers> = (0..plan.flows).map(|flow| Headers::new(plan, flow)).collect();
        shuffle(&mut flows);
        let mut turned = plan.clone();
        turned.macs.reverse();
        turned.addresses.reverse();
        let back = Headers::new(&turned, 0);
        let checksum_at = L2 + L3 + plan.protocol.checksum_at();
        Ok(Self { len: usize::from(plan.size - FCS), checksum_at, headers_len, flows, back })
    }

    /// Bytes of a frame.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Writes the frame of a stamp; flows take turns by its number. `frame` has [`Frames::len`]
    /// bytes.
    #[inline]
    pub(crate) fn write(&self, stamp: Stamp, frame: &mut [u8]) {
        #[allow(clippy::cast_possible_truncation)] // a remainder of a length
        let flow = (stamp.number % self.flows.len() as u64) as usize;
        self.fill(&self.flows[flow], stamp, frame);
    }

    /// Writes a frame the other way, which is none of a trial.
    pub(crate) fn write_back(&self, frame: &mut [u8]) {
        self.fill(&self.back, Stamp { part: u8::MAX, number: 0, sent: 0 }, frame);
    }

    #[inline]
    fn fill(&self, headers: &Headers, stamp: Stamp, frame: &mut [u8]) {
        let bytes = stamp.bytes();
        let (front, data) = frame.split_at_mut(self.headers_len);
        front.copy_from_slice(&headers.bytes[..self.headers_len]);
        data[..STAMP].copy_from_slice(&bytes);
        data[STAMP..].fill(0);
        // Of UDP 0 would mean that there is none; of TCP 0xffff is as right as 0.
        let checksum = Some(headers.sum.bytes(&bytes).checksum()).filter(|sum| *sum != 0).unwrap_or(u16::MAX);
        frame[self.checksum_at..self.checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

impl Headers {
    fn new(plan: &Plan, flow: u16) -> Self {
        let mut bytes = [0; L2 + L3 + 20];
        let total = plan.size - FCS - 14;
        let [from, to] = plan.addresses.map(|address| address.octets());
        bytes[..6].copy_from_slice(&plan.macs[1].0);
        bytes[6..12].copy_from_slice(&plan.macs[0].0);
        bytes[12..14].copy_from_slice(&ethertype::IPV4.to_be_bytes());
        let ip = &mut bytes[L2..L2 + L3];
        ip[..2].copy_from_slice(&[0x45, 0]);
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..10].copy_from_slice(&[0, 1, 0x40, 0, 64, plan.protocol.number()]);
        ip[12..16].copy_from_slice(&from);
        ip[16..20].copy_from_slice(&to);
        let checksum = Sum::of(ip).checksum();
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        let segment_len = total - 20;
        let segment = &mut bytes[L2 + L3..L2 + L3 + plan.protocol.header_len()];
        segment[..2].copy_from_slice(&(FIRST_PORT + flow).to_be_bytes());
        segment[2..4].copy_from_slice(&plan.to_port.to_be_bytes());
        match plan.protocol {
            Protocol::Udp => segment[4..6].copy_from_slice(&segment_len.to_be_bytes()),
            Protocol::Tcp => {
                segment[4..8].copy_from_slice(&SEQ.to_be_bytes());
                segment[8..12].copy_from_slice(&ACK.to_be_bytes());
                segment[12..16].copy_from_slice(&[0x50, FLAGS, 0xff, 0xff]);
            }
        }
        let sum = pseudo_v4(from, to, plan.protocol.number(), segment_len).bytes(segment);
        Self { bytes, sum }
    }
}

/// An order that is always the same, by a xorshift generator: neighbours in a table of the switch
/// do not come one after the other.
fn shuffle<T>(items: &mut [T]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        #[allow(clippy::cast_possible_truncation)] // a remainder of a length
        items.swap(last, (state % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(protocol: Protocol, size: u16, flows: u16) -> Plan {
        let macs = [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])];
        let addresses = [Ipv4Addr::new(10, 10, 0, 26), Ipv4Addr::new(10, 10, 0, 24)];
        Plan { protocol, size, flows, macs, addresses, to_port: 80 }
    }

    /// The frame of a stamp, over what was there before.
    fn frame(plan: &Plan, stamp: Stamp) -> Vec<u8> {
        let frames = Frames::new(plan).expect("long enough");
        let mut frame = vec![0xa5; frames.len()];
        frames.write(stamp, &mut frame);
        frame
    }

    /// Source and destination port of a frame whose every length and checksum is right.
    fn checked(frame: &[u8]) -> (u16, u16) {
        let (_, packet) = Ethernet::parse(frame).expect("Ethernet");
        let (ip, options, segment) = Ipv4::parse(packet).expect("IPv4");
        assert!(ip.checksum_is_right(options));
        assert_eq!(usize::from(ip.total_len()), packet.len(), "no padding");
        let len = u16::try_from(segment.len()).expect("short");
        let sum = pseudo_v4(ip.source().octets(), ip.destination().octets(), ip.protocol(), len).bytes(segment);
        assert_eq!(sum.folded(), 0xffff, "{frame:02x?}");
        match ip.protocol() {
            udp::PROTOCOL => {
                let (udp, _) = Udp::parse(segment).expect("UDP");
                assert_eq!(udp.len(), len);
                assert_ne!(udp.checksum(), 0);
                (udp.source(), udp.destination())
            }
            _ => {
                let (tcp, ..) = Tcp::parse(segment).expect("TCP");
                assert_eq!((tcp.seq(), tcp.ack(), tcp.flags(), tcp.window()), (SEQ, ACK, FLAGS.into(), 0xffff));
                (tcp.source(), tcp.destination())
            }
        }
    }

    #[test]
    fn flows_take_turns_and_each_is_there() {
        let plan = plan(Protocol::Udp, 64, 7);
        let port = |number| checked(&frame(&plan, Stamp { part: 0, number, sent: 0 })).0;
        let mut ports: Vec<u16> = (0..7).map(port).collect();
        assert_eq!((port(7), port(13)), (ports[0], ports[6]));
        assert!(!ports.is_sorted(), "{ports:?}");
        ports.sort_unstable();
        assert_eq!(ports, (1024..1031).collect::<Vec<_>>());
    }

    #[test]
    fn a_frame_the_other_way_is_of_no_trial() {
        let plan = plan(Protocol::Udp, 64, 1);
        let frames = Frames::new(&plan).expect("long enough");
        let mut frame = vec![0; frames.len()];
        frames.write_back(&mut frame);
        checked(&frame);
        let (ethernet, _) = Ethernet::parse(&frame).expect("Ethernet");
        assert_eq!([ethernet.destination(), ethernet.source()], plan.macs);
        assert_eq!(Stamp::of(&frame).map(|stamp| stamp.part), Some(u8::MAX));
    }

    #[test]
    fn what_is_too_short_for_a_stamp_is_refused() {
        for (protocol, least) in [(Protocol::Udp, 64), (Protocol::Tcp, 76)] {
            assert!(Frames::new(&plan(protocol, least, 1)).is_ok());
            assert!(Frames::new(&plan(protocol, least - 1, 1)).is_err());
        }
    }

    #[test]
    fn a_frame_that_is_not_ours_has_no_stamp() {
        let ours = frame(&plan(Protocol::Tcp, 80, 1), Stamp { part: 1, number: 2, sent: 3 });
        assert!(Stamp::of(&ours).is_some());
        for at in [12, 14, 23, 54, 55, 56] {
            let mut other = ours.clone();
            other[at] ^= 0x0f;
            assert_eq!(Stamp::of(&other), None, "byte {at}");
        }
        for len in 0..L2 + L3 + 20 + STAMP {
            assert_eq!(Stamp::of(&ours[..len]), None, "{len} bytes");
        }
    }

    fn protocols() -> impl Strategy<Value = Protocol> {
        prop_oneof![Just(Protocol::Udp), Just(Protocol::Tcp)]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_its_checksums_are_right(
            protocol in protocols(), size in 76_u16..=1518, part: u8, number in 0_u64..1 << 48, sent: u64
        ) {
            let stamp = Stamp { part, number, sent };
            let frame = frame(&plan(protocol, size, 1000), stamp);
            prop_assert_eq!(frame.len(), usize::from(size - FCS));
            prop_assert_eq!(Stamp::of(&frame), Some(stamp));
            prop_assert_eq!(checked(&frame).1, 80);
        }

        #[test]
        fn no_frame_makes_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), at in 0_usize..76, len in 0_usize..76) {
            let _ = Stamp::of(&bytes);
            // One of ours, damaged and cut.
            let mut ours = frame(&plan(Protocol::Tcp, 80, 1), Stamp { part: 1, number: 2, sent: 3 });
            ours[at] = bytes.first().copied().unwrap_or(0);
            let _ = Stamp::of(&ours[..len]);
        }
    }
}

//! FTP's control connections; texts, numbers and states as Open vSwitch 3.1 has them.

use super::*;
use crate::action::Packet;
use proptest::prelude::*;
use vswitch_conntrack::{Helper, Nat, NatSide, Request, protocol};

const HIDDEN: u128 = 0x64c8_64c8;
const SERVICE: u128 = 0x0101_0101;
const HIDDEN6: u128 = 0xfd00_aaaa_0000_0000_0000_0000_0000_0077;
const SYN: u8 = 2;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;
const DATA: u8 = 0x18;
const EST: u32 = state::TRK | state::EST;
const RELATED: u32 = state::TRK | state::NEW | state::REL;

struct Talk {
    conntrack: Conntrack,
    nat: Option<Nat>,
}

/// Source, destination, their ports, flags, sequence and acknowledgment number, payload.
type Segment<'a> = (u128, u128, u16, u16, u8, u32, u32, &'a [u8]);

fn frame(&(src, dst, from, to, flags, seq, ack, payload): &Segment<'_>) -> Vec<u8> {
    let mut l4 = tcp(flags, &[], payload);
    l4[..2].copy_from_slice(&from.to_be_bytes());
    l4[2..4].copy_from_slice(&to.to_be_bytes());
    l4[4..8].copy_from_slice(&seq.to_be_bytes());
    l4[8..12].copy_from_slice(&ack.to_be_bytes());
    if src >> 32 == 0 { v4_between(src, dst, protocol::TCP, &l4) } else { v6_between(src, dst, protocol::TCP, &l4) }
}

impl Talk {
    /// A control connection from the client to `server`, after its handshake.
    fn new(client: u128, server: u128, nat: Option<(NatSide, u128)>) -> Self {
        let nat = nat.map(|(side, addr)| Nat { side: Some(side), addresses: Some((addr, addr)), ..Nat::default() });
        let talk = Self { conntrack: conntrack(), nat };
        let hidden =
            |side| nat.filter(|nat| nat.side == Some(side)).and_then(|nat| nat.addresses).map(|(addr, _)| addr);
        let (seen, real) = (hidden(NatSide::Src).unwrap_or(client), hidden(NatSide::Dst).unwrap_or(server));
        let commit =
            Request { zone: 7, commit: true, nat, helper: Some(Helper::Ftp), mark: (5, 7), ..Request::default() };
        talk.track(packet(pool().mbuf_from(&frame(&(client, server, 3000, 21, SYN, 1000, 0, b""))).unwrap()), &commit);
        talk.say(&(real, seen, 21, 3000, SYN_ACK, 5000, 1001, b""));
        talk.say(&(client, server, 3000, 21, ACK, 1001, 5001, b""));
        talk
    }

    fn track(&self, packet: Packet, request: &Request) -> (TrackVerdict, Packet) {
        match self.conntrack.track(packet, request, place()).0 {
            Outcome::Tracked(packet, verdict) => (verdict, packet),
            other => panic!("{other:?}"),
        }
    }

    fn meet(&self, packet: Packet) -> (TrackVerdict, Packet) {
        let nat = self.nat.map(|_| Nat::default());
        self.track(packet, &Request { zone: 7, commit: true, nat, ..Request::default() })
    }

    /// Its state without translation, mark, source, destination, numbers and payload afterwards.
    fn say(&self, segment: &Segment<'_>) -> (u32, u32, u128, u128, u32, u32, Vec<u8>) {
        let (verdict, packet) = self.meet(packet(pool().mbuf_from(&frame(segment)).unwrap()));
        let after = packet.mbuf.to_vec();
        let parts = right(&after, segment);
        assert_eq!(usize::from(packet.layers.l3_end), after.len(), "{segment:?}");
        let number = |at: usize, len: usize| after[at..at + len].iter().fold(0, |n, &byte| n << 8 | u128::from(byte));
        let (src, len) = if parts.v6 { (parts.l3 + 8, 16) } else { (parts.l3 + 12, 4) };
        let word = |at: usize| u32::try_from(number(parts.l4 + at, 4)).unwrap();
        (
            verdict.state & !(state::SNAT | state::DNAT),
            verdict.mark,
            number(src, len),
            number(src + len, len),
            word(4),
            word(8),
            after[parts.l4 + 20..].to_vec(),
        )
    }

    /// What is left of [`Self::say`] of a packet that is not about addresses.
    fn state(&self, segment: &Segment<'_>) -> (u32, u32) {
        let (state, mark, ..) = self.say(segment);
        (state, mark)
    }
}

/// A frame whose lengths and checksums are right.
fn right(frame: &[u8], what: &dyn std::fmt::Debug) -> Parts {
    let parts = Parts::of_frame(frame).expect("an IP packet");
    assert_eq!(parts.end, frame.len(), "length of {what:?}");
    assert_eq!((parts.header_sum(frame).unwrap_or(0xffff), parts.l4_sum(frame)), (0xffff, Some(0xffff)), "{what:?}");
    parts
}

#[test]
fn data_connections_are_related() {
    let talk = Talk::new(CLIENT, SERVER, None);
    assert_eq!(talk.state(&(CLIENT, SERVER, 3000, 21, DATA, 1001, 5001, b"PORT 10,0,0,1,16,1\r\n")), (EST, 5));
    assert_eq!(talk.state(&(SERVER, CLIENT, 20, 4098, SYN, 9, 0, b"")), (state::TRK | state::NEW, 0));
    assert_eq!(talk.state(&(SERVER, CLIENT, 20, 4097, SYN, 9, 0, b"")), (RELATED, 5));
    assert_eq!(
        talk.state(&(CLIENT, SERVER, 3000, 21, DATA, 1021, 5001, b"PORT 10,0,0,9,16,2\r\n")),
        (EST | state::INV, 5)
    );
    assert_eq!(talk.state(&(CLIENT, SERVER, 3000, 21, DATA, 1041, 5001, b"PORT 10,0,0,")), (EST | state::INV, 5));
    assert_eq!(talk.state(&(SERVER, CLIENT, 20, 4098, SYN, 9, 0, b"")).0 & state::REL, 0);
    let reply = EST | state::RPL;
    assert_eq!(talk.state(&(SERVER, CLIENT, 21, 3000, DATA, 5001, 1065, b"227 x (10,0,0,2,16,3)\r\n")), (reply, 5));
    assert_eq!(talk.state(&(CLIENT, SERVER, 3003, 4099, SYN, 9, 0, b"")), (RELATED, 5));
    assert_eq!(talk.state(&(SERVER, CLIENT, 21, 3000, DATA, 5024, 1065, b"229 x (|||5000|)\r\n")), (reply, 5));
    assert_eq!(talk.state(&(CLIENT, SERVER, 3004, 5000, SYN, 9, 0, b"")), (RELATED, 5));
}

#[test]
fn a_hidden_client_names_his_other_address() {
    let talk = Talk::new(CLIENT, SERVER, Some((NatSide::Src, HIDDEN)));
    let (out, back) = ((HIDDEN, SERVER), (SERVER, CLIENT));
    let port = (CLIENT, SERVER, 3000, 21, DATA, 1001, 5001, &b"PORT 10,0,0,1,16,1\r\n"[..]);
    let written = (EST, 5, out.0, out.1, 1001, 5001, b"PORT 100,200,100,200,16,1\r\n".to_vec());
    assert_eq!(talk.say(&port), written);
    assert_eq!(talk.say(&port), written, "sent again");
    let reply = EST | state::RPL;
    assert_eq!(
        talk.say(&(SERVER, HIDDEN, 21, 3000, ACK, 5001, 1028, b"")),
        (reply, 5, back.0, back.1, 5001, 1021, vec![])
    );
    let list = (CLIENT, SERVER, 3000, 21, DATA, 1021, 5001, &b"LIST\r\n"[..]);
    assert_eq!(talk.say(&list), (EST, 5, out.0, out.1, 1028, 5001, b"LIST\r\n".to_vec()));
    assert_eq!(talk.say(&(SERVER, HIDDEN, 20, 4097, SYN, 9, 0, b"")), (RELATED, 5, back.0, back.1, 9, 0, vec![]));
    let again = (CLIENT, SERVER, 3000, 21, DATA, 1027, 5009, &b"PORT 10,0,0,1,16,2\r\n"[..]);
    assert_eq!(talk.say(&again), (EST, 5, out.0, out.1, 1034, 5009, b"PORT 100,200,100,200,16,2\r\n".to_vec()));
    let list = (CLIENT, SERVER, 3000, 21, DATA, 1047, 5009, &b"LIST\r\n"[..]);
    assert_eq!(talk.say(&list), (EST, 5, out.0, out.1, 1061, 5009, b"LIST\r\n".to_vec()));
    let passive = (SERVER, HIDDEN, 21, 3000, DATA, 5017, 1067, &b"227 x (10,0,0,2,16,3)\r\n"[..]);
    assert_eq!(talk.say(&passive), (reply, 5, back.0, back.1, 5017, 1053, passive.7.to_vec()));
    assert_eq!(talk.say(&(CLIENT, SERVER, 3003, 4099, SYN, 9, 0, b"")), (RELATED, 5, out.0, out.1, 9, 0, vec![]));
}

#[test]
fn a_server_behind_a_service_names_the_service() {
    let talk = Talk::new(CLIENT, SERVICE, Some((NatSide::Dst, SERVER)));
    let reply = EST | state::RPL;
    let passive = (SERVER, CLIENT, 21, 3000, DATA, 5001, 1001, &b"227 x (10,0,0,2,16,3)\r\n"[..]);
    let text = b"227 x (1,1,1,1,16,3)\r\n".to_vec();
    assert_eq!(talk.say(&passive), (reply, 5, SERVICE, CLIENT, 5001, 1001, text));
    let ack = (CLIENT, SERVICE, 3000, 21, ACK, 1001, 5023, &b""[..]);
    assert_eq!(talk.say(&ack), (EST, 5, CLIENT, SERVER, 1001, 5024, vec![]));
    assert_eq!(talk.say(&(CLIENT, SERVICE, 3003, 4099, SYN, 9, 0, b"")), (RELATED, 5, CLIENT, SERVER, 9, 0, vec![]));
    talk.say(&(CLIENT, SERVICE, 3000, 21, DATA, 1001, 5023, b"PORT 10,0,0,1,16,1\r\n"));
    assert_eq!(talk.say(&(SERVER, CLIENT, 20, 4097, SYN, 9, 0, b"")), (RELATED, 5, SERVICE, CLIENT, 9, 0, vec![]));
}

#[test]
fn ipv6_has_its_own_commands() {
    let talk = Talk::new(CLIENT6, SERVER6, Some((NatSide::Src, HIDDEN6)));
    let port = (CLIENT6, SERVER6, 3000, 21, DATA, 1001, 5001, &b"EPRT |2|fd00::1|4097|\r\n"[..]);
    assert_eq!(talk.say(&port), (EST, 5, HIDDEN6, SERVER6, 1001, 5001, b"EPRT |2|fd00:aaaa::77|4097|\r\n".to_vec()));
    let list = (CLIENT6, SERVER6, 3000, 21, DATA, 1024, 5001, &b"LIST\r\n"[..]);
    assert_eq!(talk.say(&list), (EST, 5, HIDDEN6, SERVER6, 1030, 5001, b"LIST\r\n".to_vec()));
    let data = (SERVER6, HIDDEN6, 20, 4097, SYN, 9, 0, &b""[..]);
    assert_eq!(talk.say(&data), (RELATED, 5, SERVER6, CLIENT6, 9, 0, vec![]));
}

#[test]
fn what_cannot_be_rewritten_is_not_expected() {
    let talk = Talk::new(CLIENT, SERVER, Some((NatSide::Src, HIDDEN)));
    let whole = frame(&(CLIENT, SERVER, 3000, 21, DATA, 1001, 5001, b"PORT 10,0,0,1,16,1\r\n"));
    let mut mbuf = pool().mbuf_from(&whole[..70]).unwrap();
    mbuf.chain(pool().mbuf_from(&whole[70..]).unwrap());
    let (verdict, after) = talk.meet(packet(mbuf));
    assert_eq!(verdict.state, EST | state::SNAT);
    let after = after.mbuf.to_vec();
    right(&after, &"two segments");
    assert!(after.ends_with(b"PORT 10,0,0,1,16,1\r\n"));
    assert_eq!(talk.state(&(SERVER, HIDDEN, 20, 4097, SYN, 9, 0, b"")), (state::TRK | state::NEW, 0));
}

#[test]
fn a_partial_checksum_stays_one() {
    let talk = Talk::new(CLIENT, SERVER, Some((NatSide::Src, HIDDEN)));
    let mut whole = frame(&(CLIENT, SERVER, 3000, 21, DATA, 1001, 5001, b"PORT 10,0,0,1,16,1\r\n"));
    let pseudo = crate::packet::checksum::pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], protocol::TCP, 40).folded();
    whole[50..52].copy_from_slice(&pseudo.to_be_bytes());
    let mut mbuf = pool().mbuf_from(&whole).unwrap();
    mbuf.set_csum(Csum::Partial);
    let mut after = talk.meet(packet(mbuf)).1.mbuf.to_vec();
    let sum = crate::packet::checksum::Sum::of(&after[34..]).checksum();
    after[50..52].copy_from_slice(&sum.to_be_bytes());
    right(&after, &"completed");
    assert!(after.ends_with(b"PORT 100,200,100,200,16,1\r\n"));
}

proptest! {
    #[test]
    fn any_payload_keeps_lengths_and_checksums(
        verb in prop::sample::select(vec!["PORT ", "PORT 10,0,0,1,", "227 (10,0,0,2,", "EPRT |1|10.0.0.1|", "EPRT |2|fd00::1|", "229 (|||", ""]),
        rest in prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), "[0-9,|.:() \r\n]{0,40}".prop_map(Vec::from)],
        (v6, source, back, seq) in (any::<bool>(), any::<bool>(), any::<bool>(), 0..3_u32),
    ) {
        let (client, server, other) = if v6 { (CLIENT6, SERVER6, HIDDEN6) } else { (CLIENT, SERVER, HIDDEN) };
        let talk = if source {
            Talk::new(client, server, Some((NatSide::Src, other)))
        } else {
            Talk::new(client, other, Some((NatSide::Dst, server)))
        };
        let payload = [verb.as_bytes(), &rest].concat();
        let (to, seen) = if source { (server, other) } else { (other, client) };
        for _ in 0..2 {
            talk.say(&(client, to, 3000, 21, DATA, 1001 + seq, 5001, &payload));
            if back {
                talk.say(&(server, seen, 21, 3000, DATA, 5001 + seq, 1001, &payload));
            }
        }
    }
}

/// What another zone's `ct()` has read serves this zone's, which has a helper: what is announced is
/// announced here.
#[test]
fn a_control_connection_is_followed_in_the_zone_of_its_helper() {
    let talk = Talk::new(CLIENT, SERVER, None);
    let port = b"PORT 10,0,0,1,62,105\r\n";
    let request = Request { zone: 7, commit: true, ..Request::default() };
    let mut told = packet(pool().mbuf_from(&frame(&(CLIENT, SERVER, 3000, 21, DATA, 1001, 5001, port))).unwrap());
    let mut seen = Seen::default();
    assert!(plainly_seen(&mut told, 3, &mut seen).is_some(), "a plain packet, as zone 3 sees it");
    let mut verdict = TrackVerdict::default();
    talk.conntrack
        .track_seen(&seen, &mut told, &request, (place().worker, place().now), &mut verdict)
        .expect("it goes on");
    assert!(verdict.controls, "{verdict:?}");
    let data = frame(&(SERVER, CLIENT, 20, 62 * 256 + 105, SYN, 9, 0, b""));
    let (verdict, _) = talk.track(packet(pool().mbuf_from(&data).unwrap()), &request);
    assert_eq!(verdict.state, RELATED, "{verdict:?}");
}

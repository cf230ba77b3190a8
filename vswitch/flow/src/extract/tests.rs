//! Frames whose keys Open vSwitch 3.1 was asked for, and frames that nobody should send.

use super::*;
use crate::text::{NoNames, Style, compose, format_key, parse_key};
use crate::{FIRST_PACKET_WORD, Field, FlowMask, LAST_PACKET_WORD, PacketKind, WORDS};
use proptest::prelude::*;
use proptest::sample::select;

/// Destination and source of all cases.
const MACS: [u8; 12] = [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex")).collect()
}

/// Name, frame, and what follows it, of every case.
fn cases() -> impl Iterator<Item = (&'static str, Vec<u8>, [&'static str; 3])> {
    let lines = include_str!("tests/cases.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut columns = line.splitn(5, '|').map(str::trim);
        let mut column = || columns.next().unwrap_or_else(|| panic!("{line}: 5 columns"));
        (column(), [&MACS, bytes(column()).as_slice()].concat(), [column(), column(), column()])
    })
}

fn read(frame: &[u8]) -> (FlowKey, Layers) {
    let mut key = FlowKey::default();
    let layers = extract(frame, frame.len(), &mut key);
    (key, layers)
}

fn flow(key: &FlowKey) -> String {
    let mut out = String::new();
    format_key(key, Style::default(), &NoNames, &mut out);
    let out = out.replace("dl_src=00:00:00:00:00:01,dl_dst=00:00:00:00:00:02", "");
    let out = out.replace("vlan_tci=0x0000,", "").replace("nw_src=10.0.0.1,nw_dst=10.0.0.2", "IPS");
    let out = out.replace("ipv6_src=2001:db8::1,ipv6_dst=2001:db8::2", "IPS").replace(",,", ",");
    out.trim_matches(',').to_owned()
}

#[test]
fn frames_have_the_fields_that_ovs_sees() {
    let mut count = 0;
    for (name, frame, [places, nd, expected]) in cases() {
        let (key, layers) = read(&frame);
        assert_eq!(flow(&key), expected, "{name}: {frame:02x?}");
        let shown = [layers.l3, layers.l4, layers.l3_end]
            .map(|at| if at == u16::MAX { "-".to_owned() } else { at.to_string() });
        assert_eq!(shown.join(" "), places, "{name}: {frame:02x?}");
        if expected.contains("icmp6") {
            let (reserved, kind) = (key.get(Field::NdReserved), key.get(Field::NdOptionsType));
            let found = if (reserved, kind) == (0, 0) { String::new() } else { format!("{reserved:x} {kind}") };
            assert_eq!(found, nd, "{name}: {frame:02x?}");
        }
        count += 1;
    }
    assert_eq!(count, 96, "cases");
}

#[test]
fn igmp_and_tpids_are_read_too() {
    let (key, _) = read(&compose(&parse_key("igmp,igmp_group_ip4=224.0.0.5", &NoNames).unwrap()));
    assert_eq!(key.get(Field::IgmpGroup), 0xe000_0005);
    let (_, frame, _) = cases().find(|(name, ..)| *name == "two tags").unwrap();
    let (key, _) = read(&frame);
    let tags = [Field::VlanTpid0, Field::VlanTci, Field::VlanTpid1, Field::VlanTci1].map(|field| key.get(field));
    assert_eq!(tags, [0x88a8, 0x1064, 0x8100, 0xb0c8]);
}

#[test]
fn a_frame_without_ethernet_header_has_nothing() {
    for len in 0..14 {
        let (key, layers) = read(&vec![0xff; len]);
        assert_eq!((key, layers), (FlowKey::default(), Layers::default()), "{len} bytes");
    }
}

#[test]
fn metadata_stays() {
    let mut key = FlowKey::default();
    for word in (0..FIRST_PACKET_WORD).chain(LAST_PACKET_WORD..WORDS) {
        key.0[word] = word as u64 + 1;
    }
    let before = key.clone();
    let (_, frame, _) = cases().find(|(name, ..)| *name == "both options").unwrap();
    let _ = extract(&frame, frame.len(), &mut key);
    assert_eq!(key.0[..FIRST_PACKET_WORD], before.0[..FIRST_PACKET_WORD]);
    assert_eq!(key.0[LAST_PACKET_WORD..], before.0[LAST_PACKET_WORD..]);
    assert_ne!(key, before);
}

/// Headers beyond the first piece of a packet are as if cut off, but lengths are those of the whole
/// packet.
#[test]
fn packets_of_several_pieces() {
    let frame = compose(&parse_key("tcp,tp_dst=80,tcp_flags=ack,nw_src=1.2.3.4", &NoNames).unwrap());
    let whole = read(&frame);
    assert_eq!(frame.len(), 118);
    for piece in 54..frame.len() {
        let mut key = FlowKey::default();
        let layers = extract(&frame[..piece], frame.len(), &mut key);
        assert_eq!((key, layers), whole, "{piece} bytes of {}", frame.len());
    }
    let mut key = FlowKey::default();
    let layers = extract(&frame[..53], frame.len(), &mut key);
    assert_eq!((key.get(Field::NwSrc), key.get(Field::TpDst), layers), (0x0102_0304, 0, whole.1));
    let mut key = FlowKey::default();
    let layers = extract(&frame[..33], frame.len(), &mut key);
    assert_eq!((key.get(Field::EthType), key.get(Field::NwSrc), layers.l4), (0x800, 0, u16::MAX));
    // The end is that of the packet, not of the buffer behind it.
    let mut key = FlowKey::default();
    let _ = extract(&[frame.as_slice(), &[0; 64]].concat(), 50, &mut key);
    assert_eq!(
        (key.get(Field::EthType), key.get(Field::NwSrc)),
        (0x800, 0),
        "the total length is beyond the packet's end"
    );
}

#[test]
fn ends_beyond_16_bits_are_the_largest_there_are() {
    let mut frame = [MACS.as_slice(), &[0x88, 0xcc]].concat();
    frame.resize(100_000, 0);
    assert_eq!(read(&frame).1, Layers { l3: 14, l4: u16::MAX, l3_end: 65_534 });
}

#[test]
fn tables_do_not_see_the_ports_of_fragments() {
    for (text, seen, flags) in [
        ("udp,nw_frag=first,tp_src=1,tp_dst=2", (0, 0), 0),
        ("tcp,nw_frag=first,tp_src=1,tp_dst=2,tcp_flags=syn", (0, 0), 2),
        ("tcp,tp_src=1,tp_dst=2,tcp_flags=syn", (1, 2), 2),
        ("udp,nw_frag=later", (0, 0), 0),
    ] {
        let before = parse_key(text, &NoNames).unwrap();
        let mut key = before.clone();
        let hidden = key.hide_fragment_ports();
        assert_eq!((key.get(Field::TpSrc), key.get(Field::TpDst)), seen, "{text}");
        assert_eq!(key.get(Field::TcpFlags), flags, "{text}");
        key.restore_ports(hidden);
        assert_eq!(key, before, "{text}");
    }
}

/// Whatever the bytes: layers lie in order within the frame, and so do the fields (no panic
/// either). What a mask says of fields that the packet does not have is that they are 0.
fn check_any(frame: &[u8], len: usize) -> Result<(), TestCaseError> {
    let mut key = FlowKey::default();
    let layers = extract(frame, len, &mut key);
    let mut mask = FlowMask([u64::MAX; WORDS]);
    mask.close_protocol(PacketKind::of(&key));
    prop_assert_eq!(&key.masked(&mask), &key);
    prop_assert!(key.0[..FIRST_PACKET_WORD].iter().chain(&key.0[LAST_PACKET_WORD..]).all(|word| *word == 0));
    if frame.len().min(len) < 14 {
        prop_assert_eq!(layers, Layers::default());
        return Ok(());
    }
    prop_assert!(layers.l3 <= layers.l3_end && usize::from(layers.l3_end) <= len, "{:?}", layers);
    if layers.l4 != u16::MAX {
        prop_assert!(layers.l3 + 20 <= layers.l4 && layers.l4 <= layers.l3_end, "{:?}", layers);
        prop_assert!(Field::NwProto.exists_in(&key));
    } else if key.get(Field::ArpOp) == 0 {
        prop_assert_eq!(key.0[PORTS], 0);
    }
    Ok(())
}

/// Packets that agree on a closed mask agree on the mask as it was, whichever field it is of.
/// Without what tells which fields there are, some would not.
#[test]
fn a_closed_mask_means_the_same_packets() {
    let keys: Vec<FlowKey> = cases().map(|(_, frame, _)| read(&frame).0).collect();
    let (mut pairs, mut dropped) = (0, 0);
    for field in Field::ALL.iter().copied().filter(|field| usize::from(field.location().word) >= FIRST_PACKET_WORD) {
        for key in &keys {
            let mut before = FlowMask::default();
            before.add(Field::EthType);
            before.add(field);
            let mut closed = before.clone();
            closed.close_protocol(PacketKind::of(key));
            dropped += usize::from(!closed.contains(&before));
            for other in keys.iter().filter(|other| other.masked(&closed) == key.masked(&closed)) {
                assert_eq!(other.masked(&before), key.masked(&before), "{field:?}: {key:?} and {other:?}");
                pairs += 1;
            }
        }
    }
    assert!(dropped > 500 && pairs > 10_000, "{dropped} masks, {pairs} pairs");
}

#[test]
fn every_frame_cut_off_anywhere() {
    for (name, frame, _) in cases() {
        for len in 0..=frame.len() {
            check_any(&frame[..len], len).unwrap_or_else(|e| panic!("{name}, {len} bytes: {e}"));
            check_any(&frame[..len], frame.len()).unwrap_or_else(|e| panic!("{name}, first {len} bytes: {e}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn any_bytes(frame in proptest::collection::vec(any::<u8>(), 0..200), more in 0usize..100) {
        check_any(&frame, frame.len())?;
        check_any(&frame, frame.len() + more)?;
        check_any(&frame, more)?;
    }

    /// Real frames with some bytes changed, cut and continued.
    #[test]
    fn mutated_frames(
        (_, frame, _) in select(cases().collect::<Vec<_>>()),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        tail in proptest::collection::vec(any::<u8>(), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut frame = [frame, tail].concat();
        for (at, byte) in changes {
            // Mostly behind the addresses.
            let at = 12 + at.index(frame.len() - 12);
            frame[at] = byte;
        }
        check_any(&frame, frame.len())?;
        let cut = cut.index(frame.len() + 1);
        check_any(&frame[..cut], cut)?;
        check_any(&frame[..cut], frame.len())?;
    }
}

//! Messages as Linux sends them, as they are made here, and as nobody should send them.

use super::*;
use crate::Mac;
use proptest::prelude::*;

const FROM: Sender = Sender { mac: Mac([2, 0, 0, 0, 0, 1]), address: Ipv4Addr::new(10, 10, 0, 1) };
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or("0"), 16).unwrap_or_default();
    digits.chunks(2).map(octet).collect()
}

/// A frame with this after its IPv4 header, checksums right.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut payload = payload.to_vec();
    payload[2..4].fill(0);
    let sum = internet(&payload, 0);
    payload[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut header = bytes("46c0 0000 0000 4000 0102 0000 0a0a0018 e0000016 94040000");
    let total = u16::try_from(header.len() + payload.len()).unwrap_or_default();
    header[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = internet(&header, 0);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [bytes("01005e000016 020000000024 0800"), header, payload].concat()
}

fn report_of(frame: &[u8]) -> Vec<Record> {
    match read(frame) {
        Ok(Message { body: IgmpBody::Report(records), .. }) => records,
        other => panic!("{other:?}"),
    }
}

const fn join(group: Ipv4Addr) -> Record {
    Record { group, change: Change::Join }
}

const fn leave(group: Ipv4Addr) -> Record {
    Record { group, change: Change::Leave }
}

#[test]
fn what_a_kernel_sends_is_read() {
    // Captured from Linux 6.18: IP_ADD_MEMBERSHIP and IP_DROP_MEMBERSHIP with force_igmp_version 1,
    // 2, 3.
    let captured = [
        (
            "01005e010101 5eb5e3a690b7 0800 46c00020000040000102e9f1 0a0a001a ef010101 94040000 1200fdfc ef010101",
            1,
            join(GROUP),
        ),
        (
            "01005e010101 5eb5e3a690b7 0800 46c00020000040000102e9f1 0a0a001a ef010101 94040000 1600f9fc ef010101",
            2,
            join(GROUP),
        ),
        (
            "01005e000002 5eb5e3a690b7 0800 46c00020000040000102f9f1 0a0a001a e0000002 94040000 1700f8fc ef010101",
            2,
            leave(GROUP),
        ),
        (
            "01005e000016 5eb5e3a690b7 0800 46c00028000040000102f9d5 0a0a001a e0000016 94040000 2200e9fb 00000001 04000000 ef010101",
            3,
            join(GROUP),
        ),
        (
            "01005e000016 5eb5e3a690b7 0800 46c00028000040000102f9d5 0a0a001a e0000016 94040000 2200eafb 00000001 03000000 ef010101",
            3,
            leave(GROUP),
        ),
    ];
    for (frame, version, record) in captured {
        let told = read(&bytes(frame)).unwrap_or_else(|why| panic!("{frame}: {why:?}"));
        assert_eq!((told.source, told.version), (Ipv4Addr::new(10, 10, 0, 26), version), "{frame}");
        assert_eq!(told.body, IgmpBody::Report(vec![record]), "{frame}");
    }
    assert_eq!(
        report(
            Sender { mac: Mac([0x5e, 0xb5, 0xe3, 0xa6, 0x90, 0xb7]), address: [10, 10, 0, 26].into() },
            &[(GROUP, true)],
            true
        )[34..],
        bytes(captured[3].0)[34..]
    );
}

#[test]
fn each_version_and_kind_is_told() {
    let cases = [
        ("1200 0000 ef010101", 1, vec![join(GROUP)]),
        ("1600 0000 ef010101", 2, vec![join(GROUP)]),
        ("1700 0000 ef010101", 2, vec![leave(GROUP)]),
        ("1600 0000 e00000fb", 2, vec![]),
        ("2200 0000 00000002 04000000 ef010101 03000000 ef010102", 3, vec![join(GROUP), leave([239, 1, 1, 2].into())]),
        ("2200 0000 00000001 02000000 ef010101", 3, vec![join(GROUP)]),
        ("2200 0000 00000001 01000000 ef010101", 3, vec![leave(GROUP)]),
        ("2200 0000 00000001 05000001 ef010101 0a000001", 3, vec![join(GROUP)]),
        ("2200 0000 00000001 06000001 ef010101 0a000001", 3, vec![leave(GROUP)]),
        ("2200 0000 00000001 03000001 ef010101 0a000001", 3, vec![join(GROUP)]),
        ("2200 0000 00000002 07000000 ef010101 04010000 ef010102 12345678", 3, vec![join([239, 1, 1, 2].into())]),
        ("2200 0000 00000001 04000000 e0000001", 3, vec![]),
    ];
    for (payload, version, expected) in cases {
        let told = read(&framed(&bytes(payload))).unwrap_or_else(|why| panic!("{payload}: {why:?}"));
        assert_eq!((told.version, told.body), (version, IgmpBody::Report(expected)), "{payload}");
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let good = framed(&bytes("1600 0000 ef010101"));
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        frame[24..26].fill(0);
        let length = usize::from(frame[14] & 0xf) * 4;
        let sum = internet(frame.get(14..14 + length).unwrap_or_default(), 0);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        read(&frame)
    };
    assert!(with(&|_| {}).is_ok());
    type Spoil<'a> = &'a dyn Fn(&mut Vec<u8>);
    let refused: [(Spoil<'_>, Unreadable); 8] = [
        (&|frame| frame[12] = 0x86, Unreadable::Other),
        (&|frame| frame[14] = 0x66, Unreadable::Other),
        (&|frame| frame[14] = 0x44, Unreadable::Length),
        (&|frame| frame[17] = 23, Unreadable::Length),
        (&|frame| frame[17] = 33, Unreadable::Short),
        (&|frame| frame[20] = 0x20, Unreadable::Fragment),
        (&|frame| frame[23] = 17, Unreadable::Other),
        (&|frame| frame[41] ^= 1, Unreadable::Checksum),
    ];
    for (at, (change, why)) in refused.into_iter().enumerate() {
        assert_eq!(with(change), Err(why), "case {at}");
    }
    let mut wrong = good.clone();
    wrong[24] ^= 1;
    assert_eq!(read(&wrong), Err(Unreadable::Checksum));
    for (payload, why) in [
        ("1600 0000 0a0a0018", Unreadable::Group),
        ("1300 0000 ef010101", Unreadable::ObjectKind),
        ("1600 0000 ef01", Unreadable::Short),
        ("1100 0000 00000000 0000", Unreadable::Length),
        ("1100 0000 0a000001", Unreadable::Group),
        ("2200 0000 00000002 04000000 ef010101", Unreadable::Short),
        ("2200 0000 00000001 0400ffff ef010101", Unreadable::Length),
        ("2200 0000 00000001 04ff0000 ef010101", Unreadable::Length),
        ("2200 0000 00000001 04000000 0a0a0018", Unreadable::Group),
    ] {
        assert_eq!(read(&framed(&bytes(payload))), Err(why), "{payload}");
    }
    for cut in 0..good.len() {
        assert!(read(&good[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn queries_say_what_they_ask() {
    for version in 1..=3 {
        for group in [None, Some(GROUP)] {
            let frame = query(FROM, version, group, 10_000, 125);
            let told = read(&frame).unwrap_or_else(|why| panic!("{why:?}"));
            assert_eq!((told.version, told.body), (version, IgmpBody::Query(group)));
            assert_eq!((told.source, told.destination), (FROM.address, group.unwrap_or(ALL_HOSTS)));
        }
    }
    assert_eq!(query(FROM, 3, Some(GROUP), 1000, 125)[..6], [1, 0, 0x5e, 1, 1, 1]);
    assert_eq!(query(FROM, 2, None, 10_000, 125)[39], 100);
    let long = query(FROM, 3, None, 10_000, 3600);
    // 3600 s: 1.1100 * 2^11 (3584).
    assert_eq!(long[47], 0x80 | 4 << 4 | 0xc, "{long:02x?}");
}

proptest! {
    #[test]
    fn a_report_says_what_it_is_made_of(
        groups in prop::collection::vec((0xe000_0100_u32..=0xefff_ffff, any::<bool>()), 0..200),
        is_change in any::<bool>()
    ) {
        let groups: Vec<(Ipv4Addr, bool)> = groups.into_iter().map(|(group, joined)| (Ipv4Addr::from(group), joined)).collect();
        let frame = report(FROM, &groups, is_change);
        prop_assert!(frame.len() <= 14 + 1400);
        let expected: Vec<Record> = groups.iter().take(REPORTED_MAX)
            .map(|(group, joined)| if *joined { join(*group) } else { leave(*group) }).collect();
        prop_assert_eq!(report_of(&frame), expected);
    }

    #[test]
    fn any_bytes_are_read_or_refused(payload in prop::collection::vec(any::<u8>(), 8..1500), kind in 0x10_u8..0x24) {
        let mut payload = payload;
        payload[0] = kind;
        let frame = framed(&payload);
        if let Ok(Message { body: IgmpBody::Report(records), .. }) = read(&frame) {
            prop_assert!(records.len() <= RECORDS_MAX);
            prop_assert!(records.iter().all(|record| is_group(record.group)));
        }
        let _ = read(&payload);
    }
}

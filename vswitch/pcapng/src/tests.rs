//! The blocks byte by byte, and what tshark reads of them.

use super::*;
use std::process::Command;

const FRAME: [u8; 61] = {
    let mut frame = [0_u8; 61];
    frame[0] = 2;
    frame[5] = 1;
    frame[6] = 2;
    frame[11] = 2;
    frame[12] = 0x88;
    frame[13] = 0xb5; // for experiments: nothing reads what follows
    frame[60] = 0xee;
    frame
};

fn packet(interface: u32) -> Packet<'static> {
    let direction = Direction::Unknown;
    Packet { interface, time: 0, bytes: &FRAME, length: 61, direction, id: 0, comment: "" }
}

fn named(name: &str) -> Interface {
    Interface { name: name.to_owned(), ..Interface::default() }
}

/// What is written after the section's header.
fn blocks(write: impl FnOnce(&mut Writer<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, "").expect("a vector takes all");
    let header = writer.out.len();
    write(&mut writer);
    bytes.split_off(header)
}

#[test]
fn section() {
    let mut bytes = Vec::new();
    Writer::new(&mut bytes, "vsctl").expect("a vector takes all");
    #[rustfmt::skip]
    let expected = [
        0x0a, 0x0d, 0x0d, 0x0a, 44, 0, 0, 0,
        0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        4, 0, 5, 0, b'v', b's', b'c', b't', b'l', 0, 0, 0,
        0, 0, 0, 0, 44, 0, 0, 0,
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn interface() {
    let interface = Interface { name: "p1".to_owned(), description: "rx".to_owned(), snaplen: 0x0102 };
    let bytes = blocks(|writer| {
        assert_eq!(writer.interface(&interface).expect("written"), 0);
    });
    #[rustfmt::skip]
    let expected = [
        1, 0, 0, 0, 48, 0, 0, 0,
        1, 0, 0, 0, 2, 1, 0, 0,
        2, 0, 2, 0, b'p', b'1', 0, 0,
        3, 0, 2, 0, b'r', b'x', 0, 0,
        9, 0, 1, 0, 9, 0, 0, 0,
        0, 0, 0, 0, 48, 0, 0, 0,
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn enhanced_packet_with_every_option() {
    let first = blocks(|writer| {
        writer.interface(&named("a")).expect("written");
    });
    let bytes = blocks(|writer| {
        writer.interface(&named("a")).expect("written");
        let packet = Packet {
            time: 0x0102_0304_0506_0708,
            bytes: &[0xaa, 0xbb, 0xcc, 0xdd, 0xee],
            length: 1500,
            direction: Direction::Outbound,
            id: 7,
            comment: "drop",
            ..packet(0)
        };
        writer.packet(&packet).expect("written");
    });
    #[rustfmt::skip]
    let expected = [
        6, 0, 0, 0, 72, 0, 0, 0,
        0, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5,
        5, 0, 0, 0, 0xdc, 5, 0, 0,
        0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0, 0, 0,
        2, 0, 4, 0, 2, 0, 0, 0,
        5, 0, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 4, 0, b'd', b'r', b'o', b'p',
        0, 0, 0, 0, 72, 0, 0, 0,
    ];
    assert_eq!(bytes[first.len()..], expected);
}

#[test]
fn statistics() {
    let first = blocks(|writer| {
        writer.interface(&named("a")).expect("written");
    });
    let bytes = blocks(|writer| {
        writer.interface(&named("a")).expect("written");
        writer.statistics(0, 1 << 32, 5, 2).expect("written");
    });
    #[rustfmt::skip]
    let expected = [
        5, 0, 0, 0, 52, 0, 0, 0,
        0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
        4, 0, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0,
        5, 0, 8, 0, 2, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 52, 0, 0, 0,
    ];
    assert_eq!(bytes[first.len()..], expected);
}

/// An unknown interface would make the whole file unreadable.
#[test]
fn unknown_interfaces_are_refused_and_write_nothing() {
    let bytes = blocks(|writer| {
        let error = writer.packet(&packet(0)).expect_err("there is no interface");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let error = writer.statistics(0, 0, 0, 0).expect_err("there is no interface");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    });
    assert_eq!(bytes, [0_u8; 0]);
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "ü".repeat(TEXT_MAX);
    assert_eq!(cut(long.as_bytes()), TEXT_MAX);
    let odd = format!("x{long}");
    assert_eq!(cut(odd.as_bytes()), TEXT_MAX - 1);
    assert_eq!(cut("short".as_bytes()), 5);
    let bytes = blocks(|writer| {
        writer.interface(&named("a")).expect("written");
        writer.packet(&Packet { comment: &odd, ..packet(0) }).expect("written");
    });
    assert!(bytes.len() < TEXT_MAX + 256, "{}", bytes.len());
}

/// What tshark prints of a file.
fn tshark(bytes: &[u8], options: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.pcapng");
    std::fs::write(&path, bytes).expect("written");
    let output = Command::new("tshark").args(["-n", "-r"]).arg(&path).args(options).output();
    let output = output.expect("tshark is installed (tools/setup)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn tshark_reads_all_of_it() {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, "vsctl 1").expect("a vector takes all");
    let snaplen = 60;
    let rx = writer.interface(&Interface { snaplen, ..named("p1 rx") }).expect("written");
    let packet =
        Packet { time: 1_700_000_000_123_456_789, direction: Direction::Inbound, id: 99, comment: "", ..packet(rx) };
    writer.packet(&packet).expect("written");
    let tx = writer.interface(&named("p2 tx")).expect("written");
    let comment = "drop: rule_drop; table 28; policy np:shop/wéb";
    let cut = Packet { interface: tx, length: 1500, direction: Direction::Outbound, comment, ..packet };
    writer.packet(&cut).expect("written");
    writer.packet(&Packet { direction: Direction::Unknown, comment: "", id: 0, ..cut }).expect("written");
    writer.statistics(rx, packet.time, 1, 41).expect("written");
    writer.statistics(tx, packet.time, 2, 0).expect("written");
    writer.flush().expect("written");
    let fields = [
        "frame.interface_name",
        "frame.packet_flags_direction",
        "frame.packet_id",
        "frame.comment",
        "frame.time_epoch",
        "frame.len",
        "frame.cap_len",
    ];
    let options = ["-T", "fields"].into_iter().chain(fields.iter().flat_map(|field| ["-e", field]));
    let expected = format!(
        "p1 rx\t0x00000001\t99\t\t1700000000.123456789\t61\t61\n\
         p2 tx\t0x00000002\t99\t{comment}\t1700000000.123456789\t1500\t61\n\
         p2 tx\t\t\t\t1700000000.123456789\t1500\t61\n"
    );
    assert_eq!(tshark(&bytes, &options.collect::<Vec<_>>()), expected);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), &bytes).expect("written");
    let about = Command::new("capinfos").arg(file.path()).output().expect("it comes with tshark");
    let about = String::from_utf8_lossy(&about.stdout);
    assert!(about.contains("vsctl 1") && about.contains("Number of interfaces in file: 2"), "{about}");
}

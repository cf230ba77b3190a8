//! Files of every format that a release wrote: `tests/golden/connections-v1` and so on, each
//! written by the switch of that format. The newest is what this one writes, byte for byte.

use super::saved::all_kinds;
use super::talk::{Talk, tuple};
use crate::{Connection, Helper, Ingress, L4, Request, Seen, Share, Tuple, tcp};

/// The formats, the oldest first.
const FILES: [&[u8]; 3] = [
    include_bytes!("../../../tests/golden/connections-v1"),
    include_bytes!("../../../tests/golden/connections-v2"),
    include_bytes!("../../../tests/golden/connections-v3"),
];

/// Ports of the scene, with as many connections.
const PORTS: [(&str, u16); 2] = [("pod-a", 2), ("a-port-of-a-long-name", 1)];

/// Each kind of connection, one whose text became longer, and some of ports.
fn scene() -> Talk {
    let talk = all_kinds();
    helped(&talk);
    for (number, (name, connections)) in (0..).zip(PORTS) {
        talk.tracker.add_port(number, name, Share::One);
        for from in 0..connections {
            let tuple = tuple(&format!("udp 50:{}>60:{}", 2000 + from, 100 + number));
            let seen = Seen { tuple, l4: L4::Udp, len: 60, port: Ingress::port(number) };
            talk.tracker.track(&seen, &Request { commit: true, ..Request::default() }, 0, talk.now);
        }
    }
    talk
}

/// A connection of FTP with a helper.
fn helped(talk: &Talk) {
    let ftp = |text| Tuple { zone: 1, ..tuple(text) };
    let (there, back) = (ftp("tcp 1:1000>2:21"), ftp("tcp 2:21>1:1000"));
    let request = Request { zone: 1, commit: true, helper: Some(Helper::Ftp), ..Request::default() };
    for (tuple, flags, seq, ack) in [(there, 2, 100, 0), (back, 0x12, 500, 101), (there, 0x10, 101, 501)] {
        let segment = tcp::Segment { flags, seq, ack, window: 65535, ..tcp::Segment::default() };
        let seen = Seen { tuple, l4: L4::Tcp(segment), len: 60, ..Seen::default() };
        talk.tracker.track(&seen, &request, 0, talk.now);
    }
    talk.tracker.grown(&there, 101, 7, talk.now);
}

#[test]
fn files_of_all_formats_are_read_as_they_were_written() {
    let before = scene();
    for (version, bytes) in (1..).zip(FILES) {
        assert_eq!(bytes[8..16], u64::to_le_bytes(version));
        let (after, restored) = Talk::again(bytes, 64, 1000);
        // The first format knows no ports, and its file has none of their connections.
        let ports = if version == 1 { 0 } else { PORTS.iter().map(|(_, connections)| u64::from(*connections)).sum() };
        assert_eq!((restored.connections, restored.expected), (11 + ports, 1), "version {version}");
        assert_eq!((restored.elapsed_ms, restored.expired), (1000, 0), "version {version}");
        let is_there = |c: &Connection| version > 1 || c.original.src.addr != tuple("udp 50:1>2:1").src.addr;
        let aged = |c: Connection| Connection { timeout_ms: c.timeout_ms - 1000, start_ms: c.start_ms + 1000, ..c };
        let expected: Vec<Connection> = before.shown().into_iter().filter(is_there).map(aged).collect();
        assert_eq!(after.shown(), expected, "version {version}");
        assert_eq!(after.tracker.zones_established_after_answer(), [7], "version {version}");
        for (name, connections) in PORTS {
            let count = after.tracker.port_counts().into_iter().find(|count| count.name == name);
            let connections = (version > 1).then_some(u64::from(connections));
            assert_eq!(count.map(|count| u64::from(count.connections)), connections, "version {version}: {name}");
        }
        let helped = tuple("tcp 1:1000>2:21");
        let segment = tcp::Segment { flags: 0x10, seq: 200, ack: 501, window: 65535, ..tcp::Segment::default() };
        let seen = Seen { tuple: Tuple { zone: 1, ..helped }, l4: L4::Tcp(segment), len: 60, ..Seen::default() };
        let grown = after.tracker.control(&seen, 0, after.now).map(|control| control.seq);
        assert_eq!(grown, Some(7), "version {version}: what was added to a payload");
    }
}

/// A change of the format is a new version, with a file of its own: an older file is never written
/// anew.
#[test]
fn the_newest_file_is_what_is_written() {
    let (bytes, newest) = (scene().saved(), FILES[FILES.len() - 1]);
    if bytes != newest {
        let path = std::env::temp_dir().join("vswitch-golden-connections");
        std::fs::write(&path, &bytes).expect("a file");
        panic!(
            "the format has changed: raise VERSION, and add {} as tests/golden/connections-vVERSION",
            path.display()
        );
    }
}

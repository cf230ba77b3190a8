//! The harness itself, on a plain kernel link without a switch: what other tests conclude from it
//! must be true.

use crate::common::{
    ChecksumErrors, Expect, Netns, Veth, clean, iperf3, ping, receive_errors, run, wait_for, write_pcap,
};
use std::time::Duration;

/// Two namespaces on one veth pair, 10.98.0.1 and .2, fd98::1 and ::2.
fn pair() -> (Netns, Netns, Veth) {
    let (a, b) = (Netns::new("a"), Netns::new("b"));
    let veth = Veth::new(&b, "eth0");
    a.take(veth.host());
    a.configure(veth.host(), &["10.98.0.1/24", "fd98::1/64"]);
    b.configure("eth0", &["10.98.0.2/24", "fd98::2/64"]);
    (a, b, veth)
}

#[test]
fn traffic_between_namespaces() {
    let (a, b, _veth) = pair();
    ping(&a, "10.98.0.2", 3, 4000);
    ping(&b, "fd98::1", 3, 56);
    for (address, args) in [("10.98.0.2", &["-t", "1"][..]), ("fd98::2", &["-t", "1", "-R"])] {
        let tcp = iperf3(&b, &a, address, args);
        assert!(tcp.received_bps > 50e6 && tcp.sent_bytes > 6_000_000, "{address} {args:?}: {:#}", tcp.report["end"]);
    }
    for args in [&["-u", "-b", "20M"][..], &["-u", "-b", "20M", "-R"]] {
        let udp = iperf3(&b, &a, "fd98::2", args);
        let (rate, lost) = (udp.received_bps, udp.lost_percent);
        // Asked for 20 Mbit/s; a loaded machine paces worse.
        let sane = (5e6..30e6).contains(&rate) && (0.0..5.0).contains(&lost) && udp.retransmits == 0;
        assert!(sane, "{args:?}: {rate} bit/s, {lost} % lost: {:#}", udp.report["end"]);
    }
    assert_eq!(ChecksumErrors::of(&a), ChecksumErrors::default());
    assert_eq!(ChecksumErrors::of(&b), ChecksumErrors::default());
}

#[test]
fn a_wrong_checksum_is_counted() {
    let (a, b, _veth) = pair();
    ping(&a, "10.98.0.2", 1, 56); // resolves the address
    // UDP port 1 to 2, 8 bytes of header and 4 of data, checksum 0xdead.
    let send = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP); \
                s.sendto(bytes.fromhex('00010002000cdead') + b'data', ('10.98.0.2', 0))";
    a.run(&["python3", "-c", send]);
    wait_for("the receiver counts it", Duration::from_secs(60), || ChecksumErrors::of(&b).udp == 1);
    assert_eq!(ChecksumErrors::of(&b), ChecksumErrors { udp: 1, ..ChecksumErrors::default() });
    assert_eq!(receive_errors(&b), ["UdpInCsumErrors 1 0.0"]);
    assert_eq!(receive_errors(&a), [""; 0]);
}

#[test]
fn a_lost_ping_and_a_dead_server_are_failures() {
    let (a, b, _veth) = pair();
    b.run(&["ip", "address", "flush", "dev", "eth0"]);
    let lost = std::panic::catch_unwind(|| ping(&a, "10.98.0.2", 2, 56));
    assert!(lost.is_err(), "ping to nobody was no failure");
    let dead = std::panic::catch_unwind(|| iperf3(&a, &b, "10.98.0.1", &["--connect-timeout", "300"]));
    assert!(dead.is_err(), "iperf3 without a route was no failure");
}

#[test]
fn guards_clean_up_when_a_test_panics() {
    let exists = |name: &str| run(&["ip", "netns", "list"]).lines().any(|line| line.split(' ').next() == Some(name));
    let seen = std::sync::Mutex::new(None);
    let panicked = std::panic::catch_unwind(|| {
        let (_, b, _veth) = pair();
        assert!(exists(b.name()));
        // A program that is still there must not keep the namespace.
        let pid = b.run(&["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"]);
        *seen.lock().expect("nobody panicked with it") = Some((b.name().to_owned(), pid.trim().to_owned()));
        panic!("on purpose");
    });
    assert!(panicked.is_err());
    let (name, pid) = seen.into_inner().expect("nobody panicked with it").expect("it came so far");
    assert!(!exists(&name), "{name} is still there");
    let gone = || !std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("sleep"));
    wait_for("its program ends", Duration::from_secs(60), gone);
}

/// An echo request and its answer, in VXLAN with network 7 between 192.168.77.1 and .2.
const ECHO: [&str; 2] = [
    "02000000000b02000000000a0800450000560009400040111f3ac0a84d01c0a84d029c4012b500421a1d0800000000000700\
     020000000002020000000001080045000024000540004001260c0a6300010a63000208006668000100016162636465666768",
    "02000000000b02000000000a0800450000560009400040111f3ac0a84d02c0a84d019c4012b500421a1d0800000000000700\
     020000000002020000000001080045000024000540004001260c0a6300020a63000100006e68000100016162636465666768",
];

/// Whether a capture of [`ECHO`], with these bytes written at these places of the request, is what
/// is expected.
fn is_clean(changes: &[(usize, u8)], expect: &Expect<'_>) -> bool {
    let mut frames = ECHO.map(|hex| {
        let byte = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal digits");
        (0..hex.len()).step_by(2).map(byte).collect::<Vec<_>>()
    });
    changes.iter().for_each(|(at, byte)| frames[0][*at] = *byte);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("echo.pcap");
    write_pcap(&path, &frames);
    std::panic::catch_unwind(|| clean(&path, expect)).is_ok()
}

#[test]
fn only_a_clean_capture_is_clean() {
    let (inside, fields) = (["ip:icmp"].as_slice(), [("vxlan.vni", "7")].as_slice());
    let expect = Expect { tunnel: "ip:udp:vxlan", inside, from: "192.168.77.1", fields, sum: true };
    assert!(is_clean(&[], &expect));
    let wrong_bytes: [(&str, &[(usize, u8)]); 7] = [
        ("checksum of the outer IPv4 header", &[(24, 0)]),
        ("outer UDP checksum", &[(40, 0x1b)]),
        ("no outer UDP checksum", &[(40, 0), (41, 0)]),
        ("checksum of the inner IPv4 header, none outside", &[(40, 0), (41, 0), (74, 0)]),
        ("inner ICMP checksum", &[(86, 0)]),
        ("outer length", &[(17, 0x66)]),
        ("another protocol inside", &[(62, 0x88), (63, 0xb5)]),
    ];
    for (what, changes) in wrong_bytes {
        assert!(!is_clean(changes, &expect), "{what}: {changes:?}");
    }
    let wrong_expectations = [
        Expect { tunnel: "ip:udp:geneve", ..expect },
        Expect { inside: &["ip:icmp", "ip:tcp"], ..expect },
        Expect { from: "192.168.77.3", ..expect },
        Expect { fields: &[("vxlan.vni", "8")], ..expect },
        Expect { sum: false, ..expect },
    ];
    for expect in wrong_expectations {
        assert!(!is_clean(&[], &expect), "{expect:?}");
    }
    // Inside it says TCP, for which it is too short; the checksums are right.
    assert!(!is_clean(&[(73, 6), (75, 0x07)], &Expect { inside: &[], ..expect }));
    // Without its checksum the packet is what this expects, and inside something is still wrong.
    let without = Expect { sum: false, ..expect };
    assert!(is_clean(&[(40, 0), (41, 0)], &without));
    assert!(!is_clean(&[(40, 0), (41, 0), (86, 0)], &without));
}

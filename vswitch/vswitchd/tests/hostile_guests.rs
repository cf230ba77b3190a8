//! Hostile packets through a vhost-user port of a real `vswitchd`: a guest sends what no stack
//! would send.
//!
//! What becomes of each kind of packet is tested where it is decided, with more of them; here is
//! that a guest can send them, and nothing else happens. By the numbers of the list that they come
//! from:
//!
//! | | what | where else |
//! |---|---|---|
//! | P20 | ARP that is none | `packet::strict`, `p20_arp`; `hostile`, `what_open_vswitch_forwards_a_strict_port_drops_by_name` |
//! | P21 | more addresses than fit | `worker::tests::strict`, `the_table_of_addresses_stays_at_its_limit_and_static_addresses_stay`; `hostile`, `a_flood_of_addresses_stays_within_the_table` |
//! | P22 | control protocols | `worker::tests::strict`, `control_protocols_are_dropped_by_the_bridge_and_leak_nothing`; `hostile`, `control_protocols_are_dropped_by_normal_and_reach_nobody` |
//! | P23, P24, P25 | VXLAN, Geneve, GRE that lie | `differential`, cases `tunnel-malformed`, `tunnel-odd-lengths`, `tunnel-nested`; `worker::tests::tunnels`; the crate `vswitch-overlay`, `read` and `options` |
//! | P26 | a tenant's packets for our end of tunnels | `worker::tests::vteps`, `what_a_pod_sends_to_our_end_of_tunnels_is_dropped_by_name` |
//! | P36 | lies about checksums and segments | `port::vhost::tests::offload`; `packet::vnet` |

use crate::common::{Host, Switch, Testpmd, Wire, number, wait_for, write_pcap};
use std::time::Duration;

/// The guest's port is connected once a second.
const SOON: Duration = Duration::from_secs(60);

/// Our end of tunnels, and the addresses of its interface.
const VTEP: [u8; 6] = [2, 0, 0, 0, 0, 0xb0];
const VTEP_V4: [u8; 4] = [10, 99, 0, 101];
const GUEST: [u8; 6] = [2, 0, 0, 0, 0, 0xaa];

fn ones(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !u16::try_from((sum & 0xffff) + (sum >> 16)).expect("few words")
}

fn eth(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&VTEP[..], &GUEST, &kind.to_be_bytes(), payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A packet for our end of tunnels.
fn ip(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(20 + payload.len()).expect("short").to_be_bytes();
    let mut header = [0x45, 0, len[0], len[1], 0, 1, 0, 0, 64, protocol, 0, 0, 10, 99, 0, 7, 0, 0, 0, 0];
    header[16..].copy_from_slice(&VTEP_V4);
    let sum = ones(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    eth(0x0800, &[&header[..], payload].concat())
}

/// Likewise, over UDP without a checksum.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(8 + payload.len()).expect("short");
    ip(17, &[&[0xc0, 0][..], &port.to_be_bytes(), &len.to_be_bytes(), &[0, 0], payload].concat())
}

/// What is inside of tunnels.
fn inner() -> Vec<u8> {
    eth(0x88b5, &[7; 46])
}

fn vxlan(flags: u8, inner: &[u8]) -> Vec<u8> {
    udp(4789, &[&[flags, 0, 0, 0, 0, 0, 5, 0], inner].concat())
}

fn geneve(head: [u8; 4], rest: &[u8]) -> Vec<u8> {
    udp(6081, &[&head[..], &[0, 0, 5, 0], rest].concat())
}

fn gre(head: [u8; 4], rest: &[u8]) -> Vec<u8> {
    ip(47, &[&head[..], rest].concat())
}

/// Right ones, one of each kind.
fn good_tunnels() -> Vec<Vec<u8>> {
    vec![
        vxlan(8, &inner()),
        geneve([0, 0, 0x65, 0x58], &inner()),
        gre([0x20, 0, 0x65, 0x58], &[&[0, 0, 0, 5], &inner()[..]].concat()),
    ]
}

/// P23, P24, P25.
fn bad_tunnels() -> Vec<Vec<u8>> {
    let inner = inner();
    let nested = (0..16).fold(inner.clone(), |inside, _| vxlan(8, &inside));
    let options = |bytes: &[u8]| [bytes, &inner[..]].concat();
    vec![
        vxlan(0, &inner),
        vxlan(0xf7, &inner),
        vxlan(8, &inner[..13]),
        vxlan(8, &[]),
        udp(4789, &[8, 0, 0]),
        nested,
        geneve([0x3f, 0, 0x65, 0x58], &inner[..20]),
        geneve([0x40, 0, 0x65, 0x58], &inner),
        geneve([2, 0, 0x65, 0x58], &options(&[0xff, 0xff, 1, 31, 0, 0, 0, 0])),
        geneve([1, 0x40, 0x65, 0x58], &options(&[0xff, 0xff, 0x80, 0])),
        geneve([0, 0x80, 0x65, 0x58], &inner[..10]),
        geneve([0, 0, 8, 0], &inner),
        udp(6081, &[0, 0, 0x65]),
        gre([0xb0, 0, 0x65, 0x58], &[0; 3]),
        gre([0x80, 0, 0x65, 0x58], &[&[0xde, 0xad, 0, 0], &inner[..]].concat()),
        gre([0, 1, 0x65, 0x58], &inner),
        gre([0x20, 0, 0x65, 0x58], &[0]),
        gre([0x10, 0, 0x88, 0xbe], &[0; 4]),
        gre([0x40, 0, 0x65, 0x58], &inner),
    ]
}

/// P20, P22, and the name of the drop of each on a strict port.
fn for_nobody() -> Vec<(Vec<u8>, &'static str)> {
    let arp = |head: [u8; 6]| eth(0x0806, &[&head[..], &[0, 1], &GUEST, &[10, 99, 0, 7], &VTEP, &VTEP_V4].concat());
    let group = |last: u8, kind: u16, payload: &[u8]| {
        let mut frame = eth(kind, payload);
        frame[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last]);
        (frame, "reserved_multicast")
    };
    vec![
        (arp([0, 1, 8, 0, 5, 4]), "arp"),
        (arp([0, 1, 8, 0, 255, 4]), "arp"),
        (arp([0, 1, 8, 0, 6, 16]), "arp"),
        (arp([0, 6, 8, 0, 6, 4]), "arp"),
        group(0x0e, 0x88cc, &[2, 255, 4, 0, 0xff, 0xff, 0xfe, 1]),
        group(0x02, 0x8809, &[1, 1, 1, 255]),
        group(0x00, 3, &[0x42, 0x42, 3]),
    ]
}

const BRIDGES: &str = "
[[bridge]]
name = \"over\"
fail_mode = \"standalone\"

[[bridge.port]]
name = \"tenant\"
type = \"vhost-user\"
path = \"@DIR@/tenant.sock\"
@STRICT@

[[bridge.port]]
name = \"down\"
type = \"patch\"
peer = \"up\"
no_flood = true

[[bridge.port]]
name = \"vxlan\"
type = \"vxlan\"
options = { remote_ip = \"flow\", key = \"flow\" }

[[bridge.port]]
name = \"geneve\"
type = \"geneve\"
options = { remote_ip = \"flow\", key = \"flow\" }

[[bridge.port]]
name = \"gre\"
type = \"gre\"
options = { remote_ip = \"flow\", key = \"flow\" }

[[bridge]]
name = \"under\"
fail_mode = \"standalone\"

[[bridge.port]]
name = \"uplink\"
type = \"vhost-user\"
path = \"@DIR@/uplink.sock\"
underlay = true

[[bridge.port]]
name = \"up\"
number = 7
type = \"patch\"
peer = \"down\"
no_flood = true

";

/// Two bridges with tunnels between them.
fn stage(strict: &str) -> (Switch, Host) {
    let vtep = Host::new(Wire::Internal, 101);
    let own = format!("{}\nmac = \"02:00:00:00:00:b0\"\naddresses = [\"{}/24\"]\n", vtep.config(2).trim_end(), vtep.v4);
    let switch = Switch::start(&[&BRIDGES.replace("@STRICT@", strict), &own[..]].concat());
    vtep.attach();
    (switch, vtep)
}

/// A guest at one of their ports sends these frames. Returns when the switch has them all.
fn send(switch: &Switch, port: (&str, &str), frames: &[Vec<u8>]) {
    let capture = switch.dir().join("frames.pcap");
    write_pcap(&capture, frames);
    let mut guest = Testpmd::player(&switch.dir().join(format!("{}.sock", port.1)), &capture);
    let received = || number(&switch.port(port.0, port.1), "rx_packets");
    wait_for("the guest connects", SOON, || switch.port(port.0, port.1)["link_up"] == true);
    let before = received();
    guest.say("start");
    wait_for("the switch has all frames", SOON, || received() >= before + frames.len() as u64);
}

fn came_out(switch: &Switch) -> [u64; 3] {
    ["vxlan", "geneve", "gre"].map(|tunnel| number(&switch.port("over", tunnel), "rx_packets"))
}

#[test]
fn malformed_packets_of_a_guest_are_dropped_by_name() {
    let cases = for_nobody();
    let frames: Vec<_> = cases.iter().map(|(frame, _)| frame.clone()).collect();
    let (switch, _home) = stage("strict = true");
    send(&switch, ("over", "tenant"), &frames);
    let port = switch.port("over", "tenant");
    for name in ["arp", "reserved_multicast"] {
        let expected = cases.iter().filter(|(_, reason)| *reason == name).count() as u64;
        assert_eq!(port["rx_drops"][name].as_u64().unwrap_or(0), expected, "{name}: {port:#}");
    }
    assert_eq!(number(&port, "rx_dropped"), frames.len() as u64, "{port:#}");
    wait_for("mbufs come back", SOON, || switch.mbufs_in_use() <= 64);
}

#[test]
fn tunnels_that_lie_bring_nothing_out() {
    let bad = bad_tunnels();
    let (switch, vtep) = stage("");
    send(&switch, ("under", "uplink"), &[bad.clone(), good_tunnels()].concat());
    // Beside the right ones, the outermost of sixteen tunnels in one another; what is inside is a
    // packet like others.
    wait_for("the right ones come out", SOON, || came_out(&switch) == [2, 1, 1]);
    let drops = |bridge: &str, port: &str, name: &str| {
        let port = switch.port(bridge, port);
        (port["rx_drops"][name].as_u64().unwrap_or(0), number(&port, "rx_dropped"))
    };
    assert_eq!(drops("over", "geneve", "tunnel_option"), (2, 2), "options that are too long, or critical and unknown");
    // What the host itself sends there (its kernel may speak at any time) can be dropped, too: for
    // other reasons.
    let ours = switch.port("under", &vtep.port);
    let told: std::collections::BTreeMap<_, _> = ours["rx_drops"]
        .as_object()
        .expect("reasons")
        .iter()
        .filter(|(name, count)| name.starts_with("tunnel") && **count != 0)
        .map(|(name, count)| (name.as_str(), count.as_u64()))
        .collect();
    assert_eq!(told, [("tunnel_csum", Some(1)), ("tunnel_header", Some(15))].into(), "{ours:#}");
    assert_eq!(bad.len(), 15 + 1 + 2 + 1, "each in one place");
    wait_for("mbufs come back", SOON, || switch.mbufs_in_use() <= 64);
}

/// P26: whatever way leads a tenant's packets to the port that has our address, with a patch port
/// and a `ct()` on it, too, nothing comes out of our tunnels.
#[test]
fn a_tenant_does_not_speak_through_our_tunnels() {
    let (switch, vtep) = stage("");
    let frames = [good_tunnels(), bad_tunnels()].concat();
    let spoofed = || switch.port("over", "tenant")["rx_drops"]["spoof_vtep"].as_u64().unwrap_or(0);
    let all = frames.len() as u64;
    switch.vsctl_ok(&["add-flow", "over", "in_port=tenant,actions=output:down"]);
    switch.vsctl_ok(&["add-flow", "under", &format!("table=1,actions=output:{}", vtep.port)]);
    for (way, first, second) in
        [("straight", "goto_table:1", "goto_table:1"), ("through ct()", "ct(table=1)", "ct(table=1,zone=9)")]
    {
        let before = spoofed();
        for actions in [first, second] {
            switch.vsctl_ok(&["add-flow", "under", &format!("in_port=up,ip,actions={actions}")]);
            send(&switch, ("over", "tenant"), &frames);
        }
        wait_for("all are dropped by name", SOON, || spoofed() == before + 2 * all);
        assert_eq!(
            came_out(&switch),
            [0; 3],
            "{way}: a tenant spoke through our tunnels: {:#}",
            switch.port("over", "tenant")
        );
    }
    // That is what kept them inside.
    switch.vsctl_ok(&["mod-port", "over", "tenant", "underlay"]);
    send(&switch, ("over", "tenant"), &good_tunnels());
    wait_for("a port of the underlay is heard", SOON, || came_out(&switch) == [1; 3]);
    assert_eq!(spoofed(), 4 * all);
}

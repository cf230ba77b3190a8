//! Every set of features that a guest may be left with, and every pair of them.

use super::{BRIDGE, SOON, datagrams_arrive, ports};
use crate::common::{GUEST_TCP_LEN, Guest, IDLE_SLEEP, Nic, Switch, WITHOUT_OFFLOADS};
use serde_json::Value;
use std::fmt::Write;

/// What a guest's device is like.
struct Set {
    /// Properties of the device.
    properties: &'static str,
    queues: u16,
    packed: bool,
    /// What the switch offers such a guest, and it does without: names of `port-caps`.
    unused: &'static [&'static str],
}

/// One queue, split rings.
const fn set(properties: &'static str, unused: &'static [&'static str]) -> Set {
    Set { properties, queues: 1, packed: false, unused }
}

const SETS: [Set; 10] = [
    set("", &[]),
    set(super::WITHOUT_TSO, &["rx-tso4", "rx-tso6", "tx-tso4", "tx-tso6"]),
    set(WITHOUT_OFFLOADS, &["rx-csum", "rx-tso4", "rx-tso6", "tx-csum", "tx-tso4", "tx-tso6"]),
    set("mrg_rxbuf=off", &["mergeable"]),
    set("indirect_desc=off,event_idx=off", &["indirect"]),
    set(
        "guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,mrg_rxbuf=off,disable-modern=on,disable-legacy=off",
        &["tx-csum", "tx-tso4", "tx-tso6", "mergeable"],
    ),
    set("guest_tso6=off,host_tso6=off", &["rx-tso6", "tx-tso6"]),
    set("guest_tso4=off,host_tso4=off,guest_ecn=off,host_ecn=off,host_mtu=1400", &["rx-tso4", "tx-tso4"]),
    Set {
        properties: "csum=off,gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off",
        queues: 2,
        packed: false,
        unused: &["rx-csum", "rx-tso4", "rx-tso6"],
    },
    Set { properties: "packed=on", queues: 2, packed: true, unused: &[] },
];
/// The one whose guest is told an MTU (by QEMU).
const WITH_MTU: usize = 7;

/// A switch and two guests with a device of each set: `a0`, `a1`, ..., `b0`, ...
fn devices() -> (Switch, [Guest; 2]) {
    let mut config = [IDLE_SLEEP, BRIDGE].concat();
    for side in ["a", "b"] {
        for (i, set) in SETS.iter().enumerate() {
            let keys = format!("queues = {}\npacked = {}\ntype = ", set.queues, set.packed);
            config += &ports(&[&format!("{side}{i}")]).replace("type = ", &keys);
        }
    }
    let switch = Switch::start(&config);
    let nics = |side: &str, high: u8| -> Vec<Nic> {
        let nic = |(i, set): (u8, &Set)| {
            let nic = Nic::new(&switch.dir().join(format!("{side}{i}.sock")), [high, i]).with(set.properties);
            Nic { queues: set.queues, ..nic }
        };
        (0..).zip(&SETS).map(nic).collect()
    };
    let guests = Guest::boot_all([("a", nics("a", 1)), ("b", nics("b", 2))]);
    (switch, guests)
}

/// Gives guest `me` (1 or 2) its addresses and a file to ask for. From device i of the one to
/// device j of the other there are subnets of their own.
fn configure(guest: &mut Guest, me: u8) {
    // Several devices in one broadcast domain: each answers for its own addresses only.
    guest.run(
        "sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.rp_filter=0",
    );
    for (i, set) in SETS.iter().enumerate() {
        let pair = |other: usize| if me == 1 { (i, other) } else { (other, i) };
        let addresses = (0..SETS.len())
            .map(pair)
            .flat_map(|(of_a, of_b)| [format!("10.{of_a}.{of_b}.{me}/24"), format!("fd00:{of_a}:{of_b}::{me}/64")]);
        let addresses: Vec<String> = addresses.collect();
        guest.configure(&format!("eth{i}"), &addresses.iter().map(String::as_str).collect::<Vec<_>>());
        if set.queues > 1 {
            guest.run(&format!("ethtool -L eth{i} combined {}", set.queues));
        }
    }
    guest.run("mkdir /tmp/www; head -c 300000 /dev/urandom >/tmp/www/file; httpd -p 7000 -h /tmp/www");
}

/// The file of `server` (guest 1 or 2) by way of device `i` of guest a and each device of guest b:
/// what arrived as something else. Of each pair one way is over IPv4, the other one over IPv6.
fn fetch(client: &mut Guest, server: u8, i: usize, whole: &str) -> String {
    let mut urls = String::new();
    for j in 0..SETS.len() {
        let _ = if (i + j + usize::from(server)).is_multiple_of(2) {
            write!(urls, " 10.{i}.{j}.{server}")
        } else {
            write!(urls, " [fd00:{i}:{j}::{server}]")
        };
    }
    client.run(&format!(
        "for url in {urls}; do got=$(timeout 20 wget -q -O - http://$url:7000/file | sha256sum); \
         [ \"$got\" = \"{whole}\" ] || echo \"$url sent $got\"; done"
    ))
}

#[test]
fn every_pair_of_feature_sets_carries_tcp_unharmed() {
    let (switch, [mut a, mut b]) = devices();
    configure(&mut a, 1);
    configure(&mut b, 2);
    b.run("iperf3 -s -D");
    let whole = [&mut a, &mut b].map(|guest| guest.run("sha256sum </tmp/www/file").trim().to_owned());
    for (i, set) in SETS.iter().enumerate() {
        let what = format!("device {i} of a ({:?}) and devices 10.{i}.j of b", set.properties);
        a.wait_reaches(&format!("10.{i}.0.2"), SOON);
        assert_eq!(fetch(&mut a, 2, i, &whole[1]), "", "{what}, from b: not the file");
        assert_eq!(fetch(&mut b, 1, i, &whole[0]), "", "{what}, from a: not the file");
        let address = if i % 2 == 0 { format!("10.{i}.{i}.2") } else { format!("fd00:{i}:{i}::2") };
        a.run(&format!("ping -n -i 0.05 -c 3 -s 4000 {address}"));
        datagrams_arrive(&mut a, &address);
        datagrams_arrive(&mut a, &format!("{address} -R"));
    }
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.run(&format!("cat /sys/class/net/eth{WITH_MTU}/mtu")).trim(), "1400");
        assert_eq!(guest.receive_errors(), [""; 0]);
    }
    let ports = switch.json(&["port-caps", "br0"]);
    for side in ["a", "b"] {
        for (i, set) in SETS.iter().enumerate() {
            used_is_what_was_left(&ports, &format!("{side}{i}"), set);
        }
    }
}

/// `port-caps` of a guest's port: all is offered that is asked for, used what the guest has, and
/// the rest the switch did itself.
fn used_is_what_was_left(ports: &Value, port: &str, set: &Set) {
    let named = |list: &Value, name: &str| {
        list.as_array().and_then(|list| list.iter().find(|item| item["name"] == name)).cloned().unwrap_or_default()
    };
    let capabilities = named(ports, port)["capabilities"].clone();
    let kinds = ["rx-csum", "rx-tso4", "rx-tso6", "tx-csum", "tx-tso4", "tx-tso6", "mergeable", "indirect"];
    let options = [("multi-queue", set.queues > 1), ("packed", set.packed), ("mtu", true)];
    for (name, offered) in kinds.map(|name| (name, true)).into_iter().chain(options) {
        let left = name == "mtu" && !set.properties.contains("host_mtu");
        let used = offered && !left && !set.unused.contains(&name);
        // Somebody sent it long segments and unfinished checksums.
        let software = name.starts_with("tx-").then_some(!used);
        let found = named(&capabilities, name);
        let found = (&found["offered"], &found["used"], found["software_packets"].as_u64().map(|count| count > 0));
        let expected = (&offered.into(), &used.into(), software);
        assert_eq!(found, expected, "{port} ({:?}), {name}: {capabilities:#}", set.properties);
    }
}

#[test]
fn several_queues_jumbo_frames_and_tags_work_together() {
    let config = ports(&["a", "b"]).replace("type = ", "queues = 2\nmtu = 9000\ntype = ");
    let switch = Switch::start(&[BRIDGE, &config].concat());
    let nic = |name: &str, number| {
        vec![Nic { queues: 2, ..Nic::new(&switch.dir().join(format!("{name}.sock")), [0, number]) }]
    };
    let [mut a, mut b] = Guest::boot_all([("a", nic("a", 1)), ("b", nic("b", 2))]);
    for (guest, number) in [(&mut a, 1), (&mut b, 2)] {
        guest.run("ip link set eth0 mtu 9000");
        guest.configure("eth0", &[&format!("10.0.0.{number}/24"), &format!("fd00::{number}/64")]);
        guest.run("ip link add link eth0 name eth0.5 type vlan id 5");
        guest.configure("eth0.5", &[&format!("10.5.0.{number}/24"), &format!("fd05::{number}/64")]);
        guest.run("ethtool -L eth0 combined 2");
        guest.run("iperf3 -s -D");
    }
    for address in ["10.0.0.2", "fd00::2", "10.5.0.2", "fd05::2"] {
        a.wait_reaches(address, SOON);
        // Whole, as one frame.
        a.run(&format!("ping -n -i 0.05 -c 5 -M do -s 8900 {address}"));
        a.run(&format!("iperf3 -c {address} -n {GUEST_TCP_LEN} -P 4"));
        a.run(&format!("iperf3 -c {address} -n {GUEST_TCP_LEN} -P 4 -R"));
    }
    for guest in [&mut a, &mut b] {
        assert_eq!(guest.receive_errors(), [""; 0]);
        let counters = guest.run("ethtool -S eth0");
        let sent = |queue: u8| {
            let name = format!("tx_queue_{queue}_packets: ");
            counters.lines().find_map(|line| line.trim().strip_prefix(&name)?.parse::<u64>().ok())
        };
        assert!((0..2).all(|queue| sent(queue) > Some(100)), "not by both queues: {counters}");
    }
}

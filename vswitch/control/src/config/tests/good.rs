//! Files that are accepted, and what they mean.

use super::super::{SOCKET_DEFAULT, SwitchConfig, parse};
use super::{EXAMPLE, good, report};
use crate::{BridgeConfig, FailMode};
use std::path::{Path, PathBuf};
use vswitch_dataplane::limits;
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{PortConfig, PortKind, VhostConfig, VhostMode};

#[test]
fn an_empty_file_is_a_switch_with_defaults() {
    for text in ["", "\n", "# nothing\n", "\u{feff}", "\u{feff}\r\n", "[dpdk]\n[worker]\n[control]\n", "bridge = []"] {
        let config = good(text);
        assert_eq!(config, SwitchConfig::with_defaults(&[0, 1]), "{text:?}");
        assert_eq!((config.dpdk.main_core, &config.dpdk.worker_cores[..]), (0, &[1][..]));
        assert_eq!((config.dpdk.memory_mb, config.dpdk.hugepages), (512, true));
        assert_eq!(config.socket, Path::new(SOCKET_DEFAULT));
    }
}

#[test]
fn default_cores_stay_out_of_each_others_way() {
    for (cores, text, main, workers) in [
        (vec![0, 1, 2, 3], "", 0, vec![3]),
        (vec![4], "", 4, vec![4]),
        (vec![], "", 0, vec![0]),
        (vec![0, 1, 2], "main_core = 2", 2, vec![1]),
        (vec![0, 1, 2], "worker_cores = [0, 1]", 2, vec![0, 1]),
        (vec![0, 1], "worker_cores = [0, 1]", 0, vec![0, 1]),
        (vec![0, 1], "worker_cores = [7]\nmain_core = 7", 7, vec![7]),
    ] {
        let read = super::ConfigFile::read(&format!("[dpdk]\n{text}"), Path::new("f"), &cores);
        let dpdk = read.into_config().expect("a good file").dpdk;
        assert_eq!((dpdk.main_core, dpdk.worker_cores), (main, workers), "{text:?} on {cores:?}");
    }
}

#[test]
fn the_example_is_good_and_shows_defaults() {
    let config = good(EXAMPLE);
    let names: Vec<_> = config.bridges.iter().map(|(bridge, ports)| (bridge.name.as_str(), ports.len())).collect();
    assert_eq!(names, [("br-int", 3), ("br-ex", 2)]);
    let mut stripped = config.clone();
    stripped.bridges.clear();
    let mut defaults = SwitchConfig::with_defaults(&[0, 1]);
    defaults.dpdk.file_prefix = Some("vswitch".to_owned());
    assert_eq!(stripped, defaults);
    let (bridge, ports) = &config.bridges[0];
    assert_eq!(*bridge, BridgeConfig::new("br-int"));
    let vhost = VhostConfig::new("/run/vswitch/pod-a.sock".into(), VhostMode::Client);
    let mut pod = PortConfig::new("pod-a", PortKind::VhostUser(vhost));
    (pod.number, pod.mtu_follows) = (Some(3), false);
    pod.external_ids.insert("owner".to_owned(), "namespace-1/pod-a".to_owned());
    assert_eq!(ports[0], pod);
}

/// Every line that is commented out in the example must be good as well: `# key = value` and the
/// sections at the end.
#[test]
fn what_the_example_comments_out_is_good_too() {
    let uncomment = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.starts_with("[[") || rest.split_once(" = ").is_some_and(|(key, _)| is_key(key)) => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    let is_changed = EXAMPLE.lines().filter(|line| uncomment(line) != **line).count();
    assert!(is_changed >= 17, "only {is_changed} lines are commented out");
    let text: String = EXAMPLE.lines().map(|line| uncomment(line) + "\n").collect();
    let config = good(&text);
    let kinds: std::collections::BTreeSet<_> =
        config.bridges.iter().flat_map(|(_, ports)| ports).map(|port| port.kind.name()).collect();
    assert_eq!(kinds.len(), PortKind::NAMES.len(), "the example shows {kinds:?}");
    assert_eq!(config.dpdk.mbufs, Some(131_072));
}

fn is_key(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[test]
fn every_key_arrives() {
    let config = good(
        r#"
        dpdk = { worker_cores = [2, 3], main_core = 1, memory_mb = 64, mbufs = 1024, hugepages = false, file_prefix = "a", pci = true, args = ["-v"] }
        worker = { idle_sleep_us = 50, call_delay_us = 7 }
        control.socket = "/tmp/s"
        [[bridge]]
        name = "b"
        fail_mode = "standalone"
        fdb_entries = 10
        fdb_ageing_s = 20
        strict = true
        port = [
            { name = "d", type = "dpdk", devargs = "net_null0", queues = 2, number = 9, mac = "2:0:0:0:0:1", mtu = 9000 },
            { name = "v", type = "vhost-user", path = "/v", mode = "server", queues = 4, csum = false, tso = false,
              mergeable = false, indirect = false, packed = true, admin_up = false, no_flood = true,
              no_receive = true, no_forward = true, underlay = true },
            { name = "t", type = "tap", interface = "t0", queues = 3, strict = true, external_ids.a = "b" },
            { name = "a", type = "af_packet", interface = "a0" },
            { name = "p", type = "pcap", rx_file = "r", tx_file = "t", infinite_rx = true },
            { name = "i", type = "internal", queues = 2 },
        ]
        "#,
    );
    let dpdk = &config.dpdk;
    assert_eq!((&dpdk.worker_cores[..], dpdk.main_core, dpdk.memory_mb), (&[2, 3][..], 1, 64));
    assert_eq!((dpdk.mbufs, dpdk.hugepages, dpdk.pci), (Some(1024), false, true));
    assert_eq!((dpdk.file_prefix.as_deref(), &dpdk.args[..]), (Some("a"), &["-v".to_owned()][..]));
    let worker = (config.worker.idle_sleep_us, config.worker.call_delay_us);
    assert_eq!((worker, config.socket), ((50, 7), PathBuf::from("/tmp/s")));
    let (bridge, ports) = &config.bridges[0];
    let expected = BridgeConfig {
        name: "b".to_owned(),
        fail_mode: FailMode::Standalone,
        fdb_entries: 10,
        fdb_ageing_s: 20,
        strict: true,
    };
    assert_eq!(*bridge, expected);
    let vhost = VhostConfig {
        path: "/v".into(),
        mode: VhostMode::Server,
        queues: 4,
        csum: false,
        tso: false,
        mergeable: false,
        indirect: false,
        packed: true,
    };
    let mut expected = [
        PortConfig::new("d", PortKind::Dpdk { devargs: "net_null0".to_owned(), queues: 2 }),
        PortConfig::new("v", PortKind::VhostUser(vhost)),
        PortConfig::new("t", PortKind::Tap { interface: "t0".to_owned(), queues: 3 }),
        PortConfig::new("a", PortKind::AfPacket { interface: "a0".to_owned() }),
        PortConfig::new(
            "p",
            PortKind::Pcap { rx_file: Some("r".into()), tx_file: Some("t".into()), infinite_rx: true },
        ),
        PortConfig::new("i", PortKind::Internal { queues: 2 }),
    ];
    (expected[0].number, expected[0].mac, expected[0].mtu) = (Some(9), Some(Mac([2, 0, 0, 0, 0, 1])), 9000);
    expected[0].mtu_follows = false;
    (expected[1].admin_up, expected[1].no_flood) = (false, true);
    (expected[1].no_receive, expected[1].no_forward) = (true, true);
    expected[1].underlay = Some(true);
    expected[2].strict = true;
    expected[2].external_ids.insert("a".to_owned(), "b".to_owned());
    assert_eq!(ports[..], expected);
}

#[test]
fn numbers_are_good_up_to_their_limits_and_no_further() {
    let port = "[[bridge]]\nname = 'b'\n[[bridge.port]]\nname = 'p'\ntype = 'dpdk'\ndevargs = 'net_null0'\n";
    let bridge = "[[bridge]]\nname = 'b'\n";
    for (start, key, low, high) in [
        ("[dpdk]\n", "main_core", 0, 1023),
        ("[dpdk]\n", "memory_mb", 64, 1 << 20),
        ("[dpdk]\nmemory_mb = 1048576\n", "mbufs", 1024, 1 << 26),
        ("[worker]\n", "idle_sleep_us", 0, 10_000),
        ("[worker]\n", "call_delay_us", 0, 1000),
        ("[slow_path]\n", "misses", 0, 10_000_000),
        ("[slow_path]\n", "packet_ins", 0, 10_000_000),
        ("[slow_path]\n", "learns", 0, 10_000_000),
        ("[slow_path]\n", "waiting", 0, 64),
        ("[conntrack]\n", "connections", 1024, 1 << 24),
        ("[conntrack]\n", "default_limit", 0, u32::MAX.into()),
        ("[[conntrack.zone]]\n", "zone", 0, 65_535),
        ("[[conntrack.zone]]\nzone = 1\n", "limit", 0, u32::MAX.into()),
        (bridge, "fdb_entries", 1, limits::FDB_ENTRIES_MAX.into()),
        (bridge, "fdb_ageing_s", 1, 86_400),
        (port, "number", 1, limits::PORT_NUMBER_MAX.into()),
        (port, "mtu", limits::MTU_MIN.into(), i64::from(limits::MTU_MAX)),
        (port, "queues", 1, limits::QUEUES_MAX.into()),
    ] {
        for value in [low, low + 1, high - 1, high] {
            for text in [format!("{start}{key} = {value}"), format!("{start}{key} = 0x{value:x}")] {
                let lines = report(&text);
                let is_accepted = lines.is_empty() || (key == "mbufs" && lines[0].contains("buffers take"));
                assert!(is_accepted, "{text}\n{lines:?}");
            }
        }
        let line = start.lines().count() + 1;
        for value in [low - 1, high + 1, i64::MIN, i64::MAX] {
            let expected = format!("f:{line}:{}: {key}: {value} is out of range; use {low} to {high}", key.len() + 4);
            assert_eq!(report(&format!("{start}{key} = {value}")), [expected]);
        }
    }
}

#[test]
fn names_are_good_up_to_their_limit() {
    let bridge = |name: &str| format!("[[bridge]]\nname = '{name}'");
    assert_eq!(good(&bridge("a.b_c-D")).bridges[0].0.name, "a.b_c-D");
    assert_eq!(report(&bridge(&"x".repeat(limits::NAME_MAX))), Vec::<String>::new());
    for bad in ["", ".", "..", "a/b", "ü", "a b", &"x".repeat(limits::NAME_MAX + 1)] {
        let lines = report(&bridge(bad));
        assert_eq!(lines.len(), 1, "{bad:?}: {lines:?}");
        assert!(lines[0].starts_with("f:2:8: name: "), "{lines:?}");
    }
}

#[test]
fn counts_are_good_up_to_their_limits() {
    let ports = |count: usize| -> String {
        let port = |i| format!("[[bridge.port]]\nname = 'p{i}'\ntype = 'internal'\n");
        "[[bridge]]\nname = 'b'\n".to_owned() + &(0..count).map(port).collect::<String>()
    };
    assert_eq!(good(&ports(limits::PORTS_MAX)).bridges[0].1.len(), limits::PORTS_MAX);
    let line = 2 + 3 * limits::PORTS_MAX + 1;
    let expected = format!(
        "f:{line}:1: port: the limit of 1024 ports is reached; use fewer ports; this and the following are ignored"
    );
    assert_eq!(report(&ports(limits::PORTS_MAX + 2)), [expected]);
    let bridges = |count: usize| -> String { (0..count).map(|i| format!("[[bridge]]\nname = 'b{i}'\n")).collect() };
    assert_eq!(good(&bridges(limits::BRIDGES_MAX)).bridges.len(), limits::BRIDGES_MAX);
    assert_eq!(
        report(&bridges(limits::BRIDGES_MAX + 2)),
        ["f:129:1: bridge: the limit of 64 bridges is reached; use fewer bridges; this and the following are ignored"]
    );
    let cores = |count: usize| {
        let cores: Vec<_> = (0..count).map(|core| core.to_string()).collect();
        format!("[dpdk]\nworker_cores = [{}]", cores.join(","))
    };
    assert_eq!(good(&cores(limits::WORKERS_MAX)).dpdk.worker_cores.len(), limits::WORKERS_MAX);
    for count in [0, limits::WORKERS_MAX + 1] {
        let expected =
            format!("f:2:16: worker_cores: names {count} cores; name 1 to 64 cores, or leave worker_cores out");
        assert_eq!(report(&cores(count)), [expected]);
    }
}

#[test]
fn parse_uses_the_cores_of_this_machine() {
    let config = parse("", Path::new("f")).expect("an empty file is good");
    assert_eq!(config, SwitchConfig::with_defaults(&vswitch_dpdk::lcore::available_cores()));
    let errors = parse("x = 1", Path::new("f")).expect_err("an unknown key");
    assert_eq!(
        errors.to_string(),
        "f:1:1: x: unknown key; the file has the keys: dpdk, worker, conntrack, antrea, slow_path, control, paths, process, debug, observe, bridge, route"
    );
}

#[test]
fn rates_of_the_slow_path() {
    use vswitch_dataplane::meter::Rates;
    let rates = good("[slow_path]\nmisses = 1\npacket_ins = 0\nlearns = 3\nwaiting = 4\n").slow_path;
    assert_eq!(rates, Rates { misses: 1, packet_ins: 0, learns: 3, waiting: 4 });
    assert_eq!(good("[slow_path]\nlearns = 0\n").slow_path, Rates { learns: 0, ..Rates::default() });
    assert_eq!(
        report("[slow_path]\nmiss = 1"),
        [
            "f:2:1: miss: unknown key; did you mean misses? [slow_path] has the keys: misses, packet_ins, learns, waiting"
        ]
    );
}

#[test]
fn connections_and_their_zones() {
    use crate::{ConntrackConfig, ZoneConfig};
    use vswitch_conntrack::{Class, Policy};
    let config = good(
        "[conntrack]\nconnections = 4096\ntcp_seq_check = false\nport_shares = false\ndefault_limit = 100\nstate_file = '/var/lib/x'\n\
         [[conntrack.zone]]\nzone = 65535\nlimit = 0\nestablished_after_answer = true\n\
         [[conntrack.zone]]\nzone = 0\ntimeouts = { icmp_first = 5, tcp_established = 3600 }\n",
    );
    let mut policy = Policy::default();
    policy.set(Class::IcmpFirst, 5000);
    policy.set(Class::TcpEstablished, 3_600_000);
    let zones = vec![
        ZoneConfig { zone: 65535, limit: Some(0), timeouts: None, established_after_answer: true },
        ZoneConfig { zone: 0, limit: None, timeouts: Some(policy), established_after_answer: false },
    ];
    let state_file = Some("/var/lib/x".into());
    let want = ConntrackConfig {
        connections: 4096,
        tcp_seq_check: false,
        port_shares: false,
        default_limit: Some(100),
        zones,
        state_file,
    };
    assert_eq!(config.conntrack, want);
    assert_eq!(good("conntrack = {}").conntrack, ConntrackConfig::default());
    assert_eq!(good("").antrea.state_dir, None);
    assert_eq!(good("[antrea]\nstate_dir = '/var/lib/y'").antrea.state_dir, Some("/var/lib/y".into()));
    let warned = "conntrack.zone = [{ zone = 1, timeouts = { tcp_unack = 5 } }]";
    assert_eq!(good(warned).conntrack.zones[0].timeouts, Some(Policy::default()));
    let line =
        "f:1:44: warning: tcp_unack: has no effect: only the tracker of the kernel has such a state; leave it out";
    assert_eq!(report(warned), [line]);
}

#[test]
fn capabilities_are_named_as_linux_names_them() {
    let kept = |text: &str| good(&format!("[process]\n{text}\n")).process.keep_capabilities;
    let default = ["dac_override", "net_admin", "net_raw", "ipc_lock", "sys_admin"];
    assert_eq!(kept("").names(), default);
    assert_eq!(kept("keep_capabilities = []").names(), [""; 0]);
    assert_eq!(kept("keep_capabilities = ['net_raw', 'net_admin']").names(), ["net_admin", "net_raw"]);
    assert_eq!(kept("keep_capabilities = ['all']"), vswitch_dpdk::capabilities::Capabilities::ALL);
}

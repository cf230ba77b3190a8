//! Files that are refused: the whole report of each.

use super::expect;

#[test]
fn unknown_keys() {
    expect(
        "bridges = 1\n[dpdk]\nmemory-mb = 5\n[worker]\n\"\" = 1\n[control]\nport = 1\n[[bridge]]\nname = \"b\"\nfail-mode = 1\n",
        &[
            "f:1:1: bridges: unknown key; did you mean bridge? the file has the keys: dpdk, worker, conntrack, antrea, slow_path, control, paths, process, debug, observe, bridge, route",
            "f:3:1: memory-mb: unknown key; did you mean memory_mb? [dpdk] has the keys: worker_cores, main_core, memory_mb, \
             mbufs, hugepages, file_prefix, pci, args, allow_drivers",
            "f:5:1: \"\": unknown key; [worker] has the keys: idle_sleep_us, call_delay_us",
            "f:7:1: port: unknown key; [control] has the keys: socket, persist, audit_file, listener",
            "f:10:1: fail-mode: unknown key; did you mean fail_mode? [[bridge]] has the keys: name, fail_mode, fdb_entries, \
             fdb_ageing_s, strict, port, tables, tlv_map, static_macs, flows, groups, meters",
        ],
    );
}

#[test]
fn wrong_types() {
    expect(
        "worker = 1\ncontrol = []\n[dpdk]\nworker_cores = 1\nmain_core = 1.0\nmemory_mb = nan\nmbufs = '1'\nhugepages = 'yes'\n\
         file_prefix = 2024-01-01\npci = {}\nargs = [[]]\n",
        &[
            "f:1:10: worker: is an integer, must be a table; write [worker] and its keys below",
            "f:2:11: control: is an array, must be a table; write [control] and its keys below",
            "f:4:16: worker_cores: is an integer, must be an array of core numbers; write worker_cores = [1]",
            "f:5:13: main_core: is a float, must be an integer from 0 to 1023; write main_core = 0",
            "f:6:13: memory_mb: is a float, must be an integer from 64 to 1048576; write memory_mb = 64",
            "f:7:9: mbufs: is a string, must be an integer from 1024 to 67108864; write mbufs = 1024",
            "f:8:13: hugepages: is a string, must be true or false; write hugepages = true",
            "f:9:15: file_prefix: is a date or time, must be a string; write file_prefix = \"vswitch\"",
            "f:10:7: pci: is a table, must be true or false; write pci = true",
            "f:11:9: args: contains an array, must be an array of strings; write args = [\"--log-level=debug\"]",
        ],
    );
    expect(
        "bridge = [1, { name = 'b', port = 'p' }]\n",
        &[
            "f:1:11: bridge: is an integer, must be an array of tables; write [[bridge]] before the keys of each",
            "f:1:35: port: is a string, must be an array of tables; write [[bridge.port]] before the keys of each",
        ],
    );
    expect(
        "[bridge]\nname = 'b'\n[bridge.port]\nname = 'p'\ntype = 'internal'\nmtu = 'x'\n",
        &[
            "f:1:1: bridge: is a table, must be an array of tables; write [[bridge]] before the keys of each",
            "f:3:1: port: is a table, must be an array of tables; write [[bridge.port]] before the keys of each",
            "f:6:7: mtu: is a string, must be an integer from 68 to 9702; write mtu = 68",
        ],
    );
}

#[test]
fn values_out_of_their_domain() {
    expect(
        "[dpdk]\nworker_cores = [1, 2, 1, -1]\nmain_core = 1024\nmbufs = 1_000_000\nfile_prefix = '../etc'\nargs = ['', \"a\\u0000\"]\n",
        &[
            "f:2:26: worker_cores: -1 is out of range; use 0 to 1023",
            "f:3:13: main_core: 1024 is out of range; use 0 to 1023",
            "f:4:9: mbufs: 1000000 buffers take 2320 MiB, memory_mb is 512; use fewer buffers or memory_mb = 2900",
            "f:5:15: file_prefix: \"../etc\" cannot be part of a file name; use 1 to 32 of A-Z a-z 0-9 . _ -",
            "f:6:9: args: contains a string that is empty or has a NUL character; write args = [\"--log-level=debug\"]",
            "f:6:13: args: contains a string that is empty or has a NUL character; write args = [\"--log-level=debug\"]",
        ],
    );
    expect(
        "[dpdk]\nworker_cores = [\n  1,\n  2,\n  1,\n]\n",
        &["f:5:3: worker_cores: core 1 is named twice, first at f:3:3; name each core once: a core runs one worker"],
    );
    let long = format!("[control]\nsocket = '/{}'", "x".repeat(107));
    let problem = format!("\"/{}\" is no socket path", "x".repeat(107));
    expect(&long, &[&format!("f:2:10: socket: {problem}; use an absolute path of at most 107 bytes")]);
    for path in ["", "vswitch.sock", "/"] {
        let expected = format!("f:2:10: socket: {path:?} is no socket path; use an absolute path of at most 107 bytes");
        expect(&format!("[control]\nsocket = '{path}'"), &[&expected]);
    }
}

#[test]
fn missing_keys_and_unknown_words() {
    expect(
        "[[bridge]]\nfail_mode = 'Secure'\n[[bridge.port]]\n[[bridge.port]]\nname = 'd'\ntype = 'dpkd'\ndevargs = 'x'\nfoo = 1\n",
        &[
            "f:1:1: name: missing; every bridge needs one: name = \"br0\"",
            "f:2:13: fail_mode: \"Secure\" is not known; did you mean secure? use one of: secure, standalone",
            "f:3:1: name: missing; every port needs one: name = \"p0\"",
            "f:3:1: type: missing; every port needs one of: dpdk, vhost-user, tap, af_packet, pcap, patch, internal, dummy, \
             geneve, vxlan, gre",
            "f:6:8: type: \"dpkd\" is not known; did you mean dpdk? use one of: dpdk, vhost-user, tap, af_packet, pcap, patch, \
             internal, dummy, geneve, vxlan, gre",
            "f:8:1: foo: unknown key; [[bridge.port]] has the keys: name, number, type, mac, mtu, admin_up, no_flood, \
             no_receive, no_forward, strict, underlay, external_ids, addresses, rxq_affinity, devargs, queues, path, mode, csum, tso, mergeable, indirect, packed, interface, rx_file, tx_file, \
             infinite_rx, peer, options",
        ],
    );
    let types = [
        ("dpdk", "devargs = \"0000:3b:00.0\""),
        ("vhost-user", "path = \"/run/vswitch/p0.sock\""),
        ("tap", "interface = \"tap0\""),
        ("af_packet", "interface = \"eth0\""),
        ("patch", "peer = \"patch1\""),
    ];
    for (kind, example) in types {
        let key = example.split(' ').next().expect("a key");
        let expected = format!("f:3:1: {key}: missing; a port of type {kind} needs it: {example}");
        expect(&format!("[[bridge]]\nname='b'\n[[bridge.port]]\nname='p'\ntype='{kind}'"), &[&expected]);
    }
}

#[test]
fn keys_of_another_type() {
    expect(
        "[[bridge]]\nname = 'b'\n[[bridge.port]]\nname = 't'\ntype = 'af_packet'\ninterface = 't0'\nqueues = 2\n\
         [[bridge.port]]\nname = 'i'\ntype = 'internal'\npeer = 't'\n\
         [[bridge.port]]\nname = 'd'\ntype = 'dpdk'\ninterface = 'eth0'\n",
        &[
            "f:7:1: queues: is a key of type dpdk or vhost-user or tap or internal, not of type af_packet; type af_packet has the keys: interface",
            "f:11:1: peer: is a key of type patch, not of type internal; type internal has the keys: queues",
            "f:12:1: devargs: missing; a port of type dpdk needs it: devargs = \"0000:3b:00.0\"",
            "f:15:1: interface: is a key of type tap or af_packet, not of type dpdk; type dpdk has the keys: devargs, queues",
        ],
    );
}

#[test]
fn values_of_ports() {
    expect(
        "[[bridge]]\nname = 'b'\n[[bridge.port]]\nname = 'a b'\ntype = 'vhost-user'\npath = 'x.sock'\ncsum = false\nmac = '1:2'\n\
         external_ids = { a = 1, '' = 'x' }\n\
         [[bridge.port]]\nname = 'p'\ntype = 'pcap'\ninfinite_rx = true\ntx_file = 'a,b'\nmac = 'ff:ff:ff:ff:ff:ff'\n\
         [[bridge.port]]\nname = 'd'\ntype = 'dpdk'\ndevargs = 'net_null0 -x'\nadmin_up = 1\n",
        &[
            "f:4:8: name: \"a b\" is not a name; use 1 to 15 characters of A-Z a-z 0-9 . _ -",
            "f:6:8: path: \"x.sock\" is no socket path; use an absolute path of at most 106 bytes",
            "f:7:8: tso: TSO without checksum offload; set csum = true or tso = false (virtio 1.1, 5.1.3.1)",
            "f:8:7: mac: \"1:2\" is no Ethernet address; write it like \"02:00:00:00:00:01\"",
            "f:9:22: external_ids: \"a\" is an integer, must be a string; put the value in double quotes",
            "f:13:15: infinite_rx: infinite_rx without rx_file; give rx_file",
            "f:14:11: tx_file: \"a,b\" has a comma; rename the file: devargs are split at commas",
            "f:15:7: mac: ff:ff:ff:ff:ff:ff is not a host's address; use a unicast address, such as 02:00:00:00:00:01",
            "f:19:11: devargs: \"net_null0 -x\" is no device; use a PCI address or devargs like net_null0",
            "f:20:12: admin_up: is an integer, must be true or false; write admin_up = true",
        ],
    );
}

#[test]
fn names_and_numbers_used_twice() {
    expect(
        "[[bridge]]\nname = 'b'\n[[bridge.port]]\nname = 'p'\ntype = 'internal'\nnumber = 5\n\
         [[bridge.port]]\nname = 'b'\ntype = 'internal'\nnumber = 6\n\
         [[bridge.port]]\nname = 'q'\ntype = 'internal'\nnumber = 5\n\
         [[bridge]]\nname = 'b'\n[[bridge.port]]\nname = 'p'\ntype = 'tap'\ninterface = 't'\nnumber = 5\n\
         [[bridge.port]]\nname = 'p'\n",
        &[
            "f:10:10: number: an internal port named like its bridge is LOCAL, its number is fixed; remove the number, or rename \
             the port",
            "f:14:10: number: 5 is taken, first at f:6:10; numbers are unique in a bridge: use another or none",
            "f:16:8: name: bridge \"b\" exists already, first at f:2:8; bridge names are unique in the switch: use another",
            "f:18:8: name: port \"p\" exists already, first at f:4:8; port names are unique in the switch: use another",
            "f:22:1: type: missing; every port needs one of: dpdk, vhost-user, tap, af_packet, pcap, patch, internal, dummy, \
             geneve, vxlan, gre",
            "f:23:8: name: port \"p\" exists already, first at f:4:8; port names are unique in the switch: use another",
        ],
    );
}

#[test]
fn devices_used_twice() {
    let port = |name: &str, rest: &str| format!("{{ name = '{name}', type = {rest} }},\n");
    let ports = [
        port("a", "'dpdk', devargs = '3B:00.0'"),
        port("b", "'dpdk', devargs = '0000:3b:00.0,x=1'"),
        port("c", "'dpdk', devargs = 'net_null0'"),
        port("d", "'dpdk', devargs = 'net_null0,size=64'"),
        port("e", "'tap', interface = 'x'"),
        port("f", "'af_packet', interface = 'x'"),
        port("x", "'internal'"),
        port("g", "'vhost-user', path = '/s'"),
        port("h", "'vhost-user', path = '/s', mode = 'server'"),
        port("i", "'pcap', rx_file = 'r'"),
        port("j", "'pcap', rx_file = 'r', tx_file = 'w'"),
        port("k", "'pcap', tx_file = 'w'"),
        port("l", "'pcap', tx_file = 'r'"),
        port("m", "'pcap', rx_file = 'w'"),
        port("n", "'dpdk', devargs = 'net_af_xdp0,iface=x'"),
    ];
    let text = format!("[[bridge]]\nname = 'b'\nport = [\n{}]\n", ports.concat());
    expect(
        &text,
        &[
            "f:5:40: devargs: device \"0000:3b:00.0\" is used by two ports or ways, first at f:4:40; give each port its own",
            "f:7:40: devargs: device \"net_null0\" is used by two ports or ways, first at f:6:40; give each port its own",
            "f:9:47: interface: interface \"x\" is used by two ports or ways, first at f:8:41; give each port its own",
            "f:10:10: name: interface \"x\" is used by two ports or ways, first at f:8:41; give each port its own",
            "f:12:43: path: socket \"/s\" is used by two ports or ways, first at f:11:43; give each port its own",
            "f:15:40: tx_file: file \"w\" is used by two ports or ways, first at f:14:55; give each port its own",
            "f:16:40: tx_file: file \"r\" is used by two ports or ways, first at f:13:40; give each port its own",
            "f:17:40: rx_file: file \"w\" is used by two ports or ways, first at f:14:55; give each port its own",
            "f:18:40: devargs: interface \"x\" is used by two ports or ways, first at f:8:41; give each port its own",
        ],
    );
    expect(
        "[control]\nsocket = '/s'\n[[bridge]]\nname = 'b'\nport = [{ name = 'v', type = 'vhost-user', path = '/s' }]\n",
        &["f:5:51: path: socket \"/s\" is used by two ports or ways, first at f:2:10; give each port its own"],
    );
}

#[test]
fn wires_without_another_end() {
    let ports = [("a1", "a2"), ("a2", "a1"), ("b1", "b2"), ("b2", "a1"), ("self", "self"), ("c1", "c3"), ("d", "tap")]
        .map(|(name, peer)| format!("{{ name = '{name}', type = 'patch', peer = '{peer}' }},\n"));
    let text = format!(
        "[[bridge]]\nname = 'b'\nport = [\n{}{{ name = 'tap', type = 'tap', interface = 't' }},\n\
         {{ name = 'e1', type = 'patch', peer = 'e2' }}, {{ name = 'e2', type = 'patch' }},\n]\n",
        ports.concat()
    );
    expect(
        &text,
        &[
            "f:6:39: peer: port \"b2\" points to \"a1\", not back (at f:7:39); give port b2 peer = \"b1\", or name another",
            "f:7:39: peer: port \"a1\" points to \"a2\", not back (at f:4:39); give port a1 peer = \"b2\", or name another",
            "f:8:41: peer: a patch port cannot be its own peer; name the port at the other end",
            "f:9:39: peer: there is no port named \"c3\"; add a port named c3 of type patch with peer = \"c1\"",
            "f:10:38: peer: port \"tap\" is of type tap; name another port of type patch",
            "f:12:47: peer: missing; a port of type patch needs it: peer = \"patch1\"",
        ],
    );
    expect(
        "[[bridge]]\nname='b'\nport=[{name='left-1',type='patch',peer='rihgt-1'},{name='right-1',type='patch',peer='left-1'}]",
        &[
            "f:3:40: peer: there is no port named \"rihgt-1\"; did you mean right-1? add a port named rihgt-1 of type patch with \
             peer = \"left-1\"",
            "f:3:85: peer: port \"left-1\" points to \"rihgt-1\", not back (at f:3:40); give port left-1 peer = \"right-1\", or \
             name another",
        ],
    );
}

#[test]
fn zones_of_connections() {
    expect(
        "[conntrack]\nconnection = 1\n[[conntrack.zone]]\nlimit = 1\n[[conntrack.zone]]\nzone = 1\ntimeouts = 5\n\
         [[conntrack.zone]]\nzone = 1\n[[conntrack.zone]]\nzone = 2\ntimeouts = { udp = 1, udp_first = 0 }\n",
        &[
            "f:2:1: connection: unknown key; did you mean connections? [conntrack] has the keys: connections, tcp_seq_check, \
             port_shares, default_limit, state_file, zone",
            "f:3:1: zone: missing; every zone needs its number: zone = 1",
            "f:7:12: timeouts: is an integer, must be a table of seconds; write timeouts = { udp_first = 60 }",
            "f:9:8: zone: zone 1 exists already, first at f:6:8; give a zone once",
            "f:12:14: udp: unknown key; timeouts has the keys: tcp_syn_sent, tcp_syn_recv, tcp_established, tcp_fin_wait, \
             tcp_time_wait, tcp_close, udp_first, udp_single, udp_multiple, icmp_first, icmp_reply, other_first, other_single, \
             other_multiple",
            "f:12:35: udp_first: 0 is out of range; use 1 to 4294967295",
        ],
    );
    expect(
        "conntrack = { zone = 1 }",
        &["f:1:22: zone: is an integer, must be an array of tables; write [[conntrack.zone]] before the keys of each"],
    );
}

#[test]
fn capabilities_that_linux_does_not_have() {
    let fix = "name them as net_admin, or write [\"all\"]";
    expect(
        "[process]\nkeep_capabilities = ['CAP_NET_ADMIN']\n",
        &[&format!("f:2:21: keep_capabilities: \"CAP_NET_ADMIN\" is no capability of Linux; {fix}")],
    );
    expect(
        "[process]\nkeep_capabilities = ['all', 'bpf']\n",
        &[&format!("f:2:21: keep_capabilities: \"all\" is no capability of Linux; {fix}")],
    );
}

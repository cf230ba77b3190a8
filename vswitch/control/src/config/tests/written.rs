//! What is written is what was read: the text of values, and programs of bridges.

use super::super::write::quote;
use super::{EXAMPLE, good, report};
use crate::FailMode;
use proptest::prelude::*;

/// A port of each kind that a file may have, and a bridge with a program.
const ALL: &str = r#"
[conntrack]
tcp_seq_check = false
default_limit = 0
[[conntrack.zone]]
zone = 7
limit = 9
established_after_answer = true
timeouts = { udp_first = 33, tcp_established = 7200 }
[antrea]
state_dir = "/var/lib/vswitch/antrea"
[control]
persist = "/var/lib/vswitch/runtime.toml"
audit_file = "/var/log/vswitch/audit.log"
[[control.listener]]
path = "/run/vswitch/monitor.sock"
mode = 0o600
owner = "7"
group = "monitor"
role = "operate"
users = { alice = "operate", "1001" = "read" }
groups = { monitor = "read" }
[[control.listener]]
address = "[2001:db8::1]:7471"
role = "admin"
tls = { cert = "/etc/vswitch/tls.crt", key = "/etc/vswitch/tls.key", client_ca = "/etc/ca.crt" }
sans = { "controller.example" = "admin", "*.monitor.example" = "read", "spiffe://a/b" = "read", "a@b.c" = "operate" }
[[control.listener]]
path = "/run/vswitch/read.sock"
[observe]
metrics = "unix:/run/vswitch/metrics.sock"
compat = ["antrea", "ovs"]
rule_metrics = true
ring = 65536
ring_connections = true
[process]
keep_capabilities = ["all"]
[[bridge]]
name = "br0"
fail_mode = "standalone"
strict = true
tables = { 0 = "first", 253 = "last-1" }
tlv_map = ["{class=0x102,type=0x80,len=4}->tun_metadata0"]
static_macs = [{ port = "p1", mac = "02:00:00:00:00:09", vlan = 4095 }, { port = "p2", mac = "02:00:00:00:00:0a" }]
meters = ["meter=1 pktps bands=type=drop rate=100"]
groups = ["group_id=1,type=select,bucket=weight:5,output:p1,bucket=output:2"]
flows = [
    "table=first,priority=9,in_port=p1,tcp,tun_metadata0=1 actions=meter:1,resubmit(,last-1)",
    'table=253,cookie=0x7,actions=group:1,output:"p2"',
]
[[bridge.port]]
name = "p1"
type = "vhost-user"
path = "/run/vswitch/\"odd\" 'name'"
mode = "server"
queues = 4
tso = false
csum = false
packed = true
mac = "02:00:00:00:00:01"
mtu = 9000
admin_up = false
no_flood = true
no_receive = true
no_forward = true
strict = true
underlay = true
rxq_affinity = "0:3, 2:1"
external_ids = { "a b" = "c = \"d\" \\", e = "" }
[[bridge.port]]
name = "p2"
type = "af_packet"
interface = "eth0"
number = 2
underlay = false
[[bridge.port]]
name = "br0"
type = "internal"
queues = 3
addresses = ["192.168.1.1/24", "fd00::1/64"]
[[bridge.port]]
name = "p3"
type = "tap"
interface = "t0"
[[bridge.port]]
name = "p4"
type = "pcap"
rx_file = "/x/rx.pcap"
tx_file = "/x/tx.pcap"
infinite_rx = true
[[bridge.port]]
name = "p5"
type = "dpdk"
devargs = "net_null0"
queues = 2
[[bridge.port]]
name = "p6"
type = "patch"
peer = "q6"
[[bridge.port]]
name = "p7"
type = "geneve"
options = { remote_ip = "flow", key = "flow", csum = "true" }
[[bridge.port]]
name = "p8"
type = "gre"
options = { remote_ip = "192.168.1.2", in_key = "8", out_key = "9", seq = "true" }
[[bridge.port]]
name = "p9"
type = "dummy"
[[bridge]]
name = "br1"
[[bridge.port]]
name = "q6"
type = "patch"
peer = "p6"
[[route]]
prefix = "10.0.0.0/8"
port = "br0"
gateway = "192.168.1.254"
source = "192.168.1.1"
"#;

#[test]
fn what_is_written_reads_the_same_and_is_written_the_same() {
    for text in ["", EXAMPLE, ALL] {
        let config = good(text);
        let written = config.to_text(&["a note\nof two lines".to_owned()]);
        let again = good(&written);
        assert_eq!(again, config, "{written}");
        assert_eq!(again.to_text(&["a note\nof two lines".to_owned()]), written);
        assert!(written.starts_with("# a note of two lines\n"), "{written}");
    }
    let config = good(ALL);
    assert_eq!(config.bridges[0].0.fail_mode, FailMode::Standalone);
    let pins: Vec<_> = config.pins.iter().map(|((port, queue), core)| (port.as_str(), *queue, *core)).collect();
    assert_eq!(pins, [("p1", 0, 3), ("p1", 2, 1)]);
    let program = &config.programs["br0"];
    assert_eq!(program.pipeline.as_ref().map(|pipeline| pipeline.flows.len()), Some(2));
    assert_eq!(program.macs.as_ref().map(std::collections::BTreeSet::len), Some(2));
    assert!(!config.programs.contains_key("br1"), "nothing is said of it");
}

#[test]
fn a_wrong_program_is_told_with_its_place() {
    let bridge = "[[bridge]]\nname = \"br0\"\n";
    for (keys, expected) in [
        ("flows = [\"actions=nonsense\"]", "f:3:19: flows: "),
        ("flows = [\n  \"priority=1,actions=drop\",\n  'in_port=nobody,actions=drop',\n]", "f:5:12: flows: "),
        ("flows = [\"actions=group:7\"]", "f:3:10: flows: OFPBAC_BAD_OUT_GROUP: "),
        ("groups = [\"group_id=1,type=all\", \"group_id=1,type=all\"]", "f:3:34: groups: OFPGMFC_GROUP_EXISTS: "),
        ("meters = [\"meter=0,pktps\"]", "f:3:"),
        ("flows = [\"tun_metadata0=1,actions=drop\"]", "f:3:10: flows: "),
        ("flows = [7]", "f:3:10: flows: contains an integer, must be an array of strings; "),
        ("tables = { 254 = \"x\" }", "f:3:12: tables: \"254\" is no table; use 0 to 253"),
        ("tables = { 1 = \"all\" }", "f:3:16: tables: the name of table 1 is none; "),
        ("tables = { 1 = \"x\", 2 = \"x\" }", "f:3:25: tables: \"x\" is table 1; give each table its own name"),
        ("tlv_map = [\"nonsense\"]", "f:3:12: tlv_map: "),
        ("static_macs = [{ port = \"p\" }]", "f:3:16: mac: missing; "),
        ("static_macs = [{ port = \"p\", mac = \"01:00:00:00:00:01\" }]", "f:3:36: mac: 01:00:00:00:00:01 is a group"),
    ] {
        let told = report(&format!("{bridge}{keys}\n"));
        assert!(told.len() == 1 && told[0].starts_with(expected), "{keys}: {told:?}");
    }
    let port = "[[bridge]]\nname = \"br0\"\n[[bridge.port]]\nname = \"p\"\ntype = \"internal\"\n";
    for pins in ["", "0", "0:x", "0:1,0:2", "65536:1", "0:1,"] {
        let told = report(&format!("{port}rxq_affinity = {pins:?}\n"));
        assert!(told.len() == 1 && told[0].starts_with("f:6:16: rxq_affinity: "), "{pins:?}: {told:?}");
    }
}

proptest! {
    /// Any text of a line can be an owner's pair.
    #[test]
    fn texts_are_quoted_so_that_they_read_the_same(key in "[^\\p{Cc}]{1,20}", value in "[^\\p{Cc}]{0,40}") {
        let port = "[[bridge]]\nname = \"b\"\n[[bridge.port]]\nname = \"p\"\ntype = \"internal\"\n";
        let config = good(&format!("{port}external_ids = {{ {} = {} }}\n", quote(&key), quote(&value)));
        let ids = &config.bridges[0].1[0].external_ids;
        prop_assert_eq!(ids.iter().collect::<Vec<_>>(), vec![(&key, &value)]);
        prop_assert_eq!(good(&config.to_text(&[])), config);
    }
}

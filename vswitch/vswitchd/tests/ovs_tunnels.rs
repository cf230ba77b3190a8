//! Tunnels with real traffic: Open vSwitch's own datapath at the other end.
//!
//! A host is behind our switch, and one behind Open vSwitch, which has a network namespace of its
//! own; between them is a veth pair. What the wire carries is captured, and must be clean in
//! tshark's eyes.

use crate::common::{
    Capture, EVERYTHING, Expect, Host, Netns, OpenVswitch, Switch, Veth, Wire, everything, number, receive_errors,
    wait_for,
};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// The addresses of tunnels at Open vSwitch's end.
const THERE: [&str; 2] = ["10.99.0.102", "fd99::102"];

/// A tunnel between the two.
struct Tunnel {
    /// Of both, and the number of our port.
    kind: &'static str,
    number: u32,
    six: bool,
    /// Options of both, beside the remote end.
    options: &'static [(&'static str, &'static str)],
    /// What rules do in front of an output to it, and what they match behind it; ours, theirs.
    out: [&'static str; 2],
    back: [&'static str; 2],
    /// What tshark calls its headers, and what it must find in ours.
    headers: &'static str,
    fields: &'static [(&'static str, &'static str)],
    sum: bool,
}

impl Tunnel {
    /// The remote end as an option; it is in `out` where the flow says it.
    fn remote<'a>(&self, address: &'a str) -> &'a str {
        if self.out[0].contains("->tun_dst") { "flow" } else { address }
    }

    fn config(&self) -> String {
        let remote = self.remote(THERE[usize::from(self.six)]);
        let options = self.options.iter().map(|(key, value)| format!(", {key} = {value:?}")).collect::<String>();
        let Self { kind, number, .. } = self;
        format!(
            "[[bridge.port]]\nname = \"tun{number}\"\nnumber = {number}\ntype = {kind:?}\noptions = {{ remote_ip = {remote:?}{options} }}\n\n"
        )
    }
}

/// Open vSwitch with a host behind it, our switch with a host behind it, and the wire.
struct Scene {
    switch: Switch,
    ovs: OpenVswitch,
    host: Host,
    far: Netns,
    there: Netns,
    vtep: Host,
    _veths: [Veth; 2],
}

impl Scene {
    /// `uplink`: type and further keys of our end of the wire, `@` stands for the interface.
    fn new(uplink: &str, tunnels: &[Tunnel]) -> Self {
        let (host, vtep) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::Internal, 101));
        let (far, there) = (Netns::new("far"), Netns::new("ovs"));
        let (wire, link) = (Veth::new(&there, "wire"), Veth::new(&far, "eth0"));
        // What is sent by raw sockets has its checksums; Open vSwitch expects the same of what it
        // receives by them.
        crate::common::run(&["ethtool", "-K", wire.host(), "tx", "off"]);
        far.run(&["ethtool", "-K", "eth0", "tx", "off"]);
        there.take(link.host());
        let ovs = open_vswitch(&there, link.host(), tunnels, &vtep);
        far.configure("eth0", &["10.99.0.2/24", "fd99::2/64"]);
        let overlay = "[[bridge]]\nname = \"over\"\nfail_mode = \"secure\"\n\n";
        let ports = tunnels.iter().map(Tunnel::config).collect::<String>();
        let uplink = uplink.replace('@', wire.host());
        let underlay = format!(
            "[[bridge]]\nname = \"under\"\nfail_mode = \"standalone\"\n\n[[bridge.port]]\nname = \"up\"\n{uplink}\n\n{}\n\
             addresses = [\"{}/24\", \"{}/64\"]\n\n",
            vtep.config(2).trim_end(),
            vtep.v4,
            vtep.v6
        );
        let switch = Switch::start(&[overlay, &host.config(1), &ports, &underlay].concat());
        host.attach();
        vtep.attach();
        for ns in [&host.ns, &far] {
            ns.run(&["ip", "link", "set", "dev", "eth0", "mtu", "1350"]);
        }
        Self { switch, ovs, host, far, there, vtep, _veths: [wire, link] }
    }

    /// Makes a tunnel the only way between the hosts.
    fn lead_through(&self, tunnel: &Tunnel) {
        let Tunnel { number, out, back, .. } = tunnel;
        // What comes is tracked: established connections take the fast path out of the tunnel.
        let ours = format!(
            "in_port=1,actions={}output:{number}\nin_port={number}{back},arp,actions=output:1\n\
             in_port={number}{back},icmp6,icmp_type=135,actions=output:1\nin_port={number}{back},icmp6,icmp_type=136,actions=output:1\n\
             priority=1,in_port={number}{back},ip,actions=ct(commit,zone=3,table=1)\n\
             priority=1,in_port={number}{back},ipv6,actions=ct(commit,zone=3,table=1)\ntable=1,in_port={number}{back},actions=output:1\n",
            out[0],
            back = back[0],
        );
        self.switch.vsctl_ok(&["del-flows", "over"]);
        let added = self.switch.vsctl_with(&["add-flows", "over", "-"], Some(&ours));
        assert!(added.status.success(), "{added:?}");
        let theirs =
            format!("in_port=1,actions={}output:{number}\nin_port={number}{},actions=output:1\n", out[1], back[1]);
        self.ovs.run("ovs-ofctl", &["del-flows", "br-int"], None).expect("flows are deleted");
        self.ovs.run("ovs-ofctl", &["add-flows", "br-int", "-"], Some(&theirs)).expect("flows are added");
    }

    /// Everything goes through it both ways.
    fn talk(&self, tunnel: &Tunnel) {
        let name = format!("tun{}", tunnel.number);
        self.lead_through(tunnel);
        for ns in [&self.host.ns, &self.far] {
            ns.run(&["ip", "neigh", "flush", "all"]);
        }
        let received = || number(&self.switch.port("over", &self.host.port), "rx_packets");
        let before = received();
        let capture = Capture::start(&self.there, "wire");
        for (ours, theirs) in [(&self.host.v4, "10.99.0.2"), (&self.host.v6, "fd99::2")] {
            self.host.ns.wait_reaches(theirs, SOON, &name);
            everything((&self.host.ns, ours), (&self.far, theirs));
        }
        let from = if tunnel.six { &self.vtep.v6 } else { &self.vtep.v4 };
        let Tunnel { headers, fields, sum, .. } = *tunnel;
        capture.stop(&Expect { tunnel: headers, inside: &EVERYTHING, from, fields, sum });
        for ns in [&self.host.ns, &self.far, &self.there] {
            assert_eq!(receive_errors(ns), [""; 0], "{name}: {} has counted errors", ns.name());
        }
        let port = self.switch.port("over", &name);
        for counter in ["rx_packets", "tx_packets"] {
            assert!(number(&port, counter) > 1000, "{name} has counted too little: {port:#}");
        }
        let (came, went) = (received() - before, number(&port, "tx_packets"));
        assert!(went > came + 100, "{name}: {came} packets of the host became {went}; large ones must become several");
    }
}

/// Its bridge with the wire has the other end's addresses, by its LOCAL port, whose kernel answers
/// ARP requests; the other bridge has a host and the tunnels.
fn open_vswitch(ns: &Netns, host: &str, tunnels: &[Tunnel], vtep: &Host) -> OpenVswitch {
    // The kernel must answer nothing by the devices that Open vSwitch reads.
    ns.run(&["sysctl", "-qw", "net.ipv6.conf.wire.disable_ipv6=1", &format!("net.ipv6.conf.{host}.disable_ipv6=1")]);
    for device in ["wire", host] {
        ns.run(&["ip", "link", "set", "dev", device, "arp", "off"]);
        ns.run(&["ip", "link", "set", "dev", device, "up"]);
    }
    let ovs = OpenVswitch::start(Some(ns), &[]);
    let bridges = "add-br br-phy -- set bridge br-phy datapath_type=netdev fail_mode=standalone other-config:hwaddr=02:00:00:00:00:b0 \
                   -- add-port br-phy wire -- add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure";
    let mut words = format!("{bridges} -- add-port br-int {host} -- set interface {host} ofport_request=1");
    for tunnel in tunnels {
        let Tunnel { kind, number, .. } = tunnel;
        words += &format!(
            " -- add-port br-int tun{number} -- set interface tun{number} type={kind} ofport_request={number}"
        );
        words += &format!(" options:remote_ip={}", tunnel.remote(if tunnel.six { &vtep.v6 } else { &vtep.v4 }));
        words.extend(tunnel.options.iter().map(|(key, value)| format!(" options:{key}={value}")));
    }
    ovs.vsctl(&words.split_whitespace().collect::<Vec<_>>());
    ns.configure("br-phy", &[&format!("{}/24", THERE[0]), &format!("{}/64", THERE[1])]);
    let routes = || ovs.appctl(&["ovs/route/show"]);
    wait_for("Open vSwitch knows its addresses", SOON, || THERE.iter().all(|address| routes().contains(address)));
    ovs
}

/// The uplink leaves no checksum to the kernel: all are ours.
#[test]
fn checksums_of_tunnels_to_open_vswitch_are_ours() {
    let tunnels = [
        Tunnel {
            kind: "geneve",
            number: 11,
            six: true,
            options: &[("key", "7")],
            out: ["", ""],
            back: ["", ""],
            headers: "ipv6:udp:geneve",
            fields: &[("geneve.vni", "0x000007")],
            sum: true,
        },
        Tunnel {
            kind: "vxlan",
            number: 12,
            six: false,
            options: &[("key", "8"), ("csum", "true")],
            out: ["", ""],
            back: [",tun_id=8", ",tun_id=8"],
            headers: "ip:udp:vxlan",
            fields: &[("vxlan.vni", "8")],
            sum: true,
        },
        Tunnel {
            kind: "vxlan",
            number: 14,
            six: true,
            options: &[("key", "10")],
            out: ["", ""],
            back: [",tun_id=10", ",tun_id=10"],
            headers: "ipv6:udp:vxlan",
            fields: &[("vxlan.vni", "10")],
            sum: true,
        },
        Tunnel {
            kind: "gre",
            number: 13,
            six: false,
            options: &[("key", "9"), ("csum", "true")],
            out: ["", ""],
            back: ["", ""],
            headers: "ip:gre",
            fields: &[("gre.key", "0x00000009")],
            sum: true,
        },
    ];
    let scene = Scene::new("type = \"dpdk\"\ndevargs = \"net_af_packet0,iface=@\"", &tunnels);
    tunnels.iter().for_each(|tunnel| scene.talk(tunnel));
}

/// The uplink has a vnet header.
#[test]
fn tunnels_to_open_vswitch_with_options_and_without_checksums() {
    let tunnels = [
        Tunnel {
            kind: "geneve",
            number: 11,
            six: false,
            options: &[("key", "flow")],
            out: [
                "set_field:10.99.0.102->tun_dst,set_field:77->tun_id,set_field:0xa0b0c0d->tun_metadata0,",
                "set_field:10.99.0.101->tun_dst,set_field:78->tun_id,set_field:0x1020304->tun_metadata0,",
            ],
            back: [
                ",tun_id=78,tun_src=10.99.0.102,tun_metadata0=0x1020304",
                ",tun_id=77,tun_src=10.99.0.101,tun_metadata0=0xa0b0c0d",
            ],
            headers: "ip:udp:geneve",
            fields: &[
                ("geneve.vni", "0x00004d"),
                ("geneve.option.class", "0xffff"),
                ("geneve.option.unknown.data", "0a0b0c0d"),
            ],
            sum: false,
        },
        Tunnel {
            kind: "vxlan",
            number: 12,
            six: false,
            options: &[("key", "8")],
            out: ["", ""],
            back: ["", ""],
            headers: "ip:udp:vxlan",
            fields: &[("vxlan.vni", "8")],
            sum: false,
        },
        Tunnel {
            kind: "gre",
            number: 13,
            six: true,
            options: &[("key", "9")],
            out: ["", ""],
            back: ["", ""],
            headers: "ipv6:gre",
            fields: &[("gre.key", "0x00000009")],
            sum: false,
        },
    ];
    let scene = Scene::new("type = \"af_packet\"\ninterface = \"@\"", &tunnels);
    let option = "{class=0xffff,type=0x80,len=4}->tun_metadata0";
    scene.switch.vsctl_ok(&["add-tlv-map", "over", option]);
    scene.ovs.run("ovs-ofctl", &["add-tlv-map", "br-int", option], None).expect("an option has a name");
    tunnels.iter().for_each(|tunnel| scene.talk(tunnel));
}

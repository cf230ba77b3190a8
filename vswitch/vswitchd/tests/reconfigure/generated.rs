//! Configurations by chance: the same for each run.

/// A generator of choices.
struct Choices(u64);

impl Choices {
    fn of(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn flag(&mut self) -> bool {
        self.of(2) == 0
    }
}

/// Bridges with ports of all kinds that need nothing from outside, and programs.
pub(super) fn generated(seed: u64, dir: &str) -> String {
    let mut choose = Choices(seed);
    let mut text = String::new();
    for zone in 0..choose.of(3) {
        text += &format!("[[conntrack.zone]]\nzone = {zone}\nlimit = {}\n", choose.of(1000));
        if choose.flag() {
            text += &format!("timeouts = {{ udp_first = {} }}\n", 1 + choose.of(100));
        }
    }
    for bridge in 0..=choose.of(2) {
        let mode = if choose.flag() { "standalone" } else { "secure" };
        text += &format!("[[bridge]]\nname = \"br{bridge}\"\nfail_mode = \"{mode}\"\nstrict = {}\n", choose.flag());
        // The second is an interface, whose name no other test has.
        let port = |n: u64| match n {
            1 => format!("vtr{}-{bridge}", std::process::id() % 100_000),
            n => format!("p{bridge}-{n}"),
        };
        if choose.flag() {
            text += &format!("tables = {{ {} = \"In\", 9 = \"Out\" }}\n", choose.of(9));
            text += "tlv_map = [\"{class=0x102,type=0x80,len=4}->tun_metadata0\"]\n";
            text +=
                &format!("static_macs = [{{ port = \"{}\", mac = \"02:00:00:00:00:0{}\" }}]\n", port(0), choose.of(9));
            text +=
                &format!("meters = [\"meter=1 kbps burst bands=type=drop rate={} burst_size=7\"]\n", 1 + choose.of(99));
            text += &format!(
                "groups = [\"group_id={},type=select,bucket=actions=output:{}\"]\n",
                1 + choose.of(2),
                port(1)
            );
            text += &format!(
                "flows = [\"table=Out,priority={},in_port={},actions=meter:1,output:{}\", \"cookie=0x{:x},actions=drop\"]\n",
                choose.of(65_536),
                port(0),
                port(1),
                choose.of(1 << 20)
            );
        }
        let kinds = [
            "type = \"dummy\"".to_owned(),
            format!("type = \"internal\"\nqueues = 2\naddresses = [\"10.213.{bridge}.1/24\"]"),
            format!("type = \"vhost-user\"\npath = \"{dir}/v{bridge}.sock\"\nmode = \"server\""),
            format!("type = \"pcap\"\ntx_file = \"{dir}/out{bridge}.pcap\""),
            format!("type = \"dpdk\"\ndevargs = \"net_null{bridge}\""),
            format!("type = \"vxlan\"\noptions = {{ remote_ip = \"10.213.0.9\", key = \"{}\" }}", bridge + 1),
            "type = \"dummy\"".to_owned(),
        ];
        for (n, kind) in (0..).zip(&kinds) {
            // The first two are named by flows.
            if n > 1 && choose.of(4) == 0 {
                continue;
            }
            text += &format!("[[bridge.port]]\nname = \"{}\"\n{kind}\n", port(n));
            if choose.flag() {
                text += &format!("number = {}\n", 100 + n);
            }
            if kind.contains("dummy") && choose.flag() {
                text += &format!(
                    "mtu = {}\nno_flood = {}\nadmin_up = {}\n",
                    1400 + choose.of(100),
                    choose.flag(),
                    choose.flag()
                );
            }
            if choose.flag() {
                text += "external_ids = { owner = \"a \\\"b\\\"\", x = '' }\n";
            }
            if choose.flag() {
                text += &format!("no_receive = {}\n", choose.flag());
            }
        }
    }
    text
}

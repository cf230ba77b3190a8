//! Applications in containers, as docs/pods.md says to attach them: virtio-user and memif, with a
//! directory of the node mounted into each. A container is what makes one: namespaces of its own
//! for processes, mounts and the network.

use crate::common::{Host, Switch, Testpmd, Wire, number, wait_for};
use std::path::PathBuf;
use std::time::Duration;

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";

/// What a container adds to DPDK's arguments: the lines of docs/pods.md.
const VIRTIO_USER: &str = "net_virtio_user0,path=/run/pod/net.sock,server=1,queues=1,mrg_rxbuf=1,packed_vq=0";
const MEMIF: &str = "net_memif0,role=client,id=0,socket=/run/pod/memif.sock,socket-abstract=no";

/// EAL, on a machine that may compile beside it; then somebody connects once a second.
const SOON: Duration = Duration::from_secs(60);

/// A switch with a host and two containers' ports, and the containers' directories.
struct Node {
    host: Host,
    switch: Switch,
    _home: tempfile::TempDir,
    pods: [PathBuf; 2],
}

/// Ports `web` and `db`, of the kinds that these lines say.
fn node(ports: [&str; 2]) -> Node {
    let home = tempfile::Builder::new().prefix("vswitch-pods-").tempdir().expect("a temporary directory");
    let pods = ["web", "db"].map(|name| home.path().join(name));
    let host = Host::new(Wire::AfPacket, 1);
    let mut config = [BRIDGE, &host.config(1)].concat();
    for ((name, directory), line) in ["web", "db"].iter().zip(&pods).zip(ports) {
        std::fs::create_dir(directory).expect("a new directory");
        let line = line.replace("@POD@", &directory.to_string_lossy());
        config += &format!("[[bridge.port]]\nname = {name:?}\n{line}\n\n");
    }
    let switch = Switch::start(&config);
    host.attach();
    Node { host, switch, _home: home, pods }
}

const VHOST_USER_PORT: &str = "type = \"vhost-user\"\npath = \"@POD@/net.sock\"\nmode = \"client\"";
const MEMIF_PORT: &str =
    "type = \"dpdk\"\ndevargs = \"net_memif0,role=server,id=0,socket=@POD@/memif.sock,socket-abstract=no\"";

impl Node {
    fn container(&self, pod: usize, device: &str) -> Testpmd {
        Testpmd::in_container(&self.pods[pod], device)
    }

    fn is_up(&self, name: &str) -> bool {
        self.switch.port("br0", name)["link_up"] == true
    }

    fn counts(&self, name: &str) -> [u64; 2] {
        let port = self.switch.port("br0", name);
        [number(&port, "rx_packets"), number(&port, "tx_packets")]
    }

    /// Packets go from one container to the other and back, again and again; then both ends of each
    /// port have counted the same.
    fn bounces(&self, [web, db]: [&mut Testpmd; 2], why: &str) {
        wait_for(&format!("{why}: both are connected"), SOON, || self.is_up("web") && self.is_up("db"));
        let before = [self.counts("web"), self.counts("db")];
        let counted = [web.counted(), db.counted()];
        web.say("start");
        // 32 packets for an address that nobody has, the first time; then for the one that sent
        // them.
        db.say("start tx_first 1");
        wait_for(&format!("{why}: a thousand packets each way"), SOON, || {
            let now = [self.counts("web"), self.counts("db")];
            (0..2).all(|pod| (0..2).all(|way| now[pod][way] >= before[pod][way] + 1000))
        });
        db.say("stop");
        // All that db has sent the other one has got, and sent back into db's ring.
        let settled = |web: &mut Testpmd, db: &mut Testpmd| {
            let (now, them) = ([self.counts("web"), self.counts("db")], [web.counted(), db.counted()]);
            let moved =
                |pod: usize, way: usize| (now[pod][way] - before[pod][way], them[pod][1 - way] - counted[pod][1 - way]);
            [moved(0, 0), moved(0, 1), moved(1, 0)]
        };
        let mut last = Vec::new();
        wait_for(&format!("{why}: both ends of each wire count the same"), SOON, || {
            last = settled(web, db).to_vec();
            last.iter().all(|(ours, theirs)| ours == theirs && *ours >= 1000)
        });
        web.say("stop");
    }

    /// What a host broadcasts comes back to it from a container.
    fn reaches_host(&self, name: &str, container: &mut Testpmd) {
        container.say("start");
        let before = self.counts(name);
        wait_for(&format!("the host's packets come back from {name}"), SOON, || {
            self.host.ns.exec(&["ping", "-n", "-c", "3", "-i", "0.05", "-W", "0.2", "10.99.0.77"]);
            let now = self.counts(name);
            now[0] >= before[0] + 3 && now[1] >= before[1] + 3
        });
        container.say("stop");
    }
}

#[test]
fn containers_with_virtio_user_talk_and_either_side_may_restart() {
    let mut node = node([VHOST_USER_PORT; 2]);
    let idle = node.switch.mbufs_in_use();
    let (mut web, mut db) = (node.container(0, VIRTIO_USER), node.container(1, VIRTIO_USER));
    node.bounces([&mut web, &mut db], "at first");
    node.reaches_host("web", &mut web);
    used_is_what_was_negotiated(&node);

    web.kill();
    wait_for("its port goes down", SOON, || !node.is_up("web"));
    let mut web = node.container(0, VIRTIO_USER);
    node.bounces([&mut web, &mut db], "a container was restarted");

    node.switch.kill();
    node.switch.start_again();
    node.bounces([&mut web, &mut db], "the switch was restarted");
    drop((web, db));
    wait_for("mbufs come back", SOON, || node.switch.mbufs_in_use() <= idle);
}

/// `port-caps` of a container that merges buffers and does without offloads: offered as configured,
/// used as negotiated.
fn used_is_what_was_negotiated(node: &Node) {
    let ports = node.switch.json(&["port-caps", "br0", "web"]);
    let list = ports.as_array().and_then(|ports| ports[0]["capabilities"].as_array()).expect("a list of ports").clone();
    let state = |name: &str| {
        let found = list.iter().find(|item| item["name"] == name).unwrap_or_else(|| panic!("no {name}: {ports:#}"));
        ["asked", "offered", "used"].map(|key| found[key] == true)
    };
    for (name, expected) in [
        ("rx-csum", [true, true, false]),
        ("tx-csum", [true, true, false]),
        ("tx-tso4", [true, true, false]),
        ("mergeable", [true, true, true]),
        ("indirect", [true, true, true]),
        ("packed", [false, false, false]),
        ("multi-queue", [false, false, false]),
    ] {
        assert_eq!(state(name), expected, "{name}, asked, offered and used: {ports:#}");
    }
}

#[test]
fn a_container_with_memif_talks_to_one_with_virtio_user_and_may_restart() {
    let mut node = node([MEMIF_PORT, VHOST_USER_PORT]);
    let (mut web, mut db) = (node.container(0, MEMIF), node.container(1, VIRTIO_USER));
    node.bounces([&mut web, &mut db], "at first");
    node.reaches_host("web", &mut web);
    web.kill();
    wait_for("its port goes down", SOON, || !node.is_up("web"));
    let mut web = node.container(0, MEMIF);
    node.bounces([&mut web, &mut db], "the container was restarted");

    // The switch leaves its socket behind; a client does not look for its server again.
    web.kill();
    node.switch.kill();
    node.switch.start_again();
    let mut web = node.container(0, MEMIF);
    node.bounces([&mut web, &mut db], "the switch was killed");
}

//! A memif peer that gives what are no packets, and a switch without mbufs: the one port is closed
//! by name, the other is told.

use crate::common::{Host, Switch, Wire, number, ping, unique, wait_for};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// A memif client of its own, by the protocol (version 2.0): a region with two rings of 1024, then
/// packets as its arguments say. `good`: one descriptor each. `endless`: each descriptor says that
/// the packet goes on in the next one.
const PEER: &str = r#"
import mmap, os, socket, struct, sys, time
path, how = sys.argv[1:]
slots, buffer = 1024, 2048
ring = 128 + 16 * slots
size = 2 * ring + 2 * slots * buffer
region = os.memfd_create("region")
os.ftruncate(region, size)
memory = mmap.mmap(region, size)
for number in (0, 1):
    at = number * ring
    memory[at:at + 8] = struct.pack("<IHH", 0x3E31F20, 0, 0)
    for slot in range(slots):
        offset = 2 * ring + (number * slots + slot) * buffer
        memory[at + 128 + 16 * slot:at + 144 + 16 * slot] = struct.pack("<HHIII", 0, 0, buffer, offset, 0)
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
while True:
    try:
        link.connect(path)
        break
    except OSError:
        time.sleep(0.05)

def receive(kind):
    message = link.recv(128)
    assert struct.unpack_from("<H", message)[0] == kind, (kind, message)

def send(kind, body, fds=()):
    message = struct.pack("<H", kind) + body
    message += bytes(128 - len(message))
    if fds:
        socket.send_fds(link, [message], list(fds))
    else:
        link.send(message)

receive(2)
send(3, struct.pack("<HIB24s32s", 0x0200, 0, 0, b"", b"hostile"))
receive(1)
send(4, struct.pack("<HQ", 0, size), [region])
receive(1)
interrupts = [os.eventfd(0), os.eventfd(0)]
for number, flags in ((0, 1), (1, 0)):
    send(5, struct.pack("<HHHIBH", flags, 0, 0, number * ring, 10, 0), [interrupts[number]])
    receive(1)
send(6, struct.pack("<32s", b"hostile"))
receive(7)
print("connected", flush=True)
frame = bytes.fromhex("ffffffffffff0200000000aa88b5") + bytes(50)
head = 0
end = time.time() + 60
while time.time() < end:
    tail = struct.unpack_from("<H", memory, 64)[0]
    if how == "endless" or (head - tail) % 65536 < slots - 32:
        for _ in range(32):
            slot = head % slots
            offset = 2 * ring + slot * buffer
            memory[offset:offset + len(frame)] = frame
            flags, length = (1, buffer) if how == "endless" else (0, len(frame))
            memory[128 + 16 * slot:144 + 16 * slot] = struct.pack("<HHIII", flags, 0, length, offset, 0)
            head = (head + 1) % 65536
        memory[6:8] = struct.pack("<H", head)
    time.sleep(0.002)
"#;

struct Peer(Child);

impl Peer {
    fn start(path: &str, how: &str) -> Self {
        let child = Command::new("python3").args(["-c", PEER, path, how]).stdin(Stdio::null()).spawn();
        Self(child.expect("python3 is installed"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_peer_that_gives_no_packets_loses_its_port_and_nobody_else_loses_anything() {
    let (a, b) = (Host::new(Wire::AfPacket, 1), Host::new(Wire::Tap, 2));
    let bridge = "[[bridge]]\nname = \"br0\"\nfail_mode = \"standalone\"\n\n";
    let memif = "[[bridge.port]]\nname = \"mem\"\ntype = \"dpdk\"\ndevargs = \
                 \"net_memif0,role=server,id=0,socket=@DIR@/m.sock,socket-abstract=no\"\n\n";
    let switch = Switch::start(&[bridge, &a.config(1), &b.config(2), memif].concat());
    a.attach();
    b.attach();
    a.wait_reaches(&b);
    let idle = switch.mbufs_in_use();
    let socket = switch.dir().join("m.sock");
    let socket = socket.to_str().expect("UTF-8");
    // A good one first: the peer of this test speaks memif.
    let received = || number(&switch.port("br0", "mem"), "rx_packets");
    let good = Peer::start(socket, "good");
    wait_for("its packets arrive", SOON, || received() > 3000);
    assert_eq!(switch.port("br0", "mem")["rx_dropped"], 0);
    // A peer leaves when nobody polls its port: DPDK's driver takes its rings away while a worker
    // may read them, and then the switch crashes (docs/pods.md).
    let add = |device: &str| {
        let devargs = format!("{device},role=server,id=0,socket={socket},socket-abstract=no");
        switch.vsctl_ok(&["add-port", "br0", "mem", "--type", "dpdk", "--devargs", &devargs]);
    };
    switch.vsctl_ok(&["del-port", "br0", "mem"]);
    drop(good);
    add("net_memif1");

    let bad = Peer::start(socket, "endless");
    let shown = || switch.vsctl_ok(&["show"]);
    wait_for("the port is closed by name", SOON, || shown().contains("mbufs are lost; the port is closed"));
    assert!(switch.log().contains("port is taken down"), "{}", switch.log());
    // All others have theirs: what was lost was the port's, and is back.
    wait_for("no mbuf of the switch is gone", SOON, || switch.mbufs_in_use() <= idle);
    assert!(switch.vsctl(&["health"]).status.success());
    ping(&a.ns, &b.v4, 3, 1200);
    switch.vsctl_ok(&["del-port", "br0", "mem"]);
    drop(bad);
    add("net_memif2");
    let _good = Peer::start(socket, "good");
    wait_for("a good one's packets arrive", SOON, || received() > 3000);
    switch.vsctl_ok(&["del-port", "br0", "mem"]);
}

#[test]
fn a_switch_without_mbufs_is_not_healthy_and_says_so() {
    let bridge = "[dpdk]\nmemory_mb = 256\nhugepages = false\nmbufs = 1024\nfile_prefix = \"vtPID\"\n\n[[bridge]]\nname = \"br0\"\nfail_mode = \
                  \"standalone\"\n\n";
    let switch = Switch::start(&bridge.replace("vtPID", &format!("vt{}-{}", std::process::id(), unique())));
    // Each TAP has 33 at hand: more than there are.
    let names: Vec<String> = (0..40).map(|_| format!("vt{}s{}", std::process::id(), unique())).collect();
    for name in &names {
        switch.vsctl_ok(&["add-port", "br0", name, "--type", "tap", "--interface", name]);
    }
    wait_for("it is not healthy", SOON, || !switch.vsctl(&["health"]).status.success());
    wait_for("the log has it", SOON, || switch.log().contains("the mbuf pool is empty"));
    for name in &names[..30] {
        switch.vsctl_ok(&["del-port", "br0", name]);
    }
    wait_for("it is healthy again", SOON, || switch.vsctl(&["health"]).status.success());
    assert!(switch.log().contains("the mbuf pool has mbufs again"), "{}", switch.log());
}

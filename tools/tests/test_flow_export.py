"""Flows of a running Node at collectors of others: the switch counts, the agent exports, and nfdump
reads. Another collector takes the same flows by TCP, goes away, and comes back."""

import collections
import json
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402
from vsw.antrea import generated  # noqa: E402
from vsw.antrea.four_pods import FourPods  # noqa: E402
from vsw.antrea.generated import PODS, PORT, SERVICE, addresses  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
ACTIVE_S, IDLE_S = 1, 3
ASKED, ANSWERED = 20_000, 150_000  # bytes of a connection

SERVER = """
import socket, sys
server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
while True:
    peer, _ = server.accept()
    asked = 0
    while asked < int(sys.argv[2]):
        asked += len(peer.recv(65536))
    peer.sendall(bytes(int(sys.argv[3])))
    peer.close()
"""
CLIENT = """
import socket, sys
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])), source_address=("", int(sys.argv[3])))
peer.sendall(bytes(int(sys.argv[4])))
while peer.recv(65536):
    pass
"""
TEMPLATE_SET, HEADER, SET = 2, struct.Struct("!HHIII"), struct.Struct("!HH")


def free_port(kind):
    """A port of this host that is free."""
    with socket.socket(socket.AF_INET, kind) as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def waiting(port):
    """Bytes that wait at a port of UDP. None: nothing listens there."""
    for line in Path("/proc/net/udp").read_text().splitlines():
        if f":{port:04X} 00000000:0000" in line:
            return int(line.split()[4].split(":")[1], 16)
    return None


class TcpCollector:
    """Takes one connection, and keeps what comes."""

    def __init__(self, port):
        self.server = socket.create_server(("127.0.0.1", port))
        self.bytes, self.peer = b"", None
        self.thread = threading.Thread(target=self._take, daemon=True)
        self.thread.start()

    def _take(self):
        try:
            self.peer, _ = self.server.accept()
            while part := self.peer.recv(65536):
                self.bytes += part
        except OSError:
            pass  # it was closed

    def messages(self):
        """(sequence number, ids of sets, bytes) of each message that is whole."""
        found, at = [], 0
        while len(self.bytes) - at >= HEADER.size:
            version, length, _, sequence, _ = HEADER.unpack_from(self.bytes, at)
            assert version == 10 and length >= HEADER.size, (version, length)
            if len(self.bytes) - at < length:
                break
            message, sets, place = self.bytes[at:at + length], [], HEADER.size
            while place < length:
                number, size = SET.unpack_from(message, place)
                sets.append(number)
                place += size
            found.append((sequence, sets, message))
            at += length
        return found

    def close(self):
        """Ends the connection, too."""
        for sock in (self.peer, self.server):
            if sock:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended already
                sock.close()
        self.thread.join(machine.PATIENCE_S)


class Export(unittest.TestCase):
    """A Node of four Pods, whose agent exports to nfcapd and to a collector of TCP."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-export.")))
        self.node = FourPods(BINARIES, self.directory, generated.Size(1, 1, 1), self)
        self.node.start_switch()
        self.udp, self.tcp, self.health = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM), free_port(socket.SOCK_STREAM)
        self.files = self.directory / "flows"
        self.files.mkdir()
        nothing = subprocess.DEVNULL
        self.nfcapd = machine.spawn(["nfcapd", "-w", self.files, "-p", self.udp, "-b", "127.0.0.1", "-t", "3600"], stdout=nothing, stderr=nothing)
        self.addCleanup(machine.end, self.nfcapd)
        machine.expect("nfcapd listens", lambda: waiting(self.udp) == 0)
        self.collector = TcpCollector(self.tcp)
        self.addCleanup(lambda: self.collector.close())
        words = ["--flow-export", f"ipfix:udp:127.0.0.1:{self.udp}", "--flow-export", f"ipfix:tcp:127.0.0.1:{self.tcp}",
                 "--flow-export-active", f"{ACTIVE_S}s", "--flow-export-idle", f"{IDLE_S}s", "--health", f"127.0.0.1:{self.health}"]
        with open(self.directory / "agent.log", "ab") as log:
            self.agent = machine.spawn(self.node.agent_command(*words), stdout=log, stderr=log)
        self.addCleanup(machine.end, self.agent)
        machine.expect("the gate opens", lambda: self.node.state().get("gate_open"), self.log)
        machine.expect("the agent reaches collectors", lambda: self.number("flow_export_connected", "tcp") == 1, self.log)

    def log(self):
        """The end of the agent's log."""
        return (self.directory / "agent.log").read_text()[-2000:]

    def number(self, name, target):
        """A number of the agent's `/metrics` about a target."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/metrics", timeout=machine.PATIENCE_S) as answer:
            text = answer.read().decode()
        found = re.search(rf'^vswitch_agent_{name}{{target="ipfix:{target}:[^"]*"}} (\d+)$', text, re.M)
        return int(found[1]) if found else None

    def serve(self):
        """Pod `web` answers."""
        words = (sys.executable, "-c", SERVER, PORT, ASKED, ANSWERED)
        server = self.node.spaces["web"].spawn(*words, stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(machine.end, server)
        self.assertEqual(server.stdout.readline(), "ready\n")

    def talk(self, address, port, own):
        """Pod `client` asks, and has its answer."""
        self.node.spaces["client"].run(sys.executable, "-c", CLIENT, address, str(port), str(own), str(ASKED))

    def watch(self):
        """What the switch tells of connections that end, as a list that grows."""
        pipe = subprocess.PIPE
        process = machine.spawn(self.node.switch.command("--json", "antrea", "records", "--follow", "--kind", "end"), stdout=pipe, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(machine.end, process)
        self.assertEqual(json.loads(process.stdout.readline()), {"record": "started"})
        ends = []
        threading.Thread(target=lambda: ends.extend(map(json.loads, process.stdout)), daemon=True).start()
        return ends

    def dumped(self):
        """Sums of nfdump by (source, port, destination, port): packets and bytes of both
        directions."""
        machine.expect("nfcapd reads", lambda: waiting(self.udp) == 0)
        machine.end(self.nfcapd)
        said = machine.output(["nfdump", "-q", "-N", "-6", "-R", self.files, "-o", "fmt:%sa,%sp,%da,%dp,%ipkt,%ibyt,%opkt,%obyt"])
        sums = collections.defaultdict(lambda: [0, 0, 0, 0])
        for line in filter(None, (line.replace(" ", "") for line in said.splitlines())):
            *ends, p, b, q, c = line.split(",")
            sums[tuple(ends)] = [old + int(new) for old, new in zip(sums[tuple(ends)], (p, b, q, c))]
        return sums

    def test_flows_at_collectors(self):
        ends = self.watch()
        self.serve()
        # The agent asks for records once there is a Node, which may be a while later.
        machine.expect("the agent reads records", lambda: self.flows_until(lambda: len(self.collector.messages()) > 1), self.log)
        self.talk(addresses(PODS["web"])[0], PORT, 10_001)
        self.talk(addresses(PODS["web"])[1], PORT, 10_002)
        self.talk(SERVICE[0], 80, 10_003)
        self.node.switch.vsctl("flush-conntrack")
        ours = {}

        def have_ended():
            ours.update((one["original"].get("sport"), one) for one in list(ends) if 10_000 < one["original"].get("sport", 0) < 10_010)
            return len(ours) == 3

        machine.expect("the connections end", have_ended, lambda: ends)
        machine.expect("flows of all are sent", lambda: all(self.count(number) for number in ours), self.log)
        for target in ("udp", "tcp"):
            self.assertEqual(self.number("flow_export_lost_total", target), 0)
        self.check_tcp()
        self.check_reconnect()
        sent = self.number("flow_export_sent_total", "udp")
        sums = self.dumped()
        self.assertGreaterEqual(sent, 3)
        web = dict(zip((10_001, 10_002, 10_003), (addresses(PODS["web"])[0], addresses(PODS["web"])[1], addresses(PODS["web"])[0])))
        for own, address in web.items():
            client = addresses(PODS["client"])[":" in address]
            found = sums[client, str(own), address, str(PORT)]
            end = ours[own]
            counts = [end[side][word] for side in ("original_count", "reply_count") for word in ("packets", "bytes")]
            self.assertEqual(found, counts, f"{own}: nfdump and the switch")
            self.assertGreater(counts[1], ASKED)
            self.assertGreater(counts[3], ANSWERED)

    def count(self, own):
        """Messages of the TCP collector with a port of the client's."""
        return sum(struct.pack("!HH", own, PORT) in message for _, sets, message in self.collector.messages() if TEMPLATE_SET not in sets)

    def check_tcp(self):
        """The stream begins with templates, counts records, and has names."""
        messages = self.collector.messages()
        self.assertEqual((messages[0][0], messages[0][1]), (0, [TEMPLATE_SET]))
        sequences = [sequence for sequence, _, _ in messages[1:]]
        self.assertEqual((sequences[0], sequences), (0, sorted(sequences)))
        whole = b"".join(message for _, _, message in messages)
        for name in (b"\6client\7default\6node-0\3web\7default\6node-0", b"default/web:p", b"\3web\7default\1"):
            self.assertIn(name, whole)

    def check_reconnect(self):
        """A collector that comes back gets templates and flows again."""
        self.collector.close()
        machine.expect("the agent notices", lambda: self.flows_until(lambda: self.number("flow_export_connected", "tcp") == 0), self.log)
        self.collector = TcpCollector(self.tcp)
        machine.expect("the agent comes back", lambda: self.number("flow_export_connected", "tcp") == 1, self.log)
        machine.expect("flows come", lambda: self.flows_until(lambda: len(self.collector.messages()) > 1), self.log)
        self.assertEqual(self.collector.messages()[0][:2], (0, [TEMPLATE_SET]))

    def flows_until(self, done):
        """A further connection, as long as something is not so yet."""
        if done():
            return True
        self.further = getattr(self, "further", 20_000) + 1
        self.talk(addresses(PODS["web"])[0], PORT, self.further)
        self.node.switch.vsctl("flush-conntrack")
        return False


if __name__ == "__main__":
    unittest.main()

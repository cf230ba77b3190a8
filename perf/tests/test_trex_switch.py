"""The frames of perf/trex's profiles through a switch with their pipeline: what the client sends
before web has answered arrives, too."""

import os
import sys
import tempfile
import unittest
from collections import Counter
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from test_trex import CLIENT, ROOT, TREX, fake_trex, streams, world  # noqa: E402

sys.path.insert(0, str(ROOT / "perf"))

from bench import send  # noqa: E402
from vsw import daemon, machine  # noqa: E402

BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
FLOWS, TIMES = 3, 3


class BeforeTheAnswer(unittest.TestCase):
    """Captures stand for the cards; the frames are put in by hand, since a capture would be over
    before the pipeline is there."""

    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="vswitch-trex.")))
        cores = machine.cores()
        ports = [{"name": port.port, "number": port.number, "type": "pcap", "tx_file": str(self.directory / f"{port.number}.pcap")}
                 for port in (world.CLIENT, world.WEB)]
        dpdk = {"hugepages": False, "memory_mb": 256, "file_prefix": f"vt{os.getpid()}", "worker_cores": [cores[-1]], "main_core": cores[0]}
        config = daemon.configuration(dpdk, ports, self.directory, "secure", idle_sleep_us=50)
        self.switch = daemon.Switch(BINARIES, self.directory, config)
        self.addCleanup(self.stop)
        self.switch.wait_ready()
        bundle = self.directory / "bundle"
        bundle.write_text(machine.output([TREX / "pipeline"]))
        self.switch.vsctl("bundle", "br0", bundle)

    def stop(self):
        if self.switch.process.poll() is None:
            self.switch.stop()

    def test_every_first_packet_arrives_however_often_it_is_sent(self):
        self.assertIn("flow_count=315", self.switch.vsctl("dump-aggregate", "br0"))
        want = Counter()
        kinds = [("stl_udp", ("--ways", "one")), ("stl_connections", ()), ("stl_connections", ("--protocol", "udp"))]
        for (name, words), kind, ip in product(kinds, ("pod", "svc"), (4, 6)):
            stream = streams(name, CLIENT, "--kind", kind, "--ip", ip, "--flows", FLOWS, *words)[0]
            frames = sorted(set(fake_trex.packets(stream, 20 * FLOWS)))
            self.assertEqual(len(frames), FLOWS)
            for frame in frames * TIMES:
                self.switch.vsctl("packet-out", "br0", f"in_port={world.CLIENT.number},packet={frame.hex()},actions=TABLE")
                want[self.ends(frame)] += 1
            # The next ones have the same tuples behind the translation.
            self.switch.vsctl("flush-conntrack")
        drops = self.switch.vsctl("dump-ports", "br0")
        self.stop()
        seen = Counter(self.ends(frame) for frame in send.packets_of(self.directory / f"{world.WEB.number}.pcap"))
        self.assertEqual(seen, want, drops)

    @staticmethod
    def ends(frame):
        """IP version, protocol, client's port: of both directions of translation. The destination
        is web's in the end."""
        at = 34 if frame[12:14] == b"\x08\x00" else 54
        return at, frame[23 if at == 34 else 20], int.from_bytes(frame[at:at + 2], "big")


if __name__ == "__main__":
    unittest.main()

"""deploy/monitoring in real programs. promtool judges names and rules. A Prometheus that scrapes a
switch under traffic has a series for each expression of each panel and alert."""

import json
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

import yaml
from pages import BINARIES, ROOT

sys.path.insert(0, str(ROOT / "tools/lib"))

from vsw import machine  # noqa: E402
from vsw.certificates import Authority  # noqa: E402
from vsw.daemon import Switch  # noqa: E402

MONITORING = ROOT / "deploy/monitoring"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
METRICS, PROMETHEUS = "127.0.0.1:9477", "127.0.0.1:9490"
GATEWAY_MAC, POD_MAC, PEER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"

CONFIG = """
[dpdk]
memory_mb = 256
hugepages = false
file_prefix = "monitoring"
[worker]
idle_sleep_us = 500
[control]
socket = "{directory}/vswitch.sock"
[[control.listener]]
address = "127.0.0.1:0"
role = "read"
tls = {{ cert = "{cert}", key = "{key}", client_ca = "{ca}" }}
[paths]
sockets = ["{directory}"]
captures = ["{directory}"]
[observe]
metrics = "{metrics}"
[[bridge]]
name = "br-int"
[[bridge.port]]
name = "gw0"
type = "internal"
mac = "{gateway}"
[[bridge.port]]
name = "pod"
type = "pcap"
rx_file = "{directory}/pod.pcap"
infinite_rx = true
[[bridge.port]]
name = "peer"
type = "pcap"
tx_file = "{directory}/peer.pcap"
[[bridge]]
name = "br0"
[[bridge.port]]
name = "source"
number = 1
type = "pcap"
rx_file = "{directory}/pod.pcap"
infinite_rx = true
[[bridge.port]]
name = "absent"
number = 2
type = "vhost-user"
path = "{directory}/absent.sock"
"""

OBJECTS = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: default}}
---
apiVersion: v1
kind: Node
metadata: {{name: node}}
spec: {{podCIDRs: ["10.10.0.0/24"]}}
status:
  addresses: [{{type: InternalIP, address: 192.168.77.102}}]
---
apiVersion: vswitch/v1
kind: NodeConfig
metadata: {{name: node}}
spec:
  bridge: br-int
  trafficMode: NoEncap
  transportAddresses: ["192.168.77.102/24"]
  gateway: {{port: gw0, mac: "{GATEWAY_MAC}", addresses: ["10.10.0.1"]}}
  serviceCIDRs: ["10.96.0.0/12"]
---
apiVersion: v1
kind: Pod
metadata:
  name: pod
  namespace: default
  labels: {{app: pod}}
  annotations: {{vswitch/port: pod, vswitch/mac: "{POD_MAC}"}}
spec: {{nodeName: node}}
status: {{podIPs: [{{ip: 10.10.0.21}}]}}
---
apiVersion: v1
kind: Pod
metadata:
  name: peer
  namespace: default
  labels: {{app: peer}}
  annotations: {{vswitch/port: peer, vswitch/mac: "{PEER_MAC}"}}
spec: {{nodeName: node}}
status: {{podIPs: [{{ip: 10.10.0.22}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: peer, namespace: default}}
spec:
  clusterIPs: ["10.96.0.22"]
  ipFamilies: [IPv4]
  selector: {{app: peer}}
  ports: [{{name: echo, protocol: UDP, port: 7, targetPort: 7}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: peer, namespace: default, labels: {{kubernetes.io/service-name: peer}}}}
addressType: IPv4
ports: [{{name: echo, protocol: UDP, port: 7}}]
endpoints: [{{addresses: [10.10.0.22], nodeName: node, conditions: {{ready: true}}}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: echo-only, namespace: default}}
spec:
  podSelector: {{matchLabels: {{app: peer}}}}
  policyTypes: [Ingress]
  ingress: [{{ports: [{{protocol: UDP, port: 7}}]}}]
"""


def datagram(to, port, source, to_mac=GATEWAY_MAC):
    """A UDP packet of the Pod."""
    mac = bytes.fromhex(f"{to_mac}{POD_MAC}".replace(":", ""))
    addresses = bytes(map(int, f"10.10.0.21.{to}".split(".")))
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + ip[12:]
    return mac + b"\x08\x00" + ip + struct.pack("!HHHH", source, port, 26, 0) + bytes(18)


def capture(file, packets):
    """Writes packets as a capture file."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    file.write_bytes(head + b"".join(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet for packet in packets))


def fetch(address, path, **query):
    with urllib.request.urlopen(f"http://{address}{path}?{urllib.parse.urlencode(query)}", timeout=machine.PATIENCE_S) as answer:
        return answer.read().decode()


def wait(what, condition):
    """Waits for a state; what it last was, if it does not come."""
    end = time.monotonic() + machine.PATIENCE_S
    while True:
        try:
            said = condition()
        except OSError as error:
            said = error
        if not said:
            return
        if time.monotonic() > end:
            raise AssertionError(f"{what}: {said}")
        time.sleep(0.2)


def expressions():
    """Each expression that a panel shows, with its place."""
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{file.stem}: {panel['title']}", target["expr"]


def alerts():
    """The alerts of the rules: name and expression."""
    return [(rule["alert"], rule["expr"]) for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]


class Files(unittest.TestCase):
    def promtool(self, *words, **options):
        done = subprocess.run(["promtool", *words], cwd=MONITORING, capture_output=True, text=True, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_rules_fire_and_do_not(self):
        self.promtool("check", "rules", "alerts.yaml")
        self.promtool("test", "rules", "alerts_test.yaml")
        tests = (MONITORING / "alerts_test.yaml").read_text()
        for name, _ in alerts():
            for outcome in ("fires", "does not fire"):
                self.assertIn(f"- name: {name} {outcome}\n", tests)

    def test_each_alert_has_a_paragraph(self):
        page = (ROOT / "docs/monitoring.md").read_text()
        headings = set(re.findall(r"^### (Vswitch\w+)$", page, re.MULTILINE))
        self.assertEqual(headings, {name for name, _ in alerts()})

    def test_dashboards_are_whole(self):
        self.assertEqual(len(DASHBOARDS), 4)
        uids = [json.loads(file.read_text())["uid"] for file in DASHBOARDS]
        self.assertEqual(uids, [file.stem for file in DASHBOARDS])


class Live(unittest.TestCase):
    """A switch with a Node, an agent and traffic, and a Prometheus."""

    @classmethod
    def setUpClass(cls):
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        manifests = cls.directory / "manifests"
        manifests.mkdir()
        (manifests / "all.yaml").write_text(OBJECTS)
        packets = [datagram("10.96.0.22", 7, source) for source in range(2000, 2032)]
        packets += [datagram("10.10.0.22", 9, 2000, PEER_MAC), datagram("10.10.0.99", 7, 2000)]
        capture(cls.directory / "pod.pcap", packets)
        authority = Authority(cls.directory)
        cert, key = authority.issue("switch", "IP:127.0.0.1")
        config = CONFIG.format(directory=cls.directory, metrics=METRICS, gateway=GATEWAY_MAC, cert=cert, key=key, ca=authority.cert)
        cls.switch = Switch(BINARIES, cls.directory, config)
        cls.addClassCleanup(cls.switch.stop)
        cls.switch.wait_ready()
        # A port that cannot send, behind connections.
        cls.switch.vsctl("add-flow", "br0", "table=0,ip,actions=ct(commit,zone=1,table=1)")
        cls.switch.vsctl("add-flow", "br0", "table=1,actions=output:2")
        agent = cls.start(BINARIES / "vswitch-agent", "--state", cls.directory / "round", "--dir", manifests, "--node", "node",
                          "--socket", cls.switch.socket, "--host")
        wait("a Node", lambda: agent.read_text() if "vswitch_antrea_reported_timestamp_seconds" not in fetch(METRICS, "/metrics") else "")
        (cls.directory / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(MONITORING / "alerts.yaml")],
            "scrape_configs": [{"job_name": "vswitch", "static_configs": [{"targets": [METRICS]}]}],
        }))
        data = f"--storage.tsdb.path={cls.directory}/data"
        cls.start("prometheus", f"--config.file={cls.directory}/prometheus.yml", data, f"--web.listen-address={PROMETHEUS}")

    @classmethod
    def start(cls, *argv):
        """Starts a program that ends with the class; its log."""
        file = cls.directory / f"{Path(argv[0]).name}.log"
        with open(file, "wb") as log:
            process = machine.spawn([*map(str, argv)], stdout=log, stderr=log)
        cls.addClassCleanup(machine.end, process)
        return file

    def query(self, expression):
        answer = json.loads(fetch(PROMETHEUS, "/api/v1/query", query=expression))
        return answer["data"]["result"]

    def missing(self, all_of_them):
        return [(place, expression) for place, expression in all_of_them if not self.query(expression)]

    def test_each_panel_has_series(self):
        shown = [(place, expression.replace("$__rate_interval", "20s").replace("$instance", ".*")) for place, expression in expressions()]
        self.assertGreater(len(shown), 60)
        wait("series for each panel", lambda: self.missing(shown))

    def test_each_alert_has_a_metric(self):
        metrics = [(name, metric) for name, expression in alerts() for metric in set(re.findall(r"vswitch_\w+", expression))]
        self.assertGreater(len(metrics), 12)
        wait("series for each alert", lambda: self.missing(metrics))

    def test_no_alert_is_wrong(self):
        wait("rules without errors", lambda: [
            rule for group in json.loads(fetch(PROMETHEUS, "/api/v1/rules"))["data"]["groups"] for rule in group["rules"] if rule["health"] != "ok"
        ] or not self.query("vswitch_build_info"))

    def test_the_page_has_each_metric(self):
        page = set(re.findall(r"^\| `(vswitch_\w+)` \|", (ROOT / "docs/monitoring.md").read_text(), re.MULTILINE))
        shown = set(re.findall(r"^# TYPE (\w+) ", fetch(METRICS, "/metrics"), re.MULTILINE))
        self.assertGreater(len(shown), 60)
        self.assertEqual(shown - page, set())

    def test_names_are_as_promtool_likes_them(self):
        text = fetch(METRICS, "/metrics")
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

"""Traceflows from Node to Node: both are programmed by an agent each, instead of with the
document."""

from .. import machine
from ..machine import Failure
from . import traffic, world
from .actions import BOTH, HTTP, of
from .crossing import SIDES, at
from .trace_scenes import TAG, TraceScenes
from .world import CLIENT, DB, WEB2, six

NAMES = ("node-1", "node-2")

NODE_MANIFEST = """\
apiVersion: v1
kind: Node
metadata: {{name: {name}}}
spec: {{podCIDRs: ["{pods}", "{pods6}"]}}
status:
  addresses: [{{type: InternalIP, address: {node}}}, {{type: InternalIP, address: "{node6}"}}]
---
apiVersion: vswitch/v1
kind: NodeConfig
metadata: {{name: {name}}}
spec:
  bridge: br0
  trafficMode: Encap
  transportAddresses: ["{node}/24", "{node6}/64"]
  gateway: {{port: {gateway_port}, mac: "{gateway_mac}", addresses: ["{gateway}", "{gateway6}"]}}
  tunnel: {{port: {tunnel}}}
  serviceCIDRs: ["10.96.0.0/12", "fd00:10:96::/64"]
---
"""
POD_MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: default
  labels: {{app: {app}}}
  annotations: {{vswitch/port: {port}, vswitch/mac: "{mac}"}}
spec: {{nodeName: {node}}}
status: {{podIPs: [{{ip: {v4}}}, {{ip: "{v6}"}}]}}
---
"""
# Nobody may reach db.
POLICY_MANIFEST = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: default}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress]
"""


def manifests():
    """Both Nodes, their Pods, and a policy."""
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n---\n"
    for side, name in zip(SIDES, NAMES):
        pods, node, gateway = (side.of(word) for word in ("10.10.0.0/24", world.NODE, world.GATEWAY_IP))
        text += NODE_MANIFEST.format(name=name, pods=pods, pods6=six(pods), node=node, node6=six(node), gateway=gateway, gateway6=six(gateway),
                                     gateway_port=world.GATEWAY, gateway_mac=side.of(world.GATEWAY_MAC), tunnel=world.TUNNEL)
        for pod in side.pods:
            text += POD_MANIFEST.format(name=f"{pod.name}-{side.number}", app=pod.name, port=pod.port, mac=pod.mac, node=name, v4=pod.v4, v6=six(pod.v4))
    return text + POLICY_MANIFEST


class PairTraces:
    """`switches` and namespaces of both Nodes; agents end with `stack`."""

    def __init__(self, node, switches, interface, directory, stack):
        self.node, self.switches, self.directory, self.stack = node, switches, directory, stack
        self.interface = interface  # of web2 on Node 2
        self.sender, self.receiver = (TraceScenes(node, switch) for switch in switches)

    def tell(self):
        """Starts the agents, which program the empty bridges."""
        manifest = self.directory / "manifests"
        manifest.mkdir()
        (manifest / "cluster.yaml").write_text(manifests())
        for switch, name in zip(self.switches, NAMES):
            argv = [switch.binaries / "vswitch-agent", "--no-state", "--dir", manifest, "--node", name, "--socket", switch.socket]
            with open(switch.directory / "vswitch-agent.log", "ab") as log:
                process = machine.spawn(argv, stdout=log, stderr=log)
            self.stack.callback(machine.end, process)
        for switch in self.switches:
            machine.expect("the agent has told the switch everything", lambda: switch.json("antrea", "status").get("gate_open"))

    def all(self):
        """As scenes are."""
        yield "Traceflow: client@1 -> web2@2", self.crossing(WEB2, "forwarding delivered web2-2"), [], BOTH
        yield "Traceflow: client@1 -> db@2, whose policy denies", self.crossing(DB, "networkpolicy dropped np:default/db"), [], BOTH
        yield "live Traceflow: client@1 -> web2@2", self.live, [], BOTH

    @staticmethod
    def far(pod, family):
        """The address of a Pod's namesake on Node 2."""
        return of(SIDES[1].of(pod.v4), family)

    def told(self, family, sent, received):
        """Sender's and receiver's words agree."""
        one, two = (of(SIDES[0].of(address), family) for address in (world.NODE, world.PEER_NODE))
        self.sender.expect(sent, "forwarding forwarded", f'"tunnel_destination": "{two}"')
        if sent["observations"][0]["pod"] != "default/client-1":
            raise Failure(f"it began otherwise: {sent['observations'][0]}")
        self.receiver.expect(received, "forwarding received", f'"tunnel_destination": "{one}"')

    def crossing(self, pod, step):
        """A packet by the tunnel: the sender's Node says that it left, the receiver's what became
        of it."""

        def run(family):
            process = self.receiver.begin("--receiver", "--tag", str(TAG))
            sent = self.sender.trace("default/client-1", self.far(pod, family), "--protocol", "tcp", "--tag", str(TAG))
            received = self.receiver.end(process)
            self.told(family, sent, received)
            found = self.receiver.expect(received, step)
            return f"forwarded; received, {found['action']}"

        return run

    def live(self, family):
        """A real connection: its first packet is told on both, and arrives without the tag."""
        interface = self.interface
        address = self.far(WEB2, family)
        with traffic.Listener(self.node.names[at(SIDES[1], WEB2.name)], interface) as listener:
            receiver = self.receiver.begin("--receiver", "--tag", str(TAG), "--live")
            sender = self.sender.begin("default/client-1", address, "--live", "--tag", str(TAG), "--protocol", "tcp", "--port", str(HTTP))
            traffic.ask(self.node.names[at(SIDES[0], CLIENT.name)], address, HTTP)
            sent, received = self.sender.end(sender), self.receiver.end(receiver)
            first = next((frame for frame in listener.frames() if _dscp(frame) == TAG), None)
        self.told(family, sent, received)
        self.receiver.expect(received, "forwarding delivered web2-2")
        if first:
            raise Failure(f"a packet arrived with the tag: {first.hex()}")
        return "answered; forwarded; received, delivered"


def _dscp(frame):
    """Of a frame of IP; None: it is none."""
    if frame[12:14] == b"\x08\x00":
        return frame[15] >> 2
    return (frame[14] & 0xF) << 2 | frame[15] >> 6 if frame[12:14] == b"\x86\xdd" else None

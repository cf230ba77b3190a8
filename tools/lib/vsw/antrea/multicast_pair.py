"""Multicast between two Nodes: the control agent programs both, Pods of one hear those of the
other."""

from pathlib import Path

from .. import machine
from ..machine import Failure
from . import world
from .actions import DENIED_LIMIT
from .crossing import SIDES, at, only
from .multicast import DEAF, Receiver, members, nodes, send, speaking
from .side import Side
from .world import CLIENT, DB, GATEWAY, GATEWAY_MAC, TUNNEL, WEB2

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n"
NODE_TEXT = """---
apiVersion: v1
kind: Node
metadata: {{name: node-{number}}}
spec: {{podCIDRs: ["{pods}"]}}
status: {{addresses: [{{type: InternalIP, address: {address}}}]}}
---
apiVersion: vswitch/v1
kind: NodeConfig
metadata: {{name: node-{number}}}
spec:
  bridge: br0
  trafficMode: Encap
  transportAddresses: ["{address}/24"]
  gateway: {{port: {gateway}, mac: "{mac}", addresses: ["{gateway_address}"]}}
  tunnel: {{port: {tunnel}}}
  serviceCIDRs: ["10.96.0.0/12"]
  features: {{multicast: true}}
"""
POD_TEXT = """---
apiVersion: v1
kind: Pod
metadata:
  name: {name}-{number}
  namespace: default
  annotations: {{vswitch/port: "{port}", vswitch/mac: "{mac}"}}
spec: {{nodeName: node-{number}}}
status: {{podIPs: [{{ip: {address}}}]}}
"""
GROUP = "239.3.3.3"


def manifests():
    """The cluster of both Nodes."""
    texts = [NAMESPACE]
    for side in SIDES:
        texts.append(NODE_TEXT.format(number=side.number, pods=side.of("10.10.0.0/24"), address=side.of(world.NODE), gateway=GATEWAY,
                                      mac=side.of(GATEWAY_MAC), gateway_address=side.of(world.GATEWAY_IP), tunnel=TUNNEL))
        texts += [POD_TEXT.format(name=pod.name, number=side.number, port=pod.port, mac=pod.mac, address=pod.v4) for pod in side.pods]
    return "".join(texts)


class Across:
    """Scenes of both Nodes, whose bridges are empty: `switches` are theirs, in order; agents end
    with `stack`."""

    def __init__(self, node, switches, directory, stack):
        self.node, self.space, self.switches = node, node.names, dict(zip(SIDES, switches))
        cluster = Path(directory) / "multicast"
        cluster.mkdir()
        (cluster / "cluster.yaml").write_text(manifests())
        self.pods = [at(side, pod.name) for side in SIDES for pod in side.pods]
        for pod in self.pods:
            node.run(pod, "nft", DEAF)
        for side, switch in self.switches.items():
            with open(Path(directory) / f"vswitch-agent-{side.number}.log", "ab") as log:
                argv = [switch.binaries / "vswitch-agent", "--no-state", "--dir", cluster, "--node", f"node-{side.number}", "--socket", switch.socket]
                process = machine.spawn(argv, stdout=log, stderr=log)
            stack.callback(machine.end, process)
        for side, switch in self.switches.items():
            machine.expect(f"node {side.number} forwards by what its agent declares", lambda: switch.json("antrea", "status").get("gate_open"))
            switch.vsctl("antrea", "set-multicast", "--versions", "3")
        for pod in self.pods:
            node.run(pod, "nft", "delete", "table", "inet", "deaf")

    def all(self):
        """As `Scenes.all`."""
        for here, versions in zip(SIDES, ((3, 2), (1,))):
            for version in versions:
                yield (f"multicast, IGMPv{version}: {at(here, CLIENT.name)} -> {at(here.other, DB.name)}", self.crosses(here, here.other, version),
                       only(here, "MulticastOutput priority=200") + only(here.other, "Classifier priority=210 nw_dst=224.0.0.0/4"), (4,))

    def crosses(self, here: Side, there: Side, version):
        """A Pod there joins: who is here is heard; web2 of neither Node has joined, and hears
        nothing."""

        def run(_family):
            client, far = at(here, CLIENT.name), at(there, DB.name)
            address = {pod.name: pod.v4 for pod in there.pods}[DB.name]
            source = {pod.name: pod.v4 for pod in here.pods}[CLIENT.name]
            with speaking(self.node, far, "eth0", version), Receiver(self.space[far], GROUP, address) as receiver:
                joined, known = lambda: members(self.switches[there], GROUP), lambda: nodes(self.switches[here], GROUP)
                machine.expect(f"{far} has joined by version {version}", lambda: joined() == {f"{DB.name}-{there.number}": version}, joined)
                machine.expect(f"node {here.number} knows", lambda: known() == [f"node-{there.number}"], known)
                before = self._received(there, WEB2)
                if not receiver.hears(send(self.space[client], GROUP, source)):
                    raise Failure(f"{far} does not hear {client}")
                if self._received(there, WEB2) != before:
                    raise Failure(f"{at(there, WEB2.name)} was sent it, too")
                if version == 1:
                    return f"{far} hears it"  # who leaves in version 1 says nothing
                receiver.leave()
                machine.expect(f"node {here.number} knows that it left", lambda: not known(), known)
                if receiver.hears(send(self.space[client], GROUP, source), DENIED_LIMIT):
                    raise Failure(f"{far} has left, and hears {client}")
            return f"{far} hears it, until it leaves"

        return run

    def _received(self, side, pod):
        """Packets of groups that a Pod was sent."""
        told = self.switches[side].json("antrea", "multicast", "--pods", f"default/{pod.name}-{side.number}")
        return told[0]["received"]["packets"]

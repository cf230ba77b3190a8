"""The demo of policy only mode. It builds the Nodes of a CNI plug-in that routes, and shows who
reaches whom. Then it inserts the switch, and shows the same again."""

from pathlib import Path

from ... import daemon, machine
from ...stage import say
from .. import traffic
from ..actions import HTTP
from ..host_agent import HostAgent
from ..ledger import Ledger, Ledgers
from ..manifests import Manifests
from ..table import Table
from ..world import GATEWAY
from .network import FAR, ONE, Network, end_of
from .scenes import Scenes

CLUSTER, NODE_NAME = Path(__file__).with_name("cluster"), "node-1"
STEPS = 5
LOOK_S = 1  # how long the live view waits for an answer


class PolicyOnly(Table):
    """Nodes, and the switch of one of them."""

    def start(self, binaries):
        """The switch, on the Node's ends of the links of Pods."""
        pods = [{"name": end_of(pod), "type": "af_packet", "interface": end_of(pod), "underlay": False} for pod in ONE.pods]
        ports = [{"name": GATEWAY, "type": "internal"}, *pods]
        config = daemon.configuration(self.dpdk(), ports, self.directory, "secure", idle_sleep_us=self.idle_sleep_us)
        self.switch = daemon.Switch(binaries, self.directory, config, self.node.names[ONE.node])
        self.switches.append(self.switch)
        self.stack.callback(machine.end, self.switch.process)
        self.switch.wait_ready()
        self.node.made(ONE, GATEWAY)

    def insert(self, binaries):
        """Puts the switch between Pods and host; agents do the rest."""
        for pod in ONE.pods:
            self.node.hand_over(ONE, pod)
        self.start(binaries)
        before = self.node.seen(ONE)
        self.manifests = Manifests(self.switch, self.directory, self.stack, CLUSTER, NODE_NAME)
        state = self.manifests.state()
        say(f"  manifests: {self.manifests.directory}; they came to {state['flows']} flows")
        self.agent = HostAgent(self.switch, self.node.names[ONE.node], self.directory, self.stack)
        self.agent.start()
        say("  what the host has, all of it by vswitch-agent --host:")
        for command, lines in self.node.seen(ONE).items():
            if added := [line.expandtabs(4).rstrip() for line in lines if line not in before[command]]:
                say("\n".join([f"    # {command}", *(f"    {line}" for line in added)]))

    def acts(self, binaries):
        """All that is shown."""
        steps = self.args.steps
        with steps.step("a routed CNI plug-in: two Nodes, a route for each Pod, kube-proxy; no switch", "a few seconds"):
            self.node = Network(self.tag, lambda name: self.leftovers.add(namespace=name), self.stack.callback)
            self.node.serve(self.stack)
            scenes = Scenes(self.node)
        with steps.step("who reaches whom without a switch, with packets of IPv4+IPv6", "a few seconds"):
            self.ledger = Ledgers({})
            self.play(scenes.reached(inserted=False))
        with steps.step("the switch is inserted on Node 1; agents: policies by YAML, the host by --host", "a few seconds"):
            self.insert(binaries)
        self.ledger = Ledger(self.switch)
        with steps.step("the same, and what policies deny, and by which rule", "about 30 s"):
            self.play(scenes.reached(inserted=True))
            self.play(scenes.judged())
            self.play(scenes.changed(self.manifests))
            self.play(scenes.repaired(self.agent))
        with steps.step("Services by the switch in place of kube-proxy: a line of YAML", "about 10 s"):
            self.serve_services(scenes)
        say(f"  {steps.all_in()} in all")

    def serve_services(self, scenes):
        """Meanwhile the switch is the proxy."""
        self.node.without_kube_proxy(ONE)
        with self.manifests.edited("nodes.yaml", "proxy: false", "proxyAll: true"):
            machine.expect("the switch forwards again", self.manifests.told, self.manifests.state)
            self.agent.settled()
            self.play(scenes.served())
        self.node.kube_proxy(ONE)
        self.agent.settled()

    def hints(self):
        """What one can do with it."""
        names = self.node.names
        return f"""
The Nodes stay until Ctrl-C. In another terminal:
  export VSWITCH_SOCKET={self.switch.socket} PATH=$PATH:{self.switch.binaries.resolve()}
  $EDITOR {self.manifests.directory}/policies.yaml                    # a second later the switch does as it says
  ip netns exec {names[ONE.at('client')]} curl http://{FAR}/                # a Service; ip netns lists the other namespaces
  vswitch-agent --host-plan                                           # what the host is to have
  ip -n {names[ONE.node]} rule; ip -n {names[ONE.node]} route show table 300
  ip netns exec {names[ONE.node]} nft list table inet vswitch
  vsctl antrea rules; vsctl dump-flows --names br0 table=L3Forwarding # rules with their counters"""

    def seen(self):
        """For the live view: whom a Service leads to at this moment."""
        try:
            answer = f"{traffic.ask(self.node.names[ONE.at('client')], FAR, HTTP, LOOK_S)[0]} answers"
        except OSError as error:
            answer = f"no answer: {error}"
        yield f"{ONE.at('client')} -> Service {FAR}: {answer}"

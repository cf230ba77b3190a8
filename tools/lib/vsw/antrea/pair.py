"""The demo of two Nodes: a switch on each, a wire between them, Geneve on it; what is shown is
captured, too."""

import contextlib

from .. import daemon, machine, netns
from ..machine import Failure
from ..stage import say
from . import crossing, device_pair, direct_pair, manifests, multicast_pair, pipeline, refusals_pair, shared_ports, side, single_pair, stacks, uplink_pair, wire, wire_errors, world
from .actions import BOTH, of
from .capture import Capture, merged, required
from .crossing import SIDES, at
from .host_agent import HostAgent
from .ledger import Ledger, Ledgers
from .member import MTU, UPLINK, Member, cable
from .node import INSPECT, NODE, OUTSIDE, Spaces, name_tables
from .pair_traces import PairTraces
from .table import Table

SAMPLE = 300  # frames


class Pair(Table):
    """Both Nodes and their switches. `node` has the namespaces of both: client@1 and so on."""

    SWITCHES = 2

    def start(self, binaries):
        """Namespaces, a switch in each Node's, the wire, servers in the Pods."""
        self.nodes = [Member(f"{self.tag}-{one.number}", self.stack, self.leftovers, one) for one in SIDES]
        self.node = Spaces()
        for node in self.nodes:
            self.node.names |= {at(node.side, short): name for short, name in node.names.items()}
            self.node.spaces |= {at(node.side, short): space for short, space in node.spaces.items()}
        cable(self._outside(), *self.nodes)
        dpdk = self.dpdk()
        for node, core in zip(self.nodes, self.worker_cores()):
            self.switches.append(self._switch(binaries, node, dpdk | {"worker_cores": [core], "file_prefix": f"{dpdk['file_prefix']}.{node.side.number}"}))
        for node, switch in zip(self.nodes, self.switches):
            switch.wait_ready()
            node.attach()
        self._prepare_hosts()
        labels = [name for name in self.node.names if name.split("@")[0] not in (world.CLIENT.name, INSPECT)]
        self.servers = stacks.Servers(self.node, labels, self.stack)

    def _prepare_hosts(self):
        """The hosts as agents leave them. Scenes then declare many different things, and the
        document's flows declare no Node, so they have no plan."""
        with self.told("hosts", refusals_pair.host_manifests()):
            for node, switch in zip(self.nodes, self.switches):
                HostAgent(switch, node.names[NODE], switch.directory, self.stack).once()

    def _outside(self):
        """The namespace of the world outside."""
        name = f"{self.tag}-{OUTSIDE}"
        self.leftovers.add(namespace=name)
        self.stack.callback(netns.remove_namespace, name)
        self.node.names[OUTSIDE], self.node.spaces[OUTSIDE] = name, netns.Space(name)
        return self.node.spaces[OUTSIDE]

    @staticmethod
    def worker_cores():
        """One for each switch, the last ones."""
        available = machine.cores()
        return available[-1], available[-2 % len(available)]

    def _switch(self, binaries, node, dpdk):
        directory = self.directory / f"node{node.side.number}"
        directory.mkdir()
        config = daemon.configuration(dpdk, node.wires(), directory, "secure", others=[node.underlay()], idle_sleep_us=self.idle_sleep_us)
        switch = daemon.Switch(binaries, directory, config, node.names[NODE])
        self.stack.callback(machine.end, switch.process)
        return switch

    def load(self):
        """Loads the document on both, as either sees it."""
        for node, switch in zip(self.nodes, self.switches):
            program = pipeline.Program(node.side)
            name_tables(switch)
            file = switch.directory / "pipeline.txt"
            file.write_text(program.bundle())
            switch.vsctl("bundle", "br0", file)
            say(f"  node {node.side.number}: {len(program.document)} flows of the document and {len(program.flows) - len(program.document)} more, "
                f"{len(program.groups)} groups")
        say(f"""\
  node 2 is node 1 with what belongs to them exchanged: {', '.join(f'{one} and {two}' for one, two in side.PAIRS[:4])}, MACs, Pods and ports
  added: to what the demo of one Node adds, {len(program.selected)} clauses of policies for client and db of the other Node, and their twins
  note: the document has IPv4 only; twins of its flows carry IPv6, in tunnels over IPv6; Pods have an MTU of {MTU}""")

    def refuse(self):
        """Programs both by the control agent, from manifests of their own, and shows what policies
        refuse, and what of that is on the wire."""
        with self.told("refusals", refusals_pair.manifests()):
            self.meet()
            capture = self.capture("refusals")
            self.play(refusals_pair.Refusals(self.node).all())
            self.judge_frames(capture.stop())

    def told(self, name, text):
        """Meanwhile both switches do as these manifests say."""
        switches = {refusals_pair.NAMES[node.side.number]: switch for node, switch in zip(self.nodes, self.switches)}
        return manifests.told(switches, self.directory / name, text)

    def direct(self):
        """A client outside that one Node takes in, and the other one answers."""
        played = direct_pair.Direct(self.node)
        with self.told("direct", direct_pair.manifests()):
            self.meet()
            self.play(played.all())

    def device(self):
        """The world outside by a device in the Pods' bridge of one Node."""
        played = device_pair.Device(self.node, self.switches)
        with self.told("device", device_pair.manifests()):
            self.meet()
            self.play(played.all())

    def single(self):
        """A Node of one family, then one of the other."""
        for family in BOTH:
            with self.told(f"single{family}", single_pair.manifests(family)):
                self.meet((family,))
                self.play(single_pair.Single(self.node, family).all())

    def meet(self, families=BOTH):
        """Waits until each Node has found the other's neighbours: what a scene counts is then its
        own."""
        for here in SIDES:
            for address in (of(here.other.of(world.CLIENT.v4), family) for family in families):
                machine.expect(f"client@{here.number} reaches {address}", lambda: self._reaches(f"client@{here.number}", address))

    def _reaches(self, source, address):
        with contextlib.suppress(Failure):
            self.node.run(source, "ping", "-n", "-c", "1", "-W", "1", address)
            return True
        return False

    def capture(self, name, limit=None):
        """Both ways of the wire, as it is seen at Node 1."""
        return Capture(self.nodes[0].spaces[NODE], UPLINK, self.directory / f"{name}.pcap", self.stack, limit)

    def sampled(self, played, samples):
        """These scenes, with the first frames of each captured for either version of IP; their
        files are added to `samples`."""

        def sampling(action):
            def run(family):
                captured = self.capture(f"sample{len(samples)}", SAMPLE)
                samples.append(captured.file)
                told = action(family)
                captured.stop()
                return told

            return run

        for title, action, rules, families in played.all():
            yield title, sampling(action), rules, families

    def show_frames(self, frames):
        """Prints some, decoded."""
        try:
            for told in wire.shown(frames):
                say(f"  {told}")
        except Failure as error:
            self.wrong.append("frames to show")
            say(f"✘ {'frames to show':<57} {error}")

    def judge_frames(self, frames):
        """Prints what is true of them, and what is not."""
        for title, found in wire.judged(frames):
            if isinstance(found, Failure):
                self.wrong.append(title)
            say(f"{'✘' if isinstance(found, Failure) else '✔'} {title:<57} {found}")

    def acts(self, binaries):
        """All that is shown."""
        required()
        say("• building two Nodes of network namespaces, a wire between them, and starting a switch in each")
        self.start(binaries)
        self.ledger = Ledgers({f"node {node.side.number}": Ledger(switch) for node, switch in zip(self.nodes, self.switches)})
        say("• what policies refuse, on Nodes that the control agent has programmed")
        self.refuse()
        say("• direct server return: what one Node takes in from outside, the other one answers by itself")
        self.direct()
        say("• an uplink that is a device in the Pods' bridge: Egress and Services on its link")
        self.device()
        say("• a Node of IPv4 alone, then one of IPv6 alone, beside one of both")
        self.single()
        say("• loading Antrea's pipeline document")
        self.load()
        self.meet()
        say("• who reaches whom on the other Node, and by which rule (packets of IPv4+IPv6)")
        capture = self.capture("scenes")
        self.play(crossing.Crossing(self.node).all())
        scenes = capture.stop()
        say("• real stacks across the wire")
        samples = []
        self.play(self.sampled(crossing.Loads(self.node, self.servers, self.args.seconds, None), samples))
        say("• frames on the wire, captured at Node 1 by tcpdump, decoded by tshark")
        self.show_frames(scenes)
        say("  frames of the scenes:")
        self.judge_frames(scenes)
        say(f"  of the real stacks, the first {SAMPLE} frames of each, of either version of IP:")
        self.judge_frames(merged(samples, self.directory / "samples.pcap"))
        self.unload()
        say("• the world outside, without a trip through the hosts: Egress IPs and Services by the uplink; the control agent programs both")
        with self.agents() as stack:
            uplink = uplink_pair.Uplink(self.node, self.switches, self.directory, stack)
            self.play(uplink.all())
            self.play(wire_errors.WireErrors(uplink).all())
            self.play(shared_ports.SharedPorts(uplink).all())
        say("• multicast between the Nodes: the control agent programs both")
        with self.agents() as stack:
            self.play(multicast_pair.Across(self.node, self.switches, self.directory, stack).all())
        say("• Traceflows from Node to Node")
        traces = PairTraces(self.node, self.switches, self.nodes[1].interface(world.WEB2), self.directory, self.stack)
        traces.tell()
        self.play(traces.all())

    def unload(self):
        """Takes the document away."""
        for switch in self.switches:
            for verb in ("del-flows", "del-groups", "del-meters"):
                switch.vsctl(verb, "br0")
            for table in world.TABLES:
                switch.vsctl("del-table", "br0", table)

    @contextlib.contextmanager
    def agents(self):
        """What agents are ended with; then nothing of what they said is in force any more."""
        with contextlib.ExitStack() as stack:
            yield stack
        for switch in self.switches:
            switch.vsctl("antrea", "reset", "--yes")

    def hints(self):
        """What one can do with it."""
        one, two = (switch.directory / "vswitch.sock" for switch in self.switches)
        names = self.node.names
        return f"""
The Nodes stay until Ctrl-C. In another terminal:
  export PATH=$PATH:{self.switches[0].binaries.resolve()} VSWITCH_SOCKET={one}     # of Node 2: {two}
  ip netns exec {names['client@1']} ping {side.FAR}                          # web2 of Node 2; ip netns lists the other namespaces
  ip netns exec {names[at(SIDES[0], NODE)]} tcpdump -ni {UPLINK}                          # the wire
  vsctl tnl-neigh-show; vsctl tnl-ports-show; vsctl route-show       # how the other Node is reached
  vsctl antrea peers; vsctl antrea trace-flow default/client-1 10.10.1.26   # what the agent declared of the other Node; what a packet meets
  vsctl dump-flows --names br0 table=L3Forwarding                    # rules with their counters"""

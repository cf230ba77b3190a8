"""The demo: builds the node, programs it, plays the scenes, prints the table, stays for the
user."""

import contextlib

from .. import daemon, machine
from ..stage import say
from . import node as network
from . import multicast, pipeline, scenes, stacks, traffic, world
from .actions import HTTP, chosen
from .agent import Agent
from .agent_scenes import AgentScenes
from .host_agent import HostAgent
from .ledger import Ledger
from .manifests import Manifests
from .table import Table


STEPS = 3
# The last scene of the story, of those of real stacks.
LAST = ("iperf3: client -> LoadBalancer",)
LOOK_S = 1  # how long the live view waits for an answer


class Show(Table):
    """The node, and its switch."""

    def start(self, binaries):
        """Namespaces, the switch in the Node's, the wires, servers in the Pods."""
        self.node = network.Node(self.tag, self.stack, self.leftovers)
        ports = self.node.wires()
        config = daemon.configuration(self.dpdk(), ports, self.directory, "secure", slow_path={"packet_ins": 20_000}, idle_sleep_us=self.idle_sleep_us)
        self.switch = daemon.Switch(binaries, self.directory, config, self.node.names[network.NODE])
        self.switches.append(self.switch)
        self.stack.callback(machine.end, self.switch.process)
        self.switch.wait_ready()
        self.node.attach()
        labels = [pod.name for pod in world.PODS if pod != world.CLIENT] + [network.NODE, network.PEER, network.OUTSIDE]
        self.servers = stacks.Servers(self.node, labels, self.stack)

    def host_agent(self):
        """An agent that has the host as it is to be for what the switch was told."""
        host = HostAgent(self.switch, self.node.names[network.NODE], self.directory, self.stack)
        host.start()
        say("  vswitch-agent --host has set up the Node's host")
        return host

    def prepare_host(self):
        """The host as agents leave it that have read the manifests. The document's flows declare no
        Node, so they have no plan."""
        with contextlib.ExitStack() as stack:
            Manifests(self.switch, self.directory, stack)
            self.host_agent().end()
        self.switch.vsctl("antrea", "reset", "--yes")

    def load(self):
        """Loads the document, corrected and completed."""
        self.prepare_host()
        self.program = program = pipeline.Program()
        for why, _ in pipeline.CORRECTIONS:
            say(f"  corrected: {why}")
        missing = ", ".join(map(str, world.ENDPOINTS))
        say(f"""\
  added: groups {missing}, which its flows use and it does not show
  added: {len(program.added)} flows for web2, an Endpoint of SNATMark's that no Pod there is; policies isolate web, so what web may not do web2 shows
  added: {len(program.datagrams)} UDP twins of its Services, and {len(program.twins)} IPv6 twins of all that (there, IPv6 is disabled)
  note: the peer is behind a plain port here, where tun_dst has no effect; --nodes 2 has tunnels
  note: Egress's pkt_mark is the switch's own; an internal port has no way to give it to the Node's kernel, which would translate by it""")
        network.name_tables(self.switch)
        program.file = self.directory / "pipeline.txt"
        program.file.write_text(program.bundle())
        self.switch.vsctl("bundle", "br0", program.file)
        say(f"  loaded: {len(world.TABLES)} tables, {len(program.document)} flows of the document and {len(program.flows) - len(program.document)} more, "
            f"{len(program.groups)} groups, meter 256, in one transaction")
        self.agent = Agent(self.switch, self.stack)
        self.ledger = Ledger(self.switch)

    def tell(self):
        """Starts the control agent on the manifests."""
        multicast.deafen(self.node, world.PODS)
        self.manifests = Manifests(self.switch, self.directory, self.stack)
        state = self.manifests.state()
        say(f"  manifests: {self.manifests.directory}")
        told = ", ".join(f"{kind['objects']} {kind['kind']}" for kind in state["kinds"])
        say(f"  the agent told: {told}; they came to {state['flows']} flows and {state['groups']} groups, in one transaction")
        for odd in state["degraded"]:
            say(f"  {odd['object']}: {'; '.join(problem['reason'] for problem in odd['problems'])}")
        self.manifests.host = self.host_agent()
        self.agent = Agent(self.switch, self.stack)
        self.ledger = Ledger(self.switch)

    def connections(self):
        """How many there are, and what the hairpin's look like."""
        lines = self.switch.vsctl("dump-conntrack").splitlines()
        say(f"  {len(lines)} connections (vsctl dump-conntrack); of the hairpin, in the zone of Services and in that of SNAT:")
        pair = [line for line in lines if line.startswith(f"tcp,orig=(src={world.WEB2.v4},dst=") and f"(src={world.WEB2.v4},dst={world.WEB2.v4}," in
                line.replace(world.LOAD_BALANCER, world.WEB2.v4)]
        for line in pair[-2:]:
            say(f"  {line}")

    def coverage(self):
        """How much of the document took packets."""
        flows = [flow for flow in self.switch.json("dump-flows", "br0") if int(flow["cookie"], 16) == pipeline.DOCUMENT]
        taken = sum(flow["packets"] > 0 for flow in flows)
        clauses = sum("conjunction(" in flow["actions"] for flow in flows)
        say(f"  of the document's flows {taken} took packets; {clauses} are clauses of conjunctions, which count none; {len(flows) - taken - clauses} were not needed")

    def hints(self):
        """What one can do with it."""
        socket = self.directory / "vswitch.sock"
        client = self.node.names[world.CLIENT.name]
        ours = "" if self.args.document else f"""
  vsctl antrea status; vsctl antrea rules                            # what the agent declared, and how often its rules were hit
  vsctl antrea flows pod/default/web; vsctl antrea services -o endpoints
  vswitch-agent --host-plan; ip -n {self.node.names[network.NODE]} route   # what the host has for the switch
  $EDITOR {self.manifests.directory}/network-policy.yaml             # a second later the switch does as it says"""
        return f"""
The node stays until Ctrl-C. In another terminal:
  export VSWITCH_SOCKET={socket} PATH=$PATH:{self.switch.binaries.resolve()}{ours}
  ip netns exec {client} curl http://{world.CLUSTER_IP}/              # a Service; ip netns lists the other namespaces
  vsctl dump-conntrack zone=65520                                    # connections, and their translations
  vsctl dump-flows --names br0 table=ServiceLB                       # rules with their counters
  vsctl trace br0 'in_port="{world.DB.port}",tcp,dl_src={world.DB.mac},dl_dst={world.WEB.mac},nw_src={world.DB.v4},nw_dst={world.WEB.v4},tp_dst=80,nw_ttl=64'
  vsctl dump-groups br0; vsctl dump-ports br0; vsctl monitor br0 --controller 62373"""

    def acts(self, binaries):
        """What is shown."""
        steps = self.args.steps
        with steps.step("a Node of network namespaces, the switch in it", "about 10 s"):
            self.start(binaries)
        with steps.step("Antrea's pipeline document" if self.args.document else "the control agent, on a cluster's YAML", "a few seconds"):
            if self.args.document:
                self.load()
                played = scenes.Scenes(self.node, self.switch, self.program, self.agent)
            else:
                self.tell()
                played = AgentScenes(self.node, self.switch, self.manifests, self.agent)
        real = stacks.Stacks(self.node, self.servers, self.args.seconds, self.other_cores)
        who = "who reaches whom, and by which rule, with packets of IPv4+IPv6"
        if self.args.all:
            with steps.step(f"all scenes: {who}", "about 7 min"):
                self.everything(played, real)
        else:
            with steps.step(f"twelve scenes: {who}", "about 20 s"):
                self.play(played.story())
                self.play(chosen(real.all(), LAST))
        say(f"  {steps.all_in()} in all" + ("" if self.args.all else "; all scenes: --all"))

    def everything(self, played, real):
        """All scenes."""
        self.play(played.all())
        self.connections()
        say("• real stacks through every kind of Service")
        self.play(real.all())
        if self.args.document:
            self.coverage()

    def seen(self):
        """For the live view: whom two Services lead to at this moment."""
        for source, address, of in ((world.CLIENT.name, world.CLUSTER_IP, "ClusterIP"), (network.OUTSIDE, world.LOAD_BALANCER, "LoadBalancer")):
            try:
                answer = f"{traffic.ask(self.node.names[source], address, HTTP, LOOK_S)[0]} answers"
            except OSError as error:
                answer = f"no answer: {error}"
            yield f"{source} -> {of} {address}: {answer}"

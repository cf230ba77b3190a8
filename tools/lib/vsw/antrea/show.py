"""The demo: builds the node, programs it, plays the scenes, prints the table, stays for the user."""

import signal
import time

from .. import daemon, machine
from ..machine import Failure, Stop
from ..stage import Stage, say
from . import node as network
from . import pipeline, scenes, stacks, world
from .agent import Agent
from .ledger import Ledger


class Show(Stage):
    """The node, its switch, and what went wrong so far."""

    def __init__(self, args, stack):
        super().__init__(args, stack)
        self.wrong = []

    def start(self, binaries):
        """Namespaces, the switch in the Node's, the wires, servers in the Pods."""
        self.node = network.Node(self.tag, self.stack, self.leftovers)
        ports = self.node.wires()
        config = daemon.configuration(self.dpdk(), ports, self.directory, "secure", idle_sleep_us=self.idle_sleep_us)
        self.switch = daemon.Switch(binaries, self.directory, config, self.node.names[network.NODE])
        self.stack.callback(machine.end, self.switch.process)
        self.switch.wait_ready()
        self.node.attach()
        labels = [pod.name for pod in world.PODS if pod != world.CLIENT] + [network.NODE, network.PEER, network.OUTSIDE]
        self.servers = stacks.Servers(self.node, labels, self.stack)

    def load(self):
        """Loads the document, corrected and completed."""
        self.program = program = pipeline.Program()
        for why, _ in pipeline.CORRECTIONS:
            say(f"  corrected: {why}")
        missing = ", ".join(map(str, world.ENDPOINTS))
        say(f"""\
  added: groups {missing}, which its flows use and it does not show
  added: {len(program.added)} flows for web2, an Endpoint of SNATMark's that no Pod there is; policies isolate web, so what web may not do web2 shows
  added: {len(program.datagrams)} UDP twins of its Services, and {len(program.twins)} IPv6 twins of all that (there, IPv6 is disabled)
  note: tunnels are to come; the peer is behind a plain port, and tun_dst has no effect
  note: Egress's pkt_mark is the switch's own; an internal port has no way to give it to the Node's kernel, which would translate by it""")
        network.name_tables(self.switch)
        program.file = self.directory / "pipeline.txt"
        program.file.write_text(program.bundle())
        self.switch.vsctl("bundle", "br0", program.file)
        say(f"  loaded: {len(world.TABLES)} tables, {len(program.document)} flows of the document and {len(program.flows) - len(program.document)} more, "
            f"{len(program.groups)} groups, meter 256, in one transaction")
        self.agent = Agent(self.switch, self.stack)
        self.ledger = Ledger(self.switch)

    def play(self, played):
        """All of these scenes."""
        for title, action, rules, families in played.all():
            self.scene(title, action, rules, families)

    def scene(self, title, action, rules, families):
        """One scene, for each IP version: prints who reached whom, and by which rule."""
        results, counts = {}, []
        try:
            for family in families:
                before = self.ledger.read()
                what = f"IPv{family}"
                results[family] = action(family)
                counts.append(self.ledger.expect(before, rules, family))
        except Failure as error:
            self.wrong.append(title)
            say(f"✘ {title:<57} {what}: {error}")
            if self.switch.process.poll() is not None:
                raise Failure(f"vswitchd ended with status {self.switch.process.returncode}") from error
            return
        if len(set(results.values())) == 1:
            told = next(iter(results.values()))
            say(f"✔ {title:<57} {told}")
        else:
            first, *others = (f"IPv{family}: {text}" for family, text in results.items())
            say(f"✔ {title:<57} {first}")
            for other in others:
                say(f"  {'':<57} {other}")
        # One line: the IPv4 rule, with packets of the rule and of its IPv6 twin.
        texts = [f"{rows[0][0]} {'+'.join(str(count) for _, count in rows)}" for rows in zip(*counts)]
        if texts:
            say(f"    by {', '.join(texts)}")

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

    def checksums(self):
        """No receiver saw a wrong one."""
        if errors := self.node.checksum_errors():
            self.wrong.append("checksums")
            say(f"✘ wrong checksums arrived: {errors}")
        else:
            say("✔ no wrong checksum arrived in any namespace")

    def judge(self):
        """Failure when something was wrong."""
        if self.wrong:
            raise Failure(f"{len(self.wrong)} wrong: {'; '.join(self.wrong)}")

    def stay(self):
        """Tells what one can do, until Ctrl-C."""
        socket = self.directory / "vswitch.sock"
        client = self.node.names[world.CLIENT.name]
        say(f"""
The node stays until Ctrl-C. In another terminal:
  export VSWITCH_SOCKET={socket} PATH=$PATH:{self.switch.binaries.resolve()}
  ip netns exec {client} curl http://{world.CLUSTER_IP}/              # a Service; ip netns lists the other namespaces
  vsctl dump-conntrack zone=65520                                    # connections, and their translations
  vsctl dump-flows --names br0 table=ServiceLB                       # rules with their counters
  vsctl trace br0 'in_port="{world.DB.port}",tcp,dl_src={world.DB.mac},dl_dst={world.WEB.mac},nw_src={world.DB.v4},nw_dst={world.WEB.v4},tp_dst=80,nw_ttl=64'
  vsctl dump-groups br0; vsctl dump-ports br0; vsctl monitor br0 --controller 62373""")
        while self.switch.process.poll() is None:
            time.sleep(0.5)
        raise Failure(f"vswitchd ended with status {self.switch.process.returncode}")


def show(args, stack, binaries):
    """All of it."""
    demo = Show(args, stack)
    try:
        say("• building a node of network namespaces, starting the switch in it")
        demo.start(binaries)
        say("• loading Antrea's pipeline document")
        demo.load()
        say("• who reaches whom, and by which rule (packets of IPv4+IPv6)")
        demo.play(scenes.Scenes(demo.node, demo.switch, demo.program, demo.agent))
        demo.connections()
        say("• real stacks through every kind of Service")
        demo.play(stacks.Stacks(demo.node, demo.servers, args.seconds, demo.other_cores))
        demo.coverage()
        demo.checksums()
        if args.live:
            demo.stay()
        demo.judge()
    except Failure as error:
        tail = demo.switch.log_tail() if hasattr(demo, "switch") else ""
        raise Failure(f"{error}" + (f"\n--- the end of vswitchd's log\n{tail}" if tail and tail not in str(error) else "")) from error
    except Stop as stop:
        if not (args.live and stop.signum == signal.SIGINT):
            raise
        demo.judge()

"""The demo: two Nodes with a gateway bridge each, and a table of who reaches whom by which of its
flows."""

import concurrent.futures
import errno

from .. import machine
from ..antrea import pair, traffic
from ..antrea.actions import BOTH
from ..antrea.table import MANY, Table
from ..machine import Failure
from ..stage import say
from . import world
from .bed import Bed
from .failures import Failures
from .moved import Moved, told
from .rows import rows
from .world import HOSTS, UNDERLAY, of

ASK = {"TCP": traffic.ask, "UDP": traffic.ask_datagram}
LIMIT_S = 20  # for an answer: longer than a packet is sent again
MOST = 60  # connections until each Endpoint has answered
WIDTH = 68  # of titles
MODES = {"shared": "Shared", "local": "Local"}


class Gateway(Table):
    """Both Nodes, and what is shown of them."""

    SWITCHES = 2

    def start(self, binaries):
        """Namespaces, switches, agents, and who answers."""
        self.mode = MODES[self.args.gateway]
        self.node = self.bed = Bed(self.tag, self.directory, self.stack, lambda name: self.leftovers.add(namespace=name))
        dpdk = self.dpdk()
        for host, core in zip(HOSTS, pair.Pair.worker_cores()):
            own = dpdk | {"worker_cores": [core], "file_prefix": f"{dpdk['file_prefix']}.{host.number}"}
            self.switches.append(self.bed.start(host, binaries, own, self.idle_sleep_us))
        for host in HOSTS:
            self.bed.switches[host].wait_ready()
            self.bed.attach(host)
        self.bed.serve()
        self.bed.declare(self.mode)
        for host in HOSTS:
            self.bed.follow(host)
        for host in HOSTS:
            self.bed.wait_told(host, self.mode)
        self.moved, self.owners = Moved(self.bed.switches, self.stack), world.owners()
        self.pool = concurrent.futures.ThreadPoolExecutor(len(BOTH))
        self.stack.callback(self.pool.shutdown)

    def acts(self, binaries):
        """All that is shown."""
        say("• building two Nodes of network namespaces, a wire between them, and starting a switch and two agents in each")
        self.start(binaries)
        say(f"• mode {self.mode}: the scenarios of OVN-Kubernetes' documents, by sockets of real kernels\n"
            f"  flows of {UNDERLAY} that took packets, and no others: table:priority, Node 1 | Node 2; in parentheses: of TCP alone\n"
            f"  {'row':<4}{'who asks whom':<{WIDTH}}{'by':<19}{'who answers':<17}{'address it sees':<28}by which flows")
        for row in rows(self.mode):
            self.show(row)
        say("• what changes, and what goes wrong")
        for title, action in Failures(self.bed, self.mode).all():
            self.failure(title, action)

    def failure(self, title, action):
        """One scene: prints what happened."""
        try:
            say(f"✔ {title:<{WIDTH + 4}}{action()}")
        except machine.TROUBLE as error:
            self.wrong.append(title)
            say(f"✘ {title:<{WIDTH + 4}}{machine.words_of(error)}")
            self.alive(error)

    def show(self, row):
        """One row: prints what happened, and compares it with what is to happen."""
        title = f"{row.number:<4}{f'{row.source} -> {row.title}':<{WIDTH}}"
        lines, protocol = {}, ""
        try:
            for protocol in ASK:
                for family, heard in self._asked(row, protocol).items():
                    lines.setdefault(heard, []).append((protocol, family))
        except machine.TROUBLE as error:
            self.wrong.append(f"{row.number} {row.title}")
            words = machine.words_of(error)
            say(f"✘ {title}{protocol}: {words}")
            self.alive(error)
            self.evidence(words)
            if len(self.wrong) >= MANY:
                self.judge()
            return
        flows, start = self._flows(row), f"✔ {title}"
        for (who, sees), asked in lines.items():
            words = [*dict.fromkeys(protocol for protocol, _ in asked), *dict.fromkeys(f"IPv{family}" for _, family in asked)]
            say(f"{start}{' '.join(words):<19}{who:<17}{sees:<28}{flows}")
            start = f"  {'':<{len(title)}}"

    @staticmethod
    def _flows(row):
        """Flows that have counted, of either Node."""
        by_tcp, by_udp = row.wanted("TCP"), row.wanted("UDP")
        ways = " | ".join(told(by_tcp[host], by_tcp[host] - by_udp[host]) for host in HOSTS)
        return f"{ways}; no packet at a host" if row.past_hosts else ways

    def _asked(self, row, protocol):
        """{version of IP: (who answers, whose address it sees)}; Failure when it is not as the row
        says, or others than its flows count."""
        before, came = self.moved.read(), self.bed.packets_at_hosts()
        heard = dict(zip(BOTH, self.pool.map(lambda family: self._heard(row, protocol, family), BOTH)))
        self.moved.wait(before, dict.fromkeys(BOTH, row.wanted(protocol)))
        if row.past_hosts:
            now = self.bed.packets_at_hosts()
            if more := [f"{now[host] - came[host]} packets came to the host of {host.name}" for host in HOSTS if now[host] != came[host]]:
                raise Failure("; ".join(more))
        return heard

    def _heard(self, row, protocol, family):
        """(who answers, whose address it sees), as they are shown."""
        ask = lambda: ASK[protocol](self.bed.names[row.source], of(row.address, family), row.port, LIMIT_S)  # noqa: E731
        answers = {}
        for _ in range(MOST):
            try:
                who, sees = ask()
            except OSError as error:
                if error.errno != errno.ECONNREFUSED or row.answers:
                    raise Failure(f"IPv{family}: {error}") from error
                return "refused", "-"
            seen = self.owners.get(sees, sees)
            if row.answers.get(who) != seen:
                raise Failure(f"IPv{family}: {who} answers and sees {seen}; expected {row.answers or 'a refusal'}")
            answers[who] = seen
            if len(answers) == len(row.answers):
                return " or ".join(sorted(answers)), " or ".join(answers[one] for one in sorted(answers))
        raise Failure(f"IPv{family}: of {MOST} connections all reached {', '.join(answers)}; expected {', '.join(row.answers)} as well")

    def hints(self):
        """What one can do with it."""
        one, two = (switch.directory / "vswitch.sock" for switch in self.switches)
        names, host = self.bed.names, HOSTS[0]
        return f"""
The Nodes stay until Ctrl-C. In another terminal:
  export PATH=$PATH:{self.switches[0].binaries.resolve()} VSWITCH_SOCKET={one}     # of Node 2: {two}
  vsctl antrea gateway                                      # flows of the gateway bridge, and what each is for
  vswitch-agent --host-plan                                 # what the agent has given the host
  ip netns exec {names['host@1']} nft list table inet vswitch        # the same, as the kernel has it; also: ip route, ip rule, ip neighbour
  ip netns exec {names['outside']} python3 -c "from urllib.request import *; print(urlopen('http://{host.address}:31747').read())"
  edit {self.bed.manifests}/cluster.yaml                   # a second later switches and hosts do as it says"""

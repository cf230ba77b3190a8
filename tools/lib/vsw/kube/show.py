"""The demo: a cluster of two Nodes from nothing, by an API server, a container runtime, the CNI
plug-in, agents and switches."""

from .. import machine
from ..antrea import pair
from ..antrea.table import Table
from ..gateway.world import HOSTS
from ..stage import say
from .api import Api
from .bed import Bed
from .scenes import Scenes

WIDTH = 72  # of titles
MANY = 3  # scenes that go wrong tell enough: each needs those before it


class Cluster(Table):
    """Both Nodes, and what is shown of them."""

    SWITCHES = 2

    def start(self, binaries):
        """API server, Nodes, runtimes, agents."""
        self.node = self.bed = Bed(self.tag, binaries, self.directory, self.stack, lambda name: self.leftovers.add(namespace=name))
        api = Api(binaries, self.bed.names["outside"], self.directory, self.stack)
        say(f"• {api.words}")
        self.bed.use(api)
        dpdk = self.dpdk()
        for host, core in zip(HOSTS, pair.Pair.worker_cores()):
            own = dpdk | {"worker_cores": [core], "file_prefix": f"{dpdk['file_prefix']}.{host.number}"}
            self.bed.start_switch(host, own, self.idle_sleep_us)
        self.switches = list(self.bed.switches.values())
        for host in HOSTS:
            self.bed.start_agent(host)
            self.bed.start_runtime(host)
        for host in HOSTS:
            self.bed.wait_ready(host)

    def acts(self, binaries):
        """All that is shown."""
        say("• building a cluster: two Nodes of network namespaces, a wire, an API server, and on each Node a switch, an agent and containerd")
        self.start(binaries)
        for title, action in Scenes(self.bed).all():
            self.scene_of(title, action)
            self.switches = list(self.bed.switches.values())

    def scene_of(self, title, action):
        """One scene: prints what happened."""
        try:
            say(f"✔ {title:<{WIDTH}}{action()}")
        except machine.TROUBLE as error:
            self.wrong.append(title)
            say(f"✘ {title:<{WIDTH}}{machine.words_of(error)}")
            self.alive(error)
            if len(self.wrong) >= MANY:
                self.judge()

    def hints(self):
        """What one can do."""
        return (f"the cluster stays until Ctrl-C. For instance:\n"
                f"  kubectl --kubeconfig {self.bed.api.kubeconfig} get pods -o wide   # in namespace {self.bed.names['outside']}\n"
                f"  {' '.join(self.switches[0].command('antrea', 'pods'))}")

"""Two Nodes of a cluster, in network namespaces: kernels, switches, agents and container runtimes.
An API server is on the wire between them. Nothing is configured by hand but the switch."""

from .. import daemon, machine, netns
from ..antrea import traffic
from ..antrea.manifests import document
from ..antrea.node import Spaces
from ..cni.cri import Runtime
from ..gateway.world import GATEWAY, HOSTS, OUTSIDE, OUTSIDE_PORT, PATCH, TUNNEL, UNDERLAY, UPLINK, WIRE
from .kubectl import Kubectl
from .kubelet import Kubelet
from .objects import MANIFESTS, documents

CRDS = machine.ROOT / "deploy" / "crds"
BRIDGE = "br-int"
API_PORT, HEALTH_PORT = 6443, 9478
SERVICE_CIDR = "10.96.0.0/16"
TAINT = "node.vswitch.io/agent-not-ready"
EGRESS_IP = "172.18.0.9"
LINK_LEN = 16


class Bed(Spaces):
    """All of it. `noted` hears the name of each namespace before it is made."""

    def __init__(self, tag, binaries, directory, stack, noted):
        super().__init__({short: f"{tag}-{short.replace('@', '')}" for short in ("outside", *(host.at("host") for host in HOSTS))})
        self.binaries, self.directory, self.stack = binaries, directory, stack
        self.switches, self.agents, self.configs, self.kubelets = {}, {}, {}, {}
        for short, name in self.names.items():
            noted(name)
            stack.callback(netns.remove_namespace, name)
            self.spaces[short] = netns.Space(name)
        self.ip("outside", "link", "add", WIRE, "address", "02:42:df:4d:b6:d2", "type", "bridge", "mcast_snooping", "0")
        self.run("outside", "ethtool", "-K", WIRE, "tx", "off")
        self.ip("outside", "link", "set", WIRE, "up")
        self.ip("outside", "address", "add", f"{OUTSIDE}/{LINK_LEN}", "dev", WIRE)
        for host in HOSTS:
            self._wire(host)
        traffic.serve(self.names["outside"], "outside", OUTSIDE_PORT, stack)

    def _wire(self, host):
        """The cable of a Node."""
        end = f"node{host.number}"
        self.ip(host.at("host"), "link", "add", UPLINK, "type", "veth", "peer", "name", end, "netns", self.names["outside"])
        # As on a cable, checksums are there.
        self.run(host.at("host"), "ethtool", "-K", UPLINK, "tx", "off")
        self.run("outside", "ethtool", "-K", end, "tx", "off")
        self.ip("outside", "link", "set", end, "master", WIRE, "up")
        # The host's kernel sees the card's packets as well; it is not to answer.
        self.ip(host.at("host"), "link", "set", UPLINK, "addrgenmode", "none")
        self.ip(host.at("host"), "link", "set", UPLINK, "arp", "off", "up")

    def start_switch(self, host, dpdk, idle_sleep_us):
        """Starts the switch of a Node, and gives the host its address on the wire."""
        ports = [{"name": GATEWAY, "type": "internal"},
                 {"name": TUNNEL, "type": "geneve", "no_flood": True, "options": {"remote_ip": "flow", "key": "flow"}},
                 {"name": PATCH[0], "type": "patch", "peer": PATCH[1], "no_flood": True}]
        underlay = [{"name": UPLINK, "type": "af_packet", "interface": UPLINK},
                    {"name": PATCH[1], "type": "patch", "peer": PATCH[0], "no_flood": True},
                    {"name": UNDERLAY, "type": "internal", "addresses": [f"{host.address}/{LINK_LEN}"]}]
        directory = self.directory / host.name
        directory.mkdir(exist_ok=True)
        others = [({"name": UNDERLAY, "fail_mode": "standalone"}, underlay)]
        text = daemon.configuration(dpdk, ports, directory, "secure", others=others, idle_sleep_us=idle_sleep_us,
                                    conntrack={"state_file": str(directory / "connections")})
        self.configs[host] = text.replace('name = "br0"', f'name = "{BRIDGE}"')
        self.launch_switch(host)

    def launch_switch(self, host):
        """Starts the switch of a Node (again)."""
        directory = self.directory / host.name
        switch = self.switches[host] = daemon.Switch(self.binaries, directory, self.configs[host], self.names[host.at("host")])
        self.stack.callback(machine.end, switch.process)
        switch.wait_ready()
        machine.expect(f"the switch makes {UNDERLAY}", lambda: UNDERLAY in self.ip(host.at("host"), "-o", "link", "show"))
        self.ip(host.at("host"), "link", "set", UNDERLAY, "address", host.mac, "up")
        self.addresses(host.at("host"), UNDERLAY, [f"{host.address}/{LINK_LEN}"])
        self.ip(host.at("host"), "route", "replace", "default", "via", OUTSIDE)

    def use(self, api):
        """Takes this API server, and makes the cluster: kinds, Nodes, and one NodeConfig."""
        self.api, self.kubectl = api, Kubectl(api, self.names["outside"])
        rights = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
        self.kubectl.apply(*(one for one in documents(MANIFESTS.read_text()) if one["kind"] in rights))
        for file in sorted(CRDS.glob("*.yaml")):
            self.kubectl("apply", "--validate=false", "-f", file)
        crds = [one["metadata"]["name"] for one in self.kubectl.json("get", "customresourcedefinitions")["items"]]
        self.kubectl("wait", "--for=condition=Established", f"--timeout={machine.PATIENCE_S}s", *(f"customresourcedefinition/{name}" for name in crds))
        for host in HOSTS:
            spec = {"podCIDR": host.pods, "podCIDRs": [host.pods], "taints": [{"key": TAINT, "effect": "NoSchedule"}]}
            self.kubectl.apply(document("v1", "Node", host.name, metadata={
                "labels": {"kubernetes.io/hostname": host.name}, "annotations": {"vswitch/mac": host.mac}}, spec=spec))
            addresses = [{"type": "InternalIP", "address": host.address}, {"type": "Hostname", "address": host.name}]
            self.kubectl.status(f"/api/v1/nodes/{host.name}", {"addresses": addresses})
        uplink = {"port": PATCH[0], "underlayBridge": UNDERLAY, "nextHops": [{"address": OUTSIDE}]}
        spec = {"bridge": BRIDGE, "serviceCIDRs": [SERVICE_CIDR], "transportInterfaceCIDRs": [f"172.18.0.0/{LINK_LEN}"], "uplink": uplink}
        self.kubectl.apply(document("vswitch.io/v1", "NodeConfig", "default", spec=spec))

    def start_agent(self, host):
        """Starts the agent of a Node (again)."""
        directory = self.directory / host.name
        argv = ["ip", "netns", "exec", self.names[host.at("host")], self.binaries / "vswitch-agent", "--socket", self.switches[host].socket,
                "--state", directory / "agent-state", "--cluster", "--kubeconfig", self.api.agent_kubeconfig, "--node", host.name,
                "--cni", directory / "cni.sock", "--cni-state", directory / "cni", "--host", "--health", f"127.0.0.1:{HEALTH_PORT}"]
        with open(directory / "vswitch-agent.log", "ab") as log:
            self.agents[host] = machine.spawn(argv, stdout=log, stderr=log)
        self.stack.callback(machine.end, self.agents[host])

    def stop_agent(self, host):
        """Ends the agent of a Node."""
        machine.end(self.agents[host])

    def wait_ready(self, host):
        """Waits until the agent says that it is ready."""
        machine.expect(f"the agent of {host.name} is ready", lambda: self._is_ready(host), lambda: self.agent_log(host))

    def _is_ready(self, host):
        if self.agents[host].poll() is not None:
            raise machine.Failure(f"vswitch-agent of {host.name} ended with status {self.agents[host].returncode}; its log:\n{self.agent_log(host)}")
        try:
            self.run(host.at("host"), "curl", "-sf", "--max-time", "5", f"http://127.0.0.1:{HEALTH_PORT}/readyz")
        except machine.Failure:
            return False
        return True

    def agent_log(self, host):
        """The end of its log."""
        return (self.directory / host.name / "vswitch-agent.log").read_text(errors="replace")[-3000:]

    def start_runtime(self, host):
        """Starts the container runtime of a Node; it finds the plug-in as it would on a host."""
        directory = self.directory / host.name / "runtime"
        directory.mkdir()
        config = {"type": "vswitch", "name": "pods", "cniVersion": "1.0.0", "socket": str(self.directory / host.name / "cni.sock"),
                  "ipam": {"type": "host-local", "dataDir": str(self.directory / host.name / "ipam")}}
        runtime = Runtime(directory, self.binaries / "vswitch-cni", config, self.stack.callback, self.names[host.at("host")])
        self.kubelets[host] = Kubelet(self.kubectl, host.name, runtime)
        self.stack.callback(self.kubelets[host].end)

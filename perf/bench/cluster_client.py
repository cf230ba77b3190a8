"""An agent of a big cluster: a program of its own, since the generated client needs Debian's
Python. Each line of its input is a JSON list, the name of a command and its arguments; each line of
its output is what came of it. Arguments: the switch's socket, addresses of Pods that the cluster
has.

The cluster: Pods on Nodes of 100, this Node's first; half as many Services as Pods, of 20 endpoints
each; half as many policies, of three rules each. Endpoints, members of groups and ports are drawn
from pools, so that Services and rules share them."""

import json
import random
import sys
import time

from antrea.v1 import common_pb2 as common
from antrea.v1 import network_policy_pb2 as policy
from antrea.v1 import node_pb2 as node
from antrea.v1 import peer_node_pb2 as peer
from antrea.v1 import pod_pb2 as pod
from antrea.v1 import service_pb2 as service
from antrea.v1 import sync_pb2 as sync
from stubs import Stub, connect
from vswitch.v1 import common_pb2 as vswitch

PER_NODE, ENDPOINTS, RULES = 100, 20, 3
GROUP_MEMBERS, PORT_POOL = 10, 300
ANTREA_EVERY = 5  # of so many policies one is Antrea's
BIG, BIG_RULES = "all Pods", 5  # a group of everybody, and how many rules name it
BATCH = 1000  # objects in a message
NODE = "node-0"
# A Service whose only endpoint is this Pod: who reaches it, met the whole sync
WAITER_SERVICE, WAITER = "10.111.255.254", "10.10.0.99"


def mac(text):
    return vswitch.MacAddress(octets=bytes.fromhex(text.replace(":", "")))


class Cluster:
    """What is to be. `traffic` are the client's and the server's (address, MAC) of the connections
    that are measured; they are Pods of this Node beside the others, bound by a policy of their
    own."""

    def __init__(self, pods, traffic):
        self.pods, self.traffic = pods, traffic
        self.chance = random.Random(8)

    def address(self, number):
        """Of a Pod: 10.10.NODE.x; the first ones are this Node's. The measured Pods have addresses
        of their own."""
        return f"10.10.{number // PER_NODE}.{101 + number % PER_NODE}"

    def config(self):
        """The Node."""
        return node.NodeConfig(
            name=NODE, bridge="br0", pod_cidrs=["10.10.0.0/24"], service_cidrs=["10.96.0.0/12"], transport_addresses=["172.16.0.1/16"],
            gateway=node.Gateway(port="gw", mac=mac("ba:5e:d1:55:aa:c0"), addresses=["10.10.0.1"]), tunnel=node.Tunnel(port="tun"))

    def few(self, aside=False):
        """The Pods that are measured, and their policies: the client may speak TCP to the server,
        and nothing else. `aside`: they have ports of Pods that come later."""
        for name, spare, (address, own) in zip(("client", "web"), ("p0", "p1"), self.traffic):
            yield sync.Object(pod=pod.Pod(name=f"measured/{name}", port=spare if aside else name, addresses=[address], mac=mac(own)))
            yield sync.Object(address_group=policy.AddressGroup(name=f"the {name}", members=[policy.GroupMember(pod=f"measured/{name}")]))
            yield sync.Object(applied_to_group=policy.AppliedToGroup(name=f"the {name}", pods=[f"measured/{name}"]))
        http = policy.PortMatch(protocol=common.PROTOCOL_TCP, port=80)
        yield self.of_measured("web", http, "the client", policy.DIRECTION_INGRESS)
        yield self.of_measured("client", http, "the web", policy.DIRECTION_EGRESS)

    @staticmethod
    def of_measured(name, ports, peer_group, direction, suffix=""):
        """A policy of a measured Pod."""
        groups = [peer_group] if peer_group else []
        rule = policy.Rule(id="r", direction=direction, peer=policy.RulePeer(address_groups=groups), ports=[ports])
        return sync.Object(network_policy=policy.NetworkPolicy(
            name=f"np:measured/{name}{suffix}", kind=policy.POLICY_KIND_K8S, applied_to=[f"the {name}"], rules=[rule],
            isolates_ingress=direction == policy.DIRECTION_INGRESS, isolates_egress=direction == policy.DIRECTION_EGRESS))

    def all(self):
        """Everything."""
        yield from self.few()
        yield sync.Object(pod=pod.Pod(name="measured/waiter", port="waiter", addresses=[WAITER], mac=mac("02:00:00:00:01:00")))
        yield self.of_measured("client", policy.PortMatch(protocol=common.PROTOCOL_UDP, port=53), None, policy.DIRECTION_EGRESS, "-dns")
        for number in range(1, self.pods // PER_NODE):
            yield sync.Object(peer_node=peer.PeerNode(
                name=f"node-{number}", pod_cidrs=[f"10.10.{number}.0/24"], transport_addresses=[f"172.16.{1 + number}.1"]))
        for number in range(PER_NODE):
            yield sync.Object(pod=pod.Pod(
                name=f"ns/pod-{number}", port=f"p{number}", addresses=[self.address(number)], mac=mac(f"02:00:00:00:00:{number:02x}")))
        yield from self.services()
        yield from self.policies()

    def services(self):
        for number in range(self.pods // 2):
            yield self.service(f"ns/svc-{number}", f"10.{96 + number // 60_000}.{number // 250}.{1 + number % 250}", common.PROTOCOL_TCP, 80)
            yield sync.Object(endpoints=self.endpoints(number))
        yield self.service("ns/waiter", WAITER_SERVICE, common.PROTOCOL_UDP, 53)
        waiter = service.Endpoint(address=WAITER, port=53, node=NODE, ready=True)
        yield sync.Object(endpoints=service.Endpoints(service="ns/waiter", port="p", endpoints=[waiter]))

    @staticmethod
    def service(name, address, protocol, port):
        return sync.Object(service=service.Service(
            name=name, cluster_ips=[address], ports=[service.ServicePort(name="p", protocol=protocol, port=port)]))

    def endpoints(self, number, moved=False):
        """Those of a Service; one of them may be at another port."""
        made = service.Endpoints(service=f"ns/svc-{number}", port="p")
        for place in range(number * ENDPOINTS, (number + 1) * ENDPOINTS):
            where = place % self.pods
            made.endpoints.add(address=self.address(where), port=8000 + place // self.pods, node=f"node-{where // PER_NODE}", ready=True)
        if moved:
            made.endpoints[0].port = 9000
        return made

    def policies(self):
        everybody = [policy.GroupMember(address=self.address(number)) for number in range(self.pods)]
        yield sync.Object(address_group=policy.AddressGroup(name=BIG, members=everybody))
        groups = self.pods // 10
        for number in range(groups):
            members = [everybody[n] for n in self.chance.sample(range(self.pods), GROUP_MEMBERS)]
            yield sync.Object(address_group=policy.AddressGroup(name=f"group {number}", members=members))
        for number in range(PER_NODE):
            pods = [f"ns/pod-{n}" for n in self.chance.sample(range(PER_NODE), 3)]
            yield sync.Object(applied_to_group=policy.AppliedToGroup(name=f"pods {number}", pods=pods))
        for number in range(self.pods // 2):
            yield sync.Object(network_policy=self.policy(number, groups))

    def policy(self, number, groups):
        antrea = number % ANTREA_EVERY == 0
        rules = []
        for place in range(RULES):
            direction = policy.DIRECTION_EGRESS if place == 2 else policy.DIRECTION_INGRESS
            names = [f"group {n}" for n in self.chance.sample(range(groups), 2)] + [BIG] * (number < BIG_RULES and place == 0)
            ports = [policy.PortMatch(protocol=common.PROTOCOL_TCP, port=1000 + n) for n in self.chance.sample(range(PORT_POOL), 2)]
            action = policy.RULE_ACTION_DROP if antrea and place == 1 else policy.RULE_ACTION_ALLOW
            rules.append(policy.Rule(id=f"r{place}", direction=direction, action=action, peer=policy.RulePeer(address_groups=names), ports=ports))
        applied = [f"pods {self.chance.randrange(PER_NODE)}"]
        if antrea:
            return policy.NetworkPolicy(
                name=f"anp:ns/{number}", kind=policy.POLICY_KIND_ANTREA, tier=250, priority=1 + number // 25, applied_to=applied, rules=rules)
        return policy.NetworkPolicy(
            name=f"np:ns/{number}", kind=policy.POLICY_KIND_K8S, applied_to=applied, isolates_ingress=True, isolates_egress=True, rules=rules)


class Client:
    """What can be asked for."""

    def __init__(self, socket, pods, traffic):
        channel = connect(socket)
        self.node = Stub(channel, "antrea.v1.node", "NodeService")
        self.sync_service = Stub(channel, "antrea.v1.sync", "SyncService")
        self.proxy = Stub(channel, "antrea.v1.service", "ProxyService")
        self.policy = Stub(channel, "antrea.v1.network_policy", "NetworkPolicyService")
        self.cluster, self.round = Cluster(pods, traffic), 0

    def few(self):
        """The Node, and what is measured."""
        self.node.Initialize(node.InitializeRequest(node=self.cluster.config()))
        return self._sync(self.cluster.few())

    def aside(self):
        """The measured Pods are at other ports, so that theirs may be exchanged: were they removed,
        their connections would end."""
        return self._sync(self.cluster.few(aside=True))

    def all(self):
        """The whole cluster."""
        self.cluster.chance.seed(8)
        return self._sync(self.cluster.all())

    def prepare(self):
        """As a sync's messages, so that making them is not measured with it."""
        start = time.monotonic()
        self.cluster.chance.seed(8)
        self.prepared = list(self.cluster.all())
        return {"objects": len(self.prepared), "prepare_s": time.monotonic() - start}

    def prepared_sync(self):
        """What was prepared."""
        return self._sync(self.prepared)

    def _sync(self, objects):
        self.round += 1
        objects = list(objects)
        spent = 0.0

        def requests():
            yield sync.SyncRequest(begin=sync.SyncBegin(round=self.round))
            for first in range(0, len(objects), BATCH):
                yield sync.SyncRequest(objects=objects[first:first + BATCH])
            nonlocal spent
            spent = time.monotonic() - start
            yield sync.SyncRequest(commit=sync.SyncCommit(objects=len(objects)))

        start = time.monotonic()
        answer = self.sync_service.Sync(requests())
        elapsed = time.monotonic() - start
        if not (answer.result.applied and answer.gate_open) or answer.result.counts["REFUSED"]:
            raise ValueError(f"the sync was not applied: {str(answer)[:2000]}")
        return {"elapsed_s": elapsed, "sent_s": spent, **self._result(answer.result)}

    @staticmethod
    def _result(result):
        return {"took_ms": result.took_ms, "flows": result.flows_changed, "groups": result.groups_changed, "counts": dict(result.counts)}

    def endpoint(self, times):
        """One endpoint of a Service becomes another, and back, each time of another Service."""
        def change(number):
            request = service.ApplyEndpointsRequest(sets=[self.cluster.endpoints(number // 2, moved=number % 2 == 0)])
            return lambda: self.proxy.ApplyEndpoints(request)

        return self._changes(times, change)

    def address(self, times):
        """One address joins the group of everybody, and leaves it."""
        def change(number):
            member = [policy.GroupMember(address=f"10.200.0.{1 + number // 2}")]
            update = policy.AddressGroupUpdate(name=BIG, **{"remove" if number % 2 else "add": member})
            request = policy.UpdateAddressGroupsRequest(updates=[update])
            return lambda: self.policy.UpdateAddressGroups(request)

        return self._changes(times, change)

    def _changes(self, times, change):
        spent = []
        for number in range(times):
            call = change(number)
            start = time.monotonic()
            answer = call()
            spent.append(1000 * (time.monotonic() - start))
            if not answer.result.applied or not answer.result.flows_changed:
                raise ValueError(f"the change was not applied: {str(answer)[:2000]}")
        return {"ms": spent}

    def state(self):
        """Objects and what they take."""
        state = self.sync_service.GetState(sync.GetStateRequest())
        return {"flows": state.flows, "groups": state.groups, "buckets": state.buckets, "clauses": state.clauses,
                "degraded": [f"{each.object.name}: {each.problems[0].reason}" for each in state.degraded[:3]]}


def main():
    socket, pods, traffic = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    client = Client(socket, pods, traffic)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = getattr(client, name)(*arguments)
        except Exception as error:  # whatever it is, who asked is to hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

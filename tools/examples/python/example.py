#!/usr/bin/python3
"""A Node with three Pods, a Service and a policy, told to a switch without anything by gRPC; then
what was counted. See tools/examples/README.md."""

import argparse
import sys

import grpc
from antrea.v1 import common_pb2 as common
from antrea.v1 import network_policy_pb2 as policy
from antrea.v1 import node_pb2 as node
from antrea.v1 import pod_pb2 as pod
from antrea.v1 import service_pb2 as service
from antrea.v1 import sync_pb2 as sync
from stubs import Stub, connect
from vswitch.v1 import bridge_pb2 as bridge
from vswitch.v1 import common_pb2 as vswitch
from vswitch.v1 import port_pb2 as port

BRIDGE, GATEWAY, TUNNEL = "br0", "gw0", "tun0"
# Pods of this Node: name: (number, port). Their addresses and MACs are made of the number.
PODS = {"client": (2, "client0"), "web": (3, "web0"), "stranger": (4, "stranger0")}
SERVICE_PORT, WEB_PORT = 80, 8080
SERVICE_ADDRESSES = ["10.96.0.80", "fd00:96::80"]


def addresses(number):
    """Both addresses of a Pod, or (1) of the gateway."""
    return [f"10.10.0.{number}", f"fd00:10::{number}"]


def mac(number):
    """The MAC address of a Pod or (1) of the gateway."""
    return vswitch.MacAddress(octets=bytes([0x02, 0, 0, 0x0A, 0, number]))


def make_bridge(channel):
    """A bridge that drops everything until it is programmed, with a port for each Pod, one for the
    host and one for tunnels."""
    Stub(channel, "vswitch.v1.bridge", "BridgeService").AddBridge(
        bridge.AddBridgeRequest(bridge=bridge.BridgeConfig(name=BRIDGE, fail_mode=bridge.FAIL_MODE_SECURE)))
    options = {"remote_ip": "flow", "key": "flow"}
    ports = [
        port.PortConfig(name=GATEWAY, mac=mac(1), internal=port.InternalPort()),
        port.PortConfig(name=TUNNEL, no_flood=True, tunnel=port.TunnelPort(kind=port.TUNNEL_KIND_GENEVE, options=options)),
        *(port.PortConfig(name=name, tap=port.TapPort()) for _, name in PODS.values()),
    ]
    stub = Stub(channel, "vswitch.v1.port", "PortService")
    for each in ports:
        made = stub.AddPort(port.AddPortRequest(bridge=BRIDGE, port=each)).port
        print(f"port {made.number}: {made.config.name} ({made.type})")


def the_node():
    """What the switch has to know of its Node."""
    return node.NodeConfig(
        name="example-node", bridge=BRIDGE, families=common.FAMILIES_DUAL, pod_cidrs=["10.10.0.0/24", "fd00:10::/64"],
        service_cidrs=["10.96.0.0/12", "fd00:96::/64"], transport_addresses=["192.168.77.102/24"],
        gateway=node.Gateway(port=GATEWAY, mac=mac(1), addresses=addresses(1)), tunnel=node.Tunnel(port=TUNNEL))


def objects():
    """The desired state: all that this Node's switch is to know. Any order will do."""
    for name, (number, at) in PODS.items():
        yield sync.Object(pod=pod.Pod(name=f"default/{name}", port=at, addresses=addresses(number), mac=mac(number)))
    yield sync.Object(service=service.Service(
        name="default/web", cluster_ips=SERVICE_ADDRESSES,
        ports=[service.ServicePort(name="http", protocol=common.PROTOCOL_TCP, port=SERVICE_PORT)]))
    yield sync.Object(endpoints=service.Endpoints(service="default/web", port="http", endpoints=[
        service.Endpoint(address=address, port=WEB_PORT, node="example-node", ready=True) for address in addresses(PODS["web"][0])]))
    # Only `client` may speak to `web`, and only there.
    yield sync.Object(applied_to_group=policy.AppliedToGroup(name="app=web", pods=["default/web"]))
    yield sync.Object(address_group=policy.AddressGroup(name="app=client", members=[policy.GroupMember(pod="default/client")]))
    yield sync.Object(network_policy=policy.NetworkPolicy(
        name="np:default/web", kind=policy.POLICY_KIND_K8S, applied_to=["app=web"], isolates_ingress=True,
        rules=[policy.Rule(
            id="from-client", direction=policy.DIRECTION_INGRESS, peer=policy.RulePeer(address_groups=["app=client"]),
            ports=[policy.PortMatch(protocol=common.PROTOCOL_TCP, port=WEB_PORT)])]))


def apply(channel):
    """Makes the bridge, says what the Node is, and syncs all objects: one transaction, which opens
    the gate."""
    make_bridge(channel)
    tables = Stub(channel, "antrea.v1.node", "NodeService").Initialize(node.InitializeRequest(node=the_node(), round=1)).tables
    print(f"node: {len(tables)} tables")
    wanted = list(objects())
    requests = [
        sync.SyncRequest(begin=sync.SyncBegin(round=1)),
        sync.SyncRequest(objects=wanted),
        sync.SyncRequest(commit=sync.SyncCommit(objects=len(wanted))),
    ]
    answer = Stub(channel, "antrea.v1.sync", "SyncService").Sync(iter(requests))
    print(f"sync: {dict(answer.result.counts)}, {answer.result.flows_changed} flows, gate {'open' if answer.gate_open else 'shut'}")
    # An object that was refused is no status of gRPC: the answer says which, and why.
    for status in answer.result.statuses:
        for problem in status.problems:
            print(f"  {status.object.name}: {problem.code} {problem.field}: {problem.reason}")
    return 0 if answer.result.applied and answer.gate_open else 1


def statistics(channel):
    """What Pods sent, which endpoints were chosen, what rules allowed."""
    for part in Stub(channel, "antrea.v1.pod", "PodService").ListPods(pod.ListPodsRequest()):
        for state in part.pods:
            print(f"pod {state.pod.name}: {state.sent.packets} packets sent; policies: {', '.join(state.policies) or 'none'}")
    for part in Stub(channel, "antrea.v1.service", "ProxyService").ListServices(service.ListServicesRequest()):
        for state in part.services:
            for each in (endpoint for at in state.ports for endpoint in at.endpoints):
                address = each.endpoint.address
                at = f"[{address}]:{each.endpoint.port}" if ":" in address else f"{address}:{each.endpoint.port}"
                print(f"service {state.service.name}: {at} chosen {each.chosen.packets} times")
    for part in Stub(channel, "antrea.v1.network_policy", "NetworkPolicyService").ListNetworkPolicies(policy.ListNetworkPoliciesRequest()):
        for state in part.policies:
            for rule in state.rules:
                counted = rule.statistics
                print(f"policy {state.policy.name}, rule {rule.rule.id}: {counted.new_packets} new connections, {counted.packets} packets")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default="/run/vswitch/vswitch.sock", help="where the switch listens (default %(default)s)")
    parser.add_argument("what", choices=("apply", "statistics"))
    args = parser.parse_args()
    with connect(args.socket) as channel:
        try:
            return {"apply": apply, "statistics": statistics}[args.what](channel)
        except grpc.RpcError as error:
            print(f"{error.code().name}: {error.details()}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())

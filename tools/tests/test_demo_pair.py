"""tools/demo --nodes 2: all that it shows, against the switch."""

import unittest

from demos import WHOLE_S, Node, worst_first


class TwoNodes(Node):
    def test_two_nodes(self):
        said = self.finish(self.start("--nodes", "2", "--once", "--seconds", "1"), 0, WHOLE_S)
        self.shows(said, "Reject: client@2 -> ClusterIP -> web2@1", "Reject: the internet -> node@1", "node 2: 167 flows of the document", "Pod to Pod: client@1 -> web2@2", "Pod to Pod: client@2 -> web2@1", "ClusterIP: client@1",
                   "ClusterIP: client@2", "policy denies: db@1 -> web@2", "Egress on the other Node: client@2", "iperf3, LoadBalancer: client@2 -> web2@1",
                   "multicast, IGMPv1: client@2 -> db@1", "DSR: outside -> node@2 -> web2@1", "Egress by the switch: client@1 -> internet", "record: client@1 -> internet (UDP)",
                   "session affinity: external IP: outside -> node@1",
                   "a router on the way from web2@1, asked by node@2", "a device, NodePort: outside -> node@1", "DSR, 3 datagrams, no answer",
                   "IPv4 alone on node 1: client@1 -> web2@2", "IPv6 alone on node 2: client@2 -> web2@1",
                   "LoadBalancer, policy Local: outside -> node@2",
                   "a NodePort is the source port of node@1", "node@1 -> outside is older than the NodePort",
                   "NodePort, policy Local: outside -> node@1, which sees its client", "192.168.77.103 -> 192.168.77.102, UDP", "fd00:192:168:77::102 -> fd00:192:168:77::103, UDP", "-> 6081, Geneve VNI 0",
                   "no wrong checksum arrived in any namespace")
        # Of what is refused, of the scenes, and of real stacks.
        for judged in ("no frame is malformed, every checksum is right", "packets of Pods are in Geneve only", "no frame is larger than a wire takes"):
            if (count := said.count(f"✔ {judged}")) != 3:
                self.fail(worst_first(f"{count} times, not 3: {judged}", said))


if __name__ == "__main__":
    unittest.main()

"""tools/demo: all that it shows of one node, against the switch."""

import unittest

from demos import WHOLE_S, Node


class OneNode(Node):
    def test_twelve_scenes_tell_the_story(self):
        for words, others in (((), ("the agent is killed",)), (("--document",), ("hairpin: web2",))):
            with self.subTest(words):
                said = self.finish(self.start(*words, "--once"), 0, WHOLE_S)
                self.shows(said, "Pod to Pod", "policy allows", "policy denies", "ClusterIP", "LoadBalancer: outside", "no Endpoint", "Egress: web2", "IP spoofing", "iperf3", *others,
                           "[3/3] twelve scenes", "no wrong checksum arrived in any namespace")
                self.assertEqual(sum(line.startswith("✔") for line in said.splitlines()), 13, said)

    def test_every_scene_is_right(self):
        said = self.finish(self.start("--all", "--once", "--seconds", "1"), 0, WHOLE_S)
        self.shows(said, "the agent told: 1 peer, 4 pod, 7 service", "hairpin: web2", "ETP Local: outside", "no Endpoint", "TrafficControl mirrors",
                   "ARP spoofing", "sees Egress IP", "Reject: peer -> web2", "no Endpoint: outside -> NodePort", "3 datagrams, no answer: NodePort: outside", "an Endpoint leaves", "nested, no Endpoint inside", "hints, zone-a", "source ranges: the internet", "weights 900, 100",
                   "3 datagrams before the answer", "3 times the same SYN", "SCTP: outside -> 192.168.77.160", "web2 leaves: its UDP sockets", "16 new clients", "of 1 s ends",
                   "another port: mover by the old one", "the Pod goes: its packets", "probes have a port: a probe of web2",
                   "multicast, IGMPv2: client -> db", "the agent is killed, and comes back",
                   "Traceflow: client -> db, refused", "the agent reads IGMP", "records of a connection that stays", "L7: client -> web, web2", "L7, an engine that reads TCP: outside -> NodePort", "with --strict",
                   "iperf3: client", "no wrong checksum arrived in any namespace")


if __name__ == "__main__":
    unittest.main()

"""tools/demo --nodes 2 --gateway MODE: the scenarios of OVN-Kubernetes' documents, against the
switch and its agents."""

import re
import unittest

from demos import WHOLE_S, Node, worst_first

TIMES_FOUR = "TCP UDP IPv4 IPv6"


class GatewayBridges(Node):
    def rows(self, mode, numbers):
        """Runs the demo, and checks that it shows these rows, each asked in four ways."""
        said = self.finish(self.start("--nodes", "2", "--gateway", mode, "--once"), 0, WHOLE_S)
        self.shows(said, "no wrong checksum arrived in any namespace", "-> the world outside", "-> Pod elsewhere")
        shown = re.findall(rf"^✔ (\d+) .*{TIMES_FOUR}", said, re.M)
        if {int(number) for number in shown} != set(numbers):
            self.fail(worst_first(f"rows shown: {shown}", said))
        return said

    def test_shared(self):
        # Row 6 is the local mode's, and row 12 is row 2 there.
        said = self.rows("shared", set(range(1, 20)) - {6, 12})
        past = re.findall(r"^✔ (\d*) .*(?:outside|client@\d) -> .*; no packet at a host$", said, re.M)
        self.assertEqual(set(past), {"5", "7", "8", "13", "14", "19", ""}, said)

    def test_local(self):
        self.rows("local", set(range(1, 20)) - {2, 5})

    def test_usage(self):
        alone = "--gateway shows two Nodes: add --nodes 2"
        for words, told in (("--gateway shared", alone), ("--l2 --gateway local", alone), ("--nodes 1 --gateway local", alone),
                            ("--nodes 2 --gateway hybrid", "invalid choice: 'hybrid'"), ("--nodes 2 --gateway", "expected one argument")):
            with self.subTest(words):
                self.shows(self.finish(self.start(*words.split()), 2), told)


if __name__ == "__main__":
    unittest.main()

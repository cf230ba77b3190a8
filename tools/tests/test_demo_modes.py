"""tools/demo --mode: all that it shows of each mode, against the switch."""

import subprocess
import unittest

from demos import WHOLE_S, Node, start, worst_first
from vsw import machine


class PolicyOnly(Node):
    def test_the_same_without_the_switch_and_with_it(self):
        said = self.finish(self.start("--mode", "policy-only", "--once"), 0, WHOLE_S)
        for both in ("Pod to Pod: client@1 -> web@1", "Pod to another Node's Pod: client@1 -> web@2",
                     "the Node to a Pod: node@1 -> web@1", "Service: client@1 -> far -> web@2", "NodePort: outside -> node@1 -> web@1"):
            if (count := said.count(f"✔ {both}")) != 2:
                self.fail(worst_first(f"{count} times, not 2: {both}", said))
        self.shows(said, "from all fwmark 0x800/0x800 iif antrea-gw0 lookup 300", "default via 169.254.253.1 dev antrea-gw0",
                   "default via fe80::fd01 dev antrea-gw0", "ether saddr 0e:00:00:00:00:01 notrack", "policy denies: db@1 -> Service near",
                   "policy refuses: client@1 -> Service far", "deleted: the rule to table 300",
                   "by the switch: outside -> NodePort -> db@1", "[5/5]", "no wrong checksum arrived in any namespace")


class Arguments(unittest.TestCase):
    def test_modes(self):
        for words, why in ((["--mode", "bogus"], "invalid choice: 'bogus' (choose from 'policy-only')"), (["--mode"], "expected one argument"),
                           (["--mode", "policy-only", "--nodes", "2"], "leave out --l2, --document and --nodes"),
                           (["--mode", "policy-only", "--l2"], "leave out --l2, --document and --nodes"),
                           (["--mode", "policy-only", "--document"], "leave out --l2, --document and --nodes")):
            with self.subTest(words):
                process = start(*words, demo=(), stdout=subprocess.PIPE)
                said = process.communicate(timeout=machine.PATIENCE_S)[0].decode()
                self.assertEqual(process.returncode, 2, said)
                self.assertIn(why, said)


if __name__ == "__main__":
    unittest.main()

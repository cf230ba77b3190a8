"""Tests of tools/check: what is checked of what changed."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "check"


def load():
    loader = importlib.machinery.SourceFileLoader("check", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
    loader.exec_module(module)
    return module


check = load()


class Check(unittest.TestCase):
    def found(self, *files):
        return check.modules(files, check.packages())

    def test_a_file_belongs_to_the_deepest_package(self):
        self.assertEqual(self.found("vswitch/flow/src/lib.rs", "tools/vsctl/src/main.rs"), {"vswitch-flow": set(), "vsctl": set()})
        self.assertEqual(self.found("vswitch/dataplane/src/pipeline/translate/view.rs", "vswitch/dataplane/src/limits.rs"), {"vswitch-dataplane": {"pipeline", "limits"}})
        self.assertEqual(self.found("README.md", "tools/check", "vswitch/vswitchd/tests/common/netns.md"), {})

    def test_every_package_of_the_workspace_is_known(self):
        known = set(check.packages().values())
        self.assertLessEqual({"vswitchd", "vswitch-dataplane", "vswitch-flow", "vswitch-antrea", "vswitch-proto", "dpdk-sys", "vsctl", "vswitch-agent", "vsgen"}, known)

    def test_only_modules_that_changed_are_tested_where_all_take_long(self):
        self.assertEqual(
            check.test_filter({"vswitch-dataplane": {"cache", "packet"}, "vswitch-flow": set()}),
            "(package(vswitch-dataplane) & (kind(lib) | kind(bin)) & test(/^(cache|packet)::/)) | (package(vswitch-flow) & (kind(lib) | kind(bin)))",
        )
        self.assertIn("nothing", check.test_filter(self.found("vswitch/dataplane/Cargo.toml")))
        self.assertEqual(self.found("vswitch/vswitchd/tests/machine.rs"), {"vswitchd": set()})


if __name__ == "__main__":
    unittest.main()

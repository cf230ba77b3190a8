"""The crates and what each may depend on: the layers that ARCHITECTURE.md promises."""

import json
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Each crate and the crates of the workspace that it may use. What is not here is an error: a new
# edge is decided, not slipped in.
ALLOWED = {
    "dpdk-sys": set(),
    "vswitch-net-types": set(),
    "vswitch-quiescence": {"vswitch-models"},
    "vswitch-models": set(),
    "vswitch-pcapng": set(),
    "vswitch-proto": set(),
    "vswitch-overlay": set(),
    "vswitch-flow": {"vswitch-net-types"},
    "vswitch-conntrack": {"vswitch-models"},
    "vswitch-flow-export": set(),
    "vswitch-dpdk": {"dpdk-sys", "vswitch-net-types"},
    "vswitch-antrea": {"vswitch-flow", "vswitch-net-types", "vswitch-proto"},
    "vswitch-observe": {"vswitch-flow", "vswitch-proto"},
    "vswitch-openflow": {"vswitch-flow"},
    "vswitch-messages": {"vswitch-conntrack", "vswitch-flow", "vswitch-proto"},
    "vswitch-dataplane": {"vswitch-conntrack", "vswitch-dpdk", "vswitch-flow", "vswitch-net-types", "vswitch-quiescence", "vswitch-overlay"},
    "vswitch-control": {"vswitch-conntrack", "vswitch-dataplane", "vswitch-dpdk", "vswitch-flow", "vswitch-net-types", "vswitch-overlay"},
    "vswitch-antrea-node": {
        "vswitch-antrea", "vswitch-conntrack", "vswitch-control", "vswitch-dataplane", "vswitch-flow", "vswitch-messages", "vswitch-proto", "vswitch-overlay",
    },
    "vswitch-api": {
        "vswitch-antrea", "vswitch-antrea-node", "vswitch-conntrack", "vswitch-control", "vswitch-dataplane", "vswitch-dpdk", "vswitch-flow",
        "vswitch-messages", "vswitch-net-types", "vswitch-observe", "vswitch-proto", "vswitch-overlay",
    },
    "vswitchd": {"vswitch-api", "vswitch-control", "vswitch-dpdk"},
    # For tests only: no other crate may have it but as a dev-dependency.
    "vswitch-testkit": {"vswitch-conntrack", "vswitch-control", "vswitch-dataplane", "vswitch-flow", "vswitch-overlay"},
    "vsctl": {"vswitch-net-types", "vswitch-pcapng", "vswitch-proto", "vswitch-overlay"},
    "vswitch-agent": {"vswitch-flow-export", "vswitch-net-types", "vswitch-pcapng", "vswitch-proto"},
    # Likewise for tests only.
    "vswitch-testapi": set(),
    "vswitch-cni": {"vswitch-proto"},
    "vsgen": {"vswitch-dataplane", "vswitch-dpdk"},
}
UNSAFE = {"dpdk-sys", "vswitch-dpdk"}


class Crates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        argv = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"]
        said = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        cls.packages = {package["name"]: package for package in json.loads(said)["packages"]}

    def test_edges_are_those_that_are_allowed(self):
        edges = {
            name: {one["name"] for one in package["dependencies"] if one["kind"] is None and one["name"] in self.packages}
            for name, package in self.packages.items()
        }
        self.assertEqual(edges, ALLOWED)

    def test_only_the_crates_of_dpdk_may_hold_unsafe_code(self):
        for name, package in self.packages.items():
            for target in package["targets"]:
                if not {"lib", "bin"} & set(target["kind"]):
                    continue
                text = Path(target["src_path"]).read_text()
                self.assertEqual("#![forbid(unsafe_code)]" in text, name not in UNSAFE, target["src_path"])

    def test_no_upward_module_of_the_packet_path_is_imported(self):
        floors = ["limits time observe", "packet", "port", "tunnel meter group capture", "action pipeline", "conntrack", "cache", "worker"]
        height = {module: i for i, floor in enumerate(floors) for module in floor.split()}
        source = ROOT / "vswitch" / "dataplane" / "src"
        upward = set()
        for file in source.rglob("*.rs"):
            own = file.relative_to(source).parts[0].removesuffix(".rs")
            if own not in height or "test" in file.stem or "tests" in file.parts:
                continue
            body = file.read_text().split("#[cfg(test)]\nmod tests {")[0]
            used = set(re.findall(r"^\s*(?:pub(?:\([a-z]+\))? )?use crate::(\w+)", body, re.MULTILINE))
            upward |= {(own, other) for other in used if height.get(other, -1) > height[own]}
        self.assertEqual(upward, set())


if __name__ == "__main__":
    unittest.main()

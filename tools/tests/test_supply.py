"""What is linked: licences, bans and sources as deny.toml has them; the bill of materials."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import supply  # noqa: E402


class Rules(unittest.TestCase):
    def test_all_that_is_locked_keeps_the_rules(self):
        meta = supply.metadata()
        self.assertGreater(len(meta["packages"]), 100)
        self.assertEqual(supply.problems(meta["packages"], set(meta["workspace_members"]), supply.rules()), [])

    def test_what_breaks_a_rule_is_told_by_name(self):
        def package(**other):
            return {"name": "a", "version": "1.0.0", "id": "a", "license": "MIT", "source": supply.REGISTRY, "dependencies": []} | other

        for wrong, reason in [
            ({"license": "GPL-3.0-only"}, "licence 'GPL-3.0-only' is not in deny.toml"),
            ({"license": "MIT AND GPL-3.0-only"}, "licence 'MIT AND GPL-3.0-only' is not in deny.toml"),
            ({"license": None}, "licence None is not in deny.toml"),
            ({"name": "openssl-sys"}, "is banned: TLS is rustls: one library less to patch on the node"),
            ({"source": "git+https://example.com/a"}, "is from git+https://example.com/a, not from crates.io"),
            ({"source": None}, "is from a path, not from crates.io"),
            ({"id": "m", "source": None, "dependencies": [{"name": "b", "req": "*"}]}, "wants any version of b"),
        ]:
            with self.subTest(reason):
                found = supply.problems([package(**wrong)], {"m"}, supply.rules())
                self.assertEqual(len(found), 1, found)
                self.assertTrue(found[0].endswith(f": {reason}"), found)
        self.assertEqual(supply.problems([package(license="GPL-3.0-only OR MIT")], set(), supply.rules()), [])

    def test_expressions(self):
        allowed = {"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"}
        for expression, is_allowed in [
            ("MIT", True), ("X", False), ("X OR MIT", True), ("X/MIT", True), ("X / MIT", True), ("X AND MIT", False), ("MIT AND X OR MIT", True),
            ("(X OR MIT) AND Apache-2.0", True), ("(MIT OR X) AND Y", False), ("Apache-2.0 WITH LLVM-exception", True), ("MIT WITH LLVM-exception", False),
        ]:
            self.assertIs(supply.is_allowed(expression, allowed), is_allowed, expression)
        for wrong in ["", "MIT MIT", "(MIT", "MIT OR"]:
            self.assertRaises(ValueError, supply.is_allowed, wrong, allowed)


class Bill(unittest.TestCase):
    def test_a_built_program_has_its_crates_and_libraries(self):
        program = ROOT / "target" / "debug" / "vsctl"
        if not program.exists():  # the tests in front of this one have built it
            subprocess.run(["cargo", "build", "--locked", "--quiet", "-p", "vsctl"], cwd=ROOT, check=True)
        told = [subprocess.run([ROOT / "tools" / "sbom", program], check=True, stdout=subprocess.PIPE).stdout for _ in range(2)]
        self.assertEqual(told[0], told[1])
        bill = json.loads(told[0])
        self.assertEqual((bill["bomFormat"], bill["metadata"]["component"]["name"]), ("CycloneDX", "vsctl"))
        parts = {part["name"]: part for part in bill["components"]}
        self.assertRegex(parts["tonic"]["purl"], r"^pkg:cargo/tonic@[0-9.]+$")
        self.assertRegex(parts["tonic"]["hashes"][0]["content"], r"^[0-9a-f]{64}$")
        self.assertRegex(parts["libc6"]["purl"], r"^pkg:deb/debian/libc6@[0-9]")
        # What only tests or build scripts need is not in the program.
        self.assertFalse({"tempfile", "proptest", "prost-build"} & set(parts), sorted(parts))

    def test_another_file_is_refused(self):
        refused = subprocess.run([ROOT / "tools" / "sbom", "/bin/true"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("/bin/true: is none of vswitchd, vsctl, vswitch-agent", refused.stderr)


if __name__ == "__main__":
    unittest.main()

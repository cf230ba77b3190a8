"""tools/setup against stand-ins for dpkg-query, apt-get and rustc."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Setup(unittest.TestCase):
    def setUp(self):
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log, self.pages = self.directory / "apt.log", self.directory / "nr_hugepages"
        self.policy = self.directory / "policy-rc.d"
        self.pages.write_text("4\n")
        self.program("dpkg-query", 'case " $MISSING " in *" ${@: -1} "*) exit 1 ;; *) printf installed ;; esac')
        self.program("apt-get", f'echo "$DEBIAN_FRONTEND $*" >>{self.log}; echo output of apt-get; exit ${{APT_STATUS:-0}}')
        self.program("rustc", 'echo "rustc ${RUSTC_VERSION:-1.95.0} (abc 2026-01-01)"')
        self.program("cargo", "exit 0")

    def program(self, name, text):
        path = self.directory / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run_setup(self, *words, status=0, **variables):
        variables = {
            "VSWITCH_HUGEPAGES_FILE": str(self.pages),
            "VSWITCH_POLICY_RC_D": str(self.policy),
            **variables,
        }
        environment = {**os.environ, **variables, "PATH": f"{self.directory}:{os.environ['PATH']}"}
        argv = [ROOT / "tools" / "setup", *words]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def apt_calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_nothing_missing_never_runs_apt_and_says_nothing(self):
        for _ in range(2):
            self.assertEqual(self.run_setup("--hugepages", "4"), "")
        self.assertEqual(self.apt_calls(), [])

    def test_installs_what_is_missing_only(self):
        self.run_setup("--no-hugepages", MISSING="iperf3 libdpdk-dev")
        update, install = self.apt_calls()
        self.assertEqual(update, "noninteractive -q update")
        self.assertTrue(install.startswith("noninteractive -q -y") and install.endswith(" install libdpdk-dev iperf3"), install)

    def test_options_add_packages(self):
        for option, package in (("--peers", "openvswitch-switch-dpdk"), ("--ovn", "ovn-central")):
            self.log.unlink(missing_ok=True)
            self.run_setup("--no-hugepages", MISSING=package)
            self.assertEqual(self.apt_calls(), [], f"{package} without {option}")
            self.run_setup("--no-hugepages", option, MISSING=package)
            self.assertTrue(self.apt_calls()[1].endswith(f" install {package}"), self.apt_calls())

    def clients(self):
        """Stand-ins for what makes the clients of other languages: they work once they are
        installed."""
        there = self.directory / "clients"
        python = there / "python" / "bin" / "python"
        (self.directory / "client").write_text(f'#!/bin/bash\n[[ $* == *pip* ]] || exec test -e {there}/python/installed\n'
                                               f'echo "pip $*" >>{self.log}; [[ -z $NO_NETWORK ]] && touch {there}/python/installed\n')
        self.program("python3", f'[[ $* == *"-m venv"* ]] || exit 0; mkdir -p {python.parent}; cp {self.directory}/client {python}; chmod 755 {python}')
        self.program("npm", f'echo "npm $*" >>{self.log}; [[ -z $NO_NETWORK ]] || {{ echo no network; exit 1; }}; touch {there}/node/installed')
        self.program("node", f"exec test -e {there}/node/installed")
        return {"VSWITCH_CLIENTS": str(there)}

    def test_the_newest_clients_are_installed(self):
        clients = self.clients()
        self.assertIn("missing: the newest Python", self.run_setup("--no-hugepages", "--examples", "--check", status=1, **clients))
        self.assertEqual(self.apt_calls(), [])
        for _ in range(2):
            self.assertEqual(self.run_setup("--no-hugepages", "--examples", **clients), "")
        pip, npm = self.apt_calls()[:2]
        self.assertRegex(pip, r"^pip .*install .*--upgrade grpcio grpcio-tools protobuf setuptools$")
        self.assertRegex(npm, r"^npm install .* @grpc/grpc-js@latest @grpc/proto-loader@latest$")
        self.assertEqual(self.run_setup("--no-hugepages", "--examples", "--check", **clients), "")
        # Those that are there are good enough without a network.
        self.assertIn("cannot look for a newer", self.run_setup("--no-hugepages", "--examples", NO_NETWORK="1", **clients))

    def test_clients_that_cannot_be_had_are_told(self):
        said = self.run_setup("--no-hugepages", "--examples", status=1, NO_NETWORK="1", **self.clients())
        for language in ("Python", "JavaScript"):
            self.assertIn(f"the newest {language} client of gRPC cannot be installed", said)
        self.assertIn("no network", said)

    def test_installing_starts_no_service(self):
        self.program("apt-get", f'"{self.policy}" openvswitch-switch start; echo "$1 $2: $?" >>{self.log}')
        self.run_setup("--no-hugepages", MISSING="openvswitch-switch")
        # 101: not allowed (before, nobody asked); afterwards the machine is as it was.
        self.assertEqual(self.apt_calls()[1], "-q -y: 101")
        self.assertFalse(self.policy.exists())

    def test_a_policy_of_the_machine_stays(self):
        self.policy.write_text("#!/bin/sh\nexit 0\n")
        self.policy.chmod(0o755)
        self.program("apt-get", f'"{self.policy}"; echo "$1 $2: $?" >>{self.log}')
        self.run_setup("--no-hugepages", MISSING="openvswitch-switch")
        self.assertEqual(self.apt_calls()[1], "-q -y: 0")
        self.assertTrue(self.policy.exists())

    def test_quiet_unless_apt_fails(self):
        self.assertNotIn("output of apt-get", self.run_setup("--no-hugepages", MISSING="gcc"))
        self.assertIn("output of apt-get", self.run_setup("--no-hugepages", status=1, MISSING="gcc", APT_STATUS="100"))

    def test_check_installs_nothing(self):
        said = self.run_setup("--check", status=1, MISSING="gcc")
        self.assertIn("missing packages: gcc", said)
        self.assertEqual((self.apt_calls(), self.pages.read_text()), ([], "4\n"))

    def test_rust(self):
        for version, status in (("1.95.0", 0), ("1.100.0", 0), ("2.0.0", 0), ("1.95.0-nightly", 0), ("1.94.9", 1), ("1.9.0", 1)):
            with self.subTest(version):
                said = self.run_setup("--no-hugepages", status=status, RUSTC_VERSION=version)
                self.assertEqual("rustup" in said, status == 1, said)

    def test_hugepages_only_rise(self):
        self.run_setup("--hugepages", "3")
        self.assertEqual(self.pages.read_text(), "4\n")
        self.run_setup("--hugepages", "9")
        self.assertEqual(self.pages.read_text(), "9\n")

    def test_goes_on_without_hugepages(self):
        said = self.run_setup(VSWITCH_HUGEPAGES_FILE="/nonexistent/nr_hugepages")
        self.assertIn("hugepages = false", said)
        # A number that nobody may write, not even root.
        said = self.run_setup("--hugepages", "999999", VSWITCH_HUGEPAGES_FILE="/proc/sys/kernel/ngroups_max")
        self.assertIn("not writable", said)

    def test_usage(self):
        self.assertIn("usage:", self.run_setup("--help"))
        for words in (["--hugepages"], ["--hugepages", "x"], ["--hugepages", "-1"], ["bogus"]):
            with self.subTest(words):
                self.assertIn("usage:", self.run_setup(*words, status=2))


if __name__ == "__main__":
    unittest.main()

"""tools/release against stand-ins for cargo, rustc, llvm-profdata and perf/run, in a directory that
stands in for the repository."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import machine  # noqa: E402

# Each notes how it was called. A "binary" is a file with the flags it was built with.
CARGO = """
echo "cargo $* | ${RUSTFLAGS-none} | ${CARGO_ENCODED_RUSTFLAGS-none}" >>"$LOG"
directory=target/release names=()
while (($#)); do
  case $1 in
    --target-dir) directory=$2/x86_64-unknown-linux-gnu/release ;;
    --bin | -p) names+=("$2") ;;
  esac
  shift
done
mkdir -p "$directory"
for name in "${names[@]}"; do echo "${RUSTFLAGS-}" >"$directory/$name"; done
"""
RUSTC = """
case "$*" in
  "--print sysroot") echo "$SYSROOT" ;;
  "--print host-tuple") echo some-host ;;
  *) exit 1 ;;
esac
"""
PROFDATA = """
echo "llvm-profdata $*" >>"$LOG"
echo merged >"$3"
"""
TRAINER = """
echo "perf/run $*" >>"$LOG"
while [[ $1 != --bin-dir ]]; do shift; done
[[ -e $2/vsctl ]] || exit 9
profiles=$(sed -n 's/.*-Cprofile-generate=//p' "$2/vswitchd")
ls "$profiles" >>"$LOG" 2>/dev/null
[[ $TRAINING != fails ]] || exit 1
[[ $TRAINING != silent ]] || exit 0
mkdir -p "$profiles"
touch "$profiles"/default_{1,2}.profraw
"""


def load():
    """The tool as a module; its paths are below what machine.ROOT is now."""
    loader = importlib.machinery.SourceFileLoader("release", str(ROOT / "tools" / "release"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    with mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


class Release(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        self.log, self.pages = self.root / "log", self.root / "hugepages"
        (self.root / ".cargo").mkdir()
        shutil.copy(ROOT / ".cargo" / "config.toml", self.root / ".cargo")
        self.tool = self.root / "sysroot" / "lib" / "rustlib" / "some-host" / "bin" / "llvm-profdata"
        for path, text in (("path/cargo", CARGO), ("path/rustc", RUSTC), (self.tool, PROFDATA), ("perf/run", TRAINER)):
            self.program(path, text)
        self.pages.mkdir()
        self.free(576)
        variables = {
            "PATH": f"{self.root / 'path'}:{os.environ['PATH']}",
            "LOG": str(self.log),
            "SYSROOT": str(self.root / "sysroot"),
            "TRAINING": "works",
            "CARGO_ENCODED_RUSTFLAGS": "-Cdebuginfo=2",
            "RUSTFLAGS": "-Copt-level=0",
        }
        self.enterContext(mock.patch.dict(os.environ, variables))
        self.enterContext(mock.patch.object(machine, "ROOT", self.root))
        self.enterContext(mock.patch.object(machine, "HUGEPAGES", self.pages))
        self.enterContext(mock.patch.object(machine, "stop_on_signals"))
        self.enterContext(mock.patch.object(os, "geteuid", return_value=0))
        self.release = load()
        config = tomllib.loads((ROOT / ".cargo" / "config.toml").read_text())
        self.usual = " ".join(config["target"]["x86_64-unknown-linux-gnu"]["rustflags"])
        self.training, self.trained = self.root / "target" / "release-training", self.root / "target" / "release-trained"
        self.result = self.root / "target" / "trained"

    def program(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}")
        path.chmod(0o755)

    def free(self, pages):
        (self.pages / "free_hugepages").write_text(f"{pages}\n")

    def run_release(self, *words, status=0, **variables):
        """Runs it; all that it said."""
        said = io.StringIO()
        with (
            mock.patch.dict(os.environ, variables),
            mock.patch.object(sys, "argv", ["tools/release", *map(str, words)]),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            self.assertEqual(self.release.main(), status, said.getvalue())
        return said.getvalue()

    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_flags_are_those_of_the_configuration_and_more(self):
        self.assertTrue(self.usual)
        self.assertEqual(self.release.flags(), self.usual)
        self.assertEqual(self.release.flags("-Cprofile-use=/x"), f"{self.usual} -Cprofile-use=/x")
        with self.assertRaisesRegex(machine.Failure, "blanks"):
            self.release.flags("-Cprofile-use=/a b")

    def test_environment(self):
        variables = self.release.environment("-Cprofile-use=/x")
        self.assertEqual(variables["RUSTFLAGS"], f"{self.usual} -Cprofile-use=/x")
        self.assertNotIn("CARGO_ENCODED_RUSTFLAGS", variables)
        self.assertEqual(variables["PATH"], os.environ["PATH"])

    def test_steps_in_order(self):
        said = self.run_release()
        others, instrumented, training, merge, trained = self.calls()
        packages = "-p vsctl -p vswitch-agent -p vswitch-cni -p vsgen"
        self.assertTrue(others.startswith(f"cargo build --locked --profile release {packages} |"), others)
        self.assertNotIn("profile-", others.split("|")[1])
        common = "-p vswitchd --bin vswitchd"
        build = "cargo build --release --locked --target x86_64-unknown-linux-gnu --target-dir"
        self.assertEqual(instrumented, f"{build} {self.training} {common} | {self.usual} -Cprofile-generate={self.training}/profiles | none")
        self.assertTrue(training.startswith(f"perf/run --only switch --rounds 1 --seconds 0.5 --bin-dir {self.training}/bin --case "), training)
        profile = self.training / "vswitchd.profdata"
        raw = " ".join(f"{self.training}/profiles/default_{number}.profraw" for number in (1, 2))
        self.assertEqual(merge, f"llvm-profdata merge -o {profile} {raw}")
        self.assertEqual(trained, f"{build} {self.trained} {common} | {self.usual} -Cprofile-use={profile} | none")
        self.assertEqual({path.name for path in self.result.iterdir()}, {"vswitchd", "vsctl", "vswitch-agent", "vswitch-cni", "vsgen"})
        self.assertIn("-Cprofile-use=", (self.result / "vswitchd").read_text())
        self.assertIn("perf/run --bin-dir target/trained", said)

    def test_earlier_profiles_do_not_count_and_nothing_is_built_upon_them(self):
        self.run_release()
        (self.training / "profiles" / "default_3.profraw").touch()
        (self.trained / "of-an-earlier-profile").touch()
        self.log.unlink()
        self.run_release()
        # Perf/run has found no profile: it would have listed it.
        self.assertEqual(len(self.calls()), 5)
        self.assertNotIn("default_3", self.log.read_text())
        self.assertFalse((self.trained / "of-an-earlier-profile").exists())

    def test_a_running_switch_keeps_its_file(self):
        self.result.mkdir(parents=True)
        (self.result / "vswitchd").write_text("runs")
        with open(self.result / "vswitchd") as running:
            self.run_release()
            self.assertEqual(running.read(), "runs")

    def test_missing_llvm_profdata(self):
        self.tool.unlink()
        said = self.run_release(status=1)
        self.assertIn("rustup component add llvm-tools", said)
        self.assertIn("Debian", said)
        self.assertEqual(self.calls(), [])

    def test_needs_root_and_hugepages_before_it_builds(self):
        with mock.patch.object(os, "geteuid", return_value=1000):
            self.assertIn("root", self.run_release(status=1))
        self.free(575)
        self.assertIn("tools/setup --hugepages 576", self.run_release(status=1))
        self.assertEqual(self.calls(), [])

    def test_training_that_fails_or_writes_nothing(self):
        for training, complaint in (("fails", "failed with status 1"), ("silent", "no profile")):
            with self.subTest(training):
                self.assertIn(complaint, self.run_release(status=1, TRAINING=training))
                self.assertTrue(self.calls()[-1].startswith("perf/run"), self.calls())
                self.assertFalse(self.result.exists())

    def test_a_given_profile_needs_no_training_nor_root(self):
        profile = self.root / "given.profdata"
        profile.touch()
        self.tool.unlink()
        self.free(0)
        with mock.patch.object(os, "geteuid", return_value=1000), contextlib.chdir(self.root):
            self.run_release("--profile", profile.name)
        others, trained = self.calls()
        self.assertIn("-p vsctl", others)
        self.assertIn(f"| {self.usual} -Cprofile-use={profile} |", trained)
        self.assertTrue((self.result / "vswitchd").exists())

    def test_a_given_profile_that_is_not_there(self):
        for name in ("missing.profdata", "."):
            with self.subTest(name):
                self.assertIn(f"no profile {name}", self.run_release("--profile", name, status=1))
        self.assertEqual(self.calls(), [])

    def test_perf_run_has_the_cases(self):
        done = subprocess.run([ROOT / "perf" / "run", "--list"], capture_output=True, text=True, timeout=20)
        there = {line.split()[0] for line in done.stdout.splitlines()}
        self.assertEqual(set(self.release.CASES) - there, set(), done.stderr)

    def test_usage(self):
        done = subprocess.run([ROOT / "tools" / "release", "--help"], capture_output=True, text=True, timeout=20)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("20 minutes", "576", "root", "--profile", "8 to 20 % off"):
            self.assertIn(word, " ".join(done.stdout.split()))


if __name__ == "__main__":
    unittest.main()

"""The command blocks of README and of the quick starts do what they promise: they are run as they are printed, in a machine of their own, and print what the
page shows below them. What builds and tests the whole is left to those who do (tools/test): its arguments are checked."""

import os
import re
import shutil
import subprocess
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
# Information strings of code blocks: commands, what they print (directly below them), and files.
KINDS = {"sh", "text", "toml", "yaml"}
LIMIT_S = 300
# A machine as a reader has it: nothing but the repository and its programs, as root. `demo`, `test`, `setup` and `cargo` write down how they were called.
MACHINE = """
    mount -t tmpfs tmpfs /run
    mkdir -p /run/root /run/bin /run/checkout/tools /run/checkout/target /run/called
    mount --bind "$1" /run/root
    mount --bind "$2" /run/bin
    mount -t tmpfs tmpfs /tmp
    mount -t sysfs sysfs /sys
    ip link set lo up
    cd /run/checkout
    for name in /run/root/* /run/root/tools/*; do
      to=${name#/run/root/}
      [[ -e $to ]] || ln -s "$name" "$to"
    done
    ln -s /run/bin target/fast
    printf '#!/bin/bash\\necho "${0##*/} $*" >>/run/commands\\n' | tee /run/called/{cargo,demo,setup,test} >/dev/null
    chmod +x /run/called/*
    ln -sf /run/called/{demo,setup,test} tools
    export PATH=/run/called:$PATH
    unset VSWITCH_SOCKET
"""
ALONE = ("unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-ec")


def blocks(text):
    """Code blocks of a page: (kind, lines, whether nothing is between it and the one before it)."""
    kind, lines, directly = None, [], False
    for line in text.splitlines():
        if kind is None and line.startswith("```"):
            kind, lines = line[3:].strip(), []
        elif kind is not None and line == "```":
            yield kind, lines, directly
            kind, directly = None, True
        elif kind is not None:
            lines.append(line)
        elif line.strip():
            directly = False


def same(line):
    """A line without what differs from run to run: numbers, and how far columns are apart."""
    return re.sub(r"\d+", "0", " ".join(line.split()))


def missing(shown, printed):
    """The first line that a page shows and that was not printed, in this order; `...` stands for any lines. None: all were."""
    printed = iter([same(line) for line in printed])
    return next((line for line in shown if line.strip() not in ("", "...") and same(line) not in printed), None)


def script(page):
    """The commands of a page, each block with a mark behind it, and what each has to print, by the block's number."""
    commands, shown = [], {}
    for kind, lines, directly in blocks(page):
        if kind == "sh":
            commands += [*lines, f"echo '@@ {len(shown)}'"]
            shown[len(shown)] = []
        elif kind == "text" and directly and shown:
            shown[len(shown) - 1] += lines
    return "\n".join(commands), shown


class QuickStart(unittest.TestCase):
    maxDiff = None

    def follow(self, name):
        """Runs the blocks of a page; what was called of what is not run here."""
        page = (ROOT / name).read_text()
        commands, shown = script(page)
        self.assertTrue(shown, f"{name} has no commands")
        text = f"{MACHINE}\n{commands}\necho '@@ end'\ncat /run/commands 2>/dev/null || true\n"
        done = subprocess.run([*ALONE, text, "bash", ROOT, BINARIES], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, f"{name}: what was printed:\n{done.stdout}")
        printed, end, called = done.stdout.partition("@@ end\n")
        self.assertTrue(end, f"{name} was not followed to its end:\n{done.stdout}")
        for number, part in enumerate(re.split(r"^@@ \d+\n", printed, flags=re.MULTILINE)[:-1]):
            self.assertIsNone(missing(shown[number], part.splitlines()), f"{name}: a line that the page shows is not in:\n{part}")
        for line in called.splitlines():
            self.check(*line.split())
        return called.splitlines()

    def check(self, program, *words):
        """What is not run here takes these arguments."""
        if program == "cargo":
            self.assertEqual(words, ("build", "--profile", "fast", "--workspace"))
            self.assertIn("fast", tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"])
            return
        # The demo says so when it has understood all, the others read in order.
        last, status = (("--bin-dir", "/nonexistent"), 1) if program == "demo" else (("--help",), 0)
        done = subprocess.run([ROOT / "tools" / program, *words, *last], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)

    def test_readme(self):
        called = self.follow("README.md")
        self.assertEqual(called[:2], ["demo ", "test "])
        self.assertIn("setup ", called)

    def test_getting_started(self):
        self.follow("docs/getting-started.md")

    @unittest.skipIf(shutil.which("protoc-gen-go-grpc") is None or not Path("/usr/lib/python3/dist-packages/grpc").is_dir(),
                     "gRPC of Debian for Python or Go is missing: tools/setup --examples installs it")
    def test_examples(self):
        self.follow("tools/examples/README.md")


def verbs(*words):
    """What a program's help lists as commands, by the words before them."""
    said = subprocess.run([BINARIES / "vsctl", *words, "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^ {2}([a-z][\w-]*)(?: |$)", said.partition("Commands:\n")[2].partition("\nOptions:")[0], re.MULTILINE))


class Verbs(unittest.TestCase):
    """Commands of vsctl in all pages of the book, run or not."""

    def test_there_are(self):
        plain, antrea = verbs(), verbs("antrea")
        self.assertLess({"show", "add-port", "trace"}, plain)
        self.assertLess({"status", "pods"}, antrea)
        used = set()
        for page in [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]:
            for words in re.findall(r"(?:^|[`&|] ?)vsctl ([a-z][\w-]*(?: [a-z][\w-]*)?)", page.read_text(), re.MULTILINE):
                verb, _, second = words.partition(" ")
                self.assertIn(verb, plain, f"{page.name}: vsctl {words}")
                if verb == "antrea" and second:
                    self.assertIn(second, antrea, f"{page.name}: vsctl {words}")
                used.add(verb)
        self.assertGreater(len(used), 20)

    def test_all_have_a_line(self):
        """docs/vsctl.md has every verb that help shows, in the left column of its tables."""
        lines = [line for line in (ROOT / "docs/vsctl.md").read_text().splitlines() if line.startswith("|")]
        left = set(re.findall(r"[a-z][\w-]+", " ".join(line.split("|")[1] for line in lines)))
        self.assertEqual((verbs() - {"help", "antrea", "completion", "man"}) - left, set())
        self.assertEqual((verbs("antrea") - {"help"}) - left, set())


class Blocks(unittest.TestCase):
    def test_each_says_what_it_is(self):
        for name in ("README.md", "docs/getting-started.md", "tools/examples/README.md"):
            for kind, lines, _ in blocks((ROOT / name).read_text()):
                self.assertIn(kind, KINDS, f"{name}: {lines[:1]}")

    def test_are_found(self):
        page = "a\n```sh\nls\n```\n\n```text\nb\n```\nc\n```text\nd\n```\n```sh\ncd\n```\n"
        self.assertEqual(script(page), ("ls\necho '@@ 0'\ncd\necho '@@ 1'", {0: ["b"], 1: []}))

    def test_what_is_shown_has_to_be_printed(self):
        printed = ["PING 10.0.0.2", "64 bytes:  time=0.31 ms", "done"]
        self.assertIsNone(missing(["64 bytes: time=1.99 ms", "...", "done"], printed))
        self.assertEqual(missing(["done", "PING 10.0.0.2"], printed), "PING 10.0.0.2")
        self.assertEqual(missing(["65 bytes!"], printed), "65 bytes!")


if __name__ == "__main__":
    unittest.main()

"""Pages whose command blocks are run as they are printed, in a machine of their own, and print what
the page shows below them. What builds and tests the whole is left to those who do (tools/test): its
arguments are checked."""

import os
import re
import subprocess
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Path(os.environ.get("VSWITCH_BIN_DIR", ROOT / "target" / "debug"))
# Information strings of code blocks: commands, what they print (directly below them), and files.
KINDS = {"sh", "text", "toml", "yaml"}
LIMIT_S = 300
# A machine as a reader has it: nothing but the repository and its programs, as root. `demo`,
# `test`, `setup`, `package`, `cargo` and `apt` write down how they were called.
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
    printf '#!/bin/bash\\necho "${0##*/} $*" >>/run/commands\\n' | tee /run/called/{apt,cargo,demo,package,setup,test} >/dev/null
    chmod +x /run/called/*
    ln -sf /run/called/{demo,package,setup,test} tools
    export PATH=/run/called:/run/bin:$PATH
    export GOCACHE=/run/root/target/go-build
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
    """The first line that a page shows and that was not printed, in this order; `...` stands for
    any lines, or any part of a line. None: all were."""
    printed = iter([same(line) for line in printed])
    for line in shown:
        pattern = re.compile(".*".join(map(re.escape, same(line).split("..."))))
        if line.strip() not in ("", "...") and not any(pattern.fullmatch(other) for other in printed):
            return line
    return None


def script(page):
    """The commands of a page, each block with a mark behind it, and what each has to print, by the
    block's number."""
    commands, shown = [], {}
    for kind, lines, directly in blocks(page):
        if kind == "sh":
            commands += [*lines, f"echo '@@ {len(shown)}'"]
            shown[len(shown)] = []
        elif kind == "text" and directly and shown:
            shown[len(shown) - 1] += lines
    return "\n".join(commands), shown


class Page(unittest.TestCase):
    """Follows a page."""

    maxDiff = None

    def follow(self, name):
        """Runs the blocks of a page; what was called of what is not run here."""
        page = (ROOT / name).read_text()
        commands, shown = script(page)
        self.assertTrue(shown, f"{name} has no commands")
        text = f"{MACHINE}\n{commands}\necho '@@ end'\ncat /run/commands 2>/dev/null || true\n"
        try:
            done = subprocess.run([*ALONE, text, "bash", ROOT, BINARIES], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            self.fail(f"{name} is not at its end after {LIMIT_S} s; what was printed:\n{(error.output or b'').decode(errors='replace')[-8192:]}")
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
            self.assertIn(words, (("build", "--profile", "fast", "--workspace"), ("build", "--release", "--locked", "--workspace")))
            self.assertIn("fast", tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"])
            return
        if program == "apt":
            # None is there: the pattern stays as it is.
            self.assertEqual(words, ("install", "./target/packages/vswitch_*.deb"))
            return
        # The demo says so when it has understood all, the others read in order.
        last, status = (("--bin-dir", "/nonexistent"), 1) if program == "demo" else (("--help",), 0)
        done = subprocess.run([ROOT / "tools" / program, *words, *last], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)

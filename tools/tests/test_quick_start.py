"""The command blocks of README and of docs/getting-started.md do what they promise (`pages`);
commands of vsctl in all pages are there."""

import re
import subprocess
import unittest

from pages import BINARIES, KINDS, ROOT, Page, blocks, missing, script


class QuickStart(Page):
    def test_readme(self):
        called = self.follow("README.md")
        self.assertEqual(called[:2], ["demo ", "test "])
        self.assertIn("setup ", called)

    def test_getting_started(self):
        self.follow("docs/getting-started.md")


def verbs(*words):
    """What a program's help lists as commands, by the words before them."""
    said = subprocess.run([BINARIES / "vsctl", *words, "--help"], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^ {2}([a-z][\w-]*)(?: |$)", said.partition("Usage:")[2].partition("\nOptions:")[0], re.MULTILINE))


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
        self.assertIsNone(missing(["PING ...", "d...e"], printed))
        self.assertEqual(missing(["PING ... bytes"], printed), "PING ... bytes")


if __name__ == "__main__":
    unittest.main()

"""The documents: how long they are, how wide, that links lead somewhere, and that the book has all
of its pages."""

import re
import subprocess
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Lines that a document may have.
LINES = {"README.md": 150, "ARCHITECTURE.md": 150}
COLUMNS = 100
# Not yet rewritten: these may be wider.
TO_DO = set()
# What is no page of the book.
NO_PAGES = {"docs/SUMMARY.md"}
FENCE = re.compile(r"^\s*(```+|~~~+)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"(`+)(.+?)\1")
# Paths of what is made, by tests and benchmarks.
MADE = {"perf/results/"}
# A path of the repository at the beginning of what stands in backticks. `vswitch/port` and the like
# are annotations of Kubernetes.
PATH = re.compile(r"((?:docs|perf|proto|tools)/[\w./-]+|vswitch/[\w-]+/[\w./-]+|vswitch/[\w-]+\.[\w.]+)(?=$| )")


def documents():
    """All Markdown files of the repository, new ones included."""
    said = subprocess.run(["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], check=True, capture_output=True, text=True)
    return [name for name in said.stdout.splitlines() if (ROOT / name).exists()]


def prose(text):
    """Numbered lines outside of code blocks."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark[1]
        elif fence is not None:
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = None
        else:
            yield number, line


def anchors(text):
    """Where links into a document may lead: its headings, as GitHub and mdBook name them."""
    found = {}
    for _, line in prose(text):
        if heading := re.match(r"#{1,6} +(.*?) *#*$", line):
            words = LINK.sub(lambda link: link[0][1:link[0].index("]")], heading[1]).replace("`", "").strip().lower()
            name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            times = found.get(name, 0)
            found[name] = times + 1
            yield f"{name}-{times}" if times else name


def links(text):
    """Links of a document with the numbers of their lines; not those that stand in code."""
    for number, line in prose(text):
        for target in LINK.findall(CODE.sub("", line)):
            yield number, target


def dead(name, read=lambda path: path.read_text()):
    """What is wrong with the links of a document."""
    for number, target in links(read(ROOT / name)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        if not file.exists():
            yield f"{name}:{number}: there is no {target}"
        elif anchor and (file.suffix != ".md" or anchor not in anchors(read(file))):
            yield f"{name}:{number}: {target}: no such heading"


class Documents(unittest.TestCase):
    maxDiff = None

    def test_are_no_longer_than_promised(self):
        for name, limit in LINES.items():
            self.assertLessEqual(len((ROOT / name).read_text().splitlines()), limit, name)

    def test_are_no_wider_than_a_screen(self):
        wide = [f"{name}:{number}: {len(line)} columns" for name in documents() if name not in TO_DO
                for number, line in enumerate((ROOT / name).read_text().splitlines(), 1) if len(line) > COLUMNS]
        self.assertEqual("\n".join(wide), "")

    def test_what_is_to_do_is_not_done(self):
        for name in TO_DO:
            self.assertTrue(any(len(line) > COLUMNS for line in (ROOT / name).read_text().splitlines()), f"{name} is done: take it out of TO_DO")

    def test_links_lead_to_files_and_headings(self):
        self.assertEqual("\n".join(problem for name in documents() for problem in dead(name)), "")

    def test_paths_are_those_of_files(self):
        wrong = [f"{name}:{number}: there is no {path[1]}" for name in documents() if name not in TO_DO
                 for number, line in prose((ROOT / name).read_text()) for _, code in CODE.findall(line)
                 if (path := PATH.match(code)) and "NAME" not in path[1] and path[1] not in MADE and not (ROOT / path[1]).exists()]
        self.assertEqual("\n".join(wrong), "")

    def test_the_book_has_every_page_once(self):
        listed = [f"docs/{target}" for _, target in links((ROOT / "docs/SUMMARY.md").read_text())]
        self.assertEqual(sorted(listed), sorted(set(listed)))
        pages = {name for name in documents() if name.startswith("docs/")} - NO_PAGES
        self.assertEqual(pages - set(listed), set(), "not in docs/SUMMARY.md")


def keys(table, name=""):
    """The keys of a TOML document, each with the section that it is in; what a section of free keys
    has in it is not the language's."""
    for key, value in table.items():
        path = f"{name}.{key}" if name else key
        yield path
        for inner in value if isinstance(value, list) else [value]:
            own = ("options", "external_ids", "timeouts", "tables", "static_macs", "users", "groups", "sans", "tls")
            if isinstance(inner, dict) and key not in own:
                yield from keys(inner, path)


def fenced(text, kind):
    """The code blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Examples(unittest.TestCase):
    """What pages show is what there is."""

    def test_configurations_have_keys_of_the_language(self):
        example = (ROOT / "vswitch/vswitchd.example.toml").read_text()
        # What is commented out there is part of it, too. A line of prose has no ` = ` behind one
        # word.
        known = {"conntrack.zone", "route"}
        section = ""
        for line in example.splitlines():
            line = line.removeprefix("# ")
            if heading := re.match(r"\[+([\w.]+)\]", line):
                section = heading[1]
                known |= {section, section.split(".")[0]}
            elif key := re.match(r"(\w+) = ", line):
                known.add(f"{section}.{key[1]}")
        shown = 0
        for name in documents():
            for block in fenced((ROOT / name).read_text(), "toml") if name.startswith("docs/") else []:
                shown += 1
                self.assertEqual(set(keys(tomllib.loads(block))) - known, set(), f"{name}:\n{block}")
        self.assertGreater(shown, 3)

    def test_containers_are_attached_as_tests_attach_them(self):
        page = (ROOT / "docs/pods.md").read_text()
        test, = (path for path in (ROOT / "vswitch").glob("**/tests/containers.rs") if "target" not in path.parts)
        devices = re.findall(r'^const \w+: &str = "(net_[^"]+)";', test.read_text(), re.MULTILINE)
        self.assertEqual(len(devices), 2)
        for device in devices:
            self.assertIn(f"--vdev={device}", page)


class Rules(unittest.TestCase):
    """That the checks find what they look for."""

    TEXT = "# A `b` c\n\n[x](other.md#d) `[y](none.md)`\n\n```\n# no heading\n[z](none.md)\n```\n## A b c\n[w](https://example.com/#x)\n"

    def test_links_and_headings(self):
        self.assertEqual(list(anchors(self.TEXT)), ["a-b-c", "a-b-c-1"])
        self.assertEqual(list(links(self.TEXT)), [(3, "other.md#d"), (10, "https://example.com/#x")])

    def test_dead_links(self):
        def problems(text):
            return list(dead("README.md", lambda path: text if path == ROOT / "README.md" else path.read_text()))

        self.assertEqual(problems("# A\n[a](#a) [b](docs/SUMMARY.md#summary) [c](tools) [d](https://example.com/none)\n"), [])
        self.assertEqual(problems("[a](none.md)\n"), ["README.md:1: there is no none.md"])
        self.assertEqual(problems("# A\n\n[a](#b)\n"), ["README.md:3: #b: no such heading"])
        self.assertEqual(problems("[a](docs/SUMMARY.md#none)\n"), ["README.md:1: docs/SUMMARY.md#none: no such heading"])

    def test_paths(self):
        for code, path in (("tools/setup --check", "tools/setup"), ("vswitch/port", None), ("vswitch/dpdk/src/eal.rs", "vswitch/dpdk/src/eal.rs"),
                           ("perf/run", "perf/run"), ("vswitch/vswitchd.example.toml", "vswitch/vswitchd.example.toml"), ("tools/tests/test_*.py", None)):
            match = PATH.match(code)
            self.assertEqual(match and match[1], path, code)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Prints the slowest tests of a run of tools/test, slowest first.

A file is a report of cargo-nextest (JUnit's XML), or the log of tools/tests/run, which names files
of Python tests and their time."""

import argparse
import re
import xml.etree.ElementTree as xml
from pathlib import Path

FILE = re.compile(r"^-- (test_\w+\.py): status -?\d+, (\d+) s$", re.MULTILINE)


def times(path):
    """Yields (seconds, name) of each test in a file."""
    text = path.read_text(errors="replace")
    if path.suffix == ".xml":
        for case in xml.fromstring(text).iter("testcase"):
            yield float(case.get("time", 0)), f"{case.get('classname', '')} {case.get('name', '')}".strip()
    else:
        for name, seconds in FILE.findall(text):
            yield float(seconds), f"tools/tests/{name}"


def main():
    parser = argparse.ArgumentParser(prog="slowest.py", description=__doc__.splitlines()[0])
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    parser.add_argument("--number", type=int, default=20, metavar="N", help="how many (default 20)")
    args = parser.parse_args()
    found = [entry for path in args.files for entry in times(path)]
    for seconds, name in sorted(found, reverse=True)[: args.number]:
        print(f"{seconds:8.1f} s  {name}")


if __name__ == "__main__":
    main()

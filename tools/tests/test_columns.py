"""Comments, docstrings and protos: no line is wider than a screen."""

import ast
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 100
# How a line of nothing but a comment begins, by the ending of the file.
MARKS = {".rs": "//", ".proto": "//", ".py": "#", ".toml": "#", ".sh": "#", ".case": "#", ".service": "#", "": "#"}
# Protos as they were released stay as they were.
RELEASED = "proto/released/"


def can_be_shorter(text):
    """Whether a comment has a place to break at: a row of a table has none, nor has an address."""
    words = text.lstrip("/#! -")
    return " " in words and not words.startswith("|")


def comments(text, mark):
    """Numbered lines that are comments."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(mark) and not line.lstrip().startswith("#["):
            yield number, line


def docstrings(text):
    """Numbered lines of documentation in Python."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            yield from ((number, lines[number - 1]) for number in range(first.lineno, first.end_lineno + 1))


def wide(name, text):
    """Lines of a file that are too wide."""
    suffix = Path(name).suffix
    if suffix not in MARKS:
        return
    found = list(comments(text, MARKS[suffix]))
    if suffix == ".py" or text.startswith("#!/usr/bin/env python3"):
        found += docstrings(text)
    for number, line in sorted(found):
        if len(line) > COLUMNS and can_be_shorter(line.lstrip()):
            yield f"{name}:{number}: {len(line)} columns"


class Columns(unittest.TestCase):
    def test_comments_are_no_wider_than_a_screen(self):
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
        found = []
        for name in listed.stdout.splitlines():
            path = ROOT / name
            if not name.startswith(RELEASED) and path.is_file() and not path.is_symlink():
                found += wide(name, path.read_text(errors="replace"))
        self.assertEqual("\n".join(found), "")

    def test_what_is_too_wide_is_found(self):
        long = "word " * 20
        for name, text in (("a.rs", f"    /// {long}"), ("a.proto", f"// {long}x"), ("a.py", f"# {long}x"), ("a", f"#!/bin/bash\n# {long}x"),
                           ("a.py", f'def f():\n    """{long}"""'), ("a", f'#!/usr/bin/env python3\n"""{long}"""')):
            self.assertEqual(len(list(wide(name, text))), 1, text)
        for name, text in (("a.rs", f"// | {long} |"), ("a.rs", f"let x = 1; {long}"), ("a.py", "# " + "x" * 200), ("a.md", long), ("a.py", f'x = """{long}"""')):
            self.assertEqual(list(wide(name, text)), [], text)


if __name__ == "__main__":
    unittest.main()

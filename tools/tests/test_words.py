"""One word per thing: words of a private vocabulary that code and documents do not use any more."""

import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Each word that is not to come back, and the field's word for it.
BANNED = {
    r"\b(short|quick)[ _]way\b": "fast path",
    r"\blong[ _]way\b": "slow path",
    r"\bstraight road\b": "batch",
    r"\bwrap_quickly\b": "encap_fast",
    r"\b(doors|by an? door)\b": "decap cache, decap entry",
    r"\bluggage\b": "FrozenState",
    r"\b(homes|home port|the home)\b": "VTEP, LocalEndpoint",
    r"\b(loans|lender|lent)\b": "zero-copy, borrowed",
    r"\bWides\b": "V6Addrs",
    r"\btend\(": "maintain",
    r"\brooms?(?= (of the|crate))|\b(that|this) room\b|\bRoom::": "module, crate, NodeState",
    r"\bwhat (the|an) agent (says|said)\b": "what the agent declares",
    r"\bref §": "a document that is in the repository, or a public one",
}
ANY = re.compile("|".join(f"(?:{pattern})" for pattern in BANNED))
SUFFIXES = (".rs", ".proto", ".md", ".py", ".toml", ".c", ".h")
# The history of names, and this list.
EXEMPT = {"CHANGELOG.md", "tools/tests/test_words.py"}


def found(text):
    """(line, word, the field's word) of all that is banned."""
    if not ANY.search(text):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, word in BANNED.items():
            if match := re.search(pattern, line):
                yield number, match[0], word


class Words(unittest.TestCase):
    def test_no_banned_word_is_used(self):
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
        wrong = []
        for name in listed.stdout.splitlines():
            path = ROOT / name
            if name in EXEMPT or not name.endswith(SUFFIXES) or not path.is_file():
                continue
            text = path.read_text(errors="replace")
            wrong += [f"{name}:{line}: {got!r}: write {word}" for line, got, word in found(text)]
        self.assertEqual("\n".join(wrong), "")

    def test_each_word_is_found(self):
        text = "the short way\na long_way\nluggage\nby a door\nthe home\na loans list\ntend(\nwhat the agent says\nref §2\nthat room's"
        self.assertEqual([line for line, *_ in found(text)], list(range(1, 11)))
        self.assertEqual(list(found("the fast path; a decap entry; a VTEP; what the agent declares")), [])


if __name__ == "__main__":
    unittest.main()

"""Manual pages of programs that have none of their own: made of what `--help` says."""

import re

from .. import machine

HEADING = re.compile(r"([A-Z][A-Za-z ]+):")


def escaped(line):
    """A line as roff takes it."""
    text = line.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text


def page(name, section, about, text, date):
    """The page of a program. `text` is its help: the usage and the lists keep their lines."""
    said = [f'.TH {name.upper()} {section} "{date}" vswitch "System administration"']
    said += [".SH NAME", f"{escaped(name)} \\- {escaped(about)}", ".SH DESCRIPTION", ".nf"]
    for line in text.strip().splitlines():
        heading = HEADING.fullmatch(line)
        if heading:
            said += [".fi", f".SH {heading[1].upper()}", ".nf"]
        elif line.lower().startswith("usage: "):
            said += [".fi", ".SH SYNOPSIS", ".nf", escaped(line[7:]), ".fi", ".SH DETAILS", ".nf"]
        else:
            said.append(escaped(line))
    return "\n".join([*said, ".fi", ""])


def help_of(program):
    """What a program says of itself, for a terminal of 80 columns."""
    return machine.output([program, "--help"], env={"PATH": "/usr/bin:/bin", "COLUMNS": "80", "LC_ALL": "C.UTF-8"})

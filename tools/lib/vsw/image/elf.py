"""Which shared libraries a program needs, read from its ELF header: no program runs for that."""

import struct
from pathlib import Path

from ..machine import Failure

# Where Debian's loader looks by default.
LIBRARIES = (Path("/lib/x86_64-linux-gnu"), Path("/usr/lib/x86_64-linux-gnu"))
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_STRTAB = 1, 5
X86_64 = 62


class Elf:
    """A program or a library for x86-64: the names of libraries that it needs, and its loader."""

    def __init__(self, path):
        data = Path(path).read_bytes()
        if data[:5] != b"\x7fELF\x02" or struct.unpack_from("<H", data, 18)[0] != X86_64:
            raise Failure(f"{path} is no program for x86-64")
        start, size, count = (struct.unpack_from(form, data, place)[0] for form, place in (("<Q", 32), ("<H", 54), ("<H", 56)))
        headers = [struct.unpack_from("<IIQQQQ", data, start + i * size) for i in range(count)]
        loads = [(address, offset, length) for kind, _, offset, address, _, length in headers if kind == PT_LOAD]
        self.interpreter, self.needed = None, []
        for kind, _, offset, _, _, length in headers:
            if kind == PT_INTERP:
                self.interpreter = data[offset : offset + length].rstrip(b"\0").decode()
            elif kind == PT_DYNAMIC:
                entries = list(struct.iter_unpack("<QQ", data[offset : offset + length - length % 16]))
                self.needed = names(data, loads, entries)


def names(data, loads, entries):
    """What DT_NEEDED says, up to the entry that ends the table."""
    if (0, 0) in entries:
        entries = entries[: entries.index((0, 0))]
    tables = [value for tag, value in entries if tag == DT_STRTAB]
    if not tables:
        return []
    where = next((tables[0] - address + offset for address, offset, length in loads if address <= tables[0] < address + length), None)
    if where is None:
        raise Failure("a table of strings is in no segment")
    starts = [where + value for tag, value in entries if tag == DT_NEEDED]
    return [data[start : data.index(b"\0", start)].decode() for start in starts]


def find(name, directories=LIBRARIES):
    """The file of a library, by its name."""
    for directory in directories:
        if (directory / name).exists():
            return directory / name
    raise Failure(f"there is no library {name} in {', '.join(map(str, directories))}")


def closure(paths, directories=LIBRARIES):
    """Files of all libraries that programs need, by name; and the loaders."""
    found, loaders, left = {}, set(), list(paths)
    while left:
        elf = Elf(left.pop())
        loaders |= {elf.interpreter} - {None}
        for name in elf.needed:
            # The loader is needed by name, too.
            if name not in found and not name.startswith("ld-linux"):
                found[name] = find(name, directories)
                left.append(found[name])
    return found, loaders

"""What is linked into vswitch: crates by `cargo metadata`, shared libraries by the loader.

The rules are those of deny.toml, the file of cargo-deny, which reads the same file where it is
installed. Without it, and without a network, this reads the sections `licenses`, `bans` and
`sources`."""

import json
import re
import subprocess
import tomllib

from . import machine

TARGET = "x86_64-unknown-linux-gnu"
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def metadata():
    """Packages that a build for TARGET may take, tests included, as cargo tells them."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
    return json.loads(subprocess.run(command, cwd=machine.ROOT, check=True, stdout=subprocess.PIPE).stdout)


def rules():
    """deny.toml."""
    return tomllib.loads((machine.ROOT / "deny.toml").read_text())


def is_allowed(expression, allowed):
    """Whether an SPDX expression needs only licences that are allowed. (SPDX 2.3, annex D; crates
    of before it write "/" for OR.)"""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    # "A WITH B" is one licence.
    while "WITH" in tokens:
        at = tokens.index("WITH")
        tokens[at - 1 : at + 2] = [" ".join(tokens[at - 1 : at + 2])]

    def choice():
        is_right = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            is_right = both() or is_right
        return is_right

    def both():
        is_right = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            is_right = one() and is_right
        return is_right

    def one():
        token = tokens.pop(0)
        if token != "(":
            return token in allowed
        is_right = choice()
        if tokens.pop(0) != ")":
            raise ValueError(f"{expression!r} is no expression")
        return is_right

    try:
        is_right = choice()
    except IndexError:
        raise ValueError(f"{expression!r} is no expression") from None
    if tokens:
        raise ValueError(f"{expression!r} is no expression")
    return is_right


def problems(packages, members, deny):
    """What these packages break of the rules, a line each. `members` are ids of the workspace's."""
    allowed, banned = set(deny["licenses"]["allow"]), {rule["crate"]: rule["reason"] for rule in deny["bans"]["deny"]}
    found = []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        licence = package["license"]
        if not licence or not is_allowed(licence, allowed):
            found.append(f"{name}: licence {licence!r} is not in deny.toml")
        if package["name"] in banned:
            found.append(f"{name}: is banned: {banned[package['name']]}")
        is_member = package["id"] in members
        if package["source"] != (None if is_member else REGISTRY):
            found.append(f"{name}: is from {package['source'] or 'a path'}, not from crates.io")
        for needed in package["dependencies"] if is_member else ():
            if needed["req"] == "*" and "path" not in needed:
                found.append(f"{name}: wants any version of {needed['name']}")
    return found


def libraries(program):
    """Paths of the shared libraries that a program is started with, by name."""
    told = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(re.findall(r"^\s*(\S+) => (/\S+) ", told, re.MULTILINE))


def debian_package(path):
    """Name and version of the Debian package that a file is of; None if it is of none."""
    # Where /lib is a link to /usr/lib, the file may be known by either name.
    for name in dict.fromkeys([path, path.removeprefix("/usr"), f"/usr{path}"]):
        owner = subprocess.run(["dpkg-query", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if owner.returncode == 0:
            package = owner.stdout.split(": ")[0].split(",")[0]
            told = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Version}", package], check=True, stdout=subprocess.PIPE, text=True)
            return tuple(told.stdout.split("\t"))
    return None


def linked(meta, root):
    """Packages that the program of package `root` is built from: no development dependencies, no
    build scripts' own."""
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    packages = {package["id"]: package for package in meta["packages"]}
    start = next(package["id"] for package in meta["packages"] if package["name"] == root)
    seen, todo = {start}, [start]
    while todo:
        for edge in nodes[todo.pop()]["deps"]:
            if any(kind["kind"] is None for kind in edge["dep_kinds"]) and edge["pkg"] not in seen:
                seen.add(edge["pkg"])
                todo.append(edge["pkg"])
    return sorted((packages[id] for id in seen), key=lambda package: (package["name"], package["version"]))


def bill(program, package, meta):
    """The bill of materials of a built program (CycloneDX 1.5). It has no time and no serial
    number: the same program has the same bill."""
    parts = linked(meta, package)
    own = next(part for part in parts if part["name"] == package)
    checksums = locked_checksums()
    components = [crate(part, checksums) for part in parts if part is not own]
    for name, path in sorted(libraries(program).items()):
        debian = debian_package(path)
        component = {"type": "library", "name": debian[0] if debian else name, "properties": [{"name": "vswitch:file", "value": name}]}
        if debian:
            component |= {"version": debian[1], "purl": f"pkg:deb/debian/{debian[0]}@{debian[1]}"}
        components.append(component)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": package, "version": own["version"]}},
        "components": components,
    }


def crate(part, checksums):
    """A crate as a component."""
    name, version = part["name"], part["version"]
    licence = part["license"].replace("/", " OR ") if part["license"] else None
    component = {"type": "library", "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
    if licence:
        component["licenses"] = [{"expression": re.sub(r" +", " ", licence)}]
    if (name, version) in checksums:
        component["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return component


def locked_checksums():
    """SHA-256 sums of crates, of Cargo.lock."""
    lock = tomllib.loads((machine.ROOT / "Cargo.lock").read_text())
    return {(package["name"], package["version"]): package["checksum"] for package in lock["package"] if "checksum" in package}

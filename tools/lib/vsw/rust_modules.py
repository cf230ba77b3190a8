"""The modules of a Rust crate, which of them use which, and the circles in that.

Reads the source as text. A module uses another one when it names something that is defined there,
by a `use` or by a path; names that a module passes on (`pub use`) count for where they are defined.
Code of tests is left out, and so is what a module uses of those around it (`super::NAME`): a parent
and its children may know each other.
"""

import re
from pathlib import Path

SPACE = re.compile(r"\s+")
TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])'""", re.DOTALL | re.VERBOSE
)
TEST = re.compile(r"#!?\[cfg\((?:test|(?:all|any)\([^\]]*\btest\b[^\]]*)\)\]")
MODULE = re.compile(r"\bmod\s+(?:r#)?(\w+)\s*([;{])")
USE = re.compile(r"\buse\s+([^;]+);")
ITEM = re.compile(r"\b(?:fn|struct|enum|union|trait|type|const|static|macro_rules!)\s+(?:mut\s+)?(?:r#)?(\w+)")
PATH = re.compile(r"(?<![\w:$])(?:r#)?(\w+)((?:\s*::\s*(?:r#)?\w+)+)")


class Module:
    """A module: its name in the crate (`a::b`), what is in it, and what names its imports give to
    others' items."""

    def __init__(self, name, parent, directory):
        self.name, self.parent, self.directory = name, parent, directory
        self.children, self.imports, self.globs, self.items, self.code = {}, {}, [], set(), ""

    @property
    def around(self):
        """The modules around it, and itself."""
        module, found = self, []
        while module is not None:
            found.append(module)
            module = module.parent
        return found


def bare(text):
    """Rust without comments, strings and characters, and without what only tests see."""
    text = TOKENS.sub(lambda token: " " if token[0].startswith("/") else '""', text)
    while found := TEST.search(text):
        if found[0].startswith("#!"):
            return ""
        text = text[: found.start()] + text[item_end(text, found.end()) :]
    return text


def item_end(text, at):
    """Where the item that begins at `at` ends: behind its `;` or its last brace. Attributes before
    it belong to it."""
    while text[at:].lstrip().startswith("#["):
        at = closed(text, text.index("[", at))
    # Of lists, only those of braces end an item: not the arguments of a function, nor a path of
    # `use`.
    is_use = re.match(r"\s*(?:pub(?:\([^)]*\))?\s+)?use\b", text[at:])
    while at < len(text):
        if text[at] in "([":
            at = closed(text, at)
        elif text[at] == "{" and not is_use:
            return closed(text, at)
        elif text[at] == ";":
            return at + 1
        elif text[at] == "," or text[at] == "}" and not is_use:  # a field, a variant or an arm of a match
            return at
        else:
            at += 1
    return at


def closed(text, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        if depth == 0:
            return end + 1
    return len(text)


def paths_of(tree):
    """The paths of the tree of a `use`, each with the name that it has here (`*`: all names)."""
    tree = tree.strip()
    if "{" in tree:
        head, rest = tree.split("{", 1)
        inner, depth, part = [], 0, ""
        for letter in rest[: rest.rindex("}")] + ",":
            depth += (letter == "{") - (letter == "}")
            if letter == "," and depth == 0:
                inner.append(part)
                part = ""
            else:
                part += letter
        return [found for part in inner if part.strip() for found in paths_of(head + part)]
    path, _, name = SPACE.sub(" ", tree).partition(" as ")
    segments = [segment.strip().removeprefix("r#") for segment in path.split("::")]
    if segments[-1] == "self":
        segments.pop()
    return [(segments, name.strip() or segments[-1])]


def read_file(module, file):
    """Fills a module with a file, and those below it from theirs."""
    text = file.read_text()
    read(module, bare(text), file)
    # Those that a macro declares: their files lie there, and no `mod` names them.
    for there in sorted(module.directory.glob("*.rs")) if module.parent else []:
        # Tests may lie under another name (`#[path]`).
        is_test = there.stem == "tests" or there.stem.endswith("_tests")
        if there != file and there.stem != "mod" and not is_test and not re.search(rf"\bmod\s+(?:r#)?{there.stem}\b", text):
            child = Module(f"{module.name}::{there.stem}", module, module.directory / there.stem)
            module.children[there.stem] = child
            read_file(child, there)


def read(module, text, file):
    """Fills a module with the text of it, and those in it from their files."""
    while found := MODULE.search(text):
        name = found[1]
        child = Module(f"{module.name}::{name}".removeprefix("::"), module, module.directory / name)
        module.children[name] = child
        if found[2] == "{":
            end = closed(text, found.end() - 1)
            read(child, text[found.end() : end - 1], file)
            text = text[: found.start()] + text[end:]
        else:
            places = (module.directory / f"{name}.rs", module.directory / name / "mod.rs")
            there = next((place for place in places if place.exists()), None)
            if there is None:
                raise FileNotFoundError(f"{file}: the module {name} is not at {places[0]}")
            read_file(child, there)
            text = text[: found.start()] + text[found.end() :]
    for use in USE.finditer(text):
        for segments, name in paths_of(use[1]):
            if name == "*":
                module.globs.append(segments[:-1])
            else:
                module.imports[name] = segments
    module.code = USE.sub("", text)
    module.items = set(ITEM.findall(module.code))


def crate(root):
    """The module of a crate's root file, with all others below it."""
    module = Module("", None, root.parent)
    read_file(module, root)
    return module


def everything(module):
    """A module and all below it."""
    yield module
    for child in module.children.values():
        yield from everything(child)


def follow(module, segments, met=frozenset()):
    """The module of the crate in which a path ends, or None if it leads out of the crate."""
    if not segments:
        return module
    first, rest = segments[0], segments[1:]
    if (id(module), *segments) in met:
        return None
    met = met | {(id(module), *segments)}
    if first == "crate":
        return follow(module.around[-1], rest, met) if rest else module.around[-1]
    if first == "self":
        return follow(module, rest, met)
    if first == "super":
        return None if module.parent is None else follow(module.parent, rest, met)
    return named(module, first, rest, met)


def named(module, name, rest, met):
    """Likewise, from the name of something in a module on. None: there is no such name."""
    if name in module.children:
        child = module.children[name]
        return within(child, rest, met)
    if name in module.imports:
        path = module.imports[name]
        return None if path[0] == name and len(path) == 1 else follow(module, [*path, *rest], met)
    if name in module.items:
        return module
    for glob in module.globs:
        target = follow(module, glob, met)
        if target is not None and target is not module and (found := within(target, [name, *rest], met, None)) is not None:
            return found
    return None


def within(module, rest, met, unknown=...):
    """Where the rest of a path ends that has come to a module. A name that is not found (a macro
    makes it) is the module's own."""
    if not rest:
        return module
    if rest[0] in ("self", "super", "crate"):
        return follow(module, rest, met)
    found = named(module, rest[0], rest[1:], met)
    return (module if unknown is ... else unknown) if found is None else found


def uses(root):
    """For each module the others that it uses, but for those around it."""
    found = {}
    for module in everything(root):
        paths = [*module.imports.values(), *module.globs]
        for head, tail in PATH.findall(module.code):
            paths.append([head, *(part.strip().removeprefix("r#") for part in tail.split("::")[1:])])
        targets = set()
        for path in paths:
            head = path[0]
            if head in ("crate", "self", "super") or head in module.children or head in module.imports:
                target = target_of(module, path)
                if target is not None and target not in module.around:
                    targets.add(target)
        found[module] = targets
    return found


def target_of(module, path):
    """The module in which a path of its code ends."""
    start = module
    while path and path[0] in ("crate", "self", "super"):
        start = {"crate": module.around[-1], "self": start, "super": start.parent}[path[0]]
        path = path[1:]
        if start is None:
            return None
    if start is module:
        return follow(module, path) if path else None
    return within(start, path, frozenset())


def circles(root):
    """The groups of modules of which each one uses, by way of others, every other one: names,
    sorted; the largest first."""
    graph = uses(root)
    order, low, stack, found = {}, {}, [], []

    def visit(module):
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module], key=lambda one: one.name):
            if other not in order:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] is module:
                    break
            if len(group) > 1:
                found.append(sorted(one.name or "crate" for one in group))

    for module in graph:
        if module not in order:
            visit(module)
    return sorted(found, key=lambda group: (-len(group), group))


def circles_of(file):
    """Those of the crate with this root file."""
    return circles(crate(Path(file)))

"""An archive of a package: its tree, its control files, and dpkg-deb. The same input gives the same
bytes."""

import gzip
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from .. import machine
from ..machine import Failure

COMPRESSIONS = ("xz", "gzip", "none")


class Package:
    """A package while it is made: files by their paths, scripts, and fields of its control file."""

    def __init__(self, name, fields):
        self.name, self.fields = name, {"Package": name, **fields}
        self.files, self.directories, self.scripts = {}, {}, {}

    def file(self, path, data, mode=0o644):
        """A file: bytes or text."""
        self.files[path] = (data.encode() if isinstance(data, str) else data, mode)

    def zipped(self, path, data):
        """A file that Debian wants compressed."""
        self.file(f"{path}.gz", gzip.compress(data.encode(), 9, mtime=0))

    def directory(self, path, mode=0o755):
        """A directory that is there without a file in it, or with another mode."""
        self.directories[path] = mode

    def script(self, name, text):
        """A script of the maintainer's, such as postinst."""
        self.scripts[name] = text

    def conffiles(self):
        """Files that an upgrade does not overwrite: those below /etc."""
        return sorted(f"/{path}" for path in self.files if path.startswith("etc/"))

    def control(self):
        """The control file."""
        size = sum((len(data) + 1023) // 1024 for data, _ in self.files.values()) + len(self.directories)
        fields = {**self.fields, "Installed-Size": str(size)}
        # The description is last, as everywhere.
        fields["Description"] = fields.pop("Description")
        return "".join(f"{key}: {value}\n" for key, value in fields.items() if value)

    def lay(self, root):
        """Writes the tree."""
        for path, (data, mode) in self.files.items():
            put(root / path, data, mode)
        for path, mode in self.directories.items():
            (root / path).mkdir(parents=True, exist_ok=True)
            (root / path).chmod(mode)
        debian = root / "DEBIAN"
        put(debian / "control", self.control().encode(), 0o644)
        if self.conffiles():
            put(debian / "conffiles", "".join(f"{path}\n" for path in self.conffiles()).encode(), 0o644)
        contents = [(path, data) for path, (data, _) in sorted(self.files.items()) if not path.startswith("etc/")]
        sums = [f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, data in contents]
        put(debian / "md5sums", "".join(sums).encode(), 0o644)
        for name, text in self.scripts.items():
            put(debian / name, text.encode(), 0o755)

    def build(self, out, time, compression):
        """Writes the archive into a directory; its path."""
        result = out / f"{self.name}_{self.fields['Version']}_{self.fields['Architecture']}.deb"
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory) / "root"
            root.mkdir(mode=0o755)
            self.lay(root)
            for path in (root, *root.rglob("*")):
                if path.is_dir() and str(path.relative_to(root)) not in self.directories:
                    path.chmod(0o755)
                os.utime(path, (time, time))
            variables = {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": str(time), "LC_ALL": "C.UTF-8"}
            argv = ["dpkg-deb", "--root-owner-group", "--threads-max=1", f"-Z{compression}"]
            argv += ["-z1"] if compression == "gzip" else []
            # Minutes for release builds: one thread, so that the bytes are the same everywhere.
            machine.output([*argv, "--build", root, result], env=variables, timeout=600)
        return result


def put(path, data, mode):
    """Writes a file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def dependencies(programs):
    """What dpkg-shlibdeps says that programs need."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "debian").mkdir()
        (Path(directory) / "debian" / "control").write_text("Source: vswitch\n\nPackage: vswitch\nArchitecture: any\n")
        argv = ["dpkg-shlibdeps", "-O", *(f"-e{Path(program).resolve()}" for program in programs)]
        said = machine.output(argv, cwd=directory).strip().splitlines()
    depends = [line.removeprefix("shlibs:Depends=") for line in said if line.startswith("shlibs:Depends=")]
    if len(depends) != 1:
        raise Failure(f"dpkg-shlibdeps tells no dependencies of {', '.join(map(str, programs))}: {said}")
    return depends[0].split(", ")


def owners(files):
    """The packages that files of this machine are of."""
    done = subprocess.run(["dpkg-query", "-S", *files], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    if done.returncode:
        raise Failure(f"files are of no package, so run tools/setup: {done.stderr.strip()}")
    return sorted({line.split(":")[0] for line in done.stdout.splitlines()})

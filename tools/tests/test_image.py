"""The container image: its archive, its entry, and its programs on a read-only root."""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "lib"))

from vsw import daemon, machine  # noqa: E402
from vsw.cni import cri  # noqa: E402
from vsw.image import elf, rootfs  # noqa: E402

ENTRY = ROOT / "deploy" / "image" / "vswitch-entry"
VSCTL = daemon.bin_dir("dev") / "vsctl"
MISSING = [name for name in ("containerd", "containerd-shim-runc-v2", "ctr", "runc") if not shutil.which(name)]
ALL = " ".join("fpu pni ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt xsave avx f16c bmi1 avx2 bmi2 abm".split())
# A container's namespaces: a root that is read-only, and what Kubernetes mounts.
INSIDE = """
set -e
mount --bind "$R" "$R" && mount -o remount,bind,ro "$R"
mount -t proc proc "$R/proc"
for directory in run tmp var/lib/vswitch; do mount -t tmpfs tmpfs "$R/$directory"; done
mount --rbind /dev "$R/dev"
[ -z "$READ_ONLY" ] || { mount --bind "$R/$READ_ONLY" "$R/$READ_ONLY"; mount -o remount,bind,ro "$R/$READ_ONLY"; }
exec chroot "$R" "$@"
"""


def stand_ins(directory):
    """Programs that print their arguments, in place of those of the image."""
    for name in rootfs.PROGRAMS:
        shutil.copy("/bin/busybox" if name == "vswitch-cni" else "/bin/echo", directory / name)
    (directory / "v3").mkdir()
    shutil.copy("/bin/echo", directory / "v3" / "vswitchd")
    return directory


def make(programs, output):
    """Runs tools/image; what it said."""
    done = subprocess.run(
        [ROOT / "tools" / "image", "--bin-dir", programs, "--v3-dir", programs / "v3", "--output", output],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class Archive:
    """An archive, read as the specification has it: each digest and size must be right."""

    def __init__(self, path):
        with tarfile.open(path) as archive:
            self.files = {info.name: archive.extractfile(info).read() for info in archive.getmembers() if info.isfile()}
        self.index = json.loads(self.files["index.json"])
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(layer)) for layer in self.manifest["layers"]]

    def blob(self, described):
        algorithm, _, name = described["digest"].partition(":")
        data = self.files[f"blobs/{algorithm}/{name}"]
        assert (hashlib.new(algorithm, data).hexdigest(), len(data)) == (name, described["size"]), described
        return data

    def unpack(self, directory):
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
                archive.extractall(directory)


class Image(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.work = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.programs, cls.file = cls.work / "programs", cls.work / "image.tar"
        cls.programs.mkdir()
        stand_ins(cls.programs)
        if VSCTL.exists():
            shutil.copy(VSCTL, cls.programs / "vsctl")
        cls.said = make(cls.programs, cls.file)
        cls.archive = Archive(cls.file)
        cls.root = cls.work / "root"
        cls.archive.unpack(cls.root)
        (cls.root / "etc/vswitch/vswitchd.toml").write_text("[dpdk]\nworker_cores = []\n")
        (cls.root / "etc/vswitch/n1.toml").write_text("# of n1\nworker_cores = []\n")

    def inside(self, *words, status=0, **variables):
        """Runs a command on the image's root; what it said."""
        environment = {"PATH": "/usr/bin:/usr/sbin:/bin:/sbin", "R": str(self.root), **variables}
        argv = ["unshare", "--mount", "--pid", "--fork", "bash", "-c", INSIDE, "bash", *words]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_the_archive_is_what_the_specification_says(self):
        self.assertEqual(json.loads(self.archive.files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        described = self.archive.index["manifests"][0]
        self.assertEqual(described["annotations"]["io.containerd.image.name"], "localhost/vswitch:0.2.0")
        self.assertIn(described["digest"], self.said)
        config = self.archive.config
        self.assertEqual(
            (config["os"], config["architecture"], config["config"]["Entrypoint"]), ("linux", "amd64", ["/usr/bin/vswitch-entry"])
        )
        self.assertEqual(config["rootfs"]["diff_ids"], [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in self.archive.layers])
        used = {
            self.archive.manifest["config"]["digest"],
            described["digest"],
            *(layer["digest"] for layer in self.archive.manifest["layers"]),
        }
        self.assertEqual(
            {name for name in self.archive.files if name.startswith("blobs/")}, {f"blobs/{each.replace(':', '/')}" for each in used}
        )

    def test_the_same_programs_have_the_same_digest(self):
        again = self.work / "again.tar"
        make(self.programs, again)
        self.assertEqual(again.read_bytes(), self.file.read_bytes())

    def test_a_plug_in_with_shared_libraries_is_refused(self):
        argv = [ROOT / "tools" / "image", "--bin-dir", self.programs, "--v3-dir", self.programs / "v3", "--cni", "/bin/echo", "--output", self.work / "none.tar"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
        self.assertIn("/bin/echo needs shared libraries", done.stderr)

    def test_it_has_licences_and_no_owner_but_root(self):
        packages = (self.root / "usr/share/doc/vswitch/packages").read_text()
        for name in ("busybox", "nftables", "libc6"):
            self.assertRegex(packages, f"(?m)^{name}(-static)? ")
            self.assertTrue(any((self.root / "usr/share/doc").glob(f"{name}*/copyright")), name)
        with tarfile.open(fileobj=io.BytesIO(self.archive.layers[0])) as layer:
            for info in layer.getmembers():
                self.assertEqual((info.uid, info.gid, info.mtime, info.mode & 0o6000), (0, 0, 0, 0), info.name)
                self.assertFalse(info.name.startswith(("/", "..")), info.name)

    def test_programs_run_on_a_read_only_root(self):
        self.assertIn("Read-only file system", self.inside("/bin/sh", "-c", "! echo >/etc/x"))
        self.assertIn("nftables", self.inside("/usr/bin/vswitch-entry", "nft", "--version"))
        self.assertEqual(self.inside("/usr/bin/vswitch-entry", "agent", "--cluster").strip(), "--cluster")

    @unittest.skipUnless(VSCTL.exists(), "vsctl is not built")
    def test_vsctl_runs_on_it(self):
        self.assertRegex(self.inside("/usr/bin/vswitch-entry", "vsctl", "--version"), r"^vsctl \d")

    def test_the_entry_writes_the_cores_of_workers(self):
        if len(machine.cores()) < 2:
            self.skipTest("one core")
        last = machine.cores()[-1]
        for node, first in (("n1", "# of n1"), ("n2", "[dpdk]")):
            said = self.inside(
                "/bin/sh", "-c", "vswitch-entry switch /etc/vswitch; cat /run/vswitchd.toml; ls /var/lib/vswitch", NODE_NAME=node, CORES="2"
            )
            self.assertEqual(said.splitlines(), ["--config /run/vswitchd.toml", first, f"worker_cores = [{last}]", "antrea"])

    def test_each_cpu_level_has_its_switch(self):
        (self.root / "proc2").mkdir()
        (self.root / "proc2" / "self").symlink_to("/proc/self")
        info = self.root / "proc2" / "cpuinfo"
        for lacking, level in (("", "v3"), (" avx2", "v2"), (" abm", "v2")):
            info.write_text(f"flags\t\t: {ALL.replace(lacking, '')}\n")
            said = self.inside("/usr/bin/vswitch-entry", "sh", "-c", "command -v vswitchd", VSWITCH_PROC="/proc2")
            self.assertEqual(said.strip(), f"/usr/lib/vswitch/{level}/vswitchd")
            if len(machine.cores()) > 1:
                said = self.inside("/usr/bin/vswitch-entry", "switch", "/etc/vswitch", VSWITCH_PROC="/proc2")
                self.assertEqual(f"this CPU lacks{lacking}: the switch for x86-64-v2 runs" in said, level == "v2", said)
        self.assertEqual(self.inside("/usr/bin/vswitchd", "runs").strip(), "runs")

    def test_the_agent_of_the_host_may_write_sysctls(self):
        """A runtime without `privileged` mounts /proc/sys read-only."""
        is_writable = "(: >>/proc/sys/net/ipv4/ip_forward) 2>/dev/null"
        script = f"{is_writable} || echo before; vswitch-entry agent --host; {is_writable} && echo after"
        said = self.inside("/bin/sh", "-c", script, READ_ONLY="proc/sys")
        self.assertEqual(said.splitlines(), ["before", "--host", "after"])

    def test_the_entry_says_what_the_container_lacks(self):
        for words, said in (
            ((), "say what to run"),
            (("switch", "/none"), "there is no /none/vswitchd.toml"),
            (("install-cni", "/none"), "there is no directory /none"),
        ):
            self.assertIn(said, self.inside("/usr/bin/vswitch-entry", *words, status=78))
        without = ["--bounding-set", "-net_raw,-ipc_lock", "--inh-caps", "-net_raw,-ipc_lock"]
        argv = [
            "setpriv",
            *without,
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "bash",
            "-c",
            INSIDE,
            "bash",
            "/usr/bin/vswitch-entry",
            "switch",
            "/etc/vswitch",
        ]
        done = subprocess.run(argv, env={"PATH": os.environ["PATH"], "R": str(self.root)}, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (78, 1), done.stderr)
        self.assertIn("lacks the capabilities NET_RAW IPC_LOCK:", done.stderr)

    @unittest.skipIf(MISSING, f"{', '.join(MISSING)} missing: tools/setup installs them")
    def test_containerd_runs_it_read_only_and_without_privileges(self):
        directory = self.work / "containerd"
        socket = directory / "containerd.sock"
        directory.mkdir()
        cri.cgroups()
        (directory / "config.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        argv = ["containerd", "--config", directory / "config.toml", "--root", directory / "root", "--state", directory / "state"]
        with open(directory / "log", "w") as log:
            process = machine.spawn([*argv, "--address", socket], stdout=log, stderr=log)
        self.addCleanup(machine.end, process)
        ctr = ["ctr", "--address", socket]
        machine.expect("containerd answers", lambda: subprocess.run([*ctr, "version"], capture_output=True).returncode == 0)
        machine.output([*ctr, "image", "import", "--snapshotter", "native", self.file])
        listed = machine.output([*ctr, "image", "list"])
        self.assertIn(self.archive.index["manifests"][0]["digest"], listed)
        options, lacks = [], ("NET_ADMIN", "IPC_LOCK", "SYS_NICE")
        for more, said in (
            ([], f"the container lacks the capabilities {' '.join(lacks)}: name them in securityContext.capabilities.add"),
            ([f"--cap-add=CAP_{name}" for name in lacks], "there is no /dev/net/tun: load the module tun on the Node, and mount the device"),
            (["--device=/dev/net/tun"], "there is no /etc/vswitch/vswitchd.toml: mount the ConfigMap at /etc/vswitch"),
        ):
            options += more
            words = ["localhost/vswitch:0.2.0", f"lacks-{len(options)}", "/usr/bin/vswitch-entry", "switch", "/etc/vswitch"]
            run = [*ctr, "run", "--rm", "--read-only", "--snapshotter", "native", *options, *words]
            done = subprocess.run(run, capture_output=True, text=True, timeout=machine.PATIENCE_S)
            self.assertEqual((done.returncode, done.stderr), (78, f"vswitch-entry: {said}\n"))


class Entry(unittest.TestCase):
    """The entry by itself, with another /proc."""

    def run_entry(self, *words, flags=ALL, status=0, path=None):
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t:\n")
            environment = {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"], "VSWITCH_PROC": directory}
            done = subprocess.run(["busybox", "sh", ENTRY, *words], env=environment, capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_an_older_cpu_is_refused_by_name(self):
        self.assertEqual(self.run_entry("echo", "runs").strip(), "runs")
        for lacking in ("sse4_2", "popcnt", "cx16"):
            said = self.run_entry("echo", "runs", flags=ALL.replace(f" {lacking}", ""), status=78)
            self.assertEqual(len(said.splitlines()), 1)
            self.assertIn(f"this CPU lacks {lacking}, but the image needs x86-64-v2", said)

    def test_the_flags_are_those_of_the_programs(self):
        """The entry asks for what `vswitchd` asks for."""
        text = (ROOT / "vswitch" / "vswitchd" / "src" / "cpu.rs").read_text()
        linux = {"sse3": "pni", "cmpxchg16b": "cx16", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "osxsave": "xsave", "lzcnt": "abm"}
        table = text[text.index("const FEATURES") : text.index("];")]
        levels = {True: set(), False: set()}
        for line in table.splitlines():
            if line.strip().startswith('("'):
                name = line.split('"')[1]
                levels[", true," in line].add(linux.get(name, name))
        lines = {line.partition("=")[0]: line.split('"')[1] for line in ENTRY.read_text().splitlines() if line.startswith("CPU_V")}
        self.assertEqual((set(lines["CPU_V2"].split()), set(lines["CPU_V3"].split())), (levels[True], levels[False]))

    def test_the_plug_in_is_replaced_in_one_step(self):
        with tempfile.TemporaryDirectory() as programs, tempfile.TemporaryDirectory() as target:
            shutil.copy("/bin/echo", Path(programs) / "vswitch-cni")
            there = Path(target) / "vswitch"
            there.write_text("older")
            with open(there) as running:
                self.run_entry("install-cni", target, path=programs)
                self.assertEqual(running.read(), "older")
            self.assertEqual(there.read_bytes(), Path("/bin/echo").read_bytes())
            self.assertEqual(os.listdir(target), ["vswitch"])
            self.assertEqual(there.stat().st_mode & 0o777, 0o755)


class Libraries(unittest.TestCase):
    def test_they_are_those_that_the_loader_finds(self):
        for program in ("/usr/sbin/nft", "/bin/echo"):
            said = machine.output(["ldd", program])
            loaded = {line.split()[0] for line in said.splitlines() if "=>" in line}
            self.assertEqual(set(elf.closure([program])[0]), loaded)

    def test_what_is_no_program_is_refused(self):
        with self.assertRaisesRegex(machine.Failure, "no program for x86-64"):
            elf.closure([ENTRY])

    def test_a_library_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(machine.Failure, "no library libc.so.6"):
            elf.closure(["/bin/echo"], [Path("/none")])


if __name__ == "__main__":
    unittest.main()

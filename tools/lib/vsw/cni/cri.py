"""A container runtime: containerd with runc, and its CRI.

A call is gRPC by curl(1): one HTTP/2 request with one message. Messages are lists of (number,
value), by the numbers of k8s.io/cri-api's runtime/v1/api.proto; no stubs are needed for the dozen
fields that are used."""

import io
import json
import struct
import subprocess
import tarfile
from hashlib import sha256
from pathlib import Path

from .. import machine
from ..machine import Failure

NEEDED = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox", "curl")
IMAGE = "localhost/busybox:1"
METRICS = "127.0.0.1:1338"  # where it tells how long calls took, in its network namespace
SERVICE = "runtime.v1.RuntimeService"
TOOLS = ("sh", "sleep", "ping", "nc", "wget", "httpd", "ip")


def encode(fields):
    """A message: values are text, bytes, numbers, or lists of fields (a message)."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += _varint(number << 3) + _varint(value)
            continue
        body = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else encode(value)
        out += _varint(number << 3 | 2) + _varint(len(body)) + body
    return out


def _varint(value):
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def decode(message):
    """{number: values} of a message; texts and messages are bytes."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            value = varint()
        else:
            length = varint()
            value, at = message[at:at + length], at + length
        found.setdefault(tag >> 3, []).append(value)
    return found


class Runtime:
    """containerd in `directory`, with plug-ins and network configurations of its own."""

    def __init__(self, directory, plugin, config, defer, namespace=None):
        """`namespace` is the Node's. Mounts are the machine's: agents find the Pods' namespaces."""
        self.directory = Path(directory)
        self.socket = self.directory / "containerd.sock"
        cgroups()
        self._plugins(plugin, config)
        (self.directory / "config.toml").write_text(self._config())
        with open(self.directory / "containerd.log", "ab") as log:
            inner = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
            self.process = machine.spawn([*inner, "containerd", "--config", self.directory / "config.toml"], stdout=log, stderr=log)
        defer(machine.end, self.process)
        machine.expect("containerd answers", self._answers, self.log)
        image(self.directory / "image.tar")
        ctr = ["ctr", "-a", self.socket, "-n", "k8s.io"]
        machine.output([*ctr, "images", "import", "--snapshotter", "native", self.directory / "image.tar"])

    def _plugins(self, plugin, config):
        bin_dir, conf_dir = self.directory / "bin", self.directory / "net.d"
        bin_dir.mkdir()
        conf_dir.mkdir()
        (bin_dir / config["type"]).symlink_to(Path(plugin).resolve())
        for name in ("host-local", "loopback"):
            (bin_dir / name).symlink_to(f"/usr/lib/cni/{name}")
        text = {"cniVersion": config["cniVersion"], "name": config["name"], "plugins": [config]}
        (conf_dir / "10-vswitch.conflist").write_text(json.dumps(text))

    def _config(self):
        cri = '[plugins."io.containerd.grpc.v1.cri"'
        return f"""version = 2
root = "{self.directory}/root"
state = "{self.directory}/state"
[grpc]
address = "{self.socket}"
[metrics]
address = "{METRICS}"
[plugins."io.containerd.internal.v1.opt"]
path = "{self.directory}/opt"
{cri}]
sandbox_image = "{IMAGE}"
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
disable_apparmor = true
{cri}.containerd]
snapshotter = "native"
{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
{cri}.cni]
bin_dir = "{self.directory}/bin"
conf_dir = "{self.directory}/net.d"
"""

    def _answers(self):
        if self.process.poll() is not None:
            raise Failure(f"containerd ended with status {self.process.returncode}; its log:\n{self.log()}")
        try:
            self.call("Version", [])
        except Failure:
            return False
        return True

    def log(self):
        """The end of its log."""
        return (self.directory / "containerd.log").read_text(errors="replace")[-3000:]

    def call(self, method, fields):
        """One call; its answer, decoded. Failure with the words of gRPC when it is refused."""
        body = encode(fields)
        argv = ["curl", "-sS", "--http2-prior-knowledge", "--unix-socket", self.socket, "-D", "/dev/stderr",
                "-H", "content-type: application/grpc", "-H", "te: trailers", "--data-binary", "@-",
                "--max-time", machine.PATIENCE_S, f"http://localhost/{SERVICE}/{method}"]
        framed = b"\0" + struct.pack("!I", len(body)) + body
        done = subprocess.run([str(word) for word in argv], input=framed, capture_output=True, check=False)
        said = done.stderr.decode(errors="replace")
        head = {name: text.strip() for name, _, text in (line.partition(":") for line in said.splitlines())}
        if done.returncode or head.get("grpc-status") != "0":
            raise Failure(f"{method}: status {head.get('grpc-status')}: {head.get('grpc-message') or said}")
        return decode(done.stdout[5:])

    def listed(self):
        """All sandboxes, each decoded."""
        return [decode(sandbox) for sandbox in self.call("ListPodSandbox", []).get(1, [])]

    def sandbox(self, name, uid, namespace="default"):
        """RunPodSandbox: the sandbox of a Pod."""
        return Sandbox(self, name, uid, namespace)


class Sandbox:
    """The sandbox of a Pod, with one container."""

    def __init__(self, runtime, name, uid, namespace):
        self.runtime, self.uid = runtime, uid
        self.config = [(1, [(1, name), (2, uid), (3, namespace)]), (2, name), (8, [])]
        before = namespaces()
        self.id = runtime.call("RunPodSandbox", [(1, self.config)])[1][0].decode()
        self.made, self.container = namespaces() - before, None

    def addresses(self):
        """Its addresses, as the runtime knows them."""
        status = decode(self.runtime.call("PodSandboxStatus", [(1, self.id)])[1][0])
        network = decode(status[5][0])
        return [network[1][0].decode(), *(decode(more)[1][0].decode() for more in network.get(2, []))]

    def netns(self):
        """The name of its network namespace. Sandboxes are made one after the other for that."""
        (name,) = self.made
        return name

    def start(self, *words):
        """Starts its container with a command."""
        config = [(1, [(1, "main")]), (2, [(1, IMAGE)]), *((3, word) for word in words)]
        created = self.runtime.call("CreateContainer", [(1, self.id), (2, config), (3, self.config)])
        self.container = created[1][0].decode()
        self.runtime.call("StartContainer", [(1, self.container)])

    def run(self, *words):
        """Runs a command in its container; (exit status, what it printed)."""
        answer = self.runtime.call("ExecSync", [(1, self.container), *((2, word) for word in words), (3, machine.PATIENCE_S)])
        return answer.get(3, [0])[0], answer.get(1, [b""])[0].decode(errors="replace")

    def remove(self):
        """Stops and removes all of it."""
        self.runtime.call("StopPodSandbox", [(1, self.id)])
        self.runtime.call("RemovePodSandbox", [(1, self.id)])


def namespaces():
    """Names of the network namespaces that a runtime has made."""
    return {path.name for path in Path("/run/netns").glob("cni-*")}


def cgroups():
    """Mounts what the kernel has of cgroups, if nothing is there: /sys may be a new one."""
    top = Path("/sys/fs/cgroup")
    if any(top.iterdir()):
        return
    lines = [line.split(":") for line in Path("/proc/self/cgroup").read_text().splitlines()]
    groups = [names for _, names, _ in lines if names]
    if not groups:
        machine.output(["mount", "-t", "cgroup2", "cgroup2", top])
        return
    machine.output(["mount", "-t", "tmpfs", "tmpfs", top])
    for names in groups:
        directory = top / names.removeprefix("name=")
        directory.mkdir()
        machine.output(["mount", "-t", "cgroup", "-o", names, "cgroup", directory])


def image(file):
    """Writes an image with a static busybox, as `docker save` does."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for directory in ("bin", "tmp", "etc", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        tar.add(machine.output(["which", "busybox"]).strip(), "bin/busybox")
        for tool in TOOLS:
            entry = tarfile.TarInfo(f"bin/{tool}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    digest = sha256(layer.getvalue()).hexdigest()
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/sleep", "86400"], "Env": ["PATH=/bin"]},
              "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}
    text = json.dumps(config).encode()
    manifest = [{"Config": f"{sha256(text).hexdigest()}.json", "RepoTags": [IMAGE], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(file, "w") as tar:
        files = {manifest[0]["Config"]: text, manifest[0]["Layers"][0]: layer.getvalue(), "manifest.json": json.dumps(manifest).encode()}
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))

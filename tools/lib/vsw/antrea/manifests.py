"""The cluster as Kubernetes manifests, and the control agent that tells the switch what they
say."""

import concurrent.futures
import contextlib
import json
import shutil
from pathlib import Path

from .. import machine
from ..machine import Failure

# What Pods web and web2 have outside, by the manifests.
EGRESS_IP = ("192.168.77.112", "fd00:192:168:77::112")

CLUSTER = Path(__file__).with_name("cluster")
NODE_NAME = "k8s-node-control-plane"
# Files of a demo are renamed to what they are called when they are written, so nobody need wait for
# long.
PERIOD_MS = "100"

# Rules by the conj_id that the document has them with: (policy, direction, place among the policy's
# rules of it).
RULES = {
    2: ("np:default/web-app-db-network-policy", "egress", 0),
    3: ("np:default/web-app-db-network-policy", "ingress", 0),
    4: ("acnp:web-app-db-network-policy", "ingress", 1),
    5: ("acnp:web-app-db-network-policy", "egress", 1),
    6: ("acnp:web-app-db-network-policy", "ingress", 0),
    7: ("acnp:web-app-db-network-policy", "egress", 0),
    14: ("acnp:ingress-allow-http-request-to-api-v2", "ingress", 0),
}


def document(version, kind, name, namespace=None, metadata=None, **rest):
    """A manifest. `metadata`: what is to be there beside the names; `rest`: spec, status and so
    on."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | (metadata or {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata} | rest


def text_of(documents):
    """A file of these documents. (What JSON says, YAML says, too.)"""
    return "---\n".join(f"{json.dumps(one)}\n" for one in documents)


def write(file, text):
    """Writes a file that an agent watches: it is never seen in parts."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.rename(file)


@contextlib.contextmanager
def told(switches, directory, text):
    """Meanwhile these switches do as manifests say, which go to `directory`; `switches` are by the
    names of their Nodes."""
    directory.mkdir()
    (directory / "cluster.yaml").write_text(text)
    commands = [[switch.binaries / "vswitch-agent", "--no-state", "--dir", directory, "--node", name, "--socket", switch.socket, "--once"] for name, switch in switches.items()]
    with contextlib.ExitStack() as stack:
        for switch in switches.values():
            stack.callback(switch.vsctl, "antrea", "reset", "--yes")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(machine.output, commands))
        yield


class Manifests:
    """A copy of the manifests in `directory`, and the agent that watches it, until `stack` ends.
    Edit the files: a second later the switch does as they say."""

    def __init__(self, switch, directory, stack, cluster=CLUSTER, node=NODE_NAME):
        self.switch, self.directory, self.node = switch, Path(directory) / "cluster", node
        self.log = Path(directory) / "vswitch-agent.log"
        shutil.copytree(cluster, self.directory)
        self.stack, self.process = stack, None
        stack.callback(lambda: machine.end(self.process))
        self.start()
        machine.expect("the agent has told the switch everything", self.told, self.state)

    def start(self, *words):
        """Starts the agent (again), with more words."""
        argv = [self.switch.binaries / "vswitch-agent", "--no-state", "--dir", self.directory, "--node", self.node,
                "--socket", self.switch.socket, "--period-ms", PERIOD_MS, *words]
        with open(self.log, "ab") as log:
            self.process = machine.spawn(argv, stdout=log, stderr=log)

    def kill(self):
        """Kills the agent; it cannot say goodbye."""
        self.process.kill()
        self.process.wait()

    def state(self):
        """What the switch says of it."""
        return self.switch.json("antrea", "status")

    def told(self):
        """Whether the switch forwards by what the agent declared; Failure when the agent has
        ended."""
        if self.process.poll() is not None:
            raise Failure(f"vswitch-agent ended with status {self.process.returncode}; its log:\n{self.log.read_text()}")
        return bool(self.state().get("gate_open"))

    def numbers(self):
        """{conj_id of the document: number that the switch gave the rule}, of those that are
        there."""
        found = {}
        for rule in self.switch.json("antrea", "rules"):
            found.setdefault((rule["policy"], rule["direction"]), []).append(rule["number"])
        there = {old: found.get((policy, direction), []) for old, (policy, direction, _) in RULES.items()}
        return {old: numbers[RULES[old][2]] for old, numbers in there.items() if len(numbers) > RULES[old][2]}

    @contextlib.contextmanager
    def endpoint_gone(self, service, address):
        """Meanwhile an endpoint is not in the manifests."""
        file = self.directory / "services.yaml"
        text = file.read_text()
        documents = text.split("---\n")
        lines = [[line for line in document.splitlines(True) if f'addresses: ["{address}"]' not in line]
                 if f"kubernetes.io/service-name: {service}\n" in document else [document] for document in documents]
        endpoints = self._endpoints()
        try:
            write(file, "---\n".join("".join(part) for part in lines))
            machine.expect(f"{address} is no endpoint any more", lambda: self._endpoints() != endpoints, self._endpoints)
            yield
        finally:
            write(file, text)
            machine.expect("endpoints are as before", lambda: self._endpoints() == endpoints, self._endpoints)

    def _endpoints(self):
        return self.switch.vsctl("antrea", "services", "-o", "endpoints").count("\n")

    @contextlib.contextmanager
    def edited(self, file, old, new, others=()):
        """Meanwhile a file of the Node's has other words in one place, and in `others`: pairs of
        old and new."""
        path = self.directory / file
        text = changed = path.read_text()
        for before, after in ((old, new), *others):
            if text.count(before) != 1:
                raise Failure(f"{file} has {text.count(before)} times {before!r}")
            changed = changed.replace(before, after)
        with _meanwhile(self._node_changed, lambda: write(path, changed), lambda: write(path, text)):
            yield

    def _node_changed(self, change):
        config = lambda: self.switch.json("antrea", "node")["node"]  # noqa: E731
        before = config()
        change()
        machine.expect("the switch has another configuration of the Node", lambda: config() != before, config)

    def without(self, file):
        """Takes a file away, and waits until the switch does without what it said; call the result
        to bring it back."""
        hidden = self.directory.with_name(f"{file}.away")
        self._changed(lambda: (self.directory / file).rename(hidden))
        return lambda: self._changed(lambda: hidden.rename(self.directory / file))

    @contextlib.contextmanager
    def also(self, file):
        """Meanwhile there is another manifest, of policies among others."""
        copy = self.directory / file.name
        with _meanwhile(self._changed, lambda: write(copy, file.read_text()), lambda: copy.unlink(missing_ok=True)):
            yield

    @contextlib.contextmanager
    def replaced(self, file, text):
        """Meanwhile a file has other words, of policies among others."""
        path = self.directory / file
        before = path.read_text()
        with _meanwhile(self._changed, lambda: write(path, text), lambda: write(path, before)):
            yield

    def _changed(self, change):
        policies = self._policies()
        change()
        machine.expect("the switch has other policies", lambda: self._policies() != policies, self._policies)

    def _policies(self):
        return sorted({rule["policy"] for rule in self.switch.json("antrea", "rules")})


@contextlib.contextmanager
def _meanwhile(changed, there, back):
    """Something else is there, and not behind it, whatever happens; `changed` does the one or the
    other, and waits until it is known."""
    try:
        changed(there)
    except machine.TROUBLE:
        back()
        raise
    try:
        yield
    finally:
        changed(back)


def renumber(words, numbers):
    """Words of a rule of the document, with the numbers that rules have here."""
    for old, new in numbers.items():
        words = words.replace(f"conj_id={old}", f"conj_id=<{new}>").replace(f"reg3={old:#x}", f"reg3=<{new:#x}>")
        words = words.replace(f"ct_label={old:#x}/0xffffffff", f"ct_label=<{new:#x}/0xffffffff>")
        words = words.replace(f"ct_label={old << 32:#x}/", f"ct_label=<{new << 32:#x}>/")
    return words.replace("<", "").replace(">", "")

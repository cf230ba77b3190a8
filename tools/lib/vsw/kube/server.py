"""A real API server for tests: the etcd and kube-apiserver of the directory KUBEBUILDER_ASSETS, as
`setup-envtest` brings them. No kubelet and no controller run: objects are stored, and no more.

The server listens on loopback, with a certificate of its own and RBAC. `TOKEN` is an administrator.
Without a controller for service accounts no Pod can be made; DaemonSets can.
"""

import contextlib
import json
import os
import secrets
import socket
import ssl
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from .. import machine
from ..antrea.traffic import inside

ASSETS = "KUBEBUILDER_ASSETS"
PROGRAMS = ("etcd", "kube-apiserver")


def assets():
    """The directory with the programs, or None; and the reason why not."""
    directory = os.environ.get(ASSETS)
    if not directory:
        return None, f"{ASSETS} is not set: no real API server"
    missing = [name for name in PROGRAMS if not os.access(Path(directory) / name, os.X_OK)]
    return (None, f"{ASSETS}={directory} has no {' and no '.join(missing)}") if missing else (Path(directory), "")


def free_ports(count):
    """Ports of loopback that nobody has; another process may take one before it is used."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def ask(url, token, namespace=None, value=None):
    """The answer to a GET, in a network namespace if one is given; with a value, to a PUT of it.
    HTTPError, which is an OSError, if it is refused."""
    context = ssl.create_default_context()
    # The certificate is for other names, too, and is its own authority.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    data = None if value is None else json.dumps(value).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method="GET" if data is None else "PUT")
    where = inside(namespace) if namespace else contextlib.nullcontext()
    with where, urllib.request.urlopen(request, context=context, timeout=machine.PATIENCE_S) as answer:
        return answer.read().decode()


class ApiServer:
    """etcd and kube-apiserver, from `with` on until its end."""

    def __init__(self, directory, users=(), namespace=None, address="127.0.0.1"):
        """`users`: (token, name, groups) beside the administrator. It listens at `address` of a
        network namespace."""
        self.programs, self.users = Path(directory), list(users)
        self.namespace, self.address = namespace, address
        self.token = secrets.token_hex(16)
        self.processes = []

    def __enter__(self):
        self.work = tempfile.TemporaryDirectory(prefix="vswitch-apiserver.")
        self.directory = Path(self.work.name)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            machine.end(process, 20)
        self.work.cleanup()

    def _start(self):
        client, peer, secure = free_ports(3)
        self.port, self.url = secure, f"https://{self.address}:{secure}"
        etcd = f"http://127.0.0.1:{client}"
        near = f"http://127.0.0.1:{peer}"
        self._spawn(
            "etcd",
            f"--data-dir={self.directory}/etcd",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={near}",
            f"--initial-advertise-peer-urls={near}",
            f"--initial-cluster=default={near}",
        )
        key = self.directory / "service-accounts.key"
        machine.output(["openssl", "genrsa", "-out", key, "2048"])
        tokens = self.directory / "tokens.csv"
        lines = [(self.token, "admin", ["system:masters"]), *self.users]
        tokens.write_text("".join(f'{token},{name},{name},"{",".join(groups)}"\n' for token, name, groups in lines))
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--cert-dir={self.directory}/certificates",
            f"--bind-address={self.address}",
            f"--secure-port={secure}",
            # Where there is no network but loopback the server finds no address by itself.
            "--advertise-address=192.0.2.1",
            "--endpoint-reconciler-type=none",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
        )
        machine.expect("the API server is ready", self._is_ready)
        self.kubeconfig = self.write_kubeconfig("admin", self.token)

    def _spawn(self, name, *words):
        log = open(self.directory / f"{name}.log", "w")
        with log:
            inner = ["ip", "netns", "exec", self.namespace] if self.namespace else []
            self.processes.append(machine.spawn([*inner, self.programs / name, *words], stdout=log, stderr=log))

    def _is_ready(self):
        for process, name in zip(self.processes, PROGRAMS):
            if process.poll() is not None:
                said = (self.directory / f"{name}.log").read_text().splitlines()[-5:]
                raise machine.Failure(f"{name} has ended with status {process.returncode}: {' | '.join(said)}")
        try:
            return self.get("/readyz") == "ok"
        except OSError:
            return False

    @property
    def certificate(self):
        """The server's own certificate, which signs itself."""
        return self.directory / "certificates" / "apiserver.crt"

    def get(self, path, token=None):
        """The answer to a GET. HTTPError, which is an OSError, if it is refused."""
        return ask(self.url + path, token or self.token, self.namespace)

    def object(self, path):
        """An object of a path; {} if it is not there."""
        try:
            return json.loads(self.get(path))
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return {}

    def write_kubeconfig(self, name, token):
        """A kubeconfig of a user."""
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(f"""apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: {name}}}}}]
clusters: [{{name: it, cluster: {{server: "{self.url}", certificate-authority: "{self.certificate}"}}}}]
users: [{{name: {name}, user: {{token: "{token}"}}}}]
""")
        path.chmod(0o600)
        return path

    def kubectl(self, *words, user=None, **options):
        """Runs kubectl(1) as the administrator, or by another kubeconfig."""
        return machine.output(
            ["kubectl", "--kubeconfig", user or self.kubeconfig, "--cache-dir", self.directory / "cache", *words], **options
        )

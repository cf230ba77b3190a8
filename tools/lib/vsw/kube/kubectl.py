"""kubectl on an API server."""

import json
import subprocess

from .. import machine
from ..machine import Failure


class Kubectl:
    """kubectl with a kubeconfig, in a network namespace."""

    def __init__(self, api, namespace):
        self.api = api
        self.prefix = ["ip", "netns", "exec", namespace, "kubectl", "--kubeconfig", api.kubeconfig]

    def __call__(self, *words, text=None):
        """Runs it, with `text` as its standard input, and returns what it printed."""
        argv = [str(word) for word in (*self.prefix, "--request-timeout", f"{machine.PATIENCE_S}s", *words)]
        done = subprocess.run(argv, input=text or "", capture_output=True, text=True, timeout=2 * machine.PATIENCE_S, check=False)
        if done.returncode:
            raise Failure(f"`kubectl {' '.join(map(str, words))}` failed with status {done.returncode}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def json(self, *words):
        """What it prints as JSON."""
        return json.loads(self(*words, "-o", "json"))

    def apply(self, *documents):
        """Applies documents."""
        # Validation on the client's side asks the server for a description of all of its kinds.
        return self("apply", "--validate=false", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def create(self, document):
        """Creates an object."""
        return self("create", "--validate=false", "-f", "-", text=json.dumps(document))

    def delete(self, kind, name, *words):
        """Deletes an object, if it is there."""
        self("delete", kind, name, "--ignore-not-found", *words)

    def status(self, path, status):
        """Writes the status of an object of this path; what it says beside stays."""
        # (Old kubectls have no --subresource.)
        found = self.api.call(path)
        found["status"] = found.get("status", {}) | status
        self.api.call(f"{path}/status", found)

    def events(self, kind, name, namespace="default"):
        """Reasons and messages of an object's Events."""
        found = self.json("get", "events", "-n", namespace)["items"]
        of = [one for one in found if one["involvedObject"].get("kind") == kind and one["involvedObject"].get("name") == name]
        return [(one["reason"], one["message"]) for one in of]

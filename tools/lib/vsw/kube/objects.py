"""The objects of the manifests, and what is wrong with them by their schemas."""

import yaml

from .. import machine
from . import crds, kinds
from .chart import Chart
from .validate import problems

DEPLOY = machine.ROOT / "deploy"
CHART = DEPLOY / "chart" / "vswitch"
MANIFESTS = DEPLOY / "vswitch.yaml"


def documents(text):
    """The objects of a text."""
    return [document for document in yaml.safe_load_all(text) if document]


def rendered(**values):
    """All objects of the chart."""
    chart = Chart(CHART)
    return [document for name in chart.names() for document in documents(chart.render(name, "kube-system", **values))]


def find(objects, kind, name):
    """One of the objects."""
    return next(each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name)


def containers(objects):
    """Pairs of a Pod's specification and a container of it."""
    for each in objects:
        if each["kind"] == "DaemonSet":
            spec = each["spec"]["template"]["spec"]
            yield from ((spec, container) for container in spec["containers"] + spec.get("initContainers", []))


def schema_of(document):
    """The schema of an object: of a kind of Kubernetes, or of a CustomResourceDefinition."""
    key = (document["apiVersion"], document["kind"])
    for definition in (each for file in crds.FILES.values() for each in file):
        spec = definition["spec"]
        if key == (f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]):
            schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
            return {**schema, "properties": {**schema["properties"], "metadata": kinds.META}}
    return kinds.KINDS[key]


def wrong(objects):
    """What the schemas find in objects."""
    return [
        f"{each['kind']} {each['metadata'].get('name')}{problem}"
        for each in objects
        for problem in problems(each, schema_of(each), strict=True)
    ]

"""Strict schemas of the kinds in the manifests: the fields that the manifests use, and no others.
The fields are those of https://kubernetes.io/docs/reference/kubernetes-api/. A field that is
misspelt, or at the wrong place, is unknown here."""

from .schema import ANY, BOOLEAN, STRING, TEXTS, array, enum, integer

NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
TEXT_MAP = {"type": "object", "additionalProperties": STRING}
QUANTITY = {"type": ["string", "integer"], "pattern": "^[0-9]+(m|Ki|Mi|Gi)?$"}
SECONDS = integer(1, 3600)
CAPABILITY = enum("NET_ADMIN", "NET_RAW", "IPC_LOCK", "SYS_NICE", "SYS_ADMIN", "DAC_OVERRIDE", "CHOWN", "FOWNER")


def closed(properties, *required):
    """An object with these fields only."""
    return {"type": "object", "properties": properties, "required": sorted(required), "additionalProperties": False}


META = closed({"name": NAME, "namespace": NAME, "labels": TEXT_MAP, "annotations": TEXT_MAP}, "name")


def kind(api_version, name, fields, *required):
    """An object of a kind."""
    return closed(
        {"apiVersion": enum(api_version), "kind": enum(name), "metadata": META, **fields}, "apiVersion", "kind", "metadata", *required
    )


RULES = array(
    {
        **closed(
            {
                "apiGroups": TEXTS,
                "resources": {**TEXTS, "minItems": 1},
                "verbs": array(enum("get", "list", "watch", "create", "update", "patch")),
            },
            "apiGroups",
            "resources",
            "verbs",
        )
    }
)
ROLE_REF = closed(
    {"apiGroup": enum("rbac.authorization.k8s.io"), "kind": enum("ClusterRole", "Role"), "name": NAME}, "apiGroup", "kind", "name"
)
SUBJECTS = array(closed({"kind": enum("ServiceAccount"), "name": NAME, "namespace": NAME}, "kind", "name", "namespace"))

PROBE = closed(
    {
        "exec": closed({"command": {**TEXTS, "minItems": 1}}, "command"),
        "httpGet": closed({"host": STRING, "port": integer(1, 65535), "path": {"type": "string", "pattern": "^/"}}, "port", "path"),
        "initialDelaySeconds": SECONDS,
        "periodSeconds": SECONDS,
        "timeoutSeconds": SECONDS,
        "failureThreshold": integer(1, 1000),
    }
)
RESOURCES = closed(
    {"requests": {"type": "object", "additionalProperties": QUANTITY}, "limits": {"type": "object", "additionalProperties": QUANTITY}}
)
CONTAINER_SECURITY = closed(
    {
        "privileged": {"enum": [False]},
        "allowPrivilegeEscalation": {"enum": [False]},
        "readOnlyRootFilesystem": {"enum": [True]},
        "capabilities": closed({"drop": array(enum("ALL")), "add": array(CAPABILITY)}, "drop"),
        "appArmorProfile": closed({"type": enum("Unconfined", "RuntimeDefault")}, "type"),
    },
    "privileged",
    "allowPrivilegeEscalation",
    "readOnlyRootFilesystem",
    "capabilities",
)
ENV = array(
    closed(
        {
            "name": {"type": "string", "pattern": "^[A-Z_]+$"},
            "value": STRING,
            "valueFrom": closed({"fieldRef": closed({"fieldPath": enum("spec.nodeName", "metadata.namespace")}, "fieldPath")}, "fieldRef"),
        },
        "name",
    )
)
MOUNTS = array(
    closed(
        {"name": NAME, "mountPath": {"type": "string", "pattern": "^/"}, "readOnly": BOOLEAN, "mountPropagation": enum("HostToContainer")},
        "name",
        "mountPath",
    )
)
CONTAINER = closed(
    {
        "name": NAME,
        "image": {"type": "string", "pattern": "^[a-z0-9./:-]+:[A-Za-z0-9._-]+$"},
        "imagePullPolicy": enum("Always", "IfNotPresent", "Never"),
        "command": TEXTS,
        "args": TEXTS,
        "env": ENV,
        "resources": RESOURCES,
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": PROBE,
        "livenessProbe": PROBE,
        "readinessProbe": PROBE,
        "volumeMounts": MOUNTS,
    },
    "name",
    "image",
    "imagePullPolicy",
    "resources",
    "securityContext",
)
VOLUMES = array(
    closed(
        {
            "name": NAME,
            "configMap": closed({"name": NAME, "defaultMode": integer(0, 0o777)}, "name"),
            "secret": closed({"secretName": NAME, "defaultMode": integer(0, 0o777)}, "secretName"),
            "emptyDir": closed({"medium": enum("Memory", "HugePages"), "sizeLimit": QUANTITY}),
            "hostPath": closed(
                {"path": {"type": "string", "pattern": "^/"}, "type": enum("Directory", "DirectoryOrCreate", "CharDevice")}, "path", "type"
            ),
        },
        "name",
    )
)
POD_SPEC = closed(
    {
        "hostNetwork": BOOLEAN,
        "priorityClassName": enum("system-node-critical"),
        "automountServiceAccountToken": BOOLEAN,
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": SECONDS,
        "nodeSelector": TEXT_MAP,
        "tolerations": array(closed({"operator": enum("Exists")}, "operator")),
        "securityContext": closed(
            {"seccompProfile": closed({"type": enum("RuntimeDefault")}, "type"), "seLinuxOptions": closed({"type": STRING}, "type")}
        ),
        "initContainers": array(CONTAINER),
        "containers": {**array(CONTAINER), "minItems": 1},
        "volumes": VOLUMES,
    },
    "containers",
)
STRATEGY = closed({"type": enum("OnDelete", "RollingUpdate"), "rollingUpdate": closed({"maxUnavailable": integer(1, 100)})}, "type")
DAEMON_SET = closed(
    {
        "selector": closed({"matchLabels": TEXT_MAP}, "matchLabels"),
        "updateStrategy": STRATEGY,
        "template": closed(
            {"metadata": closed({"labels": TEXT_MAP, "annotations": TEXT_MAP}, "labels"), "spec": POD_SPEC}, "metadata", "spec"
        ),
    },
    "selector",
    "updateStrategy",
    "template",
)
CRD_NAMES = closed({"kind": STRING, "listKind": STRING, "plural": NAME, "singular": NAME, "shortNames": array(NAME)}, "kind", "plural")
CRD_VERSION = closed(
    {
        "name": {"type": "string", "pattern": "^v[0-9]+((alpha|beta)[0-9]+)?$"},
        "served": BOOLEAN,
        "storage": BOOLEAN,
        "schema": closed({"openAPIV3Schema": ANY}, "openAPIV3Schema"),
        "subresources": closed({"status": closed({})}),
        "additionalPrinterColumns": array(
            closed({"name": STRING, "type": enum("string", "integer", "number", "date"), "jsonPath": STRING}, "name", "type", "jsonPath")
        ),
    },
    "name",
    "served",
    "storage",
    "schema",
)
CRD_SPEC = closed(
    {"group": NAME, "scope": enum("Cluster", "Namespaced"), "names": CRD_NAMES, "versions": {**array(CRD_VERSION), "minItems": 1}},
    "group",
    "scope",
    "names",
    "versions",
)

RBAC = "rbac.authorization.k8s.io/v1"
KINDS = {
    ("v1", "ServiceAccount"): kind("v1", "ServiceAccount", {"automountServiceAccountToken": BOOLEAN}),
    ("v1", "ConfigMap"): kind("v1", "ConfigMap", {"data": TEXT_MAP}, "data"),
    (RBAC, "ClusterRole"): kind(RBAC, "ClusterRole", {"rules": RULES}, "rules"),
    (RBAC, "Role"): kind(RBAC, "Role", {"rules": RULES}, "rules"),
    (RBAC, "ClusterRoleBinding"): kind(RBAC, "ClusterRoleBinding", {"roleRef": ROLE_REF, "subjects": SUBJECTS}, "roleRef", "subjects"),
    (RBAC, "RoleBinding"): kind(RBAC, "RoleBinding", {"roleRef": ROLE_REF, "subjects": SUBJECTS}, "roleRef", "subjects"),
    ("apps/v1", "DaemonSet"): kind("apps/v1", "DaemonSet", {"spec": DAEMON_SET}, "spec"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): kind(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", {"spec": CRD_SPEC}, "spec"
    ),
}

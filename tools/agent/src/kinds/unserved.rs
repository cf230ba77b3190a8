//! Kinds that mean nothing to a Node's network here.

/// Groups whose kinds mean nothing to a Node's network.
const GROUPS: [&str; 26] = [
    "acme.cert-manager.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "cert-manager.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "kustomize.config.k8s.io",
    "metallb.io",
    "metrics.k8s.io",
    "monitoring.coreos.com",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "snapshot.storage.k8s.io",
    "storage.k8s.io",
];

/// Kinds of groups that have others, too.
const KINDS: [(&str, &str); 17] = [
    ("", "Binding"),
    ("", "ComponentStatus"),
    ("", "ConfigMap"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "LimitRange"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "PodTemplate"),
    ("", "ReplicationController"),
    ("", "ResourceQuota"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("networking.k8s.io", "IPAddress"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "ServiceCIDR"),
];

/// Whether documents of a kind are left out silently.
pub(super) fn is_silent(group: &str, kind: &str) -> bool {
    GROUPS.contains(&group) || KINDS.contains(&(group, kind))
}

/// Whether a group is one of Kubernetes' own, or of those that have no kind of the names that are
/// read.
pub(super) fn is_kubernetes(group: &str) -> bool {
    group.is_empty() || GROUPS.contains(&group)
}

/// Whether a kind is known to mean nothing here.
pub(super) fn is_known(group: &str, kind: &str) -> bool {
    KINDS.contains(&(group, kind))
}

/// What is told of a kind that nobody here knows.
const UNKNOWN: &str = "its kind is not known";

/// Whether a kind is neither known to mean nothing here nor known not to be served.
pub(super) fn is_unknown(group: &str, kind: &str) -> bool {
    !is_silent(group, kind) && meaning(group, kind) == UNKNOWN
}

/// What a kind that is known, and not served, would do.
pub(super) fn meaning(group: &str, kind: &str) -> &'static str {
    match (group, kind) {
        ("policy.networking.k8s.io", _) => "policies of this kind are not served: this one binds nobody here",
        ("crd.antrea.io", "IPPool") => "addresses are not given out of pools here: write them where they are used",
        ("crd.antrea.io", "Traceflow" | "PacketCapture") => "it is not run from documents",
        ("crd.antrea.io" | "multicluster.crd.antrea.io", _) => "it is not served here",
        _ => UNKNOWN,
    }
}

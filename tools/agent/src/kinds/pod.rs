//! Pod: its labels, addresses and the ports that have names.

use super::wellformed::{ADDRESS, error, is_host, is_port_name, wrong_port};
use super::{DocumentBody, Meta};
use crate::source::{FieldError, Tree, Value, typed, typed_without_unknown};
use serde::{Deserialize, Serialize};

/// Pod without its metadata.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PodBody {
    /// What is asked for.
    #[serde(default)]
    pub spec: Spec,
    /// What there is.
    #[serde(default)]
    pub status: Status,
}

/// What is asked for.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// Its Node; empty: none yet.
    #[serde(default)]
    pub node_name: String,
    /// It has the Node's network: no port, no policies.
    #[serde(default)]
    pub host_network: bool,
    /// Its service account.
    #[serde(alias = "serviceAccount")]
    pub service_account_name: Option<String>,
    /// Containers.
    #[serde(default)]
    pub containers: Vec<Container>,
    /// Containers that run first; those that stay may have ports with names, too.
    #[serde(default)]
    pub init_containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// Always: of containers that run first, it stays.
    #[serde(rename = "restartPolicy")]
    pub restart_policy: Option<String>,
}

impl Container {
    /// Whether it runs as long as the Pod, if it is one that runs first.
    pub fn stays(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// A port of a container.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Port {
    /// Its name; may be empty.
    #[serde(default)]
    pub name: String,
    /// Its number.
    pub container_port: u16,
    /// TCP, UDP or SCTP.
    pub protocol: Option<String>,
}

/// What there is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Pending, Running, Succeeded, Failed.
    #[serde(default)]
    pub phase: String,
    /// The first address.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
    /// One for each family.
    #[serde(default, rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// Ready, among others.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// An address of a Pod.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// A condition.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
pub struct Condition {
    /// Its name.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
}

impl PodBody {
    /// What is wrong with its entries by themselves; of each item of a list one error at most.
    pub(super) fn check(&self) -> Vec<FieldError> {
        let status = &self.status;
        let mut errors = Vec::new();
        for (i, address) in status.pod_ips.iter().enumerate().filter(|(_, address)| !is_host(&address.ip)) {
            errors.push(error(&format!("status.podIPs[{i}].ip"), &address.ip, ADDRESS));
        }
        // Where the others are given, this one says nothing.
        let is_used = |text: &&String| status.pod_ips.is_empty() && !text.is_empty() && !is_host(text);
        errors.extend(status.pod_ip.iter().filter(is_used).map(|text| error("status.podIP", text, ADDRESS)));
        let lists = [("containers", &self.spec.containers), ("initContainers", &self.spec.init_containers)];
        for (list, containers) in lists {
            for (i, container) in containers.iter().enumerate() {
                let path = format!("spec.{list}[{i}]");
                let is_first = list == "initContainers" && container.ports.iter().any(|port| !port.name.is_empty());
                errors.extend(is_first.then(|| container.check(&path)).flatten());
                let ports = container.ports.iter().enumerate();
                errors.extend(ports.filter_map(|(j, port)| port.check(&format!("{path}.ports[{j}]"))));
            }
        }
        errors
    }
}

impl Container {
    /// Whether one that runs first stays has to be known of one whose ports have names.
    fn check(&self, path: &str) -> Option<FieldError> {
        let is_known = |word: &&str| ["Always", "OnFailure", "Never"].contains(word);
        let wrong = self.restart_policy.as_deref().filter(|word| !is_known(word))?;
        Some(error(&format!("{path}.restartPolicy"), wrong, "restart policy"))
    }
}

impl Port {
    /// What Kubernetes refuses.
    fn check(&self, path: &str) -> Option<FieldError> {
        if let Some(wrong) = wrong_port(path, "containerPort", self.container_port, self.protocol.as_deref()) {
            return Some(wrong);
        }
        let is_wrong = !self.name.is_empty() && !is_port_name(&self.name);
        is_wrong.then(|| error(&format!("{path}.name"), &self.name, "name of a port"))
    }
}

/// Takes addresses that are none out of the annotation `vswitch/addresses`. None: there are none.
pub(super) fn only_addresses(meta: &mut Meta) -> Option<FieldError> {
    let text = meta.annotation("addresses")?.to_owned();
    let all = || text.split(',').map(str::trim).filter(|text| !text.is_empty());
    let wrong = all().find(|text| !is_host(text))?;
    let right = all().filter(|text| is_host(text)).collect::<Vec<_>>().join(",");
    meta.annotations.insert("vswitch/addresses".to_owned(), right);
    Some(error("metadata.annotations[vswitch/addresses]", wrong, ADDRESS))
}

const SPEC_IGNORED: [&str; 38] = [
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "evictionResponders",
    "hostAliases",
    "hostIPC",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "securityContext",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "workloadRef",
];

const CONTAINER_IGNORED: [&str; 21] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeMounts",
    "workingDir",
];

pub(super) fn parse(tree: &mut Tree, unknown: &mut Vec<FieldError>) -> Result<Box<PodBody>, FieldError> {
    tree.strip(&["spec"], &SPEC_IGNORED);
    // No Pod is without containers: they are lost, and so are the names of their ports.
    if let Some(containers) = tree.at(&["spec", "containers"])
        && [Value::Null, Value::List(Vec::new())].contains(&containers.value)
    {
        return Err(FieldError::new(containers.line, "spec.containers", "is empty: each Pod has containers"));
    }
    // kubectl prints the account under both its names.
    if tree.at(&["spec", "serviceAccountName"]).is_some() {
        tree.strip(&["spec"], &["serviceAccount"]);
    }
    for containers in ["containers", "initContainers"] {
        tree.strip(&["spec", containers], &CONTAINER_IGNORED);
        tree.strip(&["spec", containers], &["volumeDevices"]);
        tree.strip(&["spec", containers, "ports"], &["hostIP", "hostPort"]);
    }
    typed_without_unknown(tree, unknown).map(Box::new)
}

/// A document that is not understood: of a Pod, where it is, as far as that can be read.
pub(super) fn wrong(is_pod: bool, has_meta: bool, tree: &Tree) -> DocumentBody {
    let pod = is_pod.then(|| Box::new(left_of(tree)));
    DocumentBody::Wrong { has_meta, pod }
}

/// Where a Pod is that is not understood: its addresses, Node and account, as far as they can be
/// read.
fn left_of(tree: &Tree) -> PodBody {
    let read = |path: &[&str]| tree.at(path);
    let text = |path: &[&str]| read(path).and_then(Tree::text).map(str::to_owned);
    let is_true = |path: &[&str]| read(path).is_some_and(|tree| tree.value == Value::Bool(true));
    let spec = Spec {
        node_name: text(&["spec", "nodeName"]).unwrap_or_default(),
        host_network: is_true(&["spec", "hostNetwork"]),
        service_account_name: text(&["spec", "serviceAccountName"]),
        ..Spec::default()
    };
    let status = Status {
        phase: text(&["status", "phase"]).unwrap_or_default(),
        pod_ip: text(&["status", "podIP"]),
        pod_ips: read(&["status", "podIPs"]).and_then(|ips| typed(ips).ok()).unwrap_or_default(),
        ..Status::default()
    };
    PodBody { spec, status }
}

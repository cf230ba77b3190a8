//! What `kubectl get -o yaml` prints of each kind loads as it is.

use crate::common::{NODE, lines, projected};
use vswitch_agent::kinds::Document;
use vswitch_agent::project::text;

/// A list of everything, with all that API servers of today fill in.
fn printed() -> String {
    let meta = |name: &str, namespace: &str, more: &str| {
        let namespace = if namespace.is_empty() { String::new() } else { format!("\n    namespace: {namespace}") };
        format!(
            "  metadata:\n    annotations:\n      kubectl.kubernetes.io/last-applied-configuration: |\n        {{\"kind\":\"x\"}}{more}\n    \
             creationTimestamp: \"2026-01-01T00:00:00Z\"\n    generation: 2\n    labels:\n      kubernetes.io/metadata.name: {name}\n      \
             kubernetes.io/service-name: web\n      app: web\n    \
             managedFields:\n    - apiVersion: v1\n      fieldsType: FieldsV1\n      fieldsV1:\n        f:spec: {{}}\n      manager: kubectl\n      operation: Update\n      \
             time: \"2026-01-01T00:00:00Z\"\n    name: {name}{namespace}\n    ownerReferences:\n    - apiVersion: apps/v1\n      kind: ReplicaSet\n      name: x\n      \
             uid: 1b0e\n    resourceVersion: \"1234\"\n    uid: 7d2c\n"
        )
    };
    let item = |api: &str, kind: &str, meta: String, rest: &str| {
        let rest: String = rest.lines().map(|line| format!("  {line}\n")).collect();
        format!("- apiVersion: {api}\n  kind: {kind}\n{meta}{rest}")
    };
    let pod = format!(
        "spec:\n  containers:\n  - image: nginx\n    imagePullPolicy: Always\n    name: web\n    ports:\n    - containerPort: 80\n      name: http\n      protocol: TCP\n    \
         readinessProbe:\n      httpGet:\n        path: /\n        port: http\n    resources: {{}}\n    terminationMessagePath: /dev/termination-log\n    \
         terminationMessagePolicy: File\n    volumeMounts:\n    - mountPath: /var/run\n      name: token\n      readOnly: true\n  dnsPolicy: ClusterFirst\n  \
         enableServiceLinks: true\n  nodeName: {NODE}\n  preemptionPolicy: PreemptLowerPriority\n  priority: 0\n  restartPolicy: Always\n  \
         schedulerName: default-scheduler\n  securityContext: {{}}\n  serviceAccount: default\n  serviceAccountName: default\n  \
         terminationGracePeriodSeconds: 30\n  tolerations:\n  - effect: NoExecute\n    key: node.kubernetes.io/not-ready\n    operator: Exists\n    \
         tolerationSeconds: 300\n  volumes:\n  - name: token\n    projected:\n      defaultMode: 420\n      sources: []\nstatus:\n  conditions:\n  \
         - lastProbeTime: null\n    lastTransitionTime: \"2026-01-01T00:00:00Z\"\n    observedGeneration: 1\n    status: \"True\"\n    type: Ready\n  \
         containerStatuses:\n  - containerID: containerd://x\n    ready: true\n    restartCount: 0\n  hostIP: 192.168.77.102\n  hostIPs:\n  - ip: 192.168.77.102\n  \
         phase: Running\n  podIP: 10.10.0.50\n  podIPs:\n  - ip: 10.10.0.50\n  qosClass: BestEffort\n  startTime: \"2026-01-01T00:00:00Z\"\n"
    );
    let items = [
        item(
            "v1",
            "Namespace",
            meta("team", "", ""),
            "spec:\n  finalizers:\n  - kubernetes\nstatus:\n  phase: Active\n",
        ),
        item(
            "v1",
            "Node",
            meta("n3", "", ""),
            "spec:\n  podCIDR: 10.10.3.0/24\n  podCIDRs:\n  - 10.10.3.0/24\n  providerID: kind://x\n  taints:\n  - effect: NoSchedule\n    key: a\n\
             status:\n  addresses:\n  - address: 192.168.77.3\n    type: InternalIP\n  - address: n3\n    type: Hostname\n  allocatable:\n    cpu: \"2\"\n  \
             capacity:\n    cpu: \"2\"\n  conditions: []\n  daemonEndpoints:\n    kubeletEndpoint:\n      Port: 10250\n  features: {}\n  images: []\n  nodeInfo:\n    \
             architecture: amd64\n    swap:\n      capacity: 1\n  runtimeHandlers: []\n",
        ),
        item(
            "v1",
            "Pod",
            meta("web", "default", "\n      vswitch/port: web\n      vswitch/mac: 02:00:00:00:00:50"),
            &pod,
        ),
        item(
            "v1",
            "Service",
            meta("web", "default", ""),
            "spec:\n  allocateLoadBalancerNodePorts: true\n  clusterIP: 10.96.0.50\n  clusterIPs:\n  - 10.96.0.50\n  externalTrafficPolicy: Cluster\n  \
             internalTrafficPolicy: Cluster\n  ipFamilies:\n  - IPv4\n  ipFamilyPolicy: SingleStack\n  ports:\n  - appProtocol: http\n    name: http\n    \
             nodePort: 30080\n    port: 80\n    protocol: TCP\n    targetPort: http\n  selector:\n    app: web\n  sessionAffinity: None\n  \
             trafficDistribution: PreferSameZone\n  type: LoadBalancer\nstatus:\n  conditions: []\n  loadBalancer:\n    ingress:\n    - ip: 192.168.77.50\n      \
             ipMode: VIP\n      ports:\n      - port: 80\n        protocol: TCP\n",
        ),
        item(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            meta("web-x", "default", ""),
            "addressType: IPv4\nendpoints:\n- addresses:\n  - 10.10.0.50\n  conditions:\n    ready: true\n    serving: true\n    terminating: false\n  hints:\n    \
             forNodes:\n    - name: a\n    forZones:\n    - name: a\n  nodeName: n3\n  targetRef:\n    kind: Pod\n    name: web\n    namespace: default\n    uid: x\n  \
             zone: a\nports:\n- appProtocol: http\n  name: http\n  port: 80\n  protocol: TCP\n",
        ),
        item(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            meta("np", "default", ""),
            "spec:\n  ingress:\n  - from:\n    - podSelector:\n        matchLabels:\n          app: web\n    ports:\n    - port: http\n      protocol: TCP\n  \
             podSelector: {}\n  policyTypes:\n  - Ingress\nstatus: {}\n",
        ),
        item(
            "crd.antrea.io/v1beta1",
            "ClusterNetworkPolicy",
            meta("acnp", "", ""),
            "spec:\n  appliedTo:\n  - podSelector:\n      matchLabels:\n        app: web\n  ingress:\n  - action: Drop\n    enableLogging: false\n    from:\n    \
             - podSelector: {}\n    name: drop\n    ports:\n    - port: 81\n      protocol: TCP\n  priority: 5\n  tier: securityops\nstatus:\n  \
             conditions: []\n  currentNodesRealized: 1\n  desiredNodesRealized: 1\n  observedGeneration: 1\n  phase: Realized\n",
        ),
        item("crd.antrea.io/v1beta1", "Tier", meta("gold", "", ""), "spec:\n  description: \"\"\n  priority: 9\n"),
        item(
            "crd.antrea.io/v1beta1",
            "ClusterGroup",
            meta("g", "", ""),
            "spec:\n  podSelector:\n    matchLabels:\n      app: web\nstatus:\n  conditions:\n  - lastTransitionTime: \"2026-01-01T00:00:00Z\"\n    status: \"True\"\n    type: GroupMembersComputed\n",
        ),
        item(
            "crd.antrea.io/v1beta1",
            "Egress",
            meta("e", "", ""),
            "spec:\n  appliedTo:\n    podSelector:\n      matchLabels:\n        app: web\n  egressIP: 192.168.77.51\n  externalIPPool: pool\nstatus:\n  conditions: []\n  \
             egressIP: 192.168.77.51\n  egressNode: n3\n",
        ),
        item(
            "crd.antrea.io/v1alpha2",
            "TrafficControl",
            meta("tc", "", ""),
            "spec:\n  action: Mirror\n  appliedTo:\n    podSelector: {}\n  direction: Both\n  targetPort:\n    ovsInternal:\n      name: tap0\n",
        ),
    ];
    format!(
        "apiVersion: v1\nitems:\n{}kind: List\nmetadata:\n  resourceVersion: \"\"\n  selfLink: \"\"\n",
        items.concat()
    )
}

#[test]
fn everything_that_kubectl_prints_loads_as_it_is() {
    let (projection, problems) = projected(&printed());
    assert_eq!(lines(&problems), [""; 0]);
    assert_eq!(crate::common::read("f", &printed()).0.iter().filter(|document| document.is_understood()).count(), 11);
    let told = text(&projection, false);
    for name in ["default/web", "np:default/np", "acnp:acnp", "n3", "\"e\"", "\"tc\""] {
        assert!(told.contains(name), "{name}: {told}");
    }
}

#[test]
fn one_item_of_a_list_that_is_wrong_takes_no_other_one_with_it() {
    for (right, wrong) in [
        ("containerPort: 80", "containerPort: x"),
        ("clusterIP: 10.96.0.50", "clusterIP: [1]"),
        ("addressType: IPv4", "addressType: 5"),
        ("podCIDR: 10.10.3.0/24", "podCIDR: [5]"),
        ("egressIP: 192.168.77.51\n    externalIPPool", "egressIP: [1]\n    externalIPPool"),
        ("action: Mirror", "action: Look"),
        ("priority: 9", "priority: x"),
        ("priority: 5", "priority: x"),
        ("policyTypes:\n    - Ingress", "policyTypes:\n    - Ingres"),
    ] {
        let text = printed().replacen(right, wrong, 1);
        assert_ne!(text, printed(), "{right}");
        let is_right = |document: &&Document| document.is_understood();
        let (documents, problems) = crate::common::read("f", &text);
        assert_eq!(documents.iter().filter(is_right).count(), 10, "{wrong}");
        assert_eq!(problems.iter().filter(|problem| problem.is_error()).count(), 1, "{wrong}: {problems:?}");
    }
}

/// `kubectl get --raw` and client libraries print items without version and kind.
#[test]
fn items_of_a_list_of_one_kind_are_of_that_kind() {
    let pods = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: w, namespace: a, annotations: {{vswitch/port: w, \
         vswitch/mac: '02:00:00:00:00:01'}}}}\nspec: {{nodeName: {NODE}}}\nstatus: {{podIP: 10.10.0.9}}\n"
    );
    let cases = [
        ("v1", "Namespace", "metadata: {name: b}"),
        ("v1", "Node", "metadata: {name: n3}, spec: {podCIDR: 10.10.3.0/24}"),
        ("v1", "Pod", "metadata: {name: q, namespace: a}, spec: {nodeName: n3}, status: {podIP: 10.10.3.9}"),
        ("v1", "Service", "metadata: {name: s, namespace: a}, spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}"),
        ("networking.k8s.io/v1", "NetworkPolicy", "metadata: {name: p, namespace: a}, spec: {podSelector: {}}"),
        (
            "crd.antrea.io/v1beta1",
            "ClusterNetworkPolicy",
            "metadata: {name: p}, spec: {priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}",
        ),
        ("crd.antrea.io/v1beta1", "ClusterGroup", "metadata: {name: g}, spec: {podSelector: {}}"),
        ("crd.antrea.io/v1beta1", "Tier", "metadata: {name: t}, spec: {priority: 20}"),
    ];
    for (api, kind, item) in cases {
        let said = format!("apiVersion: {api}, kind: {kind}, ");
        let list = |said: &str| {
            format!(
                "apiVersion: {api}\nkind: {kind}List\nmetadata: {{resourceVersion: '5'}}\nitems:\n- {{{said}{item}}}\n{pods}"
            )
        };
        let (with, without) = (projected(&list(&said)), projected(&list("")));
        assert_eq!(text(&without.0, false), text(&with.0, false), "{kind}");
        assert_eq!(lines(&without.1), lines(&with.1), "{kind}");
        assert!(without.1.iter().all(|problem| !problem.is_error()), "{kind}: {:?}", lines(&without.1));
        let documents = crate::common::read("f", &list("")).0;
        assert_eq!(documents.iter().filter(|document| document.is_understood()).count(), 2, "{kind}");
    }
    let policy = format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems:\n- {{metadata: {{name: p, namespace: a}}, \
         spec: {{podSelector: {{}}}}}}\n- {{apiVersion: null, kind: null, metadata: {{name: q, namespace: a}}, \
         spec: {{podSelector: {{}}}}}}\n{pods}"
    );
    let told = text(&projected(&policy).0, false);
    assert!(told.contains("np:a/p") && told.contains("np:a/q"), "{told}");
    for empty in ["null", "[]"] {
        let (documents, problems) =
            crate::common::read("f", &format!("apiVersion: v1\nkind: PodList\nitems: {empty}\n"));
        assert!(documents.is_empty() && problems.is_empty(), "{empty}: {problems:?}");
    }
}

#[test]
fn a_policy_that_does_not_say_its_kind_is_held() {
    let k8s = "metadata: {name: p, namespace: a}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n";
    let cluster =
        "metadata: {name: p}\nspec: {priority: 5, appliedTo: [{podSelector: {}}], ingress: [{action: Drop}]}\n";
    let pods = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: w, namespace: a, annotations: {{vswitch/port: w, \
         vswitch/mac: '02:00:00:00:00:01'}}}}\nspec: {{nodeName: {NODE}}}\nstatus: {{podIP: 10.10.0.9}}\n"
    );
    let (k8s_api, antrea_api) = ("apiVersion: networking.k8s.io/v1\n", "apiVersion: crd.antrea.io/v1beta1\n");
    for (api, body, name) in
        [(k8s_api, k8s, "np:a/p"), (antrea_api, cluster, "acnp:p"), ("", k8s, "np:a/p"), ("", cluster, "acnp:p")]
    {
        let wrong = ["", "Kind: NetworkPolicy\n", "kind: [NetworkPolicy]\n", "kind: null\n"];
        let in_other_case = ["kind: networkpolicy\n", "kind: NetWorkPolicy\n"];
        let in_other_case = in_other_case.into_iter().filter(|_| api == k8s_api);
        for kind in wrong.into_iter().chain(in_other_case) {
            let (projection, problems) = projected(&format!("{api}{kind}{body}{pods}"));
            let told = text(&projection, false);
            assert!(told.contains(&format!("{name} (held)")), "{api}{kind}{body}: {told} {problems:?}");
            assert!(lines(&problems).iter().any(|line| line.contains("kind: ") || line.contains("apiVersion: ")));
        }
    }
    for (head, body, name) in [
        ("apiVersion: networking.k8s.oi/v1\nkind: NetworkPolicy\n", k8s, "np:a/p"),
        ("apiVersion: v1\nkind: networkPolicy\n", k8s, "np:a/p"),
        ("apiVersion: networking.k8s.io/v1\nkind: NetworkPolcy\n", k8s, "np:a/p"),
        ("apiVersion: crd.antrea.oi/v1beta1\nkind: ClusterNetworkPolicy\n", cluster, "acnp:p"),
        ("apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicies\n", cluster, "acnp:p"),
    ] {
        let (projection, problems) = projected(&format!("{head}{body}{pods}"));
        let told = text(&projection, false);
        assert!(told.contains(&format!("{name} (held)")), "{head}{body}: {told} {problems:?}");
    }
    let calico = "spec: {selector: all(), types: [Ingress], ingress: [{action: Allow}]}\n";
    let multi = "spec: {podSelector: {}, policyTypes: [Ingress]}\n";
    for other in [
        "apiVersion: networking.k8s.io/v1\nmetadata: {name: i}\nspec: {rules: []}\n".to_owned(),
        "apiVersion: v1\n".to_owned(),
        format!("apiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: a}}\n{calico}"),
        format!(
            "apiVersion: k8s.cni.cncf.io/v1beta1\nkind: MultiNetworkPolicy\nmetadata: {{name: p, namespace: a}}\n{multi}"
        ),
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, namespace: a}\nspec: {rules: []}\n"
            .to_owned(),
        "apiVersion: crd.antrea.io/v1beta1\nkind: NodeLatencyMonitor\nmetadata: {name: d}\nspec: {}\n".to_owned(),
    ] {
        let (projection, _) = projected(&format!("{other}{pods}"));
        assert!(!text(&projection, false).contains("(held)"), "{other}");
    }
}

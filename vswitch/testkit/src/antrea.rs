//! Tables and ports of the pipeline that Antrea's documentation publishes.

/// Its tables, in order of their numbers.
pub const TABLES: [&str; 31] = [
    "PipelineRootClassifier",
    "ARPSpoofGuard",
    "ARPResponder",
    "Classifier",
    "SpoofGuard",
    "UnSNAT",
    "ConntrackZone",
    "ConntrackState",
    "PreRoutingClassifier",
    "NodePortMark",
    "SessionAffinity",
    "ServiceLB",
    "EndpointDNAT",
    "AntreaPolicyEgressRule",
    "EgressRule",
    "EgressDefaultRule",
    "EgressMetric",
    "L3Forwarding",
    "EgressMark",
    "L3DecTTL",
    "SNATMark",
    "SNAT",
    "L2ForwardingCalc",
    "TrafficControl",
    "IngressSecurityClassifier",
    "AntreaPolicyIngressRule",
    "IngressRule",
    "IngressDefaultRule",
    "IngressMetric",
    "ConntrackCommit",
    "Output",
];

/// Its ports.
pub const PORTS: [(&str, u32); 9] = [
    ("antrea-tun0", 1),
    ("antrea-gw0", 2),
    ("client-6-3353ef", 0x24),
    ("web-7975-274540", 0x25),
    ("db-755c6-5080e3", 0x26),
    ("antrea-tc-tap0", 0x22),
    ("antrea-tc-tap2", 0x27),
    ("antrea-l7-tap0", 0x28),
    ("antrea-l7-tap1", 0x29),
];

//! ExternalIPPools: what is right of them is known, and what is wrong is told.

use crate::common::{lines, read};
use vswitch_agent::model::Model;

#[test]
fn pools_are_read_and_checked() {
    let pool = |spec: &str| {
        format!("apiVersion: crd.antrea.io/v1beta1\nkind: ExternalIPPool\nmetadata: {{name: x}}\nspec: {spec}\n")
    };
    let of = |spec: &str| {
        let (documents, problems) = read("test.yaml", &pool(spec));
        (Model::new(documents).0, lines(&problems))
    };
    for right in [
        "{ipRanges: [], nodeSelector: {}}",
        "{ipRanges: [{cidr: 192.0.2.0/24}, {start: '2001:db8::1', end: '2001:db8::9'}], nodeSelector: {matchLabels: {a: b}}}",
        "{ipRanges: [{start: 192.0.2.1, end: 192.0.2.1}], subnetInfo: {gateway: 192.0.2.254, prefixLength: 24, vlan: 2}}",
    ] {
        let (model, told) = of(right);
        assert_eq!((model.external_ip_pools.len(), told.len()), (1, 0), "{right}: {told:?}");
    }
    for (wrong, field) in [
        ("{ipRanges: [{}]}", "spec.ipRanges[0]: needs cidr, or start and end"),
        ("{ipRanges: [{cidr: 192.0.2.0/24, start: 192.0.2.1, end: 192.0.2.2}]}", "spec.ipRanges[0]: needs cidr"),
        ("{ipRanges: [{cidr: 192.0.2.0}]}", "spec.ipRanges[0].cidr: \"192.0.2.0\" is no prefix"),
        ("{ipRanges: [{start: 192.0.2.2, end: 192.0.2.1}]}", "spec.ipRanges[0].end: 192.0.2.1 is not behind 192.0.2.2"),
        ("{ipRanges: [{start: 192.0.2.2, end: '2001:db8::1'}]}", "spec.ipRanges[0].end: "),
        ("{ipRanges: [{start: 224.0.0.1, end: 224.0.0.2}]}", "spec.ipRanges[0].start: "),
        ("{ipRanges: [], subnetInfo: {gateway: x, prefixLength: 24}}", "spec.subnetInfo.gateway: "),
        ("{ipRanges: [], subnetInfo: {gateway: 192.0.2.1, prefixLength: 33}}", "spec.subnetInfo.prefixLength: 33"),
        (
            "{ipRanges: [], subnetInfo: {gateway: 192.0.2.1, prefixLength: 24, vlan: 4095}}",
            "spec.subnetInfo.vlan: 4095",
        ),
        // Without a field that narrows it, it would be for other Nodes.
        ("{ipRanges: [], nodeSelector: {matchLabel: {a: b}}}", "spec.nodeSelector.matchLabel"),
    ] {
        let (model, told) = of(wrong);
        assert!(model.external_ip_pools.is_empty(), "{wrong}");
        assert!(told.len() == 1 && told[0].contains(field), "{wrong}: {told:?}");
    }
}

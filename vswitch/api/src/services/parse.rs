//! From requests to plain values: what a plain value cannot express is refused, naming every wrong
//! field at once.

use super::status::{clip, invalid};
use std::path::PathBuf;
use tonic::Status;
use vswitch_control::{BridgeChange, BridgeConfig, FailMode, FdbFilter, PortChange};
use vswitch_dataplane::packet::Mac;
use vswitch_dataplane::port::{
    Cidr, CidrError, End, FieldError, PortConfig, PortKind, TunnelConfig, VhostConfig, VhostMode,
};
use vswitch_overlay::TunnelKind::{Geneve, Gre, Vxlan};
use vswitch_proto::v1;
use vswitch_proto::v1::port_config::Kind;

/// Largest VLAN id (IEEE 802.1Q reserves 4095, Open vSwitch accepts it).
const VLAN_MAX: u32 = 4095;

const MAC_HINT: &str = "give 6 bytes, such as 02 00 00 00 00 01";

/// Collects what is wrong; a wrong field becomes its default, so that the others are looked at too.
#[derive(Default)]
struct Fields(Vec<FieldError>);

impl Fields {
    fn wrong(&mut self, field: &'static str, problem: impl Into<String>, hint: &str) {
        self.0.push(FieldError::new(field, problem, hint));
    }

    fn number(&mut self, field: &'static str, value: u32, default: u16, hint: &str) -> u16 {
        u16::try_from(value).unwrap_or_else(|_| {
            self.wrong(field, format!("{value} is out of range"), hint);
            default
        })
    }

    fn queues(&mut self, value: Option<u32>) -> u16 {
        self.number("queues", value.unwrap_or(1), 1, "use 1 to 64")
    }

    fn vlan(&mut self, value: u32) -> u16 {
        if value > VLAN_MAX {
            self.wrong("vlan", format!("{value} is no VLAN id"), "use 0 (untagged) to 4095");
        }
        u16::try_from(value).unwrap_or_default()
    }

    fn mac(&mut self, value: Option<v1::MacAddress>) -> Option<Mac> {
        let octets = value?.octets;
        let mac = octets.as_slice().try_into().map(Mac).ok();
        if mac.is_none() {
            self.wrong("mac", format!("{} bytes are no Ethernet address", octets.len()), MAC_HINT);
        }
        mac
    }

    fn addresses(&mut self, texts: &[String]) -> Vec<Cidr> {
        let mut good = Vec::new();
        for text in texts.iter().take(vswitch_dataplane::limits::VTEP_ADDRESSES_MAX + 1) {
            match Cidr::of_port(text) {
                Ok(cidr) => good.push(cidr),
                Err(error) => {
                    let what = if error == CidrError::Syntax { "is no address" } else { "has no length" };
                    self.wrong("addresses", format!("{:?} {what}", clip(text, 64)), &error.hint());
                }
            }
        }
        good
    }

    fn path(&mut self, field: &'static str, value: String) -> PathBuf {
        if value.is_empty() || value.contains('\0') {
            self.wrong(field, format!("{value:?} is no path"), "name a file");
        }
        value.into()
    }

    fn finish<T>(self, value: T) -> Result<T, Status> {
        if self.0.is_empty() { Ok(value) } else { Err(invalid(&self.0)) }
    }
}

fn fail_mode(mode: i32, fields: &mut Fields) -> Option<FailMode> {
    match v1::FailMode::try_from(mode) {
        Ok(v1::FailMode::Unspecified) => None,
        Ok(v1::FailMode::Secure) => Some(FailMode::Secure),
        Ok(v1::FailMode::Standalone) => Some(FailMode::Standalone),
        Err(_) => {
            fields.wrong("fail_mode", format!("{mode} is no fail mode"), "use secure (1) or standalone (2)");
            None
        }
    }
}

/// A new bridge, with defaults for what was not given.
#[allow(clippy::needless_pass_by_value)] // consumed: a request is used once
pub(super) fn bridge_config(config: v1::BridgeConfig) -> Result<BridgeConfig, Status> {
    let mut fields = Fields::default();
    let mut bridge = BridgeConfig::new(&config.name);
    bridge.fail_mode = fail_mode(config.fail_mode, &mut fields).unwrap_or_default();
    bridge.fdb_entries = config.fdb_entries.unwrap_or(bridge.fdb_entries);
    bridge.fdb_ageing_s = config.fdb_ageing_seconds.unwrap_or(bridge.fdb_ageing_s);
    bridge.strict = config.strict;
    fields.finish(bridge)
}

/// What is to change of a bridge.
pub(super) fn bridge_change(request: &v1::SetBridgeRequest) -> Result<BridgeChange, Status> {
    let mut fields = Fields::default();
    let change = BridgeChange { fail_mode: fail_mode(request.fail_mode, &mut fields), strict: request.strict };
    if change == BridgeChange::default() && fields.0.is_empty() {
        fields.wrong(
            "fail_mode",
            "nothing is to be changed",
            "give fail_mode: secure (1) or standalone (2), or strict",
        );
    }
    fields.finish(change)
}

/// A new port, with defaults for what was not given.
pub(super) fn port_config(config: v1::PortConfig) -> Result<PortConfig, Status> {
    let mut fields = Fields::default();
    let kind = port_kind(config.kind, &config.name, &mut fields);
    let mut port = PortConfig::new(&config.name, kind);
    port.number = config.number;
    port.mac = fields.mac(config.mac);
    port.mtu_follows = config.mtu.is_none();
    port.mtu = config.mtu.map_or(port.mtu, |mtu| fields.number("mtu", mtu, port.mtu, "use 68 to 9702"));
    port.admin_up = config.admin_up.unwrap_or(port.admin_up);
    port.no_flood = config.no_flood;
    port.no_receive = config.no_receive;
    port.no_forward = config.no_forward;
    port.strict = config.strict;
    port.underlay = config.underlay;
    port.external_ids = config.external_ids.into_iter().collect();
    port.addresses = fields.addresses(&config.addresses);
    // The same field may be found wrong here and there; the first finding is the one that says why.
    let here = fields.0.len();
    for error in port.errors() {
        if !fields.0[..here].iter().any(|known| known.field == error.field) {
            fields.0.push(error);
        }
    }
    fields.finish(port)
}

fn port_kind(kind: Option<Kind>, name: &str, fields: &mut Fields) -> PortKind {
    let or_name = |interface: String| if interface.is_empty() { name.to_owned() } else { interface };
    match kind {
        Some(Kind::Dpdk(port)) => PortKind::Dpdk { devargs: port.devargs, queues: fields.queues(port.queues) },
        Some(Kind::VhostUser(port)) => PortKind::VhostUser(vhost(port, fields)),
        Some(Kind::Tap(port)) => {
            PortKind::Tap { interface: or_name(port.interface), queues: fields.queues(port.queues) }
        }
        Some(Kind::AfPacket(port)) => PortKind::AfPacket { interface: or_name(port.interface) },
        Some(Kind::Pcap(port)) => PortKind::Pcap {
            rx_file: port.rx_file.map(|file| fields.path("rx_file", file)),
            tx_file: port.tx_file.map(|file| fields.path("tx_file", file)),
            infinite_rx: port.infinite_rx,
        },
        Some(Kind::Patch(port)) => PortKind::Patch { peer: port.peer },
        Some(Kind::Internal(port)) => PortKind::Internal { queues: fields.queues(port.queues) },
        Some(Kind::Dummy(v1::DummyPort {})) => PortKind::Dummy,
        Some(Kind::Tunnel(port)) => PortKind::Tunnel(tunnel(port, fields)),
        None => {
            fields.wrong("type", "not given", &format!("use one of {}", PortKind::NAMES.join(", ")));
            PortKind::Internal { queues: 1 }
        }
    }
}

fn tunnel(port: v1::TunnelPort, fields: &mut Fields) -> TunnelConfig {
    let kind = match v1::TunnelKind::try_from(port.kind) {
        Ok(v1::TunnelKind::Geneve) => Geneve,
        Ok(v1::TunnelKind::Vxlan) => Vxlan,
        Ok(v1::TunnelKind::Gre) => Gre,
        Ok(v1::TunnelKind::Unspecified) | Err(_) => {
            fields.wrong("kind", format!("{} is no kind of tunnel", port.kind), "use geneve (1), vxlan (2) or gre (3)");
            Geneve
        }
    };
    TunnelConfig::parse(kind, &port.options.into_iter().collect()).unwrap_or_else(|errors| {
        fields.0.extend(errors);
        TunnelConfig::new(kind, End::Flow)
    })
}

fn vhost(port: v1::VhostUserPort, fields: &mut Fields) -> VhostConfig {
    let mode = match v1::VhostUserMode::try_from(port.mode) {
        Ok(v1::VhostUserMode::Unspecified | v1::VhostUserMode::Client) => VhostMode::Client,
        Ok(v1::VhostUserMode::Server) => VhostMode::Server,
        Err(_) => {
            fields.wrong("mode", format!("{} is no mode", port.mode), "use client (1) or server (2)");
            VhostMode::Client
        }
    };
    let mut vhost = VhostConfig::new(fields.path("path", port.path), mode);
    vhost.queues = fields.queues(port.queues);
    vhost.csum = port.csum.unwrap_or(vhost.csum);
    vhost.tso = port.tso.unwrap_or(vhost.tso);
    vhost.mergeable = port.mergeable.unwrap_or(vhost.mergeable);
    vhost.indirect = port.indirect.unwrap_or(vhost.indirect);
    vhost.packed = port.packed;
    vhost
}

/// What is to change of a port. Takes the external ids out of the request.
pub(super) fn port_change(request: &mut v1::ModifyPortRequest) -> Result<PortChange, Status> {
    let mut fields = Fields::default();
    let change = PortChange {
        admin_up: request.admin_up,
        no_flood: request.no_flood,
        no_receive: request.no_receive,
        no_forward: request.no_forward,
        strict: request.strict,
        underlay: request.underlay,
        mtu: request.mtu.map(|mtu| fields.number("mtu", mtu, 1500, "use 68 to 9702")),
        mtu_follows: None,
        external_ids: request.external_ids.take().map(|external_ids| external_ids.ids.into_iter().collect()),
        addresses: request.addresses.take().map(|addresses| fields.addresses(&addresses.cidrs)),
    };
    if change == PortChange::default() {
        fields.wrong(
            "admin_up",
            "nothing is to be changed",
            "give admin_up, no_flood, no_receive, no_forward, strict, underlay, mtu, external_ids or addresses",
        );
    }
    fields.finish(change)
}

/// A queue number.
pub(super) fn queue(queue: u32) -> Result<u16, Status> {
    let mut fields = Fields::default();
    let queue = fields.number("queue", queue, 0, "`vsctl worker-rxq-show` lists the queues");
    fields.finish(queue)
}

/// VLAN and address of an entry of a MAC table.
pub(super) fn vlan_and_mac(vlan: u32, mac: Option<v1::MacAddress>) -> Result<(u16, Mac), Status> {
    let mut fields = Fields::default();
    let vlan = fields.vlan(vlan);
    let missing = mac.is_none();
    let mac = fields.mac(mac);
    if missing {
        fields.wrong("mac", "not given", MAC_HINT);
    }
    fields.finish((vlan, mac.unwrap_or_default()))
}

/// Which addresses are to be flushed.
pub(super) fn fdb_filter(request: v1::FlushFdbRequest) -> Result<FdbFilter, Status> {
    let mut fields = Fields::default();
    let filter = FdbFilter {
        port: request.port,
        vlan: request.vlan.map(|vlan| fields.vlan(vlan)),
        mac: fields.mac(request.mac),
        statics: request.statics,
    };
    fields.finish(filter)
}

#[cfg(test)]
mod tests {
    use super::super::present;
    use super::*;
    use proptest::prelude::*;

    fn message<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
        let status = result.expect_err("an error");
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        status.message().to_owned()
    }

    fn kinds() -> impl Strategy<Value = PortKind> {
        let path = || "/[a-z/]{1,20}".prop_map(PathBuf::from);
        let vhost = (path(), any::<bool>(), 1..=64_u16, any::<[bool; 5]>()).prop_map(|(path, client, queues, on)| {
            let mode = if client { VhostMode::Client } else { VhostMode::Server };
            let [csum, tso, mergeable, indirect, packed] = on;
            PortKind::VhostUser(VhostConfig { path, mode, queues, csum, tso: tso && csum, mergeable, indirect, packed })
        });
        prop_oneof![
            ("[a-z0-9,=]{1,30}", 1..=64_u16).prop_map(|(devargs, queues)| PortKind::Dpdk { devargs, queues }),
            vhost,
            ("[a-z0-9]{1,15}", 1..=64_u16).prop_map(|(interface, queues)| PortKind::Tap { interface, queues }),
            "[a-z0-9]{1,15}".prop_map(|interface| PortKind::AfPacket { interface }),
            (path(), prop::option::of(path()), any::<bool>()).prop_map(|(rx, tx_file, infinite_rx)| PortKind::Pcap {
                rx_file: Some(rx),
                tx_file,
                infinite_rx
            }),
            "[a-z0-9]{1,15}".prop_map(|peer| PortKind::Patch { peer }),
            (1..=64_u16).prop_map(|queues| PortKind::Internal { queues }),
            Just(PortKind::Dummy),
            (0..3_usize, any::<bool>(), 1..=0xff_ffff_u64).prop_map(|(kind, csum, key)| {
                let remote = End::Address("10.0.0.2".parse().expect("an address"));
                let in_key = vswitch_dataplane::port::Key::Value(key);
                PortKind::Tunnel(TunnelConfig { csum, in_key, ..TunnelConfig::new([Geneve, Vxlan, Gre][kind], remote) })
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_port_survives_the_way_through_protobuf(
            kind in kinds(), name in "[a-z0-9]{1,15}", number in prop::option::of(1..=0xfeff_u32),
            mac in prop::option::of(any::<[u8; 5]>()), mtu in 68..=9702_u16, flags in any::<[bool; 5]>(), underlay in any::<Option<bool>>(),
            external_ids in prop::collection::btree_map("[a-z]{1,9}", "[a-z]{0,9}", 0..4),
        ) {
            let mac = mac.map(|[a, b, c, d, e]| Mac([2, a, b, c, d, e]));
            let [admin_up, no_flood, no_receive, no_forward, strict] = flags;
            let strict = strict && !kind.is_inner();
            let may_be_vtep = matches!(kind, PortKind::Internal { .. } | PortKind::Tap { .. } | PortKind::Dummy);
            let addresses: &[&str] = if may_be_vtep { &["10.0.0.1/24", "fd00::1/64"] } else { &[] };
            let addresses = addresses.iter().map(|text| text.parse().expect("an address")).collect();
            let port = PortConfig {
                name, number, kind, mac, mtu, admin_up, no_flood, no_receive, no_forward, strict, underlay, external_ids,
                addresses, mtu_follows: false,
            };
            let back = port_config(present::port_config(&port)).expect("a valid port");
            prop_assert_eq!(back, port);
        }
    }

    #[test]
    fn what_is_not_given_is_the_default() {
        let kind = Some(Kind::VhostUser(v1::VhostUserPort { path: "/run/vm0".to_owned(), ..Default::default() }));
        let config = v1::PortConfig { name: "vm0".to_owned(), kind, ..Default::default() };
        let vhost = VhostConfig::new("/run/vm0".into(), VhostMode::Client);
        assert_eq!(port_config(config).expect("a port"), PortConfig::new("vm0", PortKind::VhostUser(vhost)));
        let kind = Some(Kind::Tap(v1::TapPort::default()));
        let config = v1::PortConfig { name: "tap0".to_owned(), kind, ..Default::default() };
        let kind = PortKind::Tap { interface: "tap0".to_owned(), queues: 1 };
        assert_eq!(port_config(config).expect("a port"), PortConfig::new("tap0", kind));
        let bridge = v1::BridgeConfig { name: "br0".to_owned(), ..Default::default() };
        assert_eq!(bridge_config(bridge).expect("a bridge"), BridgeConfig::new("br0"));
    }

    #[test]
    fn every_wrong_field_is_named_once() {
        let kind = v1::VhostUserPort {
            mode: 7,
            queues: Some(70_000),
            tso: Some(true),
            csum: Some(false),
            ..Default::default()
        };
        let config = v1::PortConfig {
            name: "a name that is no name".to_owned(),
            number: Some(0),
            mac: Some(v1::MacAddress { octets: vec![1, 2, 3] }),
            mtu: Some(1 << 20),
            kind: Some(Kind::VhostUser(kind)),
            ..Default::default()
        };
        let message = message(port_config(config));
        let fields: Vec<_> = message.lines().map(|line| line.split(':').next().expect("a field")).collect();
        assert_eq!(fields, ["mode", "path", "queues", "mac", "mtu", "name", "number", "tso"], "{message}");
    }

    #[test]
    fn a_port_without_kind_is_refused() {
        let config = v1::PortConfig { name: "p0".to_owned(), ..Default::default() };
        let want = "type: not given; use one of dpdk, vhost-user, tap, af_packet, pcap, patch, internal, dummy, geneve, vxlan, gre";
        assert_eq!(message(port_config(config)), want);
    }

    #[test]
    fn numbers_beyond_their_field_are_refused_not_cut() {
        let mac = || Some(v1::MacAddress { octets: vec![2, 0, 0, 0, 0, 1] });
        assert_eq!(vlan_and_mac(4095, mac()).expect("valid"), (4095, Mac([2, 0, 0, 0, 0, 1])));
        for vlan in [4096, 65_536 + 5, u32::MAX] {
            let want = format!("vlan: {vlan} is no VLAN id; use 0 (untagged) to 4095");
            assert_eq!(message(vlan_and_mac(vlan, mac())), want);
            let request = v1::FlushFdbRequest { vlan: Some(vlan), ..Default::default() };
            assert_eq!(message(fdb_filter(request)), want);
        }
        assert_eq!(message(vlan_and_mac(0, None)), format!("mac: not given; {MAC_HINT}"));
        assert_eq!(queue(65_535).expect("valid"), 65_535);
        assert!(message(queue(65_536)).starts_with("queue: 65536 is out of range"));
        assert!(
            message(port_change(&mut v1::ModifyPortRequest { mtu: Some(65_536 + 1500), ..Default::default() }))
                .starts_with("mtu: 67036")
        );
    }

    #[test]
    fn a_change_of_nothing_is_refused_and_no_external_ids_is_a_change() {
        assert!(message(port_change(&mut v1::ModifyPortRequest::default())).contains("nothing is to be changed"));
        let external_ids = Some(v1::ExternalIds::default());
        let change = port_change(&mut v1::ModifyPortRequest { external_ids, ..Default::default() }).expect("a change");
        assert_eq!(change.external_ids, Some(std::collections::BTreeMap::new()));
    }

    #[test]
    fn changes_of_bridges() {
        let change =
            |fail_mode, strict| bridge_change(&v1::SetBridgeRequest { name: String::new(), fail_mode, strict });
        let want = |fail_mode, strict| BridgeChange { fail_mode, strict };
        assert_eq!(change(1, None).expect("valid"), want(Some(FailMode::Secure), None));
        assert_eq!(change(2, Some(false)).expect("valid"), want(Some(FailMode::Standalone), Some(false)));
        assert_eq!(change(0, Some(true)).expect("valid"), want(None, Some(true)));
        let nothing = "fail_mode: nothing is to be changed; give fail_mode: secure (1) or standalone (2), or strict";
        assert_eq!(message(change(0, None)), nothing);
        for strict in [None, Some(true)] {
            let want = "fail_mode: 9 is no fail mode; use secure (1) or standalone (2)";
            assert_eq!(message(change(9, strict)), want);
        }
    }

    #[test]
    fn a_strict_patch_port_is_refused() {
        let kind = Some(Kind::Patch(v1::PatchPort { peer: "p1".to_owned() }));
        let config = v1::PortConfig { name: "p0".to_owned(), kind, strict: true, ..Default::default() };
        let message = message(port_config(config));
        assert!(message.starts_with("strict: "), "{message}");
    }
}

//! What a switch could have answered.

use vswitch_proto::v1;
use vswitch_proto::v1::port_config::Kind;

pub(super) fn mac(last: u8) -> v1::MacAddress {
    v1::MacAddress { octets: vec![2, 0, 0, 0, 0, last] }
}

fn port(name: &str, number: u32, last: u8, kind: Kind, word: &str) -> v1::Port {
    let config = v1::PortConfig {
        name: name.to_owned(),
        mtu: Some(1500),
        admin_up: Some(true),
        kind: Some(kind),
        ..Default::default()
    };
    v1::Port {
        bridge: "br0".to_owned(),
        config: Some(config),
        r#type: word.to_owned(),
        number,
        mac: Some(mac(last)),
        link_up: true,
        rx_queues: 1,
        tx_queues: 1,
        ..Default::default()
    }
}

/// A vhost-user port with everything.
pub(super) fn guest() -> v1::Port {
    let vhost = v1::VhostUserPort {
        path: "/run/vm0.sock".to_owned(),
        mode: v1::VhostUserMode::Client.into(),
        queues: Some(2),
        csum: Some(true),
        tso: Some(true),
        mergeable: Some(true),
        indirect: Some(true),
        packed: false,
    };
    let mut port = port("vm0", 1, 1, Kind::VhostUser(vhost), "vhost-user");
    (port.link_speed_mbps, port.rx_queues, port.tx_queues) = (10_000, 2, 4);
    port.offloads = vec!["rx-csum".to_owned(), "tx-csum".to_owned()];
    let config = port.config.get_or_insert_default();
    let pairs = [("zone", "a"), ("pod", "web\u{1b}")];
    config.external_ids = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    port
}

/// A port whose device did not open.
fn broken() -> v1::Port {
    let dpdk = v1::DpdkPort { devargs: "0000:3b:00.0".to_owned(), queues: Some(1) };
    let mut port = port("up0", 2, 2, Kind::Dpdk(dpdk), "dpdk");
    (port.link_up, port.rx_queues, port.tx_queues) = (false, 0, 0);
    port.error = Some("no such device".to_owned());
    let config = port.config.get_or_insert_default();
    (config.admin_up, config.no_flood, config.strict, config.mtu) = (Some(false), true, true, Some(9000));
    port
}

/// A bridge's own port.
pub(super) fn local() -> v1::Port {
    port("br0", 0xffff_fffe, 3, Kind::Internal(v1::InternalPort { queues: Some(1) }), "internal")
}

/// One bridge with three ports and one with none.
pub(super) fn bridges() -> Vec<v1::Bridge> {
    let config = |name: &str, mode: v1::FailMode, entries, ageing| v1::BridgeConfig {
        name: name.to_owned(),
        fail_mode: mode.into(),
        fdb_entries: entries,
        fdb_ageing_seconds: Some(ageing),
        strict: entries.is_none(),
    };
    vec![
        v1::Bridge {
            config: Some(config("br0", v1::FailMode::Standalone, Some(8192), 300)),
            ports: vec![guest(), broken(), local()],
            fdb: Some(v1::FdbStats { entries: 3, statics: 1, limit: 8192, ..Default::default() }),
        },
        v1::Bridge { config: Some(config("br1", v1::FailMode::Secure, None, 5)), ports: Vec::new(), fdb: None },
    ]
}

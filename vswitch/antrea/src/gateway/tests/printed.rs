//! The gateway bridge beside the flows that OVN-Kubernetes' documents print (`printed.txt`).
//!
//! Each line is here, too, or is one of the differences below, which docs/gateway.md gives reasons
//! for. What stands for a printed flow must be there. A difference that does not occur is an error.

use super::behind;
use super::ovn::{node, normal};
use crate::testing::mac;
use crate::wire::tests::lines;
use std::collections::BTreeSet;
use vswitch_proto::antrea::v1;
use vswitch_proto::antrea::v1::object::Object;

const PRINTED: &str = include_str!("printed.txt");

/// What the documents' placeholders stand for: a NodePort and its endpoint's port.
const PLACEHOLDERS: [(&str, &str); 3] = [("<nodePort>", "30012"), ("<targetIP>", "8080"), ("<nodeIP>", "172.18.0.3")];

/// A difference.
struct Difference {
    /// Its number in docs/gateway.md.
    number: u8,
    /// Parts of the printed line, after names and placeholders are replaced.
    printed: &'static [&'static str],
    /// The flows that are here instead. `NODE` and `MAC` are the Node's.
    here: &'static [&'static str],
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        number: 15,
        printed: &["priority=50,", "in_port=1 "],
        here: &["priority=50,ip,in_port=1,dl_dst=MAC,actions=ct(table=1,zone=64000,nat)"],
    },
    Difference {
        number: 12,
        printed: &["table=1, priority=0 actions=NORMAL"],
        here: &["table=1,priority=10,dl_dst=MAC,actions=LOCAL"],
    },
    Difference {
        number: 8,
        printed: &["priority=500,ip,in_port=LOCAL,nw_dst=10.96.0.0/16"],
        here: &[
            "priority=501,ip,in_port=LOCAL,nw_src=NODE,nw_dst=10.96.0.0/16,\
             actions=ct(commit,table=2,zone=64001,nat(src=169.254.169.2))",
            "priority=500,ip,in_port=LOCAL,nw_dst=10.96.0.0/16,\
             actions=ct(commit,table=2,zone=64001,nat(src=169.254.169.6))",
        ],
    },
    Difference {
        number: 9,
        printed: &["priority=500,ip,in_port=2,nw_src=10.96.0.0/16,nw_dst=169.254.169.2"],
        here: &["priority=500,ip,in_port=2,nw_dst=169.254.169.2,actions=ct(table=3,zone=64001,nat)"],
    },
    Difference {
        number: 9,
        printed: &["priority=500,ip,in_port=2,nw_src=172.18.0.3,nw_dst=169.254.169.2"],
        here: &["priority=510,ip,in_port=2,nw_src=NODE,nw_dst=169.254.169.2,\
                 actions=ct(commit,table=4,zone=64001,nat(dst=NODE))"],
    },
    Difference {
        number: 18,
        printed: &["nw_dst=127.20.0.2"],
        here: &["priority=510,ip,in_port=2,nw_src=NODE,nw_dst=172.20.0.2,actions=ct(commit,table=4,zone=64001)"],
    },
    Difference {
        number: 3,
        printed: &["priority=100,ip,in_port=2 "],
        here: &["priority=100,ip,in_port=2,dl_src=MAC,\
                 actions=ct(commit,zone=64000,nat(src=NODE),exec(set_field:0x1->ct_mark)),output:1"],
    },
    Difference { number: 13, printed: &["priority=175,"], here: &[] },
    Difference {
        number: 16,
        printed: &["table=2, actions="],
        here: &["table=2,priority=100,actions=set_field:MAC->eth_dst,output:2"],
    },
    Difference {
        number: 14,
        printed: &["table=3, actions="],
        here: &["table=3,priority=100,ip,\
                 actions=set_field:0a:58:a9:fe:a9:04->eth_src,set_field:MAC->eth_dst,LOCAL"],
    },
    Difference {
        number: 14,
        printed: &["table=4, ip "],
        here: &["table=4,priority=100,ip,actions=ct(commit,table=3,zone=64002,nat(src=169.254.169.1))"],
    },
    Difference {
        number: 14,
        printed: &["table=5, ip "],
        here: &["table=5,priority=100,ip,actions=ct(commit,table=2,zone=64001,nat)"],
    },
    Difference {
        number: 17,
        printed: &["priority=100,tcp,in_port=1,tp_dst=30012"],
        here: &["table=1,priority=95,tcp,nw_dst=NODE,tp_dst=30012,\
                 actions=ct(commit,table=6,zone=64003,nat(dst=NODE:8080))"],
    },
    Difference {
        number: 4,
        printed: &["priority=100,tcp,in_port=LOCAL,tp_src=8080"],
        here: &["priority=111,tcp,in_port=LOCAL,nw_src=NODE,tp_src=8080,actions=ct(table=7,zone=64003,nat)"],
    },
    Difference {
        number: 16,
        printed: &["table=6, priority=100 actions=LOCAL"],
        here: &["table=6,priority=110,ip,actions=LOCAL"],
    },
    Difference {
        number: 4,
        printed: &["table=7, priority=100 actions=output:1"],
        here: &[
            "table=7,priority=110,ct_state=+trk+est,ip,actions=output:1",
            "table=7,priority=100,ip,actions=ct(commit,zone=64000,exec(set_field:0x2->ct_mark)),output:1",
        ],
    },
];

/// A Service of policy Local whose endpoint is the Node.
fn services(address: &str) -> Vec<Object> {
    let port =
        v1::ServicePort { name: "http".to_owned(), protocol: v1::Protocol::Tcp.into(), port: 80, node_port: 30012 };
    let mut service =
        v1::Service { name: "default/example-service".to_owned(), ports: vec![port], ..Default::default() };
    service.set_external_traffic_policy(v1::TrafficPolicy::Local);
    let endpoint = v1::Endpoint {
        address: address.to_owned(),
        port: 8080,
        node: "ovn-worker".to_owned(),
        ready: true,
        ..Default::default()
    };
    let endpoints = v1::Endpoints { service: service.name.clone(), port: "http".to_owned(), endpoints: vec![endpoint] };
    vec![Object::Service(service), Object::Endpoints(endpoints)]
}

/// The flows of the gateway bridge of this Node.
fn here(mode: v1::GatewayMode, address: &str, its_mac: &str) -> BTreeSet<String> {
    let mut node = node(mode);
    node.transport_addresses[0] = format!("{address}/16");
    if let Some(uplink) = &mut node.uplink {
        uplink.mac = mac(its_mac);
    }
    lines(&behind(&node, services(address))).iter().map(|line| normal(line)).collect()
}

/// A printed line with numbers for names, and as this switch prints an action that both can write.
fn printed(line: &str) -> String {
    let line = line.replace("\"patch-breth0_ov\"", "2").replace("eth0", "1");
    let line = PLACEHOLDERS.iter().fold(line, |line, (name, value)| line.replace(name, value));
    let line = ["0x1", "0x2"].iter().fold(line, |line, mark| {
        line.replace(&format!("load:{mark}->NXM_NX_CT_MARK[]"), &format!("set_field:{mark}->ct_mark"))
    });
    line.strip_prefix("table=0, ").unwrap_or(&line).to_owned()
}

#[test]
fn printed_flows_are_here_but_for_what_is_listed() {
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    let (mut all, mut same) = (0, 0);
    let mut nodes = Vec::new();
    for line in PRINTED.lines().filter(|line| !line.starts_with('#')) {
        if let Some(section) = line.strip_prefix('[') {
            nodes = nodes_of(section.trim_end_matches(']'));
            continue;
        }
        let line = printed(line);
        for (flows, address, mac) in &nodes {
            all += 1;
            if flows.contains(&normal(&line)) {
                same += 1;
                continue;
            }
            let matches = |one: &Difference| one.printed.iter().all(|part| line.contains(part));
            let Some(at) = DIFFERENCES.iter().position(matches) else {
                wrong.push(line.clone());
                continue;
            };
            seen.insert(at);
            let instead = DIFFERENCES[at].here.iter().map(|text| text.replace("NODE", address).replace("MAC", mac));
            let missing = instead.filter(|text| !flows.contains(&normal(text)));
            wrong.extend(missing.map(|text| format!("{line}: there is no {text}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unused: Vec<_> =
        DIFFERENCES.iter().enumerate().filter(|(at, _)| !seen.contains(at)).map(|(_, one)| one.number).collect();
    assert!(unused.is_empty(), "these do not occur: {unused:?}");
    assert_eq!((all, same), (47, 8), "printed flows in each mode, and those that are the same");
}

/// Flows, address and MAC address of a section's Node, in each of its modes.
fn nodes_of(section: &str) -> Vec<(BTreeSet<String>, String, String)> {
    let mut parts = section.splitn(3, ": ");
    let (_, modes, ends) = (parts.next(), parts.next().expect("modes"), parts.next().expect("a Node"));
    let (address, mac) = ends.split_once(' ').expect("a MAC address");
    let mode = |word: &str| match word {
        "Shared" => v1::GatewayMode::Shared,
        "Local" => v1::GatewayMode::Local,
        other => panic!("{other} is no mode"),
    };
    modes.split(", ").map(|word| (here(mode(word), address, mac), address.to_owned(), mac.to_owned())).collect()
}

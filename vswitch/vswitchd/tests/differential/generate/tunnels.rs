//! A random scenario made one of tunnels: some of its outputs go into tunnels, some of its flows
//! are for what comes out of them, and some of its packets come in one, by port 1.
//!
//! **Design**: the scenario's text is changed, so that all else of a program stays as it is. The
//! underlay is fixed: what LOCAL sends leaves by port 1, and what comes in by port 1 for LOCAL's
//! address goes there. All peers are known neighbours (Open vSwitch asks for others with each
//! packet), a program writes no `pkt_mark` (Open vSwitch routes by it), and no flood reaches a
//! tunnel (the order of its copies is not defined).

use super::rng::Rng;
use crate::frame::{Frame, Kind, tunnel_payload};
use crate::record::hex;
use crate::scenario::{Command, PortChange, Step};
use crate::tunnels::{Tunnelling, VTEP_MAC};

/// Their numbers.
const PORTS: [u32; 3] = [11, 12, 13];
/// Peers: the last number of their addresses, and of their MACs.
const PEERS: [u8; 3] = [0x92, 0x93, 0x94];
/// Ids that ports, flows and packets share.
const IDS: [u32; 4] = [0, 5, 6, 0x00ab_cdef];
/// Priority of the underlay's flows.
const UNDERLAY: u32 = 60_000;

/// Makes it a scenario of tunnels.
pub(crate) fn tunnelled(steps: Vec<Step>, rng: &mut Rng) -> Vec<Step> {
    let mut out = setup(rng);
    for step in steps {
        out.push(match step {
            Step::Flow(line) => Step::Flow(flow(&line, rng)),
            Step::Control(Command { options, verb, argument, input }) => {
                Step::Control(Command { options, verb, argument: argument.map(|text| actions(&text, rng)), input })
            }
            Step::Packet { port, bytes, .. } if bytes.len() >= 14 && rng.chance(50) => {
                let _ = port;
                Step::packet(1, wrapped(&bytes, rng))
            }
            step => step,
        });
    }
    out
}

fn address(peer: u8, v6: bool) -> String {
    if v6 { format!("2001:cafe::{peer:x}") } else { format!("1.1.2.{peer}") }
}

fn setup(rng: &mut Rng) -> Vec<Step> {
    let mut lines = vec!["address 1.1.2.88/24".to_owned(), "address 2001:cafe::58/64".to_owned()];
    for (port, kind) in PORTS.into_iter().zip(["geneve", "vxlan", "gre"]) {
        let mut line = format!("tunnel {port} {kind} ");
        line += &match rng.below(6) {
            0 => format!("remote_ip={}", address(rng.pick(&PEERS), false)),
            1 => format!("remote_ip={}", address(rng.pick(&PEERS), true)),
            _ => "remote_ip=flow".to_owned(),
        };
        line += &if rng.chance(75) { " key=flow".to_owned() } else { format!(" key={}", rng.pick(&IDS)) };
        for (percent, option) in [
            (30, "csum=true"),
            (20, "tos=inherit"),
            (10, "tos=0x48"),
            (20, "ttl=inherit"),
            (10, "ttl=3"),
            (10, "df_default=false"),
        ] {
            let key = option.split('=').next().unwrap_or_default();
            if rng.chance(percent) && !line.contains(key) {
                line += &format!(" {option}");
            }
        }
        lines.push(line);
    }
    for peer in PEERS {
        lines.extend([false, true].map(|v6| format!("neighbour {} 02:00:00:00:00:{peer:02x}", address(peer, v6))));
    }
    let mut steps: Vec<Step> =
        lines.iter().map(|line| Step::Tunnelling(Tunnelling::parse(line).expect("a step about tunnels"))).collect();
    let map = "{class=0xffff,type=0,len=4}->tun_metadata0,{class=0xffff,type=1,len=8}->tun_metadata1";
    steps.push(Step::Control(Command::parse(&format!("add-tlv-map {map}"))));
    steps.extend(PORTS.map(|port| Step::Port(port, PortChange::NoFlood)));
    for line in [
        "in_port=LOCAL,ip,nw_src=1.1.2.88 actions=output:1",
        "in_port=LOCAL,ipv6,ipv6_src=2001:cafe::58 actions=output:1",
        &format!("in_port=1,dl_dst={VTEP_MAC} actions=LOCAL"),
    ] {
        steps.push(Step::Flow(format!("table=0,priority={UNDERLAY},{line}")));
    }
    steps
}

/// A flow: for packets out of a tunnel, perhaps, and into one.
fn flow(line: &str, rng: &mut Rng) -> String {
    let Some((head, tail)) = line.split_once(" actions=") else { return line.to_owned() };
    let mut head = head.replace("pkt_mark", "reg5");
    // Clauses match what other flows rely on, and what takes all takes all.
    let is_clause = tail.starts_with("conjunction(") || head.contains("conj_id") || head.ends_with("priority=0");
    if !is_clause && !head.contains("in_port") && rng.chance(20) {
        head += &format!(",in_port={}", rng.pick(&PORTS));
    }
    if !is_clause && !head.contains("tun_") && rng.chance(15) {
        let peer = rng.pick(&PEERS);
        head += &match rng.below(8) {
            0 | 1 => format!(",tun_id={:#x}", rng.pick(&IDS)),
            2 => format!(",tun_id={:#x}/0xf", rng.pick(&IDS) & 0xf),
            3 => format!(",tun_src={}", address(peer, false)),
            4 => format!(",tun_ipv6_src={}", address(peer, true)),
            5 => ",tun_dst=1.1.2.88".to_owned(),
            6 => format!(",tun_metadata0={:#x}", rng.below(3)),
            _ => ",tun_dst=0.0.0.0".to_owned(),
        };
    }
    format!("{head} actions={}", actions(tail, rng))
}

/// Actions, some of whose outputs go into tunnels.
fn actions(text: &str, rng: &mut Rng) -> String {
    let text = text.replace("PKT_MARK", "REG5").replace("->pkt_mark", "->reg5").replace("pkt_mark", "reg5");
    let mut parts = text.split("output:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (port, rest) = part.split_at(digits);
        let plain = matches!(port.parse::<u32>(), Ok(1..=6));
        if plain && rng.chance(40) {
            out += &format!("{}output:{}{rest}", fields(rng), rng.pick(&PORTS));
        } else {
            out += &format!("output:{part}");
        }
    }
    // All floods to ports that do not flood.
    let mut text = String::new();
    for part in out.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        text += &if word == "ALL" { part.replace("ALL", "FLOOD") } else { part.to_owned() };
    }
    text
}

/// Actions that say which peer and id, with a comma behind each.
fn fields(rng: &mut Rng) -> String {
    let mut text = String::new();
    match rng.below(8) {
        0..4 => text += &format!("set_field:{}->tun_dst,", address(rng.pick(&PEERS), false)),
        4 | 5 => text += &format!("set_field:{}->tun_ipv6_dst,", address(rng.pick(&PEERS), true)),
        6 => text += "set_field:0.0.0.0->tun_dst,",
        _ => {}
    }
    if rng.chance(50) {
        text += &format!("set_field:{:#x}->tun_id,", rng.pick(&IDS));
    }
    if rng.chance(20) {
        text += &format!("set_field:{:#x}->tun_metadata{},", rng.below(3), rng.below(2));
    }
    text
}

/// The packet in a tunnel, from some peer; seldom wrong.
fn wrapped(inner: &[u8], rng: &mut Rng) -> Vec<u8> {
    let v6 = rng.chance(35);
    let (peer, id) = (rng.pick(&PEERS), rng.pick(&IDS));
    let inner = format!("rest={}", hex(inner));
    let option = |rng: &mut Rng| match rng.below(3) {
        0 => format!("ffff/00/0000000{}", rng.below(3)),
        1 => format!("ffff/01/00000000000000{:02x}", rng.below(3)),
        _ => "0103/05/01020304".to_owned(),
    };
    let (kind, mut words) = match rng.below(3) {
        0 => {
            let options = (0..rng.pick(&[0, 0, 1, 1, 2])).map(|_| option(rng)).collect::<Vec<_>>().join(",");
            let options = if options.is_empty() { String::new() } else { format!("opts={options} ") };
            ("geneve", format!("vni={id} {options}"))
        }
        1 => ("vxlan", format!("vni={id} ")),
        _ => ("gre", if rng.chance(70) { format!("key={id} ") } else { String::new() }),
    };
    if rng.chance(3) {
        words += if kind == "gre" {
            "badsum "
        } else if kind == "vxlan" {
            "flags=0x09 "
        } else {
            "version=1 "
        };
    } else if rng.chance(20) {
        words += if kind == "gre" { "csum " } else { "" };
    }
    let payload = tunnel_payload(kind, &format!("({words}{inner})"));
    let mut frame = Frame::new(match (kind, v6) {
        ("gre", false) => Kind::Ip,
        ("gre", true) => Kind::Ip6,
        (_, false) => Kind::Udp,
        (_, true) => Kind::Udp6,
    });
    frame.payload = Some(payload);
    frame.proto = (kind == "gre").then_some(47);
    frame.dport = if kind == "geneve" { 6081 } else { 4789 };
    frame.smac = 0x0200_0000_0000 | u64::from(peer);
    frame.dmac = 0x0200_0000_00b0;
    (frame.src, frame.dst) = if v6 {
        let net = 0x2001_cafe_u128 << 96;
        (net | u128::from(peer), net | 0x58)
    } else {
        let net = 0x0101_0200_u128;
        (net | u128::from(peer), net | 88)
    };
    frame.tos = rng.pick(&[0, 0, 0, 1, 2, 3, 0xb8, 0xbb]);
    frame.ttl = rng.pick(&[1, 64, 255]);
    frame.nosum = rng.chance(50);
    frame.badsum = rng.chance(3);
    frame.badipsum = !v6 && rng.chance(2);
    frame.bytes()
}

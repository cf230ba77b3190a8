//! Ops as text, in the style of Open vSwitch's datapath actions.

use crate::action::{
    CheckLen, CtOp, DecapOp, EncapOp, Masked, Op, PacketInOp, Question, SetArp, SetEth, SetIcmp, SetIpv4, SetIpv6,
    SetNd, SetPorts,
};
use crate::pipeline::{NO_COOKIE, World};
use crate::port::{PortId, tunnel_word};
use std::fmt::Write;
use vswitch_conntrack::{Helper, Nat, NatSide, Request};
use vswitch_flow::action::Reason;
use vswitch_flow::text::{Names, NoNames, Style, format_actions, format_match, format_value};
use vswitch_flow::{Action, Field, FlowKey, FlowMask, SparseMatch};

/// Appends the packets of a decision as a match, as `ovs-appctl dpctl/dump-flows` and
/// `ofproto/trace` print them.
pub fn format_megaflow(key: &FlowKey, mask: &FlowMask, style: Style, names: &dyn Names, out: &mut String) {
    let mut mask = mask.clone();
    mask.set(Field::RecircId, 0);
    let _ = write!(out, "recirc_id={},eth", hex(key.get(Field::RecircId)));
    let mut rest = String::new();
    format_match(&SparseMatch::new(key, &mask), style, names, &mut rest);
    if !rest.is_empty() {
        let _ = write!(out, ",{rest}");
    }
}

/// Appends ops as text: `set(ipv4(ttl=63)),p2`. Ports by name; `drop` for none.
pub fn format_ops(ops: &[Op], world: &World, out: &mut String) {
    if ops.is_empty() {
        out.push_str("drop");
    }
    for (i, op) in ops.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        format_op(op, world, out);
    }
}

fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

fn format_op(op: &Op, world: &World, out: &mut String) {
    match op {
        Op::Output(port) => format_port(*port, world, out),
        Op::OutputTruncated(port, len) => {
            let _ = write!(out, "trunc({len}),");
            format_port(*port, world, out);
        }
        Op::Crossed(from, to) => {
            out.push_str("crossed(");
            format_port(*from, world, out);
            out.push(',');
            format_port(*to, world, out);
            out.push(')');
        }
        Op::PushVlan { tpid, tci } => {
            let _ = write!(out, "push_vlan(tpid={tpid:#06x},vid={},pcp={})", tci & 0xfff, tci >> 13);
        }
        Op::PopVlan => out.push_str("pop_vlan"),
        Op::SetVlanTci(tci) => {
            let _ = write!(out, "set(vlan(tci={:#06x}/{:#06x}))", tci.value, tci.mask);
        }
        Op::Meter(meter) => {
            let _ = write!(out, "meter({})", meter.spec.id);
        }
        Op::PacketIn(packet_in) => format_packet_in(packet_in, out),
        Op::Ct(ct) => format_ct(ct, out),
        Op::CtClear => out.push_str("ct_clear"),
        Op::CtForget => out.push_str("ct_forget"),
        Op::Reject(op) => {
            let action = Action::Reject(Box::new((*op.reject).clone()));
            format_actions(&[action], Style::default(), &NoNames, out);
        }
        Op::Encap(encap) => format_encap(encap, world, out),
        Op::Decap(decap) => {
            let DecapOp { kind, max, .. } = **decap;
            if let Some(max) = max {
                let _ = write!(out, "trunc({max}),");
            }
            let _ = write!(out, "tnl_pop({})", tunnel_word(kind));
        }
        Op::Ask(ask) => {
            let Question { ip, .. } = &ask.question;
            let _ = write!(out, "ask({ip})");
        }
        Op::Snoop(_) => out.push_str("snoop"),
        Op::Clone(ops) => {
            out.push_str("clone(");
            format_ops(ops, world, out);
            out.push(')');
        }
        Op::CheckLen(check) => {
            let CheckLen { len, larger, smaller } = &**check;
            let _ = write!(out, "check_pkt_len(size={len},gt(");
            format_ops(larger, world, out);
            out.push_str("),le(");
            format_ops(smaller, world, out);
            out.push_str("))");
        }
        set => format_set(set, out),
    }
}

fn format_port(port: PortId, world: &World, out: &mut String) {
    match world.ports.get(port.index()).and_then(Option::as_ref) {
        Some(facts) => out.push_str(&facts.name),
        None => {
            let _ = write!(out, "port{}", port.0);
        }
    }
}

/// The header as it is, without what each packet writes.
fn format_encap(encap: &EncapOp, world: &World, out: &mut String) {
    let EncapOp { port, header, max, .. } = encap;
    if let Some(max) = max {
        let _ = write!(out, "trunc({max}),");
    }
    out.push_str("tnl_push(tnl_port(");
    format_port(*port, world, out);
    let _ = write!(out, "),header(size={},", header.len());
    for byte in header.bytes() {
        let _ = write!(out, "{byte:02x}");
    }
    out.push_str("))");
}

/// As Open vSwitch prints it, `ct(...),recirc(0x1)`.
fn format_ct(ct: &CtOp, out: &mut String) {
    let Request { zone, before: _, cached: _, unknown: _, commit, force, nat, mark, label, helper } = &ct.request;
    let mut items = Vec::new();
    match (commit, force) {
        (true, true) => items.push("force_commit".to_owned()),
        (true, false) => items.push("commit".to_owned()),
        _ => {}
    }
    if *zone != 0 {
        items.push(format!("zone={zone}"));
    }
    if mark.1 != 0 {
        items.push(format!("mark={:#x}/{:#x}", mark.0, mark.1));
    }
    if label.1 != 0 {
        items.push(format!("label={:#x}/{:#x}", label.0, label.1));
    }
    if let Some(helper) = helper {
        let name = match helper {
            Helper::Ftp => "ftp",
            Helper::Tftp => "tftp",
        };
        items.push(format!("helper={name}"));
    }
    if let Some(nat) = nat {
        items.push(format_nat(nat));
    }
    let items = items.join(",");
    out.push_str(if items.is_empty() { "ct" } else { "ct(" });
    if !items.is_empty() {
        let _ = write!(out, "{items})");
    }
    if let Some(stage) = &ct.stage {
        let _ = write!(out, ",recirc({:#x})", stage.id);
    }
}

fn format_nat(nat: &Nat) -> String {
    let Some(side) = nat.side else { return "nat".to_owned() };
    let mut text = match side {
        NatSide::Src => "nat(src",
        NatSide::Dst => "nat(dst",
    }
    .to_owned();
    let address = |bits: u128| match u32::try_from(bits) {
        Ok(bits) => std::net::Ipv4Addr::from_bits(bits).to_string(),
        Err(_) => std::net::Ipv6Addr::from_bits(bits).to_string(),
    };
    if let Some((first, last)) = nat.addresses {
        // With ports, an IPv6 address is in brackets.
        let bracket = |text: String| if nat.ports.is_some() && text.contains(':') { format!("[{text}]") } else { text };
        text.push_str(&format!("={}", bracket(address(first))));
        if last != first {
            text.push_str(&format!("-{}", bracket(address(last))));
        }
    }
    if let Some((first, last)) = nat.ports {
        text.push_str(&format!(":{first}"));
        if last != first {
            text.push_str(&format!("-{last}"));
        }
    }
    text.push_str(if nat.random { ",random)" } else { ")" });
    text
}

fn format_packet_in(packet_in: &PacketInOp, out: &mut String) {
    let reason = match packet_in.reason {
        Reason::NoMatch => "no_match",
        Reason::Action => "action",
        Reason::InvalidTtl => "invalid_ttl",
        Reason::ActionSet => "action_set",
        Reason::Group => "group",
        Reason::PacketOut => "packet_out",
    };
    let _ = write!(out, "controller(reason={reason},id={},table={}", packet_in.controller, packet_in.table);
    if packet_in.cookie != NO_COOKIE {
        let _ = write!(out, ",cookie={:#x}", packet_in.cookie);
    }
    if let Some(meter) = &packet_in.meter {
        let _ = write!(out, ",meter={}", meter.spec.id);
    }
    if !packet_in.userdata.is_empty() {
        out.push_str(",userdata=");
        for (i, byte) in packet_in.userdata.iter().enumerate() {
            let _ = write!(out, "{}{byte:02x}", if i > 0 { "." } else { "" });
        }
    }
    out.push_str(if packet_in.continuation.is_some() { ",pause)" } else { ")" });
}

fn format_set(op: &Op, out: &mut String) {
    let name = match op {
        Op::SetEth(_) => "eth",
        Op::SetIpv4(_) => "ipv4",
        Op::SetIpv6(_) => "ipv6",
        Op::SetPorts(_) => "ports",
        Op::SetIcmp(_) => "icmp",
        Op::SetArp(_) => "arp",
        _ => "nd",
    };
    let _ = write!(out, "set({name}(");
    let mut first = true;
    for (name, field, (value, mask)) in set_fields(op) {
        if mask != 0 {
            out.push_str(if first { "" } else { "," });
            first = false;
            let _ = write!(out, "{name}=");
            format_value(field, value, mask, Style::default(), &NoNames, out);
        }
    }
    out.push_str("))");
}

/// Name, field (for the form of the value), value and mask of everything that an op sets.
fn set_fields(op: &Op) -> Vec<(&'static str, Field, (u128, u128))> {
    use Field as F;
    match op {
        Op::SetEth(set) => {
            let SetEth { dst, src } = &**set;
            vec![("src", F::EthSrc, wide(src)), ("dst", F::EthDst, wide(dst))]
        }
        Op::SetIpv4(set) => {
            let SetIpv4 { src, dst, tos, ttl } = &**set;
            vec![
                ("src", F::NwSrc, wide(src)),
                ("dst", F::NwDst, wide(dst)),
                ("tos", F::NwTos, wide(tos)),
                ("ttl", F::NwTtl, wide(ttl)),
            ]
        }
        Op::SetIpv6(set) => {
            let SetIpv6 { src, dst, label, tclass, hop_limit } = &**set;
            vec![
                ("src", F::Ipv6Src, wide(src)),
                ("dst", F::Ipv6Dst, wide(dst)),
                ("label", F::Ipv6Label, wide(label)),
                ("tclass", F::NwTos, wide(tclass)),
                ("hlimit", F::NwTtl, wide(hop_limit)),
            ]
        }
        Op::SetPorts(set) => {
            let SetPorts { src, dst } = &**set;
            vec![("src", F::TpSrc, wide(src)), ("dst", F::TpDst, wide(dst))]
        }
        Op::SetIcmp(set) => {
            let SetIcmp { kind, code } = &**set;
            vec![("type", F::IcmpType, wide(kind)), ("code", F::IcmpCode, wide(code))]
        }
        Op::SetArp(set) => {
            let SetArp { op, spa, tpa, sha, tha } = &**set;
            vec![
                ("sip", F::ArpSpa, wide(spa)),
                ("tip", F::ArpTpa, wide(tpa)),
                ("op", F::TpSrc, wide(op)),
                ("sha", F::ArpSha, wide(sha)),
                ("tha", F::ArpTha, wide(tha)),
            ]
        }
        Op::SetNd(set) => {
            let SetNd { target, sll, tll, reserved, options_type } = &**set;
            vec![
                ("target", F::NdTarget, wide(target)),
                ("sll", F::NdSll, wide(sll)),
                ("tll", F::NdTll, wide(tll)),
                ("reserved", F::NdReserved, wide(reserved)),
                ("options_type", F::NdOptionsType, wide(options_type)),
            ]
        }
        _ => Vec::new(),
    }
}

fn wide<T: Copy + Into<u128>>(masked: &Masked<T>) -> (u128, u128) {
    (masked.value.into(), masked.mask.into())
}

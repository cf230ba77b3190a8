//! Random programs and packets.

#![allow(clippy::cast_possible_truncation)] // random bits are cut to what is wanted

use super::*;
use vswitch_flow::action::{Bundle, Controller, HashFields, Multipath, MultipathAlgorithm};
use vswitch_flow::spec::{BucketSpec, GroupKind, Selection};

/// splitmix64: from a seed that proptest prints.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).expect("small")]
    }

    /// Small values, so that packets meet rules.
    fn value(&mut self, field: Field) -> u128 {
        let value = match field {
            Field::EthSrc | Field::EthDst | Field::ArpSha | Field::ArpTha | Field::NdSll | Field::NdTll => {
                0x0200_0000_0000 | u128::from(self.below(4))
            }
            Field::NwSrc | Field::NwDst => 0x0a00_0000 | u128::from(self.below(2) << 8 | self.below(4)),
            Field::VlanTci | Field::VlanTci1 => 0x1000 | u128::from(self.below(3) << 13 | self.below(3)),
            Field::NwTtl => u128::from(self.below(4)),
            _ => u128::from(self.below(4)),
        };
        value & field.ones()
    }

    pub(super) fn packet(&mut self) -> FlowKey {
        use Field as F;
        let mut key = FlowKey::default();
        key.set(F::InPort, u128::from(1 + self.below(3)));
        for field in [F::EthSrc, F::EthDst] {
            key.set(field, self.value(field));
        }
        let tags = self.below(4);
        for (tpid, tci) in
            [(F::VlanTpid0, F::VlanTci), (F::VlanTpid1, F::VlanTci1)].iter().take(tags.saturating_sub(1) as usize)
        {
            key.set(*tpid, *self.pick(&[0x8100, 0x88a8]));
            key.set(*tci, self.value(*tci));
        }
        let eth_type = *self.pick(&[0x0800, 0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x1234]);
        key.set(F::EthType, eth_type);
        for field in [
            F::NwSrc,
            F::NwDst,
            F::Ipv6Src,
            F::Ipv6Dst,
            F::Ipv6Label,
            F::NwTos,
            F::NwTtl,
            F::TpSrc,
            F::TpDst,
            F::TcpFlags,
            F::ArpSha,
            F::ArpTha,
            F::NdTarget,
            F::NdReserved,
        ] {
            key.set(field, self.value(field));
        }
        let protocol = *self.pick(&[0, 1, 6, 6, 17, 17, 58, 58, 132, 99]);
        key.set(F::NwProto, if eth_type == 0x0806 { u128::from(self.below(3)) } else { protocol });
        if protocol == 58 {
            key.set(F::TpSrc, *self.pick(&[128, 135, 135, 136]));
            key.set(F::TpDst, u128::from(self.one_in(4)));
        }
        key.set(F::NwFrag, *self.pick(&[0, 0, 0, 1, 3]));
        if self.one_in(2) {
            self.metadata(&mut key);
        }
        sanitize(&mut key);
        key
    }

    /// Of a packet that met a connection, or came out of a tunnel.
    fn metadata(&mut self, key: &mut FlowKey) {
        use Field as F;
        key.set(F::CtState, *self.pick(&[0, 0x21, 0x22, 0x2a, 0x25, 0x30]));
        key.set(F::CtNwProto, *self.pick(&[0, 6, 17]));
        for (field, address) in [(F::CtNwSrc, F::NwSrc), (F::CtNwDst, F::NwDst), (F::TunDst, F::NwDst)] {
            key.set(field, self.value(address));
        }
        for field in
            [F::CtMark, F::CtZone, F::CtLabel, F::CtTpSrc, F::CtTpDst, F::CtIpv6Src, F::CtIpv6Dst, F::TunId, F::PktMark]
        {
            key.set(field, self.value(field));
        }
    }

    fn matching(&mut self) -> String {
        let mut text = self.pick(&["", "", "ip", "tcp", "udp", "ipv6", "tcp6", "arp", "icmp6", "sctp"]).to_string();
        let mut add = |item: String| {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&item);
        };
        let kinds = self.below(4);
        for _ in 0..kinds {
            let v = self.below(4);
            match self.below(20) {
                14 => add(format!("ct_state={}", self.pick(&["+new+trk", "+est+trk", "+trk-inv", "-rel+trk", "+rpl"]))),
                15 => add(format!("ct_mark={v}")),
                16 => add(format!("ct_zone={v}")),
                17 => add(format!("tun_id={v}")),
                18 => add(format!("tun_dst=10.0.0.{v}")),
                0 => add(format!("in_port={}", 1 + v % 3)),
                1 => add(format!("reg{}={v:#x}/0x3", self.below(3))),
                2 => add(format!("dl_dst=02:00:00:00:00:0{v}")),
                3 => add(format!("dl_src=02:00:00:00:00:0{v}/ff:ff:ff:ff:ff:fe")),
                4 => add("vlan_tci=0x0000/0x1000".into()),
                5 => add(format!("dl_vlan={v}")),
                6 => add(format!("metadata={v}")),
                7 => add(format!("reg0={v}")),
                8 => add(format!("pkt_mark={v}")),
                _ => {}
            }
        }
        let extra = match text.split(',').next().unwrap_or_default() {
            "ip" | "tcp" | "udp" | "sctp" => match self.below(7) {
                4 => format!(",ct_state=+trk-inv,ct_nw_dst=10.0.0.{}", self.below(4)),
                5 => format!(",ct_state=+est+trk,ct_nw_proto=6,ct_tp_dst={}", self.below(4)),
                0 => format!(",nw_dst=10.0.0.{}", self.below(4)),
                1 => ",nw_src=10.0.1.0/24".to_owned(),
                2 => format!(",nw_ttl={}", self.below(4)),
                3 => format!(",nw_tos={}", 4 * self.below(2)),
                _ => String::new(),
            },
            "ipv6" | "tcp6" => match self.below(4) {
                2 => format!(",ct_state=+trk-inv,ct_ipv6_dst=::{}", self.below(4)),
                0 => format!(",ipv6_dst=::{}", self.below(4)),
                1 => format!(",ipv6_src=::{}/127", self.below(4)),
                _ => String::new(),
            },
            "arp" => match self.below(3) {
                0 => format!(",arp_tpa=10.0.0.{}", self.below(4)),
                1 => format!(",arp_op={}", 1 + self.below(2)),
                _ => String::new(),
            },
            "icmp6" => match self.below(3) {
                0 => format!(",icmp_type=135,icmp_code=0,nd_target=::{}", self.below(4)),
                1 => ",icmp_type=128".to_owned(),
                _ => String::new(),
            },
            _ => String::new(),
        };
        text.push_str(&extra);
        if matches!(text.split(',').next(), Some("tcp" | "udp" | "sctp" | "tcp6")) && self.one_in(2) {
            text.push_str(&format!(",tp_dst={}", self.below(4)));
        }
        // Some of these contradict themselves.
        if parse_match(&text, &NoNames).is_ok() { text } else { String::new() }
    }

    fn field_to_set(&mut self) -> Field {
        use Field as F;
        *self.pick(&[
            F::EthSrc,
            F::EthDst,
            F::NwSrc,
            F::NwDst,
            F::Ipv6Src,
            F::Ipv6Dst,
            F::NwTos,
            F::IpDscp,
            F::NwEcn,
            F::NwTtl,
            F::TpSrc,
            F::TpDst,
            F::TcpDst,
            F::UdpDst,
            F::IcmpType,
            F::Icmpv6Type,
            F::ArpOp,
            F::ArpSpa,
            F::ArpTha,
            F::NdTarget,
            F::NdSll,
            F::VlanTci,
            F::VlanVid,
            F::VlanPcp,
            F::Reg0,
            F::Reg1,
            F::Reg2,
            F::Metadata,
            F::PktMark,
            F::InPort,
            F::Ipv6Label,
        ])
    }

    fn part(&mut self, field: Field) -> Subfield {
        let width = u64::from(field.width());
        let start = if self.one_in(2) { 0 } else { self.below(width) };
        let len = if start == 0 && self.one_in(2) { width } else { 1 + self.below(width - start) };
        Subfield { field, start: start as u8, len: len as u8 }
    }

    /// Two subfields of equal length.
    fn parts(&mut self) -> (Subfield, Subfield) {
        let (from, to) = (self.field_to_set(), self.field_to_set());
        let (mut from, mut to) = (self.part(from), self.part(to));
        let len = from.len.min(to.len);
        (from.len, to.len) = (len, len);
        (from, to)
    }

    fn action(&mut self, table: u8, depth: u32) -> Action {
        match self.below(31) {
            0..=5 => out(*self.pick(&[1, 2, 3, 4, 9, port::IN_PORT, port::LOCAL])),
            6 => out(*self.pick(&[port::FLOOD, port::ALL, port::NORMAL, port::CONTROLLER])),
            7..=10 => {
                let field = self.field_to_set();
                set(field, self.value(field))
            }
            11 | 12 => {
                let field = self.field_to_set();
                let mask = u128::from(self.next()) & field.ones() | 1;
                set_bits(field, self.value(field) & mask, mask)
            }
            13..=15 => {
                let (from, to) = self.parts();
                Action::Move { from, to }
            }
            16 | 17 => resubmit(self.below(5) as u8),
            18 => {
                let table = if self.one_in(3) { self.below(5) as u8 } else { table.saturating_add(1) };
                Action::Resubmit { port: Some(1 + self.below(4) as u32), table: Some(table), ct: false }
            }
            19 => Action::PushVlan(*self.pick(&[0x8100, 0x88a8])),
            20 => Action::PopVlan,
            21 => Action::DecTtl([0].into()),
            22 if depth > 0 => Action::Clone(self.actions(table, depth - 1).into()),
            23 => Action::Group(self.below(4) as u32),
            24 => Action::StackPush(self.part(Field::NwDst)),
            25 => Action::StackPop(self.part(Field::Reg1)),
            26 => Action::OutputField { from: Subfield { field: Field::Reg0, start: 0, len: 16 }, max_len: None },
            27 => Action::CheckPktLarger { len: 100, to: Subfield { field: Field::Reg2, start: 0, len: 1 } },
            28 => {
                let fields = *self.pick(&[HashFields::SymmetricL4, HashFields::NwSrc, HashFields::SymmetricL3L4Udp]);
                if self.one_in(2) {
                    let to = Subfield { field: Field::Reg0, start: 0, len: 16 };
                    let algorithm = MultipathAlgorithm::ModuloN;
                    Action::Multipath(Multipath { fields, basis: 1, algorithm, links: 4, arg: 0, to }.into())
                } else {
                    Action::Bundle(Bundle { fields, basis: 1, hrw: true, members: [2, 3, 4].into(), to: None }.into())
                }
            }
            29 => match self.below(5) {
                0 => Action::SetVlanVid(self.below(4) as u16),
                1 => Action::SetVlanPcp(self.below(4) as u8),
                2 => Action::Exit,
                3 => Action::WriteActions([out(1 + self.below(4) as u32)].into()),
                _ => Action::ClearActions,
            },
            _ => Action::Controller(
                Controller { id: 1, pause: self.one_in(2), max_len: 65535, ..Controller::default() }.into(),
            ),
        }
    }

    fn actions(&mut self, table: u8, depth: u32) -> Vec<Action> {
        let mut actions: Vec<Action> = (0..self.below(5)).map(|_| self.action(table, depth)).collect();
        if table < 4 && self.one_in(3) {
            actions.push(Action::GotoTable(table + 1 + self.below(u64::from(4 - table)) as u8));
        }
        actions
    }

    pub(super) fn setup(&mut self) -> Setup {
        let mut setup = Setup::new();
        let other = setup.add_bridge("br1");
        setup.add_patch((0, 9), (other, 9));
        for id in 0..3 {
            let kind = *self.pick(&[GroupKind::All, GroupKind::Select, GroupKind::Indirect]);
            let count = if kind == GroupKind::Indirect { 1 } else { 1 + self.below(3) as u32 };
            let buckets = (0..count).map(|id| {
                let actions = self.actions(4, 0).into();
                BucketSpec { id, weight: 100, watch_port: None, watch_group: None, actions }
            });
            let buckets = buckets.collect();
            let fields = [(Field::NwSrc, 0xff), (Field::UdpDst, 0xffff)].into();
            let selection = if self.one_in(2) { Selection::Default } else { Selection::Hash { param: 0, fields } };
            let selection = if kind == GroupKind::Select { selection } else { Selection::Default };
            setup.group(GroupSpec { id, kind, selection, buckets });
        }
        for table in 0..5 {
            for priority in 0..self.below(7) {
                let (matching, actions) = (self.matching(), self.actions(table, 2));
                setup.flow_in(0, table, priority as u16, &matching, actions);
                if table < 2 {
                    let (matching, actions) = (self.matching(), self.actions(table, 1));
                    setup.flow_in(other, table, priority as u16, &matching, actions);
                }
            }
        }
        setup
    }
}

/// Clears what a packet of this kind cannot have: extraction leaves it 0.
pub(super) fn sanitize(key: &mut FlowKey) {
    use Field as F;
    let clear = |key: &mut FlowKey, fields: &[Field]| fields.iter().for_each(|field| key.set(*field, 0));
    if key.get(F::VlanTci) & 0x1000 == 0 {
        clear(key, &[F::VlanTci, F::VlanTpid0, F::VlanTci1, F::VlanTpid1]);
    }
    if key.get(F::VlanTci1) & 0x1000 == 0 {
        clear(key, &[F::VlanTci1, F::VlanTpid1]);
    }
    let eth_type = key.get(F::EthType);
    let (v4, v6, arp) = (eth_type == 0x0800, eth_type == 0x86dd, eth_type == 0x0806);
    if !v4 && !arp {
        clear(key, &[F::NwSrc, F::NwDst]);
    }
    if !v6 {
        clear(key, &[F::Ipv6Src, F::Ipv6Dst, F::Ipv6Label, F::CtIpv6Src, F::CtIpv6Dst]);
    }
    // A connection is of the version of its packets.
    if !v4 {
        clear(key, &[F::CtNwSrc, F::CtNwDst]);
    }
    if !v4 && !v6 {
        clear(key, &[F::NwTos, F::NwTtl, F::NwFrag, F::TpSrc, F::TpDst, F::TcpFlags]);
    }
    if !v4 && !v6 && !arp {
        clear(key, &[F::NwProto]);
    }
    let protocol = key.get(F::NwProto);
    if key.get(F::NwFrag) & 2 != 0 || !matches!(protocol, 1 | 6 | 17 | 58 | 132) {
        clear(key, &[F::TpSrc, F::TpDst]);
    }
    if matches!(protocol, 1 | 58) {
        // Type and code are a byte each.
        [F::TpSrc, F::TpDst].iter().for_each(|field| key.set_masked(*field, 0, 0xff00));
    }
    if protocol != 6 {
        clear(key, &[F::TcpFlags]);
    }
    let nd = v6 && protocol == 58 && key.get(F::TpDst) == 0 && matches!(key.get(F::TpSrc), 135 | 136);
    if !nd {
        clear(key, &[F::NdTarget, F::NdReserved, F::NdOptionsType]);
    }
    if !nd && !arp {
        clear(key, &[F::ArpSha, F::ArpTha]);
    }
    clear(key, &[F::IgmpGroup]);
}

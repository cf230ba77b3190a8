//! Looking up tables.

use super::Credit;
use super::run::{Frame, Translator};
use crate::observe::{Decider, DropReason};
use crate::pipeline::{Program, Rule};
use std::sync::Arc;
use vswitch_flow::action::PortNo;
use vswitch_flow::{Field, FlowKey, FlowMask};

/// How a resubmit departs from a plain lookup.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disguise {
    /// The packet came from there.
    pub(super) in_port: Option<PortNo>,
    /// Addresses, ports and protocol are those of the connection's original direction.
    pub(super) ct: bool,
}

impl Translator<'_, '_> {
    /// The list of the rule that a packet meets in a table, to be called from another one. None:
    /// there is no rule, or none may be called.
    pub(super) fn enter(&mut self, from: u8, table: u8, disguise: Disguise) -> Option<Frame<'static>> {
        if !self.may_enter() {
            return None;
        }
        if disguise.ct && (self.view.read(Field::CtNwProto) == 0 || !self.view.is_ip()) {
            self.err(|| "resubmit(ct) with non-tracked or non-IP packet!".to_owned());
            return None;
        }
        self.work.resubmits += 1;
        let rule = self.lookup(table, disguise)?;
        Some(Frame { deepens: table <= from, ..Frame::of_rule(rule) })
    }

    /// The rule of a table that a packet meets. Learned rules and others are one table: the highest
    /// priority wins.
    pub(super) fn lookup(&mut self, table: u8, disguise: Disguise) -> Option<Arc<Rule>> {
        let world = self.world;
        let program: &Program = &world.bridges[self.bridge].program;
        let index = usize::from(table);
        self.out.deps.tables[index / 64] |= 1 << (index % 64);

        let undisguised = self.put_on(disguise);
        // Tables see no ports in fragments (`frags=normal`), and the mask always knows what is a
        // fragment.
        let hidden = self.view.packet.key.hide_fragment_ports();
        let fragment = self.key().get(Field::NwFrag) != 0 && self.key().get(Field::RecircId) == 0;
        self.note_touched(disguise, fragment);
        let mut used = FlowMask::default();
        let learned = self.learned.get(index).and_then(Option::as_deref);
        let learned = learned.and_then(|table| table.rules.lookup(self.key(), &mut used, None));
        let floor = learned.as_ref().map(|found| found.entry.priority);
        let entry = program.tables.get(index).and_then(Option::as_deref);
        let found = entry.and_then(|table| table.rules.lookup(self.key(), &mut used, floor)).or(learned);
        let rule = found.map(|found| Arc::clone(&found.entry.data));
        self.view.packet.key.restore_ports(hidden);
        if fragment {
            used.set(Field::TpSrc, 0);
            used.set(Field::TpDst, 0);
        }
        self.take_off(disguise, &undisguised, used);

        if let Some(entry) = entry {
            self.credit(Credit::Table(Arc::clone(&entry.stats), rule.is_some()));
        }
        let cookie = rule.as_ref().map_or(0, |rule| rule.cookie);
        let bridge = world.bridges[self.bridge].id;
        self.out.decider = Some(Decider { cookie, bridge, table, matched: rule.is_some() });
        match &rule {
            Some(rule) => self.credit(Credit::Rule(Arc::clone(&rule.stats))),
            None => self.reason = Some(DropReason::TableMiss),
        }
        if self.is_observed() {
            self.tell_lookup(table, rule.as_deref());
        }
        rule
    }

    /// Notes whose counters each packet adds to.
    pub(super) fn credit(&mut self, credit: Credit) {
        let credit = if self.longer == 0 { credit } else { Credit::Longer(Box::new(credit), self.longer) };
        self.out.credits.push(credit);
    }

    /// Notes which bits of the key are not the packet's own in this lookup.
    fn note_touched(&mut self, disguise: Disguise, fragment: bool) {
        let touched = &mut self.out.touched;
        touched.add_mask(&self.view.packet.written);
        if fragment {
            touched.add(Field::TpSrc);
            touched.add(Field::TpDst);
        }
        if disguise.ct {
            SWAPPED.iter().for_each(|field| touched.add(*field));
        }
    }

    /// Disguises the key for a lookup; returns what it was.
    fn put_on(&mut self, disguise: Disguise) -> Option<(FlowKey, FlowMask)> {
        if disguise.in_port.is_none() && !disguise.ct {
            return None;
        }
        let packet = &mut self.view.packet;
        let old = (packet.key.clone(), packet.written.clone());
        if disguise.ct {
            let ipv4 = packet.key.get(Field::EthType) == super::view::eth_type::IP;
            swap_tuple(&mut packet.key.0, ipv4);
            swap_tuple(&mut packet.written.0, ipv4);
        }
        if let Some(port) = disguise.in_port {
            packet.key.set(Field::InPort, u128::from(port));
            packet.written.add(Field::InPort);
        }
        Some(old)
    }

    /// Notes the bits that the lookup used, where they really lie.
    fn take_off(&mut self, disguise: Disguise, old: &Option<(FlowKey, FlowMask)>, mut used: FlowMask) {
        let packet = &mut self.view.packet;
        if let Some((key, written)) = old {
            if disguise.in_port.is_some() {
                used.set(Field::InPort, 0);
            }
            if disguise.ct {
                swap_tuple(&mut used.0, key.get(Field::EthType) == super::view::eth_type::IP);
            }
            packet.key.clone_from(key);
            packet.written.clone_from(written);
        }
        self.view.used(&used);
    }
}

/// All that [`swap_tuple`] may write.
const SWAPPED: [Field; 14] = [
    Field::NwProto,
    Field::CtNwProto,
    Field::NwSrc,
    Field::CtNwSrc,
    Field::NwDst,
    Field::CtNwDst,
    Field::Ipv6Src,
    Field::CtIpv6Src,
    Field::Ipv6Dst,
    Field::CtIpv6Dst,
    Field::TpSrc,
    Field::CtTpSrc,
    Field::TpDst,
    Field::CtTpDst,
];

/// Exchanges addresses, ports and protocol with those of the connection, in a key or a mask.
fn swap_tuple(words: &mut [u64; vswitch_flow::WORDS], ipv4: bool) {
    let mut key = FlowKey(*words);
    let mut swap = |a: Field, b: Field| {
        let (x, y) = (key.get(a), key.get(b));
        key.set(a, y);
        key.set(b, x);
    };
    swap(Field::NwProto, Field::CtNwProto);
    if ipv4 {
        swap(Field::NwSrc, Field::CtNwSrc);
        swap(Field::NwDst, Field::CtNwDst);
    } else {
        swap(Field::Ipv6Src, Field::CtIpv6Src);
        swap(Field::Ipv6Dst, Field::CtIpv6Dst);
    }
    swap(Field::TpSrc, Field::CtTpSrc);
    swap(Field::TpDst, Field::CtTpDst);
    *words = key.0;
}

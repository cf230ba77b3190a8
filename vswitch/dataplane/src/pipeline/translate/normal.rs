//! NORMAL: as an Ethernet switch would, in a bridge without VLAN configuration (`xlate_normal` of
//! Open vSwitch).

use super::Effect;
use super::run::Translator;
use super::view::{PRESENT, View};
use crate::observe::DropReason;
use crate::pipeline::{FailMode, FdbKey, Sighting, is_vendors};
use crate::port::PortId;
use vswitch_flow::Field;
use vswitch_flow::action::port;

impl Translator<'_, '_> {
    /// What a bridge does whose tables have no rule for a packet: if nothing was ever programmed,
    /// what its fail mode says.
    pub(super) fn unprogrammed(&mut self) {
        // Whether anything was programmed is a fact of all tables.
        self.out.deps.tables = [u64::MAX; 4];
        self.out.deps.any_rule = true;
        let bridge = &self.world.bridges[self.bridge];
        let tables = bridge.program.tables.iter().flatten();
        let any_rule = tables.into_iter().any(|table| !table.rules.is_empty())
            || self.learned.iter().flatten().any(|table| !table.rules.is_empty());
        if any_rule {
            return;
        }
        // A rule in any table ends this.
        match bridge.fail_mode {
            FailMode::Secure => self.reason = Some(DropReason::BridgeSecure),
            // Of a bridge whose default flow was deleted, tables are there, but empty.
            FailMode::Standalone if bridge.program.tables.is_empty() => self.normal(),
            FailMode::Standalone => {}
        }
    }

    /// `NORMAL`.
    #[allow(clippy::cast_possible_truncation)] // 48 and 16 bits
    pub(super) fn normal(&mut self) {
        let view = &mut self.view;
        let (source, destination) = (view.read(Field::EthSrc) as u64, view.read(Field::EthDst) as u64);
        let tci = view.read_bits(Field::VlanTci, u128::from(PRESENT | 0xfff)) as u16;
        let eth_type = view.read(Field::EthType);
        if matches!(eth_type, 0x8100 | 0x88a8) && tci & PRESENT == 0 {
            self.warn(|| "partial VLAN tag, dropping".to_owned());
            return;
        }
        let vlan = if tci & PRESENT == 0 { 0 } else { tci & 0xfff };
        let (source, destination) = (FdbKey::new(source, vlan), FdbKey::new(destination, vlan));
        if destination.is_reserved() || is_vendors(destination.mac()) {
            self.skip(DropReason::ReservedMulticast);
            return;
        }
        let number = self.view.in_port();
        let in_port = self.port(number);
        if in_port.is_none() && !matches!(number, port::NONE | port::CONTROLLER) {
            self.skip(DropReason::NoPort);
            return;
        }
        let fdb = &self.world.bridges[self.bridge].fdb;
        let reader = fdb.reader();
        self.out.deps.fdb = true;
        if let Some(port) = in_port
            && !source.is_multicast()
        {
            if self.is_observed() && reader.lookup(&source, reader.place(source)) != Some(port) {
                self.tell_sighting(&source, port);
            }
            if self.side_effects {
                reader.learn(&source, reader.place(source), Sighting::new(port, self.now.seconds()));
            }
            self.effect(Effect::Fdb { bridge: self.bridge, key: source, port });
        }
        let known =
            if destination.is_multicast() { None } else { reader.lookup(&destination, reader.place(destination)) };
        if known.is_some() && known == in_port {
            self.skip(DropReason::SamePort);
        } else if self.has_null_tag() {
            self.on_copy(|this| {
                this.view.pop_null_tags();
                this.forward(known);
            });
        } else {
            self.forward(known);
        }
    }

    /// What is learned of a source address.
    fn tell_sighting(&mut self, source: &FdbKey, port: PortId) {
        let name = self.facts(port).map(|facts| facts.name.clone()).unwrap_or_default();
        self.detail(|| format!("learned that {} is on port {name} in VLAN {}", source.mac(), source.vlan()));
        if !self.side_effects {
            self.warn(|| "suppressing side effects, so the address is not learned".to_owned());
        }
    }

    /// To the port where the destination was seen, else to all.
    fn forward(&mut self, known: Option<PortId>) {
        match known {
            Some(port) => {
                self.detail(|| "forwarding to learned port".to_owned());
                self.send(port, None);
            }
            None => {
                self.detail(|| "no learned MAC for destination, flooding".to_owned());
                self.flood(false);
            }
        }
    }

    /// A tag that says neither VLAN nor priority.
    fn has_null_tag(&mut self) -> bool {
        self.view.is_null_tag(Field::VlanTci) || self.view.is_tagged() && self.view.is_null_tag(Field::VlanTci1)
    }
}

impl View {
    fn is_null_tag(&mut self, tci: Field) -> bool {
        // The VLAN first: only tags without one need a look at the rest.
        let vlan = u128::from(PRESENT | 0xfff);
        self.read_bits(tci, vlan) == u128::from(PRESENT) && self.read_bits(tci, u128::from(!PRESENT)) == 0
    }

    /// Takes off tags that say nothing, as Open vSwitch's NORMAL does; those below such a tag go
    /// with it.
    fn pop_null_tags(&mut self) {
        let null = u128::from(!PRESENT);
        if self.read_bits(Field::VlanTci, null) == 0 {
            while self.is_tagged() {
                self.pop_vlan();
            }
        } else {
            let outer = (self.read(Field::VlanTpid0), self.read(Field::VlanTci));
            self.pop_vlan();
            self.pop_vlan();
            #[allow(clippy::cast_possible_truncation)] // 16 bits
            self.push_vlan(outer.0 as u16, outer.1 as u16);
        }
    }
}

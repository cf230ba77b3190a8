//! NORMAL: as an Ethernet switch would, in a bridge without VLAN configuration (`xlate_normal` of Open vSwitch).

use super::Effect;
use super::run::Translator;
use super::view::PRESENT;
use crate::observe::DropReason;
use crate::pipeline::{FailMode, FdbKey, Sighting};
use vswitch_flow::Field;

impl Translator<'_, '_> {
    /// What a bridge does whose tables have no rule for a packet: if nothing was ever programmed, what its fail mode says.
    pub(super) fn unprogrammed(&mut self) {
        let bridge = &self.world.bridges[self.bridge];
        let tables = bridge.program.tables.iter().flatten();
        let learned = bridge.program.learned.tables();
        let mut learned_rules = learned.iter().flatten();
        if tables.into_iter().any(|table| !table.rules.is_empty()) || learned_rules.any(|table| !table.rules.is_empty())
        {
            return;
        }
        self.out.deps.tables = [u64::MAX; 4];
        match bridge.fail_mode {
            FailMode::Secure => self.reason = Some(DropReason::BridgeSecure),
            FailMode::Standalone => {
                self.reason = None;
                self.normal();
            }
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
            self.say(|| " >> partial VLAN tag, dropping".to_owned());
            return;
        }
        let vlan = if tci & PRESENT == 0 { 0 } else { tci & 0xfff };
        let (source, destination) = (FdbKey::new(source, vlan), FdbKey::new(destination, vlan));
        if destination.is_reserved() {
            self.skip(DropReason::ReservedMulticast);
            return;
        }
        let in_port = self.view.in_port();
        let in_port = self.port(in_port);
        let fdb = &self.world.bridges[self.bridge].fdb;
        let reader = fdb.reader();
        self.out.deps.fdb = true;
        if let Some(port) = in_port
            && !source.is_multicast()
        {
            if self.side_effects {
                reader.learn(&source, reader.place(source), Sighting::new(port, self.now.seconds()));
            }
            self.effect(Effect::Fdb { bridge: self.bridge, key: source, port });
        }
        let known =
            if destination.is_multicast() { None } else { reader.lookup(&destination, reader.place(destination)) };
        match known {
            Some(port) if Some(port) == in_port => self.skip(DropReason::SamePort),
            Some(port) => {
                self.say(|| "-> forwarding to learned port".to_owned());
                self.send(port, None);
            }
            None => {
                self.say(|| "-> no learned MAC for destination, flooding".to_owned());
                self.flood(false);
            }
        }
    }
}

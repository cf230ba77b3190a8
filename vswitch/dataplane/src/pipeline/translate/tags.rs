//! VLAN tags on the way: two at most, as in Open vSwitch (`vlan-limit=2`). Pushing a third one
//! loses the inner one; what lies below two tags of a packet that came in is payload.

use super::view::{PRESENT, View};
use crate::action::{Masked, Op};
use vswitch_flow::Field;

/// TPID of a tag that is pushed without saying which.
const TPID_DEFAULT: u16 = 0x8100;

/// What happened to the tags since the last commit, in this order: pops, a write to the tag then
/// outermost, pushes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tags {
    pops: u32,
    set: Masked<u16>,
    /// TPID and TCI (with the present bit) of each, the outermost last.
    pushes: Vec<(u16, u16)>,
}

impl Tags {
    /// Appends what happened, and forgets it.
    pub(super) fn commit(&mut self, ops: &mut impl FnMut(Op)) {
        (0..std::mem::take(&mut self.pops)).for_each(|_| ops(Op::PopVlan));
        let set = std::mem::take(&mut self.set);
        if set.mask != 0 {
            // Open vSwitch replaces the tag by one without the drop eligible indicator.
            ops(Op::SetVlanTci(Masked { value: set.value, mask: set.mask | PRESENT }));
        }
        for (tpid, tci) in self.pushes.drain(..) {
            ops(Op::PushVlan { tpid, tci: tci & !PRESENT });
        }
    }
}

impl View {
    /// Pushes a tag. Of two that are there the inner one goes, as in Open vSwitch.
    pub(super) fn push_vlan(&mut self, tpid: u16, tci: u16) {
        let below = if self.is_tagged() {
            let outer = (self.read_16(Field::VlanTpid0), self.read_16(Field::VlanTci));
            if self.has_second_tag() {
                self.lose_inner_tag(outer);
            }
            outer
        } else {
            (0, 0)
        };
        self.show(Field::VlanTpid1, Field::VlanTci1, below);
        self.show(Field::VlanTpid0, Field::VlanTci, (tpid, tci | PRESENT));
        self.packet.tags.pushes.push((tpid, tci | PRESENT));
    }

    /// Takes away the inner one of two tags.
    fn lose_inner_tag(&mut self, outer: (u16, u16)) {
        let tags = &mut self.packet.tags;
        match tags.pushes.len() {
            0 => {
                tags.pops += 2;
                tags.set = Masked::default();
                tags.pushes.push(outer);
            }
            1 => {
                tags.pops += 1;
                tags.set = Masked::default();
            }
            n => drop(tags.pushes.remove(n - 2)),
        }
    }

    /// Removes the outer tag, if there is one. The next one takes its place.
    pub(super) fn pop_vlan(&mut self) {
        if !self.is_tagged() {
            return;
        }
        if self.packet.tags.pushes.pop().is_none() {
            self.packet.tags.pops += 1;
            self.packet.tags.set = Masked::default();
        }
        let outer = if self.has_second_tag() {
            (self.read_16(Field::VlanTpid1), self.read_16(Field::VlanTci1))
        } else {
            (0, 0)
        };
        self.show(Field::VlanTpid0, Field::VlanTci, outer);
        self.show(Field::VlanTpid1, Field::VlanTci1, (0, 0));
    }

    /// Writes bits of the outer TCI. Setting the present bit of an untagged packet pushes a tag;
    /// clearing it removes all tags.
    pub(super) fn write_tci(&mut self, field: Field, value: u128, bits: u128) {
        let shift = field.location().shift;
        let (value, bits) = (to_16(value << shift), to_16(bits << shift));
        let was = self.is_tagged();
        let present = if bits & PRESENT != 0 { value & PRESENT != 0 } else { was };
        match (was, present) {
            (true, true) => self.change_tci(value, bits & !PRESENT),
            (false, true) => {
                let old = to_16(self.read_bits(Field::VlanTci, u128::from(!bits)));
                self.push_vlan(TPID_DEFAULT, old | value & bits);
            }
            (true, false) => {
                while self.is_tagged() {
                    self.pop_vlan();
                }
                self.write_absent(value, bits);
            }
            (false, false) => self.write_absent(value, bits),
        }
    }

    fn change_tci(&mut self, value: u16, bits: u16) {
        let (tci, mask) = (Field::VlanTci, u128::from(bits));
        let changes = mask & (!self.packet.written.get(tci) | self.packet.key.get(tci) ^ u128::from(value)) != 0;
        self.packet.key.set_masked(tci, u128::from(value), mask);
        self.packet.written.add_bits(tci, mask);
        let tags = &mut self.packet.tags;
        if let Some((_, top)) = tags.pushes.last_mut() {
            *top = *top & !bits | value & bits;
        } else if changes {
            tags.set.value = tags.set.value & !bits | value & bits;
            tags.set.mask |= bits;
        }
    }

    /// Bits of a tag that is not there: matches see them, the packet does not.
    fn write_absent(&mut self, value: u16, bits: u16) {
        self.packet.key.set_masked(Field::VlanTci, u128::from(value), u128::from(bits));
        self.packet.written.add_bits(Field::VlanTci, u128::from(bits));
    }

    fn has_second_tag(&mut self) -> bool {
        self.read_bits(Field::VlanTci1, u128::from(PRESENT)) != 0
    }

    fn read_16(&mut self, field: Field) -> u16 {
        to_16(self.read(field))
    }

    /// Puts known values into the fields of a tag.
    fn show(&mut self, tpid: Field, tci: Field, tag: (u16, u16)) {
        for (field, value) in [(tpid, tag.0), (tci, tag.1)] {
            self.packet.key.set(field, u128::from(value));
            self.packet.written.add(field);
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // of 16-bit fields
const fn to_16(value: u128) -> u16 {
    value as u16
}

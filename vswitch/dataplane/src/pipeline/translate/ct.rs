//! `ct()`: the end of one decision, and what the next one begins with.

use super::LineKind;
use super::run::{Frame, Translator};
use super::view::View;
use crate::action::{CtOp, Op};
use crate::pipeline::{Counted, FrozenState, Stage};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_conntrack::{Helper, Nat, NatSide, Request};
use vswitch_flow::action::{self, Ct, CtZone};
use vswitch_flow::{Field, metadata_words};

/// FTP's and TFTP's numbers in `alg`: their ports.
const ALG_FTP: u16 = 21;
const ALG_TFTP: u16 = 69;

/// Words of the key that say what connection a packet belongs to.
const CT_WORDS: std::ops::Range<usize> = Field::CtMark.location().word as usize..25;

impl Translator<'_, '_> {
    /// The packet meets the connection tracker. With a table, a copy goes on there, as a decision
    /// of its own; this one goes on with a packet that belongs to no connection, as Open vSwitch
    /// has it.
    pub(super) fn ct(&mut self, ct: &Ct, frame: &Frame<'_>) {
        self.commit();
        let zone = match ct.zone {
            CtZone::Immediate(zone) => zone,
            #[allow(clippy::cast_possible_truncation)] // the low 16 bits are the zone
            CtZone::Field(from) => self.view.read_sub(from) as u16,
        };
        let (mark, label) = self.exec(&ct.exec);
        let helper = match ct.alg {
            ALG_FTP => Some(Helper::Ftp),
            ALG_TFTP => Some(Helper::Tftp),
            _ => None,
        };
        let nat = ct.nat.as_ref().map(nat);
        let request = Request {
            zone,
            before: 0,
            cached: false,
            unknown: false,
            commit: ct.commit,
            force: ct.force,
            nat,
            mark,
            label,
            helper,
        };
        let stage = ct.table.map(|table| {
            let frozen = self.pack(table);
            self.world.stages.intern(frozen)
        });
        if let Some(stage) = &stage {
            // What becomes of it is not for this decision to say.
            self.delivered = true;
            self.detail(|| {
                format!(
                    "A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table {}.",
                    stage.frozen.table
                )
            });
            if let Some(observer) = &mut self.observer {
                observer.forked(stage, zone, &self.view.end());
            }
        }
        let rule = frame.rule.as_ref().filter(|_| ct.commit).map(|rule| Arc::clone(&rule.stats));
        let commits = rule.map(|stats| self.count(Counted::Commits(stats)));
        self.push(Op::Ct(Box::new(CtOp { request, stage, commits })));
        self.met_ct = true;
        self.detail(|| "Sets the packet to an untracked state, and clears all the conntrack fields.".to_owned());
        self.clear_ct();
    }

    /// Bits of mark and label that `exec()` writes, and which.
    #[allow(clippy::cast_possible_truncation)] // the mark has 32 bits
    fn exec(&mut self, actions: &[vswitch_flow::Action]) -> ((u32, u32), (u128, u128)) {
        // Written on the view as anywhere else, and taken from there: ct() clears both fields
        // anyway.
        for field in [Field::CtMark, Field::CtLabel] {
            self.view.packet.written.set(field, 0);
        }
        for action in actions {
            self.work(1);
            self.modify(action);
        }
        let written = |view: &View, field| {
            let mask = view.packet.written.get(field);
            (view.packet.key.get(field) & mask, mask)
        };
        let (mark, label) = (written(&self.view, Field::CtMark), written(&self.view, Field::CtLabel));
        ((mark.0 as u32, mark.1 as u32), label)
    }

    /// What the packet takes along to another stage.
    fn pack(&self, table: u8) -> FrozenState {
        let written = &self.view.packet.written;
        let (mut metadata, mut defined) = self.view.metadata(|i| if CT_WORDS.contains(&i) { 0 } else { written.0[i] });
        for field in [Field::ActsetOutput, Field::ConjId, Field::RecircId] {
            metadata.set(field, 0);
            defined.set(field, 0);
        }
        let (set, stack) = (self.set.actions().into(), self.stack.clone().into());
        FrozenState { bridge: self.bridge, table, metadata, defined, set, stack }
    }

    /// Takes up what a packet brought along. Its metadata is in the key already.
    pub(super) fn unpack(&mut self, stage: &Stage) {
        for i in metadata_words() {
            self.view.packet.written.0[i] |= stage.frozen.defined.0[i];
        }
        self.met_ct = true;
        self.stack = stage.frozen.stack.to_vec();
        self.set.write(&stage.frozen.set);
        self.note_set();
        self.tell_node(LineKind::Node, || "thaw".to_owned());
        self.indent += 1;
        self.say(|| format!("Resuming from table {}", stage.frozen.table));
        self.indent -= 1;
    }
}

fn nat(nat: &action::Nat) -> Nat {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    Nat {
        side: nat.source.map(|source| if source { NatSide::Src } else { NatSide::Dst }),
        addresses: nat.addresses.map(|(first, last)| (number(first), number(last))),
        ports: nat.ports,
        random: nat.random,
    }
}

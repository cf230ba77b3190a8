//! Where a packet leaves: ports, all kinds of them.

use super::run::{Frame, ListControl, Translator};
use super::table::Disguise;
use crate::action::Op;
use crate::limits::OUTPUTS_MAX;
use crate::observe::DropReason;
use crate::pipeline::PortFacts;
use crate::port::PortId;
use vswitch_flow::action::{PortNo, Reason, port};
use vswitch_flow::{Field, Subfield};

impl<'a> Translator<'a, '_> {
    /// Facts of a port.
    pub(super) fn facts(&self, id: PortId) -> Option<&'a PortFacts> {
        self.world.ports.get(id.index())?.as_ref()
    }

    /// A port of this bridge by its number.
    pub(super) fn port(&self, number: PortNo) -> Option<PortId> {
        self.world.bridges[self.bridge].numbers.get(&number).copied()
    }

    /// `output` to a port number, reserved ones included.
    pub(super) fn output(&mut self, number: PortNo, frame: &Frame<'_>) -> ListControl {
        match number {
            port::IN_PORT => {
                let in_port = self.view.in_port();
                self.output_to(in_port, None);
            }
            port::TABLE => {
                return match self.enter(frame.table, 0, Disguise::default()) {
                    Some(frame) => ListControl::Call(frame),
                    None => ListControl::Next,
                };
            }
            port::NORMAL => self.normal(),
            port::FLOOD | port::ALL => self.flood(number == port::ALL),
            port::CONTROLLER => {
                let reason = if self.packet_out {
                    Reason::PacketOut
                } else if frame.bucket {
                    Reason::Group
                } else if self.in_set {
                    Reason::ActionSet
                } else {
                    Reason::Action
                };
                self.packet_in(frame, reason, 0, &[], None);
            }
            port::NONE | port::UNSET => {}
            number if number == self.view.in_port() => {
                self.warn(|| "skipping output to input port".to_owned());
            }
            number => self.output_to(number, None),
        }
        ListControl::Next
    }

    /// `output(port=N,max_len=N)`: to a real port that is no patch port.
    pub(super) fn output_truncated(&mut self, number: PortNo, max_len: u16) {
        if number == self.view.in_port() {
            self.warn(|| "skipping output to input port".to_owned());
            return;
        }
        match self.port(number).and_then(|id| self.facts(id)) {
            Some(facts) if !facts.patch => self.output_to(number, Some(max_len)),
            _ => self.skip(DropReason::NoPort),
        }
    }

    /// `output:FIELD`. A field may hold 16-bit numbers only: 0xfffffff8 is not IN_PORT.
    #[allow(clippy::cast_possible_truncation)] // compared before
    pub(super) fn output_field(&mut self, from: Subfield, frame: &Frame<'_>) -> ListControl {
        let number = self.view.read_sub(from);
        if number > 0xffff {
            self.warn(|| format!("output port {number} is out of range"));
            self.reason = Some(DropReason::NoPort);
            return ListControl::Next;
        }
        self.detail(|| format!("output port is {number}"));
        let number = number as u32;
        self.output(if number >= 0xff00 { number | 0xffff_0000 } else { number }, frame)
    }

    fn output_to(&mut self, number: PortNo, max_len: Option<u16>) {
        match self.port(number) {
            Some(id) => self.send(id, max_len),
            None => self.skip(DropReason::NoPort),
        }
    }

    /// To all ports of the bridge, or those that flood, but the one it came from.
    pub(super) fn flood(&mut self, all: bool) {
        let in_port = self.view.in_port();
        let in_port = self.port(in_port);
        let bridge = &self.world.bridges[self.bridge];
        let ports = if all {
            let up = |id: &PortId| self.facts(*id).is_some_and(|facts| facts.admin_up);
            let mut ports: Vec<(PortNo, PortId)> = bridge.numbers.iter().map(|(number, id)| (*number, *id)).collect();
            ports.sort_unstable();
            ports.into_iter().map(|(_, id)| id).filter(up).collect()
        } else {
            bridge.flood.clone()
        };
        let mut nowhere = true;
        for id in ports {
            if Some(id) != in_port && self.error.is_none() {
                nowhere = false;
                self.send(id, None);
            }
        }
        if nowhere {
            self.skip(DropReason::NoPort);
        }
    }

    /// Out by a port, whatever kind it is.
    pub(super) fn send(&mut self, id: PortId, max_len: Option<u16>) {
        let Some(facts) = self.facts(id) else {
            self.skip(DropReason::NoPort);
            return;
        };
        if facts.no_forward {
            self.skip(DropReason::NoForward);
            return;
        }
        self.work.outputs += 1;
        if self.work.outputs > OUTPUTS_MAX {
            self.fail(DropReason::WorkLimit);
            return;
        }
        if facts.patch {
            match facts.peer.and_then(|peer| Some((peer, self.facts(peer)?))) {
                Some((peer, other)) => self.cross((id, facts), (peer, other)),
                None => self.skip(DropReason::LinkDown),
            }
            return;
        }
        if let Some(tunnel) = &facts.tunnel {
            self.encapsulate((id, facts), tunnel, max_len);
            return;
        }
        if let Some(vtep) = &facts.vtep
            && self.arrive(id, vtep, max_len)
        {
            return;
        }
        self.commit();
        self.push(max_len.map_or(Op::Output(id), |max_len| Op::OutputTruncated(id, max_len)));
        self.delivered = true;
    }

    /// Through a patch port into another bridge. What happens there happens to a copy, with fresh
    /// registers.
    fn cross(&mut self, (out, here): (PortId, &PortFacts), (peer, there): (PortId, &PortFacts)) {
        if !here.admin_up || !there.admin_up {
            self.skip(DropReason::AdminDown);
            return;
        }
        if there.no_receive {
            self.skip(DropReason::NoReceive);
            return;
        }
        self.visit((there.bridge, there.number), |this| this.push(Op::Crossed(out, peer)));
    }

    /// A copy of the packet goes through another bridge as if it had come in there by a port, with
    /// fresh registers; `change` says what happens to it on the way.
    pub(super) fn visit(&mut self, (to, number): (usize, PortNo), change: impl FnOnce(&mut Self)) {
        self.out.deps.all = true;
        let (bridge, indent) = (self.bridge, self.indent);
        let learned = self.world.bridges[to].program.learned.tables();
        let learned = std::mem::replace(&mut self.learned, learned);
        let (stack, set) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.set));
        self.on_copy(|this| {
            change(this);
            this.bridge = to;
            this.tell_bridge();
            this.indent += 1;
            this.forget_metadata(number);
            // A patch port counts as a resubmit to an earlier table.
            if let Some(frame) = this.enter(u8::MAX, 0, Disguise::default()) {
                this.work.depth += 1;
                let frame = Frame { deepens: false, ..frame };
                this.indent += 1;
                this.run_with_set(frame);
                this.work.depth -= 1;
            } else if this.error.is_none() {
                this.indent += 1;
                this.unprogrammed();
            }
        });
        (self.bridge, self.indent, self.learned) = (bridge, indent, learned);
        (self.stack, self.set) = (stack, set);
    }

    /// What a packet loses between two bridges: all of its metadata but pkt_mark.
    fn forget_metadata(&mut self, in_port: PortNo) {
        use Field as F;
        let words = [
            F::Metadata,
            F::Xxreg0,
            F::Xxreg1,
            F::Xxreg2,
            F::Xxreg3,
            F::TunId,
            F::TunSrc,
            F::TunDst,
            F::TunIpv6Src,
            F::TunIpv6Dst,
            F::TunFlags,
            F::TunGbpId,
            F::TunGbpFlags,
            F::TunTos,
            F::TunTtl,
            F::TunMetadata0,
            F::TunMetadata1,
            F::TunMetadata2,
            F::TunMetadata3,
            F::TunMetadata4,
            F::TunMetadata5,
            F::TunMetadata6,
            F::TunMetadata7,
        ];
        words.into_iter().for_each(|field| self.view.clear(field));
        self.clear_ct();
        self.view.write(F::ActsetOutput, u128::from(port::UNSET), u128::MAX);
        self.view.write(F::InPort, u128::from(in_port), u128::MAX);
    }

    /// The packet belongs to no connection.
    pub(super) fn clear_ct(&mut self) {
        use Field as F;
        let fields = [F::CtMark, F::CtZone, F::CtState, F::CtLabel].into_iter().chain(F::CT_TUPLE);
        fields.for_each(|field| self.view.clear(field));
    }
}

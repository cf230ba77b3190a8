//! The actions with many parts.

use super::fields::readable;
use super::{BAD_ARGUMENT, Check, Checker, INCONSISTENT, Outer, output, refuse, rules};
use crate::action::{Bundle, Ct, CtZone, Learn, LearnSource, LearnSpec, Multipath, Nat, PortNo, Reject, port};
use crate::field::number::{CT_INV, ETH_IPV4, ETH_IPV6};
use crate::{Field, FlowKey, FlowMask, Subfield};
use std::net::IpAddr;

impl Checker<'_> {
    pub(super) fn multipath(&mut self, multipath: &Multipath) -> Check {
        self.target(multipath.to)?;
        Ok(rules::links(multipath.links, multipath.to.len)?)
    }

    pub(super) fn bundle(&mut self, bundle: &Bundle) -> Check {
        rules::members(bundle.members.len(), bundle.to)?;
        bundle.members.iter().try_for_each(|port| member(*port))?;
        bundle.to.map_or(Ok(()), |to| self.target(to))
    }

    /// The list is for another packet than the flow's: what the flow matches says nothing of it, as
    /// in a packet-out.
    pub(super) fn reject(&mut self, reject: &Reject) -> Check {
        rules::reject(reject)?;
        let (matching, facts) = (self.matching.take(), self.facts.take());
        self.sub_list(&reject.actions, Outer::Clone)?;
        (self.matching, self.facts) = (matching, facts);
        Ok(())
    }

    pub(super) fn learn(&mut self, learn: &Learn) -> Check {
        rules::known_table(learn.table)?;
        rules::learned(learn.specs.len())?;
        if let Some(result) = learn.result {
            self.one_bit(result, "result_dst of learn")?;
        }
        // What the learned flow matches for certain.
        let mut learned = (FlowKey::default(), FlowMask::default());
        learn.specs.iter().try_for_each(|spec| self.learn_spec(spec, &mut learned))
    }

    fn learn_spec(&mut self, spec: &LearnSpec, (key, mask): &mut (FlowKey, FlowMask)) -> Check {
        match spec {
            LearnSpec::Match { from, to } => {
                rules::addressable(to.field)?;
                self.learn_source(from, *to)?;
                readable(to.field, key, mask)?;
                if let LearnSource::Immediate(value) = from {
                    // All of it is more than its name means ([`Action::normal`]).
                    if *to != Subfield::whole(Field::VlanVid) {
                        rules::bits(*to)?;
                    }
                    if to.is_whole() {
                        rules::whole(to.field, *value)?;
                    }
                    key.set_sub(*to, *value);
                    mask.add_bits(to.field, to.mask());
                }
                Ok(())
            }
            LearnSpec::Load { from, to } => {
                rules::addressable(to.field)?;
                self.learn_source(from, *to)?;
                rules::bits(*to)?;
                rules::writable(to.field)?;
                readable(to.field, key, mask)
            }
            LearnSpec::Output(from) => {
                rules::addressable(from.field)?;
                self.source(*from)
            }
        }
    }

    fn learn_source(&mut self, from: &LearnSource, to: Subfield) -> Check {
        match from {
            LearnSource::Field(from) => {
                rules::addressable(from.field)?;
                self.source(*from)?;
                rules::bits(to)?;
                Ok(rules::as_many(*from, to)?)
            }
            LearnSource::Immediate(value) => Ok(rules::constant(*value, to.len)?),
        }
    }

    pub(super) fn ct(&mut self, ct: &Ct) -> Check {
        rules::commit(ct.commit, ct.force, ct.changes())?;
        ct.table.map_or(Ok(()), rules::known_table)?;
        self.need(Field::NwTos, "a connection")?;
        self.ct_facts(ct)?;
        if let CtZone::Field(from) = ct.zone {
            rules::zone(from)?;
            self.source(from)?;
        }
        if let Some(nat) = &ct.nat {
            self.nat(nat)?;
        }
        self.sub_list(&ct.exec, Outer::Ct)
    }

    fn ct_facts(&mut self, ct: &Ct) -> Check {
        let helper = match ct.alg {
            0 => None,
            21 => Some((Field::TcpSrc, "alg=ftp")),
            69 => Some((Field::UdpSrc, "alg=tftp")),
            other => return refuse(BAD_ARGUMENT, format!("ct: there is no helper {other}: ftp (21) and tftp (69)")),
        };
        if let Some((field, name)) = helper {
            self.need(field, name)?;
        }
        match self.facts() {
            Some((key, _)) if ct.commit && key.get(Field::CtState) & u128::from(CT_INV) != 0 => {
                refuse(INCONSISTENT, "ct: packets with ct_state=+inv cannot be committed")
            }
            _ => Ok(()),
        }
    }

    fn nat(&mut self, nat: &Nat) -> Check {
        rules::nat(nat)?;
        if nat.addresses.is_none() && nat.ports.is_some() {
            return refuse(BAD_ARGUMENT, "nat: ports need an address");
        }
        if let Some((first, last)) = nat.ports {
            rules::ports(first, last)?;
        }
        let Some((first, last)) = nat.addresses else { return Ok(()) };
        rules::addresses(first, last)?;
        let (wanted, name) = match first {
            IpAddr::V4(_) => (ETH_IPV4, "ip"),
            IpAddr::V6(_) => (ETH_IPV6, "ipv6"),
        };
        match self.facts() {
            Some((key, _)) if key.get(Field::EthType) != u128::from(wanted) => {
                refuse(INCONSISTENT, format!("nat to {first} is only possible in a flow that matches {name}"))
            }
            _ => Ok(()),
        }
    }
}

/// A port of a bundle.
fn member(port: PortNo) -> Check {
    match port {
        // The placeholder that is always live.
        port::NONE => Ok(()),
        port::CONTROLLER => refuse("OFPBAC_BAD_OUT_PORT", "a bundle cannot have the controller as a member"),
        port => output(port, None),
    }
}

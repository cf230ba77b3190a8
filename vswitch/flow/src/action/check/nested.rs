//! The actions with many parts.

use super::fields::{bits, readable, writable};
use super::{BAD_ARGUMENT, Check, Checker, INCONSISTENT, Outer, known_table, limits, output, refuse};
use crate::action::{Bundle, Ct, CtZone, Learn, LearnSource, LearnSpec, Multipath, Nat, PortNo, port};
use crate::field::number::{CT_INV, ETH_IPV4, ETH_IPV6};
use crate::{Field, FlowKey, FlowMask, Subfield};
use std::net::IpAddr;

impl Checker<'_> {
    pub(super) fn multipath(&mut self, multipath: &Multipath) -> Check {
        let Multipath { links, to, .. } = multipath;
        if *links == 0 {
            return refuse(BAD_ARGUMENT, "multipath needs at least one link");
        }
        self.target(*to)?;
        if to.len < 16 && u32::from(*links) > 1 << to.len {
            return refuse(BAD_ARGUMENT, format!("{links} links do not fit into {} bits", to.len));
        }
        Ok(())
    }

    pub(super) fn bundle(&mut self, bundle: &Bundle) -> Check {
        if bundle.members.len() > limits::MAX_MEMBERS {
            return refuse(BAD_ARGUMENT, format!("a bundle has at most {} members", limits::MAX_MEMBERS));
        }
        bundle.members.iter().try_for_each(|port| member(*port))?;
        match bundle.to {
            Some(to) if to.len < 16 => {
                refuse(BAD_ARGUMENT, format!("bundle_load needs 16 bits for a port, not {}", to.len))
            }
            Some(to) => self.target(to),
            None => Ok(()),
        }
    }

    pub(super) fn learn(&mut self, learn: &Learn) -> Check {
        known_table(learn.table)?;
        if learn.specs.len() > limits::MAX_LEARN_SPECS {
            return refuse(BAD_ARGUMENT, format!("learn has at most {} elements", limits::MAX_LEARN_SPECS));
        }
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
                self.learn_source(from, *to)?;
                bits(*to)?;
                readable(to.field, key, mask)?;
                if let LearnSource::Immediate(value) = from {
                    key.set_sub(*to, *value);
                    mask.add_bits(to.field, to.mask());
                }
                Ok(())
            }
            LearnSpec::Load { from, to } => {
                self.learn_source(from, *to)?;
                bits(*to)?;
                writable(to.field)?;
                readable(to.field, key, mask)
            }
            LearnSpec::Output(from) => self.source(*from),
        }
    }

    fn learn_source(&mut self, from: &LearnSource, to: Subfield) -> Check {
        match from {
            LearnSource::Field(from) => {
                self.source(*from)?;
                if from.len != to.len {
                    let reason =
                        format!("learn: {} bits do not fit into {} bits: they must be as many", from.len, to.len);
                    return refuse(BAD_ARGUMENT, reason);
                }
                Ok(())
            }
            LearnSource::Immediate(value) if to.len < 128 && value >> to.len != 0 => {
                refuse(BAD_ARGUMENT, format!("learn: {value:#x} does not fit into {} bits", to.len))
            }
            LearnSource::Immediate(_) => Ok(()),
        }
    }

    pub(super) fn ct(&mut self, ct: &Ct) -> Check {
        if ct.force && !ct.commit {
            return refuse(BAD_ARGUMENT, "ct: force needs commit");
        }
        if let Some(table) = ct.table {
            known_table(table)?;
        }
        let plain_nat = ct.nat.as_ref().is_none_or(|nat| nat.source.is_none());
        if !ct.commit && (!plain_nat || !ct.exec.is_empty()) {
            return refuse(BAD_ARGUMENT, "ct: exec(...), nat(src=...) and nat(dst=...) need commit");
        }
        self.need(Field::NwTos, "a connection")?;
        self.ct_facts(ct)?;
        if let CtZone::Field(from) = ct.zone {
            if from.len != 16 {
                return refuse("OFPBAC_BAD_SET_LEN", format!("a zone is a field of 16 bits, not {}", from.len));
            }
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
        if nat.hash && nat.random {
            return refuse(BAD_ARGUMENT, "nat: hash and random exclude each other");
        }
        if nat.source.is_none() && (nat.addresses.is_some() || nat.hash || nat.random || nat.persistent) {
            return refuse(BAD_ARGUMENT, "nat: addresses and flags need src or dst");
        }
        if nat.addresses.is_none() && nat.ports.is_some() {
            return refuse(BAD_ARGUMENT, "nat: ports need an address");
        }
        if nat.ports.is_some_and(|(first, last)| first == 0 || last < first) {
            return refuse(BAD_ARGUMENT, "nat: the last port is before the first, or a port is 0");
        }
        let Some((first, last)) = nat.addresses else { return Ok(()) };
        if first.is_ipv4() != last.is_ipv4() || last < first || first.is_unspecified() {
            return refuse(BAD_ARGUMENT, format!("nat: {first} to {last} is no range of addresses"));
        }
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

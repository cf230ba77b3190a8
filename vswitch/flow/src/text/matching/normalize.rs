//! What Open vSwitch makes of a match: `ofputil_normalize_match`, and what a match loses or is
//! refused for on its way into the switch (`nx_put_raw`, `nx_pull_raw`).

use crate::field::number::*;
use crate::text::TextError;
use crate::{Field, FlowKey, FlowMask};

/// A match on its way.
struct Match<'a> {
    key: &'a mut FlowKey,
    mask: &'a mut FlowMask,
    warnings: &'a mut Vec<String>,
}

/// Makes a match what the switch has in the end. Bits of the key outside the mask must be 0.
pub(super) fn normalize(key: &mut FlowKey, mask: &mut FlowMask, warnings: &mut Vec<String>) -> Result<(), TextError> {
    let mut matching = Match { key, mask, warnings };
    matching.vlan()?;
    matching.headers();
    matching.versions()?;
    matching.later_fragment()?;
    matching.connection()
}

fn refused(code: &'static str, field: &str, reason: String, hint: &str) -> TextError {
    TextError { column: 1, reason, hint: hint.to_owned(), code, field: field.to_owned() }
}

impl Match<'_> {
    /// A field's bits; no field that decides about others has more than 32.
    #[allow(clippy::cast_possible_truncation)]
    fn get(&self, field: Field) -> u32 {
        self.key.get(field) as u32
    }

    fn has(&self, field: Field) -> bool {
        self.mask.get(field) != 0
    }

    /// Drops fields, with a warning, unless they can exist in the packets that match.
    fn keep_if(&mut self, possible: bool, fields: &[(Field, &str)], needs: &str) {
        if possible {
            return;
        }
        for (field, name) in fields {
            if self.has(*field) {
                self.warnings.push(format!("{name} is ignored: it needs {needs} in the match"));
                self.key.set(*field, 0);
                self.mask.set(*field, 0);
            }
        }
    }

    /// Priority bits need the bit that says that there is a tag.
    #[allow(clippy::cast_possible_truncation)] // 16-bit field
    fn vlan(&mut self) -> Result<(), TextError> {
        let (value, mask) = (self.get(Field::VlanTci) as u16, self.mask.get(Field::VlanTci) as u16);
        if mask & 0xe000 == 0 || value & VLAN_PRESENT != 0 {
            return Ok(());
        }
        if mask & VLAN_PRESENT != 0 && value == 0 {
            // Without a tag there are no priority bits to look at.
            self.mask.set(Field::VlanTci, u128::from(mask & 0x1fff));
            return Ok(());
        }
        let reason = format!("vlan_tci={value:#x}/{mask:#x} looks at the priority of a tag that need not be there");
        Err(refused(
            "OFPBMC_BAD_PREREQ",
            "vlan_tci",
            reason,
            "set bit 0x1000 in value and mask, or vlan_tci=0 for no tag",
        ))
    }

    /// What depends on types and protocols, from the outer headers to the inner ones: what has gone
    /// is nobody's prerequisite.
    fn headers(&mut self) {
        // Words 31 and up hold nothing but such fields.
        if self.mask.0[Field::NwSrc.location().word as usize..=Field::IgmpGroup.location().word as usize] == [0; 12] {
            return;
        }
        let eth_type = self.get(Field::EthType);
        let is = |number: u16| eth_type == u32::from(number);
        let (ipv4, ipv6, arp) = (is(ETH_IPV4), is(ETH_IPV6), is(ETH_ARP) || is(ETH_RARP));
        let ip = ipv4 || ipv6;
        self.keep_if(
            ipv4 || arp,
            &[(Field::NwSrc, "nw_src"), (Field::NwDst, "nw_dst")],
            "ip (or arp, as arp_spa and arp_tpa)",
        );
        let addresses = [(Field::Ipv6Src, "ipv6_src"), (Field::Ipv6Dst, "ipv6_dst"), (Field::Ipv6Label, "ipv6_label")];
        self.keep_if(ipv6, &addresses, "ipv6");
        self.keep_if(ip || arp, &[(Field::NwProto, "nw_proto")], "ip or ipv6 (or arp, as arp_op)");
        let rest =
            [(Field::IpDscp, "nw_tos"), (Field::NwEcn, "nw_ecn"), (Field::NwTtl, "nw_ttl"), (Field::NwFrag, "nw_frag")];
        self.keep_if(ip, &rest, "ip or ipv6");

        let proto = self.get(Field::NwProto);
        let is = |number: u8| proto == u32::from(number);
        let ports = ip && (is(IP_TCP) || is(IP_UDP) || is(IP_SCTP));
        let (icmp, icmpv6) = (ipv4 && is(IP_ICMP), ipv6 && is(IP_ICMPV6));
        let fields = [(Field::TpSrc, "tp_src (or icmp_type)"), (Field::TpDst, "tp_dst (or icmp_code)")];
        self.keep_if(ports || icmp || icmpv6, &fields, "tcp, udp, sctp, icmp or their IPv6 forms");
        self.keep_if(ip && is(IP_TCP), &[(Field::TcpFlags, "tcp_flags")], "tcp or tcp6");
        self.keep_if(ipv4 && is(IP_IGMP), &[(Field::IgmpGroup, "igmp_group_ip4")], "igmp");

        let nd = |kind: u16| icmpv6 && self.get(Field::TpSrc) == u32::from(kind) && self.get(Field::TpDst) == 0;
        let (solicit, advert) = (nd(ND_SOLICIT), nd(ND_ADVERT));
        self.keep_if(arp || solicit, &[(Field::ArpSha, "nd_sll (or arp_sha)")], "icmp6,icmpv6_type=135 (or arp)");
        self.keep_if(arp || advert, &[(Field::ArpTha, "nd_tll (or arp_tha)")], "icmp6,icmpv6_type=136 (or arp)");
        let fields = [
            (Field::NdTarget, "nd_target"),
            (Field::NdReserved, "nd_reserved"),
            (Field::NdOptionsType, "nd_options_type"),
        ];
        self.keep_if(solicit || advert, &fields, "icmp6,icmpv6_type=135 or icmp6,icmpv6_type=136");
    }

    /// What a match is refused for because of its protocols.
    fn versions(&self) -> Result<(), TextError> {
        let (eth_type, proto) = (self.get(Field::EthType), self.get(Field::NwProto));
        let is = |version: u16, number: u8| eth_type == u32::from(version) && proto == u32::from(number);
        if is(ETH_IPV4, IP_ICMP) || is(ETH_IPV6, IP_ICMPV6) {
            for (field, name) in [(Field::TpSrc, "icmp_type"), (Field::TpDst, "icmp_code")] {
                let mask = self.mask.get(field);
                if mask != 0 && (mask != field.ones() || self.get(field) > 0xff) {
                    let reason = format!("{name} is one byte, matched whole, not {:#x}/{mask:#x}", self.get(field));
                    return Err(refused("OFPBMC_BAD_MASK", name, reason, "a number from 0 to 255"));
                }
            }
        }
        Ok(())
    }

    /// Later fragments have no ports.
    fn later_fragment(&self) -> Result<(), TextError> {
        let icmp = [IP_ICMP, IP_ICMPV6].map(u32::from).contains(&self.get(Field::NwProto));
        let fields = [Field::TpSrc, Field::TpDst, Field::TcpFlags];
        if self.get(Field::NwFrag) & u32::from(FRAG_LATER) == 0
            || icmp
            || !fields.into_iter().any(|field| self.has(field))
        {
            return Ok(());
        }
        let reason = "later fragments (nw_frag=later) have no ports and no TCP flags".to_owned();
        Err(refused("OFPBMC_BAD_PREREQ", "nw_frag", reason, "leave out the ports, or use nw_frag=not_later"))
    }

    /// Tuples of connections need a ct_state that implies one, and are of a version of IP.
    fn connection(&mut self) -> Result<(), TextError> {
        if self.mask.0[Field::CtNwSrc.location().word as usize..=Field::CtTpSrc.location().word as usize] == [0; 6] {
            return Ok(());
        }
        let proto = self.get(Field::CtNwProto) != 0;
        self.keep_if(proto, &[(Field::CtTpSrc, "ct_tp_src"), (Field::CtTpDst, "ct_tp_dst")], "ct_nw_proto");
        self.keep_if(proto, &[(Field::CtNwProto, "ct_nw_proto=0")], "another value");
        for field in Field::CT_TUPLE.into_iter().filter(|field| self.has(*field)).collect::<Vec<_>>() {
            let name = field.name();
            if !Field::CtNwProto.prerequisites_met(self.key, self.mask) {
                let reason = format!("{name} is matched without a ct_state that implies a known connection");
                let hint = "add one of ct_state=+new, +est, +rel, +rpl, +snat, +dnat, or +trk-inv";
                return Err(refused("OFPBMC_BAD_PREREQ", name, reason, hint));
            }
            if !field.prerequisites_met(self.key, self.mask) {
                let needs = field.info().prerequisite.describe();
                let reason = format!("{name} needs {needs} in the match");
                return Err(refused("OFPBAC_MATCH_INCONSISTENT", name, reason, "add the keyword"));
            }
        }
        Ok(())
    }
}

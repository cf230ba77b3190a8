//! Matches as text, in the order and form of Open vSwitch (`match_format`).

use crate::field::number::*;
use crate::text::value::{
    self, CT_STATE, TCP_FLAGS, TUN_FLAGS, push, push_ethernet, push_flags, push_frag, push_hex, push_ipv4, push_ipv6,
};
use crate::text::{Names, Style};
use crate::{FIRST_PACKET_WORD, Field, FlowKey, FlowMask, SparseMatch};

/// In the order and form of OVS, without priority; nothing for a match of everything.
pub fn format_match(matching: &SparseMatch, style: Style, names: &dyn Names, out: &mut String) {
    let (key, mask) = matching.expand();
    print(&key, &mask, style, names, out);
}

/// A packet with its metadata, as OVS prints it (`flow_format`: the line `Flow:` of ofproto/trace,
/// packet-ins): the fields that the packet has, and the metadata that is not 0.
pub fn format_key(key: &FlowKey, style: Style, names: &dyn Names, out: &mut String) {
    print(key, &shown(key), style, names, out);
}

/// The fields of a packet that [`format_key`] prints.
fn shown(key: &FlowKey) -> FlowMask {
    const ND: [Field; 3] = [Field::NdTarget, Field::NdSll, Field::NdTll];
    let mut mask = FlowMask::default();
    // Not the wide views of registers.
    let views = Field::Xreg0..=Field::Xxreg3;
    let metadata = Field::ALL.iter().filter(|field| (field.location().word as usize) < FIRST_PACKET_WORD);
    let metadata = metadata.filter(|field| !views.contains(field));
    metadata.filter(|field| key.get(**field) != 0).for_each(|field| mask.add(*field));
    let mut add = |fields: &[Field]| fields.iter().for_each(|field| mask.add(*field));
    add(&[Field::EthSrc, Field::EthDst, Field::EthType, Field::VlanTci]);
    if key.get(Field::VlanTci) != 0 {
        add(&[Field::VlanTci1]);
    }
    let has = |field: Field| field.exists_in(key);
    if has(Field::ArpOp) {
        add(&[Field::ArpSpa, Field::ArpTpa, Field::ArpOp, Field::ArpSha, Field::ArpTha]);
    } else if has(Field::NwProto) {
        let addresses = if has(Field::Ipv6Src) {
            [Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label].as_slice()
        } else {
            &[Field::NwSrc, Field::NwDst]
        };
        add(addresses);
        add(&[Field::NwProto, Field::NwTos, Field::NwTtl, Field::NwFrag]);
        let later = key.get(Field::NwFrag) & u128::from(FRAG_LATER) != 0;
        let proto = key.get(Field::NwProto);
        let is = |numbers: &[u8]| !later && numbers.iter().any(|number| u128::from(*number) == proto);
        add(if is(&[IP_TCP, IP_UDP, IP_SCTP, IP_ICMP, IP_IGMP, IP_ICMPV6]) {
            &[Field::TpSrc, Field::TpDst]
        } else {
            &[]
        });
        add(if is(&[IP_TCP]) { &[Field::TcpFlags] } else { &[] });
        add(if has(Field::NdTarget) { &ND } else { &[] });
    }
    mask
}

fn print(key: &FlowKey, mask: &FlowMask, style: Style, names: &dyn Names, out: &mut String) {
    let mut printer = Printer { key, mask, style, names, start: out.len(), out };
    printer.metadata();
    printer.connection();
    let (type_shown, proto_shown) = printer.protocol();
    printer.registers();
    printer.tunnel();
    printer.hex("metadata", Field::Metadata);
    printer.port("in_port", Field::InPort);
    printer.link(type_shown);
    printer.network(proto_shown);
    printer.transport();
}

struct Printer<'a> {
    key: &'a FlowKey,
    mask: &'a FlowMask,
    style: Style,
    names: &'a dyn Names,
    start: usize,
    out: &'a mut String,
}

impl Printer<'_> {
    /// Value and mask of a field.
    fn get(&self, field: Field) -> (u128, u128) {
        (self.key.get(field), self.mask.get(field))
    }

    /// A field's value; those that decide about others have at most 16 bits.
    #[allow(clippy::cast_possible_truncation)]
    fn small(&self, field: Field) -> u16 {
        self.key.get(field) as u16
    }

    fn word(&mut self, word: &str) {
        if self.out.len() > self.start {
            self.out.push(',');
        }
        self.out.push_str(word);
    }

    /// `name=` and a value, if the match looks at the field.
    fn item(&mut self, name: &str, field: Field, write: impl FnOnce(u128, u128, &mut String)) {
        let (value, mask) = self.get(field);
        if mask != 0 {
            self.word(name);
            self.out.push('=');
            write(value, mask, self.out);
        }
    }

    /// Hexadecimal.
    fn hex(&mut self, name: &str, field: Field) {
        self.item(name, field, |value, mask, out| {
            push_hex(value, out);
            if mask != field.ones() {
                out.push('/');
                push_hex(mask, out);
            }
        });
    }

    /// Decimal; hexadecimal with a mask.
    fn number(&mut self, name: &str, field: Field) {
        self.masked_number(name, field, field.ones());
    }

    /// Decimal if the mask has the bits of `whole`.
    fn masked_number(&mut self, name: &str, field: Field, whole: u128) {
        self.item(name, field, |value, mask, out| {
            if mask & whole == whole {
                push(out, format_args!("{value}"));
            } else {
                push(out, format_args!("{value:#x}/{mask:#x}"));
            }
        });
    }

    fn ethernet(&mut self, name: &str, field: Field) {
        self.item(name, field, push_ethernet);
    }

    fn ipv4(&mut self, name: &str, field: Field) {
        self.item(name, field, push_ipv4);
    }

    fn ipv6(&mut self, name: &str, field: Field) {
        self.item(name, field, push_ipv6);
    }

    fn flags(&mut self, name: &str, field: Field, flags: &'static [&'static str]) {
        self.item(name, field, |value, mask, out| push_flags(flags, value, mask, field.exact_mask(), out));
    }

    #[allow(clippy::cast_possible_truncation)] // ports have 32 bits
    fn port(&mut self, name: &str, field: Field) {
        let (style, names) = (self.style, self.names);
        self.item(name, field, |value, _, out| value::format_port(value as u32, style, names, out));
    }

    fn metadata(&mut self) {
        self.hex("pkt_mark", Field::PktMark);
        self.hex("recirc_id", Field::RecircId);
        self.hex("dp_hash", Field::DpHash);
        self.number("conj_id", Field::ConjId);
        self.port("actset_output", Field::ActsetOutput);
    }

    fn connection(&mut self) {
        self.flags("ct_state", Field::CtState, CT_STATE);
        self.number("ct_zone", Field::CtZone);
        self.hex("ct_mark", Field::CtMark);
        self.hex("ct_label", Field::CtLabel);
        self.ipv4("ct_nw_src", Field::CtNwSrc);
        self.ipv6("ct_ipv6_src", Field::CtIpv6Src);
        self.ipv4("ct_nw_dst", Field::CtNwDst);
        self.ipv6("ct_ipv6_dst", Field::CtIpv6Dst);
        self.number("ct_nw_proto", Field::CtNwProto);
        self.number("ct_tp_src", Field::CtTpSrc);
        self.number("ct_tp_dst", Field::CtTpDst);
    }

    /// The keyword, if there is one. Returns whether it says the Ethernet type, and whether the
    /// protocol.
    fn protocol(&mut self) -> (bool, bool) {
        if self.mask.get(Field::EthType) != Field::EthType.ones() {
            return (false, false);
        }
        let proto = (self.mask.get(Field::NwProto) == 0xff).then(|| self.small(Field::NwProto));
        let is = |number: u8| proto == Some(u16::from(number));
        let (word, says_proto) = match self.small(Field::EthType) {
            ETH_IPV4 if is(IP_ICMP) => ("icmp", true),
            ETH_IPV4 if is(IP_TCP) => ("tcp", true),
            ETH_IPV4 if is(IP_UDP) => ("udp", true),
            ETH_IPV4 if is(IP_SCTP) => ("sctp", true),
            ETH_IPV4 => ("ip", false),
            ETH_IPV6 if is(IP_ICMPV6) => ("icmp6", true),
            ETH_IPV6 if is(IP_TCP) => ("tcp6", true),
            ETH_IPV6 if is(IP_UDP) => ("udp6", true),
            ETH_IPV6 if is(IP_SCTP) => ("sctp6", true),
            ETH_IPV6 => ("ipv6", false),
            ETH_ARP => ("arp", false),
            ETH_RARP => ("rarp", false),
            ETH_MPLS => ("mpls", false),
            ETH_MPLS_MCAST => ("mplsm", false),
            _ => return (false, false),
        };
        self.word(word);
        (true, says_proto)
    }

    fn registers(&mut self) {
        for field in (0..16).filter_map(Field::reg) {
            self.hex(field.name(), field);
        }
    }

    fn tunnel(&mut self) {
        self.hex("tun_id", Field::TunId);
        self.ipv4("tun_src", Field::TunSrc);
        self.ipv4("tun_dst", Field::TunDst);
        self.ipv6("tun_ipv6_src", Field::TunIpv6Src);
        self.ipv6("tun_ipv6_dst", Field::TunIpv6Dst);
        self.number("tun_gbp_id", Field::TunGbpId);
        self.hex("tun_gbp_flags", Field::TunGbpFlags);
        self.number("tun_tos", Field::TunTos);
        self.number("tun_ttl", Field::TunTtl);
        // Always with signs: to OVS the mask of its one public flag is never the whole.
        self.item("tun_flags", Field::TunFlags, |value, mask, out| push_flags(TUN_FLAGS, value, mask, u128::MAX, out));
        for i in 0..8 {
            let field = Field::ALL[Field::TunMetadata0 as usize + i];
            self.hex(field.name(), field);
        }
    }

    /// One tag: `dl_vlan=5,dl_vlan_pcp=0` if that says it, else `vlan_tci`. Names of the second one
    /// end in 1.
    #[allow(clippy::cast_possible_truncation)] // 16-bit fields
    fn tag(&mut self, field: Field, [tci, vid, pcp]: [&str; 3]) {
        let (value, mask) = self.get(field);
        let (value, mask) = (value as u16, mask as u16);
        let (vid_mask, pcp_mask) = (mask & 0xfff, mask & 0xe000);
        let present = mask & value & VLAN_PRESENT != 0;
        let simple = matches!((vid_mask, pcp_mask), (0xfff, 0 | 0xe000) | (0, 0xe000));
        if mask != 0 && !(present && simple) {
            self.word(tci);
            push(self.out, format_args!("{value:#06x}"));
            if mask != 0xffff {
                push(self.out, format_args!("/{mask:#06x}"));
            }
            return;
        }
        if vid_mask != 0 {
            self.word(vid);
            push(self.out, format_args!("{}", value & 0xfff));
        }
        if pcp_mask != 0 {
            self.word(pcp);
            push(self.out, format_args!("{}", value >> 13));
        }
    }

    fn vlan(&mut self) {
        self.tag(Field::VlanTci, ["vlan_tci=", "dl_vlan=", "dl_vlan_pcp="]);
        // Only in masks of cached decisions and in packets.
        self.tag(Field::VlanTci1, ["vlan_tci1=", "dl_vlan1=", "dl_vlan_pcp1="]);
        self.hex("vlan_tpid", Field::VlanTpid0);
        self.hex("vlan_tpid1", Field::VlanTpid1);
    }

    fn link(&mut self, type_shown: bool) {
        self.vlan();
        self.ethernet("dl_src", Field::EthSrc);
        self.ethernet("dl_dst", Field::EthDst);
        if !type_shown {
            self.item("dl_type", Field::EthType, |value, mask, out| {
                push(out, format_args!("{value:#06x}"));
                if mask != 0xffff {
                    push(out, format_args!("/{mask:#06x}"));
                }
            });
        }
    }

    fn network(&mut self, proto_shown: bool) {
        let arp = matches!(self.small(Field::EthType), ETH_ARP | ETH_RARP);
        self.ipv6("ipv6_src", Field::Ipv6Src);
        self.ipv6("ipv6_dst", Field::Ipv6Dst);
        self.item("ipv6_label", Field::Ipv6Label, |value, mask, out| {
            push(out, format_args!("{value:#07x}"));
            if mask != Field::Ipv6Label.ones() {
                push(out, format_args!("/{mask:#07x}"));
            }
        });
        self.ipv4(if arp { "arp_spa" } else { "nw_src" }, Field::NwSrc);
        self.ipv4(if arp { "arp_tpa" } else { "nw_dst" }, Field::NwDst);
        if !proto_shown {
            self.number(if arp { "arp_op" } else { "nw_proto" }, Field::NwProto);
        }
        if arp {
            self.ethernet("arp_sha", Field::ArpSha);
            self.ethernet("arp_tha", Field::ArpTha);
        }
        self.item("nw_tos", Field::IpDscp, |value, _, out| push(out, format_args!("{}", value << 2)));
        self.number("nw_ecn", Field::NwEcn);
        self.number("nw_ttl", Field::NwTtl);
        self.item("nw_frag", Field::NwFrag, push_frag);
    }

    fn transport(&mut self) {
        let (eth_type, proto) = (self.small(Field::EthType), self.small(Field::NwProto));
        let is = |version: u16, number: u8| eth_type == version && proto == u16::from(number);
        if is(ETH_IPV4, IP_ICMP) || is(ETH_IPV6, IP_ICMPV6) {
            self.masked_number("icmp_type", Field::TpSrc, 0xff);
            self.masked_number("icmp_code", Field::TpDst, 0xff);
        } else {
            self.number("tp_src", Field::TpSrc);
            self.number("tp_dst", Field::TpDst);
        }
        if is(ETH_IPV6, IP_ICMPV6) {
            self.ipv6("nd_target", Field::NdTarget);
            self.ethernet("nd_sll", Field::NdSll);
            self.ethernet("nd_tll", Field::NdTll);
            self.number("nd_reserved", Field::NdReserved);
            self.number("nd_options_type", Field::NdOptionsType);
        }
        if is(ETH_IPV4, IP_IGMP) {
            self.ipv4("igmp_group_ip4", Field::IgmpGroup);
        }
        if proto == u16::from(IP_TCP) {
            self.flags("tcp_flags", Field::TcpFlags, TCP_FLAGS);
        }
    }
}

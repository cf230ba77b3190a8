//! Random matches, and packets that fit them.

use super::fields::{FIELDS, FieldDef, Needs, Proto};
use super::rng::Rng;
use super::universe::Universe;
use crate::frame::{Frame, Kind};
use crate::subject::{LOCAL, PORTS};

/// What a flow matches.
#[derive(Clone, Debug)]
pub(crate) struct Match {
    pub(crate) proto: Proto,
    pub(crate) in_port: Option<u32>,
    /// `nw_frag` by its word.
    pub(crate) frag: Option<&'static str>,
    /// Says that there is a VLAN tag.
    pub(crate) tagged: bool,
    /// Field, value, mask.
    pub(crate) fields: Vec<(&'static FieldDef, u128, u128)>,
}

/// A port's number: 1 to [`PORTS`], or LOCAL.
pub(crate) fn random_port(rng: &mut Rng) -> u32 {
    if rng.chance(8) { LOCAL } else { u32::try_from(rng.between(1, PORTS as usize)).expect("small") }
}

/// A protocol, the common ones more often.
pub(crate) fn random_kind(rng: &mut Rng) -> Kind {
    if rng.chance(50) {
        rng.pick(&[Kind::Tcp, Kind::Udp, Kind::Ip, Kind::Udp6, Kind::Tcp6, Kind::Arp])
    } else {
        rng.pick(&Kind::ALL).1
    }
}

impl Match {
    /// Everything.
    pub(crate) fn all() -> Self {
        Self { proto: Proto::Any, in_port: None, frag: None, tagged: false, fields: Vec::new() }
    }

    /// A random one of a table; in the first one there is no metadata yet.
    pub(crate) fn random(table: u8, universe: &Universe, rng: &mut Rng) -> Self {
        let mut matching = Self::all();
        if rng.chance(75) {
            matching.proto = Proto::Of(random_kind(rng));
        }
        if rng.chance(20) {
            matching.in_port = Some(random_port(rng));
        }
        for _ in 0..rng.pick(&[0, 1, 1, 2, 2, 3]) {
            let field = if table > 0 && rng.chance(30) {
                rng.pick(&FIELDS.iter().filter(|field| field.is_metadata()).collect::<Vec<_>>())
            } else {
                rng.pick(&FIELDS.iter().collect::<Vec<_>>())
            };
            matching.add(field, universe, rng);
        }
        matching.add_frag(rng);
        matching
    }

    /// Adds a constraint on a field, if it can be matched here and is not yet.
    pub(crate) fn add(&mut self, field: &'static FieldDef, universe: &Universe, rng: &mut Rng) {
        let here = field.matched;
        let vlan = |name: &str| name.contains("vlan");
        let twice = self.fields.iter().any(|(other, _, _)| other.overlaps(field) || vlan(other.matched) && vlan(here));
        // `icmp6,icmp_type=135` says the type already.
        let implied = field.needs == Needs::Icmp6 && !matches!(self.proto, Proto::Of(Kind::Icmp6));
        if here.is_empty() || twice || implied || !field.needs.met(self.proto, true) {
            return;
        }
        let mut mask = field.random_mask(rng);
        if here == "vlan_tci" && mask & 0xe000 != 0 {
            mask |= 0xe000; // deviation part-of-pcp
        }
        let mut value = universe.value(field, rng) & mask;
        if field.is_metadata() && rng.chance(40) {
            value = 0; // as it is before anybody sets it
        }
        if vlan(here) {
            // A TCI whose mask leaves out the tag's bit says nothing about a tag.
            self.tagged = here != "vlan_tci" || mask & value & 0x1000 != 0;
            if here == "vlan_tci" && value & mask & 0x1000 == 0 {
                // "No tag", or anything: only these forms are the same in all versions.
                self.fields.push((field, 0, 0x1fff));
                return;
            }
        }
        self.fields.push((field, value, mask));
    }

    fn add_frag(&mut self, rng: &mut Rng) {
        if Needs::Ip.met(self.proto, false) && rng.chance(12) {
            let ports = self.fields.iter().any(|(field, _, _)| {
                matches!(field.needs, Needs::Tcp | Needs::Udp | Needs::Sctp | Needs::Icmp | Needs::Icmp6 | Needs::Nd)
                    || matches!(field.needs, Needs::Ns | Needs::Na)
            });
            let words: &[&str] = if ports || self.says_icmp_type() {
                &["no", "first", "not_later"]
            } else {
                &["no", "first", "later", "yes", "not_later"]
            };
            self.frag = Some(rng.pick(words));
        }
    }

    /// What the actions may rely on: a later fragment has no ports.
    pub(crate) fn known_proto(&self) -> Proto {
        match (self.frag, self.proto) {
            (Some("later" | "yes"), Proto::Of(kind)) => Proto::Of(if kind.is_v6() { Kind::Ip6 } else { Kind::Ip }),
            (_, proto) => proto,
        }
    }

    fn says_icmp_type(&self) -> bool {
        matches!(self.proto, Proto::Of(Kind::Ns | Kind::Na))
    }

    /// In ovs-ofctl's syntax, with a comma behind each item.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if self.proto != Proto::Any {
            text += self.proto.text();
            text.push(',');
        }
        if let Some(port) = self.in_port {
            let name = if port == LOCAL { "LOCAL".to_owned() } else { port.to_string() };
            text += &format!("in_port={name},");
        }
        for (field, value, mask) in &self.fields {
            text += &format!("{}={},", field.matched, field.masked(*value, *mask));
        }
        if let Some(word) = self.frag {
            text += &format!("nw_frag={word},");
        }
        text
    }

    /// Changes a packet so that it fits, as far as its headers can.
    pub(crate) fn fit(&self, frame: &mut Frame, rng: &mut Rng) {
        match self.frag {
            Some("first") => (frame.frag, frame.more) = (0, true),
            Some("later" | "yes") => (frame.frag, frame.more) = (9, false),
            Some(_) => (frame.frag, frame.more) = (0, false),
            None => {}
        }
        if self.frag.is_some() && frame.kind.is_v6() && (frame.frag != 0 || frame.more) {
            frame.ext = vec![44];
        }
        for (field, value, mask) in &self.fields {
            let mix = |old: u128| old & !mask | value;
            let low = |old: u128| u16::try_from(mix(old) & 0xffff).expect("masked");
            let byte = |old: u8| u8::try_from(mix(old.into()) & 0xff).expect("masked");
            let mac = |old: u64| u64::try_from(mix(old.into()) & 0xffff_ffff_ffff).expect("masked");
            match field.matched {
                "dl_src" => frame.smac = mac(frame.smac),
                "dl_dst" => frame.dmac = mac(frame.dmac),
                "vlan_tci" if *value == 0 => frame.vlans.clear(),
                "vlan_tci" | "dl_vlan" | "dl_vlan_pcp" => {
                    if frame.vlans.is_empty() {
                        frame.vlans.push((0x8100, 0));
                    }
                    let tci = &mut frame.vlans[0].1;
                    *tci = match field.matched {
                        "dl_vlan" => *tci & 0xf000 | low(0),
                        "dl_vlan_pcp" => *tci & 0x1fff | low(0) << 13,
                        _ => low((*tci).into()) & 0xefff,
                    };
                }
                "arp_op" => frame.op = low(0),
                "arp_spa" | "nw_src" | "ipv6_src" => frame.src = mix(frame.src),
                "arp_tpa" | "nw_dst" | "ipv6_dst" => frame.dst = mix(frame.dst),
                "arp_sha" => frame.sha = mac(frame.sha),
                "arp_tha" => frame.tha = mac(frame.tha),
                "ipv6_label" => frame.label = u32::try_from(mix(frame.label.into())).expect("20 bits"),
                "ip_dscp" => frame.tos = frame.tos & 3 | byte(0) << 2,
                "nw_ecn" => frame.tos = frame.tos & !3 | byte(0),
                "nw_ttl" => frame.ttl = byte(0),
                "tp_src" => frame.sport = low(frame.sport.into()),
                "tp_dst" => frame.dport = low(frame.dport.into()),
                "tcp_flags" => frame.flags = low(frame.flags.into()),
                "icmp_type" => frame.icmp.0 = byte(0),
                "icmp_code" => frame.icmp.1 = byte(0),
                "nd_target" => frame.target = mix(frame.target),
                "nd_sll" => frame.sll = Some(mac(frame.sll.unwrap_or(0))),
                "nd_tll" => frame.tll = Some(mac(frame.tll.unwrap_or(0))),
                _ => {}
            }
        }
        let _ = rng;
    }
}

impl FieldDef {
    /// Whether a match cannot have both.
    fn overlaps(&self, other: &Self) -> bool {
        let registers = |field: &Self| -> Option<(u32, u32)> {
            let wide = field.matched.strip_prefix("xxreg").map(|n| (n, 4));
            let (number, width) = wide
                .or_else(|| field.matched.strip_prefix("xreg").map(|n| (n, 2)))
                .or_else(|| field.matched.strip_prefix("reg").map(|n| (n, 1)))?;
            let first = number.parse::<u32>().ok()? * width;
            Some((first, first + width))
        };
        match (registers(self), registers(other)) {
            (Some(a), Some(b)) => a.0 < b.1 && b.0 < a.1,
            _ => self.matched == other.matched,
        }
    }
}

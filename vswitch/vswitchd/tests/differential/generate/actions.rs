//! Random action lists, such that Open vSwitch accepts them.

use super::fields::{FIELDS, FieldDef, Needs, Proto};
use super::rng::Rng;
use super::universe::Universe;
use crate::frame::Kind;
use crate::subject::PORTS;

/// What a program uses. Each one uses some of it only: so that more different combinations meet.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Features {
    pub(crate) groups: bool,
    pub(crate) meters: bool,
    pub(crate) learn: bool,
    pub(crate) conjunctions: bool,
    pub(crate) controller: bool,
    pub(crate) normal: bool,
    pub(crate) action_sets: bool,
    pub(crate) hashes: bool,
    pub(crate) backward: bool,
    pub(crate) timeouts: bool,
    /// Tags are pushed and popped; else there may be select groups (deviation
    /// select-groups-do-not-recirculate).
    pub(crate) vlans: bool,
}

impl Features {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        // Together they meet deviations: tags and select groups, meters and copies of packets.
        let vlans = rng.chance(60);
        let meters = !vlans && rng.chance(40);
        Self {
            groups: !meters && rng.chance(60),
            meters,
            learn: rng.chance(40),
            conjunctions: rng.chance(40),
            controller: rng.chance(40),
            normal: rng.chance(25),
            action_sets: rng.chance(40),
            hashes: rng.chance(25),
            backward: rng.chance(40),
            timeouts: rng.chance(30),
            vlans,
        }
    }
}

/// Where an action list stands.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) features: Features,
    pub(crate) universe: &'a Universe,
    /// Of the flow; none: a bucket, where nothing is checked.
    pub(crate) proto: Option<Proto>,
    /// VLAN tags that are known to be there.
    pub(crate) tags: u8,
    /// The flow's table, and the last one of the program.
    pub(crate) table: u8,
    pub(crate) last_table: u8,
    /// Groups that may be used.
    pub(crate) groups: &'a [u32],
    pub(crate) meters: &'a [u32],
    /// `learn` actions that may be used, and only by flows of this protocol.
    pub(crate) learns: &'a [(Proto, String)],
    /// Inside a clone.
    pub(crate) nested: bool,
}

impl Place<'_> {
    fn met(&self, needs: Needs) -> bool {
        match self.proto {
            Some(proto) => needs.met(proto, self.tags > 0),
            None => !matches!(needs, Needs::Vlan),
        }
    }

    /// Actions and instructions of a flow.
    pub(crate) fn flow(&mut self, rng: &mut Rng) -> String {
        if rng.chance(3) {
            return "drop".to_owned();
        }
        let mut actions = Vec::new();
        if self.features.meters && !self.meters.is_empty() && rng.chance(15) {
            actions.push(format!("meter:{}", rng.pick(self.meters)));
        }
        actions.extend(self.list(rng, 5));
        if rng.chance(35) {
            actions.push(self.output(rng));
        }
        let (table, last) = (usize::from(self.table), usize::from(self.last_table));
        if self.features.action_sets && rng.chance(40) {
            if rng.chance(15) {
                actions.push("clear_actions".to_owned());
            }
            if rng.chance(80) {
                actions.push(format!("write_actions({})", self.action_set(rng)));
            }
        }
        if rng.chance(10) {
            actions.push(format!("write_metadata:{:#x}/{:#x}", rng.next() & 0xf, 0xf));
        }
        if table < last && rng.chance(65) {
            let to = if rng.chance(60) { table + 1 } else { rng.between(table + 1, last) };
            actions.push(format!("goto_table:{to}"));
        }
        if actions.is_empty() { "drop".to_owned() } else { actions.join(",") }
    }

    /// A list of up to so many actions.
    pub(crate) fn list(&mut self, rng: &mut Rng, most: usize) -> Vec<String> {
        (0..rng.between(1, most)).filter_map(|_| self.action(rng)).collect()
    }

    /// One action; none if it cannot stand here.
    fn action(&mut self, rng: &mut Rng) -> Option<String> {
        Some(match rng.below(100) {
            0..24 => self.output(rng),
            24..44 => return self.set_field(rng),
            44..50 => return self.load(rng),
            50..56 => return self.transfer(rng),
            56..62 => return self.vlan(rng),
            62..66 if self.met(Needs::Ip) => rng.pick(&["dec_ttl", "mod_nw_ttl:9", "mod_nw_ttl:1"]).to_owned(),
            66..78 => return self.resubmit(rng),
            78..84 if self.features.groups && !self.groups.is_empty() => format!("group:{}", rng.pick(self.groups)),
            84..87 => return self.stack(rng),
            87..89 if !self.nested && !self.features.meters => {
                let (nested, tags) = (self.nested, self.tags);
                self.nested = true;
                let inner = self.list(rng, 3).join(",");
                (self.nested, self.tags) = (nested, tags);
                if inner.is_empty() {
                    return None;
                }
                format!("clone({inner})")
            }
            89..93 => return self.learn(rng),
            93..95 if self.features.hashes => return self.hash(rng),
            95 if self.proto.is_some() => {
                format!("check_pkt_larger({})->NXM_NX_REG0[{}]", rng.between(40, 130), rng.below(32))
            }
            96 => "note:01.02.03".to_owned(),
            97 if rng.chance(30) => "exit".to_owned(),
            98 => return self.mod_old(rng),
            _ => return None,
        })
    }

    fn output(&mut self, rng: &mut Rng) -> String {
        let port = rng.between(1, PORTS as usize);
        match rng.below(40) {
            0 => "IN_PORT".to_owned(),
            1 => "LOCAL".to_owned(),
            2 => rng.pick(&["ALL", "FLOOD"]).to_owned(),
            3 => "output:99".to_owned(),
            4 => format!("output(port={port},max_len={})", rng.between(14, 90)),
            5 => {
                rng.pick(&["output:NXM_NX_REG1[0..15]", "output:NXM_NX_REG0[0..2]", "output:NXM_NX_REG1[]"]).to_owned()
            }
            6..10 if self.features.normal => "NORMAL".to_owned(),
            10..14 if self.features.controller => self.controller(rng),
            _ => format!("output:{port}"),
        }
    }

    fn controller(&mut self, rng: &mut Rng) -> String {
        let forms = [
            "controller",
            "CONTROLLER:100",
            "controller(reason=no_match)",
            "controller(userdata=01.02.03)",
            "controller(id=62373,userdata=09)",
            "controller(max_len=20,reason=action)",
        ];
        rng.pick(&forms).to_owned()
    }

    fn fields(&self, ready: impl Fn(&FieldDef) -> bool) -> Vec<&'static FieldDef> {
        FIELDS.iter().filter(|field| ready(field) && self.met(field.needs)).collect()
    }

    fn set_field(&self, rng: &mut Rng) -> Option<String> {
        let fields = self.fields(|field| !field.set.is_empty());
        // Headers and metadata alike, though there are more kinds of the one than of the other.
        let metadata = rng.chance(40);
        let some = fields.iter().copied().filter(|field| field.is_metadata() == metadata).collect::<Vec<_>>();
        let field = rng.pick(if some.is_empty() { &fields } else { &some });
        let mask = field.random_mask(rng);
        let value = self.universe.value(field, rng) & mask;
        Some(format!("set_field:{}->{}", field.masked(value, mask), field.set))
    }

    fn subfield(&self, field: &FieldDef, len: u32, rng: &mut Rng) -> String {
        let start = rng.below(usize::try_from(field.width - len + 1).expect("small"));
        field.bits(u32::try_from(start).expect("small"), len)
    }

    fn random_len(width: u32, rng: &mut Rng) -> u32 {
        if rng.chance(50) { width } else { u32::try_from(rng.between(1, width as usize)).expect("small") }
    }

    fn load(&self, rng: &mut Rng) -> Option<String> {
        let field = rng.pick(&self.fields(|field| !field.sub.is_empty() && !field.set.is_empty()));
        let len = Self::random_len(field.width.min(64), rng);
        // Printed with a mask (deviation load-of-a-whole-field).
        if len == field.width && len % 8 != 0 {
            return None;
        }
        let value = self.universe.value(field, rng) & (u128::MAX >> (128 - len));
        Some(format!("load:{value:#x}->{}", self.subfield(field, len, rng)))
    }

    fn transfer(&self, rng: &mut Rng) -> Option<String> {
        let from = rng.pick(&self.fields(|field| !field.sub.is_empty()));
        let to = rng.pick(&self.fields(|field| !field.sub.is_empty() && !field.set.is_empty()));
        let len = Self::random_len(from.width.min(to.width), rng);
        Some(format!("move:{}->{}", self.subfield(from, len, rng), self.subfield(to, len, rng)))
    }

    fn vlan(&mut self, rng: &mut Rng) -> Option<String> {
        if !self.features.vlans {
            return None;
        }
        if self.tags > 0 && rng.chance(50) {
            self.tags -= 1;
            return Some("pop_vlan".to_owned());
        }
        // Above two tags it is up to the datapath how much of a packet it keeps.
        if self.tags < 2 {
            self.tags += 1;
            return Some(format!("push_vlan:{}", rng.pick(&["0x8100", "0x8100", "0x88a8"])));
        }
        None
    }

    fn resubmit(&self, rng: &mut Rng) -> Option<String> {
        let (table, last) = (usize::from(self.table), usize::from(self.last_table));
        // Short loops only: deviation 64-kb-of-actions.
        let loops = self.features.backward && last <= 1 && !self.features.controller && !self.features.groups;
        let to = if loops && rng.chance(20) {
            rng.between(0, table)
        } else if self.proto.is_none() {
            last
        } else if table < last && rng.chance(60) {
            table + 1
        } else if table < last {
            rng.between(table + 1, last)
        } else {
            return None;
        };
        let port = if rng.chance(15) { rng.between(1, PORTS as usize).to_string() } else { String::new() };
        Some(format!("resubmit({port},{to})"))
    }

    fn stack(&self, rng: &mut Rng) -> Option<String> {
        if rng.chance(50) {
            let field = rng.pick(&self.fields(|field| !field.sub.is_empty()));
            let len = Self::random_len(field.width, rng);
            return Some(format!("push:{}", self.subfield(field, len, rng)));
        }
        let field = rng.pick(&self.fields(|field| !field.sub.is_empty() && !field.set.is_empty()));
        let len = Self::random_len(field.width, rng);
        Some(format!("pop:{}", self.subfield(field, len, rng)))
    }

    fn learn(&self, rng: &mut Rng) -> Option<String> {
        let usable = |proto: &Proto| *proto == Proto::Any || Some(*proto) == self.proto;
        let learns = self.learns.iter().filter(|(proto, _)| usable(proto)).collect::<Vec<_>>();
        if learns.is_empty() || self.proto.is_none() { None } else { Some(rng.pick(&learns).1.clone()) }
    }

    fn hash(&self, rng: &mut Rng) -> Option<String> {
        let fields =
            ["eth_src", "symmetric_l4", "symmetric_l3l4", "symmetric_l3l4+udp", "nw_src", "nw_dst", "symmetric_l3"];
        let fields = rng.pick(&fields);
        let basis = rng.below(1000);
        Some(match rng.below(3) {
            0 => {
                let algorithm = rng.pick(&["modulo_n", "hash_threshold", "hrw"]);
                let links = rng.between(1, 8);
                format!("multipath({fields},{basis},{algorithm},{links},0,NXM_NX_REG1[0..7])")
            }
            1 => format!("bundle({fields},{basis},{},ofport,members:2,3,4)", rng.pick(&["hrw", "active_backup"])),
            _ => format!("bundle_load({fields},{basis},hrw,ofport,NXM_NX_REG1[0..15],members:1,2,5)"),
        })
    }

    /// The actions of OpenFlow 1.0.
    fn mod_old(&self, rng: &mut Rng) -> Option<String> {
        Some(match rng.below(3) {
            0 if self.met(Needs::V4) => "mod_nw_src:10.9.9.9".to_owned(),
            1 if self.met(Needs::Ip) => "mod_nw_tos:40".to_owned(),
            _ => "mod_dl_dst:02:00:00:00:99:99".to_owned(),
        })
    }

    fn action_set(&mut self, rng: &mut Rng) -> String {
        let tags = self.tags;
        let mut actions = Vec::new();
        if rng.chance(50) {
            actions.extend(self.set_field(rng));
        }
        if self.met(Needs::Ip) && rng.chance(15) {
            actions.push("dec_ttl".to_owned());
        }
        if tags < 2 && self.features.vlans && rng.chance(15) {
            actions.push("push_vlan:0x8100".to_owned());
        }
        if self.features.groups && !self.groups.is_empty() && rng.chance(20) {
            actions.push(format!("group:{}", rng.pick(self.groups)));
        }
        actions.push(format!("output:{}", rng.between(1, PORTS as usize)));
        self.tags = tags;
        actions.join(",")
    }
}

/// A random `learn` for a table and priority of its own (what it learns never overlaps anything of
/// equal priority), and the protocol of flows that may have it.
pub(crate) fn random_learn(table: u8, priority: usize, timeouts: bool, rng: &mut Rng) -> (Proto, String) {
    let proto = rng.pick(&[
        Proto::Any,
        Proto::Any,
        Proto::Of(Kind::Udp),
        Proto::Of(Kind::Tcp),
        Proto::Of(Kind::Ip),
        Proto::Of(Kind::Udp6),
        Proto::Of(Kind::Arp),
    ]);
    let mut parts = vec![format!("table={table}"), format!("priority={priority}")];
    if rng.chance(30) {
        parts.push(format!("cookie={:#x}", rng.below(256)));
    }
    if timeouts {
        parts.push(format!("{}={}", rng.pick(&["idle_timeout", "hard_timeout"]), rng.between(2, 9)));
    }
    if rng.chance(20) {
        parts.push(format!("limit={}", rng.between(1, 4)));
        parts.push("result_dst=NXM_NX_REG2[3]".to_owned());
    }
    for (percent, word) in [(15, "delete_learned"), (20, "send_flow_rem")] {
        if rng.chance(percent) {
            parts.push(word.to_owned());
        }
    }
    let matches: &[&str] = match proto {
        Proto::Of(Kind::Udp) => &[
            "eth_type=0x800,nw_proto=17,NXM_OF_UDP_DST[]=NXM_OF_UDP_SRC[],NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]",
            "eth_type=0x800,nw_proto=17,NXM_OF_UDP_SRC[],NXM_OF_IP_SRC[0..15]",
        ],
        Proto::Of(Kind::Tcp) => {
            &["eth_type=0x800,nw_proto=6,NXM_OF_TCP_DST[]=NXM_OF_TCP_SRC[],NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]"]
        }
        Proto::Of(Kind::Ip) => {
            &["eth_type=0x800,NXM_OF_IP_SRC[]", "eth_type=0x800,NXM_OF_IP_DST[8..31]=NXM_OF_IP_SRC[8..31]"]
        }
        Proto::Of(Kind::Udp6) => &["eth_type=0x86dd,NXM_NX_IPV6_DST[]=NXM_NX_IPV6_SRC[]"],
        Proto::Of(Kind::Arp) => &["eth_type=0x806,NXM_OF_ARP_TPA[]=NXM_OF_ARP_SPA[]"],
        _ => &["NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]", "NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_SRC[]", "NXM_OF_IN_PORT[]"],
    };
    parts.push(rng.pick(matches).to_owned());
    if rng.chance(30) {
        parts.push("load:NXM_OF_IN_PORT[]->NXM_NX_REG1[0..15]".to_owned());
    }
    if rng.chance(30) {
        parts.push("load:0x5->NXM_NX_REG0[4..7]".to_owned());
    }
    if rng.chance(20) {
        parts.push("load:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]".to_owned());
    }
    if rng.chance(70) {
        parts.push("output:NXM_OF_IN_PORT[]".to_owned());
    }
    (proto, format!("learn({})", parts.join(",")))
}

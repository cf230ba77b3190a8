//! multipath and bundle, with Open vSwitch's hashes: the same packet takes the same way in both.
//!
//! Its hashes run over fields as they lie in memory, in network order, read as words of a
//! little-endian machine. The functions are public ones: lookup3 (Jenkins 2006) and the 32-bit
//! MurmurHash3 (Appleby).

use super::run::{Frame, ListControl, Translator};
use super::view::{View, eth_type, proto};
use vswitch_flow::Field;
use vswitch_flow::action::{Bundle, HashFields, Multipath, MultipathAlgorithm, PortNo, port};

impl Translator<'_, '_> {
    /// `multipath(...)`.
    pub(super) fn multipath(&mut self, multipath: &Multipath) {
        let hash = self.view.hash(multipath.fields, multipath.basis);
        let links = u32::from(multipath.links).max(1);
        let link = match multipath.algorithm {
            MultipathAlgorithm::ModuloN => hash % links,
            MultipathAlgorithm::HashThreshold if links == 1 => 0,
            MultipathAlgorithm::HashThreshold => hash / (u32::MAX / links + 1),
            MultipathAlgorithm::Hrw if links <= 64 => highest_random_weight(hash, links),
            MultipathAlgorithm::Hrw => iterate(hash, links, 0),
            MultipathAlgorithm::IterHash => iterate(hash, links, multipath.arg),
        };
        self.load(multipath.to, u128::from(link));
    }

    /// `bundle(...)` and `bundle_load(...)`.
    pub(super) fn bundle(&mut self, bundle: &Bundle, frame: &Frame<'_>) -> ListControl {
        self.out.deps.links = true;
        let mut members = bundle.members.iter().copied().zip(0..);
        let chosen = if bundle.hrw {
            // One member is no choice.
            let hash = if bundle.members.len() > 1 { self.view.hash(bundle.fields, bundle.basis) } else { 0 };
            let mut best: Option<(PortNo, u32)> = None;
            for (member, i) in members {
                let weight = hash_2words(i, hash);
                if self.is_member_live(member) && best.is_none_or(|(_, highest)| weight > highest) {
                    best = Some((member, weight));
                }
            }
            best.map(|(member, _)| member)
        } else {
            members.find(|(member, _)| self.is_member_live(*member)).map(|(member, _)| member)
        };
        let chosen = chosen.unwrap_or(port::NONE);
        match bundle.to {
            // As a 16-bit number.
            Some(to) => self.load(to, u128::from(chosen & 0xffff)),
            None => return self.output(chosen, frame),
        }
        ListControl::Next
    }

    /// Reserved ports always live, but the controller never.
    fn is_member_live(&self, number: PortNo) -> bool {
        match number {
            port::IN_PORT | port::TABLE | port::NORMAL | port::FLOOD | port::ALL | port::NONE => true,
            port::CONTROLLER => false,
            number => self.is_port_live(number),
        }
    }
}

fn highest_random_weight(hash: u32, links: u32) -> u32 {
    let mut best = (0, hash_2words(hash, 0));
    for link in 1..links {
        let weight = hash_2words(hash, link);
        if weight > best.1 {
            best = (link, weight);
        }
    }
    best.0
}

/// Hashes until the result is a link. At least half of all results are.
fn iterate(hash: u32, links: u32, modulo: u32) -> u32 {
    let usable = links <= modulo && modulo / 2 <= links;
    let modulo = if usable { modulo } else { links.next_power_of_two() };
    let mut link = (0..=u32::MAX).map(|i| hash_2words(hash, i) % modulo);
    link.find(|link| *link < links).unwrap_or(0)
}

impl View {
    /// `flow_hash_fields` of Open vSwitch. What is hashed is used.
    pub(super) fn hash(&mut self, fields: HashFields, basis: u16) -> u32 {
        let basis = u32::from(basis);
        match fields {
            HashFields::EthSrc => jenkins(&self.bytes::<6>(Field::EthSrc), basis),
            HashFields::NwSrc => self.hash_address(Field::NwSrc, Field::Ipv6Src, basis),
            HashFields::NwDst => self.hash_address(Field::NwDst, Field::Ipv6Dst, basis),
            HashFields::SymmetricL3 => self.hash_l3(basis),
            HashFields::SymmetricL3L4 => self.hash_l3l4(basis, false),
            HashFields::SymmetricL3L4Udp => self.hash_l3l4(basis, true),
            HashFields::SymmetricL4 => self.hash_l4(basis),
        }
    }

    fn hash_address(&mut self, v4: Field, v6: Field, basis: u32) -> u32 {
        match self.read(Field::EthType) {
            eth_type::IP => jenkins(&self.bytes::<4>(v4), basis),
            eth_type::IPV6 => jenkins(&self.bytes::<16>(v6), basis),
            _ => basis,
        }
    }

    /// A field's last `N` bytes in network order.
    fn bytes<const N: usize>(&mut self, field: Field) -> [u8; N] {
        tail(self.read(field))
    }

    /// What both directions of a connection have in common of two fields.
    fn both<const N: usize>(&mut self, a: Field, b: Field) -> [u8; N] {
        tail(self.read(a) ^ self.read(b))
    }

    /// Both addresses, in 16 bytes.
    fn addresses(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        match self.read(Field::EthType) {
            eth_type::IP => bytes[..4].copy_from_slice(&self.both::<4>(Field::NwSrc, Field::NwDst)),
            eth_type::IPV6 => bytes = self.both(Field::Ipv6Src, Field::Ipv6Dst),
            _ => {}
        }
        bytes
    }

    fn vlan(&mut self) -> [u8; 2] {
        tail(self.read_bits(Field::VlanTci, 0xfff) ^ self.read_bits(Field::VlanTci1, 0xfff))
    }

    fn hash_l3(&mut self, basis: u32) -> u32 {
        let mut fields = [0; 20];
        fields[..16].copy_from_slice(&self.addresses());
        fields[16..18].copy_from_slice(&self.bytes::<2>(Field::EthType));
        jenkins(&fields, basis)
    }

    fn hash_l4(&mut self, basis: u32) -> u32 {
        let mut fields = [0; 32];
        fields[..16].copy_from_slice(&self.addresses());
        fields[16..18].copy_from_slice(&self.bytes::<2>(Field::EthType));
        fields[18..20].copy_from_slice(&self.vlan());
        fields[22..28].copy_from_slice(&self.both::<6>(Field::EthSrc, Field::EthDst));
        if self.is_ip() {
            let [protocol] = self.bytes(Field::NwProto);
            fields[28] = protocol;
            if matches!(u128::from(protocol), proto::TCP | proto::SCTP) {
                fields[20..22].copy_from_slice(&self.both::<2>(Field::TpSrc, Field::TpDst));
            }
        }
        jenkins(&fields, basis)
    }

    fn hash_l3l4(&mut self, basis: u32, udp: bool) -> u32 {
        let mut hash = basis;
        if !self.is_ip() {
            let mut fields = [0; 12];
            fields[..2].copy_from_slice(&self.bytes::<2>(Field::EthType));
            fields[2..4].copy_from_slice(&self.vlan());
            fields[4..10].copy_from_slice(&self.both::<6>(Field::EthSrc, Field::EthDst));
            words(&fields).for_each(|word| hash = murmur_add(hash, word));
            return murmur_finish(hash ^ basis);
        }
        let len = if self.read(Field::EthType) == eth_type::IP { 4 } else { 16 };
        words(&self.addresses()[..len]).for_each(|word| hash = murmur_add(hash, word));
        let protocol = self.read(Field::NwProto);
        hash = murmur_add(hash, u32::from(tail::<1>(protocol)[0]));
        let ports = matches!(protocol, proto::TCP | proto::SCTP) || udp && protocol == proto::UDP;
        if ports && self.read_bits(Field::NwFrag, 3) == 0 {
            let ports = u16::from_le_bytes(self.both(Field::TpSrc, Field::TpDst));
            hash = murmur_add(hash, u32::from(ports));
        }
        murmur_finish(hash ^ basis)
    }
}

/// The last `N` bytes of a number, most significant first.
fn tail<const N: usize>(value: u128) -> [u8; N] {
    let bytes = value.to_be_bytes();
    std::array::from_fn(|i| bytes[16 - N + i])
}

/// Bytes as little-endian words, filled up with zeros.
fn words(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    })
}

/// lookup3 over bytes. As in Open vSwitch, a last block that is full gets no final mix.
fn jenkins(bytes: &[u8], basis: u32) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // 32 bytes at most
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(basis);
    let mut state = [start; 3];
    for block in bytes.chunks(12) {
        for (slot, word) in state.iter_mut().zip(words(block)) {
            *slot = slot.wrapping_add(word);
        }
        let [mut a, mut b, mut c] = state;
        let rotate = |x: u32, y: u32, by: u32| x ^ y.rotate_left(by);
        if block.len() == 12 {
            for (first, second, third) in [(4, 6, 8), (16, 19, 4)] {
                a = rotate(a.wrapping_sub(c), c, first);
                c = c.wrapping_add(b);
                b = rotate(b.wrapping_sub(a), a, second);
                a = a.wrapping_add(c);
                c = rotate(c.wrapping_sub(b), b, third);
                b = b.wrapping_add(a);
            }
        } else {
            let step = |x: u32, y: u32, by: u32| (x ^ y).wrapping_sub(y.rotate_left(by));
            c = step(c, b, 14);
            a = step(a, c, 11);
            b = step(b, a, 25);
            c = step(c, b, 16);
            a = step(a, c, 4);
            b = step(b, a, 14);
            c = step(c, b, 24);
        }
        state = [a, b, c];
    }
    state[2]
}

const fn murmur_add(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

const fn murmur_finish(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

const fn hash_2words(x: u32, y: u32) -> u32 {
    murmur_finish(murmur_add(murmur_add(x, 0), y) ^ 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_flow::FlowKey;
    use vswitch_flow::text::{NoNames, parse_key};

    fn key(text: &str) -> FlowKey {
        parse_key(text, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// What `multipath(FIELDS,50+i,ALGORITHM,...)` of Open vSwitch 3.1.0 put into a register, for
    /// all fields and the algorithms modulo_n 65536, hash_threshold 1000, hrw 50, hrw 100,
    /// iter_hash 1000 with 1500.
    #[test]
    fn equals_open_vswitch() {
        let ip = "nw_src=10.0.0.1,nw_dst=10.0.0.2,nw_ttl=64,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02";
        let tcp6 = "in_port=1,tcp6,ipv6_src=fd00::1,ipv6_dst=fd00:1:2:3:4:5:6:7,dl_src=02:00:00:00:00:01,\
                    dl_dst=02:00:00:00:00:02,tcp_src=1234,tcp_dst=80";
        let udp = "in_port=1,udp,nw_src=10.1.2.3,nw_dst=192.168.7.9,dl_src=02:00:00:00:12:34,\
                   dl_dst=02:00:00:00:00:99,udp_src=5353,udp_dst=53,vlan_tci=0x7123";
        let arp = "in_port=1,arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_op=1,dl_src=02:00:00:00:00:01,\
                   dl_dst=ff:ff:ff:ff:ff:ff";
        let other = "in_port=1,dl_type=0x1234,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,vlan_tci=0x1005";
        let cases = [
            (
                format!("in_port=1,tcp,{ip},tcp_src=1234,tcp_dst=80"),
                "0xb17f 0x11b 0x16 0x3b 0x1bd 0x7f00 0x1d7 0x1d 0x13 0x1bc 0x9fe4 0x34b 0x10 0x20 0x217 0x9fe4 0x34b 0x10 \
                 0x20 0x217 0x3000 0x151 0x9 0xc 0x194 0xfcfb 0x47 0x26 0xe 0x345 0xb195 0x79 0x18 0x59 0x3e",
            ),
            (
                tcp6.to_owned(),
                "0xb17f 0x11b 0x16 0x3b 0x1bd 0x79e8 0xcb 0xf 0xb 0xc9 0x453c 0xdf 0x10 0x30 0x1aa 0x453c 0xdf 0x10 0x30 \
                 0x1aa 0xa7ff 0x79 0x22 0x51 0x5c 0x62ca 0x1c0 0x19 0x2e 0x2ba 0x399d 0x305 0x14 0x3 0x2f1",
            ),
            (
                udp.to_owned(),
                "0xd186 0x22 0x6 0x16 0xcf 0x50a4 0x37f 0xf 0x11 0x25 0xd785 0x9a 0xf 0x49 0xc8 0xb56b 0x299 0x1e 0xe \
                 0x27e 0xc892 0x3ad 0x2b 0x1a 0x274 0x7c3b 0x92 0x1c 0x15 0x2ad 0x8ce7 0x9 0x5 0x9 0x27e",
            ),
            (
                arp.to_owned(),
                "0xb17f 0x11b 0x16 0x3b 0x1bd 0x99f7 0x12e 0x19 0x57 0x246 0x6506 0x78 0x25 0x57 0xb5 0x6506 0x78 0x25 \
                 0x57 0xb5 0x32 0 0x5 0x3b 0x3d8 0x32 0 0x5 0x3b 0x3d8 0x7f81 0x2d4 0x20 0x53 0x59",
            ),
            (
                format!("in_port=1,icmp,{ip},icmp_type=8"),
                "0xb17f 0x11b 0x16 0x3b 0x1bd 0x15dc 0x2e9 0xe 0x37 0x26b 0x5fb6 0x327 0x21 0x1a 0x1f5 0x5fb6 0x327 0x21 \
                 0x1a 0x1f5 0x3000 0x151 0x9 0xc 0x194 0xfcfb 0x47 0x26 0xe 0x345 0xb195 0x79 0x18 0x59 0x3e",
            ),
            (
                other.to_owned(),
                "0xb17f 0x11b 0x16 0x3b 0x1bd 0xd1d9 0x350 0x2d 0x60 0x1ea 0xf004 0x19f 0x9 0x7 0x170 0xf004 0x19f 0x9 \
                 0x7 0x170 0x32 0 0x5 0x3b 0x3d8 0x32 0 0x5 0x3b 0x3d8 0x2484 0x48 0x23 0x20 0xa1",
            ),
            (
                format!("in_port=1,sctp,{ip},sctp_src=1,sctp_dst=2,nw_frag=first"),
                "0xb17f 0x11b 0x16 0x3b 0x1bd 0xd695 0x257 0xe 0x62 0x39a 0x91aa 0xa2 0x21 0x5 0xcb 0x91aa 0xa2 0x21 0x5 \
                 0xcb 0x3000 0x151 0x9 0xc 0x194 0xfcfb 0x47 0x26 0xe 0x345 0xb195 0x79 0x18 0x59 0x3e",
            ),
        ];
        for (packet, expected) in cases {
            let mut view = View::new(&key(&packet));
            let mut results = Vec::new();
            for fields in HashFields::ALL {
                let mut hash = |i: u16| view.hash(fields, 50 + i);
                results.push(hash(0) % 65536);
                results.push(hash(1) / (u32::MAX / 1000 + 1));
                results.push(highest_random_weight(hash(2), 50));
                results.push(iterate(hash(3), 100, 0));
                results.push(iterate(hash(4), 1000, 1500));
            }
            let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number");
            let expected: Vec<u32> = expected.split_whitespace().map(number).collect();
            assert_eq!(results, expected, "{packet}");
        }
    }
}

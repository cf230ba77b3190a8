//! The few values that a program and its packets share, so that they meet.

use super::fields::{FieldDef, Form};
use super::rng::Rng;

/// Values by kind of field.
#[derive(Clone, Debug)]
pub(crate) struct Universe {
    pub(crate) macs: Vec<u64>,
    pub(crate) v4: Vec<u32>,
    pub(crate) v6: Vec<u128>,
    pub(crate) ports: Vec<u16>,
    pub(crate) vids: Vec<u16>,
    pub(crate) numbers: Vec<u128>,
}

impl Universe {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let low = |rng: &mut Rng, bits: u32| rng.next() >> (64 - bits);
        let mut macs = vec![0xffff_ffff_ffff, 0x0100_5e00_0001];
        macs.extend((0..5).map(|i| 0x0200_0000_0000 | low(rng, 8) << 8 | i));
        let net = 0x0a00_0000 | u32::try_from(low(rng, 8)).expect("8 bits") << 16;
        let mut v4: Vec<u32> = (1..5).map(|i| net | i).collect();
        v4.extend([net | 0x0101, 0xc0a8_0001, 0xe000_0001]);
        let net = 0xfd00_u128 << 112 | u128::from(low(rng, 16)) << 80;
        let mut v6: Vec<u128> = (1..5).map(|i| net | i).collect();
        v6.extend([net | 1 << 64 | 1, 0xff02 << 112 | 1]);
        let mut ports = vec![53, 80, 443, 0x8000];
        ports.extend((0..3).map(|_| u16::try_from(low(rng, 16)).expect("16 bits")));
        let vids = (0..3).map(|_| u16::try_from(low(rng, 12)).expect("12 bits")).collect();
        Self { macs, v4, v6, ports, vids, numbers: vec![0, 1, 2, 3, 5, 0x10, 0xff] }
    }

    pub(crate) fn mac(&self, rng: &mut Rng) -> u64 {
        rng.pick(&self.macs)
    }

    pub(crate) fn v4(&self, rng: &mut Rng) -> u128 {
        u128::from(rng.pick(&self.v4))
    }

    pub(crate) fn v6(&self, rng: &mut Rng) -> u128 {
        rng.pick(&self.v6)
    }

    pub(crate) fn port(&self, rng: &mut Rng) -> u16 {
        rng.pick(&self.ports)
    }

    /// A TCI with the bit that says that there is a tag.
    pub(crate) fn tci(&self, rng: &mut Rng) -> u16 {
        let pcp = u16::try_from(rng.pick(&[0, 0, 3, 7])).expect("small");
        rng.pick(&self.vids) | pcp << 13 | 0x1000
    }

    /// A value for a field.
    pub(crate) fn value(&self, field: &FieldDef, rng: &mut Rng) -> u128 {
        if field.is_metadata() && rng.chance(85) {
            // Two values for each: what one flow sets another one matches.
            let seed = field.matched.bytes().fold(self.v6[0], |seed, byte| seed.wrapping_mul(31) ^ u128::from(byte));
            return (seed >> (8 * rng.below(2))) & field.ones() & 0xffff;
        }
        let value = match field.form {
            Form::Mac => u128::from(self.mac(rng)),
            Form::V4 => self.v4(rng),
            Form::V6 => self.v6(rng),
            Form::Number => self.number(field, rng),
        };
        value & field.ones()
    }

    fn number(&self, field: &FieldDef, rng: &mut Rng) -> u128 {
        match (field.matched, field.set) {
            ("tp_src" | "tp_dst", _) => u128::from(self.port(rng)),
            ("tcp_flags", _) => rng.pick(&[0x2, 0x10, 0x12, 0x11, 0x14, 0x18]),
            ("vlan_tci", _) => u128::from(if rng.chance(20) { 0 } else { self.tci(rng) }),
            ("dl_vlan", _) => u128::from(rng.pick(&self.vids)),
            (_, "vlan_vid") => u128::from(rng.pick(&self.vids) | 0x1000),
            ("nw_ttl", _) => rng.pick(&[1, 2, 63, 64, 255]),
            ("ip_dscp", _) => rng.pick(&[0, 10, 46]),
            ("arp_op", _) => rng.pick(&[1, 2]),
            ("icmp_type" | "", "icmp_type" | "icmpv6_type") => rng.pick(&[0, 3, 8, 128, 129]),
            ("ipv6_label", _) => rng.pick(&[0, 0x12345, 0xfffff]),
            _ if rng.chance(10) => rng.wide(),
            _ => rng.pick(&self.numbers),
        }
    }
}

//! What clauses match, as values: there may be millions, and text is slow.

use crate::{Cidr, Family};
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_flow::{Field, FlowKey, FlowMask, SparseMatch};

/// `ct_state=+new`
const NEW: u128 = 0x01;
const ETH_IPV4: u128 = 0x0800;
const ETH_IPV6: u128 = 0x86dd;

/// A match that is being made.
#[derive(Clone)]
pub(super) struct Head {
    key: FlowKey,
    mask: FlowMask,
}

impl Head {
    /// `` (anything)
    pub(super) fn any() -> Self {
        Self { key: FlowKey::default(), mask: FlowMask::default() }
    }

    /// `ip`
    pub(super) fn ip(family: Family) -> Self {
        let eth_type = match family {
            Family::V4 => ETH_IPV4,
            Family::V6 => ETH_IPV6,
        };
        Self::any().with(Field::EthType, eth_type)
    }

    /// All of a field.
    pub(super) fn with(self, field: Field, value: u128) -> Self {
        self.bits(field, value, field.ones())
    }

    /// Some bits of a field.
    pub(super) fn bits(mut self, field: Field, value: u128, mask: u128) -> Self {
        self.key.set_masked(field, value, mask);
        self.mask.set_masked(field, mask, mask);
        self
    }

    /// `ct_state=+new`
    pub(super) fn new_connection(self) -> Self {
        self.bits(Field::CtState, NEW, NEW)
    }

    pub(super) fn matching(&self) -> Arc<SparseMatch> {
        Arc::new(SparseMatch::new(&self.key, &self.mask))
    }
}

/// Which address of a packet is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
    /// Where the connection's first packet came from, before anybody translated it.
    First,
}

impl End {
    const fn field(self, family: Family) -> Field {
        match (self, family) {
            (Self::Source, Family::V4) => Field::NwSrc,
            (Self::Source, Family::V6) => Field::Ipv6Src,
            (Self::Destination, Family::V4) => Field::NwDst,
            (Self::Destination, Family::V6) => Field::Ipv6Dst,
            (Self::First, Family::V4) => Field::CtNwSrc,
            (Self::First, Family::V6) => Field::CtIpv6Src,
        }
    }
}

/// Matches of addresses at one end.
pub(crate) struct Addresses {
    end: End,
    heads: [Head; 2],
}

impl Addresses {
    pub(crate) fn new(end: End) -> Self {
        let head = |family| if end == End::First { Head::ip(family).new_connection() } else { Head::ip(family) };
        Self { end, heads: Family::BOTH.map(head) }
    }

    /// `ip,nw_src=10.0.0.0/8`
    pub(crate) fn of(&mut self, cidr: &Cidr) -> Arc<SparseMatch> {
        let family = cidr.family();
        let field = self.end.field(family);
        let head = &mut self.heads[family as usize];
        let (value, mask) = value_and_mask(cidr);
        head.key.set(field, value);
        head.mask.set(field, mask);
        head.matching()
    }
}

fn value_and_mask(cidr: &Cidr) -> (u128, u128) {
    let (value, bits) = match cidr.address() {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    };
    let ones = u128::MAX >> (128 - bits);
    let behind = bits - u32::from(cidr.length());
    (value, if behind == 128 { 0 } else { ones >> behind << behind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vswitch_flow::text::{NoNames, parse_match};

    fn text(text: &str) -> SparseMatch {
        parse_match(text, &NoNames).unwrap_or_else(|error| panic!("{text}: {error}")).value
    }

    #[test]
    fn values_are_what_text_says() {
        for (end, cidr, wanted) in [
            (End::Source, "10.0.0.0/8", "ip,nw_src=10.0.0.0/8"),
            (End::Source, "0.0.0.0/0", "ip"),
            (End::Destination, "10.0.0.1/32", "ip,nw_dst=10.0.0.1"),
            (End::First, "10.0.0.0/8", "ct_state=+new,ip,ct_nw_src=10.0.0.0/8"),
            (End::Source, "fd00::/64", "ipv6,ipv6_src=fd00::/64"),
            (End::Destination, "fd00::1/128", "ipv6,ipv6_dst=fd00::1"),
            (End::Destination, "::/0", "ipv6"),
            (End::First, "fd00::/64", "ct_state=+new,ipv6,ct_ipv6_src=fd00::/64"),
        ] {
            let cidr: Cidr = cidr.parse().unwrap_or_else(|error| panic!("{error}"));
            let mut addresses = Addresses::new(end);
            // One after another: nothing of the first is left.
            let other: Cidr = if cidr.family() == Family::V4 { "192.168.77.0/24" } else { "2001:db8::/32" }
                .parse()
                .unwrap_or_else(|error| panic!("{error}"));
            addresses.of(&other);
            assert_eq!(*addresses.of(&cidr), text(wanted), "{wanted}");
        }
        assert_eq!(*Head::any().with(Field::Reg1, 0x25).matching(), text("reg1=0x25"));
    }
}

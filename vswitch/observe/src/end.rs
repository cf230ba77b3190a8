//! What one end of an observation is to be.

use crate::reading::{Reading, name_fits};
use std::net::IpAddr;
use vswitch_proto::antrea::v1::{EndFilter, Name, Observation};

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// Bits behind the length are 0.
    bits: u128,
    length: u32,
    is_v6: bool,
}

const fn bits(address: IpAddr) -> (u128, bool) {
    match address {
        // As the highest bits, so that both families have their prefix at the same end.
        IpAddr::V4(v4) => ((v4.to_bits() as u128) << 96, false),
        IpAddr::V6(v6) => (v6.to_bits(), true),
    }
}

const fn mask(length: u32) -> u128 {
    match u128::MAX.checked_shl(128 - length) {
        Some(mask) => mask,
        None => 0,
    }
}

impl Block {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let (bits, is_v6) = bits(address.parse().ok()?);
        let longest = if is_v6 { 128 } else { 32 };
        let length = length.map_or(Some(longest), |length| length.parse().ok()).filter(|length| *length <= longest)?;
        Some(Self { bits: bits & mask(length), length, is_v6 })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let (bits, is_v6) = bits(address);
        is_v6 == self.is_v6 && bits & mask(self.length) == self.bits
    }
}

/// A name in a namespace, or in any.
#[derive(Clone, Debug)]
pub(crate) struct Scoped {
    /// None: any.
    scope: Option<String>,
    name: String,
}

impl Scoped {
    /// Of "scope/name" or "name".
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scope, name) = text.split_once('/').map_or((None, text), |(scope, name)| (Some(scope.to_owned()), name));
        let is_good = !name.is_empty() && scope.as_deref() != Some("");
        is_good.then(|| Self { scope, name: name.to_owned() })
    }

    /// A name may end with `*`.
    pub(crate) fn fits(&self, scope: &str, name: &str) -> bool {
        !name.is_empty() && self.scope.as_deref().is_none_or(|own| own == scope) && name_fits(&self.name, name)
    }
}

/// An [`EndFilter`], parsed.
#[derive(Debug, Default)]
pub(crate) struct End {
    pods: Vec<Scoped>,
    namespaces: Vec<String>,
    blocks: Vec<Block>,
    ports: Vec<u32>,
    labels: Vec<(String, Option<String>)>,
    workloads: Vec<Scoped>,
}

/// An end of an observation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndFacts<'a> {
    name: Option<&'a Name>,
    addresses: [Option<IpAddr>; 2],
    port: u32,
    other_port: u32,
}

impl<'a> EndFacts<'a> {
    pub(crate) fn source(observation: &'a Observation) -> Self {
        let tuple = observation.tuple.as_ref();
        Self {
            name: observation.source.as_ref(),
            addresses: [tuple.and_then(|tuple| crate::address(&tuple.src)), None],
            port: tuple.map_or(0, |tuple| tuple.src_port),
            other_port: 0,
        }
    }

    /// A Service's address is the receiver as well as the endpoint that was chosen.
    pub(crate) fn destination(observation: &'a Observation) -> Self {
        let tuple = observation.tuple.as_ref();
        let spoken_to = tuple.and_then(|tuple| crate::address(&tuple.dst));
        Self {
            name: observation.destination.as_ref(),
            addresses: [spoken_to, crate::address(&observation.endpoint_address)],
            port: tuple.map_or(0, |tuple| tuple.dst_port),
            other_port: observation.endpoint_port,
        }
    }
}

impl End {
    pub(crate) fn read(filter: &EndFilter, reading: &mut Reading<'_>, field: &str) -> Self {
        let scoped = "write \"namespace/name\", or \"name\" for any namespace; the name may end with *";
        let labels = |text: &str| {
            let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value.to_owned())));
            (!key.is_empty()).then(|| (key.to_owned(), value))
        };
        Self {
            pods: reading.each(&filter.pods, field, "pods", scoped, |text| Scoped::parse(text)),
            namespaces: reading.each(&filter.namespaces, field, "namespaces", "give a name", |text| {
                (!text.is_empty() && !text.contains('/')).then(|| text.clone())
            }),
            blocks: reading.each(
                &filter.addresses,
                field,
                "addresses",
                "write 10.0.0.7, 10.0.0.0/8 or fd00::/64",
                |text| Block::parse(text),
            ),
            ports: reading.each(&filter.ports, field, "ports", "use 1 to 65535", |port| {
                (1..=65_535).contains(port).then_some(*port)
            }),
            labels: reading
                .each(&filter.labels, field, "labels", "write \"key\" or \"key=value\"", |text| labels(text)),
            workloads: reading.each(
                &filter.workloads,
                field,
                "workloads",
                "write \"Deployment/name\" or \"name\"",
                |text| Scoped::parse(text),
            ),
        }
    }

    pub(crate) fn fits(&self, end: EndFacts<'_>) -> bool {
        let unnamed = Name::default();
        let name = end.name.unwrap_or(&unnamed);
        let any = |all: &[Scoped], scope: &str, of: &str| all.is_empty() || all.iter().any(|one| one.fits(scope, of));
        let is_in = |block: &Block| end.addresses.iter().flatten().any(|address| block.contains(*address));
        let works = |one: &Scoped| name.workloads.iter().any(|own| one.fits(&own.kind, &own.name));
        let label = |(key, value): &(String, Option<String>)| {
            name.labels.get(key).is_some_and(|own| value.as_ref().is_none_or(|value| value == own))
        };
        any(&self.pods, &name.namespace, &name.pod)
            && (self.namespaces.is_empty() || self.namespaces.contains(&name.namespace))
            && (self.blocks.is_empty() || self.blocks.iter().any(is_in))
            && (self.ports.is_empty() || self.ports.contains(&end.port) || self.ports.contains(&end.other_port))
            && self.labels.iter().all(label)
            && (self.workloads.is_empty() || self.workloads.iter().any(works))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn blocks() {
        for (block, address, fits) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.1/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::", false),
            ("::/0", "fd00::1", true),
            ("fd00::/64", "fd00::1:0:0:1", true),
            ("fd00::/64", "fd00:0:0:1::1", false),
            ("fd00::1", "fd00::1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            let block = Block::parse(block).expect("a block");
            assert_eq!(block.contains(address.parse().expect("an address")), fits, "{block:?} {address}");
        }
        for text in ["", "10.0.0.0/33", "fd00::/129", "10.0.0/8", "x", "10.0.0.0/-1"] {
            assert_eq!(Block::parse(text), None, "{text}");
        }
    }

    proptest! {
        /// A block has an address if their first bits are the same.
        #[test]
        fn a_block_is_its_first_bits(own: u32, other: u32, six: u128, length in 0usize..=32, long in 0usize..=128) {
            let block = Block::parse(&format!("{}/{length}", Ipv4Addr::from_bits(own))).expect("a block");
            let same = format!("{own:032b}")[..length] == format!("{other:032b}")[..length];
            prop_assert_eq!(block.contains(Ipv4Addr::from_bits(other).into()), same);
            let near = six ^ u128::from(own & 3) << 60;
            let block = Block::parse(&format!("{}/{long}", Ipv6Addr::from_bits(six))).expect("a block");
            let same = format!("{six:0128b}")[..long] == format!("{near:0128b}")[..long];
            prop_assert_eq!(block.contains(Ipv6Addr::from_bits(near).into()), same);
        }
    }
}

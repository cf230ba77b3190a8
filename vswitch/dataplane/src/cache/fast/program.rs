//! Programs: what happens to the packets of one direction of a connection, all stages in one.
//!
//! **Design**: a compact key has every bit of a packet that any rule can match. So two packets with
//! the same key take the same [`Path`], as long as its megaflows are good and each `ct()` on it
//! says the same; that is what a [`Link`] stands for. Of most paths all that remains is to write
//! constants into the headers: the key has the old value of every field that can be rewritten, so
//! the new ones and the difference to each checksum are known beforehand: MAC addresses by the
//! path, the rest by each key ([`Fused`]). Whatever a path does beside that (copies, tags, meters)
//! is executed op by op, with what each `ct()` translates ([`Rare`]).

use crate::action::udp_sum;
use crate::cache::Compact;
use crate::cache::fast::exact::{Entry, RareProgram};
use crate::cache::fast::path::{Macs, Path};
use crate::packet::checksum::Sum;
use vswitch_conntrack::{Link, Rewrite};
use vswitch_dpdk::{Csum, Mbuf};
use vswitch_flow::extract::Layers;

/// Of programs that meet several `ct()`, or do more than rewrite headers, or write other MAC
/// addresses than the paths of their steps.
#[derive(Debug)]
pub struct Rare {
    /// What stands in for each `ct()`, in order, and what it translates.
    pub links: Box<[(Link, Rewrite)]>,
    /// All there is to do is to rewrite headers.
    pub fused: bool,
}

/// A program that was found. By family: so whoever carries it out knows which it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyProgram<'a> {
    /// IPv4.
    V4(ConnectionProgram<'a, 4>),
    /// IPv6.
    V6(ConnectionProgram<'a, 16>),
}

/// A program, with addresses of `A` bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConnectionProgram<'a, const A: usize> {
    /// It meets one `ct()`, and rewrites headers.
    Simple(Simple<'a, A>),
    /// It does more.
    Rare(&'a RareProgram<A>),
}

/// See [`ConnectionProgram::Simple`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simple<'a, const A: usize> {
    /// Its path.
    pub path: &'a Path,
    /// What stands in for its `ct()`.
    pub link: &'a Link,
    pub(crate) fused: &'a Fused<A>,
}

impl<const A: usize> Entry<A> {
    /// Whether it has a program.
    #[inline]
    pub(in crate::cache) const fn has_program(&self) -> bool {
        matches!(self, Self::Program { .. } | Self::Rare { .. })
    }

    /// Its program, if it has one.
    #[inline]
    pub(in crate::cache) fn program(&self) -> Option<ConnectionProgram<'_, A>> {
        match self {
            Self::None | Self::Megaflow(_) => None,
            Self::Program { path, link, fused } => Some(ConnectionProgram::Simple(Simple { path, link, fused })),
            Self::Rare { program, .. } => Some(ConnectionProgram::Rare(program)),
        }
    }
}

impl<const A: usize> Simple<'_, A> {
    /// Writes all that changes in the headers of a packet.
    #[inline(always)] // in the walk's inner loop
    pub(crate) fn apply(&self, mbuf: &mut Mbuf, key: &Compact) {
        if self.fused.flags & SAME == 0 {
            self.fused.apply(&self.path.hot.macs, mbuf, key.layers_of::<A>());
        }
    }
}

impl<const A: usize> RareProgram<A> {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it does.
    pub(crate) const fn rare(&self) -> &Rare {
        &self.rare
    }

    /// Writes all that changes in the headers of a packet, if it is [`Rare::fused`].
    pub(crate) fn apply(&self, mbuf: &mut Mbuf, layers: Layers) {
        if self.fused.flags & SAME == 0 {
            self.fused.apply(&self.macs, mbuf, layers);
        }
    }
}

/// In [`Fused::flags`]: the L4 protocol is UDP.
const UDP: u8 = 1;

/// In [`Fused::flags`]: headers stay as they are.
const SAME: u8 = 2;

/// In [`Fused::flags`]: of what is behind the MAC addresses only the TTL changes, and so the IPv4
/// header's checksum.
const ROUTED: u8 = 4;

/// Headers as they are in the end, but for MAC addresses, and by how much the checksums change (as
/// in headers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fused<const A: usize> {
    addresses: [[u8; A]; 2],
    ports: [u8; 4],
    /// Traffic class: of IPv6 with the bits around it, the first two bytes of the header.
    class: [u8; 2],
    ttl: u8,
    /// [`UDP`], [`SAME`], [`ROUTED`].
    flags: u8,
    /// What is added to the sum of the IPv4 header; 0: nothing changes.
    l3: [u8; 2],
    /// What is added to the sum of L4; 0: nothing changes.
    l4: [u8; 2],
    /// Likewise while it covers the pseudo-header only.
    pseudo: [u8; 2],
}

impl<const A: usize> Default for Fused<A> {
    fn default() -> Self {
        Self {
            addresses: [[0; A]; 2],
            ports: [0; 4],
            class: [0; 2],
            ttl: 0,
            flags: 0,
            l3: [0; 2],
            l4: [0; 2],
            pseudo: [0; 2],
        }
    }
}

/// Where the fields of an IP header lie.
struct Places {
    addresses: usize,
    class: usize,
    ttl: usize,
    protocol: usize,
}

const fn places(v6: bool) -> Places {
    if v6 {
        Places { addresses: 8, class: 0, ttl: 7, protocol: 6 }
    } else {
        Places { addresses: 12, class: 0, ttl: 8, protocol: 9 }
    }
}

/// By how much a sum changes when these bytes become those, as in a header; 0: they are the same.
fn difference(old: &[u8], new: &[u8]) -> [u8; 2] {
    let difference = if old == new { 0 } else { Sum::new().minus_word(Sum::of(old).folded()).bytes(new).folded() };
    difference.to_be_bytes()
}

/// A checksum, as in a header, whose sum changes so; by 0 it does not.
#[inline]
fn changed(checksum: [u8; 2], difference: [u8; 2]) -> [u8; 2] {
    // Both in the order of memory: the sum of swapped words is the swapped sum (RFC 1071, 2.B).
    let sum = u32::from(!u16::from_ne_bytes(checksum)) + u32::from(u16::from_ne_bytes(difference));
    #[allow(clippy::cast_possible_truncation)] // folded
    let folded = (sum + (sum >> 16)) as u16;
    (!folded).to_ne_bytes()
}

impl<const A: usize> Fused<A> {
    const V6: bool = A == 16;

    /// What makes one header of another one, and the MAC addresses that it has then; none: that is
    /// more than this can do. `partial`: the checksum of L4 covers the pseudo-header only.
    pub(in crate::cache) fn between(
        before: &[u8],
        after: &[u8],
        layers: Layers,
        partial: bool,
    ) -> Option<(Macs, Self)> {
        if before == after {
            return Some((Macs::default(), Self { flags: SAME, ..Self::default() }));
        }
        let macs: &Macs = after.first_chunk()?;
        let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
        let at = places(Self::V6);
        let addresses = |head: &[u8]| -> Option<[[u8; A]; 2]> {
            let field = head.get(l3 + at.addresses..)?;
            Some([*field.first_chunk()?, *field.get(A..)?.first_chunk()?])
        };
        let ports = |head: &[u8]| -> Option<[u8; 4]> { head.get(l4..)?.first_chunk().copied() };
        let ([old, new], [old_ports, new_ports]) =
            ([addresses(before)?, addresses(after)?], [ports(before)?, ports(after)?]);
        let pseudo = difference(old.as_flattened(), new.as_flattened());
        let both = difference(&[old.as_flattened(), &old_ports].concat(), &[new.as_flattened(), &new_ports].concat());
        // The checksum itself is no part of what it covers.
        let covered = |head: &[u8]| -> Option<[u8; 18]> {
            let header: &[u8; 20] = head.get(l3..)?.first_chunk()?;
            let mut rest = [0; 18];
            rest[..10].copy_from_slice(&header[..10]);
            rest[10..].copy_from_slice(&header[12..]);
            Some(rest)
        };
        let class = |head: &[u8]| -> Option<[u8; 2]> { head.get(l3 + at.class..)?.first_chunk().copied() };
        let is_udp = *before.get(l3 + at.protocol)? == vswitch_conntrack::protocol::UDP;
        let is_routed = (old, old_ports, class(before)?) == (new, new_ports, class(after)?);
        let fused = Self {
            addresses: new,
            ports: new_ports,
            class: class(after)?,
            ttl: *after.get(l3 + at.ttl)?,
            flags: if is_udp { UDP } else { 0 } | if is_routed { ROUTED } else { 0 },
            l3: if Self::V6 { [0; 2] } else { difference(&covered(before)?, &covered(after)?) },
            l4: both,
            pseudo,
        };
        let mut again = before.to_vec();
        fused.write_route(macs, &mut again, layers)?;
        if !is_routed {
            fused.write_flow(&mut again, layers)?;
            fused.write_sum(&mut again, layers, partial)?;
        }
        (again == after).then_some((*macs, fused))
    }

    /// Of headers that do not stay as they are.
    #[inline(always)] // in the walk's inner loop
    fn apply(&self, macs: &Macs, mbuf: &mut Mbuf, layers: Layers) {
        let mut written = self.write_route(macs, mbuf.head_mut(), layers);
        if self.flags & ROUTED == 0 {
            written = written.and_then(|()| self.write_flow(mbuf.head_mut(), layers));
            if self.changes_sum() {
                let partial = mbuf.csum() == Csum::Partial;
                written = written.and_then(|()| self.write_sum(mbuf.head_mut(), layers, partial));
            }
        }
        debug_assert!(written.is_some(), "a compact key has all headers");
    }

    /// The checksum of L4 becomes another one.
    #[inline]
    fn changes_sum(&self) -> bool {
        (self.l4, self.pseudo) != ([0; 2], [0; 2])
    }

    /// What a router writes: MAC addresses, TTL, the IPv4 header's checksum. None, and nothing
    /// written but MAC addresses: the headers are not all there.
    #[inline(always)] // as above
    fn write_route(&self, macs: &Macs, head: &mut [u8], layers: Layers) -> Option<()> {
        let l3 = usize::from(layers.l3);
        let at = places(Self::V6);
        *head.first_chunk_mut()? = *macs;
        let ip = head.get_mut(l3..l3 + at.addresses)?;
        *ip.get_mut(at.ttl)? = self.ttl;
        if !Self::V6 {
            let field: &mut [u8; 2] = ip.get_mut(10..)?.first_chunk_mut()?;
            *field = changed(*field, self.l3);
        }
        Some(())
    }

    /// The other fields, if it is not [`ROUTED`]; but for the checksum of L4. None, and nothing
    /// written: as above.
    #[inline(always)] // as above
    fn write_flow(&self, head: &mut [u8], layers: Layers) -> Option<()> {
        let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
        let at = places(Self::V6);
        // The addresses end the header.
        let ip_len = at.addresses + 2 * A;
        debug_assert_eq!(l4, l3 + ip_len, "without options");
        let (ip, ports) = head.get_mut(l3..l3 + ip_len + self.ports.len())?.split_at_mut(ip_len);
        *ip.get_mut(at.class..)?.first_chunk_mut()? = self.class;
        // At once: who reads them at once (for a tunnel's hash) would wait for two writes.
        ip.get_mut(at.addresses..)?.copy_from_slice(self.addresses.as_flattened());
        *ports.first_chunk_mut()? = self.ports;
        Some(())
    }

    /// The checksum of L4, if it [changes](Self::changes_sum).
    #[inline(always)] // as above
    fn write_sum(&self, head: &mut [u8], layers: Layers, partial: bool) -> Option<()> {
        let body = head.get_mut(usize::from(layers.l4)..)?;
        let field: &mut [u8; 2] = body.get_mut(if self.flags & UDP != 0 { 6 } else { 16 }..)?.first_chunk_mut()?;
        if partial {
            let complement = field.map(|byte| !byte);
            *field = changed(complement, self.pseudo).map(|byte| !byte);
        } else if self.l4 != [0; 2] {
            let after = |sum: u16| u16::from_be_bytes(changed(sum.to_be_bytes(), self.l4));
            let before = u16::from_be_bytes(*field);
            *field = if self.flags & UDP != 0 { udp_sum(before, after) } else { after(before) }.to_be_bytes();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::L4;
    use crate::packet::testing::{Spec, naive_checksum};
    use proptest::prelude::*;
    use vswitch_dpdk::Mempool;

    /// What becomes of headers; none of a field: it stays.
    #[derive(Clone, Debug)]
    struct Change {
        macs: Option<[u8; 12]>,
        class: Option<u8>,
        ttl: Option<u8>,
        addresses: Option<[u8; 32]>,
        ports: Option<[u8; 4]>,
    }

    fn changes() -> impl Strategy<Value = Change> {
        let numbers = any::<(Option<u8>, Option<u8>, Option<[u8; 4]>)>();
        (any::<Option<[u8; 12]>>(), any::<Option<[u8; 32]>>(), numbers)
            .prop_map(|(macs, addresses, (class, ttl, ports))| Change { macs, class, ttl, addresses, ports })
    }

    /// The packet changed so, its sums made anew.
    fn changed_packet(spec: &Spec, change: &Change) -> Vec<u8> {
        let (mut bytes, l3, l4) = (spec.complete(), spec.l2_len(), spec.l4_start());
        let at = places(!spec.ipv4);
        if let Some(macs) = change.macs {
            bytes[..12].copy_from_slice(&macs);
        }
        match change.class {
            Some(class) if spec.ipv4 => bytes[l3 + 1] = class,
            Some(class) => bytes[l3] = 0x60 | class & 15,
            None => {}
        }
        if let Some(ttl) = change.ttl {
            bytes[l3 + at.ttl] = ttl;
        }
        let addresses = l3 + at.addresses..l4;
        if let Some(new) = change.addresses {
            let len = addresses.len();
            bytes[addresses.clone()].copy_from_slice(&new[..len]);
        }
        if let Some(ports) = change.ports {
            bytes[l4..][..4].copy_from_slice(&ports);
        }
        if spec.ipv4 {
            bytes[l3 + 10..][..2].fill(0);
            let sum = naive_checksum(&bytes[l3..l4]);
            bytes[l3 + 10..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        bytes[spec.checksum_at()..][..2].fill(0);
        let len = u16::try_from(spec.end() - l4).expect("a packet's length");
        let protocol = if spec.l4 == L4::Tcp { 6 } else { 17 };
        let summed = [&bytes[addresses], &[0, protocol], &len.to_be_bytes(), &bytes[l4..spec.end()]].concat();
        let sum = match naive_checksum(&summed) {
            0 if spec.l4 == L4::Udp => 0xffff,
            sum => sum,
        };
        bytes[spec.checksum_at()..][..2].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn check<const A: usize>(pool: &Mempool, first: &Spec, next: &Spec, change: &Change) -> Result<(), TestCaseError> {
        let l16 = |len: usize| u16::try_from(len).expect("a packet's length");
        let layers = |spec: &Spec| Layers { l3: l16(spec.l2_len()), l4: l16(spec.l4_start()), l3_end: l16(spec.end()) };
        let (before, after) = (first.complete(), changed_packet(first, change));
        let Some((macs, fused)) = Fused::<A>::between(&before, &after, layers(first), false) else {
            return Err(TestCaseError::fail(format!("no program makes {after:02x?} of {before:02x?}")));
        };
        let same = before == after;
        let routed = change.class.is_none() && change.addresses.is_none() && change.ports.is_none();
        prop_assert_eq!(fused.flags & SAME != 0, same);
        prop_assert!(same || !routed || fused.flags & ROUTED != 0, "{:?}", fused);
        let mut mbuf = pool.mbuf_from(&next.complete()).expect("mbuf");
        if !same {
            fused.apply(&macs, &mut mbuf, layers(next));
        }
        let wanted = changed_packet(next, change);
        prop_assert_eq!(mbuf.head(), wanted.as_slice());
        Ok(())
    }

    proptest! {
        #[test]
        fn what_became_of_one_packet_becomes_of_the_next(
            v4: bool, tcp: bool, tagged: bool, change in changes(), lens in (0..40_usize, 0..40_usize), id: u16, seq: u32
        ) {
            let pool = Mempool::for_tests(4);
            let spec = |len| {
                let mut spec = Spec::plain(v4, if tcp { L4::Tcp } else { L4::Udp }, len);
                spec.tags = if tagged { vec![5] } else { vec![] };
                spec
            };
            let (first, mut next) = (spec(lens.0), spec(lens.1));
            (next.ipv4_id, next.tcp_seq) = (id, seq);
            if v4 { check::<4>(&pool, &first, &next, &change)? } else { check::<16>(&pool, &first, &next, &change)? }
        }
    }
}

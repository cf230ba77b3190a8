//! Groups: which bucket, and is it live.

use super::run::{Frame, Translator};
use super::set::in_order;
use super::view::{eth_type, proto};
use super::{Choice, Credit, LineKind};
use crate::group::Group;
use crate::limits::{LIVENESS_DEPTH_MAX, LIVENESS_LOOKS_MAX};
use crate::observe::DropReason;
use std::cell::Cell;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use vswitch_flow::action::PortNo;
use vswitch_flow::spec::{BucketSpec, GroupKind, Selection};
use vswitch_flow::{Field, FlowKey};

/// So that choices can be repeated.
const SEED: u64 = 0x6772_6f75_7073;

impl Translator<'_, '_> {
    /// Through a group. False: there is none of this number.
    pub(super) fn group(&mut self, id: u32, frame: &Frame<'_>) -> bool {
        if !self.may_enter() {
            return true;
        }
        self.out.deps.groups = true;
        let world = self.world;
        let Some(group) = world.bridges[self.bridge].program.groups.get(&id) else {
            self.warn(|| format!("output to nonexistent group {id}"));
            return false;
        };
        match group.spec.kind {
            GroupKind::All | GroupKind::Indirect => {
                // What was written before is written once, not in every copy.
                if group.spec.buckets.len() > 1 || !frame.rest().is_empty() {
                    self.commit();
                }
                for bucket in &group.spec.buckets {
                    self.bucket(bucket, frame);
                }
                self.credit(Credit::AllBuckets(Arc::clone(&group.stats)));
            }
            GroupKind::Select | GroupKind::FastFailover => match self.choose(group) {
                Some(i) => {
                    let bucket = &group.spec.buckets[i];
                    self.detail(|| format!("using bucket {}", bucket.id));
                    self.bucket(bucket, frame);
                    self.credit(Credit::Bucket(Arc::clone(&group.stats), i));
                }
                None => {
                    self.detail(|| "no live bucket".to_owned());
                    self.reason = Some(DropReason::NoBucket);
                }
            },
        }
        true
    }

    /// A bucket's actions, on a copy of everything.
    fn bucket(&mut self, bucket: &BucketSpec, frame: &Frame<'_>) {
        // A bucket costs something, even an empty one.
        self.work(1);
        if self.error.is_some() {
            return;
        }
        self.tell_node(LineKind::Bucket, || format!("bucket {}", bucket.id));
        let actions = in_order(&bucket.actions);
        let frame = Frame { bucket: true, ..frame.within(&actions) };
        self.work.depth += 1;
        self.indent += 1;
        self.on_copy(|this| this.run(frame));
        self.indent -= 1;
        self.work.depth -= 1;
    }

    /// Index of the bucket that this packet takes.
    fn choose(&mut self, group: &Arc<Group>) -> Option<usize> {
        if self.hangs_on_dp_hash(group) {
            match self.choice {
                Choice::Made(bucket, of) if bucket < group.spec.buckets.len() => {
                    self.choice = Choice::ByHash;
                    if of.is_none_or(|of| Arc::ptr_eq(of, group)) {
                        return Some(bucket);
                    }
                    self.out.cacheable = false;
                }
                // What was done on the way is done once.
                Choice::Ask if self.out.effects.is_empty() => {
                    self.out.chooser = Some(Arc::clone(group));
                    self.error.get_or_insert(DropReason::NoBucket);
                    return None;
                }
                _ => {}
            }
        }
        let hash = match &group.spec.selection {
            _ if group.spec.kind != GroupKind::Select => 0,
            Selection::Hash { param, fields } => self.hash_fields(SEED ^ param, fields),
            other => match basis(other) {
                Some(basis) if basis != 0 => self.hash_tuple(SEED ^ basis),
                _ => self.dp_hash(group),
            },
        };
        self.out.deps.links |= group.watched;
        let looks = Cell::new(LIVENESS_LOOKS_MAX);
        let buckets = &group.spec.buckets;
        #[allow(clippy::cast_possible_truncation)] // half of a hash is a hash
        group.pick(hash as u32, |i| buckets.get(i).is_some_and(|bucket| self.is_bucket_live(bucket, 0, &looks)))
    }

    fn is_bucket_live(&self, bucket: &BucketSpec, depth: u32, looks: &Cell<u32>) -> bool {
        if !is_watched(bucket) {
            return true;
        }
        if looks.get() == 0 {
            return false;
        }
        looks.set(looks.get() - 1);
        bucket.watch_port.is_some_and(|port| self.is_port_live(port))
            || bucket.watch_group.is_some_and(|group| self.is_group_live(group, depth + 1, looks))
    }

    fn is_group_live(&self, id: u32, depth: u32, looks: &Cell<u32>) -> bool {
        let group = self.world.bridges[self.bridge].program.groups.get(&id);
        depth < LIVENESS_DEPTH_MAX
            && group.is_some_and(|group| group.spec.buckets.iter().any(|b| self.is_bucket_live(b, depth, looks)))
    }

    /// A port that could send: administratively up, with a link. The decision depends on links
    /// then.
    pub(super) fn is_port_live(&self, number: PortNo) -> bool {
        let facts = self.port(number).and_then(|id| self.facts(id));
        facts.is_some_and(|facts| facts.admin_up && facts.link_up.load(Relaxed))
    }

    /// Whether nothing else decides which bucket of a group a packet takes.
    fn hangs_on_dp_hash(&self, group: &Group) -> bool {
        let by_tuple = basis(&group.spec.selection).is_some();
        by_tuple && !group.watched && !group.slots.is_empty() && !self.wrote_tuple()
    }

    /// The hash that every packet brings, as few bits of it as the choice hangs on: so connections
    /// that take the same bucket are decided once, and not one by one.
    fn dp_hash(&mut self, group: &Group) -> u64 {
        if self.wrote_tuple() {
            return self.hash_tuple(SEED);
        }
        // Of a bucket that does not live another bit decides.
        let bits = if group.watched { u32::MAX.into() } else { group.slots.len().saturating_sub(1) as u128 };
        #[allow(clippy::cast_possible_truncation)] // 32 bits
        {
            self.view.read_bits(Field::DpHash, bits) as u64
        }
    }

    /// Whether what is hashed is not what the packet brought.
    fn wrote_tuple(&self) -> bool {
        const TUPLE: [Field; 10] = [
            Field::EthType,
            Field::EthSrc,
            Field::EthDst,
            Field::NwSrc,
            Field::NwDst,
            Field::Ipv6Src,
            Field::Ipv6Dst,
            Field::NwProto,
            Field::TpSrc,
            Field::TpDst,
        ];
        let written = &self.view.packet.written;
        TUPLE.iter().any(|field| written.get(*field) != 0)
    }

    fn hash_tuple(&mut self, seed: u64) -> u64 {
        let view = &mut self.view;
        tuple_hash(seed, |field, bits| view.read_bits(field, bits))
    }

    /// Exactly these bits of these fields; fields that the packet does not have are left out.
    fn hash_fields(&mut self, seed: u64, fields: &[(Field, u128)]) -> u64 {
        let mut hash = Mixer::new(seed);
        for (field, bits) in fields {
            if self.view.has(*field) {
                hash.add(*field as u128);
                hash.add(self.view.read_bits(*field, *bits));
            }
        }
        hash.finish()
    }
}

/// What is mixed into the hash of the 5-tuple that a group chooses by; none: it chooses by other
/// fields.
const fn basis(selection: &Selection) -> Option<u64> {
    match selection {
        Selection::Default => Some(0),
        Selection::DpHash { param } | Selection::Maglev { param } => Some(*param),
        Selection::Hash { .. } => None,
    }
}

/// The bucket, by index, that a packet takes of a group that asked ([`Choice::Ask`]), and the
/// packet's key with that choice; none: no bucket has a weight.
#[must_use]
pub fn choose(group: &Group, key: &FlowKey) -> Option<(usize, FlowKey)> {
    let known = u32::try_from(key.get(Field::DpHash)).ok().filter(|hash| *hash != 0);
    #[allow(clippy::cast_possible_truncation)] // half of a hash is a hash
    let hash = match (basis(&group.spec.selection), known) {
        (Some(0), Some(hash)) => hash,
        (basis, _) => tuple_hash(SEED ^ basis.unwrap_or_default(), |field, bits| key.get(field) & bits) as u32,
    };
    let bucket = group.pick(hash, |_| true)?;
    let mut key = key.clone();
    key.set(Field::ConjId, bucket as u128 + 1);
    Some((bucket, key))
}

const fn is_watched(bucket: &BucketSpec) -> bool {
    bucket.watch_port.is_some() || bucket.watch_group.is_some()
}

/// What choices among buckets begin with, unless a group says otherwise: a hash of the packet's
/// 5-tuple, which is to stand in each key ([`Field::DpHash`]).
#[must_use]
pub fn dp_hash(key: &FlowKey) -> u32 {
    #[allow(clippy::cast_possible_truncation)] // half of a hash is a hash
    {
        tuple_hash(SEED, |field, bits| key.get(field) & bits) as u32
    }
}

/// Over the 5-tuple; of what is not IP, over Ethernet's addresses and type.
fn tuple_hash(seed: u64, mut read: impl FnMut(Field, u128) -> u128) -> u64 {
    use Field as F;
    let mut all = |field: F| read(field, field.ones());
    let eth_type = all(F::EthType);
    let mut hash = Mixer::new(seed);
    hash.add(eth_type);
    let addresses = match eth_type {
        eth_type::IP => [F::NwSrc, F::NwDst],
        eth_type::IPV6 => [F::Ipv6Src, F::Ipv6Dst],
        _ => [F::EthSrc, F::EthDst],
    };
    addresses.into_iter().for_each(|field| hash.add(all(field)));
    if matches!(eth_type, eth_type::IP | eth_type::IPV6) {
        let protocol = all(F::NwProto);
        hash.add(protocol);
        // Not of fragments: only the first one has them, and all are to take the same way.
        if read(F::NwFrag, 3) == 0 && matches!(protocol, proto::TCP | proto::UDP | proto::SCTP) {
            hash.add(read(F::TpSrc, F::TpSrc.ones()));
            hash.add(read(F::TpDst, F::TpDst.ones()));
        }
    }
    hash.finish()
}

/// A hash that is the same in every process.
struct Mixer(foldhash::quality::FoldHasher<'static>);

impl Mixer {
    fn new(seed: u64) -> Self {
        use std::hash::BuildHasher;
        Self(foldhash::quality::FixedState::with_seed(seed).build_hasher())
    }

    fn add(&mut self, value: u128) {
        self.0.write_u128(value);
    }

    fn finish(self) -> u64 {
        self.0.finish()
    }
}

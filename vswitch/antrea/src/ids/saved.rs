//! Numbers on disk: those that outlive the process in labels and marks of connections, and those
//! that people have seen. Flow priorities are not among them: nothing but flows has them, and these
//! are written anew.

use super::{Bucket, GroupKey, Ids, MeterKey, Numbers, RuleKey};
use crate::{Family, Key, ObjectKind, Table};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use vswitch_proto::antrea::v1;

/// Numbers that may have been given out after the last writing: of those, none is given out again
/// after a crash. A 256th of what there are.
const BLOCK: u32 = 1 << 24;

/// What a number is of, of whatever kind.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct KeyMessage {
    /// Of an object: `antrea.v1.Kind`; of a group: 1 of a Service, 2 of a log, 3 of multicast; of a
    /// meter: 1 ingress, 2 egress.
    #[prost(uint32, tag = "1")]
    kind: u32,
    /// Name of an object.
    #[prost(string, tag = "2")]
    name: String,
    /// Of a rule, of a Service's port.
    #[prost(string, tag = "3")]
    part: String,
    #[prost(bool, tag = "4")]
    ipv6: bool,
    #[prost(bool, tag = "5")]
    local: bool,
    /// Of a table.
    #[prost(uint32, tag = "6")]
    table: u32,
    /// An address, 4 or 16 bytes.
    #[prost(bytes = "vec", tag = "7")]
    address: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct NumberMessage {
    #[prost(message, optional, tag = "1")]
    key: Option<KeyMessage>,
    #[prost(uint32, tag = "2")]
    number: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct NumbersMessage {
    /// Whose turn it is.
    #[prost(uint32, tag = "1")]
    next: u32,
    #[prost(message, repeated, tag = "2")]
    taken: Vec<NumberMessage>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct BucketMessage {
    #[prost(bytes = "vec", tag = "1")]
    address: Vec<u8>,
    #[prost(uint32, tag = "2")]
    port: u32,
    #[prost(uint32, tag = "3")]
    id: u32,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct BucketsMessage {
    #[prost(message, optional, tag = "1")]
    group: Option<KeyMessage>,
    #[prost(message, repeated, tag = "2")]
    buckets: Vec<BucketMessage>,
}

/// All of [`Ids`] but priorities.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct IdsMessage {
    #[prost(message, optional, tag = "1")]
    rules: Option<NumbersMessage>,
    #[prost(message, optional, tag = "2")]
    groups: Option<NumbersMessage>,
    #[prost(message, optional, tag = "3")]
    marks: Option<NumbersMessage>,
    #[prost(message, optional, tag = "4")]
    vlans: Option<NumbersMessage>,
    #[prost(message, optional, tag = "5")]
    cookies: Option<NumbersMessage>,
    #[prost(message, repeated, tag = "6")]
    buckets: Vec<BucketsMessage>,
    /// None: no Pod has a limit, as in files of older versions.
    #[prost(message, optional, tag = "7")]
    meters: Option<NumbersMessage>,
}

/// What has numbers, as a message.
pub(super) trait Told: Ord + Clone {
    fn to_proto(&self) -> KeyMessage;
    fn read(message: &KeyMessage) -> Option<Self>;
}

impl Told for RuleKey {
    fn to_proto(&self) -> KeyMessage {
        KeyMessage { name: self.policy.to_string(), part: self.rule.to_string(), ..KeyMessage::default() }
    }

    fn read(message: &KeyMessage) -> Option<Self> {
        Some(Self { policy: message.name.as_str().into(), rule: message.part.as_str().into() })
    }
}

impl Told for GroupKey {
    fn to_proto(&self) -> KeyMessage {
        let message = KeyMessage::default();
        match self {
            Self::Service { service, port, family, local } => KeyMessage {
                kind: 1,
                name: service.to_string(),
                part: port.to_string(),
                ipv6: *family == Family::V6,
                local: *local,
                ..message
            },
            Self::Log(table) => KeyMessage { kind: 2, table: table.number().into(), ..message },
            Self::Multicast(address) => KeyMessage { kind: 3, address: octets(address), ..message },
        }
    }

    fn read(message: &KeyMessage) -> Option<Self> {
        match message.kind {
            1 => Some(Self::Service {
                service: message.name.as_str().into(),
                port: message.part.as_str().into(),
                family: if message.ipv6 { Family::V6 } else { Family::V4 },
                local: message.local,
            }),
            2 => Table::ALL.iter().find(|table| u32::from(table.number()) == message.table).copied().map(Self::Log),
            3 => address(&message.address).map(Self::Multicast),
            _ => None,
        }
    }
}

impl Told for MeterKey {
    fn to_proto(&self) -> KeyMessage {
        KeyMessage { kind: if self.ingress { 1 } else { 2 }, name: self.pod.to_string(), ..KeyMessage::default() }
    }

    fn read(message: &KeyMessage) -> Option<Self> {
        let ingress = match message.kind {
            1 => true,
            2 => false,
            _ => return None,
        };
        Some(Self { pod: message.name.as_str().into(), ingress })
    }
}

impl Told for IpAddr {
    fn to_proto(&self) -> KeyMessage {
        KeyMessage { address: octets(self), ..KeyMessage::default() }
    }

    fn read(message: &KeyMessage) -> Option<Self> {
        address(&message.address)
    }
}

impl Told for Key {
    fn to_proto(&self) -> KeyMessage {
        let kind = u32::try_from(i32::from(self.kind.to_proto())).unwrap_or_default();
        KeyMessage { kind, name: self.name.to_string(), ..KeyMessage::default() }
    }

    fn read(message: &KeyMessage) -> Option<Self> {
        let told = v1::Kind::try_from(i32::try_from(message.kind).ok()?).ok()?;
        let kind = if told == v1::Kind::Node { ObjectKind::Node } else { ObjectKind::read(told)? };
        Some(Self { kind, name: message.name.as_str().into() })
    }
}

fn octets(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.ok().or_else(|| <[u8; 16]>::try_from(octets).map(IpAddr::from).ok())
}

impl<K: Told> Numbers<K> {
    fn to_proto(&self) -> NumbersMessage {
        let number = |(key, number): (&K, &u32)| NumberMessage { key: Some(key.to_proto()), number: *number };
        NumbersMessage { next: self.next, taken: self.by_key.iter().map(number).collect() }
    }

    /// None: a number is out of range, or twice there.
    fn read(mut self, message: Option<NumbersMessage>) -> Option<Self> {
        let message = message?;
        self.next = Some(message.next).filter(|next| self.range.contains(next))?;
        for NumberMessage { key, number } in message.taken {
            let key = K::read(&key?)?;
            let fits = self.range.contains(&number);
            let unique = self.used.insert(number, key.clone()).is_none() && self.by_key.insert(key, number).is_none();
            if !fits || !unique {
                return None;
            }
        }
        Some(self)
    }

    /// Goes on so much further.
    fn skip(&mut self, block: u32) {
        let (first, last) = (u64::from(*self.range.start()), u64::from(*self.range.end()));
        let place = (u64::from(self.next) - first + u64::from(block)) % (last - first + 1);
        self.next = u32::try_from(first + place).unwrap_or(*self.range.start());
    }
}

impl Ids {
    /// For a file.
    pub(crate) fn to_proto(&self) -> IdsMessage {
        let bucket =
            |((to, port), id): (&Bucket, &u32)| BucketMessage { address: octets(to), port: u32::from(*port), id: *id };
        let buckets = |(group, buckets): (&GroupKey, &Arc<BTreeMap<Bucket, u32>>)| BucketsMessage {
            group: Some(group.to_proto()),
            buckets: buckets.iter().map(bucket).collect(),
        };
        // The same numbers are the same bytes.
        let mut groups: Vec<_> = self.buckets.iter().collect();
        groups.sort_unstable_by_key(|(group, _)| *group);
        IdsMessage {
            rules: Some(self.rules.to_proto()),
            groups: Some(self.groups.to_proto()),
            marks: Some(self.marks.to_proto()),
            vlans: Some(self.vlans.to_proto()),
            cookies: Some(self.cookies.to_proto()),
            buckets: groups.into_iter().map(buckets).collect(),
            meters: (!self.meters.by_key.is_empty()).then(|| self.meters.to_proto()),
        }
    }

    /// What [`Self::told`] says; none if no numbers are like that.
    pub(crate) fn read(message: IdsMessage) -> Option<Self> {
        let new = Self::default();
        let mut all = new.buckets.as_ref().clone();
        for BucketsMessage { group, buckets } in message.buckets {
            let mut ids = BTreeMap::new();
            for bucket in buckets {
                let to = (address(&bucket.address)?, u16::try_from(bucket.port).ok()?);
                ids.insert(to, bucket.id);
            }
            all.insert(GroupKey::read(&group?)?, Arc::new(ids));
        }
        Some(Self {
            rules: Arc::new(Arc::unwrap_or_clone(new.rules).read(message.rules)?),
            groups: Arc::new(Arc::unwrap_or_clone(new.groups).read(message.groups)?),
            marks: Arc::new(Arc::unwrap_or_clone(new.marks).read(message.marks)?),
            vlans: Arc::new(Arc::unwrap_or_clone(new.vlans).read(message.vlans)?),
            meters: match message.meters {
                None => new.meters,
                some => Arc::new(Arc::unwrap_or_clone(new.meters).read(some)?),
            },
            cookies: Arc::new(Arc::unwrap_or_clone(new.cookies).read(message.cookies)?),
            buckets: Arc::new(all),
            priorities: new.priorities,
            policies: new.policies,
            moved: new.moved,
        })
    }

    /// Numbers were given out that nobody knows of: none of these is given out again. Marks, VLANs
    /// and meters are few, and are not kept back.
    pub(crate) fn skip_unknown(&mut self) {
        Arc::make_mut(&mut self.rules).skip(BLOCK);
        Arc::make_mut(&mut self.groups).skip(BLOCK);
        Arc::make_mut(&mut self.cookies).skip(BLOCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn rule(policy: &str, rule: &str) -> RuleKey {
        RuleKey { policy: policy.into(), rule: rule.into() }
    }

    fn some() -> Ids {
        let mut ids = Ids::default();
        for number in 0..5 {
            ids.claim_rule(&rule("np:a/b", &format!("in-{number}"))).unwrap();
        }
        ids.release_rule(&rule("np:a/b", "in-1"));
        let v6 = |family| GroupKey::Service { service: "a/web".into(), port: "http".into(), family, local: true };
        for key in
            [v6(Family::V4), v6(Family::V6), GroupKey::Log(Table::ALL[3]), GroupKey::Multicast([239, 0, 0, 1].into())]
        {
            ids.claim_group(&key).unwrap();
            ids.claim_buckets(&key, &BTreeSet::from([([10, 0, 0, 1].into(), 80), ([7_u16; 8].into(), 443)]));
        }
        ids.claim_mark([10, 0, 0, 9].into()).unwrap();
        ids.claim_vlan(&rule("anp:a/b", "in-1")).unwrap();
        ids.claim_meter(&MeterKey { pod: "a/web-1".into(), ingress: true }).unwrap();
        ids.claim_meter(&MeterKey { pod: "a/web-1".into(), ingress: false }).unwrap();
        ids.claim_cookie(&Key::node()).unwrap();
        ids.claim_cookie(&Key::new(ObjectKind::Pod, "a/web-1")).unwrap();
        ids
    }

    #[test]
    fn numbers_survive_being_written() {
        let ids = some();
        let mut again = Ids::read(ids.to_proto()).unwrap();
        assert_eq!(again.to_proto(), ids.to_proto());
        assert_eq!(again.rule(&rule("np:a/b", "in-4")), Some(6));
        assert_eq!(again.claim_rule(&rule("np:a/b", "new")), Ok(7), "3 is free, and was a rule's");
        again.skip_unknown();
        assert_eq!(again.claim_rule(&rule("np:a/b", "newer")), Ok(8 + BLOCK));
        assert_eq!(again.claim_mark([10, 0, 0, 8].into()), Ok(2));
        assert_eq!(again.meter(&MeterKey { pod: "a/web-1".into(), ingress: false }), Some(1025));
        let older = Ids::read(IdsMessage { meters: None, ..ids.to_proto() }).unwrap();
        assert_eq!(older.meter(&MeterKey { pod: "a/web-1".into(), ingress: true }), None);
    }

    #[test]
    fn numbers_that_nobody_has_are_refused() {
        let good = some().to_proto();
        let with = |change: fn(&mut NumbersMessage)| {
            let mut message = good.clone();
            change(message.marks.as_mut().unwrap());
            Ids::read(message)
        };
        assert!(with(|_| ()).is_some());
        assert!(with(|marks| marks.next = 256).is_none());
        assert!(with(|marks| marks.taken[0].number = 0).is_none());
        assert!(with(|marks| marks.taken[0].key = None).is_none());
        assert!(with(|marks| marks.taken.push(marks.taken[0].clone())).is_none());
        assert!(Ids::read(IdsMessage { rules: None, ..good.clone() }).is_none());
        assert!(Ids::read(IdsMessage::default()).is_none());
    }
}

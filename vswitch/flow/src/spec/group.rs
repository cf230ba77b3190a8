//! What groups and buckets must be, whoever asks for them.

use super::{BucketPlace, BucketSpec, GroupKind, GroupSpec, Update, limits};
use crate::Refusal;
use crate::action::{PortNo, port};

const BAD_BUCKET: &str = "OFPGMFC_BAD_BUCKET";
const INVALID_GROUP: &str = "OFPGMFC_INVALID_GROUP";

/// "No group" as OpenFlow numbers it (`OFPG_ANY`).
const ANY_GROUP: u32 = u32::MAX;

/// Highest id as a hint.
const IDS: &str = "use 0 to 0xffffff00";

impl GroupSpec {
    /// What a group must be, but for what its buckets do.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), Refusal> {
        group_id(self.id)?;
        number_of_buckets(self.kind, self.buckets.len())?;
        let ids: Vec<_> = self.buckets.iter().map(|bucket| Some(bucket.id)).collect();
        bucket_ids(&ids).map_err(|(_, refusal)| refusal)?;
        self.buckets.iter().try_for_each(|bucket| bucket.check(Some(self.kind)))
    }
}

impl BucketSpec {
    /// In the one form of several that mean the same: port NONE and group ANY are watched by
    /// nobody, reserved ports have 32 bits.
    #[must_use]
    pub fn normal(self) -> Self {
        let port = self.watch_port.map(|port| port::from_number(port.into()).unwrap_or(port));
        Self {
            watch_port: port.filter(|port| *port != port::NONE),
            watch_group: self.watch_group.filter(|group| *group != ANY_GROUP),
            ..self
        }
    }

    /// What a bucket must be, but for what it does. `kind` is that of its group; None: not known.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, kind: Option<GroupKind>) -> Result<(), Refusal> {
        self.rules(kind).map_err(|refusal| refusal.of(format_args!("bucket {}", self.id)))
    }

    /// The same, without the bucket's id in the reason.
    pub(crate) fn rules(&self, kind: Option<GroupKind>) -> Result<(), Refusal> {
        weight(kind, self.weight)?;
        self.watch_port.map_or(Ok(()), watch_port)?;
        self.watch_group.map_or(Ok(()), group_id)?;
        watched(kind, self.watch_port.is_some() || self.watch_group.is_some())
    }
}

impl Update {
    /// Buckets to insert.
    ///
    /// # Errors
    /// When there are none, or all places are meant.
    pub fn insert_buckets(group: u32, place: BucketPlace, buckets: Vec<BucketSpec>) -> Result<Self, Refusal> {
        group_id(group)?;
        if place == BucketPlace::All {
            let refusal = Refusal::new(BAD_BUCKET, "buckets cannot be inserted at all places");
            return Err(refusal.hint("command_bucket_id=first, last or an id").field("command_bucket_id"));
        }
        if buckets.is_empty() {
            return Err(Refusal::new(BAD_BUCKET, "there is no bucket to insert").field("bucket"));
        }
        Ok(Self::InsertBuckets { group, place, buckets })
    }
}

impl BucketPlace {
    /// The bucket of an id.
    ///
    /// # Errors
    /// When no bucket can have it.
    pub fn before(id: u32) -> Result<Self, Refusal> {
        bucket_id(id).map(|()| Self::Before(id))
    }
}

/// Ids for buckets that were given one or not: those get the lowest that are free.
///
/// # Errors
/// When one is no id, or is there twice: with the place of the later one.
pub fn bucket_ids(given: &[Option<u32>]) -> Result<Vec<u32>, (usize, Refusal)> {
    let mut taken: Vec<(u32, usize)> = given.iter().zip(0..).filter_map(|(id, at)| Some(((*id)?, at))).collect();
    for (id, at) in &taken {
        bucket_id(*id).map_err(|refusal| (*at, refusal))?;
    }
    taken.sort_unstable();
    if let Some(twice) = taken.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let refusal = Refusal::new(BAD_BUCKET, format!("two buckets have the id {}", twice[1].0));
        return Err((twice[1].1, refusal.hint("give each bucket another id, or none").field("bucket_id")));
    }
    let mut taken = taken.into_iter().map(|(id, _)| id).peekable();
    let mut free = 0;
    let mut lowest = || {
        while taken.next_if_eq(&free).is_some() {
            free += 1;
        }
        free += 1;
        free - 1
    };
    Ok(given.iter().map(|id| id.unwrap_or_else(&mut lowest)).collect())
}

pub(crate) fn group_id(id: u32) -> Result<(), Refusal> {
    if id <= limits::MAX_GROUP {
        return Ok(());
    }
    Err(Refusal::new(INVALID_GROUP, format!("{id:#x} is no group id")).hint(IDS).field("group_id"))
}

pub(crate) fn bucket_id(id: u32) -> Result<(), Refusal> {
    if id <= limits::MAX_BUCKET {
        return Ok(());
    }
    Err(Refusal::new(BAD_BUCKET, format!("{id:#x} is no bucket id")).hint(IDS).field("bucket_id"))
}

/// # Errors
/// When a group of this kind has another number of them.
pub fn number_of_buckets(kind: GroupKind, buckets: usize) -> Result<(), Refusal> {
    if kind != GroupKind::Indirect || buckets == 1 {
        return Ok(());
    }
    let refusal = Refusal::new(INVALID_GROUP, format!("an indirect group has one bucket, not {buckets}"));
    Err(refusal.hint("type=all executes all buckets").field("bucket"))
}

fn weight(kind: Option<GroupKind>, weight: u16) -> Result<(), Refusal> {
    if weight == 0 || matches!(kind, Some(GroupKind::Select) | None) {
        return Ok(());
    }
    let refusal = Refusal::new(BAD_BUCKET, "only buckets of select groups have weights");
    Err(refusal.hint("leave weight out").field("weight"))
}

fn watch_port(port: PortNo) -> Result<(), Refusal> {
    if port::is_physical(port) {
        return Ok(());
    }
    let refusal = Refusal::new("OFPGMFC_BAD_WATCH", format!("port {port:#x} cannot be watched"));
    Err(refusal.hint("an ordinary port").field("watch_port"))
}

/// Whether a bucket that must be watched is.
fn watched(kind: Option<GroupKind>, watched: bool) -> Result<(), Refusal> {
    if watched || kind != Some(GroupKind::FastFailover) {
        return Ok(());
    }
    let refusal = Refusal::new(INVALID_GROUP, "a fast failover bucket must be watched");
    Err(refusal.hint("watch_port:PORT or watch_group:GROUP").field("watch_port"))
}

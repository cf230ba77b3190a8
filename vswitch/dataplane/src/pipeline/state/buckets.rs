//! Buckets that come and go. Updates of one group that follow each other are one change of it: its
//! table is filled once for all of them, and not once for each of thousands.

use super::Refused;
use super::draft::Draft;
use super::groups::{check_bucket, check_number, unknown};
use super::refs::Ref;
use crate::group::Group;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use vswitch_flow::spec::{BucketPlace, BucketSpec, GroupSpec, Update, bucket_ids};

/// A group, and what has become of its buckets so far.
pub(super) struct Rearranging {
    old: Arc<Group>,
    /// In order; none: it went.
    buckets: Vec<Option<BucketSpec>>,
    /// Where those are that are there, by id.
    at: HashMap<u32, usize>,
    /// Ids that were inserted: they start counting, whatever had them before.
    inserted: HashSet<u32>,
    /// Before it none is there.
    first: usize,
}

impl Rearranging {
    fn begin(old: &Arc<Group>) -> Self {
        let buckets: Vec<_> = old.spec.buckets.iter().cloned().map(Some).collect();
        let mut this = Self { old: Arc::clone(old), buckets, at: HashMap::new(), inserted: HashSet::new(), first: 0 };
        this.number();
        this
    }

    /// Without gaps.
    fn number(&mut self) {
        self.buckets.retain(Option::is_some);
        self.first = 0;
        let ids = self.buckets.iter().enumerate().filter_map(|(i, bucket)| Some((bucket.as_ref()?.id, i)));
        self.at = ids.collect();
    }

    fn position(&self, bucket: u32) -> Result<usize, Refused> {
        self.at.get(&bucket).copied().ok_or_else(|| {
            let reason = format!("group {} has no bucket {bucket}", self.old.spec.id);
            Refused::new("OFPGMFC_UNKNOWN_BUCKET", "command_bucket_id", reason)
        })
    }

    /// Returns how many went.
    fn remove(&mut self, place: BucketPlace) -> Result<usize, Refused> {
        let at = match place {
            BucketPlace::First => {
                while self.buckets.get(self.first).is_some_and(Option::is_none) {
                    self.first += 1;
                }
                self.first
            }
            BucketPlace::Last => {
                while self.buckets.last().is_some_and(Option::is_none) {
                    self.buckets.pop();
                }
                self.buckets.len().wrapping_sub(1)
            }
            BucketPlace::Before(bucket) => self.position(bucket)?,
            BucketPlace::All => {
                let count = self.at.len();
                self.buckets.clear();
                self.number();
                return Ok(count);
            }
        };
        let gone = self.buckets.get_mut(at).and_then(Option::take);
        let Some(bucket) = gone else { return Ok(0) };
        self.at.remove(&bucket.id);
        Ok(1)
    }

    fn insert(&mut self, place: BucketPlace, new: &[BucketSpec]) -> Result<(), Refused> {
        let group = self.old.spec.id;
        if let Some(bucket) = new.iter().find(|new| self.at.contains_key(&new.id)) {
            let reason = format!("group {group} has a bucket {} already", bucket.id);
            let hint = "give the new bucket another id, or remove that one first: remove-buckets";
            return Err(Refused::new("OFPGMFC_BUCKET_EXISTS", "bucket_id", reason).hint(hint));
        }
        // Where buckets are inserted, their text does not know the group's type.
        let ids: Vec<_> = new.iter().map(|bucket| Some(bucket.id)).collect();
        bucket_ids(&ids).map_err(|(_, refusal)| refusal)?;
        new.iter().try_for_each(|bucket| check_bucket(self.old.spec.kind, bucket))?;
        match place {
            BucketPlace::Last => {
                self.at.extend(new.iter().map(|bucket| bucket.id).zip(self.buckets.len()..));
                self.buckets.extend(new.iter().cloned().map(Some));
            }
            BucketPlace::First | BucketPlace::Before(_) => {
                // Behind it, as Open vSwitch does.
                let at = if let BucketPlace::Before(bucket) = place { self.position(bucket)? + 1 } else { 0 };
                self.buckets.splice(at..at, new.iter().cloned().map(Some));
                self.number();
            }
            BucketPlace::All => {
                return Err(Refused::new("OFPGMFC_BAD_BUCKET", "command_bucket_id", "all is no place to insert at")
                    .hint("use first, last, or the id of a bucket"));
            }
        }
        self.inserted.extend(new.iter().map(|bucket| bucket.id));
        Ok(())
    }

    /// The number of its buckets may be.
    fn check(&self) -> Result<(), Refused> {
        check_number(self.old.spec.kind, self.at.len())
    }

    fn end(self) -> Group {
        let GroupSpec { id, kind, selection, buckets: _ } = &self.old.spec;
        let buckets = self.buckets.into_iter().flatten().collect();
        let spec = GroupSpec { id: *id, kind: *kind, selection: selection.clone(), buckets };
        self.old.rearranged(spec, |bucket| !self.inserted.contains(&bucket))
    }
}

impl Draft<'_> {
    pub(super) fn insert_buckets(&mut self, id: u32, place: BucketPlace, new: &[BucketSpec]) -> Result<u64, Refused> {
        let group = self.rearrange(id)?;
        group.insert(place, new)?;
        group.check()?;
        Ok(new.len() as u64)
    }

    pub(super) fn remove_buckets(&mut self, id: u32, place: BucketPlace) -> Result<u64, Refused> {
        let group = self.rearrange(id)?;
        let count = group.remove(place)?;
        group.check()?;
        Ok(count as u64)
    }

    /// The change of a group that updates of its buckets add to.
    fn rearrange(&mut self, id: u32) -> Result<&mut Rearranging, Refused> {
        let begun = match self.rearranging.take() {
            Some(begun) => begun,
            None => Rearranging::begin(self.groups().get(&id).ok_or_else(|| unknown(id))?),
        };
        self.note_added(Ref::Group(id));
        Ok(self.rearranging.insert(begun))
    }

    /// An update comes: the change of a group ends, unless it adds to it.
    pub(super) fn settle_group(&mut self, next: Option<&Update>) {
        let of = match next {
            Some(Update::InsertBuckets { group, .. } | Update::RemoveBuckets { group, .. }) => Some(*group),
            _ => None,
        };
        if let Some(begun) = self.rearranging.take_if(|begun| of != Some(begun.old.spec.id)) {
            self.replace_group(begun.end());
        }
    }
}

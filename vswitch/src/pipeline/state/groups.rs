//! Updates of groups.

use super::Refused;
use super::draft::Draft;
use super::refs::Ref;
use crate::group::Group;
use crate::limits;
use std::sync::Arc;
use vswitch_flow::action::{CheckContext, Place, check};
use vswitch_flow::spec::{BucketPlace, BucketSpec, GroupSpec};

impl Draft<'_> {
    pub(super) fn add_group(&mut self, spec: &GroupSpec) -> Result<u64, Refused> {
        check_spec(spec)?;
        let what = Ref::Group(spec.id);
        if let Some(old) = self.groups().get(&spec.id) {
            // Groups from before a sweep are there to be replaced, once.
            if !self.is_swept(what) {
                let reason = format!("group {} exists", spec.id);
                let hint = "change it (mod-group), delete it first, or use may_create";
                return Err(Refused::new("OFPGMFC_GROUP_EXISTS", "group_id", reason).hint(hint));
            }
            if old.spec == *spec {
                self.added_refs.insert(what, self.update);
                return Ok(1);
            }
        } else if self.groups().len() >= limits::GROUPS_MAX {
            let reason = format!("the limit of {} groups is reached", limits::GROUPS_MAX);
            return Err(Refused::new("OFPGMFC_OUT_OF_GROUPS", "group_id", reason));
        }
        let group = Group::new(spec.clone(), self.now);
        self.put_group(group);
        Ok(1)
    }

    pub(super) fn modify_group(&mut self, spec: &GroupSpec, may_create: bool) -> Result<u64, Refused> {
        check_spec(spec)?;
        match self.groups().get(&spec.id) {
            Some(old) => {
                let group = old.modified(spec.clone());
                self.put_group(group);
                Ok(1)
            }
            None if may_create => self.add_group(spec),
            None => Err(unknown(spec.id)),
        }
    }

    pub(super) fn insert_buckets(&mut self, id: u32, place: BucketPlace, new: &[BucketSpec]) -> Result<u64, Refused> {
        let old = self.groups().get(&id).ok_or_else(|| unknown(id))?;
        let mut spec = old.spec.clone();
        if let Some(bucket) = new.iter().find(|new| spec.buckets.iter().any(|old| old.id == new.id)) {
            let reason = format!("group {id} has a bucket {} already", bucket.id);
            let hint = "give the new bucket another id, or remove that one first: remove-buckets";
            return Err(Refused::new("OFPGMFC_BUCKET_EXISTS", "bucket_id", reason).hint(hint));
        }
        let at = match place {
            BucketPlace::First => 0,
            BucketPlace::Last => spec.buckets.len(),
            // Behind it, as Open vSwitch does.
            BucketPlace::Before(bucket) => position(&spec, bucket)? + 1,
            BucketPlace::All => {
                return Err(Refused::new("OFPGMFC_BAD_BUCKET", "command_bucket_id", "all is no place to insert at")
                    .hint("use first, last, or the id of a bucket"));
            }
        };
        spec.buckets.splice(at..at, new.iter().cloned());
        check_spec(&spec)?;
        let group = old.rearranged(spec);
        self.put_group(group);
        Ok(new.len() as u64)
    }

    pub(super) fn remove_buckets(&mut self, id: u32, place: BucketPlace) -> Result<u64, Refused> {
        let old = self.groups().get(&id).ok_or_else(|| unknown(id))?;
        let mut spec = old.spec.clone();
        let before = spec.buckets.len();
        match place {
            BucketPlace::First => drop(spec.buckets.drain(..before.min(1))),
            BucketPlace::Last => drop(spec.buckets.pop()),
            BucketPlace::Before(bucket) => drop(spec.buckets.remove(position(&spec, bucket)?)),
            BucketPlace::All => spec.buckets.clear(),
        }
        check_spec(&spec)?;
        let count = before - spec.buckets.len();
        let group = old.rearranged(spec);
        self.put_group(group);
        Ok(count as u64)
    }

    pub(super) fn delete_groups(&mut self, id: Option<u32>) -> u64 {
        let ids: Vec<u32> = match id {
            Some(id) => self.groups().contains_key(&id).then_some(id).into_iter().collect(),
            None => self.groups().keys().copied().collect(),
        };
        for id in &ids {
            self.groups_mut().remove(id);
            self.deleted.insert(Ref::Group(*id), self.update);
        }
        ids.len() as u64
    }

    fn put_group(&mut self, group: Group) {
        if !self.sweeps.is_empty() {
            self.added_refs.insert(Ref::Group(group.spec.id), self.update);
        }
        self.groups_mut().insert(group.spec.id, Arc::new(group));
    }

    fn last_sweep(&self, what: Ref) -> Option<usize> {
        match what {
            Ref::Group(_) => self.group_sweep,
            Ref::Meter(_) => self.meter_sweep,
        }
    }

    /// Whether a group or meter is from before a sweep that would remove it.
    pub(super) fn is_swept(&self, what: Ref) -> bool {
        let added = self.added_refs.get(&what);
        self.last_sweep(what).is_some_and(|sweep| added.is_none_or(|added| *added < sweep))
    }

    /// Removes groups and meters that sweeps cover and nobody added again; adds how many to the counts.
    pub(super) fn sweep_groups_and_meters(&mut self, counts: &mut [u64]) {
        let groups = self.groups().keys().map(|id| Ref::Group(*id));
        let all = groups.chain(self.meters().keys().map(|id| Ref::Meter(*id)));
        let swept: Vec<Ref> = all.filter(|what| self.is_swept(*what)).collect();
        for what in swept {
            match what {
                Ref::Group(id) => drop(self.groups_mut().remove(&id)),
                Ref::Meter(id) => drop(self.meters_mut().remove(&id)),
            }
            if let Some(update) = self.last_sweep(what) {
                self.deleted.insert(what, update);
                counts[update] += 1;
            }
        }
    }
}

fn unknown(id: u32) -> Refused {
    Refused::new("OFPGMFC_UNKNOWN_GROUP", "group_id", format!("group {id} does not exist")).hint("add it first")
}

fn position(spec: &GroupSpec, bucket: u32) -> Result<usize, Refused> {
    spec.buckets.iter().position(|b| b.id == bucket).ok_or_else(|| {
        let reason = format!("group {} has no bucket {bucket}", spec.id);
        Refused::new("OFPGMFC_UNKNOWN_BUCKET", "command_bucket_id", reason)
    })
}

fn check_spec(spec: &GroupSpec) -> Result<(), Refused> {
    if spec.buckets.len() > limits::BUCKETS_MAX {
        let reason = format!("{} buckets: the limit is {}", spec.buckets.len(), limits::BUCKETS_MAX);
        return Err(Refused::new("OFPGMFC_OUT_OF_BUCKETS", "buckets", reason));
    }
    // Where buckets are inserted, their text does not know the group's type.
    spec.check()?;
    let context = CheckContext { matching: None, place: Place::Bucket };
    spec.buckets.iter().try_for_each(|bucket| {
        check(&bucket.actions, &context)
            .map_err(|error| Refused::new(error.code, "actions", format!("bucket {}: {}", bucket.id, error.reason)))
    })
}

//! Updates of groups.

use super::Refused;
use super::draft::Draft;
use super::refs::Ref;
use crate::group::Group;
use crate::limits;
use std::sync::Arc;
use vswitch_flow::action::{CheckContext, ListPlace, check};
use vswitch_flow::spec::{BucketSpec, GroupKind, GroupSpec, number_of_buckets};

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
        self.put_group(group)?;
        Ok(1)
    }

    pub(super) fn modify_group(&mut self, spec: &GroupSpec, may_create: bool) -> Result<u64, Refused> {
        check_spec(spec)?;
        match self.groups().get(&spec.id) {
            Some(old) => {
                let group = old.modified(spec.clone());
                self.put_group(group)?;
                Ok(1)
            }
            None if may_create => self.add_group(spec),
            None => Err(unknown(spec.id)),
        }
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

    fn put_group(&mut self, group: Group) -> Result<(), Refused> {
        self.note_added(Ref::Group(group.spec.id));
        // Before there is no memory left; what there is in the end is judged in the end.
        self.replace_group(group);
        check_slots(self.slots_made)
    }

    /// Puts a group in the place of the one with its id.
    pub(super) fn replace_group(&mut self, group: Group) {
        self.slots_made += group.slots.len();
        let published = self.state.program.groups.get(&group.spec.id).map(Arc::as_ptr);
        if let Some(old) = self.groups_mut().insert(group.spec.id, Arc::new(group))
            && published != Some(Arc::as_ptr(&old))
        {
            self.slots_made -= old.slots.len().min(self.slots_made);
        }
    }

    /// What the tables of all groups take is bounded.
    pub(super) fn judge_slots(&self) -> Result<(), Refused> {
        if self.slots_made == 0 {
            return Ok(());
        }
        let slots = self.groups().values().map(|group| group.slots.len()).sum();
        check_slots(slots).map_err(|refused| refused.at(self.update))
    }

    /// A sweep that began spares it.
    pub(super) fn note_added(&mut self, what: Ref) {
        if !self.sweeps.is_empty() {
            self.added_refs.insert(what, self.update);
        }
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

    /// Removes groups and meters that sweeps cover and nobody added again; adds how many to the
    /// counts.
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

pub(super) fn unknown(id: u32) -> Refused {
    Refused::new("OFPGMFC_UNKNOWN_GROUP", "group_id", format!("group {id} does not exist")).hint("add it first")
}

fn check_spec(spec: &GroupSpec) -> Result<(), Refused> {
    check_number(spec.kind, spec.buckets.len())?;
    // Where buckets are inserted, their text does not know the group's type.
    spec.check()?;
    spec.buckets.iter().try_for_each(check_actions)
}

fn check_slots(slots: usize) -> Result<(), Refused> {
    if slots <= limits::GROUP_SLOTS_MAX {
        return Ok(());
    }
    let reason =
        format!("the tables of all select groups would have {slots} slots: the limit is {}", limits::GROUP_SLOTS_MAX);
    let hint = "fewer groups with selection_method=maglev: each has 65,536";
    Err(Refused::new("OFPGMFC_OUT_OF_GROUPS", "group_id", reason).hint(hint))
}

/// Whether a group may have so many buckets.
pub(super) fn check_number(kind: GroupKind, buckets: usize) -> Result<(), Refused> {
    let most = if kind == GroupKind::Select { limits::SELECT_BUCKETS_MAX } else { limits::BUCKETS_MAX };
    if buckets > most {
        let reason = format!("{buckets} buckets: the limit is {most}");
        return Err(Refused::new("OFPGMFC_OUT_OF_BUCKETS", "buckets", reason));
    }
    Ok(number_of_buckets(kind, buckets)?)
}

/// What a bucket that is inserted must be.
pub(super) fn check_bucket(kind: GroupKind, bucket: &BucketSpec) -> Result<(), Refused> {
    bucket.check(Some(kind))?;
    check_actions(bucket)
}

fn check_actions(bucket: &BucketSpec) -> Result<(), Refused> {
    let context = CheckContext { matching: None, place: ListPlace::Bucket };
    check(&bucket.actions, &context)
        .map_err(|error| Refused::new(error.code, "actions", format!("bucket {}: {}", bucket.id, error.reason)))
}

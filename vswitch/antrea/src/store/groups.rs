//! How a group becomes another one: bucket by bucket where that is possible, so that the others
//! keep slots and counters.

use std::collections::HashMap;
use vswitch_flow::spec::{BucketPlace, BucketSpec, GroupSpec, Update};

/// Updates that make the one the other.
pub(super) fn updates(before: Option<&GroupSpec>, after: &GroupSpec) -> Vec<Update> {
    let Some(before) = before else { return vec![Update::AddGroup(after.clone())] };
    let whole = || vec![Update::ModifyGroup { spec: after.clone(), may_create: false }];
    if before.kind != after.kind || before.selection != after.selection {
        return whole();
    }
    let group = after.id;
    let there: HashMap<u32, &BucketSpec> = before.buckets.iter().map(|bucket| (bucket.id, bucket)).collect();
    let stays: HashMap<u32, &BucketSpec> = after.buckets.iter().map(|bucket| (bucket.id, bucket)).collect();
    let is = |map: &HashMap<u32, &BucketSpec>, bucket: &BucketSpec| {
        map.get(&bucket.id).is_some_and(|other| *other == bucket)
    };
    let gone: Vec<u32> = before.buckets.iter().filter(|bucket| !is(&stays, bucket)).map(|bucket| bucket.id).collect();
    let new: Vec<BucketSpec> = after.buckets.iter().filter(|bucket| !is(&there, bucket)).cloned().collect();
    // Most of them are others: one update instead of many.
    if gone.len() * 2 > before.buckets.len() {
        return whole();
    }
    let remove = |id| Update::RemoveBuckets { group, place: BucketPlace::Before(id) };
    let mut updates: Vec<Update> = gone.into_iter().map(remove).collect();
    if !new.is_empty() {
        updates.push(Update::InsertBuckets { group, place: BucketPlace::Last, buckets: new });
    }
    updates
}

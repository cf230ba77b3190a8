//! Groups.

use super::*;

fn insert(group: u32, place: BucketPlace, ids: &[u32]) -> Update {
    Update::InsertBuckets { group, place, buckets: ids.iter().map(|id| bucket(*id, &[output(9)])).collect() }
}

fn remove(group: u32, place: BucketPlace) -> Update {
    Update::RemoveBuckets { group, place }
}

fn ids(bench: &Bench, id: u32) -> Vec<u32> {
    let groups = bench.state.groups(Some(id), Millis(0));
    groups.iter().flat_map(|info| info.group.buckets.iter().map(|bucket| bucket.id)).collect()
}

#[test]
fn groups_come_change_and_go() {
    let mut bench = Bench::default();
    bench.ok(&[add_group(9), add_group(1), add(0, 5, 1, 1, &[Action::Group(1)])]);
    bench.now = 3000;
    let stats = Arc::clone(&bench.state.program().groups[&1].stats);
    stats.packets.store(4, Relaxed);
    stats.buckets[0].0.store(3, Relaxed);
    let infos = bench.state.groups(None, Millis(3000));
    let shown: Vec<_> =
        infos.iter().map(|g| (g.group.id, g.duration_ms, g.ref_count, g.packets, g.buckets[0].0)).collect();
    assert_eq!(shown, [(1, 3000, 1, 4, 3), (9, 3000, 0, 0, 0)]);
    let change = Update::ModifyGroup { spec: group(1, GroupKind::Select, &[bucket(4, &[])]), may_create: false };
    assert_eq!(bench.ok(&[change, Update::DeleteGroups(Some(77)), Update::DeleteGroups(Some(9))]), [1, 0, 1]);
    let infos = bench.state.groups(None, Millis(5000));
    let shown: Vec<_> =
        infos.iter().map(|g| (g.group.id, g.duration_ms, g.ref_count, g.packets, g.buckets[0].0)).collect();
    assert_eq!(shown, [(1, 5000, 1, 0, 0)], "counters start over, the duration goes on");
    assert_eq!(bench.flows(), ["0/5:1"]);
    let create = |id, may_create| Update::ModifyGroup { spec: group(id, GroupKind::All, &[]), may_create };
    bench.ok(&[create(2, true), create(2, true)]);
    assert_eq!(bench.refused(&[create(3, false)]), (0, "OFPGMFC_UNKNOWN_GROUP"));
    assert_eq!(bench.ok(&[Update::DeleteGroups(None)]), [2]);
    assert!(bench.flows().is_empty());
}

#[test]
fn buckets_are_inserted_and_removed() {
    use BucketPlace::{All, Before, First, Last};
    let cases: &[(&str, &[Update], &[u32])] = &[
        ("first", &[insert(1, First, &[7, 8])], &[7, 8, 0, 5]),
        ("last", &[insert(1, Last, &[7, 8])], &[0, 5, 7, 8]),
        ("by a bucket", &[insert(1, Before(0), &[7])], &[0, 7, 5]),
        ("by the last", &[insert(1, Before(5), &[7])], &[0, 5, 7]),
        ("first goes", &[remove(1, First)], &[5]),
        ("last goes", &[remove(1, Last)], &[0]),
        ("one goes", &[insert(1, First, &[7]), remove(1, Before(0))], &[7, 5]),
        ("all go", &[remove(1, All), remove(1, First), remove(1, Last), remove(1, All)], &[]),
        ("first of none", &[remove(1, All), insert(1, First, &[3])], &[3]),
    ];
    for (name, updates, result) in cases {
        let mut bench = Bench::default();
        bench.ok(&[Update::AddGroup(group(1, GroupKind::Select, &[bucket(0, &[]), bucket(5, &[])]))]);
        bench.state.program().groups[&1].stats.buckets[0].0.store(6, Relaxed);
        bench.ok(updates);
        assert_eq!(ids(&bench, 1), *result, "{name}");
        let info = &bench.state.groups(Some(1), Millis(0))[0];
        let packets: Vec<u64> = info.buckets.iter().map(|(packets, _)| *packets).collect();
        let kept: Vec<u64> = result.iter().map(|id| if *id == 0 { 6 } else { 0 }).collect();
        assert_eq!(packets, kept, "{name}: counters of buckets that stay");
    }
}

#[test]
fn bad_groups_are_refused_by_name() {
    let many: Vec<BucketSpec> = (0..4097).map(|id| bucket(id, &[])).collect();
    let more: Vec<BucketSpec> = (0..16_385).map(|id| bucket(id, &[])).collect();
    let add = |kind, buckets: &[BucketSpec]| Update::AddGroup(group(2, kind, buckets));
    let (all, select) = (GroupKind::All, GroupKind::Select);
    let two = [bucket(0, &[]), bucket(1, &[])];
    let heavy = BucketSpec { weight: 5, ..bucket(6, &[]) };
    let weighty = Update::InsertBuckets { group: 1, place: BucketPlace::Last, buckets: vec![heavy] };
    let cases = [
        ("exists", add_group(1), "OFPGMFC_GROUP_EXISTS"),
        ("id", Update::AddGroup(group(0xffff_ff01, all, &[])), "OFPGMFC_INVALID_GROUP"),
        ("bucket id", add(all, &[bucket(0xffff_ff01, &[])]), "OFPGMFC_BAD_BUCKET"),
        ("bucket twice", add(select, &[bucket(3, &[]), bucket(3, &[])]), "OFPGMFC_BAD_BUCKET"),
        ("too many buckets", add(all, &many), "OFPGMFC_OUT_OF_BUCKETS"),
        ("too many to select", add(select, &more), "OFPGMFC_OUT_OF_BUCKETS"),
        ("too many of a failover", add(GroupKind::FastFailover, &many), "OFPGMFC_OUT_OF_BUCKETS"),
        ("too many more", insert(1, BucketPlace::Last, &(1..4097).collect::<Vec<_>>()), "OFPGMFC_OUT_OF_BUCKETS"),
        ("indirect with two", add(GroupKind::Indirect, &two), "OFPGMFC_INVALID_GROUP"),
        ("indirect with none", add(GroupKind::Indirect, &[]), "OFPGMFC_INVALID_GROUP"),
        ("failover without watch", add(GroupKind::FastFailover, &two), "OFPGMFC_INVALID_GROUP"),
        ("insert a bucket that is there", insert(1, BucketPlace::Last, &[0]), "OFPGMFC_BUCKET_EXISTS"),
        ("insert the same twice", insert(1, BucketPlace::Last, &[6, 6]), "OFPGMFC_BAD_BUCKET"),
        ("insert at an unknown one", insert(1, BucketPlace::Before(99), &[6]), "OFPGMFC_UNKNOWN_BUCKET"),
        ("insert at all", insert(1, BucketPlace::All, &[6]), "OFPGMFC_BAD_BUCKET"),
        ("insert one with a weight", weighty, "OFPGMFC_BAD_BUCKET"),
        ("insert into nothing", insert(3, BucketPlace::Last, &[6]), "OFPGMFC_UNKNOWN_GROUP"),
        ("remove an unknown one", remove(1, BucketPlace::Before(99)), "OFPGMFC_UNKNOWN_BUCKET"),
        ("remove from nothing", remove(3, BucketPlace::All), "OFPGMFC_UNKNOWN_GROUP"),
        (
            "modify nothing",
            Update::ModifyGroup { spec: group(3, all, &[]), may_create: false },
            "OFPGMFC_UNKNOWN_GROUP",
        ),
    ];
    for (name, update, code) in cases {
        let mut bench = Bench::default();
        bench.ok(&[add_group(1)]);
        assert_eq!(bench.refused(&[add_group(5), update]), (1, code), "{name}");
    }
}

/// 8,000 buckets of 16,384 go one by one, and others come: one change of the group. Who stays keeps
/// his counters; who goes and comes starts over.
#[test]
fn many_buckets_go_at_once() {
    for selection in [Selection::Default, Selection::Maglev { param: 0 }] {
        let mut bench = Bench::default();
        let buckets: Vec<BucketSpec> = (0..16_384).map(|id| BucketSpec { weight: 1, ..bucket(id, &[]) }).collect();
        let spec = GroupSpec { selection, ..group(1, GroupKind::Select, &buckets) };
        bench.ok(&[Update::AddGroup(spec.clone())]);
        bench.state.program().groups[&1].stats.buckets.iter().for_each(|(packets, _)| packets.store(6, Relaxed));
        let mut updates: Vec<Update> = (0..8000).map(|id| remove(1, BucketPlace::Before(id * 2))).collect();
        updates.push(Update::InsertBuckets { group: 1, place: BucketPlace::Last, buckets: buckets[..1].to_vec() });
        let began = std::time::Instant::now();
        let counts = bench.ok(&updates);
        assert!(counts.iter().all(|count| *count == 1));
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
        let expected: Vec<u32> =
            (0..16_384).filter(|id| id % 2 == 1 || *id >= 16_000).chain(std::iter::once(0)).collect();
        assert_eq!(ids(&bench, 1), expected);
        let info = &bench.state.groups(Some(1), Millis(0))[0];
        assert!(info.buckets.iter().zip(&expected).all(|((packets, _), id)| *packets == if *id == 0 { 0 } else { 6 }));
        let group = Arc::clone(&bench.state.program().groups[&1]);
        assert!(group.slots.iter().all(|slot| usize::from(*slot) < expected.len()));
        // Refused in the middle: nothing has happened.
        let unknown = remove(1, BucketPlace::Before(2));
        assert_eq!(bench.refused(&[remove(1, BucketPlace::First), unknown]), (1, "OFPGMFC_UNKNOWN_BUCKET"));
        assert!(Arc::ptr_eq(&group, &bench.state.program().groups[&1]));
    }
}

/// Changes of two groups by turns, and of one that is deleted, added and swept meanwhile.
#[test]
fn changes_of_buckets_end_where_another_update_begins() {
    use BucketPlace::{First, Last};
    let mut bench = Bench::default();
    bench.ok(&[add_group(1), add_group(2)]);
    bench.ok(&[
        insert(1, Last, &[5]),
        insert(2, Last, &[6]),
        remove(1, First),
        insert(2, Last, &[7]),
        insert(1, Last, &[8]),
    ]);
    assert_eq!([ids(&bench, 1), ids(&bench, 2)], [vec![5, 8], vec![0, 6, 7]]);
    bench.ok(&[insert(1, Last, &[9]), Update::DeleteGroups(Some(1)), add_group(1), insert(1, Last, &[4])]);
    assert_eq!(ids(&bench, 1), [0, 4]);
    bench.ok(&[insert(1, Last, &[9]), Update::ReplaceAll { meters: false }, add_group(2), insert(2, Last, &[3])]);
    assert_eq!([ids(&bench, 1), ids(&bench, 2)], [vec![], vec![0, 3]], "the first came before the sweep");
}

#[test]
fn buckets_may_name_groups_that_are_not_there() {
    let mut bench = Bench::default();
    let to = |id| group(1, GroupKind::All, &[bucket(0, &[Action::Group(id)])]);
    bench.ok(&[Update::AddGroup(to(9))]);
    bench.ok(&[Update::ModifyGroup { spec: to(1), may_create: false }]);
    assert_eq!(bench.state.groups(Some(1), Millis(0))[0].ref_count, 0, "flows are counted, not buckets");
}

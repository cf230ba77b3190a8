//! Random transactions against a model that is as plain as can be: lists, copied for every
//! transaction and searched from end to end.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use vswitch_flow::action::{CheckContext, ListPlace, check};

#[derive(Clone, Debug)]
struct ModelFlow {
    spec: FlowSpec,
    serial: u64,
    created: u64,
    packets: u64,
    /// Update of this transaction that wrote it, and that added it (or found it as it was to be).
    written: Option<usize>,
    added: Option<usize>,
}

/// With when it was added, and by which update of this transaction.
type Dated<T> = (T, u64, Option<usize>);

#[derive(Clone, Debug, Default)]
struct Model {
    flows: Vec<ModelFlow>,
    groups: BTreeMap<u32, Dated<GroupSpec>>,
    meters: BTreeMap<u32, Dated<MeterSpec>>,
    serial: u64,
    now: u64,
    events: Vec<String>,
    // Of the transaction.
    sweeps: Vec<(usize, FlowFilter, bool, bool)>,
    deleted_groups: BTreeMap<u32, usize>,
    deleted_meters: BTreeMap<u32, usize>,
    /// Every table and cookie that somebody learned with delete_learned.
    learned: BTreeSet<(u8, u64)>,
}

type Outcome = Result<u64, &'static str>;

/// Group and meter numbers in a list, however deep.
fn mentions(actions: &[Action], word: &str) -> BTreeSet<u32> {
    let text = format!("{actions:?}");
    let numbers = text.split(word).skip(1).filter_map(|rest| rest.split(')').next()?.parse().ok());
    numbers.collect()
}

fn learners(actions: &[Action]) -> impl Iterator<Item = (u8, u64)> {
    actions.iter().filter_map(|action| match action {
        Action::Learn(learn) if learn.delete_learned => Some((learn.table, learn.cookie)),
        _ => None,
    })
}

fn selects(filter: &FlowFilter, flow: &FlowSpec) -> bool {
    let text = format!("{:?}", flow.actions);
    filter.table.is_none_or(|table| table == 255 || table == flow.table)
        && (filter.strict.is_none() || filter.strict == Some(flow.priority) && flow.matching == filter.matching)
        && flow.matching.is_within(&filter.matching)
        && flow.cookie & filter.cookie_mask == filter.cookie & filter.cookie_mask
        && filter.out_port.is_none_or(|port| text.contains(&format!("Output {{ port: {port}, max_len: None }}")))
        && filter.out_group.is_none_or(|group| text.contains(&format!("Group({group})")))
}

impl Model {
    fn transaction(&mut self, updates: &[Update]) -> Result<Vec<u64>, (usize, &'static str)> {
        let mut next = self.clone();
        (next.sweeps, next.deleted_groups, next.deleted_meters) = Default::default();
        next.learned = next.flows.iter().flat_map(|flow| learners(&flow.spec.actions).collect::<Vec<_>>()).collect();
        next.flows.iter_mut().for_each(|flow| (flow.written, flow.added) = (None, None));
        next.groups.values_mut().for_each(|group| group.2 = None);
        next.meters.values_mut().for_each(|meter| meter.2 = None);
        let mut counts = Vec::new();
        for (i, update) in updates.iter().enumerate() {
            counts.push(next.update(i, update).map_err(|code| (i, code))?);
        }
        let last = |what: fn(&(usize, FlowFilter, bool, bool)) -> bool| {
            next.sweeps.iter().filter(|sweep| what(sweep)).map(|sweep| sweep.0).max()
        };
        let (last_groups, last_meters) = (last(|sweep| sweep.2), last(|sweep| sweep.3));
        for (i, filter, ..) in next.sweeps.clone() {
            let (groups, meters) = (last_groups == Some(i), last_meters == Some(i));
            counts[i] += next.remove("Delete", |f| selects(&filter, &f.spec) && f.added.is_none_or(|added| added < i));
            let old = |added: Option<usize>| added.is_none_or(|added| added < i);
            let gone: Vec<u32> = next.groups.iter().filter(|(_, g)| groups && old(g.2)).map(|(id, _)| *id).collect();
            counts[i] += gone.len() as u64;
            for id in gone {
                next.groups.remove(&id);
                next.deleted_groups.insert(id, i);
            }
            let gone: Vec<u32> = next.meters.iter().filter(|(_, m)| meters && old(m.2)).map(|(id, _)| *id).collect();
            counts[i] += gone.len() as u64;
            for id in gone {
                next.meters.remove(&id);
                next.deleted_meters.insert(id, i);
            }
        }
        next.judge()?;
        *self = next;
        Ok(counts)
    }

    fn judge(&mut self) -> Result<(), (usize, &'static str)> {
        let mut bad = Vec::new();
        for flow in &self.flows {
            let Some(written) = flow.written else { continue };
            #[allow(clippy::type_complexity)] // said by the two lines below
            let kinds: [(&str, &dyn Fn(u32) -> bool, &BTreeMap<u32, usize>, &str); 2] = [
                ("Group(", &|id| self.groups.contains_key(&id), &self.deleted_groups, "OFPBAC_BAD_OUT_GROUP"),
                ("Meter(", &|id| self.meters.contains_key(&id), &self.deleted_meters, "OFPMMFC_INVALID_METER"),
            ];
            for (word, there, deleted, code) in kinds {
                let missing = mentions(&flow.spec.actions, word).into_iter().filter(|id| !there(*id));
                bad.extend(
                    missing.filter(|id| deleted.get(id).is_none_or(|by| *by < written)).map(|_| (written, code)),
                );
            }
        }
        // Of two bad references in one update, either may be named.
        if let Some(first) = bad.iter().min() {
            return Err(*first);
        }
        // The earliest deletion takes a flow; of two by one update, the group's.
        let (groups, meters) = (self.groups.clone(), self.meters.clone());
        let (no_groups, no_meters) = (self.deleted_groups.clone(), self.deleted_meters.clone());
        let taken_by = |flow: &ModelFlow| {
            let actions = &flow.spec.actions;
            let by_groups = mentions(actions, "Group(").into_iter().filter(|id| !groups.contains_key(id));
            let by_meters = mentions(actions, "Meter(").into_iter().filter(|id| !meters.contains_key(id));
            let by_groups = by_groups.map(|id| (no_groups[&id], "GroupDelete"));
            by_groups.chain(by_meters.map(|id| (no_meters[&id], "MeterDelete"))).min().map(|(_, reason)| reason)
        };
        for reason in ["GroupDelete", "MeterDelete"] {
            self.remove(reason, |flow| taken_by(flow) == Some(reason));
        }
        loop {
            let live: BTreeSet<_> =
                self.flows.iter().flat_map(|f| learners(&f.spec.actions).collect::<Vec<_>>()).collect();
            let lost: Vec<_> = self.learned.difference(&live).copied().collect();
            if self.remove("Delete", |flow| lost.contains(&(flow.spec.table, flow.spec.cookie))) == 0 {
                return Ok(());
            }
        }
    }

    fn remove(&mut self, reason: &str, gone: impl Fn(&ModelFlow) -> bool) -> u64 {
        let before = self.flows.len();
        for flow in self.flows.iter().filter(|flow| gone(flow) && flow.spec.flags.send_flow_rem) {
            self.events.push(format!("{}:{:x} {reason}", flow.spec.priority, flow.spec.cookie));
        }
        self.flows.retain(|flow| !gone(flow));
        (before - self.flows.len()) as u64
    }

    fn update(&mut self, i: usize, update: &Update) -> Outcome {
        match update {
            Update::AddFlow(spec) => self.add(i, spec),
            Update::ModifyFlows { filter, actions, reset_counts, cookie } => {
                self.modify(i, filter, actions, *reset_counts, *cookie)
            }
            Update::DeleteFlows(filter) if filter.table == Some(254) => Err("OFPBRC_EPERM"),
            Update::DeleteFlows(filter) => Ok(self.remove("Delete", |flow| selects(filter, &flow.spec))),
            Update::AddGroup(spec) => {
                let swept = self.sweeps.iter().rev().find(|sweep| sweep.2).map(|sweep| sweep.0);
                match self.groups.get(&spec.id) {
                    Some((old, _, added)) if swept.is_some_and(|at| added.is_none_or(|added| added < at)) => {
                        let same = old == spec;
                        let entry = self.groups.entry(spec.id).or_insert_with(|| unreachable!("it is there"));
                        *entry = (spec.clone(), if same { entry.1 } else { self.now }, Some(i));
                    }
                    Some(_) => return Err("OFPGMFC_GROUP_EXISTS"),
                    None => drop(self.groups.insert(spec.id, (spec.clone(), self.now, Some(i)))),
                }
                Ok(1)
            }
            Update::ModifyGroup { spec, may_create } => match self.groups.get_mut(&spec.id) {
                Some(old) => {
                    *old = (spec.clone(), old.1, Some(i));
                    Ok(1)
                }
                None if *may_create => self.update(i, &Update::AddGroup(spec.clone())),
                None => Err("OFPGMFC_UNKNOWN_GROUP"),
            },
            Update::DeleteGroups(id) => {
                let gone: Vec<u32> = self.groups.keys().copied().filter(|g| id.is_none_or(|id| id == *g)).collect();
                gone.iter().for_each(|id| drop(self.groups.remove(id)));
                self.deleted_groups.extend(gone.iter().map(|id| (*id, i)));
                Ok(gone.len() as u64)
            }
            Update::AddMeter(spec) => {
                let swept = self.sweeps.iter().rev().find(|sweep| sweep.3).map(|sweep| sweep.0);
                match self.meters.get(&spec.id) {
                    Some((old, created, added)) if swept.is_some_and(|at| added.is_none_or(|added| added < at)) => {
                        let created = if old == spec { *created } else { self.now };
                        self.meters.insert(spec.id, (spec.clone(), created, Some(i)));
                    }
                    Some(_) => return Err("OFPMMFC_METER_EXISTS"),
                    None => drop(self.meters.insert(spec.id, (spec.clone(), self.now, Some(i)))),
                }
                Ok(1)
            }
            Update::DeleteMeters(id) => {
                let gone: Vec<u32> = self.meters.keys().copied().filter(|m| id.is_none_or(|id| id == *m)).collect();
                gone.iter().for_each(|id| drop(self.meters.remove(id)));
                self.deleted_meters.extend(gone.iter().map(|id| (*id, i)));
                Ok(gone.len() as u64)
            }
            Update::ReplaceFlows(filter) if filter.table == Some(254) => Err("OFPBRC_EPERM"),
            Update::ReplaceFlows(filter) => {
                self.sweeps.push((i, filter.clone(), false, false));
                Ok(0)
            }
            Update::ReplaceAll { meters } => {
                self.sweeps.push((i, FlowFilter::default(), true, *meters));
                Ok(0)
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn add(&mut self, i: usize, spec: &FlowSpec) -> Outcome {
        let table = if spec.table == 255 { 0 } else { spec.table };
        if table == 254 {
            return Err("OFPBRC_EPERM");
        }
        let spec = FlowSpec { table, ..spec.clone() };
        check_actions(&spec.actions, &spec.matching, table)?;
        self.learned.extend(learners(&spec.actions));
        let key = |flow: &FlowSpec| (flow.table, flow.priority, Arc::clone(&flow.matching));
        let overlaps = |flow: &ModelFlow| {
            let priority = (flow.spec.table, flow.spec.priority) == (table, spec.priority);
            priority && flow.spec.matching.overlaps(&spec.matching)
        };
        let overlap = spec.flags.check_overlap && self.flows.iter().any(overlaps);
        let replacing = !self.sweeps.is_empty();
        let (written, added) = (Some(i), Some(i));
        let mut new = ModelFlow { spec, serial: 0, created: self.now, packets: 0, written, added };
        match self.flows.iter_mut().find(|flow| key(&flow.spec) == key(&new.spec)) {
            Some(old) if replacing && same(&old.spec, &new.spec) => old.added = added,
            Some(old) => {
                new.serial = old.serial;
                new.packets = if new.spec.flags.reset_counts { 0 } else { old.packets };
                *old = new;
            }
            None if overlap => return Err("OFPFMFC_OVERLAP"),
            None => {
                self.serial += 1;
                new.serial = self.serial;
                self.flows.push(new);
            }
        }
        Ok(1)
    }

    fn modify(
        &mut self,
        i: usize,
        filter: &FlowFilter,
        actions: &Arc<[Action]>,
        reset: bool,
        cookie: Option<u64>,
    ) -> Outcome {
        if filter.table == Some(254) {
            return Err("OFPBRC_EPERM");
        }
        let mut selected: Vec<&mut ModelFlow> =
            self.flows.iter_mut().filter(|flow| selects(filter, &flow.spec)).collect();
        selected.sort_by_key(|flow| flow.spec.table);
        let tables: Vec<u8> = selected.iter().map(|flow| flow.spec.table).collect();
        let none = filter.table.filter(|table| *table != 255).unwrap_or(0);
        for table in if tables.is_empty() { vec![none] } else { tables } {
            check_actions(actions, &filter.matching, table)?;
        }
        let count = selected.len() as u64;
        for flow in selected {
            flow.spec.actions = Arc::clone(actions);
            flow.spec.cookie = cookie.unwrap_or(flow.spec.cookie);
            flow.packets = if reset { 0 } else { flow.packets };
            flow.written = Some(i);
            self.learned.extend(learners(actions));
        }
        Ok(count)
    }

    /// Flows and their numbers, groups and meters, as [`shown`].
    fn shown(&self) -> String {
        let mut flows: Vec<&ModelFlow> = self.flows.iter().collect();
        flows.sort_by_key(|flow| (flow.spec.table, flow.serial));
        let flows: Vec<_> = flows.iter().map(|f| (&f.spec, self.now - f.created, f.packets)).collect();
        let uses = |word: &str, id: u32| {
            self.flows.iter().filter(|flow| mentions(&flow.spec.actions, word).contains(&id)).count() as u64
        };
        // A flow that names a group twice counts twice.
        let named = |id: u32| {
            let word = format!("Group({id})");
            // However deep it is printed.
            let text = |flow: &ModelFlow| format!("{:?}", flow.spec.actions);
            self.flows.iter().map(|flow| text(flow).matches(&word).count() as u64).sum::<u64>()
        };
        let groups: Vec<_> = self.groups.values().map(|(spec, at, _)| (spec, self.now - at, named(spec.id))).collect();
        let meters: Vec<_> =
            self.meters.values().map(|(spec, at, _)| (spec, self.now - at, uses("Meter(", spec.id))).collect();
        format!("{flows:#?} {groups:?} {meters:?}")
    }
}

fn same(old: &FlowSpec, new: &FlowSpec) -> bool {
    let flags = FlowFlags { check_overlap: old.flags.check_overlap, ..new.flags };
    !new.flags.reset_counts
        && *old == FlowSpec { flags: FlowFlags { reset_counts: old.flags.reset_counts, ..flags }, ..new.clone() }
}

fn check_actions(actions: &[Action], matching: &SparseMatch, table: u8) -> Result<(), &'static str> {
    check(actions, &CheckContext { matching: Some(matching), place: ListPlace::Flow { table } })
        .map_err(|error| error.code)
}

fn shown(bench: &Bench) -> String {
    let now = Millis(bench.now);
    let flows = bench.state.flows(&FlowFilter::default(), now);
    let flows: Vec<_> = flows.iter().map(|i| (&i.flow, i.counters.duration_ms, i.counters.packets)).collect();
    let (groups, meters) = (bench.state.groups(None, now), bench.state.meters(None, now));
    let groups: Vec<_> = groups.iter().map(|g| (&g.group, g.duration_ms, g.ref_count)).collect();
    let meters: Vec<_> = meters.iter().map(|m| (&m.meter, m.duration_ms, m.flow_count)).collect();
    format!("{flows:#?} {groups:?} {meters:?}")
}

fn any_actions() -> impl Strategy<Value = Arc<[Action]>> {
    let action = prop_oneof![
        (1..4_u32).prop_map(output),
        (1..4_u32).prop_map(Action::Group),
        (1..4_u32).prop_map(|id| clone(Action::Group(id))),
        (1..4_u32).prop_map(|port| clone(output(port))),
        (0..3_u8, 0..4_u64).prop_map(|(table, cookie)| learn(table, cookie)),
    ];
    // A meter is the first action of its list.
    let meter = proptest::option::weighted(0.2, (1..3_u32).prop_map(Action::Meter));
    (meter, prop::collection::vec(action, 0..3)).prop_map(|(meter, rest)| meter.into_iter().chain(rest).collect())
}

fn any_match() -> impl Strategy<Value = Arc<SparseMatch>> {
    let matches = [&[][..], &[(Field::Reg0, 0)], &[(Field::Reg0, 1)], &[(Field::Reg0, 0), (Field::Reg1, 1)]];
    prop::sample::select(matches.map(matching).to_vec())
}

fn any_table() -> impl Strategy<Value = u8> {
    prop_oneof![20 => 0..3_u8, 1 => Just(253), 1 => Just(254), 1 => Just(255)]
}

fn any_flow() -> impl Strategy<Value = FlowSpec> {
    let flags = prop_oneof![4 => Just((false, false)), 1 => Just((true, false)), 1 => Just((false, true))];
    (any_table(), 1..4_u16, any_match(), 0..4_u64, any_actions(), any::<bool>(), flags).prop_map(
        |(table, priority, matching, cookie, actions, send_flow_rem, (check_overlap, reset_counts))| FlowSpec {
            matching,
            actions,
            flags: FlowFlags { send_flow_rem, check_overlap, reset_counts, ..FlowFlags::default() },
            ..flow(table, priority, 0, cookie, &[])
        },
    )
}

fn any_filter() -> impl Strategy<Value = FlowFilter> {
    let rarely = |ids: std::ops::Range<u32>| proptest::option::weighted(0.2, ids);
    let cookie = (0..4_u64, prop::sample::select(vec![0, 0, u64::MAX, 1]));
    let table = proptest::option::of(any_table());
    let strict = proptest::option::weighted(0.3, 1..4_u16);
    (table, any_match(), strict, cookie, rarely(1..4), rarely(1..4)).prop_map(
        |(table, matching, strict, (cookie, cookie_mask), out_port, out_group)| FlowFilter {
            table,
            matching,
            strict,
            cookie,
            cookie_mask,
            out_port,
            out_group,
        },
    )
}

fn any_update() -> impl Strategy<Value = Update> {
    let any_group =
        || (1..4_u32, 1..3_u32).prop_map(|(id, port)| group(id, GroupKind::All, &[bucket(0, &[output(port)])]));
    let modify = (any_filter(), any_actions(), any::<bool>(), proptest::option::of(0..4_u64));
    prop_oneof![
        12 => any_flow().prop_map(Update::AddFlow),
        3 => modify.prop_map(|(filter, actions, reset_counts, cookie)| Update::ModifyFlows { filter, actions, reset_counts, cookie }),
        3 => any_filter().prop_map(Update::DeleteFlows),
        4 => any_group().prop_map(Update::AddGroup),
        2 => (any_group(), any::<bool>()).prop_map(|(spec, may_create)| Update::ModifyGroup { spec, may_create }),
        2 => proptest::option::weighted(0.8, 1..4_u32).prop_map(Update::DeleteGroups),
        2 => (1..3_u32, 1..3_u32).prop_map(|(id, rate)| Update::AddMeter(meter(id, rate))),
        1 => proptest::option::weighted(0.8, 1..3_u32).prop_map(Update::DeleteMeters),
        1 => any_filter().prop_map(Update::ReplaceFlows),
        1 => any::<bool>().prop_map(|meters| Update::ReplaceAll { meters }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn transactions_do_what_the_model_does(transactions in prop::collection::vec(prop::collection::vec(any_update(), 1..7), 1..10)) {
        let (mut bench, mut model) = (Bench::default(), Model::default());
        // Something to refer to.
        let base: Vec<Update> = (1..4).map(add_group).chain((1..3).map(add_meter)).collect();
        bench.ok(&base);
        model.transaction(&base).expect("not refused");
        for updates in transactions {
            (bench.now, model.now) = (bench.now + 1000, model.now + 1000);
            let before = bench.digest();
            let expected = model.transaction(&updates);
            let result = bench.apply(&updates).map(|applied| applied.counts).map_err(|refused| (refused.index, refused.code));
            // A flow may use a group and a meter that are both missing: either may be named.
            let index = |refused: &Result<Vec<u64>, (usize, &'static str)>| refused.clone().map_err(|(index, _)| index);
            prop_assert_eq!(index(&result), index(&expected), "{:?}: {:?}, not {:?}", updates, result, expected);
            if result.is_err() {
                prop_assert_eq!(before, bench.digest(), "{:?}: a refused transaction changed something", updates);
            }
            prop_assert_eq!(shown(&bench), model.shown(), "{:?}", updates);
            let (mut events, mut told) = (std::mem::take(&mut model.events), bench.removed());
            events.sort();
            told.sort();
            prop_assert_eq!(told, events, "{:?}", updates);
            for priority in 1..4 {
                bench.hit(priority, priority.into());
                let hit = model.flows.iter_mut().filter(|flow| flow.spec.priority == priority);
                hit.for_each(|flow| flow.packets += u64::from(priority));
            }
        }
    }
}
